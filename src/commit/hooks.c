/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  The hooks of PostgreSQL in which the commit protocol acts.
 *
 * - At the beginning of each statement of the client: only then it can be seen
 *	 whether a transaction block is open.  One that begins or fails after a claim was lost
 *	 says so (lost.h).
 * - At the end of a query and of a utility command: another extension may have
 *	 registered a commit callback (postgres_fdw does at its first use), which would
 *	 be called before ours.  So ours is moved to the head of the list again.
 * - Around a command that fails while a process is connected to a database: the
 *	 worker of that database leaves, and comes back after the command.  It leaves
 *	 only for a role that PostgreSQL lets run the command, and comes back when the
 *	 process of the command ends, too.  A database that was dropped is forgotten.
 * - After DISCARD ALL: the keys that the session holds are given back.
 * - Around COMMIT PREPARED and ROLLBACK PREPARED: the first is refused if other data
 *	 decides about the keys; after both the worker looks.
 * - Around ALTER EXTENSION exactonce UPDATE: it must lead to the version of this library;
 *	 after it all sessions look again.
 * - Before an object that unfinished keys depend on is dropped, or an internal table
 *	 is truncated: this is refused.  So is a change of a server, or of its user mappings, by
 *	 a transaction that has claims there: it would find them no more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "cluster/databases.h"
#include "cluster/looks.h"
#include "cluster/slot_views.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/tablespace.h"
#include "commit/hooks.h"
#include "commit/lost.h"
#include "commit/prepared.h"
#include "commit/session.h"
#include "commit/xact.h"
#include "compat.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "ledger/internal.h"
#include "ledger/outbox.h"
#include "ledger/update.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "server/options.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "wire/clock.h"
#include "wire/http.h"

/* The command goes on after this, whether the worker has left or not. */
#define LEAVE_US INT64CONST(10000000)

static ProcessUtility_hook_type previous_utility;
static ExecutorStart_hook_type previous_executor_start;
static ExecutorRun_hook_type previous_executor_run;
static ExecutorFinish_hook_type previous_executor_finish;
static ExecutorEnd_hook_type previous_executor_end;
static object_access_hook_type previous_access;

static void utility(PlannedStmt *planned, const char *text, bool read_only_tree,
					ProcessUtilityContext context, ParamListInfo params,
					QueryEnvironment *environment, DestReceiver * dest, QueryCompletion *qc);

static void executor_start(QueryDesc *query, int flags);
static void executor_run(EO_COMPAT_EXECUTOR_RUN_PARAMS);
static void executor_finish(QueryDesc *query);
pg_noreturn static void fail_statement(MemoryContext memory);
static void executor_end(QueryDesc *query);
static void check_wrapper_usage(Node * statement);
static bool ends_session(Node * statement);
static Oid	database_to_leave(Node * statement, ProcessUtilityContext context);
static void suspend(Oid dboid);
static void object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
						  void *arg);

/*
 * The functions below return InvalidOid for a command that PostgreSQL is going to
 * refuse.  Otherwise any role could keep a database without its worker.  Some is seen only
 * by PostgreSQL, such as a wrong option: see suspend().
 */

void
eo_hooks_init(void)
{
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	previous_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	previous_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
	previous_access = object_access_hook;
	object_access_hook = object_access;
}

/* ----- the client's statements ----- */

/* A statement begins, if the depth is 0. */
static void
executor_start(QueryDesc *query, int flags)
{
	eo_xact_note_statement();
	eo_lost_check();
	if (previous_executor_start)
		previous_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
}

/* A portal may be run long after it was started, so it is noted again. */
static void
executor_run(EO_COMPAT_EXECUTOR_RUN_PARAMS)
{
	MemoryContext memory = CurrentMemoryContext;

	eo_xact_note_statement();
	eo_xact_enter();
	PG_TRY();
	{
		if (previous_executor_run)
			previous_executor_run(EO_COMPAT_EXECUTOR_RUN_ARGS);
		else
			standard_ExecutorRun(EO_COMPAT_EXECUTOR_RUN_ARGS);
	}
	PG_CATCH();
	{
		fail_statement(memory);
	}
	PG_END_TRY();
	eo_xact_leave();
}

