/*-------------------------------------------------------------------------
 *
 * lives.c
 *	  For a session: the contact that its database's life has with a table, its
 *	  lease there, and whether another life is over.
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
 * than SEAL_AGE_US, and a transaction commits only if it is younger than LEASE_US
 * when the last callback runs.  An heir waits for longer than that
 * (worker_lives.c).  The age is counted from the instant at which the last confirmed
 * beat was sent, by a clock that goes on while the machine is suspended.
 *
 * A beat whose reply was lost may look like a refusal.  So every write of a life
 * carries a nonce that was noted in shared memory before: an item that is open and
 * bears a noted nonce is ours, whoever of this cluster wrote it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/service_clocks.h"
#include "cluster/target.h"
#include "commit/life_rows.h"
#include "commit/lives.h"
#include "compat.h"
#include "dynamodb/client.h"
#include "dynamodb/clock.h"
#include "dynamodb/hex.h"
#include "dynamodb/http.h"
#include "dynamodb/life_item.h"
#include "dynamodb/status.h"
#include "miscadmin.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/life_store.h"
#include "server/store.h"
#include "server/text.h"

/* A seal needs a lease that is younger, and the commit one that is. */
#define SEAL_AGE_US INT64CONST(8000000)
#define LEASE_US INT64CONST(20000000)

/* A beat is counted every so often, see EoLifeItem. */
#define BEAT_US INT64CONST(5000000)

/* A life is minted in some milliseconds. */
#define MINT_WAIT_US INT64CONST(10000000)

/* A life of this cluster that is over is retired in about a round trip. */
#define RETIRE_WAIT_US INT64CONST(1000000)

/* Lives that have retired one another are followed this far. */
#define MAX_HEIRS 4

static void await_life(EoLife *life);
static void make_contact(EoStore *store, const EoTarget *target, const char *doing,
						 const char *key, int64 deadline_us);
static bool take_turn(EoPlaceRef ref, EoPlace *place);
static void run(const EoPlace *place, EoAnswer *answer, const char *doing, const char *key,
				EoStore *store, int64 deadline_us);

/* ----- contact ----- */

void
eo_lives_contact(EoStore *store, const EoTarget *target, const char *doing,
				 const char *key)
{
	make_contact(store, target, doing, key, 0);
}

static void
make_contact(EoStore *store, const EoTarget *target, const char *doing, const char *key,
			 int64 deadline_us)
{
	while (!eo_life_place_is_open(store->place))
	{
		EoLife		life;
		EoPlace		place;
		EoAnswer   *answer;
		EoHistory	history;
		bool		open;

		/* A life that is minted now would be closed again at once. */
		if (eo_database_is_drained(MyDatabaseId))
			eo_error_raise_drained(key, store->server->name);
		await_life(&life);
		if (!eo_life_enter_place(target, life.id, &store->place, &open))
		{
			if (!eo_life_is_current(MyDatabaseId, life.id))
				continue;
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("no room for the lease of this database in table \"%s\"",
							target->table),
					 errdetail("Too many tables and key prefixes are in use."),
					 errhint("Leases of tables that are not used end with an idle worker, after five minutes.")));
		}
		if (open || !take_turn(store->place, &place))
			continue;
		place.target = *target;
		eo_life_rows_read(&history);
		answer = eo_lives_prepare(store, &place, EO_LIFE_CREATE,
								  eo_lives_ancestors(&history, life.id));
		if (answer == NULL)
		{
			eo_life_end_turn(place.ref);
			continue;
		}
		run(&place, answer, doing, key, store, deadline_us);
		(void) eo_lives_take(&place, answer);
		eo_life_end_turn(place.ref);
		eo_answer_free(answer);
	}
}

