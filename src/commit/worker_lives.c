/*-------------------------------------------------------------------------
 *
 * worker_lives.c
 *	  The worker's first duty: the life of its database.
 *
 * The worker mints a life when it starts and there is none of this run of the server,
 * and when the last one was closed or given up.  In every place where the life has an
 * item it sends a beat each BEAT_US (commit/lives.c says what that is good for).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/target.h"
#include "commit/life_rows.h"
#include "commit/lives.h"
#include "commit/outbox.h"
#include "commit/worker_jobs.h"
#include "commit/worker_lives.h"
#include "commit/worker_targets.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "dynamodb/hex.h"
#include "dynamodb/http.h"
#include "dynamodb/life_item.h"
#include "dynamodb/window.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "server/answer.h"
#include "server/guc.h"
#include "server/life_store.h"
#include "server/store.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define BEAT_US INT64CONST(5000000)

/* A beat that has failed is sent again after this. */
#define BEAT_RETRY_US INT64CONST(1000000)

/* A beat is noted in the life's row this often. */
#define NOTE_US INT64CONST(60000000)

/* A place of the current life. */
typedef struct Beating
{
	uint64		generation;
	int64		due_us;
	bool		in_flight;
} Beating;

static struct
{
	MemoryContext context;
	Oid			dboid;
	EoHistory	history;		/* up to the current life */
	Beating    *beating;		/* by the index of the place */
	uint32		nbeating;
	int64		due_us;			/* the next beat */
	int64		noted_us;
}			own;

static void read_history(void);
static void mint(void);
static void note_beat(void);
static void fetch_beats(void);
static EoAnswer *prepare_beat(EoWorkerJob *job, EoStore *store);
static bool take_beat(EoWorkerJob *job, const EoAnswer *answer);
static void put_off_beat(EoWorkerJob *job, int64 pause_us);
static bool abandon(EoWorkerJob *job);

static const EoWorkerJobKind beat_kind = {
	.prepare = prepare_beat,
	.take = take_beat,
	.put_off = put_off_beat,
	.abandon = abandon,
	.lane = EO_WORKER_LIVES
};

void
eo_worker_lives_init(MemoryContext context, Oid dboid)
{
	EoLife		life;

	own.context = context;
	own.dboid = dboid;
	read_history();
	/* The extension was created anew, and knows nothing of the lives before. */
	if (eo_life_current(dboid, &life) && eo_life_rows_find(&own.history, life.id) < 0)
		eo_life_drop_database(dboid);
	if (!eo_life_current(dboid, &life))
		mint();
	own.noted_us = eo_clock_monotonic_us();
}

static void
read_history(void)
{
	if (own.history.rows != NULL)
		pfree(own.history.rows);
	StartTransactionCommand();
	MemoryContextSwitchTo(own.context);
	eo_life_rows_read(&own.history);
	CommitTransactionCommand();
	MemoryContextSwitchTo(own.context);
}

/*
 * Begin a life.  It may be used as soon as its row is flushed here: if the row is lost
 * by a failover, so is everything that was sealed under it.
 */
static void
mint(void)
{
	uint8		id[EO_UUID_LEN];

	if (!pg_strong_random(id, sizeof(id)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not mint a life: no random numbers")));
	/* RFC 9562: version 4, variant 10. */
	id[6] = (id[6] & 0x0f) | 0x40;
	id[8] = (id[8] & 0x3f) | 0x80;
	/* A life without room would leave a row each time. */
	if (!eo_life_has_room())
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("no room for a life of this database"),
				 errhint("Too many lives of this cluster wait to be retired, see exactonce_lives.")));
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	eo_life_rows_mint(&own.history, id);
	eo_life_rows_prune(&own.history);
	PopActiveSnapshot();
	ForceSyncCommit();
	CommitTransactionCommand();
	MemoryContextSwitchTo(own.context);
	read_history();
	if (!eo_life_begin(own.dboid, id, eo_compat_timeline()))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("no room for a life of this database"),
				 errhint("Too many lives of this cluster wait to be retired, see exactonce_lives.")));
}

/* ----- jobs ----- */