/* AFTER triggers run here. */
static void
executor_finish(QueryDesc *query)
{
	MemoryContext memory = CurrentMemoryContext;

	eo_xact_enter();
	PG_TRY();
	{
		if (previous_executor_finish)
			previous_executor_finish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_CATCH();
	{
		fail_statement(memory);
	}
	PG_END_TRY();
	eo_xact_leave();
}

/* The statement has failed: raise that, or that it was canceled because of a lost claim. */
static void
fail_statement(MemoryContext memory)
{
	eo_xact_leave();
	eo_lost_explain(memory);
	PG_RE_THROW();
}

/* ----- staying first ----- */

static void
executor_end(QueryDesc *query)
{
	if (previous_executor_end)
		previous_executor_end(query);
	else
		standard_ExecutorEnd(query);
	if (eo_xact_has_work())
		eo_xact_stay_first();
}

/* ----- commands that need a database without its worker ----- */

static void
run_utility(PlannedStmt *planned, const char *text, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *environment, DestReceiver * dest, QueryCompletion *qc)
{
	MemoryContext memory = CurrentMemoryContext;

	eo_xact_note_statement();
	/* To roll back must be possible, and to begin harms nobody. */
	if (!IsA(planned->utilityStmt, TransactionStmt) && !ends_session(planned->utilityStmt))
		eo_lost_check();
	eo_xact_enter();
	PG_TRY();
	{
		if (previous_utility)
			previous_utility(planned, text, read_only_tree, context, params, environment, dest, qc);
		else
			standard_ProcessUtility(planned, text, read_only_tree, context, params, environment,
									dest, qc);
	}
	PG_CATCH();
	{
		fail_statement(memory);
	}
	PG_END_TRY();
	eo_xact_leave();
}

/* The statement, if it ends a prepared transaction; else NULL. */
static const TransactionStmt *
end_of_prepared(Node * statement)
{
	const TransactionStmt *end = (TransactionStmt *) statement;

	return IsA(statement, TransactionStmt) &&
		(end->kind == TRANS_STMT_COMMIT_PREPARED || end->kind == TRANS_STMT_ROLLBACK_PREPARED) ?
		end : NULL;
}

static void
utility(PlannedStmt *planned, const char *text, bool read_only_tree,
		ProcessUtilityContext context, ParamListInfo params,
		QueryEnvironment *environment, DestReceiver * dest, QueryCompletion *qc)
{
	volatile Oid dboid = database_to_leave(planned->utilityStmt, context);
	const TransactionStmt *end = end_of_prepared(planned->utilityStmt);
	bool		updates = eo_update_is(planned->utilityStmt);

	check_wrapper_usage(planned->utilityStmt);
	if (updates)
		eo_update_check(planned->utilityStmt);
	if (end != NULL && end->kind == TRANS_STMT_COMMIT_PREPARED)
		eo_prepared_check_commit(end->gid);
	if (!OidIsValid(dboid))
		run_utility(planned, text, read_only_tree, context, params, environment, dest, qc);
	else
	{
		PG_TRY();
		{
			suspend(dboid);
			run_utility(planned, text, read_only_tree, context, params, environment, dest, qc);
		}
		PG_CATCH();
		{
			eo_database_resume();
			PG_RE_THROW();
		}
		PG_END_TRY();
		if (IsA(planned->utilityStmt, DropdbStmt))
			eo_database_forget(dboid);
		eo_database_resume();
	}
	if (ends_session(planned->utilityStmt))
		eo_session_claims_end();
	if (end != NULL)
		eo_prepared_ended();
	if (updates)
		eo_internal_announce();
	if (eo_xact_has_work())
		eo_xact_stay_first();
}

/* PostgreSQL refuses it, too, and does not say what to do. */
static void
check_wrapper_usage(Node * statement)
{
	const		CreateForeignServerStmt *create = (CreateForeignServerStmt *) statement;
	Oid			wrapper;

	if (!IsA(statement, CreateForeignServerStmt) ||
		strcmp(create->fdwname, EO_OPTIONS_WRAPPER) != 0)
		return;
	wrapper = get_foreign_data_wrapper_oid(create->fdwname, true);
	if (OidIsValid(wrapper) &&
		!eo_compat_has_right(ForeignDataWrapperRelationId, wrapper, GetUserId(), ACL_USAGE))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for foreign-data wrapper %s", create->fdwname),
				 errhint("A superuser can allow it: GRANT USAGE ON FOREIGN DATA WRAPPER %s TO %s;",
						 create->fdwname,
						 quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

/*
 * DISCARD ALL makes the session a new one, for another client: with the session's
 * advisory locks go the keys that it holds.
 */
static bool
ends_session(Node * statement)
{
	return IsA(statement, DiscardStmt) && ((DiscardStmt *) statement)->target == DISCARD_ALL;
}

/* A database that the current role owns; no command changes the one it is in. */
static Oid
own_database(const char *name)
{
	Oid			dboid = get_database_oid(name, true);

	return OidIsValid(dboid) && dboid != MyDatabaseId &&
		eo_compat_database_ownercheck(dboid, GetUserId()) ? dboid : InvalidOid;
}

/* PostgreSQL has a function for this, which older minor releases of 15 do not export. */
static bool
may_create_databases(void)
{
	bool		may = superuser();
	HeapTuple	role = may ? NULL : SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));

	if (HeapTupleIsValid(role))
	{
		may = ((Form_pg_authid) GETSTRUCT(role))->rolcreatedb;
		ReleaseSysCache(role);
	}
	return may;
}

static Oid
database_to_rename(const RenameStmt * rename)
{
	if (rename->renameType != OBJECT_DATABASE || !may_create_databases() ||
		OidIsValid(get_database_oid(rename->newname, true)))
		return InvalidOid;
	return own_database(rename->subname);
}

static Oid
database_to_move(const AlterDatabaseStmt * alter)
{
	ListCell   *lc;

	foreach(lc, alter->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		Oid			tablespace;

		if (strcmp(def->defname, "tablespace") != 0 || def->arg == NULL)
			continue;
		tablespace = get_tablespace_oid(defGetString(def), true);
		if (OidIsValid(tablespace) &&
			eo_compat_has_right(TableSpaceRelationId, tablespace, GetUserId(), ACL_CREATE))
			return own_database(alter->dbname);
	}
	return InvalidOid;
}

/* A template may be copied by every role with CREATEDB, another database by its owner. */
static Oid
database_to_copy(const CreatedbStmt * create)
{
	const char *name = "template1";
	Oid			dboid;
	HeapTuple	tuple;
	bool		is_template;
	ListCell   *lc;

	foreach(lc, create->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "template") == 0 && def->arg != NULL)
			name = defGetString(def);
	}
	if (!may_create_databases() || OidIsValid(get_database_oid(create->dbname, true)))
		return InvalidOid;
	dboid = get_database_oid(name, true);
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dboid));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	is_template = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
	ReleaseSysCache(tuple);
	return is_template || eo_compat_database_ownercheck(dboid, GetUserId()) ? dboid : InvalidOid;
}

