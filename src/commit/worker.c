/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of a database: its life.
 *
 * The worker does what is left to do after commits and aborts, and extends the
 * leases of open transactions.  Its work comes from three places:
 *
 * - the outbox: a row that can be seen is a transaction that has committed
 *	 (worker_rows.c);
 * - ended slots of the claim table: the word of a commit; claims of transactions
 *	 that were rolled back; failures and releases; and what the server's last run
 *	 has left behind (worker_slots.c);
 * - slots of open transactions, when a third of their lease is over
 *	 (worker_slots.c).
 *
 * Each piece of it is a job in a queue (worker_jobs.c).
 *
 * The worker sleeps until its latch is set, by a commit, an abort or a new claim
 * with a short lease, or until the next thing is due; and it wakes at least every
 * NAP_US to say that it lives.  It is never in a transaction while it waits.
 *
 * An error ends the process, and the launcher starts another: what was under way
 * is in the table and the slots.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "commit/identity.h"
#include "commit/internal.h"
#include "commit/worker.h"
#include "commit/worker_jobs.h"
#include "commit/worker_rows.h"
#include "commit/worker_slots.h"
#include "commit/worker_targets.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Sign of life, at least this often. */
#define NAP_US INT64CONST(5000000)

/* A worker without anything to do for this long leaves. */
#define IDLE_US INT64CONST(300000000)

static Oid	database_id;
static MemoryContext worker_context;

static void enter_database(void);
static void shake_off_settings(void);
static void leave(int code, Datum arg);
static bool work(void);
static int64 next_wake_us(void);

void
eo_worker_main(Datum arg)
{
	int64		last_work_us = eo_clock_monotonic_us();

	database_id = DatumGetObjectId(arg);
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!eo_database_attach(database_id))
		proc_exit(0);
	before_shmem_exit(leave, (Datum) 0);
	eo_slot_restart(database_id);
	BackgroundWorkerInitializeConnectionByOid(database_id, InvalidOid, 0);
	shake_off_settings();
	enter_database();

	while (!eo_database_should_leave(database_id))
	{
		int64		until;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		eo_database_alive(database_id);
		if (work())
			last_work_us = eo_clock_monotonic_us();
		else if (eo_clock_monotonic_us() - last_work_us > IDLE_US)
		{
			last_work_us = eo_clock_monotonic_us();
			if (eo_database_may_leave(database_id))
				break;
		}
		until = next_wake_us();
		/* Requests under way go on only while we wait. */
		if (eo_worker_jobs_in_flight())
			until = Max(until, eo_clock_monotonic_us() + 1000);
		if (until > eo_clock_monotonic_us())
			eo_http_wait(until, EO_WAIT_LATCH);
	}
	proc_exit(0);
}

/*
 * ALTER DATABASE ... SET is for sessions.  Here it could lead names astray that
 * a superuser uses, or have the worker fail for ever.
 */
static void
shake_off_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", ""},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		/* A row that comes back after a crash is finished again. */
		{"synchronous_commit", "local"}
	};

	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

static void
leave(int code, Datum arg)
{
	(void) arg;
	eo_database_detach(database_id, code != 0);
}

/*
 * Say which database this is.  The first worker after a start of the server begins
 * a new incarnation.  Committing that, together with the standbys that
 * synchronous_standby_names asks for, is also the barrier after which others may
 * be told of what recovery made visible.
 */
static void
enter_database(void)
{
	EoDatabaseInfo db;
	EoIdentity	identity;
	Oid			outbox;

	worker_context = AllocSetContextCreate(TopMemoryContext, "exactonce worker",
										   ALLOCSET_DEFAULT_SIZES);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	/* This commit waits for the standbys; the worker's others do not. */
	(void) set_config_option("synchronous_commit", "on", PGC_SUSET, PGC_S_OVERRIDE,
							 GUC_ACTION_LOCAL, true, 0, false);
	outbox = eo_internal_look();
	if (OidIsValid(outbox) && eo_database_info(database_id, &db))
		eo_identity_enter(db.incarnation == 0, &identity);
	PopActiveSnapshot();
	ForceSyncCommit();
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
	if (!OidIsValid(outbox))
	{
		eo_database_absent(database_id);
		proc_exit(0);
	}
	MemoryContextSwitchTo(worker_context);
	eo_worker_targets_init(worker_context);
	eo_worker_jobs_init(worker_context);
	eo_worker_rows_init(worker_context, outbox);
	eo_worker_slots_init(worker_context, database_id, identity.origin);
	eo_database_publish(database_id, identity.origin, identity.incarnation,
						identity.horizon, outbox);
}

/* The extension was dropped under our hands, and perhaps created anew. */
static void
leave_lost_table(void)
{
	bool		gone;

	StartTransactionCommand();
	gone = !OidIsValid(eo_internal_look());
	CommitTransactionCommand();
	eo_database_absent(database_id);
	proc_exit(gone ? 0 : 1);
}

/*
 * One round: take in what has come up, send what can be sent, read the answers.
 * Returns whether there is anything to do.
 */
static bool
work(void)
{
	AcceptInvalidationMessages();
	if (!eo_worker_rows_fetch())
		leave_lost_table();
	eo_worker_slots_fetch();
	eo_worker_slots_fetch_beats();
	eo_worker_jobs_run();
	eo_worker_rows_remove();
	return eo_worker_jobs_count() > 0 || eo_worker_rows_any();
}

static int64
next_wake_us(void)
{
	int64		until = eo_clock_monotonic_us() + NAP_US;

	if (!eo_worker_jobs_are_full())
	{
		until = Min(until, eo_worker_rows_due_us());
		until = Min(until, eo_slot_next_due(database_id));
	}
	return Min(until, eo_worker_jobs_due_us());
}
