/*-------------------------------------------------------------------------
 *
 * outbox_scan.c
 *	  Scans of the outbox, and how a row is read.
 *
 * A scan finds rows of this database with the latest snapshot, whatever that of the
 * transaction is.  What is done with the rows is in outbox.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_index.h"
#include "ledger/internal.h"
#include "ledger/internal_form.h"
#include "ledger/outbox_row.h"
#include "ledger/outbox_scan.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "records/token.h"
#include "server/options.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"
#include "wire/hex.h"

/* The server, role, tenant and owner of the last row of a scan: many rows have the same. */
static EoTarget last;

static void begin(EoOutboxScan *s, Oid indexid, int nkeys);
static void set_database(EoOutboxScan *s, uint64 system, Oid dboid);
static void copy_text(Datum value, char *out, size_t size);

/* ----- scans ----- */

void
eo_outbox_scan_begin(EoOutboxScan *s, LOCKMODE mode, const uint8 *digest)
{
	eo_outbox_scan_begin_of(s, mode, GetSystemIdentifier(), MyDatabaseId, digest);
}

void
eo_outbox_scan_begin_undecided(EoOutboxScan *s, const uint8 *digest)
{
	eo_outbox_scan_open(s, AccessShareLock, EO_LOOK_UNDECIDED);
	eo_outbox_scan_find(s, GetSystemIdentifier(), MyDatabaseId, digest);
}

void
eo_outbox_scan_begin_of(EoOutboxScan *s, LOCKMODE mode, uint64 system, Oid dboid,
						const uint8 *digest)
{
	eo_outbox_scan_open(s, mode, EO_LOOK_COMMITTED);
	eo_outbox_scan_find(s, system, dboid, digest);
}

/* Is it the index of the rows of this database by a column? */
static bool
is_index_by(Oid indexid, EoOutboxColumn column)
{
	const AttrNumber columns[] = {EO_OUTBOX_SYSTEM, EO_OUTBOX_DATABASE, column};
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	bool		is;

	if (!HeapTupleIsValid(tuple))
		return false;
	is = ((Form_pg_index) GETSTRUCT(tuple))->indisvalid &&
		((Form_pg_index) GETSTRUCT(tuple))->indnkeyatts == lengthof(columns) &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
	for (int i = 0; is && i < (int) lengthof(columns); i++)
		is = ((Form_pg_index) GETSTRUCT(tuple))->indkey.values[i] == columns[i];
	ReleaseSysCache(tuple);
	return is;
}

/* Begin a scan by the three keys, of which the last is that of a column. */
static void
begin_by(EoOutboxScan *s, EoOutboxColumn column)
{
	Oid			indexid = InvalidOid;
	List	   *indexes = RelationGetIndexList(s->rel);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		if (is_index_by(lfirst_oid(cell), column))
			indexid = lfirst_oid(cell);
	}
	list_free(indexes);
	begin(s, indexid, 3);
}

/* Begin a scan by the keys that are set.  Without the index the table is scanned. */
static void
begin(EoOutboxScan *s, Oid indexid, int nkeys)
{
	s->scan = systable_beginscan(s->rel, indexid, OidIsValid(indexid),
								 s->look == EO_LOOK_COMMITTED ? s->snapshot :
								 s->look == EO_LOOK_UNDECIDED ? &s->dirty : SnapshotAny,
								 nkeys, s->keys);
}

void
eo_outbox_scan_begin_claim(EoOutboxScan *s, const uint8 *token, EoOutboxLook look)
{
	eo_outbox_scan_open(s, AccessShareLock, look);
	memcpy(s->token.data, token, sizeof(s->token.data));
	ScanKeyInit(&s->keys[2], EO_OUTBOX_TOKEN, BTEqualStrategyNumber, F_UUID_EQ,
				UUIDPGetDatum(&s->token));
	begin_by(s, EO_OUTBOX_TOKEN);
}

