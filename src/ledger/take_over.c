/*-------------------------------------------------------------------------
 *
 * take_over.c
 *	  An operator takes over a life whose server is gone.
 *
 * The life is retired by our current one if it is silent for longer than a lease.  What an
 * operator cannot know is checked: that nobody extends it, or its heir.  Until that is
 * known nothing is written, and the worker is asked for nothing: a call that is refused leaves no
 * trace.
 *
 * The lives of the database that this data comes from (life_rows.h) need more, because
 * with one of them all of that database's are made our own.  As long as it goes on under a
 * later life, which is not in our data, it must keep them.  So the one that is taken over
 * must be the last that we know, and still open: a server that starts on that data again
 * takes over from it at once.  After a life that was closed, or whose heir is over, there
 * may be later ones that cannot be seen from here.  And a superuser must own a server that leads
 * to its item, because that item decides for all tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/bars.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "compat.h"
#include "ledger/known_targets.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "ledger/lives.h"
#include "ledger/take_over.h"
#include "miscadmin.h"
#include "records/life_item.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/life_store.h"
#include "server/options.h"
#include "server/store.h"
#include "server/text.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "wire/http.h"
#include "wire/status.h"

/* The worker knows within some round trips that a life is over. */
#define WORKER_WAIT_US INT64CONST(30000000)

pg_noreturn static void raise_is_barred(const EoStore *store, const char *life);

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
	int64		until_us = eo_clock_monotonic_us() +
	eo_guc_hurried_us(EO_LIVES_LEASE_US + EO_LIVES_BEAT_US);

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

/*
 * Is the life over already, and ours?  Raises unless it is one of our history or a branch of
 * it, or of the database that this data comes from.
 */
static bool
is_ours_already(EoStore *store, const EoHistory *history, const uint8 *id, const char *life)
{
	EoLifeVerdict verdict;
	EoError		error;

	if (!eo_life_verdict_read(store, history, id, &verdict, &error))
		eo_error_raise_life(&error, "read", life, store->server->name);
	if (!verdict.known && !eo_life_rows_is_earlier(history, id))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("life %s is none of this database", life),
				 errdetail("It is not in its history, and does not descend from it."),
				 errhint("exactonce_lives lists those that this database can take over.")));
	return verdict.relation != EO_LIFE_OTHER;
}

/* Raise unless this earlier life is the last one of a database that does not exist here. */
static void
check_is_last(const EoHistory *history, const uint8 *id, const char *life)
{
	const EoLifeRow *original = eo_life_rows_original(history);
	char		last[EO_UUID_TEXT_LEN + 1];

	eo_hex_put_uuid(original->id, last);
	if (memcmp(original->id, id, EO_UUID_LEN) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("life %s is not the last one before the history of this database", life),
				 errdetail("That is life %s.", last),
				 errhint("If nobody goes on with the database of that life, take it over first. Single keys are settled with idem_resolve().")));
	if (eo_life_rows_original_exists(history))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("life %s is one of database \"%s\"", life,
						get_database_name(original->dboid)),
				 errdetail("This database was copied from that one, which settles what the life has left."),
				 errhint("Take over the life there. If this database replaces that one, drop that one first.")));
}

/*
 * Raise unless the server is trusted by which this earlier life is to be taken over, or one that
 * leads to the same place: the item says to the worker that an operator has done that.
 */
static void
check_is_trusted(const EoStore *store, const EoTarget *target, const char *life)
{
	EoIdentityRef owner;

	if (store->server->trusted || eo_known_target_trusted(target, &owner))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("life %s cannot be taken over by server \"%s\", for which roles other than superusers may answer",
					life, store->server->name),
			 errdetail("The life is one of the database that this data comes from. Its item makes all lives of that database this database's own, and others can write it."),
			 errhint("Use a server that a superuser owns, with the same endpoint, region, table and key_prefix, and without home 'false'. Single keys are settled with idem_resolve().")));
}

/*
 * Raise unless the heir of an earlier life is open, as it was seen, or one of ours: its
 * data may go on under a later life.
 */