/* Wait until the worker has minted a life. */
static void
await_life(EoLife *life)
{
	int64		give_up_us = 0;

	while (!eo_life_current(MyDatabaseId, life))
	{
		int64		now_us = eo_clock_monotonic_us();

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
 * Wait for the turn to write the item, or for what others write.  Returns false if the
 * caller is to look again.
 */
static bool
take_turn(EoPlaceRef ref, EoPlace *place)
{
	if (eo_life_take_turn(ref))
		return eo_life_place_info(ref, place);
	eo_http_wait(eo_clock_monotonic_us() + 2000, EO_WAIT_RAISE);
	return false;
}

static void
run(const EoPlace *place, EoAnswer *answer, const char *doing, const char *key, EoStore *store,
	int64 deadline_us)
{
	(void) eo_answer_run_until(answer, deadline_us);
	if (answer->outcome != EO_FAILED_CALL)
		return;
	eo_life_end_turn(place->ref);
	/* Of the key itself nothing was asked yet. */
	if (answer->error.status == EO_UNKNOWN)
		answer->error.status = EO_UNANSWERED;
	eo_error_raise(&answer->error, doing, key, store->server->name);
}

/* ----- the lease ----- */

void
eo_lives_renew(EoStore *store, const EoTarget *target, const char *key, int64 deadline_us)
{
	for (;;)
	{
		EoPlace		place;
		EoAnswer   *answer;

		make_contact(store, target, "commit", key, deadline_us);
		if (eo_lives_lease_is_young(store->place))
			return;
		if (!take_turn(store->place, &place))
			continue;
		place.target = *target;
		answer = eo_lives_prepare(store, &place, EO_LIFE_BEAT, NULL);
		if (answer == NULL)
		{
			eo_life_end_turn(place.ref);
			continue;
		}
		run(&place, answer, "commit", key, store, deadline_us);
		(void) eo_lives_take(&place, answer);
		eo_life_end_turn(place.ref);
		eo_answer_free(answer);
	}
}

bool
eo_lives_lease_is_young(EoPlaceRef place)
{
	return eo_life_lease_age_us(place) < eo_guc_hurried_us(SEAL_AGE_US);
}

bool
eo_lives_lease_holds(EoPlaceRef place)
{
	return eo_life_lease_age_us(place) < eo_guc_hurried_us(LEASE_US);
}

/* ----- writes on the current life ----- */

int64
eo_lives_now_ms(EoStore *store)
{
	if (eo_service_clock_follow(&store->client))
		return eo_client_now_ms(&store->client);
	return (eo_clock_steady_us() + eo_clock_host_offset_us()) / 1000;
}

/* The number of a beat that is sent now. */
static int64
beat_now(const EoPlace *place)
{
	EoLife		life;
	int64		beat = place->beat + 1;

	if (eo_life_current(place->target.dboid, &life))
		beat = Max(beat, (eo_clock_steady_us() - life.began_us) / eo_guc_hurried_us(BEAT_US));
	return Max(beat, place->sent_beat);
}

EoAnswer *
eo_lives_prepare(EoStore *store, EoPlace *place, EoLifeVerb verb, const char *ancestors)
{
	EoLifeWrite w = {.seen_beat = place->beat,.ancestors = ancestors};
	char		id[EO_UUID_TEXT_LEN + 1];
	char		nonce_text[24];
	char		system[24];
	uint64		nonce;
	EoLife		life;

	if (verb != EO_LIFE_CLOSE &&
		(!eo_life_current(place->target.dboid, &life) ||
		 memcmp(life.id, place->life, EO_UUID_LEN) != 0))
		return NULL;
	if (!pg_strong_random(&nonce, sizeof(nonce)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a nonce: no random numbers")));
	eo_hex_put_uuid(place->life, id);
	snprintf(nonce_text, sizeof(nonce_text), UINT64_FORMAT, nonce);
	snprintf(system, sizeof(system), UINT64_FORMAT, GetSystemIdentifier());
	w.life = id;
	w.nonce = nonce_text;
	w.beat = beat_now(place);
	w.home = place->home ? place->target.table : "";
	w.system_identifier = system;
	w.database = place->target.dboid;
	w.timeline = eo_compat_timeline();
	w.now_ms = eo_lives_now_ms(store);
	w.ttl_s = w.now_ms / 1000 + EO_LIFE_TTL_S;
	place->sent_us = eo_clock_steady_us();
	eo_life_sending(place->ref, nonce, w.beat, place->sent_us);
	return eo_life_store_prepare_write(store, place->target.prefix, verb, &w);
}

bool
eo_lives_take(const EoPlace *place, const EoAnswer *answer)
{
	const EoLifeItem *item = eo_life_store_item(answer);
	int64		sent_us;

	if (answer->outcome == EO_FAILED_CALL)
		return true;
	if (answer->outcome == EO_APPLIED && item->state == EO_LIFE_OPEN)
	{
		eo_life_confirmed(place->ref, item->beat, place->sent_us, &place->target);
		return true;
	}
	if (answer->exists && item->state == EO_LIFE_OPEN && item->nonce != NULL &&
		eo_life_sent(place->ref, strtou64(item->nonce, NULL, 10), &sent_us))
	{
		eo_life_confirmed(place->ref, item->beat, sent_us, &place->target);
		return true;
	}
	/* It is over because we have closed it. */
	if (answer->exists && item->state == EO_LIFE_CLOSED && answer->outcome == EO_APPLIED)
		return true;
	eo_life_give_up(place->target.dboid, place->life);
	return false;
}

/* ----- other lives ----- */

bool
eo_lives_lead_into(const EoHistory *history, const char *ancestors)
{
	uint8		id[EO_UUID_LEN];

	while (ancestors != NULL && eo_hex_read_uuid(ancestors, id))
	{
		if (eo_life_rows_find(history, id) >= 0)
			return true;
		ancestors += EO_UUID_TEXT_LEN;
		ancestors += *ancestors == ' ';
	}
	return false;
}

void
eo_lives_judge(const EoHistory *history, const uint8 *id, bool over, const char *ancestors,
			   EoLifeVerdict *verdict)
{
	int			i = eo_life_rows_find(history, id);

	verdict->relation = EO_LIFE_OTHER;
	verdict->known = i >= 0 || eo_lives_lead_into(history, ancestors);
	verdict->this_run = i >= 0 && memcmp(history->rows[i].run, eo_life_run(), EO_UUID_LEN) == 0;
	verdict->next_floor = UINT64_MAX;
	if (over && verdict->known)
		verdict->relation = i >= 0 ? EO_LIFE_PAST : EO_LIFE_BRANCH;

	/*
	 * The history goes from new to old: look for the first of another run
	 * after it.
	 */
	for (int j = i - 1; i >= 0 && j >= 0; j--)
	{
		if (memcmp(history->rows[j].run, history->rows[i].run, EO_UUID_LEN) == 0)
			continue;
		verdict->next_floor = history->rows[j].xid_floor;
		break;
	}
}

/*
 * Is the life over for us, by what its item says?  It is if it was closed, or retired by
 * our current life.  If an earlier life of ours has retired it, that must be over for us
 * in turn, and not have been retired by somebody else.  If a life of others has, that
 * must have been retired by ours; that it was closed says only that nothing of it is
 * left, and its successors may go on.
 */
static bool
is_over(EoStore *store, const char *prefix, const EoHistory *history, const EoLifeItem *item,
		int depth, EoError *error, bool *failed)
{
	uint8		by[EO_UUID_LEN];
	EoAnswer   *answer;
	EoLifeItem *heir;
	bool		over = false;

	if (item->state != EO_LIFE_RETIRED)
		return item->state == EO_LIFE_CLOSED;
	if (!eo_hex_read_uuid(item->retired_by, by))
		return false;
	if (eo_life_is_current(MyDatabaseId, by))
		return true;
	if (depth >= MAX_HEIRS)
		return false;
	answer = eo_answer_run_one(eo_life_store_prepare_read(store, prefix, item->retired_by));
	heir = eo_life_store_item(answer);
	if (answer->outcome == EO_FAILED_CALL)
	{
		*error = answer->error;
		*failed = true;
	}
	else if (answer->exists &&
			 (heir->state != EO_LIFE_CLOSED || eo_life_rows_find(history, by) >= 0))
		over = is_over(store, prefix, history, heir, depth + 1, error, failed);
	eo_answer_free(answer);
	return over;
}

/* Is the worker about to retire the life here, because this cluster knows that it is over? */
static bool
is_being_retired(const EoTarget *target, const uint8 *id)
{
	uint32		cursor = 0;
	EoPlace		place;

	while (eo_life_walk_places(MyDatabaseId, false, &cursor, &place))
	{
		if (memcmp(place.life, id, EO_UUID_LEN) == 0 && place.open && !place.retired &&
			eo_target_same_table(&place.target, target) &&
			strcmp(place.target.prefix, target->prefix) == 0)
			return true;
	}
	return false;
}

bool
eo_lives_ask(EoStore *store, const uint8 *id, EoLifeVerdict *verdict, EoError *error)
{
	const char *prefix = eo_text_to_utf8(store->server->key_prefix);
	int64		give_up_us = eo_clock_monotonic_us() + RETIRE_WAIT_US;
	char		text[EO_UUID_TEXT_LEN + 1];
	EoHistory	history;
	EoTarget	target;
	EoAnswer   *answer;
	bool		failed = false;
	bool		over;

	memset(verdict, 0, sizeof(*verdict));
	if (eo_life_is_current(MyDatabaseId, id))
	{
		verdict->relation = EO_LIFE_OURS;
		verdict->known = verdict->this_run = true;
		verdict->next_floor = UINT64_MAX;
		return true;
	}
	eo_database_wake(MyDatabaseId);
	eo_target_of(store, &target);
	while (is_being_retired(&target, id) && eo_clock_monotonic_us() < give_up_us)
		eo_http_wait(eo_clock_monotonic_us() + 2000, EO_WAIT_RAISE);
	eo_life_rows_read(&history);
	eo_hex_put_uuid(id, text);
	answer = eo_answer_run_one(eo_life_store_prepare_read(store, prefix, text));
	if (answer->outcome == EO_FAILED_CALL)
	{
		*error = answer->error;
		eo_answer_free(answer);
		return false;
	}
	over = answer->exists &&
		is_over(store, prefix, &history, eo_life_store_item(answer), 0, error, &failed);
	eo_lives_judge(&history, id, over,
				   answer->exists ? eo_life_store_item(answer)->ancestors : NULL, verdict);
	if (verdict->relation == EO_LIFE_OTHER && !failed)
	{
		eo_life_watch_add(&target, id);
		eo_database_wake(MyDatabaseId);
	}
	eo_answer_free(answer);
	return !failed;
}

/* ----- an operator takes over ----- */

/* Read the item of a life.  Raises if DynamoDB does not answer. */
static EoAnswer *
read_item(EoStore *store, const char *life)
{
	const char *prefix = eo_text_to_utf8(store->server->key_prefix);
	EoAnswer   *answer = eo_life_store_prepare_read(store, prefix, life);

	if (eo_answer_run_one(answer)->outcome == EO_FAILED_CALL)
		eo_error_raise_life(&answer->error, "read", life, store->server->name);
	return answer;
}

/*
 * Wait for longer than a lease, and see that there was no beat: whoever has the life has
 * stopped committing by then.
 */
static EoAnswer *
await_silence(EoStore *store, const char *life)
{
	EoAnswer   *first = read_item(store, life);
	EoAnswer   *second;
	int64		until_us = eo_clock_monotonic_us() + eo_guc_hurried_us(LEASE_US + BEAT_US);

	if (!first->exists || eo_life_store_item(first)->state != EO_LIFE_OPEN)
		return first;
	while (eo_clock_monotonic_us() < until_us)
		eo_http_wait(until_us, EO_WAIT_RAISE);
	second = read_item(store, life);
	if (second->exists && eo_life_store_item(second)->state == EO_LIFE_OPEN &&
		eo_life_store_item(second)->beat != eo_life_store_item(first)->beat)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("life %s on server \"%s\" goes on", life, store->server->name),
				 errdetail("A server extends it every few seconds, and may commit under it."),
				 errhint("Stop that server first.")));
	eo_answer_free(first);
	return second;
}

/* Raise unless the life is one of our history, or a branch of it. */
static void
check_is_ours(const uint8 *id, const char *life, const EoAnswer *seen)
{
	EoHistory	history;

	eo_life_rows_read(&history);
	if (eo_life_rows_find(&history, id) >= 0 ||
		(seen->exists && eo_lives_lead_into(&history, eo_life_store_item(seen)->ancestors)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("life %s is none of this database", life),
			 errdetail("It is not in its history, and does not descend from it."),
			 errhint("exactonce_lives lists those that this database can take over.")));
}

/* Retire the life as it was seen, or inherit it from its heir.  Returns if we have. */
static bool
take_as_seen(EoStore *store, const EoTarget *target, const char *life, const EoAnswer *seen)
{
	const EoLifeItem *item = seen->exists ? eo_life_store_item(seen) : NULL;
	EoLifeVerb	verb = EO_LIFE_RETIRE_ABSENT;
	EoLifeWrite w = {.life = life};
	char		by[EO_UUID_TEXT_LEN + 1];
	EoPlace		place;
	EoAnswer   *answer;
	bool		taken;

	/*
	 * A life that was retired itself, and does not know it, must retire
	 * nobody.
	 */
	eo_lives_renew(store, target, life, 0);
	if (!eo_life_place_info(store->place, &place))
		return false;
	eo_hex_put_uuid(place.life, by);
	w.by = by;
	w.now_ms = eo_lives_now_ms(store);
	if (item != NULL && item->state == EO_LIFE_RETIRED)
	{
		verb = EO_LIFE_INHERIT;
		w.seen_by = item->retired_by;
	}
	else if (item != NULL)
	{
		verb = EO_LIFE_RETIRE;
		w.seen_beat = item->beat;
	}
	answer = eo_life_store_prepare_write(store, target->prefix, verb, &w);
	if (eo_answer_run_one(answer)->outcome == EO_FAILED_CALL)
		eo_error_raise_life(&answer->error, "take over", life, store->server->name);
	taken = answer->outcome == EO_APPLIED;
	eo_answer_free(answer);
	return taken;
}

bool
eo_lives_take_over(EoStore *store, const uint8 *id)
{
	EoTarget	target;
	EoAnswer   *seen;
	EoLifeVerdict verdict;
	EoError		error;
	char		life[EO_UUID_TEXT_LEN + 1];
	bool		taken = false;

	eo_hex_put_uuid(id, life);
	eo_target_of(store, &target);
	eo_lives_contact(store, &target, "inherit", life);
	/* It is over already, and ours. */
	if (eo_lives_ask(store, id, &verdict, &error) && verdict.relation != EO_LIFE_OTHER)
		return false;
	seen = await_silence(store, life);
	check_is_ours(id, life, seen);
	/* The present heir must be silent, too. */
	if (seen->exists && eo_life_store_item(seen)->state == EO_LIFE_RETIRED)
		eo_answer_free(await_silence(store, eo_life_store_item(seen)->retired_by));
	if (!seen->exists || eo_life_store_item(seen)->state != EO_LIFE_CLOSED)
		taken = take_as_seen(store, &target, life, seen);
	eo_life_watch_add(&target, id);
	eo_database_wake(MyDatabaseId);
	eo_answer_free(seen);
	return taken;
}
