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
 * the owner of the server, unless that is a superuser, the address of the DynamoDB table and the
 * key.  A table may have several addresses, and a
 * server may be altered, so a digest is no evidence: it says where a row is to be finished, and
 * a second completion by the same address waits for the first (by another one, see
 * outbox_guard.c).  Whether a transaction has committed is found by the token of its claim, which
 * is unique, too.  Rows that
 * came with pg_upgrade, or with a copy, are made our own when an operator has decided that
 * their lives are (life_rows.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "cluster/target.h"
#include "compat.h"
#include "ledger/internal.h"
#include "ledger/internal_form.h"
#include "ledger/known_targets.h"
#include "ledger/life_rows.h"
#include "ledger/outbox.h"
#include "ledger/outbox_scan.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "records/token.h"
#include "server/error.h"
#include "server/options.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"
#include "wire/hex.h"

/* The unique key of tokens, as the install script names it. */
#define CLAIM_KEY "outbox_claim"

static HeapTuple form_row(const EoOutboxRow *row);
static bool delete_row(EoOutboxScan *s, HeapTuple tuple);
static bool has_own(const EoOutboxRow *row, bool *changing);

bool
eo_outbox_add(const EoOutboxRow *row, bool *elsewhere)
{
	MemoryContext context = CurrentMemoryContext;
	Relation	rel;
	HeapTuple	tuple;
	volatile bool added = true;

	eo_known_target_enter(&row->target);
	rel = eo_internal_open(EO_INTERNAL_OUTBOX, RowExclusiveLock);
	tuple = form_row(row);
	PG_TRY();
	{
		CatalogTupleInsert(rel, tuple);
	}
	PG_CATCH();
	{
		/*
		 * The unique keys are a second guard: within one database PostgreSQL
		 * itself refuses to complete a key twice, or a claim by way of two
		 * addresses, whatever DynamoDB says.
		 */
		ErrorData  *error;

		if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		*elsewhere = error->constraint_name != NULL &&
			strcmp(error->constraint_name, CLAIM_KEY) == 0;
		added = false;
	}
	PG_END_TRY();
	heap_freetuple(tuple);
	table_close(rel, NoLock);
	return added;
}

/* The text is UTF-8, and the database may have another encoding: so it is stored as bytea. */
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
	for (int c = EO_OUTBOX_WRITES; c <= EO_OUTBOX_BODY; c++)
		nulls[c - 1] = w->n == 0;
	if (w->n == 0)
		return;
	values[EO_OUTBOX_WRITES - 1] = Int32GetDatum(w->n);
	values[EO_OUTBOX_NUMBER - 1] = Int64GetDatum(w->number);
	values[EO_OUTBOX_ITEMS - 1] = CStringGetTextDatum(w->items);
	values[EO_OUTBOX_BODY - 1] = utf8_datum(w->text);
}

