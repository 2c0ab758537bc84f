/*-------------------------------------------------------------------------
 *
 * idem.c
 *	  The SQL functions for idempotency keys.
 *
 * Each function reads its arguments, calls one function of src/keys, and packs
 * the answer into a row; nothing is decided here.  Arguments are checked in the
 * order in which a caller wants to hear of them: whether the function may run
 * here at all (eo_preconditions), the key, the other arguments, and then the server and the
 * privilege to use it.  The network comes last.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "cluster/progress.h"
#include "commit/xact.h"
#include "compat.h"
#include "keys/acquire.h"
#include "keys/batch.h"
#include "keys/give_up.h"
#include "keys/key.h"
#include "keys/operator.h"
#include "keys/owner.h"
#include "keys/sweep.h"
#include "keys/transact.h"
#include "keys/transact_items.h"
#include "keys/writes.h"
#include "records/record.h"
#include "server/options.h"
#include "server/store.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/composite_expansion.h"
#include "sql/payload.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "wire/hex.h"

/* Longest time until a failed key may be retried: the longest retention. */
#define MAX_RETRY_MS (EO_MAX_RETENTION_S * 1000)

static const char *const outcome_names[] = {
	[EO_CLAIM_ACQUIRED] = "acquired",
	[EO_CLAIM_COMPLETED] = "completed",
	[EO_CLAIM_IN_PROGRESS] = "in_progress",
	[EO_CLAIM_RETRY_LATER] = "retry_later",
	[EO_CLAIM_FAILED] = "failed"
};

/* Takes the rows of idem_acquire_many(). */
typedef struct ClaimSink
{
	const EoStore *store;
	ReturnSetInfo *rsinfo;
} ClaimSink;

static Datum claim_datum(FunctionCallInfo fcinfo, const EoStore *store, const char *key,
						 const EoClaim *claim);
static void fill_claim(EoRow *row, TupleDesc desc, const EoStore *store, const char *key,
					   const EoClaim *c);
static void fill_record(EoRow *row, TupleDesc desc, const EoStore *store, const char *key,
						const EoRecord *r);

EO_COUNTED(eo_idem_acquire, EO_FN_IDEM_ACQUIRE);
EO_COUNTED(eo_idem_start, EO_FN_IDEM_START);
EO_COUNTED(eo_idem_acquire_many, EO_FN_IDEM_ACQUIRE_MANY);
EO_COUNTED(eo_idem_complete, EO_FN_IDEM_COMPLETE);
EO_COUNTED(eo_idem_complete_many, EO_FN_IDEM_COMPLETE_MANY);
EO_COUNTED(eo_idem_once, EO_FN_IDEM_ONCE);
EO_COUNTED(eo_idem_transact, EO_FN_IDEM_TRANSACT);
EO_COUNTED(eo_idem_fail, EO_FN_IDEM_FAIL);
EO_COUNTED(eo_idem_release, EO_FN_IDEM_RELEASE);
EO_COUNTED(eo_idem_extend, EO_FN_IDEM_EXTEND);
EO_COUNTED(eo_idem_get, EO_FN_IDEM_GET);
EO_COUNTED(eo_idem_list, EO_FN_IDEM_LIST);
EO_COUNTED(eo_idem_sweep, EO_FN_IDEM_SWEEP);
EO_COUNTED(eo_idem_forget, EO_FN_IDEM_FORGET);
EO_COUNTED(eo_idem_resolve, EO_FN_IDEM_RESOLVE);
EO_COUNTED(eo_idem_give_up, EO_FN_IDEM_GIVE_UP);

static EoStore *acquire(FunctionCallInfo fcinfo, EoAcquire *ask, EoClaim *claim);
static Jsonb *read_payload(FunctionCallInfo fcinfo, int arg);
static void put_claim(void *arg, const char *key, const EoClaim *claim);
static int	read_keys(FunctionCallInfo fcinfo, char ***keys);
static int	read_documents(FunctionCallInfo fcinfo, int arg, const char *name, int nkeys,
						   Jsonb ***documents);
static void read_terms(FunctionCallInfo fcinfo, EoAcquire *ask);
static void put_record(const char *key, const EoRecord *r, void *arg);
static Datum token_datum(const char *token);

