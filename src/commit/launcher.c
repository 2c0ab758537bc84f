/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that starts the workers of databases.
 *
 * When the server has started, the launcher starts a worker in each database that
 * accepts connections and is no template.  A worker that does not find the
 * extension there leaves at once.  After that a database is entered in shared
 * memory (databases.h) by a call that is made in it, and the latch of the launcher
 * is set; the postmaster signals it when a worker has started or ended.
 *
 * The launcher is connected to no database, so that it keeps no command from
 * dropping, renaming or copying one.
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

/* The pause after a worker was started, or could not be. */
#define RETRY_US INT64CONST(1000000)

/* Databases are looked at this often even if the latch is not set. */
#define MAX_NAP_US INT64CONST(60000000)

typedef enum DatabaseState
{
	DB_GONE,
	DB_CLOSED,					/* nobody may connect to it */
	DB_OPEN,
} DatabaseState;

static void want_all_databases(void);
static DatabaseState state_of(Oid dboid);
static void start_worker(Oid dboid);

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
	want_all_databases();

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
					/* It may be opened: look again at the next wake-up. */
					break;
				case DB_OPEN:

					/*
					 * Come back soon: if the worker is not there by then, it
					 * is started again.
					 */
					start_worker(dboid);
					later = true;
					break;
			}
		}
		if (later)
			until = eo_clock_monotonic_us() + RETRY_US;
		eo_http_wait(until, EO_WAIT_LATCH);
	}
}

/* Ask for a worker in each database that accepts connections and is no template. */
static void
want_all_databases(void)
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

/* Start the worker of a database; LOG if that is not possible. */
static void
start_worker(Oid dboid)
{
	BackgroundWorker w = {0};

	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_RecoveryFinished;
	w.bgw_restart_time = BGW_NEVER_RESTART;
	w.bgw_notify_pid = MyProcPid;
	w.bgw_main_arg = ObjectIdGetDatum(dboid);
	strlcpy(w.bgw_library_name, "exactonce", sizeof(w.bgw_library_name));
	strlcpy(w.bgw_function_name, "eo_worker_main", sizeof(w.bgw_function_name));
	snprintf(w.bgw_name, sizeof(w.bgw_name), "exactonce worker for database %u", dboid);
	strlcpy(w.bgw_type, "exactonce worker", sizeof(w.bgw_type));

	/* Note the start first: the worker may run before we do again. */
	eo_database_started(dboid, true);
	if (!RegisterDynamicBackgroundWorker(&w, NULL))
		ereport(LOG,
				(errmsg("exactonce: no background worker could be started for database %u", dboid),
				 errhint("All are in use: raise max_worker_processes.")));
}
