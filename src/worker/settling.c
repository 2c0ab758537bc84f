/*-------------------------------------------------------------------------
 *
 * settling.c
 *	  Jobs of a worker: settle claims whose transactions are over, and extend the
 *	  leases of claims whose transactions are open, or whose sessions go on.
 *
 * A slot whose transaction is over says by its state what is left to be done, see
 * slots.h and settle.c.  A backend that meets the key may settle the same claim at
 * the same time.  Every write is conditional on the claim's own token, so that the
 * second one is refused.  A refusal also means that the claim is over, so the job
 * ends after either answer.
 *
 * The slot of a prepared transaction may have been made of its row (prepared_ends.c), which
 * does not tell which seal the record bears.  So if the transaction is rolled back the record is
 * read first.  It is also read if other data settles the claim, as beside a living original: the
 * claim is over when the record says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "cluster/bars.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/looks.h"
#include "cluster/slot_prepared.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "commit/settle.h"
#include "compat.h"
#include "ledger/life_verdict.h"
#include "ledger/lock_limit.h"
#include "ledger/outbox.h"
#include "miscadmin.h"
#include "records/origin.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/guc.h"
#include "server/stats.h"
#include "server/store.h"
#include "server/store_record.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "worker/finish.h"
#include "worker/jobs.h"
#include "worker/life_board.h"
#include "worker/own_life.h"
#include "worker/sources.h"
#include "worker/write_order.h"
#include "worker/write_targets.h"

/*
 * Pauses before the looks at a first write of unknown outcome: they are taken 5 s, 60 s
 * and 15 minutes after the burial.  A late copy of the write takes effect if the key has
 * a record of another claim that can be taken, and most copies that are late come within
 * seconds.  AWS refuses a request whose signature is older than 15 minutes, so no copy
 * can be applied after that.
 */
static const int64 look_pauses_us[EO_LOOKS] = {5000000, 55000000, 840000000};

/* Looks begin only while the worker has fewer jobs: everything else comes before them. */
#define FEW_JOBS 256

/* A slot whose request has failed is tried again after this at the latest. */
#define MAX_PAUSE_US INT64CONST(10000000)

/*
 * A claim of a session that is over waits so often for the end of a transaction that has sealed
 * it, 1 to 32 seconds at a time, three minutes in all.  If the other does not end, because
 * it is in doubt or of a life that is not ours, the key is left to its lease.
 */
#define MAX_WAITS 10

/* A claim whose life is about to be retired, or that cannot be judged, is looked at after this. */
#define JUDGE_PAUSE_US INT64CONST(100000)

/* A record that other data is to settle is read again after this. */
#define ELSEWHERE_PAUSE_US INT64CONST(10000000)

/* A heartbeat gets so much time at least: whoever needs more is slow (write_targets.c). */
#define MIN_BEAT_LIMIT_US INT64CONST(1000000)

/* While there is no room for writes, the next look for heartbeats comes after this at least. */
#define FULL_NAP_US INT64CONST(100000)

static struct
{
	int64		began_us;		/* when this worker began */
	uint32		next_beat;		/* where the next look for heartbeats begins */
	MemoryContext waiting;		/* of what waits for room */
	dlist_head	lines;			/* EoWorkerTarget: those with slots that do */
}			slots;

/* A slot that was taken off the list of its database. */
typedef struct Waiting
{
	dlist_node	node;			/* in the slots of its target */
	EoSlotRef	ref;
} Waiting;

/* A slot whose transaction was sealing when the server ended, or is prepared. */
typedef struct Judgement
{
	const EoSlotView *view;
	EoLifeVerdict verdict;
	EoFate		fate;
} Judgement;

static EoAnswer *prepare_doubt(EoWorkerJob *job, EoStore *store);
static bool take_doubt(EoWorkerJob *job, const EoAnswer *answer);
static EoAnswer *prepare_read(EoWorkerJob *job, EoStore *store);
static bool take_read(EoWorkerJob *job, const EoAnswer *answer);
static void put_off_read(EoWorkerJob *job, int64 pause_us);
static EoAnswer *prepare_settle(EoWorkerJob *job, EoStore *store);
static bool take_settle(EoWorkerJob *job, const EoAnswer *answer);
static void put_off_settle(EoWorkerJob *job, int64 pause_us);
static bool abandon(EoWorkerJob *job);
static EoAnswer *prepare_beat(EoWorkerJob *job, EoStore *store);
static bool take_beat(EoWorkerJob *job, const EoAnswer *answer);
static void forget_session_claim(const EoSlotView *view, bool lost);
static void put_off_beat(EoWorkerJob *job, int64 pause_us);

