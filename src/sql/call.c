/*-------------------------------------------------------------------------
 *
 * call.c
 *	  idem_call(): claims a key, runs a handler function, settles the key; idem_http(), the
 *	  same for PostgREST; and idem_write().
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
 *	 without counting a run, and the error is always raised again.  So does an
 *	 error of the machine (the disk is full), but for ten times in a row: the
 *	 record counts them, because some work fills every disk.
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
#include "keys/key_form.h"
#include "keys/owner.h"
#include "keys/writes.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/store.h"
#include "server/text.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/payload.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Longest text of an error (message, detail, context) that is recorded, in bytes. */
#define MAX_TEXT 2000

/* So many errors of the machine in a row count no run. */
#define MAX_SPARED 10

/* DynamoDB is not available: try again soon. */
#define UNAVAILABLE_RETRY_S 1

EO_COUNTED(eo_idem_call, EO_FN_IDEM_CALL);
EO_COUNTED(eo_idem_http, EO_FN_IDEM_HTTP);
EO_COUNTED(eo_idem_write, EO_FN_IDEM_WRITE);

/* A handler, and what it is called with. */
typedef struct EoHandler
{
	Oid			function;
	bool		has_payload;
	Datum		payload;		/* jsonb */
} EoHandler;

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

/* A claim that is to be made, see acquire(). */
typedef struct Attempt
{
	EoStore    *store;
	const EoAcquire *ask;
	EoClaim    *claim;
} Attempt;

static Datum run_and_settle(EoStore *store, const char *key, const EoHandler *handler,
							bool returns, bool *isnull);
pg_noreturn static void refuse_user(const char *claim, const char *detail);
static void find_again(EoKey *k);
static EoStore *read_arguments(FunctionCallInfo fcinfo, int first, int server, int compare_arg,
							   EoHandler *handler, EoAcquire *ask);
static void check_handler(const EoHandler *handler);
static char *name_of_handler(Oid function);
static void run_handler(void *arg);
static bool is_of_the_moment(int sqlerrcode);
static bool is_of_the_machine(int sqlerrcode);
static bool is_final(const Run *run);
static char *describe(const ErrorData *error);

static Datum
stored_result(FunctionCallInfo fcinfo, const EoStore *store, const char *key, const EoClaim *claim)
{
	if (claim->result == NULL)
		PG_RETURN_NULL();
	return eo_row_result_datum(claim->result, key, store->server->name);
}

/*
 * idem_call(key, handler, payload, lease, retention, wait, max_runs, on_error,
 * server, compare)
 */
static Datum
eo_idem_call_body(PG_FUNCTION_ARGS)
{
	EoAcquire	ask;
	EoHandler	handler;
	EoClaim		claim;
	EoStore    *store;
	char	   *key;
	bool		returns;

	eo_preconditions("idem_call", EO_WRITES | EO_SWITCHED);
	key = eo_arg_key(fcinfo, 0);
	returns = eo_arg_choice(fcinfo, 7, "on_error", "raise", "return");
	store = read_arguments(fcinfo, 1, 8, 9, &handler, &ask);
	ask.key = key;
	ask.handler = name_of_handler(handler.function);
	eo_preconditions_worker();

	eo_acquire(store, &ask, &claim);
	eo_call_stats_claim(&claim);
	if (claim.outcome == EO_CLAIM_COMPLETED)
		return stored_result(fcinfo, store, ask.key, &claim);
	if (claim.outcome != EO_CLAIM_ACQUIRED)
		eo_acquire_raise(store, ask.key, &claim);
	return run_and_settle(store, ask.key, &handler, returns, &fcinfo->isnull);
}

/*
 * Run the handler and settle the key, which this statement has just claimed.  The result
 * is a jsonb.  If the handler raises, its error is recorded and raised again, unless
 * returns is true: then *isnull is.
 */