/*
 * The database that must be without its worker for this command, or InvalidOid.  PostgreSQL 19
 * ends workers that have the flag BGWORKER_INTERRUPTIBLE, so this is needed up to 18.
 */
static Oid
database_to_leave(Node * statement, ProcessUtilityContext context)
{
	/* Of these commands only RENAME may be part of a transaction. */
	if (!IsA(statement, RenameStmt) &&
		(context != PROCESS_UTILITY_TOPLEVEL || IsTransactionBlock()))
		return InvalidOid;
	switch (nodeTag(statement))
	{
		case T_DropdbStmt:
			return own_database(((DropdbStmt *) statement)->dbname);
		case T_RenameStmt:
			return database_to_rename((RenameStmt *) statement);
		case T_AlterDatabaseStmt:
			return database_to_move((AlterDatabaseStmt *) statement);
		case T_CreatedbStmt:
			return database_to_copy((CreatedbStmt *) statement);
		default:
			return InvalidOid;
	}
}

/* The process ends, perhaps during the command: PG_CATCH is not reached by FATAL. */
static void
resume_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	eo_database_resume();
}

/*
 * Suspend a database, and wait until its worker has left.  If the role does not own it, this
 * first waits until nobody is connected, because PostgreSQL would wait, too, and until the
 * worker may be sent away; if that takes too long the worker stays.
 */
static void
suspend(Oid dboid)
{
	static bool registered = false;
	bool		owns = eo_compat_database_ownercheck(dboid, GetUserId());
	int64		give_up_us = eo_clock_monotonic_us() + LEAVE_US;
	EoDatabaseInfo db;

	if (!registered)
		before_shmem_exit(resume_at_exit, (Datum) 0);
	registered = true;
	while ((!owns && CountDBConnections(dboid) > 0) || !eo_database_suspend(dboid, owns))
	{
		if (eo_clock_monotonic_us() >= give_up_us)
			return;
		eo_http_wait(eo_clock_monotonic_us() + 5000, EO_WAIT_RAISE);
	}
	give_up_us = eo_clock_monotonic_us() + LEAVE_US;
	while (eo_database_info(dboid, &db) && db.worker_pid != 0 &&
		   eo_clock_monotonic_us() < give_up_us)
		eo_http_wait(eo_clock_monotonic_us() + 5000, EO_WAIT_RAISE);
}