static const EoWorkerJobKind settle_kind = {
	.prepare = prepare_settle,
	.take = take_settle,
	.put_off = put_off_settle,
	.abandon = abandon,
	.lane = EO_WORKER_WRITES,
	.shares = true
};

static const EoWorkerJobKind doubt_kind = {
	.prepare = prepare_doubt,
	.take = take_doubt,
	.put_off = put_off_settle,
	.abandon = abandon,
	.lane = EO_WORKER_WRITES
};

static const EoWorkerJobKind read_kind = {
	.prepare = prepare_read,
	.take = take_read,
	.put_off = put_off_read,
	.lane = EO_WORKER_WRITES
};

static const EoWorkerJobKind beat_kind = {
	.prepare = prepare_beat,
	.take = take_beat,
	.put_off = put_off_beat,
	.lane = EO_WORKER_BEATS,
	.shares = true
};

void
eo_settling_init(void)
{
	slots.began_us = eo_clock_monotonic_us();
	slots.waiting = AllocSetContextCreate(TopMemoryContext, "exactonce waiting slots",
										  ALLOCSET_DEFAULT_SIZES);
}

static EoWorkerJob *
add_job(const EoWorkerJobKind *kind, const EoSlotView *view)
{
	EoWorkerJob *job = eo_job_add(kind, &view->target, view->info.token);

	job->data = MemoryContextAlloc(job->context, sizeof(EoSlotView));
	memcpy(job->data, view, sizeof(EoSlotView));
	return job;
}

/* ----- slots whose transactions are over ----- */

/* The transaction has committed: have its row finished, and free the slot. */
static void
finish(const EoSlotView *view)
{
	const EoOrigin *origin = &view->info.origin;
	EoOutboxRow row = {.pk = (char *) view->pk};

	memcpy(row.digest, view->info.digest, sizeof(row.digest));
	row.target = view->target;
	row.retention_s = view->info.retention_s;
	row.xid = origin->xid;
	row.committed_us = view->info.ended_us;
	strlcpy(row.token, view->info.token, sizeof(row.token));
	memcpy(row.life, origin->life, sizeof(row.life));

	/*
	 * The slot is enough to know that there is a row.  But if its life is
	 * over, the row may have gone with an extension that was dropped; then a
	 * scan finds it, or not.  Where the life is barred nothing is finished.
	 */
	if (!eo_bar_is_ours(&view->target, origin->life))
	{
		if (view->info.has_writes)
			eo_write_order_expect();
		eo_finish_want_scan();
	}
	else if (view->info.has_writes)
		eo_finish_note_written(&row);
	else
		eo_finish_take(&row);
	eo_slot_free(view->ref);
}

/* ----- waiting for room ----- */

/*
 * A target may have more slots than jobs.  They wait here, so that the slots behind them in the
 * list of the database, which may be of another target or tell of rows, have their turn.  A slot
 * that is in no list is found again by the next worker (eo_slot_restart()).
 */
static void
wait_for_room(const EoSlotView *view)
{
	EoWorkerTarget *t = eo_write_target_of(&view->target);
	Waiting    *w = MemoryContextAllocExtended(slots.waiting, sizeof(Waiting), MCXT_ALLOC_NO_OOM);

	if (w == NULL)
	{
		eo_slot_put_off(view->ref, eo_clock_monotonic_us() + EO_WORKER_TARGET_PAUSE_US);
		return;
	}
	w->ref = view->ref;
	if (dlist_is_empty(&t->slots))
		dlist_push_tail(&slots.lines, &t->line);
	dlist_push_tail(&t->slots, &w->node);
}

/* Take the slot that has waited longest.  False: it was settled and freed since. */
static bool
next_waiting(EoWorkerTarget *t, EoSlotView *view)
{
	Waiting    *w = dlist_container(Waiting, node, dlist_pop_head_node(&t->slots));
	EoSlotRef	ref = w->ref;

	pfree(w);
	if (dlist_is_empty(&t->slots))
		dlist_delete(&t->line);
	return eo_slot_view_read(ref, view) && eo_slot_state_is_over(view->info.state);
}

