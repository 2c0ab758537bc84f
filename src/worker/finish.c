/*-------------------------------------------------------------------------
 *
 * finish.c
 *	  Jobs of a worker: finish the rows of the outbox.
 *
 * A row that is visible belongs to a transaction that has committed.  Its record
 * goes from COMMITTING to COMPLETED, and then the row is removed: in this order,
 * because after a crash between the two the row is still there, and the record is
 * finished again.
 *
 * Usually no scan is needed: the slots of a transaction tell of its rows when it
 * commits (eo_finish_take()).  The outbox is scanned for rows that are older
 * than the worker, and for those that found no room in the queue.
 *
 * A record may be marked only when a failover cannot lose its commit any more
 * (barrier.c).  Until then there is no job for it, which would take the room of
 * other work.  The first MAX_HELD rows that slots tell of are kept in a list, and the
 * others are found by the scan that comes when the barrier has opened.
 *
 * A scan meets the rows as they lie in the table, so that of a backlog the older rows
 * come first, and it may meet a backlog of rows whose target takes no more jobs before the
 * rows of other targets.  A short scan begins at the first row for which there was no
 * room, and ends when it has skipped MAX_SKIPPED of such rows.  After that a full scan
 * is due, as soon as SCAN_SHARE allows, so that every row is met in the end.  Each kind
 * has its own share, so that a backlog, which makes full scans long, does not make the
 * worker wait for the short ones.
 *
 * As long as there is a backlog, the rows that slots tell of take only half of their target's room.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "cluster/cache.h"
#include "cluster/target.h"
#include "ledger/internal.h"
#include "ledger/known_targets.h"
#include "ledger/life_verdict.h"
#include "ledger/lock_limit.h"
#include "ledger/outbox.h"
#include "pgstat.h"
#include "records/action_item.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/stats.h"
#include "server/store.h"
#include "server/store_record.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "worker/barrier.h"
#include "worker/finish.h"
#include "worker/finish_evidence.h"
#include "worker/finish_notes.h"
#include "worker/jobs.h"
#include "worker/life_board.h"
#include "worker/own_life.h"
#include "worker/write_order.h"
#include "worker/write_refusals.h"
#include "worker/write_targets.h"

/* A short scan ends when it has skipped so many rows whose targets have no room. */
#define MAX_SKIPPED 256

/*
 * A full scan is due this often, even if nothing has asked for one.  It also forgets
 * rows that an operator has removed, which would keep the worker from leaving.
 */
#define FULL_SCAN_US INT64CONST(60000000)

/*
 * Scan the outbox for at most 1/SCAN_SHARE of the worker's time.  A scan may take
 * long, because dead rows stay in the table as long as any session has an old
 * snapshot.
 */
#define SCAN_SHARE 5

/* A row whose record refused to be finished is tried again after this. */
#define REFUSED_US INT64CONST(600000000)
#define OTHER_LIFE_US INT64CONST(30000000)	/* by a life that is not over */

/* A row whose writes were refused, or whose answer was not understood, is retried after this. */
#define REFUSED_WRITES_US INT64CONST(60000000)

/* A row is tried again after this if our lease is too old, or if it is to name another seal. */
#define LEASE_PAUSE_US INT64CONST(100000)

/* The removal of a row that an operator is changing is retried after this. */
#define CHANGED_AGAIN_US INT64CONST(200000)

/* The most rows held back by the barrier that are kept in memory. */
#define MAX_HELD 1024

/* A row that has a job or is held, or whose job was refused or has failed. */
typedef struct KnownRow
{
	char		token[EO_TOKEN_LEN + 1];
	int64		again_us;		/* the next try; 0: the row has a job, or is
								 * held */
	int64		failed_us;		/* when its call failed; 0: it was refused */
	uint32		scan;			/* the last scan that has met the row */
	int64		committed_us;	/* when it committed; 0: not known */
} KnownRow;

/* A row for which the barrier is not open yet. */
typedef struct HeldRow
{
	dlist_node	node;
	EoOutboxRow row;			/* and what it points to */
} HeldRow;

