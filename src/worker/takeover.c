/*-------------------------------------------------------------------------
 *
 * takeover.c
 *	  The worker's second duty: lives that are over, and what they have left.
 *
 * A life that may be over is a check on the board (life_board.c): one life, in one place.  A
 * check comes from shared memory (lives of this cluster that have ended), from a row of the
 * outbox or a slot that names it, from a session that met it in a record, and from the
 * history: the last lives before ours, in each place that we use.
 *
 *	 LOOK: read the item.
 *	   closed, or retired by our current life		-> OVER
 *	   retired by another life						-> look at that one, then again here
 *	   open or absent, and it ended in this cluster	-> RETIRE
 *	   open or absent, and silent for long		-> RETIRE, if that is allowed
 *	   else											-> LOOK, after LOOK_US
 *	 RETIRE: one write, on condition that the item is as it was read.
 *	   applied -> OVER; refused -> LOOK
 *	 OVER: if our current life is given up, and the life was retired -> LOOK
 *
 * What was retired is ours only as long as the life that has retired it is ours: another
 * heir that retires our current life inherits with it all that it has inherited.
 *
 * A life that is silent (life_check.c), or was not read yet, is read every EO_LIVES_PACE_US.  A
 * read whose answer is late delays no other: several are under way.
 *
 * The lives of the database that this data comes from (ledger/life_rows.h) are none of
 * ours, and are never retired here.  If the item of the last one says that we have
 * retired it, an operator has decided that: then they are made a part of our history.  That is
 * believed if the item was read as a superuser, by a trusted server (eo_options_tenant()).
 *
 * The first trusted place of a life is its home.  It is retired there before it is retired in the
 * other trusted ones, so that of two heirs one has all of it.  The places of tenants do not wait,
 * and nothing waits for them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/bars.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/slot_prepared.h"
#include "cluster/target.h"
#include "ledger/known_targets.h"
#include "ledger/life_check.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "ledger/lives.h"
#include "ledger/lock_limit.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "records/life_item.h"
#include "server/answer.h"
#include "server/guc.h"
#include "server/life_store.h"
#include "server/store.h"
#include "utils/memutils.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "worker/jobs.h"
#include "worker/life_board.h"
#include "worker/own_life.h"
#include "worker/sources.h"
#include "worker/write_targets.h"

#define LOOK_US INT64CONST(5000000)

/* A look that has failed is taken again after this. */
#define LOOK_RETRY_US INT64CONST(1000000)

/* The most reads of an item in flight: the first has timed out before a sixth is due. */
#define MAX_READS 5

/* A life that has another heir is looked at again after this. */
#define HEIR_US INT64CONST(5000000)

/* A life that waits for our own lease is looked at again after this; or for its home or heir. */
#define LEASE_PAUSE_US INT64CONST(50000)
#define HOME_PAUSE_US INT64CONST(200000)

/* A tenant may keep his places from being dealt with: then they are forgotten after this. */
#define FORGET_US INT64CONST(60000000)

/* The lives before ours that are looked at in each place. */
#define LOOK_BACK 20
#define KEEP_CLOSED (2 * LOOK_BACK) /* so many checks of closed lives */

/* A read or a write of the item; data of a job. */
typedef struct Look
{
	EoLifeCheck *check;
	int64		sent_us;		/* steady clock */
} Look;

static struct
{
	uint32		losses;			/* the board's count at the last look */
	int64		due_us;			/* the next look */
	uint64		looked_back[EO_MAX_PLACES]; /* by the index of a place: its
											 * generation */
}			takeover;