void
eo_outbox_scan_begin_pk(EoOutboxScan *s, const char *pk, EoOutboxLook look)
{
	eo_outbox_scan_open(s, AccessShareLock, look);
	/* Its collation is "C", as that of the column. */
	ScanKeyInit(&s->keys[2], EO_OUTBOX_PK, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(pk));
	begin_by(s, EO_OUTBOX_PK);
}

void
eo_outbox_scan_begin_table(EoOutboxScan *s, BlockNumber from)
{
	BlockNumber nblocks;

	eo_outbox_scan_open(s, AccessShareLock, EO_LOOK_COMMITTED);
	begin(s, InvalidOid, 2);
	nblocks = ((HeapScanDesc) s->scan->scan)->rs_nblocks;
	if (from < nblocks)
		heap_setscanlimits(s->scan->scan, from, nblocks - from);
	else
		heap_setscanlimits(s->scan->scan, 0, 0);
}

void
eo_outbox_scan_open(EoOutboxScan *s, LOCKMODE mode, EoOutboxLook look)
{
	s->rel = eo_internal_open(EO_INTERNAL_OUTBOX, mode);
	s->desc = eo_internal_form_desc(EO_INTERNAL_OUTBOX);
	s->mode = mode;
	s->look = look;
	s->snapshot = RegisterSnapshot(GetLatestSnapshot());
	InitDirtySnapshot(s->dirty);
	(void) RelationGetIndexList(s->rel);	/* sets rd_pkindex */
	last.serverid = last.userid = last.tenant = last.owner = InvalidOid;
	set_database(s, GetSystemIdentifier(), MyDatabaseId);
}

static void
set_database(EoOutboxScan *s, uint64 system, Oid dboid)
{
	ScanKeyInit(&s->keys[0], EO_OUTBOX_SYSTEM, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum((int64) system));
	ScanKeyInit(&s->keys[1], EO_OUTBOX_DATABASE, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(dboid));
}

void
eo_outbox_scan_find(EoOutboxScan *s, uint64 system, Oid dboid, const uint8 *digest)
{
	set_database(s, system, dboid);
	if (digest != NULL)
		ScanKeyInit(&s->keys[2], EO_OUTBOX_DIGEST, BTEqualStrategyNumber, F_BYTEAEQ,
					eo_outbox_scan_digest(&s->digest, digest));
	begin(s, s->rel->rd_pkindex, digest != NULL ? 3 : 2);
}

/* The snapshot also shows the rows of our own transaction, which are no decisions yet. */
HeapTuple
eo_outbox_scan_next(EoOutboxScan *s)
{
	HeapTuple	tuple;

	do
		tuple = systable_getnext(s->scan);
	while (HeapTupleIsValid(tuple) &&
		   (s->look == EO_LOOK_UNDECIDED ? !TransactionIdIsValid(s->dirty.xmin) :
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data))));
	return tuple;
}

HeapTuple
eo_outbox_scan_claim(EoOutboxScan *s, const char *token)
{
	HeapTuple	tuple;
	char		its[EO_TOKEN_LEN + 1];

	while (HeapTupleIsValid(tuple = eo_outbox_scan_next(s)))
	{
		eo_hex_put_uuid(DatumGetUUIDP(eo_outbox_scan_column(s, tuple, EO_OUTBOX_TOKEN))->data, its);
		if (strcmp(its, token) == 0)
			break;
	}
	return tuple;
}

void
eo_outbox_scan_end(EoOutboxScan *s)
{
	systable_endscan(s->scan);
	eo_outbox_scan_close(s);
}

void
eo_outbox_scan_close(EoOutboxScan *s)
{
	UnregisterSnapshot(s->snapshot);
	/* A lock for writing is kept until the transaction ends. */
	table_close(s->rel, s->mode == RowExclusiveLock ? NoLock : s->mode);
}

/* ----- columns ----- */

