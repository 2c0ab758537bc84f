/*-------------------------------------------------------------------------
 *
 * outbox.c
 *	  The local tables, and the only access to them.
 *
 * A row of exactonce_outbox says that the transaction which inserted it completes
 * a key.  It becomes visible when that transaction commits; that is the decision.
 * It is removed after DynamoDB has confirmed COMPLETED, or by an operator, and at
 * no other time, so that the absence of a row means something (settle.c).
 *
 * The outbox is read and written by heap functions, not by SQL: the privileges of
 * the caller do not matter, and no code of a user runs in between.  An outbox that
 * has triggers, rules or row security, or that a crash would empty, is refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "cluster/databases.h"
#include "cluster/target.h"
#include "commands/extension.h"
#include "commit/outbox.h"
#include "compat.h"
#include "dynamodb/hex.h"
#include "dynamodb/token.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "server/error.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

/* Columns of exactonce_outbox, as the install script makes them. */
typedef enum OutboxColumn
{
	C_ORIGIN = 1,
	C_SERVER,
	C_PK,
	C_TOKEN,
	C_ROLE,
	C_URL,
	C_PLAIN_HTTP,
	C_REGION,
	C_TABLE,
	C_LAYOUT,
	C_RETENTION,
	C_XID,
	C_CREATED,
	OUTBOX_COLUMNS = C_CREATED
} OutboxColumn;

/* The schema of the extension, and exactonce_outbox; InvalidOid: look them up. */
static Oid	namespace_id = InvalidOid;
static Oid	outbox_id = InvalidOid;

/* A scan over committed rows. */
typedef struct OutboxScan
{
	Relation	rel;
	LOCKMODE	mode;
	Snapshot	snapshot;
	ScanKeyData keys[2];
	SysScanDesc scan;
} OutboxScan;

static void find_tables(void);
static void forget_tables(Datum arg, Oid relid);
static Relation open_outbox(LOCKMODE mode);
static void check_outbox(Relation rel);
static void begin_scan(OutboxScan *s, LOCKMODE mode, const uint8 *origin, const char *pk);
static HeapTuple next_row(OutboxScan *s);
static void end_scan(OutboxScan *s);
static bool token_is(Relation rel, HeapTuple tuple, const char *token);
static void read_row(Relation rel, HeapTuple tuple, EoOutboxRow *row);
static void copy_column(Relation rel, HeapTuple tuple, OutboxColumn column, char *out, size_t size);

/* ----- the tables ----- */

bool
eo_outbox_exists(void)
{
	outbox_id = InvalidOid;
	find_tables();
	return OidIsValid(outbox_id);
}

Oid
eo_outbox_id(void)
{
	if (!OidIsValid(outbox_id))
		find_tables();
	return outbox_id;
}

bool
eo_outbox_is_known(void)
{
	return OidIsValid(outbox_id);
}

bool
eo_outbox_is_part(Oid relid)
{
	return OidIsValid(eo_outbox_id()) &&
		(relid == outbox_id || relid == get_relname_relid("exactonce_origin", namespace_id));
}

/*
 * Find the tables in the schema of the extension, which ALTER EXTENSION may change.
 */
static void
find_tables(void)
{
	static bool registered = false;
	Oid			extension = get_extension_oid("exactonce", true);
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(forget_tables, (Datum) 0);
		registered = true;
	}
	if (!OidIsValid(extension))
		return;
	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		namespace_id = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
		outbox_id = get_relname_relid("exactonce_outbox", namespace_id);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* An invalidation: look the tables up again when they are used. */
static void
forget_tables(Datum arg, Oid relid)
{
	(void) arg;
	if (relid == InvalidOid || relid == outbox_id)
		outbox_id = InvalidOid;
}

static Relation
open_outbox(LOCKMODE mode)
{
	(void) eo_outbox_id();
	if (!OidIsValid(outbox_id))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table exactonce_outbox does not exist"),
				 errhint("It belongs to the extension: CREATE EXTENSION exactonce.")));
	return table_open(outbox_id, mode);
}

/*
 * Refuse an outbox whose rows the code of others may change, or that loses rows in
 * a crash.  A row of it would be no decision, and the lack of one would say nothing.
 */