bool
eo_settling_any(void)
{
	return !dlist_is_empty(&slots.lines);
}

/* Add a job about a claim, or have its slot wait for room among the jobs of its target. */
static void
add_or_wait(const EoWorkerJobKind *kind, const EoSlotView *view)
{
	if (eo_jobs_accept(EO_WORKER_WRITES, &view->target))
		(void) add_job(kind, view);
	else
		wait_for_room(view);
}

/* ----- judging ----- */

static void
judge_by_outbox(void *arg)
{
	Judgement  *j = arg;

	j->fate = eo_settle_judge(&j->view->info.origin, j->view->info.token, &j->verdict, NULL);
}

/* How did the transaction end?  False: that cannot be told, because the outbox is locked. */
static bool
judge(Judgement *j)
{
	const uint8 *life = j->view->info.origin.life;

	eo_life_board_verdict(&j->view->target, life, &j->verdict);
	if (j->verdict.relation == EO_LIFE_OTHER)
		eo_life_board_watch(&j->view->target, life);
	j->fate = EO_FATE_UNKNOWN;
	if (!j->verdict.known)
		return true;
	j->fate = EO_FATE_ELSEWHERE;
	return j->verdict.relation == EO_LIFE_OTHER ||
		eo_lock_limit_run(EO_LOCKS_OUTBOX, judge_by_outbox, j);
}

/*
 * Does other data decide about the claim, because it goes on with the life, or has taken
 * over from it?  Then the record tells when the claim is over.
 */
static bool
goes_on_elsewhere(const EoSlotView *view)
{
	EoLifeWatch watch;

	return eo_life_watch_find(&view->target, view->info.origin.life, &watch) &&
		(watch == EO_WATCH_BEATS || watch == EO_WATCH_FOREIGN);
}

static void
settle_judged(const EoSlotView *view)
{
	Judgement	j = {.view = view};

	if (!judge(&j))
	{
		eo_slot_put_off(view->ref, eo_clock_monotonic_us() + JUDGE_PAUSE_US);
		return;
	}
	switch (j.fate)
	{
		case EO_FATE_COMMITTED:
			finish(view);
			break;
		case EO_FATE_ABORTED:
			add_or_wait(eo_slot_knows_seal(&view->info) ? &settle_kind : &read_kind, view);
			break;
		case EO_FATE_RUNNING:
			eo_slot_prepared_begin(view->ref, view->info.origin.xid);
			break;
		case EO_FATE_ELSEWHERE:
			if (goes_on_elsewhere(view))
			{
				add_or_wait(&read_kind, view);
				break;
			}
			/* Its life has to be retired first. */
			eo_slot_put_off(view->ref, eo_clock_monotonic_us() +
							(eo_life_board_any() ? JUDGE_PAUSE_US : EO_WORKER_TARGET_PAUSE_US));
			break;
		case EO_FATE_OTHER_RUNNING:
			eo_slot_put_off(view->ref, eo_clock_monotonic_us() + EO_WORKER_TARGET_PAUSE_US);
			break;
		case EO_FATE_OTHER_COMMITTED:
			/* The record stays with the transaction that has committed. */
			eo_slot_free(view->ref);
			break;
		case EO_FATE_UNKNOWN:
			add_or_wait(&doubt_kind, view);
			break;
	}
}

/* ----- slots in doubt ----- */

static EoAnswer *
prepare_doubt(EoWorkerJob *job, EoStore *store)
{
	const EoSlotView *view = job->data;

	return eo_answer_create_read(&eo_store_record_kind, store, view->pk);
}

/*
 * The transaction has committed, and has no row.  That is as it should be if the record was
 * finished and the row removed before this slot was judged; then the record, which is read
 * after the outbox, is not sealed any more.  If it is, a row was lost.
 */
static bool
take_doubt(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoSlotView *view = job->data;

	if (answer->outcome == EO_FAILED_CALL)
		put_off_settle(job, EO_WORKER_TARGET_PAUSE_US);
	else if (!eo_settle_is_own(view, answer, EO_STATE_COMMITTING))
		eo_slot_free(view->ref);
	else
	{
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce: a commit that was announced in an earlier run of the server is in doubt"),
				 errhint("See exactonce_in_doubt; find out whether the work was done, and say so with idem_resolve().")));
		eo_slot_doubted(view->ref);
	}
	return true;
}

