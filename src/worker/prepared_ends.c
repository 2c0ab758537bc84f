/*-------------------------------------------------------------------------
 *
 * prepared_ends.c
 *	  For a worker: the claims of prepared transactions.
 *
 * A prepared transaction is ended by a statement of any session, which wakes the worker;
 * or by an apply worker of a subscription, of which nobody tells.  So the worker looks at
 * each signal, and once a second as long as there are such claims.
 *
 * When it starts, it looks in the outbox for rows of prepared transactions that have no
 * slot: after a failover, or a start of the machine, nobody else knows of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/life_watch.h"
#include "cluster/slot_prepared.h"
#include "cluster/slots.h"
#include "commit/settle.h"
#include "compat.h"
#include "ledger/life_verdict.h"
#include "ledger/lock_limit.h"
#include "ledger/outbox.h"
#include "server/guc.h"
#include "wire/clock.h"
#include "worker/finish.h"
#include "worker/life_board.h"
#include "worker/own_life.h"
#include "worker/sources.h"

#define LOOK_US INT64CONST(1000000)

/* Rows for which the claim table had no room are looked for again after this. */
#define ROOM_PAUSE_US INT64CONST(60000000)

static struct
{
	uint32		signals;		/* eo_slot_prepared_signals() at the last look */
	int64		due_us;			/* the next look */
	int64		rows_due_us;	/* the next look for rows without slots */
	bool		all;			/* the last one has found room for all */
}			prepared;

void
eo_prepared_ends_init(void)
{
	prepared.rows_due_us = max_prepared_xacts > 0 ? 0 : INT64_MAX;
}

int64
eo_prepared_ends_due_us(void)
{
	return Min(prepared.due_us, prepared.rows_due_us);
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
		prepared.all = false;
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
	prepared.all = true;
	if (!eo_lock_limit_run(EO_LOCKS_OUTBOX, visit_rows, NULL))
	{
		prepared.rows_due_us = eo_lock_limit_again_us(EO_LOCKS_OUTBOX);
		return;
	}
	prepared.rows_due_us = prepared.all ? INT64_MAX : now_us + ROOM_PAUSE_US;
	prepared.due_us = 0;
	if (prepared.all)
		eo_database_set_prepared_known(MyDatabaseId);

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

	eo_life_board_verdict(&view->target, life, &verdict);
	if (verdict.relation != EO_LIFE_OTHER)
		return EO_HEIR_OURS;
	eo_life_board_watch(&view->target, life);
	if (!eo_life_watch_find(&view->target, life, &watch) || watch == EO_WATCH_LOOKING)
		return EO_HEIR_ASKED;
	return watch == EO_WATCH_FOREIGN ? EO_HEIR_FOREIGN : EO_HEIR_OURS;
}

void
eo_prepared_ends_fetch(void)
{
	int64		now_us = eo_clock_monotonic_us();
	uint32		signals = eo_slot_prepared_signals();
	uint64		last_xid = 0;
	bool		goes_on = false;
	uint32		cursor = 0;
	EoSlotView	view;
	EoLife		life;

	if (prepared.rows_due_us <= now_us)
		find_rows(now_us);
	if (signals == prepared.signals && prepared.due_us > now_us)
		return;
	prepared.signals = signals;
	prepared.due_us = INT64_MAX;
	while (eo_slot_prepared_walk(MyDatabaseId, &cursor, &view))
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
		prepared.due_us = now_us + eo_guc_hurried_us(LOOK_US);
		if (!eo_slot_has_origin(&view.info) || !eo_life_current(MyDatabaseId, &life))
			continue;
		/* The finding counts as long as this life holds its lease. */
		(void) eo_own_life_hold(&view.target);
		heir = heir_of(&view);
		if (heir != view.info.heir || memcmp(view.info.heir_by, life.id, EO_UUID_LEN) != 0)
			eo_slot_prepared_set_heir(view.ref, heir, life.id);
	}
}
