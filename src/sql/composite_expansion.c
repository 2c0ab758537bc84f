/*-------------------------------------------------------------------------
 *
 * composite_expansion.c
 *	  One answer for all columns of "(f('x')).*".
 *
 * The calls to which PostgreSQL expands it are copies of one expression.  They
 * have the same function and locations in the statement, ask for the same key as the
 * same role, and are evaluated for the same row, that is before the memory context of that row is
 * reset.  Each copy has an FmgrInfo of its own.  A call after that reset is a new
 * one (a second row), and so is a call with the FmgrInfo that asked before (a
 * loop) or at another location (a second f('x') in the statement).  The locations of its
 * arguments count, too: if PostgreSQL puts the body of an SQL function in the place of its calls,
 * these have nothing else of their own.
 *
 * Sorting breaks this: the column that is sorted by is computed for all rows
 * before the other columns are.  That cannot be noticed here; it is documented.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "server/text.h"
#include "sql/args.h"
#include "sql/composite_expansion.h"
#include "sql/rows.h"
#include "utils/memutils.h"

/* The latest call that was answered, as all copies of its expression have it. */
static struct
{
	MemoryContext row;			/* it was evaluated in; NULL: nothing is kept */
	FmgrInfo   *copy;			/* of the expression, that asked */
	Oid			function;
	Oid			role;			/* the answer has a token, which is for that
								 * role */
	uint32		locations;		/* in the statement; -1 in a view */
	char	   *key;
	char	   *server;
	Datum		result;
}			expansion;

/* Add the locations of a node and of those below it to a hash. */
static bool
add_locations(Node * node, void *hash)
{
	if (node == NULL)
		return false;
	*(uint32 *) hash = hash_combine(*(uint32 *) hash, (uint32) exprLocation(node));
	return expression_tree_walker(node, add_locations, hash);
}

static uint32
locations_of(FunctionCallInfo fcinfo)
{
	EoCallSite *site = eo_row_call_site(fcinfo);

	if (!site->has_locations)
	{
		site->locations = 0;
		(void) add_locations(fcinfo->flinfo->fn_expr, &site->locations);
		site->has_locations = true;
	}
	return site->locations;
}

bool
eo_composite_expansion_find(FunctionCallInfo fcinfo, int key, int server, Datum *result)
{
	if (expansion.row != CurrentMemoryContext || expansion.copy == fcinfo->flinfo ||
		fcinfo->args[key].isnull || expansion.function != fcinfo->flinfo->fn_oid ||
		expansion.role != GetUserId() || expansion.locations != locations_of(fcinfo) ||
		!eo_text_is_same(expansion.key, eo_arg_text(fcinfo, key)) ||
		!eo_text_is_same(expansion.server, eo_arg_text(fcinfo, server)))
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
	expansion.function = fcinfo->flinfo->fn_oid;
	expansion.role = GetUserId();
	expansion.locations = locations_of(fcinfo);
	expansion.key = eo_arg_text(fcinfo, key);
	expansion.server = eo_arg_text(fcinfo, server);
	expansion.result = result;
	expansion.row = CurrentMemoryContext;
	return result;
}