/* ----- reading the record of an ended claim ----- */

/* As long as our lease does not hold, another heir may take over and settle the key. */
static EoAnswer *
prepare_read(EoWorkerJob *job, EoStore *store)
{
	const EoSlotView *view = job->data;

	if (!eo_own_life_hold(&view->target))
	{
		put_off_read(job, 0);
		return NULL;
	}
	return eo_answer_create_read(&eo_store_record_kind, store, view->pk);
}

/*
 * Note the seal that the record bears, if the slot does not know it.  The slot is freed
 * when somebody else has settled the record.
 */
static bool
take_read(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoSlotView *view = job->data;
	const EoRecord *r = eo_store_record(answer);
	bool		sealed = eo_settle_is_own(view, answer, EO_STATE_COMMITTING);

	if (answer->outcome == EO_FAILED_CALL)
		put_off_read(job, EO_WORKER_TARGET_PAUSE_US);
	else if (eo_slot_knows_seal(&view->info))
	{
		if (!answer->exists || sealed || eo_settle_is_own(view, answer, EO_STATE_IN_PROGRESS))
			put_off_read(job, eo_guc_hurried_us(ELSEWHERE_PAUSE_US));
		else
			eo_slot_free(view->ref);
	}
	else if (sealed && r->has_origin && r->origin.xid == view->info.origin.xid &&
			 memcmp(r->origin.life, view->info.origin.life, EO_UUID_LEN) == 0)
		eo_slot_prepared_note_seal(view->ref, &r->origin,
								   r->bind != NULL && strcmp(r->bind, "tx") == 0);
	else
		eo_slot_free(view->ref);
	return true;
}

static void
put_off_read(EoWorkerJob *job, int64 pause_us)
{
	const EoSlotView *view = job->data;

	eo_slot_put_off(view->ref, eo_clock_monotonic_us() + Max(EO_WORKER_TARGET_PAUSE_US, pause_us));
}

/* ----- taking slots ----- */

static void
take_slot(const EoSlotView *view)
{
	switch (view->info.state)
	{
		case EO_SLOT_TO_FINISH:
			finish(view);
			break;
		case EO_SLOT_TO_JUDGE:
			settle_judged(view);
			break;
		case EO_SLOT_IN_DOUBT:
			eo_slot_doubted(view->ref);
			break;
		default:
			add_or_wait(&settle_kind, view);
	}
}

static void
take_waiting(void)
{
	dlist_mutable_iter iter;
	EoSlotView	view;

	dlist_foreach_modify(iter, &slots.lines)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, line, iter.cur);

		while (!dlist_is_empty(&t->slots) && eo_jobs_accept(EO_WORKER_WRITES, &t->target))
		{
			CHECK_FOR_INTERRUPTS();
			if (next_waiting(t, &view))
				take_slot(&view);
		}
	}
}

/*
 * Does the slot wait?  A row that it tells of needs no room.  What has to be judged does, and
 * is judged when there is some, because another look at it would cost as much.
 */
static bool
must_wait(const EoSlotView *view)
{
	return view->info.state != EO_SLOT_TO_FINISH && view->info.state != EO_SLOT_IN_DOUBT &&
		(!dlist_is_empty(&eo_write_target_of(&view->target)->slots) ||
		 !eo_jobs_accept(EO_WORKER_WRITES, &view->target));
}

static bool
may_look(void)
{
	return eo_jobs_count() < FEW_JOBS;
}

static void
fetch_looks(int64 now_us)
{
	EoSlotView	view;

	while (may_look() && eo_look_next(MyDatabaseId, now_us, &view))
	{
		if (eo_jobs_accept(EO_WORKER_WRITES, &view.target))
			(void) add_job(&settle_kind, &view);
		else
			eo_slot_put_off(view.ref, now_us + EO_WORKER_TARGET_PAUSE_US);
	}
}

void
eo_settling_fetch(void)
{
	/* A slot that is put off now is not due again in this round. */
	int64		now_us = eo_clock_monotonic_us();
	EoSlotView	view;

	take_waiting();
	while (!eo_jobs_are_full(EO_WORKER_WRITES) &&
		   eo_slot_next_ended(MyDatabaseId, now_us, &view))
	{
		CHECK_FOR_INTERRUPTS();
		if (must_wait(&view))
			wait_for_room(&view);
		else
			take_slot(&view);
	}
	fetch_looks(now_us);
	eo_finish_take_written();
}