static struct
{
	Oid			outbox;
	HTAB	   *known;			/* KnownRow by token */
	dlist_head	done;			/* jobs whose rows are to be removed */
	int			ndone;
	dlist_head	held;			/* HeldRow */
	int			nheld;
	bool		others_held;	/* rows that are in no list wait, too */
	bool		scan_wanted;	/* there may be rows that could have a job */
	bool		held_back;		/* there are rows whose targets had no room */
	bool		full_wanted;	/* the last scan ended early */
	int64		retry_us;		/* when a row that has failed is due */
	uint32		recoveries;		/* of targets, at the last scan */
	int64		not_before_us;	/* SCAN_SHARE allows no scan before this */
	int64		full_not_before_us; /* and no full scan before this */
	BlockNumber from;			/* where the next short scan begins */
	BlockNumber skipped;		/* where this scan has met the first row for
								 * which there was no room; or invalid, which
								 * is more than all */
	uint32		scan;			/* number of the scan */
	bool		full;			/* the next scan is a full one */
	int64		full_due_us;	/* a full scan is due even if none is wanted */
	bool		wait_for_life;	/* there are rows of lives that are not over */
	uint32		changes;		/* the board's count at the last scan */
	uint32		adoptions;		/* the board's count, the same */
	int			may_skip;		/* rows that the scan may still skip */
}			rows;

static void scan(bool full);
static void forget_removed(void);
static bool take_row(const EoOutboxRow *row);
static bool add_job(const EoOutboxRow *row);
static void refuse_row(const EoOutboxRow *row);
static void hold(const EoOutboxRow *row);
static void let_go(void);
static EoAnswer *prepare(EoWorkerJob *job, EoStore *store);
static bool take(EoWorkerJob *job, const EoAnswer *answer);
static bool refused(EoWorkerJob *job, const EoAnswer *answer);
static void failed(EoWorkerJob *job, const EoError *error);
static void put_off(EoWorkerJob *job, int64 pause_us);
static bool abandon(EoWorkerJob *job);

static const EoWorkerJobKind finish_kind = {
	.prepare = prepare,
	.take = take,
	.refused = refused,
	.failed = failed,
	.put_off = put_off,
	.abandon = abandon,
	.lane = EO_WORKER_WRITES,
	.shares = true
};

void
eo_finish_init(void)
{
	HASHCTL		ctl = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(KnownRow)};

	rows.known = hash_create("exactonce rows", 256, &ctl, HASH_ELEM | HASH_BLOBS);
	eo_finish_notes_init();
	rows.scan_wanted = true;
	rows.retry_us = INT64_MAX;
}

void
eo_finish_enter(Oid outbox)
{
	rows.outbox = outbox;
}

bool
eo_finish_any(void)
{
	return hash_get_num_entries(rows.known) > 0 || rows.others_held || rows.wait_for_life;
}

void
eo_finish_want_scan(void)
{
	rows.scan_wanted = true;
}

/* ----- scanning ----- */

/* When the next full scan is due. */
static int64
full_scan_due_us(void)
{
	return rows.full_wanted ? Max(rows.not_before_us, rows.full_not_before_us) : rows.full_due_us;
}

/* Have rows been waiting for what the board tells now? */
static bool
has_board_news(void)
{
	return (rows.wait_for_life && rows.changes != eo_life_board_counts()->changes) ||
		rows.adoptions != eo_life_board_counts()->adoptions;
}

int64
eo_finish_due_us(void)
{
	int64		due_us = Min(full_scan_due_us(), rows.retry_us);

	/* Nothing is fetched then, and the jobs that end wake the worker. */
	if (eo_jobs_are_full(EO_WORKER_WRITES))
		return INT64_MAX;
	/* The jobs that have ended in this round may have made room. */
	if (eo_jobs_made_room() && rows.held_back)
		rows.scan_wanted = true;
	/* An operator is changing what is left of those that are to be removed. */
	if (rows.ndone > 0)
		return eo_clock_monotonic_us() + CHANGED_AGAIN_US;
	if (has_board_news())
		return rows.not_before_us;
	return rows.scan_wanted ? rows.not_before_us : Max(due_us, rows.not_before_us);
}

/* Is the outbox another one than this worker has begun with?  If not, scan it. */
static void
look_and_scan(void *arg)
{
	bool	   *gone = arg;

	*gone = eo_internal_look() != rows.outbox;
	if (!*gone)
		scan(rows.full);
}

/* The outbox is locked.  Work was rolled back, and a scan is to find all of it again. */
static void
put_off_work(void)
{
	eo_write_order_start_over();
	rows.scan_wanted = true;
	rows.not_before_us = Max(rows.not_before_us, eo_lock_limit_again_us(EO_LOCKS_OUTBOX));
}

