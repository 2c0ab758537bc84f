/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that starts the workers of databases.
 *
 * When the server has started, the launcher has a worker visit each database that
 * accepts connections.  A worker that does not find the extension there leaves at
 * once.  After that a database is entered in shared memory (databases.h) by a call
 * that is made in it, and the latch of the launcher is set; the postmaster signals it
 * when a worker has started or ended.
 *
 * There may be more databases than shared memory has entries for: the others are
 * visited later.  There may be fewer background workers than databases: then the
 * launcher goes round them, those in which calls are made first, and has a worker
 * that is idle make room for the next.
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
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/runs.h"
#include "cluster/slots.h"
#include "compat.h"
#include "ledger/lock_limit.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "server/stats.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "worker/launcher.h"

/* The pause after a worker was started, or could not be. */
#define RETRY_US INT64CONST(1000000)

/* Databases are looked at this often even if the latch is not set. */
#define MAX_NAP_US INT64CONST(60000000)

/* The pause while background workers are short, and between two messages about it. */
#define SHORTAGE_US INT64CONST(250000)
#define COMPLAIN_US INT64CONST(60000000)

typedef enum DatabaseState
{
	DB_GONE,
	DB_CLOSED,					/* nobody may connect to it */
	DB_OPEN,
	DB_UNKNOWN					/* somebody has locked the catalog, or is
								 * dropping or copying the database */
} DatabaseState;

/* The databases that are still to be entered for a visit after the start, once they are listed. */
static List *unvisited = NIL;
static bool listed = false;

/* A database whose state is asked for. */
typedef struct Asked
{
	Oid			dboid;
	DatabaseState state;
} Asked;

static int64 start_workers(void);
static bool start_some(bool visits, uint32 *next, bool *later);
static DatabaseState state_of(Oid dboid);
static bool start_worker(Oid dboid);

void
eo_launcher_register(void)
{
	BackgroundWorker w = {0};

	/* pg_upgrade moves data that must not change meanwhile. */
	if (IsBinaryUpgrade)
		return;
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
	MemoryContext round_context;

	(void) arg;
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	eo_runs_note_start(U64FromFullTransactionId(ReadNextFullTransactionId()));
	eo_database_launcher_attach();
	round_context = AllocSetContextCreate(TopMemoryContext, "exactonce launcher round",
										  ALLOCSET_DEFAULT_SIZES);

	for (;;)
	{
		MemoryContextReset(round_context);
		MemoryContextSwitchTo(round_context);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		eo_http_wait(eo_clock_monotonic_us() + start_workers(), EO_WAIT_LATCH);
	}
}

/* May a worker connect to it?  A limit of connections, 0 too, does not count for workers. */
static bool
is_open(Form_pg_database db)
{
	return db->datallowconn && db->datconnlimit != DATCONNLIMIT_INVALID_DB;
}

/*
 * List each database that accepts connections, or may do so later: those are the last to be
 * entered, and template0 is not.  A template may be a database of production that is kept from
 * DROP.
 */
