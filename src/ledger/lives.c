/*-------------------------------------------------------------------------
 *
 * lives.c
 *	  For a session: the contact that its database's life has with a table, and its
 *	  lease there.
 *
 * To say how a commit has ended one must hold the data in which it is recorded, and
 * of several copies of that data only one may speak.  So records are sealed under a
 * life, and a life has a lease: an item in each table that it uses, which is extended
 * every few seconds.  The heir of a life (another start of the server, a promoted
 * standby) settles its records only after it has retired the life, by a write on
 * condition that the item is open and at the beat that was seen.
 *
 * A life whose beat is refused stops at once.  It may not notice for a while, because
 * it was stopped or cannot reach the table.  So a seal needs a lease that is younger
 * than SEAL_AGE_US, and a transaction commits only if it is younger than EO_LIVES_LEASE_US
 * when the last callback runs.  An heir waits for longer than that
 * (takeover.c).  The age is counted from the instant at which the last confirmed
 * beat was sent, by a clock that goes on while the machine is suspended.
 *
 * A beat whose reply was lost may look like a refusal.  So every write of a life
 * carries a nonce that was noted in shared memory before, with the beats that were sent with
 * it.  An item that is open, bears a noted nonce at one of its beats, and has gone on
 * from where the refused write saw it, is ours, whichever process of this cluster wrote it.
 * Any other item is not: somebody has changed it.
 *
 * The number of a beat is that of the interval of EO_LIVES_BEAT_US in which it is sent, counted
 * by our own clock since the life began, or one more.  The row of the life notes the number
 * by the clock (own_life.c), so whoever answers our requests, and however often he has us
 * send them, cannot make a copy of our data look younger or older than it is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/arrays.h"
#include "cluster/bars.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/service_clocks.h"
#include "cluster/target.h"
#include "compat.h"
#include "ledger/life_rows.h"
#include "ledger/lives.h"
#include "miscadmin.h"
#include "records/life_item.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/life_store.h"
#include "server/options.h"
#include "server/store.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "wire/http.h"
#include "wire/status.h"

/* A seal needs a lease that is younger than this; the commit, see EO_LIVES_LEASE_US. */
#define SEAL_AGE_US INT64CONST(8000000)

/* A life is minted in some milliseconds. */
#define MINT_WAIT_US INT64CONST(10000000)

static void check_not_drained(const char *key, const char *server);
static void make_contact(EoStore *store, const EoTarget *target, const char *doing,
						 const char *key, int64 deadline_us);
static void write_item(EoStore *store, const EoTarget *target, EoLifeVerb verb,
					   const char *doing, const char *key, int64 deadline_us);
static bool win_back(const EoStore *store, const EoTarget *target);
static void lose(const EoPlace *place, const EoAnswer *answer);
static bool shows_own_beat(const EoPlace *place, const EoLifeItem *item, int64 *sent_us);

/* ----- contact ----- */

void
eo_lives_contact(EoStore *store, const EoTarget *target, const char *doing,
				 const char *key)
{
	eo_options_check_committed(store->server);
	make_contact(store, target, doing, key, 0);
}

static void
make_contact(EoStore *store, const EoTarget *target, const char *doing, const char *key,
			 int64 deadline_us)
{
	while (!eo_life_place_is_open(store->place))
	{
		EoLife		life;
		bool		open;

		check_not_drained(key, store->server->name);
		eo_lives_await(key, store->server->name, &life);
		if (!eo_life_enter_place(target, life.id, &store->place, &open))
		{
			if (!eo_life_is_current(MyDatabaseId, life.id))
				continue;
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("no room for the lease of this database in table \"%s\"",
							target->table),
					 eo_array_has_room(eo_life_place_entries(), MyDatabaseId) ?
					 errdetail("The owner of server \"%s\" has as many tables and key prefixes in use as the servers of one role may have: half of what the others leave to this database.",
							   store->server->name) :
					 errdetail("This database has as many tables and key prefixes in use as one database may have: half of what the others leave."),
					 errhint("Leases of tables that are not used end with an idle worker, after five minutes.")));
		}
		if (!win_back(store, target) && !open)
			write_item(store, target, EO_LIFE_CREATE, doing, key, deadline_us);
	}
}

/*
 * The place may be barred: then the next life has it, if the tenant's budget pays for that, and
 * else the call is refused.  Returns false if the place is not barred.
 */
static bool
win_back(const EoStore *store, const EoTarget *target)
{
	EoPlace		place;

	if (!eo_life_place_info(store->place, &place) || place.barred_at == 0)
		return false;
	if (eo_bar_spend(&place))
		return true;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" of server \"%s\" is barred, because the lease of this database was lost there",
					target->table, store->server->name),
			 errdetail("The item of its life was %s. No more lives of the database are spent today for the tables of its owner.",
					   place.barred_why),
			 errhint("Find out who writes the ORIGIN items of that table, and call idem_lift().")));
}