void
eo_worker_lives_fetch(void)
{
	EoLife		life;

	if (!eo_life_current(own.dboid, &life))
	{
		uint32		cursor = 0;
		uint8		id[EO_UUID_LEN];
		bool		this_run;

		/* A life that was given up needs an heir at once. */
		if (eo_database_wants_life(own.dboid) ||
			eo_life_next_ended(own.dboid, &cursor, id, &this_run))
			mint();
	}
	own.due_us = INT64_MAX;
	note_beat();
	fetch_beats();
}

int64
eo_worker_lives_due_us(void)
{
	return own.due_us;
}

const EoHistory *
eo_worker_lives_history(void)
{
	return &own.history;
}

/* ----- beats ----- */

/*
 * Note how far the life has come in its row.  A standby or a copy tells from that how
 * much of the life it has.
 */
static void
note_beat(void)
{
	uint32		cursor = 0;
	EoPlace		place;
	int64		beat = 0;
	uint8		id[EO_UUID_LEN];

	if (eo_clock_monotonic_us() - own.noted_us < eo_guc_hurried_us(NOTE_US))
		return;
	while (eo_life_walk_places(own.dboid, true, &cursor, &place))
	{
		beat = Max(beat, place.beat + 1);
		memcpy(id, place.life, sizeof(id));
	}
	own.noted_us = eo_clock_monotonic_us();
	if (beat == 0)
		return;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	eo_life_rows_note_beat(id, beat);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(own.context);
}

static Beating *
beating_of(EoPlaceRef ref)
{
	if (ref.index >= own.nbeating)
	{
		uint32		n = ref.index + 16;

		own.beating = own.beating == NULL ?
			MemoryContextAllocZero(own.context, n * sizeof(Beating)) :
			repalloc(own.beating, n * sizeof(Beating));
		memset(own.beating + own.nbeating, 0, (n - own.nbeating) * sizeof(Beating));
		own.nbeating = n;
	}
	if (own.beating[ref.index].generation != ref.generation)
	{
		memset(&own.beating[ref.index], 0, sizeof(Beating));
		own.beating[ref.index].generation = ref.generation;
	}
	return &own.beating[ref.index];
}

static EoWorkerJob *
add_job(const EoWorkerJobKind *kind, const EoTarget *target, const uint8 *life)
{
	char		id[EO_UUID_TEXT_LEN + 1];

	eo_hex_put_uuid(life, id);
	return eo_worker_job_add(kind, target, id);
}

static void
send_beat(const EoPlace *place, Beating *b)
{
	EoWorkerJob *job;

	b->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(BEAT_RETRY_US);
	if (!eo_worker_jobs_accept(EO_WORKER_LIVES, &place->target))
		return;
	job = add_job(&beat_kind, &place->target, place->life);
	job->data = MemoryContextAlloc(job->context, sizeof(EoPlace));
	*(EoPlace *) job->data = *place;
	b->in_flight = true;
	b->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(BEAT_US);
}

static void
fetch_beats(void)
{
	int64		now_us = eo_clock_monotonic_us();
	uint32		cursor = 0;
	EoPlace		place;

	while (eo_life_walk_places(own.dboid, true, &cursor, &place))
	{
		Beating    *b = beating_of(place.ref);
		int64		age_us = eo_clock_steady_us() - place.confirmed_us;

		if (!place.open)
			continue;
		if (b->due_us == 0 || age_us < eo_guc_hurried_us(BEAT_US) / 2)
			b->due_us = Max(b->due_us, now_us + eo_guc_hurried_us(BEAT_US) - age_us);
		if (!b->in_flight && b->due_us <= now_us)
			send_beat(&place, b);
		own.due_us = Min(own.due_us, b->due_us);
	}
}

static EoAnswer *
prepare_beat(EoWorkerJob *job, EoStore *store)
{
	EoPlace    *place = job->data;
	EoAnswer   *answer = NULL;

	/* A session may have sent one meanwhile, or reached the table better. */
	if (eo_life_place_info(place->ref, place) &&
		memcmp(&place->target, &job->target->target, sizeof(EoTarget)) == 0)
		answer = eo_lives_prepare(store, place, place->open ? EO_LIFE_BEAT : EO_LIFE_CREATE,
								  eo_lives_ancestors(&own.history, place->life));
	if (answer == NULL)
	{
		beating_of(place->ref)->in_flight = false;
		beating_of(place->ref)->due_us = eo_clock_monotonic_us();
	}
	return answer;
}