static void
list_databases(void *arg)
{
	MemoryContext old;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	(void) arg;
	list_free(unvisited);
	unvisited = NIL;
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database db = (Form_pg_database) GETSTRUCT(tuple);

		if (!is_open(db) && (db->datistemplate || db->datallowconn))
			continue;
		old = MemoryContextSwitchTo(TopMemoryContext);
		unvisited = db->datallowconn ? lappend_oid(unvisited, db->oid) :
			lcons_oid(db->oid, unvisited);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* Was the database dropped?  If that cannot be told, it is asked again soon. */
static bool
is_gone(Oid dboid, bool *later)
{
	DatabaseState state = state_of(dboid);

	*later |= state == DB_UNKNOWN;
	return state == DB_GONE;
}

/* Forget the lives and counters of databases that were dropped. */
static void
forget_dropped(bool *later)
{
	uint32		cursor = 0;
	Oid			dboid;

	while (eo_life_next_database(&cursor, &dboid))
	{
		if (is_gone(dboid, later))
			eo_life_drop_database(dboid);
	}
	cursor = 0;
	while (eo_stats_next_database(&cursor, &dboid))
	{
		if (is_gone(dboid, later))
			eo_stats_drop_database(dboid);
	}
}

/*
 * Start the workers that are wanted, as far as there are background workers for
 * them.  Returns how long to wait before the next round.
 */
static int64
start_workers(void)
{
	/* Where the next round begins, so that each database has its turn. */
	static uint32 next_call = 0;
	static uint32 next_visit = 0;
	bool		later;

	eo_lock_limit_begin_round();
	listed = listed || eo_lock_limit_run(EO_LOCKS_CATALOGS, list_databases, NULL);
	later = !listed;
	forget_dropped(&later);
	while (listed && unvisited != NIL && eo_database_visit(llast_oid(unvisited)))
		unvisited = list_delete_last(unvisited);
	if (!start_some(false, &next_call, &later) || !start_some(true, &next_visit, &later))
	{
		eo_database_make_room();
		return SHORTAGE_US;
	}
	return later || unvisited != NIL ? RETRY_US : MAX_NAP_US;
}

/* Go round the databases from *next on.  Returns false if no worker can be started. */
static bool
start_some(bool visits, uint32 *next, bool *later)
{
	uint32		cursor = *next;
	uint32		end = cursor + EO_MAX_DATABASES;
	Oid			dboid;

	while (eo_database_next_to_start(visits, &cursor, end, &dboid, later))
	{
		switch (state_of(dboid))
		{
			case DB_GONE:
				eo_slot_drop_database(dboid);
				eo_life_drop_database(dboid);
				eo_stats_drop_database(dboid);
				eo_database_forget(dboid);
				break;
			case DB_CLOSED:
				/* It may be opened: look again at the next wake-up. */
				break;
			case DB_UNKNOWN:
				*later = true;
				break;
			case DB_OPEN:

				/*
				 * Come back soon: if the worker is not there by then, it is
				 * started again.
				 */
				*later = true;
				if (!start_worker(dboid))
					return false;
				*next = cursor % EO_MAX_DATABASES;
				break;
		}
	}
	return true;
}

/*
 * A command that drops the database holds a lock on it until its end can be seen.  A worker
 * that was started before that would find no database.
 */
static void
read_state(void *arg)
{
	Asked	   *asked = arg;
	HeapTuple	tuple;
	LOCKTAG		tag;

	asked->state = DB_UNKNOWN;
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, asked->dboid, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return;
	AcceptInvalidationMessages();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(asked->dboid));
	asked->state = DB_GONE;
	if (!HeapTupleIsValid(tuple))
		return;
	asked->state = is_open((Form_pg_database) GETSTRUCT(tuple)) ? DB_OPEN : DB_CLOSED;
	ReleaseSysCache(tuple);
}

static DatabaseState
state_of(Oid dboid)
{
	Asked		asked = {.dboid = dboid};

	return eo_lock_limit_run(EO_LOCKS_CATALOGS, read_state, &asked) ? asked.state : DB_UNKNOWN;
}

/*
 * Start the worker of a database.  Returns false if that is not possible, and says so
 * in the log now and then.
 */
static bool
start_worker(Oid dboid)
{
	static int64 complained_us = 0;
	int64		now_us = eo_clock_monotonic_us();
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
	if (RegisterDynamicBackgroundWorker(&w, NULL))
		return true;
	eo_database_started(dboid, false);
	if (complained_us == 0 || now_us - complained_us >= COMPLAIN_US)
	{
		ereport(LOG,
				(errmsg("exactonce: no background worker could be started for database %u", dboid),
				 errhint("All are in use: raise max_worker_processes.")));
		complained_us = now_us;
	}
	return false;
}
