/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  What the views of counters are made of: exactonce_stats and its details.
 *
 * Everybody may read the views.  A role that may read all statistics (pg_read_all_stats,
 * of which pg_monitor is a member) sees the servers of the whole cluster; any other sees
 * those of this database that it may use.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_authid.h"
#include "compat.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "server/stats.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "wire/call.h"

PG_FUNCTION_INFO_V1(eo_stats_of_cluster);
PG_FUNCTION_INFO_V1(eo_stats_details_of_cluster);
PG_FUNCTION_INFO_V1(eo_stats_histograms_of_cluster);
PG_FUNCTION_INFO_V1(eo_stats_reset_sql);

static const char *const outcome_names[] = {
	[EO_CALL_RETURNED] = "returned",
	[EO_CALL_ACQUIRED] = "acquired",
	[EO_CALL_COMPLETED] = "completed",
	[EO_CALL_IN_PROGRESS] = "in_progress",
	[EO_CALL_RETRY_LATER] = "retry_later",
	[EO_CALL_FAILED] = "failed",
	[EO_CALL_CREATED] = "created",
	[EO_CALL_ALREADY_EXISTS] = "already_exists",
	[EO_CALL_CONSUMED] = "consumed",
	[EO_CALL_ALREADY_USED] = "already_used",
	[EO_CALL_NOT_ACTIVE] = "not_active",
	[EO_CALL_EXPIRED] = "expired",
	[EO_CALL_CANCELED] = "canceled",
	[EO_CALL_BURNED] = "burned",
	[EO_CALL_INVALID_PIN] = "invalid_pin",
	[EO_CALL_NOT_FOUND] = "action_not_found",
	[EO_CALL_ERROR] = "error",
	[EO_CALL_TERMINATED] = "terminated"
};

static const char *const result_names[] = {
	[EO_OK] = "ok",
	[EO_NO_MEMORY] = "no_memory",
	[EO_TOO_LARGE] = "too_large",
	[EO_INVALID] = "invalid",
	[EO_CRYPTO] = "no_random_numbers",
	[EO_NO_CREDENTIALS] = "no_credentials",
	[EO_CREDENTIALS_AWAY] = "credentials_away",
	[EO_UNREACHABLE] = "unreachable",
	[EO_NOT_ASKED] = "not_asked",
	[EO_CONDITION_FAILED] = "condition_failed",
	[EO_CANCELLED] = "transaction_cancelled",
	[EO_THROTTLED] = "throttled",
	[EO_DENIED] = "denied",
	[EO_NO_TABLE] = "no_table",
	[EO_REFUSED] = "refused",
	[EO_CONFLICT] = "conflict",
	[EO_NO_CLOCK] = "no_clock",
	[EO_UNANSWERED] = "unanswered",
	[EO_UNKNOWN] = "unanswered",
	[EO_RESULT_SERVER_ERROR] = "server_error",
	[EO_RESULT_CANCELED] = "canceled"
};

static const char *const measure_names[] = {
	[EO_MEASURE_CALL] = "call",
	[EO_MEASURE_REQUEST] = "request",
	[EO_MEASURE_SEAL] = "seal",
	[EO_MEASURE_COMPLETION] = "completion"
};

/* ----- which servers are shown ----- */

static uint64
sum(const pg_atomic_uint64 * numbers, int n)
{
	uint64		total = 0;

	for (int i = 0; i < n; i++)
		total += numbers[i].value;
	return total;
}

/*
 * May the current role see these counters?  Sets the name by which they are shown.  A server
 * of this database that was dropped is not shown any more.
 */
static bool
is_shown(EoStatsView *view)
{
	bool		sees_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	ForeignServer *fs;

	if (!OidIsValid(view->dboid))
	{
		strlcpy(view->name, "others", sizeof(view->name));
		return sees_all && sum(view->stats.counts, EO_COUNTS) +
			sum(view->stats.calls[0], EO_FUNCTIONS * EO_CALL_OUTCOMES) > 0;
	}
	if (view->dboid != MyDatabaseId)
		return sees_all;
	fs = GetForeignServerExtended(view->serverid, FSV_MISSING_OK);
	if (fs == NULL)
		return false;
	strlcpy(view->name, fs->servername, sizeof(view->name));
	return sees_all || has_privs_of_role(GetUserId(), fs->owner) ||
		eo_compat_has_right(ForeignServerRelationId, view->serverid, GetUserId(), ACL_USAGE);
}