bool
eo_finish_fetch(void)
{
	int64		started_us = eo_clock_monotonic_us();
	int64		now_us;
	int64		pause_us;
	bool		gone;

	rows.full = full_scan_due_us() <= started_us;

	if (eo_barrier_look())
		let_go();
	/* Rows that have failed are due, or their target is well again. */
	if (rows.retry_us <= started_us || (rows.retry_us != INT64_MAX &&
										rows.recoveries != eo_write_targets_recoveries()))
		rows.scan_wanted = true;
	if (has_board_news())
		rows.scan_wanted = true;
	/* If the outbox is not known, the extension may have been dropped. */
	if (!eo_internal_is_known() || rows.full)
		rows.scan_wanted = true;
	if (!rows.scan_wanted || eo_jobs_are_full(EO_WORKER_WRITES) ||
		rows.not_before_us > started_us)
		return true;

	if (!eo_lock_limit_run(EO_LOCKS_OUTBOX, look_and_scan, &gone))
	{
		put_off_work();
		return true;
	}
	if (gone)
		return false;
	now_us = eo_clock_monotonic_us();
	pause_us = Min(SCAN_SHARE * (now_us - started_us), FULL_SCAN_US);
	rows.not_before_us = now_us + (rows.full ? 0 : pause_us);
	if (rows.full)
	{
		rows.full_not_before_us = now_us + pause_us;
		rows.full_due_us = now_us + eo_guc_hurried_us(FULL_SCAN_US);
	}
	return true;
}

/* Make jobs of rows.  A short scan that reaches the end goes on at the beginning. */
static void
scan(bool full)
{
	BlockNumber from = full ? 0 : rows.from;
	bool		to_the_end;

	rows.may_skip = full ? INT_MAX : MAX_SKIPPED;
	rows.skipped = InvalidBlockNumber;
	rows.held_back = rows.wait_for_life = false;
	rows.changes = eo_life_board_counts()->changes;
	rows.adoptions = eo_life_board_counts()->adoptions;
	rows.retry_us = INT64_MAX;
	rows.recoveries = eo_write_targets_recoveries();
	rows.scan++;
	if (full)
		eo_write_order_expect();
	eo_write_order_begin();
	to_the_end = eo_outbox_visit(from, take_row);
	rows.full_wanted = !to_the_end || from > 0;
	if (!rows.full_wanted)
		forget_removed();
	rows.scan_wanted = eo_jobs_are_full(EO_WORKER_WRITES) || (to_the_end && from > 0) ||
		eo_write_order_again();
	rows.from = BlockNumberIsValid(rows.skipped) && (!to_the_end || from == 0) ? rows.skipped : 0;
}

/*
 * A scan has met all rows.  An operator has removed or given up those that it has not
 * met; a row that has a job is left to the job.
 */
static void
forget_removed(void)
{
	HASH_SEQ_STATUS scan;
	KnownRow   *known;

	hash_seq_init(&scan, rows.known);
	while ((known = hash_seq_search(&scan)) != NULL)
	{
		if (known->again_us == 0 || known->scan == rows.scan)
			continue;
		eo_finish_notes_forget(known->token);
		hash_search(rows.known, known->token, HASH_REMOVE, NULL);
	}
}

/*
 * Is it too early for a row that was refused, or whose write has failed?  A row that
 * failed together with its target is tried again as soon as the target has recovered.
 */
static bool
is_too_early(const KnownRow *known, const EoTarget *target)
{
	if (known->again_us <= eo_clock_monotonic_us())
		return false;
	if (known->failed_us == 0)
		return true;
	if (eo_write_target_of(target)->recovered_us > known->failed_us)
		return false;
	rows.retry_us = Min(rows.retry_us, known->again_us);
	return true;
}

/* Note a row. */
static KnownRow *
know(const EoOutboxRow *row)
{
	bool		found;
	KnownRow   *known = hash_search(rows.known, row->token, HASH_ENTER, &found);

	if (!found || known->committed_us == 0)
		known->committed_us = row->committed_us;
	return known;
}

/*
 * Add a job for a row, unless it has one, is put off, or its target has no room.
 * Returns false if the scan is to end.
 */
