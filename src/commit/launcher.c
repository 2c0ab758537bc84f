/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that starts a worker where one is needed.
 *
 * Once after the start it has a worker look into each database that takes
 * connections and is no template; one without the extension leaves at once.
 * After that it hears of databases from the calls made there, and of workers
 * that have ended from the postmaster.  It connects to no database itself, so
 * that it is in nobody's way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "commit/launcher.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* When a worker is on its way, or could not be started. */
#define RETRY_US INT64CONST(1000000)

/* Without a reason it looks around this often. */
#define MAX_NAP_US INT64CONST(60000000)

typedef enum DatabaseState
{
	DB_GONE,
	DB_CLOSED,					/* nobody may connect to it */
	DB_OPEN,
} DatabaseState;

static void look_at_databases(void);
static DatabaseState state_of(Oid dboid);
static bool start_worker(Oid dboid);

void
eo_launcher_register(void)
{
	BackgroundWorker w = {0};

	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_RecoveryFinished;
	w.bgw_restart_time = 1;
	strlcpy(w.bgw_library_name, "exactonce", sizeof(w.bgw_library_name));
	strlcpy(w.bgw_function_name, "eo_launcher_main", sizeof(w.bgw_function_name));
	strlcpy(w.bgw_name, "exactonce launcher", sizeof(w.bgw_name));
	strlcpy(w.bgw_type, "exactonce launcher", sizeof(w.bgw_type));
	RegisterBackgroundWorker(&w);
}

void
eo_launcher_main(Datum arg)
{
	(void) arg;
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	eo_database_launcher_attach();
	look_at_databases();

	for (;;)
	{
		int64		until = eo_clock_monotonic_us() + MAX_NAP_US;
		uint32		cursor = 0;
		Oid			dboid;
		bool		later = false;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		while (eo_database_next_to_start(&cursor, &dboid, &later))
		{
			switch (state_of(dboid))
			{
				case DB_GONE:
					eo_slot_drop_database(dboid);
					eo_database_forget(dboid);
					break;
				case DB_CLOSED:
					/* Looked at again when we next wake; it may be opened. */
					break;
				case DB_OPEN:

					/*
					 * If it is not there by then, something is wrong: once
					 * more.
					 */
					(void) start_worker(dboid);
					later = true;
					break;
			}
		}
		if (later)
			until = eo_clock_monotonic_us() + RETRY_US;
		eo_http_wait(until, EO_WAIT_LATCH);
	}
}

static void
look_at_databases(void)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database db = (Form_pg_database) GETSTRUCT(tuple);

		if (db->datallowconn && !db->datistemplate)
			(void) eo_database_want(db->oid);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
}

static DatabaseState
state_of(Oid dboid)
{
	HeapTuple	tuple;
	DatabaseState state = DB_GONE;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dboid));
	if (HeapTupleIsValid(tuple))
	{
		state = ((Form_pg_database) GETSTRUCT(tuple))->datallowconn ? DB_OPEN : DB_CLOSED;
		ReleaseSysCache(tuple);
	}
	CommitTransactionCommand();
	return state;
}

static bool
start_worker(Oid dboid)
{
	BackgroundWorker w = {0};
	bool		started;

	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_RecoveryFinished;
	w.bgw_restart_time = BGW_NEVER_RESTART;
	w.bgw_notify_pid = MyProcPid;
	w.bgw_main_arg = ObjectIdGetDatum(dboid);
	strlcpy(w.bgw_library_name, "exactonce", sizeof(w.bgw_library_name));
	strlcpy(w.bgw_function_name, "eo_worker_main", sizeof(w.bgw_function_name));
	snprintf(w.bgw_name, sizeof(w.bgw_name), "exactonce worker for database %u", dboid);
	strlcpy(w.bgw_type, "exactonce worker", sizeof(w.bgw_type));

	/* Before it runs, or it might be there before it is expected. */
	eo_database_started(dboid, true);
	started = RegisterDynamicBackgroundWorker(&w, NULL);
	if (!started)
		ereport(LOG,
				(errmsg("exactonce: no background worker could be started for database %u", dboid),
				 errhint("All are in use: raise max_worker_processes.")));
	return started;
}