static HeapTuple
form_row(const EoOutboxRow *row)
{
	Datum		values[EO_OUTBOX_COLUMNS];
	bool		nulls[EO_OUTBOX_COLUMNS] = {false};
	EoDigestDatum digest;
	pg_uuid_t	token;
	pg_uuid_t	life;

	values[EO_OUTBOX_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[EO_OUTBOX_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[EO_OUTBOX_DIGEST - 1] = eo_outbox_scan_digest(&digest, row->digest);
	/* uuid_in() is slow, and raises an error about what is no token. */
	values[EO_OUTBOX_TOKEN - 1] = eo_hex_read_uuid(row->token, token.data) ?
		UUIDPGetDatum(&token) : DirectFunctionCall1(uuid_in, CStringGetDatum(row->token));
	values[EO_OUTBOX_SERVER - 1] = ObjectIdGetDatum(row->target.serverid);
	values[EO_OUTBOX_ROLE - 1] = ObjectIdGetDatum(row->target.userid);
	values[EO_OUTBOX_URL - 1] = CStringGetTextDatum(row->target.url);
	values[EO_OUTBOX_PLAIN_HTTP - 1] = BoolGetDatum(row->target.plain_http);
	values[EO_OUTBOX_REGION - 1] = CStringGetTextDatum(row->target.region);
	values[EO_OUTBOX_TABLE - 1] = CStringGetTextDatum(row->target.table);
	values[EO_OUTBOX_LAYOUT - 1] = CStringGetTextDatum(row->target.layout);
	values[EO_OUTBOX_PK - 1] = CStringGetTextDatum(row->pk);
	values[EO_OUTBOX_RETENTION - 1] = Int64GetDatum(row->retention_s);
	values[EO_OUTBOX_XID - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	values[EO_OUTBOX_CREATED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[EO_OUTBOX_GIVEN_UP - 1] = BoolGetDatum(false);
	memcpy(life.data, row->life, sizeof(life.data));
	values[EO_OUTBOX_LIFE - 1] = UUIDPGetDatum(&life);
	values[EO_OUTBOX_PREFIX - 1] = CStringGetTextDatum(row->target.prefix);
	values[EO_OUTBOX_TROUBLE - 1] = Int16GetDatum(EO_TROUBLE_NONE);
	values[EO_OUTBOX_ATTEMPTS - 1] = Int32GetDatum(0);
	nulls[EO_OUTBOX_FAILING_SINCE - 1] = nulls[EO_OUTBOX_REASON - 1] = true;
	nulls[EO_OUTBOX_REASON_ITEM - 1] = true;
	form_writes(&row->writes, values, nulls);
	return heap_form_tuple(eo_internal_form_desc(EO_INTERNAL_OUTBOX), values, nulls);
}

/* The owner of a record may be any text, by another program.  No row bears that. */
static bool
read_token(const char *text, uint8 *token)
{
	return text != NULL && strlen(text) == EO_TOKEN_LEN && eo_hex_read_uuid(text, token);
}

/* The evidence of the rows that are undecided, or of those that are committed. */
static EoFate
find_rows(const uint8 *token, bool undecided, const EoOrigin *origin, int64 *retention_s)
{
	EoFate		found = EO_FATE_UNKNOWN;
	EoOutboxScan scan;
	HeapTuple	tuple;

	eo_outbox_scan_begin_claim(&scan, token, undecided ? EO_LOOK_UNDECIDED : EO_LOOK_COMMITTED);
	while (HeapTupleIsValid(tuple = eo_outbox_scan_next(&scan)))
	{
		Datum		xid = eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_XID);
		Datum		life = eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_LIFE);

		/*
		 * After a failover an id may be that of two transactions, of two
		 * lives.
		 */
		if (!eo_origin_is_of(origin, DatumGetUUIDP(life)->data,
							 U64FromFullTransactionId(DatumGetFullTransactionId(xid))))
			found = Max(found, undecided ? EO_FATE_OTHER_RUNNING : EO_FATE_OTHER_COMMITTED);
		else if (undecided)
			found = EO_FATE_RUNNING;
		else
		{
			found = EO_FATE_COMMITTED;
			if (retention_s != NULL)
				*retention_s =
					DatumGetInt64(eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_RETENTION));
		}
	}
	eo_outbox_scan_end(&scan);
	return found;
}

/*
 * The undecided rows are looked for first: their transactions may commit between the two looks,
 * and then the second look finds the rows.
 */
EoFate
eo_outbox_find(const char *token, const EoOrigin *origin, int64 *retention_s)
{
	uint8		bytes[EO_UUID_LEN];
	EoFate		undecided;
	EoFate		committed;

	if (!read_token(token, bytes))
		return EO_FATE_UNKNOWN;
	undecided = find_rows(bytes, true, origin, retention_s);
	committed = find_rows(bytes, false, origin, retention_s);
	return Max(undecided, committed);
}

bool
eo_outbox_read_claim(const char *token, EoOutboxRow *row)
{
	uint8		bytes[EO_UUID_LEN];
	EoOutboxScan scan;
	HeapTuple	tuple;

	if (!read_token(token, bytes))
		return false;
	eo_outbox_scan_begin_claim(&scan, bytes, EO_LOOK_COMMITTED);
	tuple = eo_outbox_scan_next(&scan);
	if (HeapTupleIsValid(tuple) && row != NULL)
		eo_outbox_scan_read(&scan, tuple, row);
	eo_outbox_scan_end(&scan);
	return HeapTupleIsValid(tuple);
}

/*
 * Call visit() for the rows of a scan, until it returns false.  Ends the scan.  Returns
 * true if visit() has always done so.
 */
static bool
visit_rows(EoOutboxScan *s, bool given_up, bool (*visit) (const EoOutboxRow *row))
{
	HeapTuple	tuple;
	bool		go_on = true;

	while (go_on && HeapTupleIsValid(tuple = eo_outbox_scan_next(s)))
	{
		EoOutboxRow row;

		eo_outbox_scan_read(s, tuple, &row);
		if (given_up || !row.given_up)
			go_on = visit(&row);
		pfree(row.pk);
		if (row.writes.n > 0)
			pfree(unconstify(char *, row.writes.items));
	}
	eo_outbox_scan_end(s);
	return go_on;
}

char *
eo_outbox_read_writes(const uint8 *digest, const char *token)
{
	EoOutboxScan scan;
	HeapTuple	tuple;
	char	   *text = NULL;

	eo_outbox_scan_begin(&scan, AccessShareLock, digest);
	tuple = eo_outbox_scan_claim(&scan, token);
	if (HeapTupleIsValid(tuple) && eo_outbox_scan_has_writes(&scan, tuple))
	{
		bytea	   *body = DatumGetByteaPP(eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_BODY));

		text = pnstrdup(VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body));
	}
	eo_outbox_scan_end(&scan);
	return text;
}