static void look_again(void);
static void look_back(const EoPlace *place);
static void collect(void);
static void fetch_checks(void);
static EoAnswer *prepare_look(EoWorkerJob *job, EoStore *store);
static EoAnswer *prepare_retirement(EoWorkerJob *job, EoStore *store);
static void put_off_retirement(EoWorkerJob *job, int64 pause_us);
static void put_off_check(EoWorkerJob *job, int64 pause_us);
static bool take_read(EoWorkerJob *job, const EoAnswer *answer);
static bool take_retirement(EoWorkerJob *job, const EoAnswer *answer);
static void take_look(EoLifeCheck *c, const EoAnswer *answer, int64 sent_us);
static void take_retired(EoLifeCheck *c, const EoAnswer *answer);
static void turn_to_superuser(void *arg);
static bool lasts_too_long(const EoPlace *place);
static bool is_trusted(const EoTarget *target);
static void set_over(EoLifeCheck *c);

static const EoWorkerJobKind look_kind = {
	.prepare = prepare_look,
	.take = take_read,
	.put_off = put_off_check,
	.lane = EO_WORKER_LOOKS
};

static const EoWorkerJobKind retirement_kind = {
	.prepare = prepare_retirement,
	.take = take_retirement,
	.put_off = put_off_retirement,
	.lane = EO_WORKER_LOOKS
};

/* Forget the check that was closed first, if there are too many. */
static void
drop_closed(void)
{
	EoLifeCheck *oldest = NULL;
	int			n = 0;

	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (c->stage != EO_LIFE_CHECK_OVER || !c->closed || c->in_flight > 0)
			continue;
		if (oldest == NULL)
			oldest = c;
		n++;
	}
	if (n > KEEP_CLOSED)
		eo_life_board_remove(oldest);
}

void
eo_takeover_fetch(void)
{
	uint32		cursor = 0;
	EoPlace		place;

	takeover.due_us = INT64_MAX;
	if (takeover.losses != eo_life_board_counts()->losses)
		look_again();
	while (eo_life_walk_places(MyDatabaseId, true, &cursor, &place))
	{
		if (place.open)
			look_back(&place);
	}
	drop_closed();
	eo_life_board_lapse();
	collect();
	fetch_checks();
	eo_life_board_publish();
}

int64
eo_takeover_due_us(void)
{
	return takeover.due_us;
}

/*
 * Our current life was given up, perhaps because another heir has retired it.  Look again
 * at every life that was retired, and leave alone what it has left until it is over for
 * our next life.  A life that was closed is over for good.
 */
static void
look_again(void)
{
	takeover.losses = eo_life_board_counts()->losses;
	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (c->stage == EO_LIFE_CHECK_OVER && !c->closed)
			eo_life_board_take_back(c);
	}
}

/* The lives before ours may have left something here. */
static void
look_back(const EoPlace *place)
{
	const EoHistory *history = eo_life_board_history();
	int			first;

	if (takeover.looked_back[place->ref.index] == place->ref.generation)
		return;
	takeover.looked_back[place->ref.index] = place->ref.generation;
	first = eo_life_rows_find(history, place->life) + 1;
	for (int i = first; i < history->n + history->nearlier && i < first + LOOK_BACK; i++)
	{
		/* The original of a copy of this cluster goes on, as a rule. */
		if (history->rows[i].number == 0 || history->rows[i].dboid != place->target.dboid)
			continue;
		(void) eo_life_board_enter_life(&place->target, history->rows[i].id);
	}
}

/* ----- checks ----- */

/*
 * May the life have an item in this place that is not dealt with?  A request that was sent
 * may have created it.
 */
static bool
is_left(const EoPlace *place)
{
	return (place->open || place->sent) && !place->retired && place->barred_at == 0;
}

/*
 * Are all places of a life that has ended here dealt with?  Those of tenants count only for a
 * while.  Then the life is judged there as any other, by its row and its item.
 */
static bool
is_settled(const uint8 *id)
{
	uint32		cursor = 0;
	EoPlace		place;

	while (eo_life_walk_places(MyDatabaseId, false, &cursor, &place))
	{
		if (memcmp(place.life, id, EO_UUID_LEN) == 0 && is_left(&place) &&
			(is_trusted(&place.target) || !lasts_too_long(&place)))
			return false;
	}
	return true;
}