static bool
take_row(const EoOutboxRow *row)
{
	KnownRow   *known = hash_search(rows.known, row->token, HASH_FIND, NULL);

	if (known != NULL)
		known->scan = rows.scan;
	if (known != NULL && (known->again_us == 0 || is_too_early(known, &row->target)))
		return true;
	if (!eo_known_target_exists(&row->target))
	{
		refuse_row(row);
		return true;
	}
	if (row->writes.n > 0 && !eo_write_order_may_go(row))
	{
		rows.skipped = Min(rows.skipped, row->block);
		return true;
	}
	if (eo_barrier_is_open_for(row->xid))
		return add_job(row);
	rows.others_held = true;
	return true;
}

/* Add a job if the target has room.  Returns false if the scan is to end. */
static bool
add_job(const EoOutboxRow *row)
{
	KnownRow   *known;
	EoWorkerJob *job;
	EoOutboxRow *copy;
	EoLifeVerdict verdict;

	/* A row of another life is ours to finish once that life is over. */
	eo_life_board_verdict(&row->target, row->life, &verdict);
	if (verdict.relation == EO_LIFE_OTHER)
	{
		eo_life_board_watch(&row->target, row->life);
		rows.wait_for_life = true;
		return true;
	}
	if (!eo_jobs_accept(EO_WORKER_WRITES, &row->target))
	{
		rows.held_back = true;
		rows.skipped = Min(rows.skipped, row->block);
		return rows.may_skip-- > 0;
	}
	known = know(row);
	known->again_us = 0;
	known->scan = rows.scan;

	/* Other tables are written with the rights of the row's own role. */
	job = row->writes.n > 0 ? eo_job_add(&finish_kind, &row->target, row->token) :
		eo_job_add_for_any(&finish_kind, &row->target, row->token);
	job->data = copy = MemoryContextAlloc(job->context, sizeof(EoOutboxRow));
	*copy = *row;
	copy->committed_us = known->committed_us;
	copy->pk = MemoryContextStrdup(job->context, row->pk);
	if (copy->writes.n > 0)
		eo_write_order_load(job);
	if (!eo_jobs_are_full(EO_WORKER_WRITES))
		return true;
	rows.skipped = Min(rows.skipped, row->block);
	return false;
}

/* The row cannot have been inserted by a transaction of ours: send nothing for it. */
static void
refuse_row(const EoOutboxRow *row)
{
	KnownRow   *known = know(row);

	known->again_us = eo_clock_monotonic_us() + eo_guc_hurried_us(REFUSED_US);
	known->failed_us = 0;
	known->scan = rows.scan;
	eo_finish_note_alien(row);
}

void
eo_finish_take(const EoOutboxRow *row)
{
	KnownRow   *known = hash_search(rows.known, row->token, HASH_FIND, NULL);

	if (known != NULL && known->again_us == 0)
		return;
	if (!eo_barrier_is_open_for(row->xid))
	{
		hold(row);
		return;
	}
	/* Older rows are waiting for room.  A scan finds this one, too. */
	if (rows.held_back && eo_jobs_half_full(&row->target))
		return;
	(void) add_job(row);
}

/* ----- rows with writes that slots tell of ----- */

void
eo_finish_note_written(const EoOutboxRow *row)
{
	if (!eo_write_order_note(row))
		rows.scan_wanted = true;
}

/*
 * Take a row that has been put in order, behind another one (NULL: it is the first).  If that
 * one has no job because its writes were refused, an operator may have removed it, which a
 * scan finds out.
 */
static void
take_written(const EoOutboxRow *row, const char *behind)
{
	const KnownRow *known = behind == NULL ? NULL :
	hash_search(rows.known, behind, HASH_FIND, NULL);

	if (known != NULL && known->again_us != 0)
	{
		eo_write_order_expect();
		rows.scan_wanted = true;
	}
	/* Older rows are waiting for room.  A scan finds this one, too. */
	if (rows.held_back && eo_jobs_half_full(&row->target))
		return;
	(void) take_row(row);
}

static void
take_noted(void *arg)
{
	EoOutboxRow row;
	const char *behind;

	(void) arg;
	if (!OidIsValid(eo_internal_look()))
		return;
	while (eo_write_order_next_noted(&row, &behind))
		take_written(&row, behind);
}

void
eo_finish_take_written(void)
{
	if (eo_write_order_any_noted() && !eo_lock_limit_run(EO_LOCKS_OUTBOX, take_noted, NULL))
		put_off_work();
}