/* Lock a row that is to be changed.  What another transaction has made of it meanwhile is told. */
static TM_Result
lock_row(const EoOutboxScan *s, HeapTuple tuple, LockWaitPolicy policy)
{
	HeapTupleData locked = {.t_self = tuple->t_self,.t_tableOid = tuple->t_tableOid};
	TM_FailureData failure;
	Buffer		buffer;
	TM_Result	result;

	result = heap_lock_tuple(s->rel, &locked, GetCurrentCommandId(true), LockTupleNoKeyExclusive,
							 policy, false, &buffer, &failure);
	ReleaseBuffer(buffer);
	return result;
}

bool
eo_outbox_note(const uint8 *digest, const char *token, const EoOutboxNote *note)
{
	EoOutboxScan scan;
	HeapTuple	tuple;
	Datum		values[EO_OUTBOX_COLUMNS] = {0};
	bool		nulls[EO_OUTBOX_COLUMNS] = {false};
	bool		replace[EO_OUTBOX_COLUMNS] = {false};
	bool		noted = false;

	values[EO_OUTBOX_TROUBLE - 1] = Int16GetDatum((int16) note->trouble);
	values[EO_OUTBOX_ATTEMPTS - 1] = Int32GetDatum(note->attempts);
	values[EO_OUTBOX_FAILING_SINCE - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[EO_OUTBOX_REASON - 1] = CStringGetTextDatum(note->reason);
	values[EO_OUTBOX_REASON_ITEM - 1] = Int32GetDatum(note->item);
	nulls[EO_OUTBOX_REASON_ITEM - 1] = note->item == 0;
	for (int c = EO_OUTBOX_TROUBLE; c <= EO_OUTBOX_REASON_ITEM; c++)
		replace[c - 1] = true;
	eo_outbox_scan_begin(&scan, RowExclusiveLock, digest);
	tuple = eo_outbox_scan_claim(&scan, token);
	if (HeapTupleIsValid(tuple))
	{
		replace[EO_OUTBOX_FAILING_SINCE - 1] =
			heap_attisnull(tuple, EO_OUTBOX_FAILING_SINCE, RelationGetDescr(scan.rel));

		/*
		 * An operator may be giving it up.  The worker must not wait for
		 * that.
		 */
		noted = lock_row(&scan, tuple, LockWaitSkip) == TM_Ok;
		if (noted)
			CatalogTupleUpdate(scan.rel, &tuple->t_self,
							   heap_modify_tuple(tuple, scan.desc, values, nulls,
												 replace));
	}
	eo_outbox_scan_end(&scan);
	return noted;
}

bool
eo_outbox_visit(BlockNumber from, bool (*visit) (const EoOutboxRow *row))
{
	EoOutboxScan scan;

	eo_outbox_scan_begin_table(&scan, from);
	return visit_rows(&scan, false, visit);
}

bool
eo_outbox_visit_undecided(bool (*visit) (const EoOutboxRow *row))
{
	EoOutboxScan scan;

	eo_outbox_scan_begin_undecided(&scan, NULL);
	return visit_rows(&scan, true, visit);
}

bool
eo_outbox_visit_all(bool (*visit) (const EoOutboxRow *row))
{
	EoOutboxScan scan;

	eo_outbox_scan_begin_table(&scan, 0);
	return visit_rows(&scan, true, visit) && eo_outbox_visit_undecided(visit);
}

bool
eo_outbox_read(const uint8 *digest, EoOutboxRow *row)
{
	EoOutboxScan scan;
	HeapTuple	tuple;

	eo_outbox_scan_begin(&scan, AccessShareLock, digest);
	tuple = eo_outbox_scan_next(&scan);
	if (HeapTupleIsValid(tuple))
		eo_outbox_scan_read(&scan, tuple, row);
	eo_outbox_scan_end(&scan);
	return HeapTupleIsValid(tuple);
}

/*
 * A token can claim, and is shown to nobody.  So the id is a digest of it, and of the
 * transaction: under one token two of them may have completed a key.
 */
void
eo_outbox_id(const EoOutboxRow *row, pg_uuid_t *id)
{
	struct
	{
		char		header[VARHDRSZ];
		uint8		token[EO_UUID_LEN];
		uint8		xid[sizeof(uint64)];
	}			name;
	uint64		xid = pg_hton64(row->xid);
	Datum		digest;

	SET_VARSIZE(&name, sizeof(name));
	(void) eo_hex_read_uuid(row->token, name.token);
	memcpy(name.xid, &xid, sizeof(xid));
	digest = DirectFunctionCall1(sha256_bytea, PointerGetDatum(&name));
	memcpy(id->data, VARDATA_ANY(DatumGetByteaPP(digest)), UUID_LEN);
}

bool
eo_outbox_read_by_id(const pg_uuid_t *id, EoOutboxRow *row)
{
	EoOutboxScan scan;
	HeapTuple	tuple;
	bool		found = false;

	eo_outbox_scan_begin(&scan, AccessShareLock, NULL);
	while (!found && HeapTupleIsValid(tuple = eo_outbox_scan_next(&scan)))
	{
		pg_uuid_t	its;

		eo_outbox_scan_read(&scan, tuple, row);
		eo_outbox_id(row, &its);
		found = memcmp(its.data, id->data, UUID_LEN) == 0;
	}
	eo_outbox_scan_end(&scan);
	return found;
}

bool
eo_outbox_remove(const uint8 *digest, const char *token)
{
	EoOutboxScan scan;
	bool		removed;

	eo_outbox_scan_begin(&scan, RowExclusiveLock, digest);
	removed = delete_row(&scan, eo_outbox_scan_claim(&scan, token));
	eo_outbox_scan_end(&scan);
	return removed;
}

/*
 * An operator may have given the row up, in a transaction that goes on.  The worker must
 * not wait for its end.
 */
static bool
delete_row(EoOutboxScan *s, HeapTuple tuple)
{
	TM_FailureData failure;

	return HeapTupleIsValid(tuple) &&
		eo_compat_heap_delete(s->rel, &tuple->t_self, &failure) == TM_Ok;
}

void
eo_outbox_remove_rows(EoOutboxRow *const *rows, int n)
{
	EoOutboxScan scan;
	HeapTuple	tuple;

	eo_outbox_scan_open(&scan, RowExclusiveLock, EO_LOOK_COMMITTED);
	for (int i = 0; i < n; i++)
	{
		eo_outbox_scan_find(&scan, GetSystemIdentifier(), MyDatabaseId, rows[i]->digest);
		tuple = eo_outbox_scan_claim(&scan, rows[i]->token);
		rows[i]->given_up = HeapTupleIsValid(tuple) && !delete_row(&scan, tuple);
		systable_endscan(scan.scan);
	}
	eo_outbox_scan_close(&scan);
}

/* TM_Updated and others: another transaction has changed it, so it is to be looked for again. */
static TM_Result
try_give_up(const uint8 *digest, const char *token, bool *there)
{
	EoOutboxScan scan;
	HeapTuple	tuple;
	Datum		values[EO_OUTBOX_COLUMNS] = {0};
	bool		nulls[EO_OUTBOX_COLUMNS] = {false};
	bool		replace[EO_OUTBOX_COLUMNS] = {false};
	TM_Result	result = TM_Deleted;

	values[EO_OUTBOX_GIVEN_UP - 1] = BoolGetDatum(true);
	replace[EO_OUTBOX_GIVEN_UP - 1] = true;
	eo_outbox_scan_begin(&scan, RowExclusiveLock, digest);
	tuple = eo_outbox_scan_claim(&scan, token);
	*there = HeapTupleIsValid(tuple) &&
		!DatumGetBool(eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_GIVEN_UP));
	if (*there)
		result = lock_row(&scan, tuple, LockWaitBlock);
	if (result == TM_Ok)
		CatalogTupleUpdate(scan.rel, &tuple->t_self,
						   heap_modify_tuple(tuple, scan.desc, values, nulls,
											 replace));
	eo_outbox_scan_end(&scan);
	return result;
}