/*
 * idem_acquire(key, lease, retention, payload, wait, max_runs, on_abort,
 * on_commit, server, compare, on_lost)
 */
static Datum
eo_idem_acquire_body(PG_FUNCTION_ARGS)
{
	EoAcquire	ask;
	EoClaim		claim;
	EoStore    *store;
	Datum		result;

	eo_preconditions("idem_acquire", EO_WRITES | EO_SWITCHED);
	if (eo_composite_expansion_find(fcinfo, 0, 8, &result))
		return result;
	store = acquire(fcinfo, &ask, &claim);
	return eo_composite_expansion_keep(fcinfo, 0, 8, claim_datum(fcinfo, store, ask.key, &claim));
}

/* idem_start(the arguments of idem_acquire) */
static Datum
eo_idem_start_body(PG_FUNCTION_ARGS)
{
	EoAcquire	ask;
	EoClaim		claim;
	EoStore    *store;

	eo_preconditions("idem_start", EO_WRITES | EO_SWITCHED);
	store = acquire(fcinfo, &ask, &claim);
	if (claim.outcome != EO_CLAIM_ACQUIRED && claim.outcome != EO_CLAIM_COMPLETED)
		eo_acquire_raise(store, ask.key, &claim);
	PG_RETURN_BOOL(claim.outcome == EO_CLAIM_ACQUIRED);
}

/*
 * Read the arguments that idem_acquire() and idem_start() have in common,
 * and ask for the claim.
 */
static EoStore *
acquire(FunctionCallInfo fcinfo, EoAcquire *ask, EoClaim *claim)
{
	EoCompare	compare;
	EoStore    *store;

	memset(ask, 0, sizeof(*ask));
	ask->key = eo_arg_key(fcinfo, 0);
	read_terms(fcinfo, ask);
	eo_payload_compare(fcinfo, 9, &compare);
	store = eo_arg_store(fcinfo, 8);
	ask->payload_sha256 = eo_payload_fingerprint(store, read_payload(fcinfo, 3), &compare);
	eo_preconditions_worker();
	eo_acquire(store, ask, claim);
	eo_call_stats_claim(claim);
	return store;
}

static Jsonb *
read_payload(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : PG_GETARG_JSONB_P(arg);
}

/*
 * idem_acquire_many(keys, lease, retention, payloads, wait, max_runs, on_abort,
 * on_commit, server, compare, on_lost)
 */
static Datum
eo_idem_acquire_many_body(PG_FUNCTION_ARGS)
{
	EoAcquire  *asks;
	EoAcquire	terms = {0};
	ClaimSink	sink;
	EoCompare	compare;
	EoStore    *store;
	char	  **keys;
	Jsonb	  **payloads;
	int			nkeys;
	int			npayloads;

	eo_preconditions("idem_acquire_many", EO_WRITES | EO_SWITCHED);
	nkeys = read_keys(fcinfo, &keys);
	if (nkeys > EO_MAX_CLAIMS_OF_TRANSACTION)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many keys for one transaction"),
				 errdetail("There are %d; a transaction holds at most %d.", nkeys,
						   EO_MAX_CLAIMS_OF_TRANSACTION),
				 errhint("Take them a part at a time, with a COMMIT between.")));
	npayloads = read_documents(fcinfo, 3, "payloads", nkeys, &payloads);
	read_terms(fcinfo, &terms);
	eo_payload_compare(fcinfo, 9, &compare);
	store = eo_arg_store(fcinfo, 8);
	asks = palloc_extended(sizeof(EoAcquire) * Max(1, nkeys), MCXT_ALLOC_HUGE);
	for (int i = 0; i < nkeys; i++)
	{
		asks[i] = terms;
		asks[i].key = keys[i];
		asks[i].payload_sha256 = eo_payload_fingerprint(store, i < npayloads ? payloads[i] : NULL,
														&compare);
	}
	eo_compat_materialized_srf(fcinfo);
	eo_preconditions_worker();
	eo_call_stats_progress(store, nkeys);
	sink.store = store;
	sink.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	eo_batch_acquire(store, asks, nkeys, put_claim, &sink);
	return (Datum) 0;
}

static void
put_claim(void *arg, const char *key, const EoClaim *claim)
{
	ClaimSink  *sink = arg;
	EoRow		row;

	eo_call_stats_claim(claim);
	fill_claim(&row, sink->rsinfo->setDesc, sink->store, key, claim);
	eo_row_store(&row, sink->rsinfo);
}

