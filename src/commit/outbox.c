/*-------------------------------------------------------------------------
 *
 * outbox.c
 *	  The outbox: completions that transactions have decided on.
 *
 * A row says that the transaction which inserted it completes a key.  It becomes
 * visible when that transaction commits; that is the decision.  It is removed after
 * DynamoDB has confirmed COMPLETED, or by an operator who knows that the record is
 * gone, and at no other time, so that the absence of a row means something
 * (settle.c).  A row that an operator gives up without knowing that stays as evidence
 * of the commit, and only the worker leaves it alone.
 *
 * The key of a row is system identifier, database OID and digest.  The first two
 * distinguish our own rows from those that came with a copy.  The digest is made of
 * the DynamoDB table and the key, and not of the server's OID or of credentials, so
 * that a row is found again after DROP SERVER or a rotation of the access key.  Rows that
 * came with pg_upgrade, or with a copy, are made our own when an operator has decided that
 * their lives are (life_rows.c).
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
#include "catalog/indexing.h"
#include "cluster/target.h"
#include "commit/internal.h"
#include "commit/known_targets.h"
#include "commit/life_rows.h"
#include "commit/outbox.h"
#include "compat.h"
#include "dynamodb/hex.h"
#include "dynamodb/token.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/text.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

/* Columns of the table, as the install script makes them. */
typedef enum OutboxColumn
{
	C_SYSTEM = 1,
	C_DATABASE,
	C_DIGEST,
	C_TOKEN,
	C_SERVER,
	C_ROLE,
	C_URL,
	C_PLAIN_HTTP,
	C_REGION,
	C_TABLE,
	C_LAYOUT,
	C_PK,
	C_RETENTION,
	C_XID,
	C_CREATED,
	C_GIVEN_UP,
	C_LIFE,
	C_PREFIX,

	/* NULL in a row without writes; the last two are NULL until a refusal. */
	C_WRITES,
	C_NUMBER,
	C_ITEMS,
	C_BODY,
	C_REASON,
	C_REASON_ITEM,
	OUTBOX_COLUMNS = C_REASON_ITEM
} OutboxColumn;

/* A digest as PostgreSQL holds a bytea. */
typedef struct DigestDatum
{
	char		header[VARHDRSZ];
	uint8		digest[EO_DIGEST_LEN];
} DigestDatum;

/* A scan over committed rows of this database. */
typedef struct OutboxScan
{
	Relation	rel;
	LOCKMODE	mode;
	Snapshot	snapshot;
	SnapshotData dirty;			/* of a scan over rows that are undecided */
	DigestDatum digest;
	ScanKeyData keys[3];
	SysScanDesc scan;
} OutboxScan;

static void form_writes(const EoOutboxWrites *w, Datum *values, bool *nulls);
static HeapTuple form_row(Relation rel, const EoOutboxRow *row);
static void begin_scan(OutboxScan *s, LOCKMODE mode, const uint8 *digest);
static void begin_scan_of(OutboxScan *s, LOCKMODE mode, uint64 system, Oid dboid,
						  const uint8 *digest);
static void begin_scan_of_table(OutboxScan *s, BlockNumber from);
static void open_table(OutboxScan *s, LOCKMODE mode);
static void find_rows(OutboxScan *s, uint64 system, Oid dboid, const uint8 *digest);
static bool delete_row(OutboxScan *s, HeapTuple tuple);
static void init_keys(ScanKeyData *keys, uint64 system, Oid dboid, Datum digest);
static void begin_dirty_scan(OutboxScan *s, const uint8 *digest);
static HeapTuple next_undecided(OutboxScan *s);
static HeapTuple next_row(OutboxScan *s);
static HeapTuple row_of_claim(OutboxScan *s, const char *token);
static void end_scan(OutboxScan *s);
static void close_table(OutboxScan *s);
static void read_row(const OutboxScan *s, HeapTuple tuple, EoOutboxRow *row);
static bool token_is(const OutboxScan *s, HeapTuple tuple, const char *token);
static void read_digest(Datum value, uint8 *digest);
static void read_token(const OutboxScan *s, HeapTuple tuple, char token[EO_TOKEN_LEN + 1]);
static void copy_text(Datum value, char *out, size_t size);
static Datum column_of(const OutboxScan *s, HeapTuple tuple, OutboxColumn column);
static bool has_writes(const OutboxScan *s, HeapTuple tuple);
static void read_writes(const OutboxScan *s, HeapTuple tuple, EoOutboxWrites *writes);
static Datum digest_datum(DigestDatum *datum, const uint8 *digest);

