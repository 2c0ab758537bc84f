/*-------------------------------------------------------------------------
 *
 * action.c
 *	  The SQL functions for one-shot actions.
 *
 * Each function checks its arguments, calls one function of src/actions, and
 * packs the answer into a row.  Only the bounds of arguments are decided here.  No
 * message contains a PIN.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "actions/action.h"
#include "actions/action_store.h"
#include "cluster/progress.h"
#include "compat.h"
#include "fmgr.h"
#include "keys/key.h"
#include "keys/operator.h"
#include "records/action_item.h"
#include "records/timestamps.h"
#include "records/token.h"
#include "server/options.h"
#include "server/store.h"
#include "server/text.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/composite_expansion.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#define MAX_PIN_BYTES 256

/* Name of an outcome in SQL, and the HTTP status that means the same. */
static const struct
{
	const char *name;
	int			http_status;
}			outcomes[] =
{
	[EO_ACTION_CREATED] = {"created", 201},
	[EO_ACTION_ALREADY_EXISTS] = {"already_exists", 409},
	[EO_ACTION_CONSUMED] = {"consumed", 200},
	[EO_ACTION_ALREADY_USED] = {"already_used", 409},
	[EO_ACTION_NOT_ACTIVE] = {"not_active", 409},
	[EO_ACTION_EXPIRED] = {"expired", 410},
	[EO_ACTION_CANCELED] = {"canceled", 410},
	[EO_ACTION_BURNED] = {"burned", 410},
	[EO_ACTION_INVALID_PIN] = {"invalid_pin", 401},
	[EO_ACTION_NOT_FOUND] = {"action_not_found", 404},
	[EO_ACTION_IN_PROGRESS] = {"in_progress", 409},
};

static const char *const states[] = {
	[EO_ACTION_IS_PENDING] = "pending",
	[EO_ACTION_IS_ACTIVE] = "active",
	[EO_ACTION_IS_CONSUMED] = "consumed",
	[EO_ACTION_IS_EXPIRED] = "expired",
	[EO_ACTION_IS_CANCELED] = "canceled",
	[EO_ACTION_IS_BURNED] = "burned",
	[EO_ACTION_IS_COMMITTING] = "committing",
};

/* Takes the results of eo_action_create(): many rows, or the only one. */
typedef struct CreatedSink
{
	ReturnSetInfo *rsinfo;		/* of action_create_many(); or NULL and: */
	TupleDesc	desc;
	MemoryContext context;		/* where row is allocated */
	Datum		row;
	EoActionOutcome outcome;
} CreatedSink;

static char *check_id(char *id, const char *which, bool create);
static char *read_id(FunctionCallInfo fcinfo, int n);
static char *check_pin(char *pin, const char *which);
static void check_length(const char *utf8, const char *name, size_t max);
static char *read_reason(FunctionCallInfo fcinfo, int n);
static int64 read_instant(TimestampTz t, bool up, const char *name, const char *which);
static void read_plan(JsonbContainer *object, int position, EoActionPlan *plan);
static int	read_plans(Jsonb *actions, EoActionPlan **plans);
static void put_created(void *arg, const EoActionResult *result);
static void fill_view(EoRow *row, TupleDesc desc, const char *id, const EoActionView *v);
static void put_view(const char *id, const EoActionView *view, void *arg);
static Datum result_row(FunctionCallInfo fcinfo, const EoActionResult *result, int http_status);

EO_COUNTED(eo_action_create_sql, EO_FN_ACTION_CREATE);
EO_COUNTED(eo_action_create_many_sql, EO_FN_ACTION_CREATE_MANY);
EO_COUNTED(eo_action_get_sql, EO_FN_ACTION_GET);
EO_COUNTED(eo_action_list_sql, EO_FN_ACTION_LIST);
EO_COUNTED(eo_action_consume_sql, EO_FN_ACTION_CONSUME);
EO_COUNTED(eo_action_cancel_sql, EO_FN_ACTION_CANCEL);
EO_COUNTED(eo_action_resolve, EO_FN_ACTION_RESOLVE);