/* The keys of argument 0, an array, each of them checked.  Returns their number. */
static int
read_keys(FunctionCallInfo fcinfo, char ***keys)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("keys must not be null")));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, &nulls, &n);
	*keys = palloc(sizeof(char *) * Max(1, n));
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("key must not be null"),
					 errdetail("It is number %d of the array.", i + 1)));
		(*keys)[i] = eo_arg_check_key(TextDatumGetCString(elements[i]));
	}
	return n;
}

/*
 * The documents of an array argument, one for each key; NULL for SQL NULL.
 * Returns their number, which is 0 if the argument is SQL NULL.
 */
static int
read_documents(FunctionCallInfo fcinfo, int arg, const char *name, int nkeys,
			   Jsonb ***documents)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(arg))
		return 0;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), JSONBOID, -1, false, TYPALIGN_INT,
					  &elements, &nulls, &n);
	if (n != nkeys)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys and %s must be of the same length", name),
				 errdetail("There are %d keys and %d %s.", nkeys, n, name)));
	*documents = palloc(sizeof(Jsonb *) * Max(1, n));
	for (int i = 0; i < n; i++)
		(*documents)[i] = nulls[i] ? NULL : DatumGetJsonbP(elements[i]);
	return n;
}

/* The arguments that are the same for one key and for many. */
static void
read_terms(FunctionCallInfo fcinfo, EoAcquire *ask)
{
	static const char *const words[] = {"error", "keep", "session"};
	static const char *const ends[] = {"ignore", "cancel", "terminate"};
	int			on_commit;

	ask->lease_ms = eo_arg_lease(fcinfo, 1);
	ask->retention_s = eo_arg_retention(fcinfo, 2);
	ask->wait_ms = eo_arg_wait(fcinfo, 4);
	ask->max_runs = eo_arg_max_runs(fcinfo, 5);
	ask->hold = eo_arg_choice(fcinfo, 6, "on_abort", "release", "hold");
	on_commit = eo_arg_word(fcinfo, 7, "on_commit", words, lengthof(words));
	ask->keep = on_commit > 0;
	ask->session = on_commit == 2;
	ask->on_lost = (EoOnLost) eo_arg_word(fcinfo, 10, "on_lost", ends, lengthof(ends));
	if (ask->session && ask->hold)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("on_commit => \"session\" and on_abort => \"hold\" exclude each other"),
				 errdetail("The claim of a session is given back when the session ends, whatever it has done."),
				 errhint("For work with an effect outside take on_commit => \"keep\" and extend the lease.")));
}

/* The writes of an argument; NULL for SQL NULL. */
static const EoWrites *
read_writes(FunctionCallInfo fcinfo, int arg, EoStore *store, const char *function,
			EoWrites *writes)
{
	if (PG_ARGISNULL(arg))
		return NULL;
	eo_writes_read(store, function, PG_GETARG_JSONB_P(arg), writes);
	return writes;
}

/* idem_complete(key, result, token, immediate, writes, server) */
static Datum
eo_idem_complete_body(PG_FUNCTION_ARGS)
{
	bool		immediate = eo_arg_flag(fcinfo, 3);
	char	   *key;
	EoStore    *store;
	EoWrites	writes;

	eo_preconditions("idem_complete", immediate ? EO_WRITES | EO_SWITCHED : EO_WRITES);
	key = eo_arg_key(fcinfo, 0);
	if (immediate && !PG_ARGISNULL(4))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("immediate and writes exclude each other"),
				 errhint("Writes are made when the transaction has committed. idem_transact() makes them at once.")));
	store = eo_arg_store(fcinfo, 5);
	if (!immediate)
		eo_preconditions_worker();
	eo_owner_complete(store, key, eo_arg_token(fcinfo, 2), eo_arg_json(fcinfo, 1), immediate,
					  read_writes(fcinfo, 4, store, "idem_complete()", &writes));
	PG_RETURN_VOID();
}

