/*-------------------------------------------------------------------------
 *
 * call.c
 *	  idem_call(): claims a key, runs a handler function, settles the key; and idem_write().
 *
 * The claim belongs to the subtransaction level of the caller, the handler's work
 * to a subtransaction below it.
 *
 * - The handler returns: its subtransaction is released and the key completed.
 *	 An error in completing is raised as it is, and is never recorded as a
 *	 failure of the handler.
 * - The handler returns a result that cannot be stored, because it is too large:
 *	 that is an error of the handler.  Another run would return it again, so the key
 *	 fails for good.  The result is therefore checked within the handler's
 *	 subtransaction.
 * - The handler raises: its subtransaction is rolled back with all that the
 *	 handler did, nested claims included.  An error of the work is recorded as
 *	 the key's failure, which outlives the transaction.  An error of the moment
 *	 (a cancel, a deadlock) says nothing about the work: the key is released
 *	 without counting a run, and the error is always raised again.
 * - The process is terminated: no error handler runs, and the abort releases the
 *	 key without counting a run (EoTxClaim.untried).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commit/xact.h"
#include "compat.h"
#include "keys/acquire.h"
#include "keys/deferred_writes.h"
#include "keys/key.h"
#include "keys/owner.h"
#include "keys/writes.h"
#include "mb/pg_wchar.h"
#include "server/error.h"
#include "server/store.h"
#include "server/text.h"
#include "sql/args.h"
#include "sql/call.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/syscache.h"

/* Longest text of an error (message, detail, context) that is recorded, in bytes. */
#define MAX_TEXT 2000

EO_COUNTED(eo_idem_call, EO_FN_IDEM_CALL);
EO_COUNTED(eo_idem_write, EO_FN_IDEM_WRITE);

/* A call of the handler, and how it ended. */
typedef struct Run
{
	const EoHandler *handler;
	const EoKey *key;
	Datum		result;
	bool		isnull;
	char	   *text;			/* the result as it is stored; NULL: no result */
	ErrorData  *error;			/* NULL: the handler has returned */
	bool		returned;		/* the error, if any, is about its result */
} Run;

static void check_handler(const EoHandler *handler);
static void find_again(EoKey *k);
static void run_handler(void *arg);
static bool is_of_the_moment(int sqlerrcode);
static bool is_final(const Run *run);
static char *describe(const ErrorData *error);

/*
 * idem_call(key, handler, payload, lease, retention, wait, max_runs, on_error,
 * server)
 */
static Datum
eo_idem_call_body(PG_FUNCTION_ARGS)
{
	EoAcquire	ask;
	EoHandler	handler;
	EoClaim		claim;
	EoStore    *store;
	char	   *key;
	Datum		result;
	bool		returns;
	bool		isnull;

	eo_preconditions("idem_call", EO_WRITES | EO_SWITCHED);
	key = eo_arg_key(fcinfo, 0);
	returns = eo_arg_choice(fcinfo, 7, "on_error", "raise", "return");
	store = eo_call_read(fcinfo, 1, 8, &handler, &ask);
	ask.key = key;
	eo_preconditions_worker();

	eo_acquire(store, &ask, &claim);
	eo_call_stats_claim(&claim);
	if (claim.outcome == EO_CLAIM_COMPLETED)
	{
		if (claim.result == NULL)
			PG_RETURN_NULL();
		PG_RETURN_DATUM(eo_row_json_datum(claim.result));
	}
	if (claim.outcome != EO_CLAIM_ACQUIRED)
		eo_acquire_raise(store, ask.key, &claim);
	result = eo_call_run(store, ask.key, &handler, returns, &isnull);
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

Datum
eo_call_run(EoStore *store, const char *key, const EoHandler *handler, bool returns, bool *isnull)
{
	EoKey		k;
	Run			run = {.handler = handler,.key = &k};
	const EoWrites *writes;

	eo_key_find(&k, store, key);
	k.held->untried = true;
	eo_deferred_writes_enter(store);
	run.error = eo_error_try(run_handler, &run);
	writes = eo_deferred_writes_leave();
	if (run.error == NULL)
	{
		find_again(&k);
		if (k.held == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_EO_NOT_OWNER),
					 errmsg("key \"%s\" on server \"%s\" was settled by its own handler",
							eo_text_key_shown(key), store->server->name),
					 errhint("Leave that to idem_call(): what the handler returns is the result, what it raises the failure.")));
		eo_owner_complete(store, key, NULL, run.text, false, writes);
		*isnull = run.isnull;
		return run.result;
	}
	find_again(&k);
	if (k.held == NULL)
		ReThrowError(run.error);
	if (is_of_the_moment(run.error->sqlerrcode))
		(void) eo_owner_release(store, key, NULL);
	else
	{
		eo_owner_fail(store, key, NULL, describe(run.error), 0, is_final(&run), false);
		if (returns)
		{
			*isnull = true;
			return (Datum) 0;
		}
	}
	ReThrowError(run.error);
}

/*
 * Look the claim up after the handler has run.  k->held is NULL if the handler
 * has settled the key itself.
 */
static void
find_again(EoKey *k)
{
	k->held = eo_xact_find(k->digest);
	if (k->held != NULL)
		k->held->untried = false;
}

