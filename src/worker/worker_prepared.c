/*-------------------------------------------------------------------------
 *
 * worker_prepared.c
 *	  For a worker: the claims of prepared transactions.
 *
 * A prepared transaction is ended by a statement of any session, which wakes the worker;
 * or by an apply worker of a subscription, of which nobody tells.  So the worker looks at
 * each signal, and once a second as long as there are such claims.
 *
 * When it starts, it looks in the outbox for rows of prepared transactions that have no
 * slot: after a failover, or a start of the machine, nobody else knows of them.  Such a
 * row does not tell which seal its record bears.  So if the transaction is rolled back
 * the record is read first.  It is also read if other data settles it, as beside a
 * living original: the claim is over when the record says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "cluster/life_watch.h"
#include "cluster/slot_prepared.h"
#include "cluster/slots.h"
#include "commit/settle.h"
#include "compat.h"
#include "ledger/lives.h"
#include "ledger/lock_limit.h"
#include "ledger/outbox.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/guc.h"
#include "server/store.h"
#include "utils/memutils.h"
#include "wire/clock.h"
#include "worker/finish.h"
#include "worker/own_life.h"
#include "worker/takeover.h"
#include "worker/worker_jobs.h"
#include "worker/worker_prepared.h"
#include "worker/worker_slots.h"
#include "worker/worker_targets.h"

#define LOOK_US INT64CONST(1000000)

/* Rows for which the claim table had no room are looked for again after this. */
#define ROOM_PAUSE_US INT64CONST(60000000)

/* A record that other data is to settle is read again after this. */
#define ELSEWHERE_PAUSE_US INT64CONST(10000000)

static struct
{
	Oid			dboid;
	uint32		signals;		/* eo_slot_prepared_signals() at the last look */
	int64		due_us;			/* the next look */
	int64		rows_due_us;	/* the next look for rows without slots */
	bool		all;			/* the last one has found room for all */
}			own;

static EoAnswer *prepare_read(EoWorkerJob *job, EoStore *store);
static bool take_read(EoWorkerJob *job, const EoAnswer *answer);
static void put_off_read(EoWorkerJob *job, int64 pause_us);
static bool abandon(EoWorkerJob *job);

static const EoWorkerJobKind read_kind = {
	.prepare = prepare_read,
	.take = take_read,
	.put_off = put_off_read,
	.abandon = abandon,
	.lane = EO_WORKER_WRITES
};

void
eo_worker_prepared_init(Oid dboid)
{
	own.dboid = dboid;
	own.due_us = 0;
	own.rows_due_us = max_prepared_xacts > 0 ? 0 : INT64_MAX;
}

int64
eo_worker_prepared_due_us(void)
{
	return Min(own.due_us, own.rows_due_us);
}

/* ----- rows without slots ----- */

/*
 * Make a slot for a row of a prepared transaction, unless there is one.  A row of an open
 * transaction may be met, too; its session has a slot.
 */
static bool
take_row(const EoOutboxRow *row)
{
	EoSlotInfo	info;

	if (eo_slot_prepared_is_known(row->digest, row->token))
		return true;
	eo_slot_info_init(&info, EO_SLOT_SEALING, row->digest, row->token);
	info.retention_s = row->retention_s;
	info.has_writes = row->writes.n > 0;
	memcpy(info.origin.life, row->life, sizeof(info.origin.life));
	info.origin.xid = info.prepared_xid = row->xid;
	info.vxid = eo_compat_prepared_vxid((TransactionId) row->xid);
	eo_slot_adopt(&row->target, row->pk, &info, NULL, 0);
	if (!eo_slot_prepared_is_known(row->digest, row->token))
		own.all = false;
	return true;
}

static void
visit_rows(void *arg)
{
	(void) arg;
	(void) eo_outbox_visit_undecided(take_row);
}

static void
find_rows(int64 now_us)
{
	own.all = true;
	if (!eo_lock_limit_run(EO_LOCKS_OUTBOX, visit_rows, NULL))
	{
		own.rows_due_us = eo_lock_limit_again_us(EO_LOCKS_OUTBOX);
		return;
	}
	own.rows_due_us = own.all ? INT64_MAX : now_us + ROOM_PAUSE_US;
	own.due_us = 0;
	if (own.all)
		eo_slot_prepared_set_complete(own.dboid);

	/*
	 * One may have ended since the first scan for rows, and before it had a
	 * slot.
	 */
	eo_finish_want_scan();
}

/* ----- looking ----- */

/* Has other data taken over from the life under which the claim was sealed? */
static EoSlotHeir
heir_of(const EoSlotView *view)
{
	const uint8 *life = view->info.origin.life;
	EoLifeVerdict verdict;
	EoLifeWatch watch;

	eo_takeover_ask(&view->target, life, &verdict);
	if (verdict.relation != EO_LIFE_OTHER)
		return EO_HEIR_OURS;
	if (!eo_life_watch_find(&view->target, life, &watch) || watch == EO_WATCH_LOOKING)
		return EO_HEIR_ASKED;
	return watch == EO_WATCH_FOREIGN ? EO_HEIR_FOREIGN : EO_HEIR_OURS;
}

void
eo_worker_prepared_fetch(void)
{
	int64		now_us = eo_clock_monotonic_us();
	uint32		signals = eo_slot_prepared_signals();
	uint64		last_xid = 0;
	bool		goes_on = false;
	uint32		cursor = 0;
	EoSlotView	view;
	EoLife		life;

	if (own.rows_due_us <= now_us)
		find_rows(now_us);
	if (signals == own.signals && own.due_us > now_us)
		return;
	own.signals = signals;
	own.due_us = INT64_MAX;
	while (eo_slot_prepared_walk(own.dboid, &cursor, &view))
	{
		EoSlotHeir	heir;

		if (view.info.prepared_xid != last_xid)
			goes_on = eo_settle_is_running(view.info.prepared_xid);
		last_xid = view.info.prepared_xid;
		if (!goes_on)
		{
			eo_slot_prepared_end(view.ref);
			continue;
		}
		own.due_us = now_us + eo_guc_hurried_us(LOOK_US);
		if (!eo_slot_has_origin(&view.info) || !eo_life_current(own.dboid, &life))
			continue;
		/* The finding counts as long as this life holds its lease. */
		(void) eo_own_life_hold(&view.target);
		heir = heir_of(&view);
		if (heir != view.info.heir || memcmp(view.info.heir_by, life.id, EO_UUID_LEN) != 0)
			eo_slot_prepared_set_heir(view.ref, heir, life.id);
	}
}

/* ----- the job ----- */

void
eo_worker_prepared_read(const EoSlotView *view)
{
	eo_worker_slots_add(&read_kind, view);
}

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

/* Without a server there are no credentials.  The slot waits for one, see worker_slots.c. */
static bool
abandon(EoWorkerJob *job)
{
	put_off_read(job, 0);
	return true;
}