static Datum
run_and_settle(EoStore *store, const char *key, const EoHandler *handler, bool returns,
			   bool *isnull)
{
	EoKey		k;
	Run			run = {.handler = handler,.key = &k};
	const EoWrites *writes;
	bool		spared;

	eo_key_find(&k, store, key, NULL);
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
	spared = is_of_the_machine(run.error->sqlerrcode) && k.held->spared < MAX_SPARED;
	if (spared || is_of_the_moment(run.error->sqlerrcode))
		(void) eo_owner_release(store, key, NULL, spared);
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

/*
 * Read the arguments handler, payload, lease, retention, wait and max_runs, which begin
 * at first, server and compare.
 */
static EoStore *
read_arguments(FunctionCallInfo fcinfo, int first, int server, int compare_arg,
			   EoHandler *handler, EoAcquire *ask)
{
	EoCompare	compare;
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
	eo_payload_compare(fcinfo, compare_arg, &compare);
	check_handler(handler);
	store = eo_arg_store(fcinfo, server);
	ask->payload_sha256 =
		eo_payload_fingerprint(store,
							   handler->has_payload ? DatumGetJsonbP(handler->payload) : NULL,
							   &compare);
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
	if (!eo_compat_has_right(ProcedureRelationId, handler->function, GetUserId(), ACL_EXECUTE))
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

/*
 * The handler as the record keeps it: its name, in UTF-8.  Of one that is too long the end
 * is a digest.
 */
static char *
name_of_handler(Oid function)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
												  get_func_name(function));
	char	   *utf8 = eo_text_to_utf8(name);
	int			len = (int) strlen(utf8);
	StringInfoData parts;

	if (len <= EO_MAX_HANDLER_BYTES)
		return utf8;
	initStringInfo(&parts);
	eo_key_form_append(&parts, TEXTOID, CStringGetTextDatum(name), false);
	len = pg_encoding_mbcliplen(PG_UTF8, utf8, len, EO_MAX_HANDLER_BYTES - EO_FINGERPRINT_LEN - 1);
	return psprintf("%.*s~%s", len, utf8, eo_key_form_digest(&parts));
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
 * Errors of the moment: cancels, serialization failures, deadlocks, lock timeouts;
 * another key that the handler asked for and that is in progress; DynamoDB unavailable.
 */
static bool
is_of_the_moment(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_QUERY_CANCELED ||
		sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
		sqlerrcode == ERRCODE_EO_IN_PROGRESS ||
		sqlerrcode == ERRCODE_EO_UNAVAILABLE;
}

/*
 * Errors of the machine, of this server's or of another one that the handler uses: no disk, no
 * memory, no connection, a shutdown (57P0x).
 */
static bool
is_of_the_machine(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_DISK_FULL ||
		sqlerrcode == ERRCODE_OUT_OF_MEMORY ||
		sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
		sqlerrcode == ERRCODE_CRASH_SHUTDOWN ||
		sqlerrcode == ERRCODE_CANNOT_CONNECT_NOW ||
		sqlerrcode == ERRCODE_DATABASE_DROPPED ||
		sqlerrcode == ERRCODE_IDLE_SESSION_TIMEOUT ||
		ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_CONNECTION_EXCEPTION;
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
put_text(StringInfo out, const char *name, const char *text)
{
	if (text == NULL)
		return;
	appendStringInfo(out, "%s\"%s\": ", out->len > 1 ? ", " : "", name);
	escape_json(out, pnstrdup(text, pg_mbcliplen(text, strlen(text), MAX_TEXT)));
}

/* An error as the record keeps it: UTF-8 JSON text, with its members in the order of jsonb. */
static char *
describe(const ErrorData *error)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	put_text(&out, "detail", error->detail);
	put_text(&out, "context", error->context);
	put_text(&out, "message", error->message);
	put_text(&out, "sqlstate", unpack_sql_state(error->sqlerrcode));
	appendStringInfoChar(&out, '}');
	return eo_text_to_utf8(out.data);
}

/* ----- for PostgREST ----- */

/*
 * PostgREST passes the headers of a request in the setting request.headers, and takes
 * status and headers of the response from response.status and response.headers.  The answers
 * are those of "The Idempotency-Key HTTP Header Field" (an IETF draft): 400 without a key,
 * 409 while the first request goes on, 422 for a key that was used with another payload.
 *
 * A refusal is an answer and no error, so that its status and headers reach the client.  An
 * error of the claim itself is caught in a subtransaction.  An error of the handler is
 * raised: PostgREST rolls back what was done, and makes a response of it.
 *
 * Clients choose their keys, and must not come upon the answers of others.  So the key of
 * the record is made of the handler, the role, the claim that tells users apart in the token
 * that PostgREST has verified (request.jwt.claims), and the client's key.
 */

/* The object in a setting; NULL: the setting is not set, or has something else. */
static Jsonb *
object_of_setting(const char *setting, bool *is_set)
{
	char	   *text = GetConfigOptionByName(setting, NULL, true);
	Datum		object;

	*is_set = text != NULL && text[0] != '\0';
	if (!*is_set || !eo_text_try_input(jsonb_in, text, &object) ||
		!JB_ROOT_IS_OBJECT(DatumGetJsonbP(object)))
		return NULL;
	return DatumGetJsonbP(object);
}

/* The client's key; NULL: there is none.  The draft has it in double quotes. */
static char *
key_of_client(void)
{
	static const char name[] = "idempotency-key";
	bool		is_set;
	Jsonb	   *headers = object_of_setting("request.headers", &is_set);
	JsonbValue	v;
	char	   *key;
	size_t		len;

	if (headers == NULL ||
		getKeyJsonValueFromContainer(&headers->root, name, strlen(name), &v) == NULL ||
		v.type != jbvString)
		return NULL;
	key = pnstrdup(v.val.string.val, v.val.string.len);
	key = TextDatumGetCString(DirectFunctionCall2(btrim, CStringGetTextDatum(key),
												  CStringGetTextDatum(" \t")));
	len = strlen(key);
	if (len >= 2 && key[0] == '"' && key[len - 1] == '"')
	{
		key[len - 1] = '\0';
		key++;
	}
	return key[0] != '\0' ? key : NULL;
}

static void
refuse_user(const char *claim, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the token of the request does not tell users apart by its claim \"%s\"", claim),
			 errdetail("%s", detail),
			 errhint("Name the claim that does: idem_http(..., user_claim => '...').")));
}