EoStore *
eo_call_read(FunctionCallInfo fcinfo, int first, int server, EoHandler *handler, EoAcquire *ask)
{
	EoStore    *store;

	if (PG_ARGISNULL(first))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("handler must not be null")));
	handler->function = PG_GETARG_OID(first);
	handler->has_payload = !PG_ARGISNULL(first + 1);
	handler->payload = handler->has_payload ? PG_GETARG_DATUM(first + 1) : (Datum) 0;
	*ask = (EoAcquire)
	{
		.settled_within = true
	};
	ask->lease_ms = eo_arg_lease(fcinfo, first + 2);
	ask->retention_s = eo_arg_retention(fcinfo, first + 3);
	ask->wait_ms = eo_arg_wait(fcinfo, first + 4);
	ask->max_runs = eo_arg_max_runs(fcinfo, first + 5);
	check_handler(handler);
	store = eo_arg_store(fcinfo, server);
	if (handler->has_payload)
		ask->payload_sha256 = eo_arg_fingerprint(store, DatumGetJsonbP(handler->payload));
	return store;
}

static void
check_handler(const EoHandler *handler)
{
	HeapTuple	tuple;
	Form_pg_proc proc;
	const char *what = NULL;
	char	   *name;

	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(handler->function));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", handler->function)));
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	name = pstrdup(NameStr(proc->proname));
	if (eo_compat_function_aclcheck(handler->function, GetUserId(), ACL_EXECUTE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, name);
	if (proc->prokind != PROKIND_FUNCTION)
		what = "It is no plain function.";
	else if (proc->pronargs != 1 || proc->proargtypes.values[0] != JSONBOID)
		what = "Its argument is another one.";
	else if (proc->prorettype != JSONBOID)
		what = "It returns something else.";
	else if (proc->proretset)
		what = "It returns a set.";
	if (what != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("handler \"%s\" must be a function of one jsonb that returns jsonb", name),
				 errdetail("%s", what)));
	if (proc->proisstrict && !handler->has_payload)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("payload must not be null for handler \"%s\"", name),
				 errdetail("The handler is STRICT, so it would not be called, and the key be completed all the same.")));
	ReleaseSysCache(tuple);
}

static void
run_handler(void *arg)
{
	Run		   *run = arg;
	FmgrInfo	function;

	LOCAL_FCINFO(call, 1);

	fmgr_info(run->handler->function, &function);
	InitFunctionCallInfoData(*call, &function, 1, InvalidOid, NULL, NULL);
	call->args[0].value = run->handler->payload;
	call->args[0].isnull = !run->handler->has_payload;
	run->result = FunctionCallInvoke(call);
	run->isnull = call->isnull;
	run->returned = true;
	if (run->isnull)
		return;
	run->text = eo_arg_jsonb_text(DatumGetJsonbP(run->result));
	eo_key_check_result(run->key, run->text, "Store it elsewhere and return a reference to it.");
}

/*
 * Errors of the moment: cancels, shutdown, serialization failures, deadlocks,
 * lock timeouts; another key that the handler asked for and that is in progress;
 * DynamoDB unavailable.
 */
static bool
is_of_the_moment(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_QUERY_CANCELED ||
		sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
		sqlerrcode == ERRCODE_CRASH_SHUTDOWN ||
		sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
		sqlerrcode == ERRCODE_EO_IN_PROGRESS ||
		sqlerrcode == ERRCODE_EO_UNAVAILABLE;
}

/*
 * Would another run end in the same way?  The result is too large, even as a text in
 * memory, or has characters that cannot be stored: SQLSTATE class 54 or 22.
 */
static bool
is_final(const Run *run)
{
	int			category = ERRCODE_TO_CATEGORY(run->error->sqlerrcode);

	return run->returned && (category == ERRCODE_PROGRAM_LIMIT_EXCEEDED ||
							 category == ERRCODE_DATA_EXCEPTION);
}

/* A member of the object, cut to MAX_TEXT bytes; nothing for a text of NULL. */
static void
put_text(JsonbParseState **state, const char *name, const char *text)
{
	JsonbValue	v;

	if (text == NULL)
		return;
	v.type = jbvString;
	v.val.string.val = unconstify(char *, name);
	v.val.string.len = strlen(name);
	(void) pushJsonbValue(state, WJB_KEY, &v);
	v.val.string.val = unconstify(char *, text);
	v.val.string.len = pg_mbcliplen(text, strlen(text), MAX_TEXT);
	(void) pushJsonbValue(state, WJB_VALUE, &v);
}

/* An error as the record keeps it: UTF-8 JSON text. */
static char *
describe(const ErrorData *error)
{
	JsonbParseState *state = NULL;
	JsonbValue *v;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_text(&state, "sqlstate", unpack_sql_state(error->sqlerrcode));
	put_text(&state, "message", error->message);
	put_text(&state, "detail", error->detail);
	put_text(&state, "context", error->context);
	v = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return eo_arg_jsonb_text(JsonbValueToJsonb(v));
}

/* ----- in a handler ----- */

/*
 * idem_write(writes)
 */
static Datum
eo_idem_write_body(PG_FUNCTION_ARGS)
{
	EoWrites	writes;
	EoStore    *store;

	eo_preconditions("idem_write", EO_WRITES);
	store = eo_deferred_writes_store();
	if (store == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("idem_write() was not called by a handler of idem_call()"),
				 errhint("Elsewhere, idem_complete() and idem_once() take the writes of a key.")));
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("writes must not be null")));
	eo_call_stats_store(store);
	eo_writes_read(store, "idem_write()", PG_GETARG_JSONB_P(0), &writes);
	eo_deferred_writes_add(&writes);
	PG_RETURN_VOID();
}