/* idem_complete_many(keys, results, server) */
static Datum
eo_idem_complete_many_body(PG_FUNCTION_ARGS)
{
	EoStore    *store;
	char	  **keys;
	Jsonb	  **results;
	int			nkeys;
	int			nresults;

	eo_preconditions("idem_complete_many", EO_WRITES);
	nkeys = read_keys(fcinfo, &keys);
	nresults = read_documents(fcinfo, 1, "results", nkeys, &results);
	store = eo_arg_store(fcinfo, 2);
	eo_preconditions_worker();
	eo_call_stats_progress(store, nkeys);
	for (int i = 0; i < nkeys; i++)
	{
		eo_owner_complete(store, keys[i], NULL,
						  i < nresults && results[i] != NULL ? eo_arg_jsonb_text(results[i]) : NULL,
						  false, NULL);
		eo_progress_add(0);
	}
	eo_call_stats_times(nkeys);
	PG_RETURN_INT32(nkeys);
}

/* idem_once(key, result, retention, writes, server) */
static Datum
eo_idem_once_body(PG_FUNCTION_ARGS)
{
	char	   *key;
	int64		retention_s;
	EoStore    *store;
	EoWrites	writes;

	eo_preconditions("idem_once", EO_WRITES | EO_SWITCHED);
	key = eo_arg_key(fcinfo, 0);
	retention_s = eo_arg_retention(fcinfo, 2);
	store = eo_arg_store(fcinfo, 4);
	eo_preconditions_worker();
	eo_owner_once(store, key, eo_arg_json(fcinfo, 1), retention_s, NULL,
				  read_writes(fcinfo, 3, store, "idem_once()", &writes));
	PG_RETURN_VOID();
}

/* idem_transact(key, writes, result, payload, server, compare) */
static Datum
eo_idem_transact_body(PG_FUNCTION_ARGS)
{
	EoTransact	ask = {0};
	EoTransactItems actions;
	EoCompare	compare;
	EoClaim		claim;
	EoStore    *store;
	Datum		result;

	eo_preconditions("idem_transact", EO_WRITES | EO_SWITCHED);
	if (eo_composite_expansion_find(fcinfo, 0, 4, &result))
		return result;
	ask.key = eo_arg_key(fcinfo, 0);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("writes must not be null")));
	eo_transact_items_read(PG_GETARG_JSONB_P(1), &actions);
	ask.actions = &actions;
	ask.result = eo_arg_json(fcinfo, 2);
	eo_payload_compare(fcinfo, 5, &compare);
	store = eo_arg_store(fcinfo, 4);
	ask.payload_sha256 = eo_payload_fingerprint(store, read_payload(fcinfo, 3), &compare);
	eo_transact(store, &ask, &claim);
	eo_call_stats_claim(&claim);
	return eo_composite_expansion_keep(fcinfo, 0, 4, claim_datum(fcinfo, store, ask.key, &claim));
}

/* idem_fail(key, error, retry_after, terminal, token, immediate, server) */
static Datum
eo_idem_fail_body(PG_FUNCTION_ARGS)
{
	char	   *key;
	int64		retry_after_ms;
	bool		terminal = eo_arg_flag(fcinfo, 3);
	bool		immediate = eo_arg_flag(fcinfo, 5);

	eo_preconditions("idem_fail", EO_WRITES);
	key = eo_arg_key(fcinfo, 0);
	retry_after_ms = eo_arg_interval_ms(fcinfo, 2, "retry_after", 0, MAX_RETRY_MS);
	if (terminal && retry_after_ms >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("retry_after and terminal exclude each other"),
				 errhint("A key that failed for good is not retried; leave one of them out.")));
	eo_owner_fail(eo_arg_store(fcinfo, 6), key, eo_arg_token(fcinfo, 4),
				  eo_arg_json(fcinfo, 1), Max(retry_after_ms, 0), terminal, immediate);
	PG_RETURN_VOID();
}

/* idem_release(key, token, server) */
static Datum
eo_idem_release_body(PG_FUNCTION_ARGS)
{
	char	   *key;

	eo_preconditions("idem_release", EO_WRITES);
	key = eo_arg_key(fcinfo, 0);
	PG_RETURN_BOOL(eo_owner_release(eo_arg_store(fcinfo, 2), key,
									eo_arg_token(fcinfo, 1), false));
}

