/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of a database: its main loop.
 *
 * The worker does what is left to be done when transactions are over, extends the
 * leases of the claims of open transactions, and keeps the life of its database.  Where
 * its work comes from is the table sources[] below.  Most of it is of three kinds:
 *
 * - Rows of the outbox.  A row that is visible belongs to a transaction that has
 *	 committed: its record is to be marked COMPLETED (finish.c).
 * - Slots whose transactions are over.  The state of the slot says what is left to
 *	 be done; some slots are of the server's last run (settling.c).
 * - Slots of open transactions, when a third of the lease is over
 *	 (settling.c).
 *
 * Each piece of work is a job in a queue (jobs.c), for a table that may be
 * failing (write_targets.c).
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
#include "cluster/looks.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "compat.h"
#include "ledger/internal.h"
#include "ledger/lock_limit.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "server/credentials.h"
#include "server/guc.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "worker/barrier.h"
#include "worker/finish.h"
#include "worker/jobs.h"
#include "worker/launcher.h"
#include "worker/life_board.h"
#include "worker/own_life.h"
#include "worker/settings.h"
#include "worker/sources.h"
#include "worker/write_targets.h"

/* The worker notes at least this often that it is alive. */
#define NAP_US INT64CONST(5000000)

/* The shortest sleep while the tables are locked, and only heartbeats are sent. */
#define ENTER_NAP_US INT64CONST(10000)

/* A worker that has had nothing to do for this long leaves. */
#define IDLE_US INT64CONST(300000000)

/* The longest time that it takes to close its life. */
#define CLOSE_US INT64CONST(2000000)

static Oid	database_id;
static int64 last_work_us;
static int64 refresh_due_us;	/* see eo_credentials_refresh() */
static bool come_back;			/* this worker leaves rows for another one */
static bool entered;			/* the database */
static volatile sig_atomic_t told_to_end;	/* by a signal */
static MemoryContext round_context; /* reset before each round */

static void begin_round(void);
static void run_sources(void);
static bool is_anything_left(void);
static bool may_leave(void);
static void wait_for_work(void);
static void take_sigterm(SIGNAL_ARGS);
static void close_life(int code, Datum arg);
static void leave(int code, Datum arg);
static void make_ready(void);
static void enter_database(void);
static void refresh_credentials(void);
static int64 refresh_at_us(void);
static bool is_refreshing(void);
static bool has_jobs(void);
static void fetch_rows(void);

/* A source of work.  NULL: it has no such function. */
typedef struct Source
{
	void		(*init) (void); /* called once, and needs no table */
	void		(*fetch) (void);	/* called each round: makes jobs of what
									 * is due, or does it; does not wait */
	int64		(*due_us) (void);	/* when the next round is due at the
									 * latest */
	bool		(*any) (void);	/* is something left?  Then the worker stays */
	bool		(*in_flight) (void);	/* are requests in flight? */
	bool		early;			/* it goes on while the tables are locked */
} Source;

/*
 * A round goes through these from top to bottom: init, fetch, due_us, any, in_flight, early.
 *
 * Jobs are sent, and their answers are taken, when all sources have added theirs; rows that
 * were finished by that are removed last.
 */
static const Source sources[] = {
	{NULL, eo_lock_limit_begin_round, eo_lock_limit_due_us, NULL, NULL, true},
	{NULL, refresh_credentials, refresh_at_us, NULL, is_refreshing, true},
	{NULL, enter_database, NULL, NULL, NULL, true},
	{NULL, NULL, eo_barrier_due_us, NULL, NULL, false},
	{eo_finish_init, fetch_rows, eo_finish_due_us, eo_finish_any, NULL, false},
	{NULL, eo_own_life_fetch, NULL, NULL, NULL, false},
	{NULL, eo_own_life_fetch_beats, eo_own_life_due_us, NULL, NULL, true},
	{NULL, eo_probes_fetch, eo_probes_due_us, NULL, NULL, false},
	{NULL, eo_takeover_fetch, eo_takeover_due_us, eo_life_board_any, NULL, false},
	{NULL, eo_settling_fetch_beats, eo_settling_due_us, NULL, NULL, true},
	{eo_prepared_ends_init, eo_prepared_ends_fetch, eo_prepared_ends_due_us, NULL, NULL, false},
	{eo_settling_init, eo_settling_fetch, NULL, eo_settling_any, NULL, false},
	{NULL, eo_recovery_scan_run, eo_recovery_scan_due_us, eo_recovery_scan_any,
	eo_recovery_scan_in_flight, false},
	{eo_write_targets_init, NULL, NULL, NULL, NULL, true},
	{eo_jobs_init, eo_jobs_run, eo_jobs_due_us, has_jobs, eo_jobs_in_flight, true},
	{NULL, eo_finish_remove, NULL, NULL, NULL, false}
};