static void
check_heir(const EoHistory *history, const char *life, const char *by, const EoAnswer *seen)
{
	uint8		id[EO_UUID_LEN];

	if ((seen->exists && eo_life_store_item(seen)->state == EO_LIFE_OPEN) ||
		(eo_hex_read_uuid(by, id) && eo_life_rows_find(history, id) >= 0))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("life %s was taken over by life %s, which is over itself", life, by),
			 errdetail("The data of that life may go on under a later one, which is not known here."),
			 errhint("If it does not, settle the keys with idem_resolve().")));
}

/* The present heir must be silent, too. */
static void
await_heir(EoStore *store, const EoHistory *history, bool earlier, const char *life,
		   const EoAnswer *seen)
{
	const char *by = eo_life_store_item(seen)->retired_by;
	EoAnswer   *heir = await_silence(store, by);

	if (earlier)
		check_heir(history, life, by, heir);
	eo_answer_free(heir);
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
	eo_lives_contact(store, target, "inherit", life);
	if (!eo_lives_renew(store, target, NULL, life, 0) || !eo_life_place_info(store->place, &place))
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

/*
 * The life is over for this database.  What it has left is settled by the worker, so wait
 * until that knows.
 */
static void
await_worker(const EoTarget *target, const uint8 *id, const char *life)
{
	int64		give_up_us = eo_clock_monotonic_us() + WORKER_WAIT_US;
	EoLifeWatch watch = EO_WATCH_LOOKING;

	eo_life_watch_add(target, id);
	eo_database_wake(MyDatabaseId);
	while (!eo_life_watch_is_settled(target, id))
	{
		if (eo_clock_monotonic_us() < give_up_us)
		{
			eo_http_wait(eo_clock_monotonic_us() + 2000, EO_WAIT_RAISE);
			continue;
		}
		(void) eo_life_watch_find(target, id, &watch);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("life %s is over for this database, but its worker cannot take note of that yet", life),
				 errdetail("The worker goes on trying. In exactonce_lives the life is shown as: %s.",
						   eo_life_watch_name(watch)),
				 errhint("See exactonce_lives for roles whose credentials are refused, exactonce_health, and the server's log.")));
	}
}

static void
raise_is_barred(const EoStore *store, const char *life)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("life %s on server \"%s\" is the current one of this database, and is barred there", life,
					store->server->name),
			 errdetail("Its transactions may be about to commit."),
			 errhint("Call idem_lift(), and take the life over when another one has followed it: see exactonce_lives.")));
}

bool
eo_take_over(EoStore *store, const uint8 *id)
{
	EoTarget	target;
	EoAnswer   *seen;
	char		life[EO_UUID_TEXT_LEN + 1];
	EoHistory	history;
	uint8		by[EO_UUID_LEN];
	bool		earlier;
	bool		retired;
	bool		is_ours = false;
	bool		taken = false;

	eo_options_check_committed(store->server);
	eo_hex_put_uuid(id, life);
	eo_target_of(store, &target);
	eo_life_rows_read(&history);
	if (eo_life_is_current(MyDatabaseId, id))
	{
		if (eo_bar_is_barred(&target))
			raise_is_barred(store, life);
		return false;
	}
	if (is_ours_already(store, &history, id, life))
	{
		await_worker(&target, id, life);
		return false;
	}
	earlier = eo_life_rows_is_earlier(&history, id);
	if (earlier)
	{
		check_is_last(&history, id, life);
		check_is_trusted(store, &target, life);
	}
	seen = await_silence(store, life);
	retired = seen->exists && eo_life_store_item(seen)->state == EO_LIFE_RETIRED;
	if (retired && eo_hex_read_uuid(eo_life_store_item(seen)->retired_by, by))
		is_ours = eo_bar_is_ours(&target, by);
	if (retired && !is_ours)
		await_heir(store, &history, earlier, life, seen);
	if (!is_ours && (!seen->exists || eo_life_store_item(seen)->state != EO_LIFE_CLOSED))
	{
		taken = take_as_seen(store, &target, life, seen);
		if (!taken)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("life %s on server \"%s\" has changed while it was watched", life, store->server->name),
					 errdetail("Nothing was taken over."),
					 errhint("See exactonce_lives, and try again if it is silent.")));
	}
	eo_answer_free(seen);
	await_worker(&target, id, life);
	return taken;
}
