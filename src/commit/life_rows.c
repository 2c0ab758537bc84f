/*-------------------------------------------------------------------------
 *
 * life_rows.c
 *	  The lives of this data, as its own table records them.
 *
 * The rows travel with the data: to a standby, into a backup, into a copy.  A copy
 * that begins a life of its own inserts a row, and from there on its history differs
 * from that of its original.
 *
 * Rows of others may come in, too: with logical replication, CREATE DATABASE ...
 * TEMPLATE and pg_upgrade.  So a row counts only if it has the system identifier of
 * this cluster and the OID of this database, and if it can be reached from the newest
 * row that was written here by following the parents.  A row that was written here
 * names the transaction that wrote it, which is the one that PostgreSQL notes for the
 * row, too; that is not so for a row that an apply worker has inserted.
 *
 * The row that CREATE EXTENSION inserts is the root of every history.  It belongs to
 * no run of the server, and nothing is sealed under it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "cluster/life.h"
#include "commit/internal.h"
#include "commit/life_rows.h"
#include "compat.h"
#include "dynamodb/hex.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

/* Columns of the table, as the install script makes them. */
typedef enum LifeColumn
{
	C_ID = 1,
	C_PARENT,
	C_NUMBER,
	C_SYSTEM,
	C_DATABASE,
	C_RUN,
	C_TIMELINE,
	C_FLOOR,
	C_BEAT,
	C_STARTED,
	C_WRITTEN_BY,
	LIFE_COLUMNS = C_WRITTEN_BY
} LifeColumn;

/* So many rows stay, and all that are younger. */
#define KEEP_ROWS 1000
#define KEEP_DAYS 35

/* A row as it stands in the table. */
typedef struct StoredRow
{
	EoLifeRow	row;
	uint8		parent[EO_UUID_LEN];
	bool		has_parent;
	bool		written_here;
} StoredRow;

static int	read_rows(StoredRow **rows);
static void read_row(TupleDesc desc, HeapTuple tuple, StoredRow *row);
static const StoredRow *find_newest(const StoredRow *rows, int n);

/* ----- reading ----- */

/* From the newest to the oldest. */
static int
compare_rows(const void *a, const void *b)
{
	int64		left = ((const StoredRow *) a)->row.number;
	int64		right = ((const StoredRow *) b)->row.number;

	return left < right ? 1 : left > right ? -1 : 0;
}

/* A parent has the number before, so one walk through the sorted rows finds them all. */
void
eo_life_rows_read(EoHistory *history)
{
	StoredRow  *rows;
	int			n = read_rows(&rows);
	const StoredRow *at;

	qsort(rows, n, sizeof(StoredRow), compare_rows);
	at = find_newest(rows, n);
	history->rows = palloc(sizeof(EoLifeRow) * Max(1, n));
	history->n = 0;
	if (at != NULL)
		history->rows[history->n++] = at->row;
	for (int i = 0; i < n && at != NULL && at->has_parent; i++)
	{
		if (rows[i].row.number != at->row.number - 1 ||
			memcmp(rows[i].row.id, at->parent, EO_UUID_LEN) != 0)
			continue;
		at = &rows[i];
		history->rows[history->n++] = at->row;
	}
	pfree(rows);
}