void
eo_outbox_add(const EoOutboxRow *row, const char *key, const char *server, bool once,
			  const EoGuard *guard)
{
	Relation	rel;
	HeapTuple	tuple;

	eo_known_target_enter(&row->target);
	rel = eo_internal_open(EO_INTERNAL_OUTBOX, RowExclusiveLock);
	tuple = form_row(rel, row);
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
				 errmsg("key \"%s\" on server \"%s\" is already completed", eo_text_key_shown(key), server),
				 errdetail("A transaction of this database that completed it has committed."),
				 errhint("idem_get() shows its result.")));
	}
	PG_END_TRY();
	heap_freetuple(tuple);
	table_close(rel, NoLock);
}

/* It may be in another encoding than the database. */
static Datum
utf8_datum(const char *text)
{
	size_t		len = strlen(text);
	bytea	   *bytes = palloc(VARHDRSZ + len);

	SET_VARSIZE(bytes, VARHDRSZ + len);
	memcpy(VARDATA(bytes), text, len);
	return PointerGetDatum(bytes);
}

static void
form_writes(const EoOutboxWrites *w, Datum *values, bool *nulls)
{
	for (int c = C_WRITES; c <= C_REASON_ITEM; c++)
		nulls[c - 1] = w->n == 0 || c >= C_REASON;
	if (w->n == 0)
		return;
	values[C_WRITES - 1] = Int32GetDatum(w->n);
	values[C_NUMBER - 1] = Int64GetDatum(w->number);
	values[C_ITEMS - 1] = CStringGetTextDatum(w->items);
	values[C_BODY - 1] = utf8_datum(w->text);
}