/* idem_extend(key, lease, token, server, progress) */
static Datum
eo_idem_extend_body(PG_FUNCTION_ARGS)
{
	char	   *key;
	int64		lease_ms;
	int64		until_ms;

	eo_preconditions("idem_extend", EO_WRITES);
	key = eo_arg_key(fcinfo, 0);
	lease_ms = eo_arg_lease(fcinfo, 1);
	until_ms = eo_owner_extend(eo_arg_store(fcinfo, 3), key, eo_arg_token(fcinfo, 2), lease_ms,
							   eo_arg_json(fcinfo, 4));
	PG_RETURN_TIMESTAMPTZ(eo_row_timestamp(until_ms));
}

/* idem_get(key, server) */
static Datum
eo_idem_get_body(PG_FUNCTION_ARGS)
{
	char	   *key;
	EoStore    *store;
	EoRecord	record;
	EoRow		row;

	eo_preconditions("idem_get", EO_READS);
	key = eo_arg_key(fcinfo, 0);
	store = eo_arg_store(fcinfo, 1);
	if (!eo_operator_get(store, key, &record))
		PG_RETURN_NULL();
	fill_record(&row, eo_row_type(fcinfo), store, key, &record);
	PG_RETURN_DATUM(eo_row_datum(&row));
}

/* idem_list(status, prefix, older_than, units_per_second, results, server) */
static Datum
eo_idem_list_body(PG_FUNCTION_ARGS)
{
	static const char *const words[] = {
		[EO_LIST_ALL] = "all",
		[EO_LIST_IN_PROGRESS] = "in_progress",
		[EO_LIST_COMMITTING] = "committing",
		[EO_LIST_COMPLETED] = "completed",
		[EO_LIST_FAILED] = "failed",
		[EO_LIST_STUCK] = "stuck",
		[EO_LIST_PARKED] = "parked"
	};
	EoList		ask = {.which = EO_LIST_ALL};
	EoStore    *store;

	eo_preconditions("idem_list", EO_READS);
	ask.which = eo_arg_word(fcinfo, 0, "status", words, lengthof(words));
	ask.prefix = PG_ARGISNULL(1) ? "" : eo_arg_text(fcinfo, 1);
	ask.older_than_ms = Max(0, eo_arg_interval_ms(fcinfo, 2, "older_than", 0, MAX_RETRY_MS));
	ask.units_per_second = eo_arg_units(fcinfo, 3);
	ask.results = eo_arg_flag(fcinfo, 4);
	store = eo_arg_store(fcinfo, 5);
	eo_compat_materialized_srf(fcinfo);
	eo_call_stats_progress(store, -1);
	eo_operator_list(store, &ask, put_record, fcinfo->resultinfo);
	return (Datum) 0;
}

static void
put_record(const char *key, const EoRecord *r, void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	EoRow		row;

	fill_record(&row, rsinfo->setDesc, NULL, eo_row_show_utf8(key), r);
	eo_row_store(&row, rsinfo);
}

/* idem_sweep(units_per_second, older_than, server) */
static Datum
eo_idem_sweep_body(PG_FUNCTION_ARGS)
{
	EoStore    *store;
	int			units_per_second;
	int64		margin_ms;

	eo_preconditions("idem_sweep", EO_WRITES | EO_SWITCHED);
	units_per_second = eo_arg_units(fcinfo, 0);
	margin_ms = eo_arg_interval_ms(fcinfo, 1, "older_than", EO_SWEEP_MARGIN_MS, MAX_RETRY_MS);
	store = eo_arg_store(fcinfo, 2);
	eo_call_stats_progress(store, -1);
	PG_RETURN_INT64(eo_sweep(store, Max(margin_ms, EO_SWEEP_MARGIN_MS), units_per_second));
}

/* idem_forget(key, server) */
static Datum
eo_idem_forget_body(PG_FUNCTION_ARGS)
{
	char	   *key;

	eo_preconditions("idem_forget", EO_WRITES);
	key = eo_arg_key(fcinfo, 0);
	PG_RETURN_BOOL(eo_operator_forget(eo_arg_store(fcinfo, 1), key));
}

/* idem_resolve(key, status, origin, server) */
static Datum
eo_idem_resolve_body(PG_FUNCTION_ARGS)
{
	char	   *key;
	bool		completed;
	EoKey		k;

	eo_preconditions("idem_resolve", EO_WRITES);
	key = eo_arg_key(fcinfo, 0);
	completed = eo_arg_was_done(fcinfo, 1);
	eo_key_find(&k, eo_arg_store(fcinfo, 3), key, NULL);
	eo_preconditions_worker();
	PG_RETURN_BOOL(eo_operator_resolve(&k, completed, eo_arg_token(fcinfo, 2)));
}