static bool
take_beat(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoPlace *place = job->data;

	beating_of(place->ref)->in_flight = false;
	if (!eo_lives_take(place, answer))
		ereport(LOG,
				(errmsg("exactonce: the life of this database in table \"%s\" is not its own any more, and was given up",
						place->target.table),
				 errdetail("Its item was retired, changed or removed."),
				 errhint("If this server is an old primary, stop it. See exactonce_lives.")));
	return true;
}

static void
put_off_beat(EoWorkerJob *job, int64 pause_us)
{
	const EoPlace *place = job->data;
	Beating    *b = beating_of(place->ref);

	(void) pause_us;
	/* Another role may still reach the table. */
	eo_life_swap_target(place->ref, &job->target->target);
	b->in_flight = false;
	b->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(BEAT_RETRY_US);
}

/* Without a server there are no credentials; the lease runs out. */
static bool
abandon(EoWorkerJob *job)
{
	job->kind->put_off(job, BEAT_US);
	return true;
}

bool
eo_worker_lives_hold(const EoTarget *target)
{
	EoLife		life;
	EoPlaceRef	ref;
	EoPlace		place;
	bool		open;
	Beating    *b;

	if (!eo_life_current(own.dboid, &life) ||
		!eo_life_enter_place(target, life.id, &ref, &open) ||
		!eo_life_place_info(ref, &place))
		return false;
	if (open && eo_lives_lease_is_young(ref))
		return true;
	b = beating_of(ref);
	if (!b->in_flight && (!open || b->due_us == 0))
		send_beat(&place, b);
	return false;
}

/* ----- the end ----- */

/* Is there a row of the outbox?  If that cannot be told there may be one. */
static bool
has_rows(void)
{
	volatile bool any = true;

	PG_TRY();
	{
		StartTransactionCommand();
		any = eo_outbox_has_rows();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(own.context);
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(own.context);
	return any;
}

/* Run a write until the deadline. */
static void
run_until(EoAnswer *answer, int64 deadline_us)
{
	EoWindow	window = {.n = 0};
	bool		goes_on = eo_answer_start(answer, &window, deadline_us);
	int64		until_us;

	while (goes_on)
	{
		while (!eo_window_turn(&window, 1, NULL, NULL, NULL, &until_us))
			eo_http_wait(Min(until_us, deadline_us), EO_WAIT_RAISE);
		goes_on = !eo_answer_take(answer, &window, deadline_us);
	}
}

/*
 * Close the item in a place.  A beat that was sent before may arrive first: then close
 * it at that beat.  Returns false if it stays open.
 */
static bool
close_place(EoPlace *place, int64 deadline_us)
{
	EoWorkerTarget *t = eo_worker_target_of(&place->target);
	bool		closed = false;
	bool		ours = true;

	if (t->store == NULL || t->failing)
		return false;
	while (!closed && ours && eo_clock_monotonic_us() < deadline_us &&
		   eo_life_place_info(place->ref, place))
	{
		EoAnswer   *answer = eo_lives_prepare(t->store, place, EO_LIFE_CLOSE, NULL);

		if (answer == NULL)
			return false;
		run_until(answer, deadline_us);
		closed = answer->exists && eo_life_store_item(answer)->state == EO_LIFE_CLOSED;
		ours = answer->outcome != EO_FAILED_CALL && (closed || eo_lives_take(place, answer));
		eo_answer_free(answer);
	}
	return closed;
}

void
eo_worker_lives_close(int64 deadline_us)
{
	uint32		cursor = 0;
	uint8		id[EO_UUID_LEN];
	EoPlace		place;
	bool		all = true;

	HOLD_INTERRUPTS();
	if (!eo_life_bar(own.dboid, id))
	{
		RESUME_INTERRUPTS();
		return;
	}
	/* A transaction may have committed after the last look at the rows. */
	if (has_rows())
	{
		eo_life_reopen(id);
		RESUME_INTERRUPTS();
		return;
	}
	while (eo_life_walk_places(own.dboid, false, &cursor, &place))
	{
		if (memcmp(place.life, id, EO_UUID_LEN) == 0 && place.open)
			all &= close_place(&place, deadline_us);
	}
	if (all)
		eo_life_forget(id);
	else
		eo_life_give_up(own.dboid, id);
	RESUME_INTERRUPTS();
}
