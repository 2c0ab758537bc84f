/*-------------------------------------------------------------------------
 *
 * expansion.c
 *	  The one call that several are meant to be.
 *
 * The calls that "(f('x')).*" expands
 * to are copies of one expression: they stand at the same place of the command,
 * ask for the same key, and are evaluated for the same row, which is to say before
 * the memory context of that row is reset, at different call sites.  A second row,
 * a loop, or a second f('x') in the command asks anew.
 *
 * Sorting takes the copies apart: the column that is sorted by is computed for
 * all rows before the others are.  That is not seen from here, and documented.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "nodes/primnodes.h"
#include "sql/expansion.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

/* What has been asked for, where. */
typedef struct Place
{
	Oid			function;
	int			location;		/* in the command; -1 in a view */
	uint64		asked;			/* hash of key and server */
} Place;

static struct
{
	MemoryContext row;			/* NULL: nothing is kept */
	FmgrInfo   *site;
	Place		place;
	Datum		key;
	Datum		result;
}			expansion;

static int
location_of(FunctionCallInfo fcinfo)
{
	Node	   *expr = fcinfo->flinfo->fn_expr;

	return expr != NULL && IsA(expr, FuncExpr) ? ((FuncExpr *) expr)->location : -1;
}

static uint64
hash_of(FunctionCallInfo fcinfo, int n, uint64 seed)
{
	text	   *t;

	if (fcinfo->args[n].isnull)
		return seed;
	t = DatumGetTextPP(fcinfo->args[n].value);
	return hash_bytes_extended((unsigned char *) VARDATA_ANY(t), (int) VARSIZE_ANY_EXHDR(t), seed + 1);
}

static void
find_place(FunctionCallInfo fcinfo, int key, int server, Place *place)
{
	/* It is hashed as it lies. */
	memset(place, 0, sizeof(*place));
	place->function = fcinfo->flinfo->fn_oid;
	place->location = location_of(fcinfo);
	place->asked = hash_of(fcinfo, key, hash_of(fcinfo, server, 0));
}

bool
eo_expansion_find(FunctionCallInfo fcinfo, int key, int server, Datum *result)
{
	Place		place;

	if (expansion.row != CurrentMemoryContext || expansion.site == fcinfo->flinfo ||
		fcinfo->args[key].isnull)
		return false;
	find_place(fcinfo, key, server, &place);
	if (memcmp(&place, &expansion.place, sizeof(place)) != 0 ||
		!DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, expansion.key,
											  fcinfo->args[key].value)))
		return false;
	*result = expansion.result;
	return true;
}

static void
forget_row(void *row)
{
	if (expansion.row == row)
		expansion.row = NULL;
}

Datum
eo_expansion_keep(FunctionCallInfo fcinfo, int key, int server, Datum result)
{
	MemoryContextCallback *callback;

	/* There it would be kept for too long. */
	if (CurrentMemoryContext == TopTransactionContext || fcinfo->args[key].isnull)
		return result;
	if (expansion.row != CurrentMemoryContext)
	{
		callback = palloc0(sizeof(MemoryContextCallback));
		callback->func = forget_row;
		callback->arg = CurrentMemoryContext;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	}
	expansion.row = NULL;
	expansion.site = fcinfo->flinfo;
	find_place(fcinfo, key, server, &expansion.place);
	expansion.key = datumCopy(fcinfo->args[key].value, false, -1);
	expansion.result = result;
	expansion.row = CurrentMemoryContext;
	return result;
}
