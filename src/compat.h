/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between versions, so that no other file has one.
 *
 * PostgreSQL 15 to 19.  libcurl from 7.87 (CURLOPT_QUICK_EXIT: without it a
 * backend that is told to stop waits for a name server's time-out).
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMPAT_H
#define EO_COMPAT_H

#include "postgres.h"

#include "access/heapam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/jsonapi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_tablespace.h"
#include "commands/dbcommands.h"
#include "utils/acl.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "exactonce needs PostgreSQL 15 or newer"
#endif

/* 18 writes this before a declaration; earlier ones had an attribute behind. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn _Noreturn
#endif

/*
 * The library is compiled with -fvisibility=hidden, as all extensions are from 16 on.  The
 * headers of 15 export neither what they say they do nor the functions of SQL.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	extern PGDLLEXPORT const Pg_finfo_record *CppConcat(pg_finfo_, name)(void); \
	const Pg_finfo_record * \
	CppConcat(pg_finfo_, name)(void) \
	{ \
		static const Pg_finfo_record info = {1}; \
		return &info; \
	} \
	extern int no_such_variable
#endif

/* A DROP DATABASE that was interrupted leaves this, from 15.4 on. */
#ifndef DATCONNLIMIT_INVALID_DB
#define DATCONNLIMIT_INVALID_DB (-2)
#endif

/* Meaningful only in http.c, which includes curl before this file. */
#if defined(LIBCURL_VERSION_NUM) && LIBCURL_VERSION_NUM < 0x075700
#error "exactonce needs libcurl 7.87 or newer"
#endif

/* The parameters of ExecutorRun(), and they as arguments; 18 has one less. */
#if PG_VERSION_NUM >= 180000
#define EO_COMPAT_EXECUTOR_RUN_PARAMS QueryDesc *query, ScanDirection direction, uint64 count
#define EO_COMPAT_EXECUTOR_RUN_ARGS query, direction, count
#else
#define EO_COMPAT_EXECUTOR_RUN_PARAMS QueryDesc *query, ScanDirection direction, uint64 count, \
	bool execute_once
#define EO_COMPAT_EXECUTOR_RUN_ARGS query, direction, count, execute_once
#endif

/* The parameters of a signal handler, as arguments for another; 19 has one more. */
#if PG_VERSION_NUM >= 190000
#define EO_COMPAT_SIGNAL_ARGS postgres_signal_arg, pg_siginfo
#else
#define EO_COMPAT_SIGNAL_ARGS postgres_signal_arg
#endif

/* A wait event set that lives as long as the process. */
static inline WaitEventSet *
eo_compat_create_wait_event_set(int nevents)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(NULL, nevents);
#else
	return CreateWaitEventSet(TopMemoryContext, nevents);
#endif
}

/*
 * The wait event that pg_stat_activity shows: for a process that waits for DynamoDB, or
 * that has no request in flight.
 */
static inline uint32
eo_compat_wait_event(bool idle)
{
#if PG_VERSION_NUM >= 170000
	static uint32 events[2] = {0};

	if (events[idle] == 0)
		events[idle] = WaitEventExtensionNew(idle ? "ExactonceIdle" : "ExactonceRequest");
	return events[idle];
#else
	(void) idle;
	return PG_WAIT_EXTENSION;
#endif
}

/* Delete a row in the current command.  Does not wait for another transaction that changes it. */
static inline TM_Result
eo_compat_heap_delete(Relation rel, ItemPointer tid, TM_FailureData *failure)
{
#if PG_VERSION_NUM >= 190000
	return heap_delete(rel, tid, GetCurrentCommandId(true), 0, InvalidSnapshot, false, failure);
#else
	return heap_delete(rel, tid, GetCurrentCommandId(true), InvalidSnapshot, false, failure, false);
#endif
}

/* Does this transaction hold the lock in just this mode? */
static inline bool
eo_compat_lock_held(const LOCKTAG *tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(tag, mode, false);
#else
	return LockHeldByMe(tag, mode);
#endif
}