static HeapTuple
form_row(Relation rel, const EoOutboxRow *row)
{
	Datum		values[OUTBOX_COLUMNS];
	bool		nulls[OUTBOX_COLUMNS] = {false};
	DigestDatum digest;
	pg_uuid_t	life;

	values[C_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[C_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[C_DIGEST - 1] = digest_datum(&digest, row->digest);
	values[C_TOKEN - 1] = DirectFunctionCall1(uuid_in, CStringGetDatum(row->token));
	values[C_SERVER - 1] = ObjectIdGetDatum(row->target.serverid);
	values[C_ROLE - 1] = ObjectIdGetDatum(row->target.userid);
	values[C_URL - 1] = CStringGetTextDatum(row->target.url);
	values[C_PLAIN_HTTP - 1] = BoolGetDatum(row->target.plain_http);
	values[C_REGION - 1] = CStringGetTextDatum(row->target.region);
	values[C_TABLE - 1] = CStringGetTextDatum(row->target.table);
	values[C_LAYOUT - 1] = CStringGetTextDatum(row->target.layout);
	values[C_PK - 1] = CStringGetTextDatum(row->pk);
	values[C_RETENTION - 1] = Int64GetDatum(row->retention_s);
	values[C_XID - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	values[C_CREATED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[C_GIVEN_UP - 1] = BoolGetDatum(false);
	memcpy(life.data, row->life, sizeof(life.data));
	values[C_LIFE - 1] = UUIDPGetDatum(&life);
	values[C_PREFIX - 1] = CStringGetTextDatum(row->target.prefix);
	form_writes(&row->writes, values, nulls);
	return heap_form_tuple(RelationGetDescr(rel), values, nulls);
}

bool
eo_outbox_find(const uint8 *digest, const char *token, int64 *retention_s)
{
	OutboxScan	scan;
	HeapTuple	tuple;

	begin_scan(&scan, AccessShareLock, digest);
	tuple = row_of_claim(&scan, token);
	if (HeapTupleIsValid(tuple))
		*retention_s = DatumGetInt64(column_of(&scan, tuple, C_RETENTION));
	end_scan(&scan);
	return HeapTupleIsValid(tuple);
}

bool
eo_outbox_visit(BlockNumber from, bool (*visit) (const EoOutboxRow *row))
{
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		go_on = true;

	begin_scan_of_table(&scan, from);
	while (go_on && HeapTupleIsValid(tuple = next_row(&scan)))
	{
		EoOutboxRow row;

		read_row(&scan, tuple, &row);
		if (!row.given_up)
			go_on = visit(&row);
		pfree(row.pk);
		if (row.writes.n > 0)
			pfree(unconstify(char *, row.writes.items));
	}
	end_scan(&scan);
	return go_on;
}

void
eo_outbox_visit_writes(void (*visit) (const EoOutboxRow *row))
{
	OutboxScan	scan;
	HeapTuple	tuple;

	begin_scan_of_table(&scan, 0);
	while (HeapTupleIsValid(tuple = next_row(&scan)))
	{
		EoOutboxRow row;

		if (!has_writes(&scan, tuple) || DatumGetBool(column_of(&scan, tuple, C_GIVEN_UP)))
			continue;
		read_row(&scan, tuple, &row);
		visit(&row);
		pfree((void *) row.pk);
		pfree(unconstify(char *, row.writes.items));
	}
	end_scan(&scan);
}

char *
eo_outbox_read_writes(const uint8 *digest, const char *token)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	char	   *text = NULL;

	begin_scan(&scan, AccessShareLock, digest);
	tuple = row_of_claim(&scan, token);
	if (HeapTupleIsValid(tuple) && has_writes(&scan, tuple))
	{
		bytea	   *body = DatumGetByteaPP(column_of(&scan, tuple, C_BODY));

		text = pnstrdup(VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body));
	}
	end_scan(&scan);
	return text;
}

/* Is this note in the row already? */
static bool
is_noted(const OutboxScan *s, HeapTuple tuple, const char *reason, int item)
{
	bool		isnull;
	Datum		noted = heap_getattr(tuple, C_REASON, RelationGetDescr(s->rel), &isnull);
	int			noted_item = 0;

	if (isnull || strcmp(TextDatumGetCString(noted), reason) != 0)
		return false;
	noted = heap_getattr(tuple, C_REASON_ITEM, RelationGetDescr(s->rel), &isnull);
	if (!isnull)
		noted_item = DatumGetInt32(noted);
	return noted_item == item;
}

bool
eo_outbox_note(const uint8 *digest, const char *token, const char *reason, int item)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	Datum		values[OUTBOX_COLUMNS] = {0};
	bool		nulls[OUTBOX_COLUMNS] = {false};
	bool		replace[OUTBOX_COLUMNS] = {false};
	bool		noted = false;

	values[C_REASON - 1] = CStringGetTextDatum(reason);
	values[C_REASON_ITEM - 1] = Int32GetDatum(item);
	nulls[C_REASON_ITEM - 1] = item == 0;
	replace[C_REASON - 1] = replace[C_REASON_ITEM - 1] = true;
	begin_scan(&scan, RowExclusiveLock, digest);
	tuple = row_of_claim(&scan, token);
	if (HeapTupleIsValid(tuple) && !is_noted(&scan, tuple, reason, item))
	{
		HeapTupleData locked = {.t_self = tuple->t_self,.t_tableOid = tuple->t_tableOid};
		TM_FailureData failure;
		Buffer		buffer;

		/*
		 * An operator may be giving it up.  The worker must not wait for
		 * that.
		 */
		noted = heap_lock_tuple(scan.rel, &locked, GetCurrentCommandId(true),
								LockTupleNoKeyExclusive, LockWaitSkip, false, &buffer,
								&failure) == TM_Ok;
		ReleaseBuffer(buffer);
		if (noted)
			CatalogTupleUpdate(scan.rel, &tuple->t_self,
							   heap_modify_tuple(tuple, RelationGetDescr(scan.rel), values, nulls,
												 replace));
	}
	end_scan(&scan);
	return noted;
}

bool
eo_outbox_any_row(bool (*counts) (const EoOutboxRow *row))
{
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		any = false;

	begin_scan_of_table(&scan, 0);
	while (!any && HeapTupleIsValid(tuple = next_row(&scan)))
	{
		EoOutboxRow row;

		read_row(&scan, tuple, &row);
		any = counts(&row);
		pfree(row.pk);
	}
	end_scan(&scan);
	begin_dirty_scan(&scan, NULL);
	while (!any && HeapTupleIsValid(tuple = next_undecided(&scan)))
	{
		EoOutboxRow row;

		read_row(&scan, tuple, &row);
		any = counts(&row);
		pfree(row.pk);
	}
	end_scan(&scan);
	return any;
}

bool
eo_outbox_read(const uint8 *digest, EoOutboxRow *row)
{
	OutboxScan	scan;
	HeapTuple	tuple;

	begin_scan(&scan, AccessShareLock, digest);
	tuple = next_row(&scan);
	if (HeapTupleIsValid(tuple))
		read_row(&scan, tuple, row);
	end_scan(&scan);
	return HeapTupleIsValid(tuple);
}

bool
eo_outbox_remove(const uint8 *digest, const char *token)
{
	OutboxScan	scan;
	bool		removed;

	begin_scan(&scan, RowExclusiveLock, digest);
	removed = delete_row(&scan, row_of_claim(&scan, token));
	end_scan(&scan);
	return removed;
}

/*
 * An operator may have given the row up, in a transaction that goes on.  The worker must
 * not wait for its end.
 */
static bool
delete_row(OutboxScan *s, HeapTuple tuple)
{
	TM_FailureData failure;

	return HeapTupleIsValid(tuple) &&
		heap_delete(s->rel, &tuple->t_self, GetCurrentCommandId(true), InvalidSnapshot,
					false, &failure, false) == TM_Ok;
}

void
eo_outbox_remove_rows(const EoOutboxRow *const *rows, int n)
{
	OutboxScan	scan;

	open_table(&scan, RowExclusiveLock);
	for (int i = 0; i < n; i++)
	{
		find_rows(&scan, GetSystemIdentifier(), MyDatabaseId, rows[i]->digest);
		(void) delete_row(&scan, row_of_claim(&scan, rows[i]->token));
		systable_endscan(scan.scan);
	}
	close_table(&scan);
}

bool
eo_outbox_give_up(const uint8 *digest, const char *token)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	Datum		values[OUTBOX_COLUMNS] = {0};
	bool		nulls[OUTBOX_COLUMNS] = {false};
	bool		replace[OUTBOX_COLUMNS] = {false};

	values[C_GIVEN_UP - 1] = BoolGetDatum(true);
	replace[C_GIVEN_UP - 1] = true;
	begin_scan(&scan, RowExclusiveLock, digest);
	tuple = row_of_claim(&scan, token);
	if (HeapTupleIsValid(tuple))
		CatalogTupleUpdate(scan.rel, &tuple->t_self,
						   heap_modify_tuple(tuple, RelationGetDescr(scan.rel), values, nulls,
											 replace));
	end_scan(&scan);
	return HeapTupleIsValid(tuple);
}