/* action_create(payload, active_at, expires_at, pin, id, server) */
static Datum
eo_action_create_sql_body(PG_FUNCTION_ARGS)
{
	EoActionPlan plan = {0};
	CreatedSink sink = {0};
	EoStore    *store;
	Datum		result;

	eo_preconditions("action_create", EO_WRITES | EO_SWITCHED);
	if (eo_composite_expansion_find(fcinfo, 4, 5, &result))
		return result;
	plan.payload = eo_arg_json(fcinfo, 0);
	if (!PG_ARGISNULL(1))
		plan.active_ms = read_instant(PG_GETARG_TIMESTAMPTZ(1), true, "active_at", "");
	if (!PG_ARGISNULL(2))
		plan.expires_ms = read_instant(PG_GETARG_TIMESTAMPTZ(2), false, "expires_at", "");
	plan.pin = check_pin(eo_arg_text(fcinfo, 3), "");
	if (!PG_ARGISNULL(4))
		plan.id = check_id(eo_arg_text(fcinfo, 4), "", true);
	store = eo_arg_store(fcinfo, 5);
	sink.desc = eo_row_type(fcinfo);
	sink.context = CurrentMemoryContext;
	eo_action_create(store, &plan, 1, put_created, &sink);

	/*
	 * An error and not an outcome: a caller that does not look at the outcome
	 * must not take an existing action for its own.
	 */
	if (sink.outcome == EO_ACTION_ALREADY_EXISTS)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("action \"%s\" exists already on server \"%s\"", eo_text_key_shown(plan.id), store->server->name),
				 errdetail("An id is not used again while its record is kept, whatever has become of the action."),
				 errhint("action_get() shows it.")));
	return eo_composite_expansion_keep(fcinfo, 4, 5, sink.row);
}

/* action_create_many(actions, server) */
static Datum
eo_action_create_many_sql_body(PG_FUNCTION_ARGS)
{
	CreatedSink sink = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo};
	EoActionPlan *plans;
	EoStore    *store;
	int			n;

	eo_preconditions("action_create_many", EO_WRITES | EO_SWITCHED);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("actions must not be null"),
				 errhint("jsonb_agg() of no rows is null; use COALESCE(jsonb_agg(...), '[]').")));
	n = read_plans(PG_GETARG_JSONB_P(0), &plans);
	store = eo_arg_store(fcinfo, 1);
	eo_compat_materialized_srf(fcinfo);
	sink.desc = sink.rsinfo->setDesc;
	eo_call_stats_progress(store, n);
	eo_action_create(store, plans, n, put_created, &sink);
	return (Datum) 0;
}

static void
put_created(void *arg, const EoActionResult *r)
{
	CreatedSink *sink = arg;
	EoRow		row;

	sink->outcome = r->outcome;
	eo_call_stats_action(r->outcome);
	eo_progress_add(0);
	eo_row_begin(&row, sink->desc);
	eo_row_put_text(&row, r->id);
	eo_row_put_enum(&row, outcomes[r->outcome].name);
	EO_ROW_PUT(&row, false, Int32GetDatum(outcomes[r->outcome].http_status));
	eo_row_put_instant(&row, r->created_ms);
	eo_row_put_instant(&row, r->active_ms);
	eo_row_put_instant(&row, r->expires_ms);
	if (sink->rsinfo != NULL)
		eo_row_store(&row, sink->rsinfo);
	else
	{
		MemoryContext old = MemoryContextSwitchTo(sink->context);

		sink->row = eo_row_datum(&row);
		MemoryContextSwitchTo(old);
	}
}