/*
 * The worker may be noting a failure in the row, or removing it, or another operator be giving it
 * up.  Their transactions are waited for, and what they have left counts.
 */
bool
eo_outbox_give_up(const uint8 *digest, const char *token)
{
	bool		there;
	TM_Result	result;

	do
	{
		CHECK_FOR_INTERRUPTS();
		result = try_give_up(digest, token, &there);
	} while (there && (result == TM_Updated || result == TM_Deleted));
	return result == TM_Ok;
}

int
eo_outbox_given_up(TimestampTz *oldest)
{
	EoOutboxScan scan;
	HeapTuple	tuple;
	int			n = 0;

	*oldest = DT_NOEND;
	eo_outbox_scan_begin_table(&scan, 0);
	while (HeapTupleIsValid(tuple = eo_outbox_scan_next(&scan)))
	{
		Datum		at = eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_CREATED);

		if (!DatumGetBool(eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_GIVEN_UP)))
			continue;
		*oldest = Min(*oldest, DatumGetTimestampTz(at));
		n++;
	}
	eo_outbox_scan_end(&scan);
	return n;
}

/* End a scan.  Has it found a row?  *changing: of a transaction that goes on. */
static bool
finds_any(EoOutboxScan *s, bool *changing)
{
	bool		found = HeapTupleIsValid(systable_getnext(s->scan));

	*changing |= found &&
		(TransactionIdIsValid(s->dirty.xmin) || TransactionIdIsValid(s->dirty.xmax));
	eo_outbox_scan_end(s);
	return found;
}