int64
eo_settling_due_us(void)
{
	int64		due_us = eo_slot_next_due(MyDatabaseId);

	if (may_look())
		due_us = Min(due_us, eo_look_due_us(MyDatabaseId));
	/* A slot that is due may have to wait, but there may be heartbeats. */
	if (eo_jobs_are_full(EO_WORKER_WRITES))
		due_us = Max(due_us, eo_clock_monotonic_us() + FULL_NAP_US);
	return due_us;
}

/*
 * May the claim be settled now?  If the outbox has told that its transaction was rolled
 * back that may be a prepared one, which an heir of our life has, too, and may commit.  So
 * as long as our lease does not hold, the key is left alone.
 */
static bool
may_settle(const EoSlotView *view)
{
	EoLifeVerdict verdict;

	if (view->info.state != EO_SLOT_TO_JUDGE || max_prepared_xacts == 0)
		return true;
	if (!eo_own_life_hold(&view->target))
		return false;
	eo_life_board_verdict(&view->target, view->info.origin.life, &verdict);
	return verdict.relation != EO_LIFE_OTHER;
}

static EoAnswer *
prepare_settle(EoWorkerJob *job, EoStore *store)
{
	const EoSlotView *view = job->data;

	if (!may_settle(view))
	{
		eo_slot_put_off(view->ref, eo_clock_monotonic_us() + JUDGE_PAUSE_US);
		return NULL;
	}
	return eo_settle_prepare(store, view);
}

/* Free the slot; but if its record was buried, look at that once more, later. */
static bool
take_settle(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoSlotView *view = job->data;
	EoSlotState state = view->info.state;
	EoSettled	settled = eo_settle_take(view, answer);

	if (settled == EO_SETTLED_WAITS && view->info.looks < MAX_WAITS)
	{
		eo_slot_wait(view->ref, eo_clock_monotonic_us() +
					 eo_guc_hurried_us(EO_WORKER_TARGET_PAUSE_US << Min(view->info.looks, 5)));
		return true;
	}
	if (settled == EO_SETTLED_AGAIN)
	{
		eo_slot_wait(view->ref, 0);
		return true;
	}
	if (settled == EO_SETTLED_WORN)
	{
		eo_slot_give_back(view->ref);
		return true;
	}
	if (answer->outcome == EO_APPLIED && state != EO_SLOT_TO_BURY && state != EO_SLOT_BURIED &&
		!eo_settle_is_own(view, answer, EO_STATE_COMMITTING))
		eo_stats_add(job->target->store->stats, EO_COUNT_GIVEN_BACK, 1);
	if (answer->outcome != EO_APPLIED &&
		(state == EO_SLOT_TO_FAIL || state == EO_SLOT_TO_RELEASE))
		ereport(LOG,
				(errmsg("exactonce: a claim on table \"%s\" was lost before its failure or release could be written",
						view->target.table)));
	if (settled == EO_SETTLED_LOOKS && view->info.looks < EO_LOOKS)
		eo_slot_buried(view->ref, eo_clock_monotonic_us() +
					   eo_guc_hurried_us(look_pauses_us[view->info.looks]));
	else
		eo_slot_free(view->ref);
	return true;
}

/* The slot goes to the end of its database's list, so that the other slots come first. */
static void
put_off_settle(EoWorkerJob *job, int64 pause_us)
{
	const EoSlotView *view = job->data;

	pause_us = Max(EO_WORKER_TARGET_PAUSE_US, Min(pause_us, MAX_PAUSE_US));
	eo_slot_put_off(view->ref, eo_clock_monotonic_us() + pause_us);
}

/* Is the record left to its lease, which is over by now at the latest? */
static bool
lease_is_over(const EoSlotInfo *info)
{
	return !eo_slot_has_origin(info) &&
		eo_clock_monotonic_us() - Max(info->ended_us, slots.began_us) > info->lease_ms * 1000;
}

/*
 * No server of this database leads to the record's table, so there are no credentials.  That is
 * nobody's decision about the claim: the slot waits for such a server (exactonce_claims shows it
 * as "no server").  A record that is not sealed is free when its lease is over, and then the slot
 * is not needed any more.
 */