static bool
lasts_too_long(const EoPlace *place)
{
	return eo_clock_monotonic_us() - eo_life_board_enter(place)->ended_us >
		eo_guc_hurried_us(FORGET_US);
}

/* Is it a place of a superuser still? */
static bool
is_trusted(const EoTarget *target)
{
	return eo_target_is_trusted_by(target, eo_write_target_of(target)->store);
}

/* The life has no places in shared memory any more. */
static void
forget_ended(const uint8 *id)
{
	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (memcmp(c->place.life, id, EO_UUID_LEN) == 0)
			c->ended = false;
	}
	eo_life_board_touch();
}

/* A session has met the life, or waits for its end: look at it at once. */
static void
look_after(const EoPlace *place)
{
	EoLifeCheck *c = eo_life_board_enter_life(&place->target, place->life);

	if (c == NULL)
		return;
	c->met = true;
	if (c->stage == EO_LIFE_CHECK_OVER)
		eo_life_watch_settles(&c->place.target, c->place.life);
	else if (c->in_flight == 0)
		c->due_us = 0;
}

/* Make checks of what shared memory tells, and drop lives that are dealt with. */
static void
collect(void)
{
	uint32		cursor = 0;
	uint32		walk;
	uint8		id[EO_UUID_LEN];
	bool		this_run;
	EoPlace		place;

	while (eo_life_next_ended(MyDatabaseId, &cursor, id, &this_run))
	{
		walk = 0;
		while (eo_life_walk_places(MyDatabaseId, false, &walk, &place))
		{
			EoLifeCheck *c;

			if (memcmp(place.life, id, EO_UUID_LEN) != 0 || !is_left(&place))
				continue;
			c = eo_life_board_enter(&place);
			if (!c->ended)
			{
				c->due_us = 0;
				c->ended_us = eo_clock_monotonic_us();
			}
			c->ended = true;
			c->this_run = this_run;
			c->place = place;
			if (c->stage == EO_LIFE_CHECK_OVER)
				eo_life_place_retired(place.ref);
		}
		if (is_settled(id))
		{
			eo_life_forget(id);
			forget_ended(id);
		}
	}
	while (eo_life_watch_next(MyDatabaseId, &place))
		look_after(&place);
}

/*
 * Has the life a home that it must be retired in first?  One of which it is not known that
 * there is an item does not count, because the table may not exist.
 */
static bool
waits_for_home(const EoLifeCheck *c)
{
	if (!c->ended || c->place.home || !is_trusted(&c->place.target))
		return false;
	for (const EoLifeCheck *other = NULL; (other = eo_life_board_next(other)) != NULL;)
	{
		if (other->ended && other->place.home && other->place.open &&
			is_trusted(&other->place.target) &&
			other->stage != EO_LIFE_CHECK_OVER &&
			memcmp(other->place.life, c->place.life, EO_UUID_LEN) == 0)
			return true;
	}
	return false;
}

/* May a life that nobody extends be retired here after a while?  Then it is read at that pace. */
static bool
is_urgent(const EoLifeCheck *c)
{
	return c->watch == EO_WATCH_LOOKING || c->watch == EO_WATCH_SILENT;
}

/*
 * May the write be sent now?  Our own life must hold its lease.  A life that was silent is
 * read again if there was a gap since the last read: its owner may have come back.
 */
static bool
may_send_retirement(EoLifeCheck *c, int64 now_us)
{
	/* An operator may take over without its home. */
	if (waits_for_home(c))
	{
		c->stage = EO_LIFE_CHECK_LOOK;
		c->due_us = now_us + HOME_PAUSE_US;
		return false;
	}
	if (!c->ended && !eo_life_check_is_fresh(c))
	{
		c->stage = EO_LIFE_CHECK_LOOK;
		c->due_us = 0;
		return false;
	}
	if (eo_own_life_hold(&c->place.target))
		return true;
	takeover.due_us = Min(takeover.due_us, now_us + LEASE_PAUSE_US);
	return false;
}

