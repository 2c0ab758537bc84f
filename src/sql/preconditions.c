/*-------------------------------------------------------------------------
 *
 * preconditions.c
 *	  Whether an SQL function may run at all, here and now.
 *
 * eo_preconditions() comes before the network and any cache is touched, so that a refused
 * call has no effect.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_extension.h"
#include "cluster/databases.h"
#include "commit/xact.h"
#include "ledger/internal.h"
#include "miscadmin.h"
#include "server/guc.h"
#include "sql/preconditions.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "wire/clock.h"
#include "wire/http.h"

/* A worker gives a sign of life every five seconds at least. */
#define WORKER_STALE_US INT64CONST(15000000)

/* A worker starts in some ten milliseconds, and takes longer on a busy machine. */
#define WORKER_START_US INT64CONST(10000000)

bool		eo_preconditions_preloaded = false;

static void check_switch(const char *function);

void
eo_preconditions(const char *function, int access)
{
	if (!eo_preconditions_preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("exactonce must be loaded via shared_preload_libraries"),
				 errhint("Add exactonce to shared_preload_libraries in postgresql.conf and restart the server.")));
	if (!IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot execute %s() in single-user mode", function),
				 errdetail("There is no worker, which finishes what commits and releases what does not."),
				 errhint("Start the server as usual. Commands that use nothing of exactonce work in single-user mode, too.")));
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot execute %s() in a parallel worker", function),
				 errhint("Leave the function PARALLEL UNSAFE.")));
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot execute %s() within a security-restricted operation", function),
				 errdetail("Maintenance commands run the code of others with restricted rights."),
				 errhint("Keep it out of indexes, materialized views and functions they call.")));
	if (access & EO_WRITES)
	{
		char		command[NAMEDATALEN + 2];

		snprintf(command, sizeof(command), "%s()", function);
		PreventCommandDuringRecovery(command);
		PreventCommandIfReadOnly(command);
		if (eo_xact_is_committing())
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot execute %s() while the transaction commits", function),
					 errdetail("The transaction's keys are sealed already."),
					 errhint("Call it before the commit, for example in a deferred trigger.")));
		eo_xact_check_lost();
	}
	if (access & EO_SWITCHED)
		check_switch(function);
}

static void
check_switch(const char *function)
{
	if (eo_guc_enabled)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_EO_UNAVAILABLE),
			 errmsg("cannot execute %s(): exactonce is switched off", function),
			 errdetail("The setting exactonce.enabled is off %s. Nothing was sent.", eo_guc_enabled_by()),
			 errhint("A superuser switches it on with ALTER SYSTEM, ALTER DATABASE or ALTER ROLE ... SET exactonce.enabled = on, whichever switched it off. Transactions that have completed keys can commit.")));
}

/*
 * The worker does not see an extension that this transaction has created or updated, so to
 * wait for it is in vain.
 */
static void
check_extension_is_committed(void)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	bool		is_ours;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("exactonce"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	is_ours = HeapTupleIsValid(tuple) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (is_ours)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nothing can be claimed in the transaction that creates or updates extension exactonce"),
				 errdetail("Its worker, which finishes what commits and releases what does not, cannot see the extension yet."),
				 errhint("Commit CREATE EXTENSION or ALTER EXTENSION first. In migrations and with psql --single-transaction, claim in a transaction that comes later.")));
}

void
eo_preconditions_worker(void)
{
	int64		give_up_us = 0;
	EoDatabaseInfo db;

	for (;;)
	{
		int64		now_us = eo_clock_monotonic_us();

		if (eo_database_info(MyDatabaseId, &db) && db.ready &&
			now_us - db.alive_us < WORKER_STALE_US)
		{
			if (db.outbox == eo_internal_id(EO_INTERNAL_OUTBOX))
				return;
			/* The extension was dropped and created again since it looked. */
			eo_database_renew(MyDatabaseId, eo_internal_id(EO_INTERNAL_OUTBOX));
			db.ready = false;
		}
		if (give_up_us == 0)
		{
			/* No worker stays while the tables are altered: say so at once. */
			eo_internal_check();
			check_extension_is_committed();
			if (!db.ready && !eo_database_want(MyDatabaseId))
				break;

			/*
			 * A worker that is there but gives no sign of life is not
			 * awaited.
			 */
			give_up_us = now_us + (db.ready ? 0 : WORKER_START_US);
		}
		if (now_us >= give_up_us || (db.absent && give_up_us - now_us < WORKER_START_US / 2))
			break;
		eo_http_wait(now_us + 5000, EO_WAIT_RAISE);
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the exactonce worker of this database does not respond"),
			 db.absent ?
			 errdetail("It cannot see the extension; the transaction that created it may not have committed.") :
			 errdetail("Nothing is claimed without it: it finishes what commits and releases what does not."),
			 errhint("See pg_stat_activity and the server's log; it needs a free background worker, see max_worker_processes.")));
}