/* Is there a row of ours for this key?  *changing: of a transaction that goes on. */
static bool
has_own_row(Relation rel, Datum digest, bool *changing)
{
	SnapshotData dirty;
	ScanKeyData keys[3];
	SysScanDesc scan;
	bool		found;

	InitDirtySnapshot(dirty);
	init_keys(keys, GetSystemIdentifier(), MyDatabaseId, digest);
	scan = systable_beginscan(rel, rel->rd_pkindex, OidIsValid(rel->rd_pkindex), &dirty, 3, keys);
	found = HeapTupleIsValid(systable_getnext(scan));
	*changing = found && (TransactionIdIsValid(dirty.xmin) || TransactionIdIsValid(dirty.xmax));
	systable_endscan(scan);
	return found;
}

/*
 * The OIDs of roles are the same after pg_upgrade, and those of servers are not: the row
 * gets the one that leads to its table now, or none.
 */
static void
adopt_row(OutboxScan *s, HeapTuple tuple, Oid serverid)
{
	Datum		values[OUTBOX_COLUMNS] = {0};
	bool		nulls[OUTBOX_COLUMNS] = {false};
	bool		replace[OUTBOX_COLUMNS] = {false};

	values[C_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[C_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[C_SERVER - 1] = ObjectIdGetDatum(serverid);
	replace[C_SYSTEM - 1] = replace[C_DATABASE - 1] = replace[C_SERVER - 1] = true;

	/* They come before all rows that are inserted here, and keep their order. */
	if (has_writes(s, tuple))
	{
		values[C_NUMBER - 1] = Int64GetDatum(DatumGetInt64(column_of(s, tuple, C_NUMBER)) |
											 PG_INT64_MIN);
		replace[C_NUMBER - 1] = true;
	}
	CatalogTupleUpdate(s->rel, &tuple->t_self,
					   heap_modify_tuple(tuple, RelationGetDescr(s->rel), values, nulls, replace));
}

/* The next row of the original that names one of its lives; NULL: there is none. */
static HeapTuple
next_of_original(OutboxScan *s, const EoHistory *history, EoOutboxRow *row)
{
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = next_row(s)))
	{
		read_row(s, tuple, row);
		pfree(row->pk);
		row->pk = NULL;
		if (eo_life_rows_is_original(history, row->life))
			break;
	}
	return tuple;
}