static void
add_job(EoLifeCheck *c, const EoWorkerJobKind *kind)
{
	EoWorkerJob *job = eo_job_add_for_any(kind, &c->place.target, c->id);
	Look	   *look = MemoryContextAllocZero(job->context, sizeof(Look));

	look->check = c;
	job->data = look;
	c->in_flight++;
}

static void
fetch_checks(void)
{
	int64		now_us = eo_clock_monotonic_us();
	EoLife		life;

	/* Only a life that goes on can take over from another. */
	if (!eo_life_current(MyDatabaseId, &life))
		return;
	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (c->stage == EO_LIFE_CHECK_OVER)
			continue;
		if (c->stage == EO_LIFE_CHECK_RETIRE && !c->retiring && may_send_retirement(c, now_us))
		{
			c->retiring = true;
			add_job(c, &retirement_kind);
		}
		if (c->stage == EO_LIFE_CHECK_RETIRE || c->in_flight >= (is_urgent(c) ? MAX_READS : 1))
			continue;
		if (c->due_us > now_us || !eo_jobs_accept(EO_WORKER_LOOKS, &c->place.target))
		{
			takeover.due_us = Min(takeover.due_us, Max(c->due_us, now_us + 100000));
			continue;
		}
		add_job(c, &look_kind);
		c->due_us = now_us + eo_guc_hurried_us(EO_LIVES_PACE_US);
		takeover.due_us = Min(takeover.due_us, c->due_us);
	}
}

static EoAnswer *
prepare_look(EoWorkerJob *job, EoStore *store)
{
	Look	   *look = job->data;
	const EoLifeCheck *c = look->check;

	look->sent_us = eo_clock_steady_us();
	return eo_life_store_prepare_read(store, c->place.target.prefix, c->id);
}

static EoAnswer *
prepare_retirement(EoWorkerJob *job, EoStore *store)
{
	const EoLifeCheck *c = ((Look *) job->data)->check;
	EoLifeWrite w = {.life = c->id,.seen_beat = c->silence.beat};
	char		by[EO_UUID_TEXT_LEN + 1];
	EoLife		life;

	/*
	 * An item that is absent must be made in the right table: not by a
	 * stand-in.
	 */
	if (c->stage != EO_LIFE_CHECK_RETIRE || !eo_life_current(MyDatabaseId, &life) ||
		(!c->exists && job->target != job->asked))
	{
		put_off_retirement(job, 0);
		return NULL;
	}
	eo_hex_put_uuid(life.id, by);
	w.by = by;
	w.now_ms = eo_lives_now_ms(store);
	if (eo_life_check_is_known_by_file(c, eo_life_board_history()) &&
		!eo_slot_prepared_of_life(c->place.life))
		w.ttl_s = w.now_ms / 1000 + EO_LIFE_TTL_S;
	return eo_life_store_prepare_write(store, c->place.target.prefix,
									   c->exists ? EO_LIFE_RETIRE : EO_LIFE_RETIRE_ABSENT, &w);
}

static void
put_off_retirement(EoWorkerJob *job, int64 pause_us)
{
	EoLifeCheck *c = ((Look *) job->data)->check;

	c->retiring = false;
	if (c->stage == EO_LIFE_CHECK_RETIRE)
		c->stage = EO_LIFE_CHECK_LOOK;
	put_off_check(job, pause_us);
}

static void
put_off_check(EoWorkerJob *job, int64 pause_us)
{
	EoLifeCheck *c = ((Look *) job->data)->check;

	(void) pause_us;
	c->in_flight--;
	c->due_us = Min(c->due_us, eo_clock_monotonic_us() + eo_guc_hurried_us(LOOK_RETRY_US));
	takeover.due_us = Min(takeover.due_us, c->due_us);
}