void
eo_outbox_scan_read(const EoOutboxScan *s, HeapTuple tuple, EoOutboxRow *row)
{
	Datum		values[EO_OUTBOX_COLUMNS];
	bool		nulls[EO_OUTBOX_COLUMNS];
	const bytea *digest;

	heap_deform_tuple(tuple, s->desc, values, nulls);

	/* Targets are compared with memcmp(): clear the padding. */
	memset(row, 0, sizeof(*row));
	digest = DatumGetByteaPP(values[EO_OUTBOX_DIGEST - 1]);
	memcpy(row->digest, VARDATA_ANY(digest), Min(VARSIZE_ANY_EXHDR(digest), EO_DIGEST_LEN));
	eo_hex_put_uuid(DatumGetUUIDP(values[EO_OUTBOX_TOKEN - 1])->data, row->token);
	row->block = ItemPointerGetBlockNumber(&tuple->t_self);
	row->target.dboid = MyDatabaseId;
	row->target.serverid = DatumGetObjectId(values[EO_OUTBOX_SERVER - 1]);
	row->target.userid = DatumGetObjectId(values[EO_OUTBOX_ROLE - 1]);
	if (row->target.serverid != last.serverid || row->target.userid != last.userid)
	{
		last.serverid = row->target.serverid;
		last.userid = row->target.userid;
		last.tenant = eo_options_tenant(last.serverid, last.userid);
		last.owner = eo_options_owner(last.serverid, last.userid);
	}
	row->target.tenant = last.tenant;
	row->target.owner = last.owner;
	row->target.plain_http = DatumGetBool(values[EO_OUTBOX_PLAIN_HTTP - 1]);
	memcpy(row->life, DatumGetUUIDP(values[EO_OUTBOX_LIFE - 1])->data, sizeof(row->life));
	row->given_up = DatumGetBool(values[EO_OUTBOX_GIVEN_UP - 1]);
	row->trouble = DatumGetInt16(values[EO_OUTBOX_TROUBLE - 1]);
	row->attempts = DatumGetInt32(values[EO_OUTBOX_ATTEMPTS - 1]);
	row->retention_s = DatumGetInt64(values[EO_OUTBOX_RETENTION - 1]);
	row->xid = U64FromFullTransactionId(DatumGetFullTransactionId(values[EO_OUTBOX_XID - 1]));
	row->created_at = DatumGetTimestampTz(values[EO_OUTBOX_CREATED - 1]);
	row->pk = TextDatumGetCString(values[EO_OUTBOX_PK - 1]);
	copy_text(values[EO_OUTBOX_URL - 1], row->target.url, sizeof(row->target.url));
	copy_text(values[EO_OUTBOX_REGION - 1], row->target.region, sizeof(row->target.region));
	copy_text(values[EO_OUTBOX_TABLE - 1], row->target.table, sizeof(row->target.table));
	copy_text(values[EO_OUTBOX_PREFIX - 1], row->target.prefix, sizeof(row->target.prefix));
	copy_text(values[EO_OUTBOX_LAYOUT - 1], row->target.layout, sizeof(row->target.layout));
	/* The text of the writes is left out: it may be large. */
	if (!nulls[EO_OUTBOX_WRITES - 1])
	{
		row->writes.n = DatumGetInt32(values[EO_OUTBOX_WRITES - 1]);
		row->writes.number = DatumGetInt64(values[EO_OUTBOX_NUMBER - 1]);
		row->writes.items = TextDatumGetCString(values[EO_OUTBOX_ITEMS - 1]);
	}
}

bool
eo_outbox_scan_has_writes(const EoOutboxScan *s, HeapTuple tuple)
{
	return !heap_attisnull(tuple, EO_OUTBOX_WRITES, s->desc);
}

/* Copy a column of type text into a buffer of that size. */
static void
copy_text(Datum value, char *out, size_t size)
{
	text_to_cstring_buffer(DatumGetTextPP(value), out, size);
}

Datum
eo_outbox_scan_column(const EoOutboxScan *s, HeapTuple tuple, EoOutboxColumn column)
{
	bool		isnull;

	return heap_getattr(tuple, column, s->desc, &isnull);
}

Datum
eo_outbox_scan_digest(EoDigestDatum *datum, const uint8 *digest)
{
	SET_VARSIZE(datum, sizeof(EoDigestDatum));
	memcpy(datum->digest, digest, EO_DIGEST_LEN);
	return PointerGetDatum(datum);
}