bool
eo_outbox_adopt(const EoHistory *history)
{
	OutboxScan	s;
	HeapTuple	tuple;
	EoOutboxRow row;
	EoTarget	last = {0};
	Oid			serverid = InvalidOid;
	const EoLifeRow *original = eo_life_rows_original(history);
	bool		all = true;

	if (original == NULL)
		return true;
	begin_scan_of(&s, RowExclusiveLock, original->system, original->dboid, NULL);
	while (HeapTupleIsValid(tuple = next_of_original(&s, history, &row)))
	{
		bool		changing = false;

		if (memcmp(&row.target, &last, sizeof(last)) != 0)
			serverid = eo_known_target_server(&row.target);
		last = row.target;
		/* To insert a second row would wait for the transaction of the first. */
		if (!has_own_row(s.rel, column_of(&s, tuple, C_DIGEST), &changing))
			adopt_row(&s, tuple, serverid);
		all &= !changing;
	}
	end_scan(&s);
	return all;
}

bool
eo_outbox_any_of_original(Oid serverid)
{
	OutboxScan	s;
	EoHistory	history;
	EoOutboxRow row;
	const EoLifeRow *original;
	bool		any = false;

	/* DROP ... CASCADE may have dropped one of the tables already. */
	if (!OidIsValid(eo_internal_look()) || !OidIsValid(eo_internal_id(EO_INTERNAL_LIVES)))
		return false;
	eo_life_rows_read(&history);
	original = eo_life_rows_original(&history);
	if (original != NULL && !eo_life_rows_original_exists(&history))
	{
		begin_scan_of(&s, AccessShareLock, original->system, original->dboid, NULL);
		while (!any && HeapTupleIsValid(next_of_original(&s, &history, &row)))
			any = !row.given_up &&
				(!OidIsValid(serverid) || eo_known_target_server(&row.target) == serverid);
		end_scan(&s);
	}
	pfree(history.rows);
	return any;
}

bool
eo_outbox_any(Oid serverid)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		any = false;

	if (!OidIsValid(eo_internal_look()))
		return false;
	begin_scan(&scan, AccessShareLock, NULL);
	/* next_row() would leave out the rows of our own transaction. */
	while (!any && HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
		any = !DatumGetBool(column_of(&scan, tuple, C_GIVEN_UP)) &&
			(!OidIsValid(serverid) ||
			 DatumGetObjectId(column_of(&scan, tuple, C_SERVER)) == serverid);
	end_scan(&scan);
	return any;
}

/* ----- undecided rows ----- */

/* Scan all rows of this database, or of one key, committed or not. */
static void
begin_dirty_scan(OutboxScan *s, const uint8 *digest)
{
	open_table(s, AccessShareLock);
	init_keys(s->keys, GetSystemIdentifier(), MyDatabaseId,
			  digest != NULL ? digest_datum(&s->digest, digest) : (Datum) 0);
	InitDirtySnapshot(s->dirty);
	s->scan = systable_beginscan(s->rel, s->rel->rd_pkindex, OidIsValid(s->rel->rd_pkindex),
								 &s->dirty, digest != NULL ? 3 : 2, s->keys);
}

/* The next row whose transaction, of another process or prepared, goes on. */
static HeapTuple
next_undecided(OutboxScan *s)
{
	HeapTuple	tuple;

	do
		tuple = systable_getnext(s->scan);
	while (HeapTupleIsValid(tuple) && !TransactionIdIsValid(s->dirty.xmin));
	return tuple;
}