/*
 * Append the user of the request: the claim of its token, with its type, so that no two
 * users are one.  A request of nobody has no token, or, as PostgREST has it for anonymous
 * requests, one with a role and nothing else.
 */
static void
append_user(StringInfo parts, const char *claim)
{
	bool		is_set;
	Jsonb	   *token = object_of_setting("request.jwt.claims", &is_set);
	JsonbValue	v;

	if (!is_set)
	{
		eo_key_form_append(parts, TEXTOID, (Datum) 0, true);
		return;
	}
	if (token == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the setting request.jwt.claims is not a JSON object"),
				 errhint("PostgREST sets it to the claims of the token that it has verified.")));
	if (getKeyJsonValueFromContainer(&token->root, claim, strlen(claim), &v) == NULL)
	{
		uint32		others = JB_ROOT_COUNT(token) -
		(getKeyJsonValueFromContainer(&token->root, "role", 4, &v) != NULL ? 1 : 0);

		if (others > 0)
			refuse_user(claim, "The token has no such claim.");
		eo_key_form_append(parts, TEXTOID, (Datum) 0, true);
		return;
	}
	if (v.type == jbvString)
	{
		char	   *user = pnstrdup(v.val.string.val, v.val.string.len);

		eo_key_form_append(parts, TEXTOID, CStringGetTextDatum(user), false);
	}
	else if (v.type == jbvNumeric || v.type == jbvBool)
		eo_key_form_append(parts, JSONBOID, JsonbPGetDatum(JsonbValueToJsonb(&v)), false);
	else
		refuse_user(claim, "It is neither a string, a number nor a boolean.");
}

/* The key of the record: http/SCHEMA.HANDLER/ and a digest. */
static char *
key_of_record(Oid handler, const char *claim, const char *given)
{
	char	   *role = GetUserNameFromId(GetUserId(), false);
	StringInfoData parts;

	initStringInfo(&parts);
	eo_key_form_append(&parts, TEXTOID, CStringGetTextDatum(role), false);
	append_user(&parts, claim);
	eo_key_form_append(&parts, TEXTOID, CStringGetTextDatum(given), false);
	return psprintf("http/%s.%s/%s", get_namespace_name(get_func_namespace(handler)),
					get_func_name(handler), eo_key_form_digest(&parts));
}