/* action_consume(id, pin, reason, consumer, token, at, server) */
static Datum
eo_action_consume_sql_body(PG_FUNCTION_ARGS)
{
	static const char *const times[] = {"now", "commit"};
	EoConsume	ask = {0};
	EoStore    *store;
	EoActionResult result;
	char	   *pin;
	char	   *given;
	char		token[EO_TOKEN_LEN + 1];
	Datum		datum;

	eo_preconditions("action_consume", EO_WRITES | EO_SWITCHED);
	if (eo_composite_expansion_find(fcinfo, 0, 6, &datum))
		return datum;
	ask.id = read_id(fcinfo, 0);
	pin = eo_arg_text(fcinfo, 1);
	/* No action has an empty PIN: it counts as none, and costs no attempt. */
	if (pin != NULL && pin[0] != '\0')
		ask.pin = eo_text_to_utf8(pin);
	ask.reason = read_reason(fcinfo, 2);
	ask.consumer = eo_arg_json(fcinfo, 3);
	check_length(ask.consumer, "consumer", EO_MAX_CONSUMER_BYTES);
	given = eo_arg_token(fcinfo, 4);
	if (given != NULL)
		strlcpy(token, given, sizeof(token));
	else
		eo_store_new_token(token);
	ask.token = token;
	ask.at_commit = eo_arg_word(fcinfo, 5, "at", times, lengthof(times)) == 1;
	store = eo_arg_store(fcinfo, 6);
	if (ask.at_commit)
		eo_preconditions_worker();
	eo_action_consume(store, &ask, &result);
	eo_call_stats_action(result.outcome);
	datum = result_row(fcinfo, &result, outcomes[result.outcome].http_status);
	return eo_composite_expansion_keep(fcinfo, 0, 6, datum);
}

/* action_cancel(id, reason, server) */
static Datum
eo_action_cancel_sql_body(PG_FUNCTION_ARGS)
{
	EoActionResult result;
	char	   *id;
	char	   *reason;
	int			http_status;
	Datum		datum;

	eo_preconditions("action_cancel", EO_WRITES | EO_SWITCHED);
	if (eo_composite_expansion_find(fcinfo, 0, 2, &datum))
		return datum;
	id = read_id(fcinfo, 0);
	reason = read_reason(fcinfo, 1);
	eo_action_cancel(eo_arg_store(fcinfo, 2), id, reason, &result);
	eo_call_stats_action(result.outcome);
	/* "canceled" refuses a consume, but is what the caller of a cancel wants. */
	http_status = result.outcome == EO_ACTION_CANCELED ? 200 : outcomes[result.outcome].http_status;
	return eo_composite_expansion_keep(fcinfo, 0, 2, result_row(fcinfo, &result, http_status));
}

/* action_resolve(id, status, origin, server) */
static Datum
eo_action_resolve_body(PG_FUNCTION_ARGS)
{
	char	   *id;
	bool		completed;
	EoStore    *store;
	char	   *pk;
	EoKey		k;

	eo_preconditions("action_resolve", EO_WRITES);
	id = read_id(fcinfo, 0);
	completed = eo_arg_was_done(fcinfo, 1);
	store = eo_arg_store(fcinfo, 3);
	eo_preconditions_worker();
	/* In tables of other layouts no action is ever sealed. */
	pk = eo_action_store_pk(store, id);
	if (pk == NULL || !store->layout->is_native)
		PG_RETURN_BOOL(false);
	eo_key_find_action(&k, store, pk);
	PG_RETURN_BOOL(eo_operator_resolve(&k, completed, eo_arg_token(fcinfo, 2)));
}

/* A row of type action_result. */
static Datum
result_row(FunctionCallInfo fcinfo, const EoActionResult *r, int http_status)
{
	EoRow		row;

	eo_row_begin(&row, eo_row_type(fcinfo));
	eo_row_put_text(&row, r->id);
	eo_row_put_enum(&row, outcomes[r->outcome].name);
	EO_ROW_PUT(&row, false, Int32GetDatum(http_status));
	eo_row_put_json(&row, r->payload);
	eo_row_put_instant(&row, r->consumed_ms);
	eo_row_put_instant(&row, r->active_ms);
	EO_ROW_PUT(&row, r->attempts_left < 0, Int32GetDatum(r->attempts_left));
	EO_ROW_PUT(&row, false, BoolGetDatum(r->replayed));
	return eo_row_datum(&row);
}