bool
eo_outbox_is_undecided(const uint8 *digest, const char *token, uint64 xid)
{
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		found = false;

	begin_dirty_scan(&scan, digest);
	while (!found && HeapTupleIsValid(tuple = next_undecided(&scan)))
		found = token_is(&scan, tuple, token) && xid ==
			U64FromFullTransactionId(DatumGetFullTransactionId(column_of(&scan, tuple, C_XID)));
	end_scan(&scan);
	return found;
}

bool
eo_outbox_visit_undecided(bool (*visit) (const EoOutboxRow *row))
{
	OutboxScan	scan;
	HeapTuple	tuple;
	bool		go_on = true;

	begin_dirty_scan(&scan, NULL);
	while (go_on && HeapTupleIsValid(tuple = next_undecided(&scan)))
	{
		EoOutboxRow row;

		read_row(&scan, tuple, &row);
		go_on = visit(&row);
		pfree(row.pk);
	}
	end_scan(&scan);
	return go_on;
}

/* ----- scans ----- */

/* Scan the rows of this database, or that of one key (digest not NULL). */
static void
begin_scan(OutboxScan *s, LOCKMODE mode, const uint8 *digest)
{
	begin_scan_of(s, mode, GetSystemIdentifier(), MyDatabaseId, digest);
}

/* The same for the rows of any database. */
static void
begin_scan_of(OutboxScan *s, LOCKMODE mode, uint64 system, Oid dboid, const uint8 *digest)
{
	open_table(s, mode);
	find_rows(s, system, dboid, digest);
}

/* Scan the rows of this database without an index, from a block on. */
static void
begin_scan_of_table(OutboxScan *s, BlockNumber from)
{
	BlockNumber nblocks;

	open_table(s, AccessShareLock);
	init_keys(s->keys, GetSystemIdentifier(), MyDatabaseId, (Datum) 0);
	s->scan = systable_beginscan(s->rel, InvalidOid, false, s->snapshot, 2, s->keys);
	nblocks = ((HeapScanDesc) s->scan->scan)->rs_nblocks;
	if (from < nblocks)
		heap_setscanlimits(s->scan->scan, from, nblocks - from);
	else
		heap_setscanlimits(s->scan->scan, 0, 0);
}

static void
open_table(OutboxScan *s, LOCKMODE mode)
{
	s->rel = eo_internal_open(EO_INTERNAL_OUTBOX, mode);
	s->mode = mode;
	s->snapshot = RegisterSnapshot(GetLatestSnapshot());
	(void) RelationGetIndexList(s->rel);	/* sets rd_pkindex */
}

static void
find_rows(OutboxScan *s, uint64 system, Oid dboid, const uint8 *digest)
{
	init_keys(s->keys, system, dboid,
			  digest != NULL ? digest_datum(&s->digest, digest) : (Datum) 0);
	s->scan = systable_beginscan(s->rel, s->rel->rd_pkindex, OidIsValid(s->rel->rd_pkindex),
								 s->snapshot, digest != NULL ? 3 : 2, s->keys);
}

/* Rows of a database; the third key is for that of one key. */
static void
init_keys(ScanKeyData *keys, uint64 system, Oid dboid, Datum digest)
{
	ScanKeyInit(&keys[0], C_SYSTEM, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum((int64) system));
	ScanKeyInit(&keys[1], C_DATABASE, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(dboid));
	ScanKeyInit(&keys[2], C_DIGEST, BTEqualStrategyNumber, F_BYTEAEQ, digest);
}

/*
 * The next committed row; NULL: there is none.  The snapshot also shows the rows of
 * our own transaction, which are no decisions yet.
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

/* The next committed row of the claim with this token; NULL: there is none. */
static HeapTuple
row_of_claim(OutboxScan *s, const char *token)
{
	HeapTuple	tuple;

	do
		tuple = next_row(s);
	while (HeapTupleIsValid(tuple) && !token_is(s, tuple, token));
	return tuple;
}

static void
end_scan(OutboxScan *s)
{
	systable_endscan(s->scan);
	close_table(s);
}

static void
close_table(OutboxScan *s)
{
	UnregisterSnapshot(s->snapshot);
	/* A lock for writing is kept until the transaction ends. */
	table_close(s->rel, s->mode == RowExclusiveLock ? NoLock : s->mode);
}

/* ----- columns ----- */

