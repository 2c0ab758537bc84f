/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  The rows that SQL functions return.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "nodes/primnodes.h"
#include "server/text.h"
#include "sql/rows.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "wire/client.h"

static Datum json_datum(const char *utf8, bool *lacking);

/* A client that comes back later than this would find most keys settled. */
#define MAX_RETRY_AFTER_S 60

EoCallSite *
eo_row_call_site(FunctionCallInfo fcinfo)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;

	if (flinfo->fn_extra == NULL)
		flinfo->fn_extra = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(EoCallSite));
	return flinfo->fn_extra;
}

TupleDesc
eo_row_type(FunctionCallInfo fcinfo)
{
	EoCallSite *site = eo_row_call_site(fcinfo);
	TupleDesc	desc;
	MemoryContext old;

	if (site->type != NULL)
		return site->type;
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("function must return a row type")));
	site->type = BlessTupleDesc(desc);
	MemoryContextSwitchTo(old);
	return site->type;
}

void
eo_row_begin(EoRow *row, TupleDesc desc)
{
	Assert(desc->natts <= EO_ROW_MAX_COLUMNS);
	row->desc = desc;
	row->n = 0;
}

void
eo_row_put_enum(EoRow *row, const char *label)
{
	Oid			type = TupleDescAttr(row->desc, row->n)->atttypid;

	EO_ROW_PUT(row, label == NULL,
			   ObjectIdGetDatum(GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid,
												ObjectIdGetDatum(type), CStringGetDatum(label))));
}

void
eo_row_put_instant(EoRow *row, int64 ms)
{
	EO_ROW_PUT(row, ms == 0, TimestampTzGetDatum(eo_row_timestamp(ms)));
}

void
eo_row_put_text(EoRow *row, const char *s)
{
	EO_ROW_PUT(row, s == NULL, CStringGetTextDatum(s));
}

void
eo_row_put_json(EoRow *row, const char *utf8)
{
	bool		lacking;

	EO_ROW_PUT(row, utf8 == NULL, json_datum(utf8, &lacking));
}

void
eo_row_put_result(EoRow *row, const char *utf8, const char *key, const char *server)
{
	EO_ROW_PUT(row, utf8 == NULL, eo_row_result_datum(utf8, key, server));
}

Datum
eo_row_datum(EoRow *row)
{
	Assert(row->n == row->desc->natts);
	return HeapTupleGetDatum(heap_form_tuple(row->desc, row->values, row->nulls));
}

void
eo_row_store(EoRow *row, ReturnSetInfo *rsinfo)
{
	Assert(row->n == row->desc->natts);
	tuplestore_putvalues(rsinfo->setResult, row->desc, row->values, row->nulls);
}

TimestampTz
eo_row_timestamp(int64 ms)
{
	return (TimestampTz) (ms - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
						  (int64) SECS_PER_DAY * 1000) * 1000;
}

/* The work is done, and whoever needs no result is told so: see idem_start(). */
Datum
eo_row_result_datum(const char *utf8, const char *key, const char *server)
{
	bool		lacking;
	Datum		datum = json_datum(utf8, &lacking);

	if (lacking)
		ereport(ERROR,
				(errcode(ERRCODE_UNTRANSLATABLE_CHARACTER),
				 errmsg("the result of key \"%s\" on server \"%s\" cannot be had in a database in %s",
						eo_text_key_shown(key), server, GetDatabaseEncodingName()),
				 errdetail("The key is completed. Its result has characters that the encoding of this database lacks."),
				 errhint("Ask from a database in UTF8, or use idem_start(), which returns no result.")));
	return datum;
}

/*
 * The text may come from another service.  It may be no JSON, JSON that jsonb
 * cannot hold, or text that the database's encoding cannot express.  It becomes
 * a JSON string then instead of an error, because a duplicate must still get its
 * answer, and the caller that has consumed an action must get its payload.
 * *lacking: the encoding is the reason.
 */
static Datum
json_datum(const char *utf8, bool *lacking)
{
	bool		exact;
	char	   *text = eo_text_from_utf8_or_escape(utf8, &exact);
	Datum		datum;

	*lacking = !exact;
	if (!exact || !eo_text_try_input(jsonb_in, text, &datum))
	{
		JsonbValue	v;

		/*
		 * A json is not converted, so that escapes of what the encoding lacks
		 * pass.
		 */
		*lacking = !exact || (GetDatabaseEncoding() != PG_UTF8 &&
							  eo_text_try_input(json_in, text, &datum));
		v.type = jbvString;
		v.val.string.val = text;
		v.val.string.len = strlen(text);
		datum = JsonbPGetDatum(JsonbValueToJsonb(&v));
	}
	return datum;
}

char *
eo_row_show_utf8(const char *utf8)
{
	bool		exact;

	return eo_text_from_utf8_or_escape(utf8, &exact);
}

int
eo_row_http_status(const EoClaim *claim)
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
eo_row_retry_after(const EoStore *store, const EoClaim *claim)
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