static void
check_outbox(Relation rel)
{
	const char *what = NULL;

	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		what = "It is unlogged: a crash would empty it.";
	else if (rel->rd_rel->relhastriggers && rel->trigdesc != NULL)
		what = "It has triggers.";
	else if (rel->rd_rel->relhasrules)
		what = "It has rules.";
	else if (rel->rd_rel->relrowsecurity)
		what = "It has row security.";
	else if (RelationGetNumberOfAttributes(rel) != OUTBOX_COLUMNS)
		what = "It has other columns than the extension made.";
	if (what != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table exactonce_outbox was altered and cannot be relied on"),
				 errdetail("%s", what),
				 errhint("Undo that. The table decides which keys are completed, and nothing may come between.")));
}

/* ----- rows ----- */

void
eo_outbox_add(const EoOutboxRow *row, const char *key, const char *server, bool once,
			  const EoGuard *guard)
{
	Relation	rel = open_outbox(RowExclusiveLock);
	Datum		values[OUTBOX_COLUMNS];
	bool		nulls[OUTBOX_COLUMNS] = {false};
	HeapTuple	tuple;

	check_outbox(rel);
	values[C_ORIGIN - 1] = PointerGetDatum(row->origin);
	values[C_SERVER - 1] = ObjectIdGetDatum(row->target.serverid);
	values[C_PK - 1] = CStringGetTextDatum(row->pk);
	values[C_TOKEN - 1] = DirectFunctionCall1(uuid_in, CStringGetDatum(row->token));
	values[C_ROLE - 1] = ObjectIdGetDatum(row->target.userid);
	values[C_URL - 1] = CStringGetTextDatum(row->target.url);
	values[C_PLAIN_HTTP - 1] = BoolGetDatum(row->target.plain_http);
	values[C_REGION - 1] = CStringGetTextDatum(row->target.region);
	values[C_TABLE - 1] = CStringGetTextDatum(row->target.table);
	values[C_LAYOUT - 1] = CStringGetTextDatum(row->target.layout);
	values[C_RETENTION - 1] = Int64GetDatum(row->retention_s);
	values[C_XID - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	values[C_CREATED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);

	PG_TRY();
	{
		CatalogTupleInsert(rel, tuple);
	}
	PG_CATCH();
	{
		/*
		 * The primary key is a second guard: within one database PostgreSQL
		 * itself refuses to complete a key twice, whatever DynamoDB says.
		 */
		if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
			PG_RE_THROW();
		FlushErrorState();
		if (once)
			eo_error_raise_duplicate(guard, key, server,
									 "A transaction of this database that completed it has committed.");
		ereport(ERROR,
				(errcode(ERRCODE_EO_CLAIM_LOST),
				 errmsg("key \"%s\" on server \"%s\" is already completed", key, server),
				 errdetail("A transaction of this database that completed it has committed."),
				 errhint("idem_get() shows its result.")));
	}
	PG_END_TRY();
	heap_freetuple(tuple);
	table_close(rel, NoLock);
}

bool
eo_outbox_find(const uint8 *origin, const char *pk, const char *token, int64 *retention_s)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		found = false;

	begin_scan(&scan, AccessShareLock, origin, pk);
	check_outbox(scan.rel);
	while (!found && HeapTupleIsValid(tuple = next_row(&scan)))
	{
		bool		isnull;

		if (!token_is(scan.rel, tuple, token))
			continue;
		found = true;
		*retention_s = DatumGetInt64(heap_getattr(tuple, C_RETENTION, RelationGetDescr(scan.rel),
												  &isnull));
	}
	end_scan(&scan);
	return found;
}

bool
eo_outbox_visit(const uint8 *origin, bool (*visit) (const EoOutboxRow *row))
{
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		go_on = true;

	begin_scan(&scan, AccessShareLock, origin, NULL);
	check_outbox(scan.rel);
	while (go_on && HeapTupleIsValid(tuple = next_row(&scan)))
	{
		EoOutboxRow row;

		read_row(scan.rel, tuple, &row);
		go_on = visit(&row);
		pfree(row.pk);
	}
	end_scan(&scan);
	return go_on;
}