/* Read all rows of this cluster and database. */
static int
read_rows(StoredRow **rows)
{
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;
	int			size = 64;

	*rows = palloc(sizeof(StoredRow) * size);
	ScanKeyInit(&keys[0], C_SYSTEM, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum((int64) GetSystemIdentifier()));
	ScanKeyInit(&keys[1], C_DATABASE, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (n == size)
			*rows = repalloc(*rows, sizeof(StoredRow) * (size *= 2));
		read_row(RelationGetDescr(rel), tuple, &(*rows)[n++]);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return n;
}

static void
read_row(TupleDesc desc, HeapTuple tuple, StoredRow *row)
{
	Datum		values[LIFE_COLUMNS];
	bool		nulls[LIFE_COLUMNS];

	memset(row, 0, sizeof(*row));
	heap_deform_tuple(tuple, desc, values, nulls);
	memcpy(row->row.id, DatumGetUUIDP(values[C_ID - 1])->data, EO_UUID_LEN);
	row->has_parent = !nulls[C_PARENT - 1];
	if (row->has_parent)
		memcpy(row->parent, DatumGetUUIDP(values[C_PARENT - 1])->data, EO_UUID_LEN);
	if (!nulls[C_RUN - 1])
		memcpy(row->row.run, DatumGetUUIDP(values[C_RUN - 1])->data, EO_UUID_LEN);
	row->row.number = DatumGetInt64(values[C_NUMBER - 1]);
	row->row.timeline = (uint32) DatumGetInt64(values[C_TIMELINE - 1]);
	row->row.xid_floor =
		U64FromFullTransactionId(DatumGetFullTransactionId(values[C_FLOOR - 1]));
	row->row.beat = DatumGetInt64(values[C_BEAT - 1]);
	row->row.started = DatumGetTimestampTz(values[C_STARTED - 1]);
	row->written_here = HeapTupleHeaderGetRawXmin(tuple->t_data) ==
		XidFromFullTransactionId(DatumGetFullTransactionId(values[C_WRITTEN_BY - 1]));
}

/* The newest row that was written here; else the root. */
static const StoredRow *
find_newest(const StoredRow *rows, int n)
{
	const StoredRow *newest = NULL;

	for (int i = 0; i < n; i++)
	{
		if ((rows[i].written_here || rows[i].row.number == 0) &&
			(newest == NULL || rows[i].row.number > newest->row.number))
			newest = &rows[i];
	}
	return newest;
}

int
eo_life_rows_find(const EoHistory *history, const uint8 *id)
{
	for (int i = 0; i < history->n; i++)
	{
		if (memcmp(history->rows[i].id, id, EO_UUID_LEN) == 0)
			return i;
	}
	return -1;
}

/* ----- writing ----- */

static Datum
uuid_datum(const uint8 *bytes)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

	memcpy(uuid->data, bytes, EO_UUID_LEN);
	return UUIDPGetDatum(uuid);
}

void
eo_life_rows_mint(const EoHistory *history, const uint8 *id)
{
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, RowExclusiveLock);
	Datum		values[LIFE_COLUMNS] = {0};
	bool		nulls[LIFE_COLUMNS] = {false};
	HeapTuple	tuple;

	values[C_ID - 1] = uuid_datum(id);
	nulls[C_PARENT - 1] = history->n == 0;
	if (history->n > 0)
		values[C_PARENT - 1] = uuid_datum(history->rows[0].id);
	values[C_NUMBER - 1] = Int64GetDatum(history->n > 0 ? history->rows[0].number + 1 : 1);
	values[C_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[C_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[C_RUN - 1] = uuid_datum(eo_life_run());
	values[C_TIMELINE - 1] = Int64GetDatum((int64) eo_compat_timeline());
	values[C_FLOOR - 1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(eo_life_xid_floor()));
	values[C_BEAT - 1] = Int64GetDatum(0);
	values[C_STARTED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[C_WRITTEN_BY - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	table_close(rel, NoLock);
}

/*
 * Remove the oldest rows, but none that is young or among the newest.  The history of
 * every copy still leads to those that stay.
 */
void
eo_life_rows_prune(const EoHistory *history)
{
	TimestampTz before = GetCurrentTimestamp() - KEEP_DAYS * USECS_PER_DAY;
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, RowExclusiveLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	for (int i = KEEP_ROWS; i < history->n; i++)
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple	tuple;

		if (history->rows[i].started > before)
			continue;
		ScanKeyInit(&key, C_ID, BTEqualStrategyNumber, F_UUID_EQ,
					uuid_datum(history->rows[i].id));
		scan = systable_beginscan(rel, InvalidOid, false, snapshot, 1, &key);
		tuple = systable_getnext(scan);
		if (HeapTupleIsValid(tuple))
			CatalogTupleDelete(rel, &tuple->t_self);
		systable_endscan(scan);
	}
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
}

void
eo_life_rows_note_beat(const uint8 *id, int64 beat)
{
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, RowExclusiveLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	Datum		values[LIFE_COLUMNS] = {0};
	bool		nulls[LIFE_COLUMNS] = {false};
	bool		replace[LIFE_COLUMNS] = {false};
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	values[C_BEAT - 1] = Int64GetDatum(beat);
	values[C_WRITTEN_BY - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	replace[C_BEAT - 1] = replace[C_WRITTEN_BY - 1] = true;
	ScanKeyInit(&key, C_ID, BTEqualStrategyNumber, F_UUID_EQ, uuid_datum(id));
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		CatalogTupleUpdate(rel, &tuple->t_self,
						   heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls,
											 replace));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
}
