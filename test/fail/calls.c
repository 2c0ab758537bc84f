/*-------------------------------------------------------------------------
 *
 * calls.c
 *	  Calls of PostgreSQL that allocate, and do more than that, fail before they begin.
 *
 * Linked into the extension beside points.c.  Whatever PostgreSQL may raise in one of these
 * calls, be it for want of memory, because a file cannot be read or because an entry of a
 * catalog is gone, the extension meets it at the same place.  tuplestore_putvalues() and
 * systable_getnext() are not among them: they are called for each of many rows, and the
 * lives of a database grow in number while its worker is started again and again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/timeline.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "executor/tuptable.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "points.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"

/* *INDENT-OFF* */
MEMORY_POINT(TupleDesc, BlessTupleDesc, (TupleDesc d), (d))
MEMORY_POINT(ErrorData *, CopyErrorData, (void), ())
MEMORY_POINT(Datum, DirectFunctionCall4Coll,
	(PGFunction f, Oid c, Datum a, Datum b, Datum d, Datum e),
	(f, c, a, b, d, e))
MEMORY_POINT(FullTransactionId, GetTopFullTransactionId, (void), ())
MEMORY_POINT(ForeignDataWrapper *, GetForeignDataWrapper, (Oid id), (id))
MEMORY_POINT(ForeignServer *, GetForeignServer, (Oid id), (id))
MEMORY_POINT(ForeignServer *, GetForeignServerExtended, (Oid id, uint16 flags), (id, flags))
MEMORY_POINT(char *, GetConfigOptionByName, (const char *n, const char **v, bool m), (n, v, m))
MEMORY_POINT(char *, GetUserNameFromId, (Oid id, bool none), (id, none))
MEMORY_POINT(Datum, HeapTupleHeaderGetDatum, (HeapTupleHeader t), (t))
MEMORY_POINT(char *, OidOutputFunctionCall, (Oid id, Datum d), (id, d))
MEMORY_POINT(Snapshot, GetLatestSnapshot, (void), ())
MEMORY_POINT(Snapshot, GetTransactionSnapshot, (void), ())
MEMORY_POINT(Snapshot, RegisterSnapshot, (Snapshot s), (s))
MEMORY_POINT(List *, RelationGetIndexList, (Relation r), (r))
MEMORY_POINT(HeapTuple, SearchSysCache1, (int cache, Datum a), (cache, a))
MEMORY_POINT(HeapTuple, SearchSysCache2, (int cache, Datum a, Datum b), (cache, a, b))
MEMORY_POINT(bool, SplitIdentifierString, (char *s, char by, List **l), (s, by, l))
MEMORY_POINT(int, extract_variadic_args,
	(FunctionCallInfo f, int start, bool c, Datum **a, Oid **t, bool **n),
	(f, start, c, a, t, n))
MEMORY_POINT(char *, format_type_be, (Oid id), (id))
MEMORY_POINT(TypeFuncClass, get_call_result_type,
	(FunctionCallInfo f, Oid *id, TupleDesc *d),
	(f, id, d))
MEMORY_POINT(char *, get_database_name, (Oid id), (id))
MEMORY_POINT(char *, get_func_name, (Oid id), (id))
MEMORY_POINT(char *, get_namespace_name, (Oid id), (id))
MEMORY_POINT(HeapTuple, heap_modify_tuple,
	(HeapTuple t, TupleDesc d, Datum *v, bool *n, bool *r),
	(t, d, v, n, r))
MEMORY_POINT(Numeric, int64_to_numeric, (int64 n), (n))
MEMORY_POINT(char *, numeric_normalize, (Numeric n), (n))
MEMORY_POINT(JsonbIteratorToken, JsonbIteratorNext,
	(JsonbIterator **i, JsonbValue *v, bool skip),
	(i, v, skip))
MEMORY_POINT(List *, lappend_oid, (List *list, Oid id), (list, id))
MEMORY_POINT(char *, pg_any_to_server, (const char *s, int len, int encoding), (s, len, encoding))
MEMORY_POINT(char *, pg_server_to_any, (const char *s, int len, int encoding), (s, len, encoding))
MEMORY_POINT(const char *, quote_identifier, (const char *s), (s))
MEMORY_POINT(List *, readTimeLineHistory, (TimeLineID id), (id))
MEMORY_POINT(void *, repalloc_huge, (void *p, Size size), (p, size))
MEMORY_POINT(SysScanDesc, systable_beginscan,
	(Relation r, Oid i, bool ok, Snapshot s, int n, ScanKey k),
	(r, i, ok, s, n, k))
MEMORY_POINT(Relation, table_open, (Oid id, LOCKMODE mode), (id, mode))
MEMORY_POINT(List *, untransformRelOptions, (Datum options), (options))

MEMORY_POINT_VOID(void, BeginInternalSubTransaction, (const char *name), (name))
MEMORY_POINT_VOID(void, CatalogTupleDelete, (Relation r, ItemPointer t), (r, t))
MEMORY_POINT_VOID(void, CatalogTupleInsert, (Relation r, HeapTuple t), (r, t))
MEMORY_POINT_VOID(void, CatalogTupleUpdate, (Relation r, ItemPointer i, HeapTuple t), (r, i, t))
MEMORY_POINT_VOID(void, CommitTransactionCommand, (void), ())
MEMORY_POINT_VOID(void, LockDatabaseObject,
	(Oid c, Oid o, uint16 s, LOCKMODE mode),
	(c, o, s, mode))
MEMORY_POINT_VOID(void, PushActiveSnapshot, (Snapshot s), (s))
#if PG_VERSION_NUM >= 160000
MEMORY_POINT_VOID(void, InitMaterializedSRF, (FunctionCallInfo f, uint32 flags), (f, flags))
#else
MEMORY_POINT_VOID(void, SetSingleFuncCall, (FunctionCallInfo f, uint32 flags), (f, flags))
#endif
MEMORY_POINT_VOID(void, StartTransactionCommand, (void), ())
MEMORY_POINT_VOID(void, appendBinaryStringInfo, (StringInfo s, const char *t, int n), (s, t, n))
MEMORY_POINT_VOID(void, deconstruct_array,
	(ArrayType *a, Oid t, int l, bool v, char g, Datum **d, bool **n, int *c),
	(a, t, l, v, g, d, n, c))
MEMORY_POINT_VOID(void, escape_json, (StringInfo s, const char *t), (s, t))
MEMORY_POINT_VOID(void, fmgr_info, (Oid id, FmgrInfo *f), (id, f))
/* *INDENT-ON* */

/* ----- with any number of arguments ----- */

extern void __wrap_appendStringInfo(StringInfo s, const char *format,...) pg_attribute_printf(2, 3);
extern char *__wrap_psprintf(const char *format,...) pg_attribute_printf(1, 2);

/* Like PostgreSQL's own. */
static void
append(StringInfo s, const char *format, va_list args)
{
	for (;;)
	{
		va_list		copy;
		int			needed;

		va_copy(copy, args);
		needed = appendStringInfoVA(s, format, copy);
		va_end(copy);
		if (needed == 0)
			return;
		enlargeStringInfo(s, needed);
	}
}

void
__wrap_appendStringInfo(StringInfo s, const char *format,...)
{
	va_list		args;

	memory_point();
	va_start(args, format);
	append(s, format, args);
	va_end(args);
}

char *
__wrap_psprintf(const char *format,...)
{
	StringInfoData s;
	va_list		args;

	memory_point();
	initStringInfo(&s);
	va_start(args, format);
	append(&s, format, args);
	va_end(args);
	return s.data;
}