/*
 * The OIDs of roles are the same after pg_upgrade, and those of servers are not: the row
 * gets the one that leads to its table now, or none.
 */
static void
adopt_row(EoOutboxScan *s, HeapTuple tuple, Oid serverid)
{
	Datum		values[EO_OUTBOX_COLUMNS] = {0};
	bool		nulls[EO_OUTBOX_COLUMNS] = {false};
	bool		replace[EO_OUTBOX_COLUMNS] = {false};

	values[EO_OUTBOX_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[EO_OUTBOX_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[EO_OUTBOX_SERVER - 1] = ObjectIdGetDatum(serverid);
	replace[EO_OUTBOX_SYSTEM - 1] = replace[EO_OUTBOX_DATABASE - 1] = true;
	replace[EO_OUTBOX_SERVER - 1] = true;

	/* They come before all rows that are inserted here, and keep their order. */
	if (eo_outbox_scan_has_writes(s, tuple))
	{
		int64		number = DatumGetInt64(eo_outbox_scan_column(s, tuple, EO_OUTBOX_NUMBER));

		values[EO_OUTBOX_NUMBER - 1] = Int64GetDatum(number | PG_INT64_MIN);
		replace[EO_OUTBOX_NUMBER - 1] = true;
	}
	CatalogTupleUpdate(s->rel, &tuple->t_self,
					   heap_modify_tuple(tuple, s->desc, values, nulls, replace));
}

bool
eo_outbox_is_of_owner(const EoOutboxRow *row, Oid owner)
{
	uint8		digest[EO_DIGEST_LEN];

	eo_target_digest_of(&row->target, owner, row->pk, digest);
	return memcmp(digest, row->digest, EO_DIGEST_LEN) == 0;
}

/*
 * The owner that the server of a row of the original had.  The id of the server may be that of
 * another one here.  If he has no server here the row counts as that of a superuser.
 */
static Oid
owner_of(const EoOutboxRow *row)
{
	Oid			owner = row->target.owner;
	List	   *servers;
	ListCell   *cell;

	if (eo_outbox_is_of_owner(row, owner))
		return owner;
	owner = InvalidOid;
	servers = eo_options_servers();
	foreach(cell, servers)
	{
		Oid			its = eo_options_owner(lfirst_oid(cell), InvalidOid);

		if (eo_outbox_is_of_owner(row, its))
			owner = its;
	}
	list_free(servers);
	return owner;
}

/* The next row of the original that names one of its lives; NULL: there is none. */
static HeapTuple
next_of_original(EoOutboxScan *s, const EoHistory *history, EoOutboxRow *row)
{
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = eo_outbox_scan_next(s)))
	{
		eo_outbox_scan_read(s, tuple, row);
		row->target.owner = owner_of(row);
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
	EoOutboxScan s;
	HeapTuple	tuple;
	EoOutboxRow row;
	EoTarget	last = {0};
	Oid			serverid = InvalidOid;
	const EoLifeRow *original = eo_life_rows_original(history);
	bool		all = true;

	if (original == NULL)
		return true;
	eo_outbox_scan_begin_of(&s, RowExclusiveLock, original->system, original->dboid, NULL);
	while (HeapTupleIsValid(tuple = next_of_original(&s, history, &row)))
	{
		bool		changing = false;

		if (memcmp(&row.target, &last, sizeof(last)) != 0)
			serverid = eo_known_target_server(&row.target);
		last = row.target;
		/* Inserting a second row would wait for the transaction of the first. */
		if (!has_own(&row, &changing))
		{
			/* Somebody else may be taking the same life over. */
			if (lock_row(&s, tuple, LockWaitSkip) == TM_Ok)
				adopt_row(&s, tuple, serverid);
			else
				changing = true;
		}
		all &= !changing;
	}
	eo_outbox_scan_end(&s);
	return all;
}

/* Is there a row of ours for this key, or of its claim by any address of its table? */
static bool
has_own(const EoOutboxRow *row, bool *changing)
{
	uint8		token[EO_UUID_LEN];
	EoOutboxScan s;

	eo_outbox_scan_begin_undecided(&s, row->digest);
	if (finds_any(&s, changing))
		return true;
	if (!read_token(row->token, token))
		return false;
	eo_outbox_scan_begin_claim(&s, token, EO_LOOK_UNDECIDED);
	return finds_any(&s, changing);
}

bool
eo_outbox_any_of_original(Oid serverid)
{
	EoOutboxScan s;
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
		eo_outbox_scan_begin_of(&s, AccessShareLock, original->system, original->dboid, NULL);
		while (!any && HeapTupleIsValid(next_of_original(&s, &history, &row)))
			any = !row.given_up &&
				(!OidIsValid(serverid) || eo_known_target_server(&row.target) == serverid);
		eo_outbox_scan_end(&s);
	}
	pfree(history.rows);
	return any;
}

bool
eo_outbox_any(Oid serverid)
{
	EoOutboxScan scan;
	HeapTuple	tuple;
	bool		any = false;

	if (!OidIsValid(eo_internal_look()))
		return false;
	eo_outbox_scan_begin(&scan, AccessShareLock, NULL);
	/* eo_outbox_scan_next() would leave out the rows of our own transaction. */
	while (!any && HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
		any = !DatumGetBool(eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_GIVEN_UP)) &&
			(!OidIsValid(serverid) ||
			 DatumGetObjectId(eo_outbox_scan_column(&scan, tuple, EO_OUTBOX_SERVER)) == serverid);
	eo_outbox_scan_end(&scan);
	return any;
}