/* idem_give_up(pending_id) */
static Datum
eo_idem_give_up_body(PG_FUNCTION_ARGS)
{
	eo_preconditions("idem_give_up", EO_WRITES);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("pending_id must not be null"),
				 errhint("It is the column id of exactonce_pending.")));
	PG_RETURN_BOOL(eo_give_up(PG_GETARG_UUID_P(0)));
}

/* ----- rows ----- */

static Datum
claim_datum(FunctionCallInfo fcinfo, const EoStore *store, const char *key, const EoClaim *claim)
{
	EoRow		row;

	fill_claim(&row, eo_row_type(fcinfo), store, key, claim);
	return eo_row_datum(&row);
}

/* A row of type idem_claim. */
static void
fill_claim(EoRow *row, TupleDesc desc, const EoStore *store, const char *key, const EoClaim *c)
{
	bool		acquired = c->outcome == EO_CLAIM_ACQUIRED;
	int			retry_after = eo_row_retry_after(store, c);

	eo_row_begin(row, desc);
	eo_row_put_text(row, key);
	eo_row_put_enum(row, outcome_names[c->outcome]);
	EO_ROW_PUT(row, !acquired, token_datum(c->token));
	EO_ROW_PUT(row, c->fence == 0, Int64GetDatum(c->fence));
	EO_ROW_PUT(row, c->runs == 0, Int32GetDatum((int32) c->runs));
	eo_row_put_result(row, c->result, key, store->server->name);
	eo_row_put_json(row, c->error);
	eo_row_put_instant(row, c->lease_until_ms);
	eo_row_put_instant(row, c->retry_at_ms);
	eo_row_put_instant(row, c->expires_at_ms);
	EO_ROW_PUT(row, false, BoolGetDatum(c->mine));
	EO_ROW_PUT(row, false, BoolGetDatum(c->replayed));
	EO_ROW_PUT(row, false, Int32GetDatum(eo_row_http_status(c)));
	EO_ROW_PUT(row, retry_after == 0, Int32GetDatum(retry_after));
	eo_row_put_json(row, c->mine ? c->progress : NULL);
}

/* A token that this process has made is a UUID in its usual text. */
static Datum
token_datum(const char *token)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

	if (strlen(token) != EO_UUID_TEXT_LEN || !eo_hex_read_uuid(token, uuid->data))
		return DirectFunctionCall1(uuid_in, CStringGetDatum(token));
	return UUIDPGetDatum(uuid);
}

/* A row of type idem_record; store is NULL in a list, which shows each result somehow. */
static void
fill_record(EoRow *row, TupleDesc desc, const EoStore *store, const char *key, const EoRecord *r)
{
	int64		retry_ms = r->retry_ms != 0 ? r->retry_ms : r->updated_ms;

	eo_row_begin(row, desc);
	eo_row_put_text(row, key);
	eo_row_put_text(row, eo_record_state_name(r->state));
	EO_ROW_PUT(row, false, Int64GetDatum(r->fence));
	EO_ROW_PUT(row, false, Int32GetDatum((int32) r->runs));
	if (store != NULL)
		eo_row_put_result(row, r->result, key, store->server->name);
	else
		eo_row_put_json(row, r->result);
	eo_row_put_json(row, r->error);
	EO_ROW_PUT(row, r->state != EO_STATE_IN_PROGRESS,
			   TimestampTzGetDatum(eo_row_timestamp(r->lease_ms)));
	EO_ROW_PUT(row, r->state != EO_STATE_FAILED || !r->has_retry,
			   TimestampTzGetDatum(eo_row_timestamp(retry_ms)));
	eo_row_put_instant(row, r->ttl_s * 1000);
	eo_row_put_instant(row, r->created_ms);
	eo_row_put_instant(row, r->updated_ms);
	eo_row_put_text(row, r->holder != NULL ? eo_row_show_utf8(r->holder) : NULL);
	/* The transaction that completes the key may be known here only. */
	eo_row_put_json(row, r->state != EO_STATE_COMPLETED ? r->progress : NULL);
}