int
eo_outbox_tokens(const uint8 *origin, const char *pk, const EoTarget *target,
				 char (*tokens)[EO_TOKEN_LEN + 1], int max)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	int			n = 0;

	begin_scan(&scan, AccessShareLock, origin, pk);
	while (n < max && HeapTupleIsValid(tuple = next_row(&scan)))
	{
		EoOutboxRow row;

		read_row(scan.rel, tuple, &row);
		if (row.target.serverid == target->serverid && eo_target_same_table(&row.target, target))
			strlcpy(tokens[n++], row.token, sizeof(tokens[0]));
		pfree(row.pk);
	}
	end_scan(&scan);
	return n;
}

int
eo_outbox_remove(const uint8 *origin, const char *pk, const char *token)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	int			n = 0;

	begin_scan(&scan, RowExclusiveLock, origin, pk);
	while (HeapTupleIsValid(tuple = next_row(&scan)))
	{
		if (!token_is(scan.rel, tuple, token))
			continue;
		CatalogTupleDelete(scan.rel, &tuple->t_self);
		n++;
	}
	end_scan(&scan);
	return n;
}

bool
eo_outbox_any(Oid serverid)
{
	EoDatabaseInfo db;
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		any = false;

	if (!eo_outbox_exists())
		return false;

	/*
	 * A copied database has rows of the other identity, which are not ours.
	 * Uncommitted rows of our own transaction count, so next_row() is not
	 * used.
	 */
	(void) eo_database_info(MyDatabaseId, &db);
	begin_scan(&scan, AccessShareLock, db.incarnation > 0 ? db.origin : NULL, NULL);
	while (!any && HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
	{
		bool		isnull;
		Datum		server = heap_getattr(tuple, C_SERVER, RelationGetDescr(scan.rel), &isnull);

		any = !OidIsValid(serverid) || DatumGetObjectId(server) == serverid;
	}
	end_scan(&scan);
	return any;
}

/* ----- scans ----- */

/* Scan the rows of an origin (NULL: of all), or of one of its keys (pk not NULL). */
static void
begin_scan(OutboxScan *s, LOCKMODE mode, const uint8 *origin, const char *pk)
{
	int			nkeys = 0;

	s->rel = open_outbox(mode);
	s->mode = mode;
	s->snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (origin != NULL)
		ScanKeyInit(&s->keys[nkeys++], C_ORIGIN, BTEqualStrategyNumber, F_UUID_EQ,
					PointerGetDatum(origin));
	if (pk != NULL)
	{
		ScanKeyInit(&s->keys[nkeys], C_PK, BTEqualStrategyNumber, F_TEXTEQ,
					CStringGetTextDatum(pk));
		s->keys[nkeys++].sk_collation = C_COLLATION_OID;
	}
	(void) RelationGetIndexList(s->rel);	/* sets rd_pkindex */
	s->scan = systable_beginscan(s->rel, s->rel->rd_pkindex, OidIsValid(s->rel->rd_pkindex),
								 s->snapshot, nkeys, s->keys);
}

/*
 * The next committed row; NULL: there is none.  The snapshot shows rows of our own
 * transaction as well, which are no decision yet.
 */
static HeapTuple
next_row(OutboxScan *s)
{
	HeapTuple	tuple;

	do
		tuple = systable_getnext(s->scan);
	while (HeapTupleIsValid(tuple) &&
		   TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)));
	return tuple;
}

static void
end_scan(OutboxScan *s)
{
	systable_endscan(s->scan);
	UnregisterSnapshot(s->snapshot);
	/* A lock for writing is kept until the transaction ends. */
	table_close(s->rel, s->mode == RowExclusiveLock ? NoLock : s->mode);
}

static bool
token_is(Relation rel, HeapTuple tuple, const char *token)
{
	bool		isnull;
	Datum		datum = heap_getattr(tuple, C_TOKEN, RelationGetDescr(rel), &isnull);
	char		text[EO_TOKEN_LEN + 1];

	if (isnull)
		return false;
	eo_hex_put_uuid(DatumGetUUIDP(datum)->data, text);
	return strcmp(text, token) == 0;
}