/*
 * Was the check made for nothing?  A life before ours may never have used this table.
 * And one that a session has met may be that of another database, as usual in a table
 * that several share, or one that nobody knows: then the session asks again when it meets the
 * next record.
 */
static bool
is_of_no_interest(const EoLifeCheck *c, const EoAnswer *answer)
{
	const EoHistory *history = eo_life_board_history();
	bool		may_be_ours = eo_life_check_is_ours(c, history) ||
	eo_life_check_waits_for_operator(c, history);

	if (answer->outcome == EO_FAILED_CALL || c->ended || c->stage != EO_LIFE_CHECK_LOOK)
		return false;
	return answer->exists ? !may_be_ours : !c->asked && !(c->met && may_be_ours);
}

/* Was a life retired by our current life?  That may have been given up since the write was sent. */
static bool
is_by_current(const EoLifeCheck *c, const EoLifeItem *item)
{
	uint8		by[EO_UUID_LEN];

	return eo_hex_read_uuid(item->retired_by, by) && eo_bar_is_ours(&c->place.target, by);
}

static bool
take_read(EoWorkerJob *job, const EoAnswer *answer)
{
	const Look *look = job->data;
	EoLifeCheck *c = look->check;

	eo_life_board_touch();

	/*
	 * The next step, and a check that the answer has called for, may be due
	 * now.
	 */
	takeover.due_us = 0;
	/* While it is in flight nothing removes the check. */
	if (c->stage == EO_LIFE_CHECK_LOOK && eo_life_check_counts(c, look->sent_us))
		take_look(c, answer, look->sent_us);
	c->in_flight--;
	if (is_of_no_interest(c, answer) && c->in_flight == 0)
		eo_life_board_remove(c);
	else
		eo_life_board_pause(c);
	return true;
}

static bool
take_retirement(EoWorkerJob *job, const EoAnswer *answer)
{
	EoLifeCheck *c = ((Look *) job->data)->check;

	eo_life_board_touch();
	takeover.due_us = 0;
	c->in_flight--;
	c->retiring = false;
	if (c->stage != EO_LIFE_CHECK_RETIRE)
		return true;
	if (answer->outcome != EO_APPLIED || !is_by_current(c, eo_life_store_item(answer)))
	{
		c->stage = EO_LIFE_CHECK_LOOK;
		c->due_us = 0;
		return true;
	}
	ereport(LOG,
			(errmsg("exactonce: life %s was retired in table \"%s\"; its keys are settled here",
					c->id, c->place.target.table)));
	if (!eo_life_check_is_known_by_file(c, eo_life_board_history()))
		eo_life_board_want_scan(c, eo_life_store_item(answer)->retired_by);
	set_over(c);
	return true;
}

/* A life was retired by this one.  Is that our current life, or over for us in turn? */
static bool
is_inherited(const EoLifeCheck *c, const uint8 *by)
{
	const EoLifeCheck *heir;

	if (eo_bar_is_ours(&c->place.target, by))
		return true;
	heir = eo_life_board_enter_life(&c->place.target, by);
	return heir != NULL && heir->stage == EO_LIFE_CHECK_OVER &&
		eo_life_verdict_passes_on(eo_life_board_history(), by, heir->closed);
}

static const EoLifeCheck *
parent_of(const EoLifeCheck *c, const uint8 *parent)
{
	return eo_life_board_enter_life(&c->place.target, parent);
}

