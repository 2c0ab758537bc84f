/*-------------------------------------------------------------------------
 *
 * args.c
 *	  Arguments and results that several SQL functions have in common.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "keys/key_form.h"
#include "compat.h"
#include "sql/gate.h"
#include "dynamodb/record.h"
#include "server/options.h"
#include "sql/args.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/uuid.h"

/* Longest wait for a key to settle. */
#define MAX_WAIT_MS INT64CONST(86400000)

int64
eo_arg_lease(FunctionCallInfo fcinfo, int n)
{
	return eo_arg_interval_ms(fcinfo, n, "lease", EO_MIN_LEASE_MS, EO_MAX_LEASE_MS);
}

int64
eo_arg_retention(FunctionCallInfo fcinfo, int n)
{
	int64		ms = eo_arg_interval_ms(fcinfo, n, "retention",
										EO_MIN_RETENTION_S * INT64CONST(1000),
										EO_MAX_RETENTION_S * 1000);

	return ms >= 0 ? (ms + 999) / 1000 : -1;
}

int64
eo_read_retention(const char *text)
{
	Interval   *span = DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(text),
															 ObjectIdGetDatum(InvalidOid),
															 Int32GetDatum(-1)));

	return (eo_interval_ms(span, "retention", EO_MIN_RETENTION_S * INT64CONST(1000),
						   EO_MAX_RETENTION_S * 1000) + 999) / 1000;
}

int64
eo_arg_wait(FunctionCallInfo fcinfo, int n)
{
	int64		wait_ms = eo_arg_interval_ms(fcinfo, n, "wait", 0, MAX_WAIT_MS);

	if (wait_ms > 0 && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot wait for a key in a transaction above READ COMMITTED"),
				 errdetail("What the other run commits meanwhile would be invisible to this transaction's snapshot."),
				 errhint("Leave wait out, or use READ COMMITTED.")));
	return Max(wait_ms, 0);
}

int64
eo_arg_max_runs(FunctionCallInfo fcinfo, int n)
{
	int32		max_runs;

	if (PG_ARGISNULL(n))
		return 0;
	max_runs = PG_GETARG_INT32(n);
	if (max_runs < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_runs must be at least 1"),
				 errhint("Leave it out for no limit.")));
	return max_runs;
}

bool
eo_arg_choice(FunctionCallInfo fcinfo, int n, const char *name, const char *first,
			  const char *second)
{
	char	   *value = eo_arg_text(fcinfo, n);

	if (value == NULL || strcmp(value, first) == 0)
		return false;
	if (strcmp(value, second) == 0)
		return true;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s must be \"%s\" or \"%s\"", name, first, second),
			 errdetail("It is \"%s\".", value)));
}

char *
eo_arg_token(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return DatumGetCString(DirectFunctionCall1(uuid_out, PG_GETARG_DATUM(n)));
}

char *
eo_arg_fingerprint(Jsonb *payload)
{
	char	   *hex = palloc(EO_FINGERPRINT_LEN + 1);

	eo_payload_fingerprint(payload, hex);
	return hex;
}

char *
eo_arg_json(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : eo_json_text(PG_GETARG_JSONB_P(n));
}

char *
eo_json_text(Jsonb *jb)
{
	return eo_to_utf8(JsonbToCString(NULL, &jb->root, VARSIZE(jb)));
}

char *
eo_show_utf8(const char *utf8)
{
	bool		exact;

	return eo_from_utf8_or_escape(utf8, &exact);
}

/*
 * What another service wrote may be no JSON, no jsonb, or have characters that
 * this encoding does not: it is shown as a string then, because a duplicate must
 * still get its answer, and who has consumed an action its payload.
 */
Datum
eo_json_datum(const char *utf8)
{
	bool		exact;
	char	   *text = eo_from_utf8_or_escape(utf8, &exact);
	MemoryContext context = CurrentMemoryContext;
	volatile Datum datum = (Datum) 0;
	volatile bool ok = exact;

	PG_TRY();
	{
		if (exact)
			datum = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	}
	PG_CATCH();
	{
		/* Input conversion touches nothing, so a data error needs no abort. */
		int			category = ERRCODE_TO_CATEGORY(geterrcode());

		if (category != ERRCODE_DATA_EXCEPTION &&
			category != ERRCODE_PROGRAM_LIMIT_EXCEEDED)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	if (!ok)
	{
		JsonbValue	v;

		v.type = jbvString;
		v.val.string.val = text;
		v.val.string.len = strlen(text);
		datum = JsonbPGetDatum(JsonbValueToJsonb(&v));
	}
	return datum;
}