/* ----- the barrier ----- */

static void
hold(const EoOutboxRow *row)
{
	HeldRow    *held;

	if (rows.nheld >= MAX_HELD)
	{
		rows.others_held = true;
		return;
	}
	held = MemoryContextAlloc(TopMemoryContext, sizeof(HeldRow));
	held->row = *row;
	held->row.pk = MemoryContextStrdup(TopMemoryContext, row->pk);
	dlist_push_tail(&rows.held, &held->node);
	rows.nheld++;
	know(row)->again_us = 0;
}

/* The barrier has opened for some: add jobs for them. */
static void
let_go(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &rows.held)
	{
		HeldRow    *held = dlist_container(HeldRow, node, iter.cur);

		if (!eo_barrier_is_open_for(held->row.xid))
			continue;
		dlist_delete(&held->node);
		rows.nheld--;
		hash_search(rows.known, held->row.token, HASH_REMOVE, NULL);
		(void) add_job(&held->row);
		pfree(held->row.pk);
		pfree(held);
	}
	if (rows.others_held)
		rows.scan_wanted = true;
	rows.others_held = false;
}

/* ----- the job ----- */

/*
 * May the row be finished now?  If not, the job is put off.  Another heir may have retired
 * our life since the job was made, and then settles by its own data what we had inherited.
 * So a row of a life that is over is finished only while our lease holds.  So is any row
 * where transactions are prepared: an heir may have the same transaction, and roll it back; and
 * one whose record another transaction has sealed.
 */
static bool
may_finish(EoWorkerJob *job, bool seal_of_other)
{
	const EoOutboxRow *row = job->data;
	EoLifeVerdict verdict;

	eo_life_board_verdict(&row->target, row->life, &verdict);
	if (verdict.relation == EO_LIFE_OTHER)
	{
		put_off(job, 0);
		return false;
	}
	if ((verdict.relation == EO_LIFE_OURS && max_prepared_xacts == 0 && !seal_of_other &&
		 job->target == job->asked) ||
		eo_own_life_hold(&row->target))
		return true;
	put_off(job, job->target->failing ? EO_WORKER_TARGET_PAUSE_US : LEASE_PAUSE_US);
	return false;
}

static EoAnswer *
prepare(EoWorkerJob *job, EoStore *store)
{
	const EoOutboxRow *row = job->data;
	EoFinishSeal seal;
	EoWrite		w = {0};

	if (row->writes.n > 0 && row->writes.text == NULL)
	{
		hash_search(rows.known, job->token, HASH_REMOVE, NULL);
		return NULL;
	}
	eo_finish_evidence_seal(job, &seal);
	if (!may_finish(job, seal.verb == EO_FINISH_OTHER))
		return NULL;
	w.owner = row->token;
	w.origin = seal.origin;
	w.origin_last = seal.last;
	w.now_ms = eo_client_now_ms(&store->client);
	eo_record_keep(&w, w.now_ms, row->retention_s);
	w.writes = row->writes.n;
	/* Actions are not remembered. */
	if (eo_cache_is_used(store) && !eo_action_item_is_pk(row->pk))
	{
		eo_cache_digest(&row->target, row->pk, job->digest);
		job->cache_mark = eo_cache_mark(store, job->digest);
	}
	if (row->writes.n > 0)
		return eo_write_order_prepare(job, store, seal.verb, &w);
	return eo_store_record_plan(store, row->pk, seal.verb, &w);
}

/*
 * Count a row that was finished.  If no slot has told of its commit, the time is that from
 * the call of idem_complete().
 */
static void
count(const EoOutboxRow *row, EoStats *stats)
{
	eo_stats_add(stats, EO_COUNT_ROWS_FINISHED, 1);
	eo_stats_add_time(stats, EO_MEASURE_COMPLETION, row->committed_us != 0 ?
					  eo_clock_monotonic_us() - row->committed_us :
					  GetCurrentTimestamp() - row->created_at);
}

/* Put off a row that waits for somebody to remove the cause. */
static void
put_off_refused(const char *token, int64 pause_us)
{
	KnownRow   *known = hash_search(rows.known, token, HASH_FIND, NULL);

	if (known == NULL)
		return;
	known->again_us = eo_clock_monotonic_us() + eo_guc_hurried_us(pause_us);
	known->failed_us = 0;
}