/* Has the role this right to the object in that catalog, one of the four here? */
static inline bool
eo_compat_has_right(Oid class_id, Oid object_id, Oid userid, AclMode mode)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(class_id, object_id, userid, mode) == ACLCHECK_OK;
#else
	switch (class_id)
	{
		case ForeignDataWrapperRelationId:
			return pg_foreign_data_wrapper_aclcheck(object_id, userid, mode) == ACLCHECK_OK;
		case ForeignServerRelationId:
			return pg_foreign_server_aclcheck(object_id, userid, mode) == ACLCHECK_OK;
		case ProcedureRelationId:
			return pg_proc_aclcheck(object_id, userid, mode) == ACLCHECK_OK;
		case TableSpaceRelationId:
			return pg_tablespace_aclcheck(object_id, userid, mode) == ACLCHECK_OK;
		default:
			return false;
	}
#endif
}

static inline bool
eo_compat_database_ownercheck(Oid dboid, Oid userid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, dboid, userid);
#else
	return pg_database_ownercheck(dboid, userid);
#endif
}

/* Every setting there is, in an array of *n. */
static inline struct config_generic **
eo_compat_guc_variables(int *n)
{
#if PG_VERSION_NUM >= 160000
	return get_guc_variables(n);
#else
	*n = GetNumConfigOptions();
	return get_guc_variables();
#endif
}

/* Set up a set-returning function that fills rsinfo->setResult. */
static inline void
eo_compat_materialized_srf(FunctionCallInfo fcinfo)
{
#if PG_VERSION_NUM >= 160000
	InitMaterializedSRF(fcinfo, 0);
#else
	SetSingleFuncCall(fcinfo, 0);
#endif
}

/* Have a function called when shared memory may be asked for. */
static inline void
eo_compat_request_shmem(void (*request) (void), void (**previous) (void))
{
	*previous = shmem_request_hook;
	shmem_request_hook = request;
}

/* PostgreSQL's own list of slots whose standbys must confirm; "" before 17. */
static inline const char *
eo_compat_synchronized_standby_slots(void)
{
#if PG_VERSION_NUM >= 170000
	return synchronized_standby_slots != NULL ? synchronized_standby_slots : "";
#else
	return "";
#endif
}

/* Was the slot given up, so that its standby cannot go on?  The caller holds its mutex. */
static inline bool
eo_compat_slot_is_invalidated(const ReplicationSlot *slot)
{
#if PG_VERSION_NUM >= 160000
	return slot->data.invalidated != RS_INVAL_NONE;
#else
	return !XLogRecPtrIsInvalid(slot->data.invalidated_at) &&
		XLogRecPtrIsInvalid(slot->data.restart_lsn);
#endif
}

/* Is a column generated when it is read? */
static inline bool
eo_compat_is_virtual(Form_pg_attribute att)
{
#if PG_VERSION_NUM >= 180000
	return att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL;
#else
	(void) att;
	return false;
#endif
}

/* A lexer of len bytes of JSON, palloc'd.  It leaves the escapes in strings. */
static inline JsonLexContext *
eo_compat_json_lexer(char *json, size_t len, int encoding)
{
#if PG_VERSION_NUM >= 170000
	return makeJsonLexContextCstringLen(NULL, json, len, encoding, false);
#else
	return makeJsonLexContextCstringLen(json, (int) len, encoding, false);
#endif
}

/* The timeline that this server writes. */
static inline uint32
eo_compat_timeline(void)
{
	return GetWALInsertionTimeLine();
}

/* The virtual transaction id that other sessions wait for. */
static inline VirtualTransactionId
eo_compat_my_vxid(void)
{
	VirtualTransactionId vxid;

	GET_VXID_FROM_PGPROC(vxid, *MyProc);
	return vxid;
}

/*
 * The same of a prepared transaction, which has no process: its id.  VirtualXactLock()
 * waits for that, see VirtualTransactionIdIsRecoveredPreparedXact().
 */
static inline VirtualTransactionId
eo_compat_prepared_vxid(TransactionId xid)
{
	VirtualTransactionId vxid;

	SetInvalidVirtualTransactionId(vxid);
	vxid.localTransactionId = xid;
	return vxid;
}

#endif							/* EO_COMPAT_H */