/* action_get(id, server) */
static Datum
eo_action_get_sql_body(PG_FUNCTION_ARGS)
{
	EoActionView v;
	EoRow		row;
	char	   *id;

	eo_preconditions("action_get", EO_READS | EO_SWITCHED);
	id = read_id(fcinfo, 0);
	if (!eo_action_get(eo_arg_store(fcinfo, 1), id, &v))
		PG_RETURN_NULL();
	fill_view(&row, eo_row_type(fcinfo), id, &v);
	PG_RETURN_DATUM(eo_row_datum(&row));
}

/* A row of type action_view. */
static void
fill_view(EoRow *row, TupleDesc desc, const char *id, const EoActionView *v)
{
	eo_row_begin(row, desc);
	eo_row_put_text(row, id);
	eo_row_put_enum(row, states[v->state]);
	EO_ROW_PUT(row, false, BoolGetDatum(v->has_pin));
	EO_ROW_PUT(row, !v->has_pin, Int32GetDatum(v->attempts_left));
	eo_row_put_instant(row, v->created_ms);
	eo_row_put_instant(row, v->active_ms);
	eo_row_put_instant(row, v->expires_ms);
	eo_row_put_instant(row, v->consumed_ms);
	eo_row_put_instant(row, v->canceled_ms);
	eo_row_put_text(row, v->reason != NULL ? eo_row_show_utf8(v->reason) : NULL);
	eo_row_put_json(row, v->consumer);
}

/* action_list(state, prefix, older_than, units_per_second, server) */
static Datum
eo_action_list_sql_body(PG_FUNCTION_ARGS)
{
	EoActionList ask = {.any_state = PG_ARGISNULL(0)};
	EoStore    *store;

	eo_preconditions("action_list", EO_READS);
	ask.state = eo_arg_word(fcinfo, 0, "state", states, lengthof(states));
	ask.prefix = PG_ARGISNULL(1) ? "" : eo_arg_text(fcinfo, 1);
	ask.older_than_ms = Max(0, eo_arg_interval_ms(fcinfo, 2, "older_than", 0,
												  EO_MAX_RETENTION_S * INT64CONST(1000)));
	ask.units_per_second = eo_arg_units(fcinfo, 3);
	store = eo_arg_store(fcinfo, 4);
	eo_compat_materialized_srf(fcinfo);
	eo_call_stats_progress(store, -1);
	eo_action_list(store, &ask, put_view, fcinfo->resultinfo);
	return (Datum) 0;
}

static void
put_view(const char *id, const EoActionView *view, void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	EoRow		row;

	fill_view(&row, rsinfo->setDesc, eo_row_show_utf8(id), view);
	eo_row_store(&row, rsinfo);
}

/* ----- arguments ----- */

/*
 * In all of these, which is a sentence for the DETAIL of an error that names the
 * element of action_create_many(); it is "" in the other functions.
 */

static char *
check_id(char *id, const char *which, bool create)
{
	if (id == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("action id must not be null")));
	if (id[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("action id must not be empty"),
				 which[0] != '\0' ? errdetail("%s", which) : 0,
				 create ? errhint("Leave it out to have one made that nobody can guess.") : 0));
	return id;
}

static char *
read_id(FunctionCallInfo fcinfo, int n)
{
	return check_id(eo_arg_text(fcinfo, n), "", false);
}

/* The PIN of a new action as UTF-8; NULL for NULL. */
static char *
check_pin(char *pin, const char *which)
{
	char	   *utf8;

	if (pin == NULL)
		return NULL;
	utf8 = eo_text_to_utf8(pin);
	if (utf8[0] == '\0' || strlen(utf8) > MAX_PIN_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 utf8[0] == '\0' ? errmsg("pin must not be empty") : errmsg("pin is too long"),
				 which[0] != '\0' ? errdetail("%s", which) : 0,
				 utf8[0] == '\0' ? errhint("Leave it out for an action without one.") :
				 errhint("It may have %d bytes.", MAX_PIN_BYTES)));
	return utf8;
}

/* Both texts are kept with the action for good, so they may not be long. */
static void
check_length(const char *utf8, const char *name, size_t max)
{
	if (utf8 != NULL && strlen(utf8) > max)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s is too long", name),
				 errdetail("It has %zu bytes; it may have %zu.", strlen(utf8), max),
				 errhint("It is kept with the action for good.")));
}