static void
read_row(Relation rel, HeapTuple tuple, EoOutboxRow *row)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		isnull;

	memset(row, 0, sizeof(*row));
	memcpy(row->origin, DatumGetUUIDP(heap_getattr(tuple, C_ORIGIN, desc, &isnull))->data, 16);
	eo_hex_put_uuid(DatumGetUUIDP(heap_getattr(tuple, C_TOKEN, desc, &isnull))->data, row->token);
	row->target.dboid = MyDatabaseId;
	row->target.serverid = DatumGetObjectId(heap_getattr(tuple, C_SERVER, desc, &isnull));
	row->target.userid = DatumGetObjectId(heap_getattr(tuple, C_ROLE, desc, &isnull));
	row->target.plain_http = DatumGetBool(heap_getattr(tuple, C_PLAIN_HTTP, desc, &isnull));
	row->retention_s = DatumGetInt64(heap_getattr(tuple, C_RETENTION, desc, &isnull));
	row->pk = TextDatumGetCString(heap_getattr(tuple, C_PK, desc, &isnull));
	copy_column(rel, tuple, C_URL, row->target.url, sizeof(row->target.url));
	copy_column(rel, tuple, C_REGION, row->target.region, sizeof(row->target.region));
	copy_column(rel, tuple, C_TABLE, row->target.table, sizeof(row->target.table));
	copy_column(rel, tuple, C_LAYOUT, row->target.layout, sizeof(row->target.layout));
}

/* Copy a column of type text into a buffer of that size. */
static void
copy_column(Relation rel, HeapTuple tuple, OutboxColumn column, char *out, size_t size)
{
	bool		isnull;
	Datum		datum = heap_getattr(tuple, column, RelationGetDescr(rel), &isnull);
	char	   *value = isnull ? NULL : TextDatumGetCString(datum);

	strlcpy(out, value != NULL ? value : "", size);
	if (value != NULL)
		pfree(value);
}

/* ----- identity ----- */

/*
 * One statement does all.  It adds 1 to the incarnation if that is asked for, if
 * there was none yet, and in a copy of another database (another dboid).  The copy
 * gets a new identity, too.  The rows in its outbox belong to the identity of the
 * original, and are left alone.
 */
void
eo_outbox_enter_origin(bool new_incarnation, uint8 *origin, int64 *incarnation, uint64 *horizon)
{
	char	   *sql;
	Oid			types[] = {BOOLOID, OIDOID};
	Datum		values[] = {BoolGetDatum(new_incarnation), ObjectIdGetDatum(MyDatabaseId)};
	bool		isnull;
	HeapTuple	tuple;
	TupleDesc	desc;

	if (SPI_connect() != SPI_OK_CONNECT)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not connect to the server programming interface")));
	sql = psprintf("UPDATE %s.exactonce_origin SET"
				   " incarnation = incarnation OPERATOR(pg_catalog.+)"
				   " CASE WHEN $1 OR incarnation OPERATOR(pg_catalog.=) 0"
				   " OR dboid OPERATOR(pg_catalog.<>) $2 THEN 1 ELSE 0 END,"
				   " origin = CASE WHEN dboid OPERATOR(pg_catalog.=) $2 THEN origin"
				   " ELSE pg_catalog.gen_random_uuid() END,"
				   " since = CASE WHEN dboid OPERATOR(pg_catalog.=) $2 THEN since"
				   " ELSE pg_catalog.pg_current_xact_id() END,"
				   " dboid = $2"
				   " RETURNING origin, incarnation, since",
				   quote_identifier(get_namespace_name(namespace_id)));
	if (SPI_execute_with_args(sql, 2, types, values, NULL, false, 0) != SPI_OK_UPDATE_RETURNING || SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table exactonce_origin does not have exactly one row"),
				 errhint("It is this database's identity. Create the extension anew, or restore the table.")));
	tuple = SPI_tuptable->vals[0];
	desc = SPI_tuptable->tupdesc;
	memcpy(origin, DatumGetUUIDP(SPI_getbinval(tuple, desc, 1, &isnull))->data, 16);
	*incarnation = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &isnull));
	*horizon = U64FromFullTransactionId(DatumGetFullTransactionId(SPI_getbinval(tuple, desc, 3,
																				&isnull)));
	SPI_finish();
}