/* ----- drops ----- */

/* Raise if a server (InvalidOid: any) has claims or rows in this database. */
static void
refuse_if_unfinished(Oid serverid, const char *what)
{
	if (eo_slot_view_count(MyDatabaseId, serverid) == 0 && !eo_outbox_any(serverid))
	{
		if (eo_look_owes_scan(MyDatabaseId, serverid))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot %s while keys depend on it", what),
					 errdetail("Commits have failed whose requests may still arrive, and its table is to be scanned for what they leave."),
					 errhint("Wait for the scan, see the row \"claims\" of idem_check(); or do without it, see exactonce.recovery_scan.")));
		if (eo_outbox_any_of_original(serverid))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot %s while keys depend on it", what),
					 errdetail("Completions that have committed before pg_upgrade, or in the original of this copy, wait for idem_take_over()."),
					 errhint("Take over the last life of that database, see exactonce_lives; or drop this database.")));
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot %s while keys depend on it", what),
			 errdetail("Transactions hold claims, or have committed completions that DynamoDB has not been told of yet."),
			 errhint("Wait until exactonce_claims and exactonce_pending are empty.")));
}

/* The server that a user mapping is for.  One that is just being created is found, too. */
static Oid
server_of_mapping(Oid mappingid)
{
	Relation	rel = table_open(UserMappingRelationId, AccessShareLock);
	Oid			serverid = InvalidOid;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_user_mapping_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(mappingid));
	scan = systable_beginscan(rel, UserMappingOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		serverid = ((Form_pg_user_mapping) GETSTRUCT(tuple))->umserver;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return serverid;
}

/*
 * Raise if this transaction has claims of a server that it is changing.  It would look for them
 * by the changed options, and sign for one key as two different roles.
 */
static void
refuse_if_used_here(Oid serverid, const char *verb, bool is_server)
{
	if (eo_xact_uses_server(serverid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot %s a %s that this transaction uses", verb,
						is_server ? "server" : "user mapping of a server"),
				 errdetail("The transaction has claims of that server, or has changed rows that are mirrored by it."),
				 errhint("Change the server in a transaction of its own.")));
}

/* A server, or a user mapping, is created, altered or dropped. */
static void
server_access(ObjectAccessType access, Oid class_id, Oid object_id)
{
	bool		is_server = class_id == ForeignServerRelationId;
	Oid			serverid;

	if (access != OAT_DROP && !eo_xact_has_work())
		return;
	serverid = is_server ? object_id : server_of_mapping(object_id);
	if (access == OAT_DROP)
		refuse_if_unfinished(serverid, is_server ? "drop a server" : "drop a user mapping");
	refuse_if_used_here(serverid, access == OAT_DROP ? "drop" :
						access == OAT_POST_ALTER ? "alter" : "create", is_server);
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (previous_access)
		previous_access(access, class_id, object_id, sub_id, arg);
	if (RecoveryInProgress())
		return;
	if (sub_id == 0 &&
		(access == OAT_POST_CREATE || access == OAT_POST_ALTER || access == OAT_DROP) &&
		(class_id == ForeignServerRelationId || class_id == UserMappingRelationId))
		server_access(access, class_id, object_id);
	if (access == OAT_TRUNCATE && class_id == RelationRelationId && eo_internal_is_part(object_id))
		refuse_if_unfinished(InvalidOid, "truncate a table of exactonce");
	/* A column added in its place would get another number. */
	if (access == OAT_DROP && class_id == RelationRelationId && sub_id > 0 &&
		eo_internal_is_column(object_id, sub_id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot drop a column of a table of exactonce"),
				 errhint("It cannot be put back. DROP EXTENSION drops the whole table.")));
	if (access != OAT_DROP || sub_id != 0)
		return;
	if (class_id == ExtensionRelationId)
	{
		if (object_id == get_extension_oid("exactonce", true))
			refuse_if_unfinished(InvalidOid, "drop extension exactonce");
	}
	/* With CASCADE the extension's tables are dropped before the extension. */
	else if (class_id == RelationRelationId)
	{
		if (eo_internal_is_part(object_id))
			refuse_if_unfinished(InvalidOid, "drop extension exactonce");
	}
}
