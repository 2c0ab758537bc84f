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
 * After pg_upgrade or in a copy made from a template the first life has the newest one
 * of the original for its parent, and there the history ends: of the two databases only
 * the original may settle what it has sealed, as long as it may still run.  When an
 * operator has taken over the last one of those earlier lives, the rows of the original
 * are made our own, and the history goes on with them.  Their transaction ids mean the
 * same here, because the tables were copied as files, with the commit log.
 *
 * The original may be a copy itself.  Then the lives of its own original follow, and stay
 * earlier ones: that database may go on beside both.
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
#include "cluster/runs.h"
#include "compat.h"
#include "ledger/internal.h"
#include "ledger/internal_form.h"
#include "ledger/life_rows.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"
#include "wire/hex.h"

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
	C_START,
	C_BEAT,
	C_STARTED,
	C_WRITTEN_BY,
	LIFE_COLUMNS = C_WRITTEN_BY
} LifeColumn;

/* Pruning keeps the last KEEP_ROWS rows, and all that are younger than KEEP_DAYS. */
#define KEEP_ROWS 1000
#define KEEP_DAYS 35

/* A row as it stands in the table. */
typedef struct StoredRow
{
	EoLifeRow	row;
	uint8		parent[EO_UUID_LEN];
	bool		has_parent;
	bool		ours;			/* of this cluster and database */
	bool		written_here;
} StoredRow;

static int	read_rows(StoredRow **rows);
static void read_row(TupleDesc desc, HeapTuple tuple, StoredRow *row);
static const StoredRow *find_newest(const StoredRow *rows, int n);
static void add_row(EoHistory *history, const StoredRow *row);

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
	history->n = history->nearlier = 0;
	if (at != NULL)
		add_row(history, at);
	for (int i = 0; i < n && at != NULL && at->has_parent; i++)
	{
		if (rows[i].row.number != at->row.number - 1 ||
			memcmp(rows[i].row.id, at->parent, EO_UUID_LEN) != 0)
			continue;
		at = &rows[i];
		add_row(history, at);
	}
	pfree(rows);
}

/* Before a row of others there is none of ours. */
static void
add_row(EoHistory *history, const StoredRow *row)
{
	bool		ours = row->ours && history->nearlier == 0;

	history->rows[history->n + history->nearlier] = row->row;
	history->n += ours;
	history->nearlier += !ours;
}

/* Read all rows, those of others, too. */
static int
read_rows(StoredRow **rows)
{
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;
	int			size = 64;

	*rows = palloc(sizeof(StoredRow) * size);
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (n == size)
			*rows = repalloc(*rows, sizeof(StoredRow) * (size *= 2));
		read_row(eo_internal_form_desc(EO_INTERNAL_LIVES), tuple, &(*rows)[n++]);
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
	row->row.xid_start =
		U64FromFullTransactionId(DatumGetFullTransactionId(values[C_START - 1]));
	row->row.beat = DatumGetInt64(values[C_BEAT - 1]);
	row->row.started = DatumGetTimestampTz(values[C_STARTED - 1]);
	row->row.system = (uint64) DatumGetInt64(values[C_SYSTEM - 1]);
	row->row.dboid = DatumGetObjectId(values[C_DATABASE - 1]);
	row->ours = row->row.system == GetSystemIdentifier() && row->row.dboid == MyDatabaseId;
	row->written_here = HeapTupleHeaderGetRawXmin(tuple->t_data) ==
		XidFromFullTransactionId(DatumGetFullTransactionId(values[C_WRITTEN_BY - 1]));
}

/*
 * The newest row that was written here; else the root; else the newest of the database
 * that this data comes from.  The rows are sorted.
 */
static const StoredRow *
find_newest(const StoredRow *rows, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (rows[i].ours && (rows[i].written_here || rows[i].row.number == 0))
			return &rows[i];
	}
	for (int i = 0; i < n; i++)
	{
		if (rows[i].written_here)
			return &rows[i];
	}
	return NULL;
}

/* The index of a life among n rows; -1: it is not there. */
static int
find_among(const EoLifeRow *rows, int n, const uint8 *id)
{
	for (int i = 0; i < n; i++)
	{
		if (memcmp(rows[i].id, id, EO_UUID_LEN) == 0)
			return i;
	}
	return -1;
}

int
eo_life_rows_find(const EoHistory *history, const uint8 *id)
{
	return find_among(history->rows, history->n, id);
}

bool
eo_life_rows_is_earlier(const EoHistory *history, const uint8 *id)
{
	return find_among(history->rows + history->n, history->nearlier, id) >= 0;
}

const EoLifeRow *
eo_life_rows_original(const EoHistory *history)
{
	return history->nearlier > 0 ? &history->rows[history->n] : NULL;
}

/* The rows of the original, which follow those of the history. */
static int
count_original(const EoHistory *history)
{
	const EoLifeRow *first = eo_life_rows_original(history);
	int			n = 0;

	while (n < history->nearlier && first[n].system == first->system &&
		   first[n].dboid == first->dboid)
		n++;
	return n;
}

