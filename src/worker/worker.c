/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of a database: its main loop.
 *
 * The worker does what is left to be done when transactions are over, and extends
 * the leases of the claims of open transactions.  Its work comes from three
 * sources:
 *
 * - Rows of the outbox.  A row that is visible belongs to a transaction that has
 *	 committed: its record is to be marked COMPLETED (finish.c).
 * - Slots whose transactions are over.  The state of the slot says what is left to
 *	 be done; some slots are of the server's last run (worker_slots.c).
 * - Slots of open transactions, when a third of the lease is over
 *	 (worker_slots.c).
 *
 * Each piece of work is a job in a queue (worker_jobs.c), for a table that may be
 * failing (worker_targets.c).
 *
 * The worker sleeps until the next piece is due or its latch is set: by a commit,
 * an abort, or a new claim with a short lease.  It wakes at least every NAP_US, to
 * note in shared memory that it is alive.  It is never in a transaction while it
 * waits, so that it holds no locks and does not hold back vacuum.  Its transactions wait for
 * the locks of others only so long (lock_limit.c).
 *
 * As long as it cannot look at the extension's tables, because somebody has locked them,
 * sessions do not rely on it, but it extends the leases of those that relied on the
 * worker before.
 *
 * An error ends the process, and the launcher starts another one.  Nothing is lost
 * by that: the rows and the slots are still there, and jobs are made of them again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/owed_scans.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "compat.h"
#include "ledger/internal.h"
#include "ledger/lock_limit.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "server/credentials.h"
#include "server/guc.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "worker/finish.h"
#include "worker/own_life.h"
#include "worker/recovery_scan.h"
#include "worker/takeover.h"
#include "worker/worker.h"
#include "worker/worker_barrier.h"
#include "worker/worker_failures.h"
#include "worker/worker_jobs.h"
#include "worker/worker_prepared.h"
#include "worker/worker_probes.h"
#include "worker/worker_settings.h"
#include "worker/worker_slots.h"
#include "worker/worker_targets.h"

/* The worker notes at least this often that it is alive. */
#define NAP_US INT64CONST(5000000)

/* It looks at least this often for heartbeats while there is no room for writes. */
#define FULL_NAP_US INT64CONST(100000)

/* It looks so often for heartbeats while it cannot look at the tables. */
#define ENTER_NAP_US INT64CONST(10000)

/* A worker that has had nothing to do for this long leaves. */
#define IDLE_US INT64CONST(300000000)

/* It takes so long at most to close its life. */
#define CLOSE_US INT64CONST(2000000)

static Oid	database_id;
static int64 refresh_due_us;	/* see eo_credentials_refresh() */
static bool come_back;			/* this worker leaves rows for another one */
static bool entered;			/* the database */
static volatile sig_atomic_t told_to_end;	/* by a signal */
static MemoryContext worker_context;
static MemoryContext round_context; /* reset before each round */

static void take_sigterm(SIGNAL_ARGS);
static void make_ready(void);
static bool enter_database(void);
static void close_life(int code, Datum arg);
static void leave(int code, Datum arg);
static bool work(void);
static int64 next_wake_us(void);

void
eo_worker_main(Datum arg)
{
	int64		last_work_us = eo_clock_monotonic_us();

	database_id = DatumGetObjectId(arg);
	pqsignal(SIGTERM, take_sigterm);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!eo_database_attach(database_id))
		proc_exit(0);
	before_shmem_exit(leave, (Datum) 0);
	before_shmem_exit(close_life, (Datum) 0);
	eo_slot_restart(database_id);
	eo_worker_settings_note();
	BackgroundWorkerInitializeConnectionByOid(database_id, InvalidOid, 0);
	eo_worker_settings_apply();
	make_ready();

	while (!eo_database_should_leave(database_id))
	{
		int64		until;
		bool		idle;

		MemoryContextReset(round_context);
		MemoryContextSwitchTo(round_context);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			eo_worker_barrier_reload();
		}
		idle = !work();
		/* Nothing is left, and an operator waits for that. */
		if (idle && eo_database_is_drained(database_id))
			eo_own_life_close(eo_clock_monotonic_us() + CLOSE_US);
		if (!idle)
			last_work_us = eo_clock_monotonic_us();
		/* With all rows put off, it may make room for another database's. */
		eo_database_alive(database_id, eo_worker_jobs_count() == 0 && !eo_takeover_any());
		if (idle && eo_clock_monotonic_us() - last_work_us > eo_guc_hurried_us(IDLE_US))
		{
			eo_own_life_close(eo_clock_monotonic_us() + CLOSE_US);
			last_work_us = eo_clock_monotonic_us();

			/*
			 * A life that is neither closed nor retired still needs this
			 * worker, and so does one that owes a scan.
			 */
			if (!eo_life_any_ended(database_id) && !eo_owed_scan_any(database_id, InvalidOid) &&
				eo_database_may_leave(database_id))
				break;
		}
		until = next_wake_us();
		/* Requests in flight make progress in eo_http_wait() only. */
		if (eo_worker_jobs_in_flight() || eo_recovery_scan_in_flight() ||
			refresh_due_us != INT64_MAX)
			until = Max(until, eo_clock_monotonic_us() + 1000);
		if (until > eo_clock_monotonic_us())
			eo_http_wait(until, EO_WAIT_LATCH);
	}
	come_back = !entered || eo_finish_any() || eo_owed_scan_any(database_id, InvalidOid);
	proc_exit(0);
}

/* The server is shut down, or somebody ends this process. */
static void
take_sigterm(SIGNAL_ARGS)
{
	told_to_end = true;
	die(postgres_signal_arg);
}