void
eo_worker_main(Datum arg)
{
	database_id = DatumGetObjectId(arg);
	pqsignal(SIGTERM, take_sigterm);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!eo_database_attach(database_id))
		proc_exit(0);
	before_shmem_exit(leave, (Datum) 0);
	before_shmem_exit(close_life, (Datum) 0);
	eo_slot_restart(database_id);
	eo_settings_note();
	BackgroundWorkerInitializeConnectionByOid(database_id, InvalidOid, 0);
	eo_settings_apply();
	make_ready();

	while (!eo_database_should_leave(database_id))
	{
		bool		idle;

		begin_round();
		run_sources();
		idle = !is_anything_left();
		/* An operator waits in idem_drain() until nothing is left. */
		if (idle && eo_database_is_drained(database_id))
			eo_own_life_close(eo_clock_monotonic_us() + CLOSE_US);
		if (!idle)
			last_work_us = eo_clock_monotonic_us();
		/* With all rows put off, it may make room for another database's. */
		eo_database_alive(database_id, !has_jobs() && !eo_life_board_any());
		if (idle && may_leave())
			break;
		wait_for_work();
	}
	come_back = !entered || eo_finish_any() || eo_look_owes_scan(database_id, InvalidOid);
	proc_exit(0);
}

static void
begin_round(void)
{
	MemoryContextReset(round_context);
	MemoryContextSwitchTo(round_context);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		eo_barrier_reload();
	}
	AcceptInvalidationMessages();
}

/* Does this source go on now? */
static bool
goes_on(const Source *source)
{
	return entered || source->early;
}

static void
run_sources(void)
{
	for (const Source *s = sources; s < sources + lengthof(sources); s++)
	{
		if (s->fetch != NULL && goes_on(s))
			s->fetch();
	}
}

static bool
is_anything_left(void)
{
	for (const Source *s = sources; s < sources + lengthof(sources); s++)
	{
		if (entered && s->any != NULL && s->any())
			return true;
	}
	return !entered;
}

/* Has the worker been idle for long, and is it not needed?  It closes its life for that. */
static bool
may_leave(void)
{
	if (eo_clock_monotonic_us() - last_work_us <= eo_guc_hurried_us(IDLE_US))
		return false;
	eo_own_life_close(eo_clock_monotonic_us() + CLOSE_US);
	last_work_us = eo_clock_monotonic_us();

	/*
	 * A life that is neither closed nor retired still needs this worker, and
	 * so does one that owes a scan.
	 */
	return !eo_life_any_ended(database_id) && !eo_look_owes_scan(database_id, InvalidOid) &&
		eo_database_may_leave(database_id);
}

/* Wait until the next piece of work is due, or the next note that we are alive. */
static void
wait_for_work(void)
{
	int64		until = eo_clock_monotonic_us() + NAP_US;
	int64		not_before = 0;

	for (const Source *s = sources; s < sources + lengthof(sources); s++)
	{
		if (s->due_us != NULL && goes_on(s))
			until = Min(until, s->due_us());
		/* Requests in flight make progress in eo_http_wait() only. */
		if (s->in_flight != NULL && s->in_flight())
			not_before = eo_clock_monotonic_us() + 1000;
	}

	/*
	 * Claims to be settled are due, and wait until the tables can be looked
	 * at.
	 */
	if (!entered)
		not_before = eo_clock_monotonic_us() + ENTER_NAP_US;
	until = Max(until, not_before);
	if (until > eo_clock_monotonic_us())
		eo_http_wait(until, EO_WAIT_LATCH);
}

/* The server is shut down, or somebody ends this process. */
static void
take_sigterm(SIGNAL_ARGS)
{
	told_to_end = true;
	die(EO_COMPAT_SIGNAL_ARGS);
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
	round_context = AllocSetContextCreate(TopMemoryContext, "exactonce worker round",
										  ALLOCSET_DEFAULT_SIZES);
	for (const Source *s = sources; s < sources + lengthof(sources); s++)
	{
		if (s->init != NULL)
			s->init();
	}
	last_work_us = eo_clock_monotonic_us();
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
 * Find the extension's tables, and begin or go on with the life of this database, unless
 * somebody has locked them.
 */
static void
enter_database(void)
{
	Oid			outbox;

	if (entered || !eo_lock_limit_run(EO_LOCKS_OUTBOX, look_at_tables, &outbox))
		return;
	if (!OidIsValid(outbox))
	{
		eo_database_absent(database_id);
		proc_exit(0);
	}
	if (!eo_own_life_enter())
		return;
	eo_finish_enter(outbox);
	eo_database_publish(database_id, outbox);
	entered = true;
}

static void
refresh_credentials(void)
{
	eo_credentials_refresh(&refresh_due_us);
}

static int64
refresh_at_us(void)
{
	return refresh_due_us;
}

static bool
is_refreshing(void)
{
	return refresh_due_us != INT64_MAX;
}

static bool
has_jobs(void)
{
	return eo_jobs_count() > 0;
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
	if (gone && eo_slot_view_count(database_id, InvalidOid) == 0)
		eo_life_drop_database(database_id);
	eo_database_absent(database_id);
	proc_exit(gone ? 0 : 1);
}

static void
fetch_rows(void)
{
	if (!eo_finish_fetch())
		leave_dropped_outbox();
}