static bool
abandon(EoWorkerJob *job)
{
	const EoSlotView *view = job->data;
	EoWorkerTarget *t = job->target;

	if (!t->complained)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce: no server of this database leads to table \"%s\" any more; keys of ended transactions wait",
						t->target.table),
				 errhint("Create a server for that table; see exactonce_claims.")));
	t->complained = true;
	if (lease_is_over(&view->info))
		eo_slot_free(view->ref);
	else
		put_off_settle(job, EO_WORKER_TARGET_PAUSE_US);
	return true;
}

/* ----- heartbeats ----- */

/* Have the heartbeat tried again after a pause that is short beside the lease. */
static void
retry_beat(const EoSlotView *view)
{
	eo_slot_beaten(view->ref, false, 0, eo_clock_monotonic_us() +
				   Min(EO_WORKER_TARGET_PAUSE_US, view->info.lease_ms * 1000 / 10));
}

/* It is given up when there is time for another one. */
static void
add_beat(const EoSlotView *view)
{
	EoWorkerJob *job = add_job(&beat_kind, view);

	job->limit_us = Max(MIN_BEAT_LIMIT_US, view->info.lease_ms * 1000 / 3);
}

/* Look at the slots from next_beat on, and go on there the next time. */
static void
fetch_beats(int64 now_us)
{
	EoSlotView	view;

	while (!eo_jobs_are_full(EO_WORKER_BEATS) &&
		   eo_slot_beat_due(MyDatabaseId, now_us, &slots.next_beat, &view))
	{
		/* The process of the session is gone, and has not given it back. */
		if (view.info.state == EO_SLOT_SESSION && BackendPidGetProc(view.info.pid) == NULL)
			eo_slot_end_session(view.info.pid);
		else if (eo_jobs_accept(EO_WORKER_BEATS, &view.target))
			add_beat(&view);
		else
			retry_beat(&view);
	}
}

void
eo_settling_fetch_beats(void)
{
	int64		now_us = eo_clock_monotonic_us();

	fetch_beats(now_us);
	if (eo_jobs_are_full(EO_WORKER_BEATS))
		return;
	/* The end was reached: go on at the beginning. */
	slots.next_beat = 0;
	fetch_beats(now_us);
}

static EoAnswer *
prepare_beat(EoWorkerJob *job, EoStore *store)
{
	const EoSlotView *view = job->data;
	EoWrite		w = {0};

	w.owner = view->info.token;
	w.now_ms = eo_client_now_ms(&store->client);
	w.lease_ms = w.now_ms + view->info.lease_ms;
	eo_record_keep(&w, w.lease_ms, view->info.retention_s);
	return eo_store_record_plan(store, view->pk, EO_EXTEND, &w);
}

/*
 * After a refusal the claim is lost, unless the record bears its token and is not
 * FAILED: then the owner has extended the lease further, or sealed or completed it.
 */
static bool
take_beat(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoSlotView *view = job->data;
	const EoRecord *r = eo_store_record(answer);
	bool		applied = answer->outcome == EO_APPLIED;
	bool		ours = applied || (answer->exists && strcmp(r->owner, view->info.token) == 0 &&
								   r->state != EO_STATE_FAILED);

	eo_slot_beaten(view->ref, !ours, applied ? r->lease_ms : 0,
				   eo_clock_monotonic_us() + view->info.lease_ms * 1000 / 3);
	/* The claim may have become a session's since the beat was sent. */
	if (!ours || (!applied && r->state == EO_STATE_COMPLETED))
		forget_session_claim(view, !ours);
	return true;
}

/* The claim of a session was ended with its token from elsewhere, or the key was taken over. */
static void
forget_session_claim(const EoSlotView *view, bool lost)
{
	if (eo_slot_session_over(view->info.digest, view->info.token) && lost)
		ereport(LOG,
				(errmsg("exactonce: process %d has lost a claim on table \"%s\" that it held as a session",
						view->info.pid, view->target.table),
				 errdetail("Its lease could not be extended in time, or an operator has ended the claim.")));
}

/* The slot is that of an open transaction, or of a session: it is never the worker's to free. */
static void
put_off_beat(EoWorkerJob *job, int64 pause_us)
{
	(void) pause_us;
	retry_beat(job->data);
}