/*
 * A signal has ended the process, maybe in the middle of a round: in a scan of the outbox, or
 * while it waited for a lock.  The life is closed here because the process comes here wherever
 * it was.  Its transaction was aborted before: PostgreSQL's own callback was registered after
 * this one.  An error is FATAL from now on, and leads to the callbacks that are left.
 */
static void
close_life(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (!told_to_end || !entered)
		return;
	MemoryContextSwitchTo(round_context);
	/* Nobody takes the answers to what the round has sent. */
	eo_http_end_all();
	eo_own_life_close(eo_clock_monotonic_us() + CLOSE_US);
	come_back = eo_finish_any();
}

/* The process ends.  If it has failed, or leaves work, ask for another one. */
static void
leave(int code, Datum arg)
{
	(void) arg;

	/*
	 * An error in close_life() leaves its transaction, and with that its
	 * locks.
	 */
	AbortOutOfAnyTransaction();
	eo_own_life_leave();
	eo_credentials_leave();
	eo_database_detach(database_id, code != 0 || come_back, code != 0);
}

/* Make ready all that needs no table. */
static void
make_ready(void)
{
	worker_context = AllocSetContextCreate(TopMemoryContext, "exactonce worker",
										   ALLOCSET_DEFAULT_SIZES);
	round_context = AllocSetContextCreate(worker_context, "exactonce worker round",
										  ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(worker_context);
	eo_worker_targets_init(worker_context);
	eo_worker_failures_init(worker_context);
	eo_worker_jobs_init(worker_context);
	eo_own_life_init(worker_context, database_id);
	eo_takeover_init(worker_context, database_id);
	eo_recovery_scan_init(worker_context);
	eo_worker_barrier_init(worker_context);
	eo_worker_slots_init(worker_context, database_id);
	eo_worker_prepared_init(database_id);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* Sessions do not rely on a worker that cannot read the tables. */
static void
look_at_tables(void *arg)
{
	Oid		   *outbox = arg;

	*outbox = eo_internal_look();
	if (OidIsValid(*outbox))
		eo_internal_check();
}

/*
 * Find the extension's tables, and begin or go on with the life of this database.  Returns
 * false if somebody has locked them.
 */
static bool
enter_database(void)
{
	Oid			outbox;

	if (!eo_lock_limit_run(EO_LOCKS_OUTBOX, look_at_tables, &outbox))
		return false;
	if (!OidIsValid(outbox))
	{
		eo_database_absent(database_id);
		proc_exit(0);
	}
	if (!eo_own_life_enter())
		return false;
	eo_finish_init(worker_context, outbox);
	eo_database_publish(database_id, outbox);
	return true;
}

static void
look_for_outbox(void *arg)
{
	*(bool *) arg = !OidIsValid(eo_internal_look());
}

/*
 * The outbox with which this worker began is gone: the extension was dropped.  If
 * it was created anew another worker is started, which reads the new identity.
 */
static void
leave_dropped_outbox(void)
{
	bool		gone;

	if (!eo_lock_limit_run(EO_LOCKS_OUTBOX, look_for_outbox, &gone))
		return;

	/*
	 * A transaction with claims goes on under the life, see
	 * eo_database_absent().
	 */
	if (gone && eo_slot_view_count(database_id, InvalidOid, 0) == 0)
		eo_life_drop_database(database_id);
	eo_database_absent(database_id);
	proc_exit(gone ? 0 : 1);
}

/*
 * One round: make jobs of what has come up, send their requests, take the answers,
 * remove finished rows.  Returns false if there is nothing left to do.
 */
static bool
work(void)
{
	AcceptInvalidationMessages();
	eo_lock_limit_begin_round();
	eo_credentials_refresh(&refresh_due_us);
	if (!entered)
		entered = enter_database();
	if (!entered)
	{
		eo_own_life_fetch_beats();
		eo_worker_slots_fetch_beats();
		eo_worker_jobs_run();
		return true;
	}
	if (!eo_finish_fetch())
		leave_dropped_outbox();
	eo_own_life_fetch();
	eo_worker_probes_fetch();
	eo_takeover_fetch();
	eo_worker_slots_fetch_beats();
	eo_worker_prepared_fetch();
	eo_worker_slots_fetch();
	eo_recovery_scan_run();
	eo_worker_jobs_run();
	eo_finish_remove();
	return eo_worker_jobs_count() > 0 || eo_worker_slots_any() || eo_finish_any() ||
		eo_takeover_any() || eo_recovery_scan_any();
}

/* When the next piece of work is due, or the next note that we are alive. */
static int64
next_wake_us(void)
{
	int64		until = eo_clock_monotonic_us() + NAP_US;

	int64		due_us;

	until = Min(until, eo_lock_limit_due_us());
	if (!entered)
	{
		/* Claims to be settled are due, and wait. */
		due_us = Max(eo_slot_next_due(database_id), eo_clock_monotonic_us() + ENTER_NAP_US);
		return Min(Min(until, due_us), Min(eo_own_life_due_us(), eo_worker_jobs_due_us()));
	}
	due_us = eo_worker_slots_due_us();

	/* A slot that is due may have to wait, but there may be heartbeats. */
	if (eo_worker_jobs_are_full(EO_WORKER_WRITES))
		due_us = Max(due_us, eo_clock_monotonic_us() + FULL_NAP_US);
	else
		until = Min(until, eo_finish_due_us());
	until = Min(until, due_us);
	until = Min(until, eo_own_life_due_us());
	until = Min(until, eo_worker_prepared_due_us());
	until = Min(until, eo_worker_probes_due_us());
	until = Min(until, eo_takeover_due_us());
	until = Min(until, eo_recovery_scan_due_us());
	until = Min(until, eo_worker_barrier_due_us());
	until = Min(until, refresh_due_us);
	return Min(until, eo_worker_jobs_due_us());
}
