/*-------------------------------------------------------------------------
 *
 * sql_rows.c
 *	  The rows that SQL functions return.
 *
 * And the one call that several are meant to be.  Those that "(f('x')).*" expands
 * to are copies of one expression: they stand at the same place of the command,
 * have the same arguments, and are evaluated for the same row, which is to say
 * before the memory context of that row is reset, at different call sites.  A
 * second row, a loop, or a second f('x') in the command asks anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "funcapi.h"
#include "gate.h"
#include "nodes/primnodes.h"
#include "sql_args.h"
#include "sql_rows.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* More than any of our functions has. */
#define MAX_ARGUMENTS 12

typedef struct Argument
{
	NullableDatum d;
	int16		typlen;
	bool		typbyval;
} Argument;

static struct
{
	MemoryContext row;			/* NULL: nothing is kept */
	FmgrInfo   *site;
	Oid			function;
	int			location;		/* in the command; -1 in a view */
	Argument	arguments[MAX_ARGUMENTS];
	Datum		result;
}			expansion;

TupleDesc
eo_row_type(FunctionCallInfo fcinfo)
{
	TupleDesc	desc = fcinfo->flinfo->fn_extra;
	MemoryContext old;

	if (desc != NULL)
		return desc;
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("function must return a row type")));
	desc = BlessTupleDesc(desc);
	fcinfo->flinfo->fn_extra = desc;
	MemoryContextSwitchTo(old);
	return desc;
}

void
eo_row_begin(EoRow *row, TupleDesc desc)
{
	Assert(desc->natts <= EO_MAX_COLUMNS);
	row->desc = desc;
	row->n = 0;
}

void
eo_row_put_enum(EoRow *row, const char *label)
{
	EO_PUT(row, label == NULL,
		   ObjectIdGetDatum(GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid,
											ObjectIdGetDatum(TupleDescAttr(row->desc, row->n)->atttypid),
											CStringGetDatum(label))));
}

void
eo_row_put_instant(EoRow *row, int64 ms)
{
	EO_PUT(row, ms == 0, TimestampTzGetDatum(eo_timestamp_of_ms(ms)));
}

void
eo_row_put_text(EoRow *row, const char *s)
{
	EO_PUT(row, s == NULL, CStringGetTextDatum(s));
}

void
eo_row_put_json(EoRow *row, const char *utf8)
{
	EO_PUT(row, utf8 == NULL, eo_json_datum(utf8));
}

HeapTuple
eo_row_tuple(EoRow *row)
{
	Assert(row->n == row->desc->natts);
	return heap_form_tuple(row->desc, row->values, row->nulls);
}

/* ----- one call for several ----- */

static int
location_of(FunctionCallInfo fcinfo)
{
	Node	   *expr = fcinfo->flinfo->fn_expr;

	return expr != NULL && IsA(expr, FuncExpr) ? ((FuncExpr *) expr)->location : -1;
}

static bool
same_arguments(FunctionCallInfo fcinfo)
{
	for (int i = 0; i < fcinfo->nargs; i++)
	{
		const Argument *kept = &expansion.arguments[i];

		if (fcinfo->args[i].isnull != kept->d.isnull)
			return false;
		if (!kept->d.isnull && !datumIsEqual(fcinfo->args[i].value, kept->d.value,
											 kept->typbyval, kept->typlen))
			return false;
	}
	return true;
}

bool
eo_expansion_find(FunctionCallInfo fcinfo, Datum *result)
{
	if (expansion.row != CurrentMemoryContext || expansion.site == fcinfo->flinfo ||
		expansion.function != fcinfo->flinfo->fn_oid ||
		expansion.location != location_of(fcinfo) || !same_arguments(fcinfo))
		return false;
	*result = expansion.result;
	return true;
}

static void
forget(void *arg)
{
	(void) arg;
	expansion.row = NULL;
}

Datum
eo_expansion_keep(FunctionCallInfo fcinfo, Datum result)
{
	MemoryContextCallback *callback;

	/* In a context that is not reset for each row there is no telling. */
	if (CurrentMemoryContext == fcinfo->flinfo->fn_mcxt ||
		CurrentMemoryContext == TopTransactionContext || fcinfo->nargs > MAX_ARGUMENTS)
		return result;
	if (expansion.row != CurrentMemoryContext)
	{
		callback = palloc0(sizeof(MemoryContextCallback));
		callback->func = forget;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	}
	expansion.row = NULL;
	expansion.site = fcinfo->flinfo;
	expansion.function = fcinfo->flinfo->fn_oid;
	expansion.location = location_of(fcinfo);
	for (int i = 0; i < fcinfo->nargs; i++)
	{
		Argument   *kept = &expansion.arguments[i];

		get_typlenbyval(get_fn_expr_argtype(fcinfo->flinfo, i), &kept->typlen, &kept->typbyval);
		kept->d.isnull = fcinfo->args[i].isnull;
		if (!kept->d.isnull)
			kept->d.value = datumCopy(fcinfo->args[i].value, kept->typbyval, kept->typlen);
	}
	expansion.result = result;
	expansion.row = CurrentMemoryContext;
	return result;
}
