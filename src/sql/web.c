/*-------------------------------------------------------------------------
 *
 * web.c
 *	  What an outcome means in HTTP, and idem_http() for PostgREST.
 *
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
 * the record is made of the handler, the role, the subject of the token that PostgREST has
 * verified (request.jwt.claims), and the client's key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "keys/acquire.h"
#include "keys/key_form.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/store.h"
#include "server/text.h"
#include "sql/args.h"
#include "sql/call.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "sql/web.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "wire/client.h"

/* A client that comes back later than this would find most keys settled. */
#define MAX_RETRY_AFTER_S 60

/* DynamoDB is not available: try again soon. */
#define UNAVAILABLE_RETRY_S 1

EO_COUNTED(eo_idem_http, EO_FN_IDEM_HTTP);

/* ----- outcomes ----- */

int
eo_web_status(const EoClaim *claim)
{
	switch (claim->outcome)
	{
		case EO_CLAIM_ACQUIRED:
		case EO_CLAIM_COMPLETED:
			return 200;
		case EO_CLAIM_IN_PROGRESS:
		case EO_CLAIM_RETRY_LATER:
			return 409;
		case EO_CLAIM_FAILED:
			break;
	}
	return 422;
}

int
eo_web_retry_after(const EoStore *store, const EoClaim *claim)
{
	int64		at_ms = claim->outcome == EO_CLAIM_RETRY_LATER ? claim->retry_at_ms :
	claim->lease_until_ms;
	int64		seconds;

	if (claim->outcome != EO_CLAIM_RETRY_LATER && claim->outcome != EO_CLAIM_IN_PROGRESS)
		return 0;
	/* A key that is being committed has no lease, and is settled soon. */
	seconds = at_ms == 0 ? 1 : (at_ms - eo_client_now_ms(&store->client) + 999) / 1000;
	if (claim->outcome == EO_CLAIM_IN_PROGRESS)
		seconds = Min(seconds, MAX_RETRY_AFTER_S);
	return (int) Max(1, Min(seconds, INT_MAX));
}

/* ----- the request ----- */

static Datum
jsonb_of(Datum text)
{
	return DirectFunctionCall1(jsonb_in, text);
}

/* A member, a string, of the object in a setting; NULL: there is none. */
static char *
member_of_setting(const char *setting, const char *name)
{
	char	   *text = GetConfigOptionByName(setting, NULL, true);
	Datum		object;
	JsonbValue	v;
	bool		found = false;

	if (text == NULL || text[0] == '\0' ||
		!eo_text_try_input(jsonb_of, CStringGetDatum(text), &object))
		return NULL;
	if (JB_ROOT_IS_OBJECT(DatumGetJsonbP(object)))
		found = getKeyJsonValueFromContainer(&DatumGetJsonbP(object)->root, name, strlen(name),
											 &v) != NULL;
	return found && v.type == jbvString ? pnstrdup(v.val.string.val, v.val.string.len) : NULL;
}

/* The client's key; NULL: there is none.  The draft has it in double quotes. */
static char *
key_of_client(void)
{
	char	   *key = member_of_setting("request.headers", "idempotency-key");
	size_t		len;

	if (key == NULL)
		return NULL;
	while (*key == ' ' || *key == '\t')
		key++;
	len = strlen(key);
	while (len > 0 && (key[len - 1] == ' ' || key[len - 1] == '\t'))
		key[--len] = '\0';
	if (len >= 2 && key[0] == '"' && key[len - 1] == '"')
	{
		key[len - 1] = '\0';
		key++;
	}
	return key[0] != '\0' ? key : NULL;
}

/* The key of the record: http/SCHEMA.HANDLER/ and a digest. */
static char *
key_of_record(Oid handler, const char *given)
{
	char	   *subject = member_of_setting("request.jwt.claims", "sub");
	char	   *role = GetUserNameFromId(GetUserId(), false);
	StringInfoData parts;

	initStringInfo(&parts);
	eo_key_form_append(&parts, TEXTOID, CStringGetTextDatum(role), false);
	eo_key_form_append(&parts, TEXTOID, subject != NULL ? CStringGetTextDatum(subject) : (Datum) 0,
					   subject == NULL);
	eo_key_form_append(&parts, TEXTOID, CStringGetTextDatum(given), false);
	return psprintf("http/%s.%s/%s", get_namespace_name(get_func_namespace(handler)),
					get_func_name(handler), eo_key_form_digest(&parts));
}

/* ----- the response ----- */

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
	return refuse(eo_web_status(claim), eo_web_retry_after(store, claim),
				  claim->outcome == EO_CLAIM_IN_PROGRESS ?
				  "A request with this Idempotency-Key is in progress" :
				  claim->outcome == EO_CLAIM_RETRY_LATER ?
				  "The request with this Idempotency-Key failed and may not be repeated yet" :
				  "The request with this Idempotency-Key failed for good");
}

/* A claim that is to be made, see acquire(). */
typedef struct Attempt
{
	EoStore    *store;
	const EoAcquire *ask;
	EoClaim    *claim;
} Attempt;

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
 * idem_http(handler, payload, lease, retention, wait, max_runs, server)
 */
static Datum
eo_idem_http_body(PG_FUNCTION_ARGS)
{
	EoAcquire	ask;
	EoHandler	handler;
	EoClaim		claim;
	EoStore    *store;
	char	   *given;
	int			sqlstate;
	Datum		result;
	bool		isnull;

	eo_preconditions("idem_http", EO_WRITES | EO_SWITCHED);
	store = eo_call_read(fcinfo, 0, 6, &handler, &ask);
	given = key_of_client();
	if (given == NULL)
		PG_RETURN_DATUM(refuse(400, 0, "The header Idempotency-Key is missing"));
	ask.key = key_of_record(handler.function, given);
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
			result = eo_call_run(store, ask.key, &handler, false, &isnull);
			if (isnull)
				PG_RETURN_NULL();
			PG_RETURN_DATUM(result);
		case EO_CLAIM_COMPLETED:
			set_for_transaction("response.headers", "[{\"Idempotency-Replayed\": \"true\"}]");
			if (claim.result == NULL)
				PG_RETURN_NULL();
			PG_RETURN_DATUM(eo_row_json_datum(claim.result));
		default:
			PG_RETURN_DATUM(refuse_claim(store, &claim));
	}
}
