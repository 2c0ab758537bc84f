/*-------------------------------------------------------------------------
 *
 * composite_expansion.c
 *	  One answer for all columns of "(f('x')).*".
 *
 * The calls to which PostgreSQL expands it are copies of one expression.  They
 * have the same function and location in the statement, ask for the same key as the
 * same role, and are evaluated for the same row, that is before the memory context of that row is
 * reset.  Each copy has an FmgrInfo of its own.  A call after that reset is a new
 * one (a second row), and so is a call with the FmgrInfo that asked before (a
 * loop) or at another location (a second f('x') in the statement).
 *
 * Sorting breaks this: the column that is sorted by is computed for all rows
 * before the other columns are.  That cannot be noticed here; it is documented.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "sql/composite_expansion.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

/* A call as all copies of its expression have it; compared with memcmp(). */
typedef struct CallSite
{
	Oid			function;
	Oid			role;			/* the answer has a token, which is for that
								 * role */
	int			location;		/* in the statement; -1 in a view */
	uint64		arguments;		/* hash of key and server */
} CallSite;

/* The latest call that was answered. */
static struct
{
	MemoryContext row;			/* it was evaluated in; NULL: nothing is kept */
	FmgrInfo   *copy;			/* of the expression, that asked */
	CallSite	site;
	Datum		key;
	Datum		result;
}			expansion;

static int
location_of(FunctionCallInfo fcinfo)
{
	Node	   *expr = fcinfo->flinfo->fn_expr;

	return expr != NULL && IsA(expr, FuncExpr) ? ((FuncExpr *) expr)->location : -1;
}

/* The hash of text argument n, mixed into seed; seed itself for SQL NULL. */
static uint64
hash_of(FunctionCallInfo fcinfo, int n, uint64 seed)
{
	text	   *t;

	if (fcinfo->args[n].isnull)
		return seed;
	t = DatumGetTextPP(fcinfo->args[n].value);
	return hash_bytes_extended((unsigned char *) VARDATA_ANY(t), (int) VARSIZE_ANY_EXHDR(t),
							   seed + 1);
}

static void
find_site(FunctionCallInfo fcinfo, int key, int server, CallSite *site)
{
	/* memcmp() compares the padding, too. */
	memset(site, 0, sizeof(*site));
	site->function = fcinfo->flinfo->fn_oid;
	site->role = GetUserId();
	site->location = location_of(fcinfo);
	site->arguments = hash_of(fcinfo, key, hash_of(fcinfo, server, 0));
}

bool
eo_composite_expansion_find(FunctionCallInfo fcinfo, int key, int server, Datum *result)
{
	CallSite	site;

	if (expansion.row != CurrentMemoryContext || expansion.copy == fcinfo->flinfo ||
		fcinfo->args[key].isnull)
		return false;
	find_site(fcinfo, key, server, &site);
	if (memcmp(&site, &expansion.site, sizeof(site)) != 0 ||
		!DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, expansion.key,
											  fcinfo->args[key].value)))
		return false;
	*result = expansion.result;
	return true;
}

/* The memory of a row, and with it the kept result, is about to be freed. */
static void
forget_row(void *row)
{
	if (expansion.row == row)
		expansion.row = NULL;
}

Datum
eo_composite_expansion_keep(FunctionCallInfo fcinfo, int key, int server, Datum result)
{
	MemoryContextCallback *callback;

	/* That context is not reset between rows. */
	if (CurrentMemoryContext == TopTransactionContext || fcinfo->args[key].isnull)
		return result;
	if (expansion.row != CurrentMemoryContext)
	{
		callback = palloc0(sizeof(MemoryContextCallback));
		callback->func = forget_row;
		callback->arg = CurrentMemoryContext;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	}
	/* The entry is not valid until it is complete: copying the key may raise. */
	expansion.row = NULL;
	expansion.copy = fcinfo->flinfo;
	find_site(fcinfo, key, server, &expansion.site);
	expansion.key = datumCopy(fcinfo->args[key].value, false, -1);
	expansion.result = result;
	expansion.row = CurrentMemoryContext;
	return result;
}