static void
take_look(EoLifeCheck *c, const EoAnswer *answer, int64 sent_us)
{
	const EoLifeItem *item = eo_life_store_item(answer);
	int64		beat = answer->exists ? Max(item->beat, 0) : 0;
	int64		nonce_us;
	EoReadingSays says;

	/* An item that cannot be read says nothing. */
	if (answer->outcome == EO_FAILED_CALL)
		return;
	c->exists = answer->exists;
	if (answer->exists && item->ancestors != NULL)
		strlcpy(c->ancestors, item->ancestors, sizeof(c->ancestors));
	says = eo_life_check_take(c, beat, sent_us);
	if (says == EO_READING_BEATS)
		c->watch = EO_WATCH_BEATS;
	else if (says == EO_READING_FIRST || (says == EO_READING_MISSES && c->watch == EO_WATCH_BEATS))
		c->watch = EO_WATCH_SILENT;
	/* Another heir has left it, or it was our own, and barred. */
	else if (c->watch == EO_WATCH_FOREIGN &&
			 !(answer->exists && item->state == EO_LIFE_RETIRED))
		c->watch = EO_WATCH_SILENT;
	if (!is_urgent(c))
		c->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(LOOK_US);
	/* Our own life, where it is barred, is not over, whatever the item says. */
	if (eo_life_is_current(MyDatabaseId, c->place.life))
	{
		c->watch = EO_WATCH_FOREIGN;
		return;
	}
	c->own_nonce = answer->exists && item->nonce != NULL &&
		eo_life_sent(c->place.ref, strtou64(item->nonce, NULL, 10), -1, &nonce_us);
	if (answer->exists && item->state == EO_LIFE_CLOSED)
	{
		c->closed = true;
		set_over(c);
	}
	else if (answer->exists && item->state == EO_LIFE_RETIRED)
		take_retired(c, answer);
	else if (eo_life_check_may_retire(c, eo_life_board_history(), parent_of))
	{
		c->stage = EO_LIFE_CHECK_RETIRE;
		c->due_us = 0;
	}
}

static void
take_retired(EoLifeCheck *c, const EoAnswer *answer)
{
	const EoLifeItem *item = eo_life_store_item(answer);
	uint8		by[EO_UUID_LEN] = {0};
	const EoHistory *history = eo_life_board_history();
	bool		earlier = eo_life_rows_is_earlier(history, c->place.life);

	if (!eo_hex_read_uuid(item->retired_by, by) || !is_inherited(c, by))
	{
		/*
		 * The life was retired by another life of our history, which may not
		 * be over yet.
		 */
		c->watch = eo_life_rows_find(history, by) < 0 ? EO_WATCH_FOREIGN :
			earlier ? EO_WATCH_SILENT : eo_life_board_enter_life(&c->place.target, by)->watch;
		c->due_us = c->watch == EO_WATCH_LOOKING &&
			c->silence.read_us - c->silence.since_us < LOOK_US ?
			eo_clock_monotonic_us() + HOME_PAUSE_US : c->due_us + eo_guc_hurried_us(HEIR_US);
		return;
	}
	/* Only the newest earlier life proves that its database has stopped. */
	if (earlier && memcmp(eo_life_rows_original(history)->id, c->place.life, EO_UUID_LEN) != 0)
	{
		c->watch = EO_WATCH_NOT_NEAR;
		return;
	}
	if (earlier)
	{
		bool		trusted = answer->store->server->trusted;
		bool		failed;

		c->watch = EO_WATCH_SILENT;
		if (!trusted)
			(void) eo_lock_limit_try(EO_LOCKS_CATALOGS, turn_to_superuser, c, &failed);
		if (!trusted || !eo_own_life_adopt())
			return;
	}
	if (!item->has_ttl)
		eo_life_board_want_scan(c, item->retired_by);
	set_over(c);
}

/* Have the next look at the life go by the owner of a trusted server, if one leads there. */
static void
turn_to_superuser(void *arg)
{
	EoLifeCheck *c = arg;
	EoIdentityRef owner;

	if (!eo_known_target_trusted(&c->place.target, &owner))
		return;
	c->place.target.serverid = owner.serverid;
	c->place.target.userid = owner.userid;
}

static void
set_over(EoLifeCheck *c)
{
	eo_life_board_set_over(c);
	if (c->ended)
		eo_life_place_retired(c->place.ref);
	if (c->met)
		eo_life_watch_settles(&c->place.target, c->place.life);
}