static bool
take(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoOutboxRow *row = job->data;
	bool		goes_on;

	/* A row goes if its record shows its finish, or by an operator. */
	if (eo_finish_evidence_shows(job, answer))
	{
		count(row, job->target->store->stats);
		/* The reply to a transaction brings no record. */
		if (answer->exists && !answer->is_narrow && !eo_action_item_is_pk(row->pk))
			eo_cache_put(job->target->store, job->digest, eo_store_record(answer), job->cache_mark);
		dlist_push_tail(&rows.done, &job->node);
		rows.ndone++;
		return false;
	}

	if (eo_finish_evidence_take_seal(job, answer, &goes_on))
		put_off(job, LEASE_PAUSE_US);
	else
	{
		put_off_refused(row->token, goes_on ? OTHER_LIFE_US : REFUSED_US);
		eo_finish_note_refused(row, answer);
	}
	return true;
}

/* DynamoDB refuses the writes of the row, or says what is not understood. */
static bool
refused(EoWorkerJob *job, const EoAnswer *answer)
{
	if (!eo_write_refusals_take(job, answer))
		return false;
	put_off_refused(job->token, REFUSED_WRITES_US);
	return true;
}

static void
failed(EoWorkerJob *job, const EoError *error)
{
	MemoryContext old = MemoryContextSwitchTo(job->context);

	eo_finish_note(job->data, EO_TROUBLE_FAILS, true, eo_error_reason(error), 0);
	MemoryContextSwitchTo(old);
}

static void
put_off(EoWorkerJob *job, int64 pause_us)
{
	KnownRow   *known = hash_search(rows.known, job->token, HASH_FIND, NULL);

	if (pause_us > 0 && known != NULL)
	{
		known->failed_us = eo_clock_monotonic_us();
		known->again_us = known->failed_us + pause_us;
		rows.retry_us = Min(rows.retry_us, known->again_us);
		return;
	}
	hash_search(rows.known, job->token, HASH_REMOVE, NULL);
	rows.held_back = true;
}

/* The credentials were dropped with the server.  The row waits for a new one. */
static bool
abandon(EoWorkerJob *job)
{
	eo_finish_note_dropped(job->data, job->target->complained ? 0 : job->target->jobs);
	job->target->complained = true;
	return false;
}

/* ----- removing ----- */

/* Rows are removed.  Add jobs for those that have waited for their writes. */
static void
take_next(EoOutboxRow *const *done, int n)
{
	EoOutboxRow row;

	for (int i = 0; i < n; i++)
	{
		if (done[i]->writes.n > 0)
			eo_write_order_finished(done[i]->token);
	}
	while (eo_write_order_next(&row))
		(void) take_row(&row);
}

static void
remove_done(void *arg)
{
	EoOutboxRow **done;
	int			n = 0;
	dlist_iter	iter;

	(void) arg;
	if (!OidIsValid(eo_internal_look()))
		return;
	done = palloc((rows.ndone + 1) * sizeof(EoOutboxRow *));
	eo_finish_notes_put();
	dlist_foreach(iter, &rows.done)
		done[n++] = dlist_container(EoWorkerJob, node, iter.cur)->data;
	eo_outbox_remove_rows(done, n);
	take_next(done, n);
}

void
eo_finish_remove(void)
{
	dlist_mutable_iter removal;

	if (dlist_is_empty(&rows.done) && !eo_finish_notes_any())
		return;
	if (!eo_lock_limit_run(EO_LOCKS_OUTBOX, remove_done, NULL))
	{
		put_off_work();
		return;
	}
	eo_finish_notes_take();
	/* Report the dead rows, so that autovacuum removes them. */
	pgstat_report_stat(false);
	if (eo_write_order_wait())
		rows.scan_wanted = true;
	dlist_foreach_modify(removal, &rows.done)
	{
		EoWorkerJob *job = dlist_container(EoWorkerJob, node, removal.cur);
		EoOutboxRow *row = job->data;

		/* An operator is giving it up.  Nothing of it may stay after that. */
		if (row->given_up)
		{
			row->given_up = false;
			continue;
		}
		dlist_delete(&job->node);
		rows.ndone--;
		hash_search(rows.known, row->token, HASH_REMOVE, NULL);
		eo_finish_notes_forget(row->token);
		eo_job_end(job);
	}
}