/* A server that the current role may see, and where its rows go. */
typedef struct Shown
{
	ReturnSetInfo *rsinfo;
	EoStatsView view;
	char	   *database;		/* its name; NULL: dropped, or of all others */
} Shown;

static Datum
show_each(FunctionCallInfo fcinfo, void (*put) (const Shown *))
{
	Shown	   *shown = palloc0(sizeof(Shown));
	uint32		cursor = 0;

	eo_preconditions("exactonce_stats", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	shown->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	while (eo_stats_walk(&cursor, &shown->view))
	{
		if (!is_shown(&shown->view))
			continue;
		shown->database = get_database_name(shown->view.dboid);
		put(shown);
	}
	return (Datum) 0;
}

/* Begin a row with the columns that name the server. */
static void
begin_row(EoRow *row, const Shown *shown)
{
	const EoStatsView *view = &shown->view;

	eo_row_begin(row, shown->rsinfo->setDesc);
	eo_row_put_text(row, shown->database);
	eo_row_put_text(row, view->name);
	EO_ROW_PUT(row, !OidIsValid(view->dboid), ObjectIdGetDatum(view->serverid));
}

/* ----- a row for each server ----- */

/* The number of attempts that ended in this way, whatever the operation. */
static uint64
requests_with(const EoStats *stats, int result)
{
	uint64		total = 0;

	for (int op = 0; op < EO_OPERATIONS; op++)
		total += stats->requests[op][result].value;
	return total;
}

static uint64
calls_with(const EoStats *stats, EoCallOutcome outcome)
{
	uint64		total = 0;

	for (int function = 0; function < EO_FUNCTIONS; function++)
		total += stats->calls[function][outcome].value;
	return total;
}

static void
put_count(EoRow *row, uint64 n)
{
	EO_ROW_PUT(row, false, Int64GetDatum((int64) n));
}

/*
 * A percentile of a measure in microseconds, from 0 to 1; negative: nothing was measured.
 * Within a bucket durations are taken to be spread evenly.
 */
static double
percentile(const EoStats *stats, EoMeasure measure, double part)
{
	const EoHistogram *h = &stats->histograms[measure];
	uint64		total = 0;
	double		before = 0;

	for (int i = 0; i < EO_BUCKETS; i++)
		total += h->buckets[i].value;
	if (total == 0)
		return -1;
	for (int i = 0; i < EO_BUCKETS; i++)
	{
		double		n = h->buckets[i].value;
		double		low = i == 0 ? 0 : ldexp(EO_BUCKET_MIN_US, i - 1);
		double		high = i == EO_BUCKETS - 1 ? low : ldexp(EO_BUCKET_MIN_US, i);

		if (n > 0 && before + n >= part * total)
			return low + (high - low) * Max(0, part * total - before) / n;
		before += n;
	}
	return ldexp(EO_BUCKET_MIN_US, EO_BUCKETS - 2);
}

static void
put_percentiles(EoRow *row, const EoStats *stats, EoMeasure measure)
{
	static const double parts[] = {0.5, 0.95, 0.99};

	for (int i = 0; i < (int) lengthof(parts); i++)
	{
		double		us = percentile(stats, measure, parts[i]);

		EO_ROW_PUT(row, us < 0, Float8GetDatum(us / 1000));
	}
}

static void
put_server(const Shown *shown)
{
	static const char *const reasons[] = {
		[EO_STATS_FIRST_USE] = "first use",
		[EO_STATS_RESET] = "reset",
		[EO_STATS_CRASH] = "crash"
	};
	const EoStats *s = &shown->view.stats;
	uint64		requests = sum(s->requests[0], EO_OPERATIONS * EO_RESULTS);
	EoRow		row;

	begin_row(&row, shown);
	EO_ROW_PUT(&row, false, TimestampTzGetDatum(shown->view.since));
	eo_row_put_text(&row, reasons[shown->view.why]);
	put_count(&row, sum(s->calls[0], EO_FUNCTIONS * EO_CALL_OUTCOMES));
	put_count(&row, calls_with(s, EO_CALL_ERROR));
	put_count(&row, s->counts[EO_COUNT_DUPLICATES_HERE].value);
	put_count(&row, s->counts[EO_COUNT_DUPLICATES_CACHE].value);
	put_count(&row, s->counts[EO_COUNT_DUPLICATES_SERVICE].value);
	put_count(&row, requests);
	put_count(&row, requests - requests_with(s, EO_OK) - requests_with(s, EO_CONDITION_FAILED));
	put_count(&row, s->counts[EO_COUNT_RETRIES].value);
	put_count(&row, requests_with(s, EO_THROTTLED));
	put_count(&row, s->counts[EO_COUNT_UNKNOWN].value);
	put_count(&row, s->counts[EO_COUNT_OWN_WRITES].value);
	put_count(&row, s->counts[EO_COUNT_BYTES_SENT].value);
	put_count(&row, s->counts[EO_COUNT_BYTES_RECEIVED].value);
	EO_ROW_PUT(&row, false, Float8GetDatum(s->counts[EO_COUNT_CAPACITY].value / 1000.0));
	put_count(&row, s->counts[EO_COUNT_ROWS_FINISHED].value);
	put_count(&row, s->counts[EO_COUNT_GIVEN_BACK].value);
	put_count(&row, s->counts[EO_COUNT_WORKER_RETRIES].value);
	for (int measure = 0; measure < EO_MEASURES; measure++)
		put_percentiles(&row, s, measure);
	eo_row_store(&row, shown->rsinfo);
}

/* stats_of_cluster() */
Datum
eo_stats_of_cluster(PG_FUNCTION_ARGS)
{
	return show_each(fcinfo, put_server);
}

/* ----- a row for each counter ----- */

static void
put_detail(const Shown *shown, const char *kind, const char *name, const char *result, uint64 n)
{
	EoRow		row;

	if (n == 0)
		return;
	begin_row(&row, shown);
	eo_row_put_text(&row, kind);
	eo_row_put_text(&row, name);
	eo_row_put_text(&row, result);
	put_count(&row, n);
	eo_row_store(&row, shown->rsinfo);
}

static void
put_details(const Shown *shown)
{
	const EoStats *s = &shown->view.stats;

	for (int function = 0; function < EO_FUNCTIONS; function++)
	{
		for (int outcome = 0; outcome < EO_CALL_OUTCOMES; outcome++)
			put_detail(shown, "call", eo_call_stats_function_name(function),
					   outcome_names[outcome], s->calls[function][outcome].value);
	}
	for (int op = 0; op < EO_OPERATIONS; op++)
	{
		for (int result = 0; result < EO_RESULTS; result++)
			put_detail(shown, "request", eo_call_operation_name(op),
					   result_names[result], s->requests[op][result].value);
	}
	for (int i = 0; i < EO_ERROR_CODES; i++)
	{
		const EoErrorCount *e = &s->errors[i];

		if (e->used)
			put_detail(shown, "error", e->of_call ? "call" : "request", e->code, e->n.value);
	}
}

/* stats_details_of_cluster() */
Datum
eo_stats_details_of_cluster(PG_FUNCTION_ARGS)
{
	return show_each(fcinfo, put_details);
}

/* ----- a row for each bucket ----- */

/* Buckets as Prometheus has them: each counts what the ones before it do, too. */
static void
put_histograms(const Shown *shown)
{
	for (int measure = 0; measure < EO_MEASURES; measure++)
	{
		const EoHistogram *h = &shown->view.stats.histograms[measure];
		uint64		total = 0;

		for (int i = 0; i < EO_BUCKETS; i++)
		{
			double		le = i == EO_BUCKETS - 1 ? INFINITY : ldexp(EO_BUCKET_MIN_US / 1e6, i);
			EoRow		row;

			total += h->buckets[i].value;
			begin_row(&row, shown);
			eo_row_put_text(&row, measure_names[measure]);
			EO_ROW_PUT(&row, false, Float8GetDatum(le));
			put_count(&row, total);
			EO_ROW_PUT(&row, false, Float8GetDatum(h->sum_us.value / 1e6));
			eo_row_store(&row, shown->rsinfo);
		}
	}
}

/* stats_histograms_of_cluster() */
Datum
eo_stats_histograms_of_cluster(PG_FUNCTION_ARGS)
{
	return show_each(fcinfo, put_histograms);
}

/* exactonce_stats_reset(server) */
Datum
eo_stats_reset_sql(PG_FUNCTION_ARGS)
{
	char	   *name = eo_arg_text(fcinfo, 0);

	eo_preconditions("exactonce_stats_reset", EO_READS);
	eo_stats_reset(name != NULL ? get_foreign_server_oid(name, false) : InvalidOid);
	PG_RETURN_VOID();
}