bool
eo_life_rows_is_original(const EoHistory *history, const uint8 *id)
{
	return find_among(history->rows + history->n, count_original(history), id) >= 0;
}

bool
eo_life_rows_original_exists(const EoHistory *history)
{
	const EoLifeRow *original = eo_life_rows_original(history);

	return original != NULL && original->dboid != MyDatabaseId &&
		SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(original->dboid));
}

/* ----- writing ----- */

static Datum
uuid_datum(const uint8 *bytes)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

	memcpy(uuid->data, bytes, EO_UUID_LEN);
	return UUIDPGetDatum(uuid);
}

/*
 * The lowest floor and start of the runs since the life before this one.  The lives of one run
 * have the same: the first of them is behind those runs.
 */
static void
runs_before(const EoHistory *history, uint64 *floor, uint64 *start)
{
	static const uint8 no_run[EO_UUID_LEN];
	const EoLifeRow *parent = history->n + history->nearlier > 0 ? &history->rows[0] : NULL;

	if (parent == NULL || memcmp(parent->run, eo_runs_present(), EO_UUID_LEN) != 0)
		eo_runs_since(parent != NULL ? parent->run : no_run, floor, start);
	else
	{
		*floor = parent->xid_floor;
		*start = parent->xid_start;
	}
}

void
eo_life_rows_mint(const EoHistory *history, const uint8 *id)
{
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, RowExclusiveLock);
	Datum		values[LIFE_COLUMNS] = {0};
	bool		nulls[LIFE_COLUMNS] = {false};
	bool		has_parent = history->n + history->nearlier > 0;
	HeapTuple	tuple;
	uint64		floor;
	uint64		start;

	runs_before(history, &floor, &start);
	values[C_ID - 1] = uuid_datum(id);
	nulls[C_PARENT - 1] = !has_parent;
	if (has_parent)
		values[C_PARENT - 1] = uuid_datum(history->rows[0].id);
	values[C_NUMBER - 1] = Int64GetDatum(has_parent ? history->rows[0].number + 1 : 1);
	values[C_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[C_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[C_RUN - 1] = uuid_datum(eo_runs_present());
	values[C_TIMELINE - 1] = Int64GetDatum((int64) eo_compat_timeline());
	values[C_FLOOR - 1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(floor));
	values[C_START - 1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(start));
	values[C_BEAT - 1] = Int64GetDatum(0);
	values[C_STARTED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[C_WRITTEN_BY - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	tuple = heap_form_tuple(eo_internal_form_desc(EO_INTERNAL_LIVES), values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	table_close(rel, NoLock);
}

/*
 * Remove the oldest rows, but none that is young or among the newest.  The history of
 * every copy still leads to those that stay.  A row is young by the distance from one that has
 * half of the newest after it, and not from now: a host's clock that jumps ahead must not make
 * all of them old.
 */
void
eo_life_rows_prune(const EoHistory *history)
{
	TimestampTz before = history->n + history->nearlier <= KEEP_ROWS ? 0 :
	history->rows[KEEP_ROWS / 2].started - KEEP_DAYS * USECS_PER_DAY;
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, RowExclusiveLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	for (int i = KEEP_ROWS; i < history->n + history->nearlier; i++)
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

/* Change columns of the row of a life, if it is there. */
static void
update_row(const uint8 *id, Datum *values, bool *replace)
{
	Relation	rel = eo_internal_open(EO_INTERNAL_LIVES, RowExclusiveLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool		nulls[LIFE_COLUMNS] = {false};
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	values[C_WRITTEN_BY - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	replace[C_WRITTEN_BY - 1] = true;
	ScanKeyInit(&key, C_ID, BTEqualStrategyNumber, F_UUID_EQ, uuid_datum(id));
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		CatalogTupleUpdate(rel, &tuple->t_self,
						   heap_modify_tuple(tuple, eo_internal_form_desc(EO_INTERNAL_LIVES),
											 values, nulls, replace));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
}

void
eo_life_rows_adopt(const EoHistory *history)
{
	int			n = count_original(history);

	for (int i = history->n; i < history->n + n; i++)
	{
		Datum		values[LIFE_COLUMNS] = {0};
		bool		replace[LIFE_COLUMNS] = {false};

		values[C_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
		values[C_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
		replace[C_SYSTEM - 1] = replace[C_DATABASE - 1] = true;
		update_row(history->rows[i].id, values, replace);
	}
}

void
eo_life_rows_note_beat(const uint8 *id, int64 beat)
{
	Datum		values[LIFE_COLUMNS] = {0};
	bool		replace[LIFE_COLUMNS] = {false};

	values[C_BEAT - 1] = Int64GetDatum(beat);
	replace[C_BEAT - 1] = true;
	update_row(id, values, replace);
}
