/*-------------------------------------------------------------------------
 *
 * args.c
 *	  Arguments of SQL functions: reading and checking them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "lib/stringinfo.h"
#include "server/option_values.h"
#include "server/options.h"
#include "server/store.h"
#include "server/text.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* Longest wait for a key to settle: a day. */
#define MAX_WAIT_MS INT64CONST(86400000)

#define DEFAULT_UNITS 500
#define MAX_UNITS 1000000

#define MIN_RETENTION_MS (EO_MIN_RETENTION_S * INT64CONST(1000))
#define MAX_RETENTION_MS (EO_MAX_RETENTION_S * INT64CONST(1000))

static int64 check_interval(const Interval *span, const char *name, int64 min_ms, int64 max_ms);
static char *in_words(int64 ms);
static int64 seconds_of(int64 ms);

char *
eo_arg_text(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

bool
eo_arg_flag(FunctionCallInfo fcinfo, int n)
{
	return !PG_ARGISNULL(n) && PG_GETARG_BOOL(n);
}

EoStore *
eo_arg_store(FunctionCallInfo fcinfo, int n)
{
	EoStore    *store = eo_store_open(eo_arg_text(fcinfo, n));

	eo_call_stats_store(store);
	return store;
}

char *
eo_arg_key(FunctionCallInfo fcinfo, int n)
{
	return eo_arg_check_key(eo_arg_text(fcinfo, n));
}

char *
eo_arg_check_key(char *key)
{
	if (key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("key must not be null"),
				 errhint("A missing key would let work run unprotected. Look for a null among its parts.")));
	if (key[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key must not be empty"),
				 errhint("All calls with an empty key would count as one.")));
	return key;
}

int64
eo_arg_interval_ms(FunctionCallInfo fcinfo, int n, const char *name, int64 min_ms,
				   int64 max_ms)
{
	if (PG_ARGISNULL(n))
		return -1;
	return check_interval(PG_GETARG_INTERVAL_P(n), name, min_ms, max_ms);
}

static int64
check_interval(const Interval *span, const char *name, int64 min_ms, int64 max_ms)
{
	int64		ms = eo_option_values_interval_ms(span);

	if (ms < min_ms || ms > max_ms)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is out of range", name),
				 errdetail("It is %s; it must be from %s to %s.", in_words(ms), in_words(min_ms),
						   in_words(max_ms)),
				 errhint("Give an interval such as '500 ms', '60 s' or '7 days'.")));
	return ms;
}

/* In the largest unit of which it is a whole number. */
static char *
in_words(int64 ms)
{
	static const struct
	{
		int64		ms;
		const char *name;
	}			units[] = {{86400000, "day"}, {3600000, "hour"}, {60000, "minute"}, {1000, "second"}, {1, "millisecond"}};
	int			i = 0;

	while (ms % units[i].ms != 0)
		i++;
	return psprintf("%lld %s%s", (long long) (ms / units[i].ms), units[i].name,
					ms / units[i].ms == 1 ? "" : "s");
}

int64
eo_arg_lease(FunctionCallInfo fcinfo, int n)
{
	return eo_arg_interval_ms(fcinfo, n, "lease", EO_MIN_LEASE_MS, EO_MAX_LEASE_MS);
}

int64
eo_arg_retention(FunctionCallInfo fcinfo, int n)
{
	int64		ms = eo_arg_interval_ms(fcinfo, n, "retention", MIN_RETENTION_MS, MAX_RETENTION_MS);

	return ms >= 0 ? seconds_of(ms) : -1;
}

int64
eo_arg_parse_retention(const char *text)
{
	Interval   *span = DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(text),
															 ObjectIdGetDatum(InvalidOid),
															 Int32GetDatum(-1)));

	return seconds_of(check_interval(span, "retention", MIN_RETENTION_MS, MAX_RETENTION_MS));
}

static int64
seconds_of(int64 ms)
{
	return (ms + 999) / 1000;
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

int
eo_arg_word(FunctionCallInfo fcinfo, int n, const char *name, const char *const *words, int nwords)
{
	char	   *word = eo_arg_text(fcinfo, n);
	StringInfoData valid;

	if (word == NULL)
		return 0;
	initStringInfo(&valid);
	for (int i = 0; i < nwords; i++)
	{
		if (pg_strcasecmp(word, words[i]) == 0)
			return i;
		appendStringInfo(&valid, "%s%s", i == 0 ? "" : i == nwords - 1 ? " or " : ", ", words[i]);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s: \"%s\"", name, word),
			 errhint("It may be %s.", valid.data)));
}

int
eo_arg_units(FunctionCallInfo fcinfo, int n)
{
	int32		units = PG_ARGISNULL(n) ? DEFAULT_UNITS : PG_GETARG_INT32(n);

	if (units < 1 || units > MAX_UNITS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("units_per_second is out of range"),
				 errdetail("It is %d; it must be from 1 to %d.", units, MAX_UNITS),
				 errhint("It is the read capacity that the scan may use. 500 is the default.")));
	return units;
}

bool
eo_arg_choice(FunctionCallInfo fcinfo, int n, const char *name, const char *first,
			  const char *second)
{
	const char *const words[] = {first, second};

	return eo_arg_word(fcinfo, n, name, words, lengthof(words)) == 1;
}

bool
eo_arg_was_done(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("status must not be null"),
				 errhint("completed: the work was done; failed: it was not.")));
	return !eo_arg_choice(fcinfo, n, "status", "completed", "failed");
}

char *
eo_arg_token(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return DatumGetCString(DirectFunctionCall1(uuid_out, PG_GETARG_DATUM(n)));
}

char *
eo_arg_json(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : eo_arg_jsonb_text(PG_GETARG_JSONB_P(n));
}

char *
eo_arg_jsonb_text(Jsonb *jb)
{
	return eo_text_to_utf8(JsonbToCString(NULL, &jb->root, VARSIZE(jb)));
}