static void
read_row(const OutboxScan *s, HeapTuple tuple, EoOutboxRow *row)
{
	Datum		values[OUTBOX_COLUMNS];
	bool		nulls[OUTBOX_COLUMNS];

	heap_deform_tuple(tuple, RelationGetDescr(s->rel), values, nulls);

	/* Targets are compared with memcmp(): clear the padding. */
	memset(row, 0, sizeof(*row));
	read_digest(values[C_DIGEST - 1], row->digest);
	eo_hex_put_uuid(DatumGetUUIDP(values[C_TOKEN - 1])->data, row->token);
	row->block = ItemPointerGetBlockNumber(&tuple->t_self);
	row->target.dboid = MyDatabaseId;
	row->target.serverid = DatumGetObjectId(values[C_SERVER - 1]);
	row->target.userid = DatumGetObjectId(values[C_ROLE - 1]);
	row->target.plain_http = DatumGetBool(values[C_PLAIN_HTTP - 1]);
	memcpy(row->life, DatumGetUUIDP(values[C_LIFE - 1])->data, sizeof(row->life));
	row->given_up = DatumGetBool(values[C_GIVEN_UP - 1]);
	row->retention_s = DatumGetInt64(values[C_RETENTION - 1]);
	row->xid = U64FromFullTransactionId(DatumGetFullTransactionId(values[C_XID - 1]));
	row->created_at = DatumGetTimestampTz(values[C_CREATED - 1]);
	row->pk = TextDatumGetCString(values[C_PK - 1]);
	copy_text(values[C_URL - 1], row->target.url, sizeof(row->target.url));
	copy_text(values[C_REGION - 1], row->target.region, sizeof(row->target.region));
	copy_text(values[C_TABLE - 1], row->target.table, sizeof(row->target.table));
	copy_text(values[C_PREFIX - 1], row->target.prefix, sizeof(row->target.prefix));
	copy_text(values[C_LAYOUT - 1], row->target.layout, sizeof(row->target.layout));
	if (has_writes(s, tuple))
		read_writes(s, tuple, &row->writes);
}

static bool
has_writes(const OutboxScan *s, HeapTuple tuple)
{
	return !heap_attisnull(tuple, C_WRITES, RelationGetDescr(s->rel));
}

/* Their text is left out: it may be large. */
static void
read_writes(const OutboxScan *s, HeapTuple tuple, EoOutboxWrites *writes)
{
	writes->n = DatumGetInt32(column_of(s, tuple, C_WRITES));
	writes->number = DatumGetInt64(column_of(s, tuple, C_NUMBER));
	writes->items = TextDatumGetCString(column_of(s, tuple, C_ITEMS));
	writes->refused = !heap_attisnull(tuple, C_REASON, RelationGetDescr(s->rel));
	writes->text = NULL;
}

static bool
token_is(const OutboxScan *s, HeapTuple tuple, const char *token)
{
	char		text[EO_TOKEN_LEN + 1];

	read_token(s, tuple, text);
	return strcmp(text, token) == 0;
}

static void
read_digest(Datum value, uint8 *digest)
{
	const bytea *bytes = DatumGetByteaPP(value);

	memcpy(digest, VARDATA_ANY(bytes), Min(VARSIZE_ANY_EXHDR(bytes), EO_DIGEST_LEN));
}

static void
read_token(const OutboxScan *s, HeapTuple tuple, char token[EO_TOKEN_LEN + 1])
{
	eo_hex_put_uuid(DatumGetUUIDP(column_of(s, tuple, C_TOKEN))->data, token);
}

/* Copy a column of type text into a buffer of that size. */
static void
copy_text(Datum value, char *out, size_t size)
{
	text_to_cstring_buffer(DatumGetTextPP(value), out, size);
}

/* The value of a column that is not NULL. */
static Datum
column_of(const OutboxScan *s, HeapTuple tuple, OutboxColumn column)
{
	bool		isnull;

	return heap_getattr(tuple, column, RelationGetDescr(s->rel), &isnull);
}

static Datum
digest_datum(DigestDatum *datum, const uint8 *digest)
{
	SET_VARSIZE(datum, sizeof(DigestDatum));
	memcpy(datum->digest, digest, EO_DIGEST_LEN);
	return PointerGetDatum(datum);
}