static char *
read_reason(FunctionCallInfo fcinfo, int n)
{
	char	   *reason = PG_ARGISNULL(n) ? NULL : eo_text_to_utf8(eo_arg_text(fcinfo, n));

	check_length(reason, "reason", EO_MAX_REASON_BYTES);
	return reason;
}

/*
 * Epoch milliseconds, rounded up if up is true, otherwise down.  0 stands for an
 * instant that was not given.  Rounded up, that is active_at, a time before 1970
 * becomes 0, which means "at once"; rounded down it becomes 1, which is long ago.
 */
static int64
read_instant(TimestampTz t, bool up, const char *name, const char *which)
{
	int64		ms;

	/* A timestamp can be so late that microseconds since 1970 are no int64. */
	if (!TIMESTAMP_NOT_FINITE(t) && t <= EO_MAX_INSTANT_MS * 1000)
	{
		int64		us = t + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

		ms = up ? Max(us + 999, 0) / 1000 : Max(us / 1000, 1);
		if (ms <= EO_MAX_INSTANT_MS)
			return ms;
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("%s is out of range", name),
			 errdetail("%sIt must be finite, and at most 9999-12-31 23:59:59.999 UTC.", which),
			 up ? errhint("Leave it out for \"at once\".") :
			 errhint("Leave it out for 30 days.")));
}

/* ----- the array of action_create_many() ----- */

static int
read_plans(Jsonb *actions, EoActionPlan **plans)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	int			n = 0;

	if (!JB_ROOT_IS_ARRAY(actions) || JB_ROOT_IS_SCALAR(actions))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("actions must be an array"),
				 errhint("For example: '[{\"payload\": {\"user\": 7}, \"expires_at\": \"2030-01-01\"}]'.")));
	*plans = palloc_extended(sizeof(EoActionPlan) * Max(1, JB_ROOT_COUNT(actions)),
							 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	it = JsonbIteratorInit(&actions->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (v.type != jbvBinary || !JsonContainerIsObject(v.val.binary.data))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("number %d of the actions is not an object", n + 1)));
		read_plan(v.val.binary.data, n + 1, &(*plans)[n]);
		n++;
	}
	return n;
}

/* The text of a member of element number position; NULL for a JSON null. */
static char *
text_member(const JsonbValue *v, const char *name, int position)
{
	if (v->type == jbvNull)
		return NULL;
	if (v->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" of number %d of the actions is not a string", name, position),
				 strcmp(name, "pin") == 0 ? errhint("As a number a PIN would lose its leading zeros.") : 0));
	return pnstrdup(v->val.string.val, v->val.string.len);
}

static int64
instant_member(const JsonbValue *v, const char *name, bool up, int position)
{
	char	   *text = text_member(v, name, position);
	Datum		datum;

	if (text == NULL)
		return 0;
	datum = DirectFunctionCall3(timestamptz_in, CStringGetDatum(text),
								ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	return read_instant(DatumGetTimestampTz(datum), up, name,
						psprintf("It is number %d of the actions. ", position));
}

static void
read_plan(JsonbContainer *object, int position, EoActionPlan *plan)
{
	const char *which = psprintf("It is number %d of the actions.", position);
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *name;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		if (strcmp(name, "payload") == 0)
			plan->payload = v.type == jbvNull ? NULL : eo_arg_jsonb_text(JsonbValueToJsonb(&v));
		else if (strcmp(name, "active_at") == 0)
			plan->active_ms = instant_member(&v, name, true, position);
		else if (strcmp(name, "expires_at") == 0)
			plan->expires_ms = instant_member(&v, name, false, position);
		else if (strcmp(name, "pin") == 0)
			plan->pin = check_pin(text_member(&v, name, position), which);
		else if (strcmp(name, "id") == 0)
		{
			plan->id = text_member(&v, name, position);
			if (plan->id != NULL)
				(void) check_id(unconstify(char *, plan->id), which, true);
		}
		else
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("number %d of the actions has an unknown member \"%s\"", position, name),
					 errhint("Members are: id, payload, active_at, expires_at, pin.")));
	}
}