/* A life that is minted in a drained database would be closed again at once. */
static void
check_not_drained(const char *key, const char *server)
{
	if (eo_database_is_drained(MyDatabaseId))
		eo_error_raise_drained(key, server);
}

void
eo_lives_await(const char *key, const char *server, EoLife *life)
{
	int64		give_up_us = 0;

	while (!eo_life_current(MyDatabaseId, life))
	{
		int64		now_us = eo_clock_monotonic_us();

		check_not_drained(key, server);
		if (give_up_us == 0)
			give_up_us = now_us + MINT_WAIT_US;
		if (now_us >= give_up_us)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the exactonce worker of this database has not begun a life"),
					 errdetail("Records are claimed and sealed under it."),
					 errhint("See the server's log and exactonce_lives.")));
		(void) eo_database_want(MyDatabaseId);
		eo_database_want_life(MyDatabaseId);
		eo_http_wait(now_us + 2000, EO_WAIT_RAISE);
	}
}

char *
eo_lives_ancestors(const EoHistory *history, const uint8 *life)
{
	char	   *text = palloc0(EO_ANCESTORS_LEN + 1);
	char	   *at = text;
	int			first = eo_life_rows_find(history, life) + 1;

	for (int i = first; i < history->n && i < first + EO_MAX_ANCESTORS; i++)
	{
		if (at > text)
			*at++ = ' ';
		eo_hex_put_uuid(history->rows[i].id, at);
		at += EO_UUID_TEXT_LEN;
	}
	return text;
}

/*
 * Create or extend the item of store->place, as the session reaches it.  If another
 * process has the turn to write it, or the life is over, this returns soon, and the
 * caller looks again.  Raises if the write has no definite answer.
 */
static void
write_item(EoStore *store, const EoTarget *target, EoLifeVerb verb, const char *doing,
		   const char *key, int64 deadline_us)
{
	const char *ancestors = NULL;
	EoHistory	history;
	EoPlace		place;
	EoAnswer   *answer;

	if (!eo_life_take_turn(store->place))
	{
		eo_http_wait(eo_clock_monotonic_us() + 2000, EO_WAIT_RAISE);
		return;
	}
	if (!eo_life_place_info(store->place, &place))
		return;
	if (verb == EO_LIFE_CREATE)
	{
		eo_life_rows_read(&history);
		ancestors = eo_lives_ancestors(&history, place.life);
	}
	place.target = *target;
	answer = eo_lives_prepare(store, &place, verb, ancestors);
	if (answer != NULL)
		(void) eo_lives_take(&place, eo_answer_run_until(answer, deadline_us));
	eo_life_end_turn(place.ref);
	if (answer == NULL)
	{
		eo_http_wait(eo_clock_monotonic_us() + 2000, EO_WAIT_RAISE);
		return;
	}
	if (answer->outcome == EO_FAILED_CALL)
	{
		/* Only the life was written: nothing was asked about the key. */
		if (answer->error.status == EO_UNKNOWN)
			answer->error.status = EO_UNANSWERED;
		eo_life_leave_place(place.ref);
		eo_error_raise(&answer->error, doing, key, store->server->name);
	}
	eo_answer_free(answer);
}

/* ----- the lease ----- */

bool
eo_lives_renew(EoStore *store, const EoTarget *target, const uint8 *life, const char *key,
			   int64 deadline_us)
{
	while (life == NULL || eo_life_is_current(MyDatabaseId, life))
	{
		if (eo_bar_is_barred(target))
			return false;
		make_contact(store, target, "commit", key, deadline_us);
		if (eo_lives_lease_is_young(store->place))
			return true;
		write_item(store, target, EO_LIFE_BEAT, "commit", key, deadline_us);
	}
	return false;
}

bool
eo_lives_lease_is_young(EoPlaceRef place)
{
	return eo_life_lease_age_us(place) < eo_guc_hurried_us(SEAL_AGE_US);
}

bool
eo_lives_lease_holds(EoPlaceRef place)
{
	return eo_life_lease_age_us(place) < eo_guc_hurried_us(EO_LIVES_LEASE_US);
}

/* ----- writes on the current life ----- */

int64
eo_lives_now_ms(EoStore *store)
{
	if (eo_service_clock_follow(&store->client))
		return eo_client_now_ms(&store->client);
	return (eo_clock_steady_us() + eo_clock_host_offset_us()) / 1000;
}

int64
eo_lives_beat_by_clock(const EoLife *life)
{
	return (eo_clock_steady_us() - life->began_us) / eo_guc_hurried_us(EO_LIVES_BEAT_US) + 1;
}

/*
 * The number of a beat that is sent now; 0: none is, because the next one would be too far ahead
 * of the clock.  A beat is sent when the last confirmed one is an interval old.  That one was at
 * most a number ahead when it was sent, so the next one is not 0: whoever gets 0 has a
 * lease that another process has just extended.
 */