static void
set_for_transaction(const char *setting, const char *value)
{
	(void) set_config_option(setting, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
							 false);
}

/* Set status and headers, and return the body that says why (RFC 9457). */
static Datum
refuse(int status, int retry_after, const char *title)
{
	char	   *body = psprintf("{\"type\": \"about:blank\", \"title\": \"%s\", \"status\": %d}", title,
								status);

	set_for_transaction("response.status", psprintf("%d", status));
	set_for_transaction("response.headers", retry_after == 0 ?
						"[{\"Content-Type\": \"application/problem+json\"}]" :
						psprintf("[{\"Content-Type\": \"application/problem+json\"}, {\"Retry-After\": \"%d\"}]",
								 retry_after));
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(body));
}

static Datum
refuse_claim(const EoStore *store, const EoClaim *claim)
{
	return refuse(eo_row_http_status(claim), eo_row_retry_after(store, claim),
				  claim->outcome == EO_CLAIM_IN_PROGRESS ?
				  "A request with this Idempotency-Key is in progress" :
				  claim->outcome == EO_CLAIM_RETRY_LATER ?
				  "The request with this Idempotency-Key failed and may not be repeated yet" :
				  "The request with this Idempotency-Key failed for good");
}

static void
try_acquire(void *arg)
{
	Attempt    *a = arg;

	eo_acquire(a->store, a->ask, a->claim);
}

/*
 * Claim the key in a subtransaction.  Returns 0, or the SQLSTATE of an error that is an
 * answer: another payload, or DynamoDB is not available.
 */
static int
acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim)
{
	Attempt		attempt = {store, ask, claim};
	ErrorData  *error = eo_error_try(try_acquire, &attempt);

	if (error == NULL)
		return 0;
	if (error->sqlerrcode != ERRCODE_EO_PAYLOAD_MISMATCH &&
		error->sqlerrcode != ERRCODE_EO_UNAVAILABLE)
		ReThrowError(error);
	return error->sqlerrcode;
}

/*
 * idem_http(handler, payload, lease, retention, wait, max_runs, server, user_claim,
 * compare)
 */
static Datum
eo_idem_http_body(PG_FUNCTION_ARGS)
{
	EoAcquire	ask;
	EoHandler	handler;
	EoClaim		claim;
	EoStore    *store;
	char	   *given;
	char	   *claim_name;
	int			sqlstate;

	eo_preconditions("idem_http", EO_WRITES | EO_SWITCHED);
	store = read_arguments(fcinfo, 0, 6, 8, &handler, &ask);
	claim_name = PG_ARGISNULL(7) ? "sub" : eo_arg_text(fcinfo, 7);
	given = key_of_client();
	if (given == NULL)
		PG_RETURN_DATUM(refuse(400, 0, "The header Idempotency-Key is missing"));
	ask.key = key_of_record(handler.function, claim_name, given);
	eo_preconditions_worker();

	sqlstate = acquire(store, &ask, &claim);
	if (sqlstate == ERRCODE_EO_PAYLOAD_MISMATCH)
		PG_RETURN_DATUM(refuse(422, 0, "This Idempotency-Key was used with another request"));
	if (sqlstate != 0)
		PG_RETURN_DATUM(refuse(503, UNAVAILABLE_RETRY_S,
							   "It is not known whether the request was done; repeat it"));
	eo_call_stats_claim(&claim);
	switch (claim.outcome)
	{
		case EO_CLAIM_ACQUIRED:
			return run_and_settle(store, ask.key, &handler, false, &fcinfo->isnull);
		case EO_CLAIM_COMPLETED:
			set_for_transaction("response.headers", "[{\"Idempotency-Replayed\": \"true\"}]");
			return stored_result(fcinfo, store, ask.key, &claim);
		default:
			PG_RETURN_DATUM(refuse_claim(store, &claim));
	}
}

/* ----- in a handler ----- */

/* idem_write(writes) */
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