static int64
number_beat(const EoLife *life, const EoPlace *place)
{
	int64		by_clock = eo_lives_beat_by_clock(life);
	int64		next = place->beat + 1;

	return next <= by_clock + 1 ? Max(next, by_clock) : 0;
}

EoAnswer *
eo_lives_prepare(EoStore *store, EoPlace *place, EoLifeVerb verb, const char *ancestors)
{
	EoLifeWrite w = {.seen_beat = place->beat,.ancestors = ancestors};
	EoLife		life;
	char		id[EO_UUID_TEXT_LEN + 1];
	char		nonce_text[24];
	char		system[24];
	uint64		nonce;
	int64		sent_us;

	if (place->barred_at != 0)
		return NULL;
	if (verb != EO_LIFE_CLOSE)
	{
		if (!eo_life_current(place->target.dboid, &life) ||
			memcmp(life.id, place->life, EO_UUID_LEN) != 0)
			return NULL;
		w.beat = number_beat(&life, place);
		if (w.beat == 0)
			return NULL;
	}
	if (!pg_strong_random(&nonce, sizeof(nonce)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a nonce: no random numbers")));
	eo_hex_put_uuid(place->life, id);
	sent_us = eo_clock_steady_us();
	if (!eo_life_sending(place->ref, place->beat, w.beat, &nonce, &sent_us))
		return NULL;
	place->sent_nonce = nonce;
	snprintf(nonce_text, sizeof(nonce_text), UINT64_FORMAT, nonce);
	snprintf(system, sizeof(system), UINT64_FORMAT, GetSystemIdentifier());
	w.life = id;
	w.nonce = nonce_text;
	w.home = place->home ? place->target.table : "";
	w.system_identifier = system;
	w.database = place->target.dboid;
	w.timeline = eo_compat_timeline();
	w.now_ms = eo_lives_now_ms(store);
	w.ttl_s = w.now_ms / 1000 + EO_LIFE_TTL_S;
	return eo_life_store_prepare_write(store, place->target.prefix, verb, &w);
}

bool
eo_lives_take(const EoPlace *place, const EoAnswer *answer)
{
	const EoLifeItem *item = eo_life_store_item(answer);
	int64		sent_us;

	if (answer->outcome == EO_FAILED_CALL)
	{
		/*
		 * While nobody can be asked, many processes try in vain.  What the
		 * item may bear must not be forgotten for that.
		 */
		if (!answer->call.in_doubt)
			eo_life_not_sent(place->ref, place->sent_nonce);
		return true;
	}
	if (answer->exists && shows_own_beat(place, item, &sent_us))
	{
		eo_life_confirmed(place->ref, item->beat, sent_us, &place->target);
		return true;
	}
	lose(place, answer);
	return false;
}

/* The item is not ours any more. */
static void
lose(const EoPlace *place, const EoAnswer *answer)
{
	const EoLifeItem *item = eo_life_store_item(answer);
	char		why[sizeof(place->barred_why)] = "changed";
	uint8		heir[EO_UUID_LEN];

	if (!answer->exists)
		strlcpy(why, "removed", sizeof(why));
	else if (item->state == EO_LIFE_CLOSED)
		strlcpy(why, "closed", sizeof(why));
	else if (item->state == EO_LIFE_RETIRED)
		strlcpy(why, "retired", sizeof(why));
	/* Nothing else that a tenant has written there is repeated. */
	if (item->state == EO_LIFE_RETIRED && eo_hex_read_uuid(item->retired_by, heir))
	{
		strlcat(why, " by life ", sizeof(why));
		eo_hex_put_uuid(heir, why + strlen(why));
	}
	/* A server that a superuser has made a tenant's costs no life any more. */
	if (!eo_bar_lose(place, eo_target_is_trusted_by(&place->target, answer->store), why))
		return;
	ereport(LOG,
			(errmsg("exactonce: the life of this database in table \"%s\" is not its own any more, and is barred there",
					place->target.table),
			 errdetail("Its item with key_prefix \"%s\" was %s. Server \"%s\" leads there.",
					   place->target.prefix, why, answer->store->server->name),
			 errhint("The life goes on in other tables. See exactonce_lives.")));
}

/*
 * Is the item as one of our writes has left it?  Since the write that is answered was
 * conditioned on its beat the item can only have gone on.  So an item that has not was changed by
 * somebody, or the answer is false.
 */
static bool
shows_own_beat(const EoPlace *place, const EoLifeItem *item, int64 *sent_us)
{
	uint64		nonce = item->nonce != NULL ? strtou64(item->nonce, NULL, 10) : 0;

	if (item->state != EO_LIFE_OPEN || item->nonce == NULL || item->beat <= place->beat)
		return false;
	return eo_life_sent(place->ref, nonce, item->beat, sent_us);
}
