/*-------------------------------------------------------------------------
 *
 * outbox_scan.h
 *	  Scans of the outbox, and how a row is read; for outbox.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_OUTBOX_SCAN_H
#define EO_LEDGER_OUTBOX_SCAN_H

#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/tupdesc.h"
#include "cluster/target.h"
#include "ledger/outbox_row.h"
#include "storage/lockdefs.h"
#include "utils/snapshot.h"
#include "utils/uuid.h"

/* Columns of the table, as the install script makes them. */
typedef enum EoOutboxColumn
{
	EO_OUTBOX_SYSTEM = 1,
	EO_OUTBOX_DATABASE,
	EO_OUTBOX_DIGEST,
	EO_OUTBOX_TOKEN,
	EO_OUTBOX_SERVER,
	EO_OUTBOX_ROLE,
	EO_OUTBOX_URL,
	EO_OUTBOX_PLAIN_HTTP,
	EO_OUTBOX_REGION,
	EO_OUTBOX_TABLE,
	EO_OUTBOX_LAYOUT,
	EO_OUTBOX_PK,
	EO_OUTBOX_RETENTION,
	EO_OUTBOX_XID,
	EO_OUTBOX_CREATED,
	EO_OUTBOX_GIVEN_UP,
	EO_OUTBOX_LIFE,
	EO_OUTBOX_PREFIX,

	/* NULL in a row without writes. */
	EO_OUTBOX_WRITES,
	EO_OUTBOX_NUMBER,
	EO_OUTBOX_ITEMS,
	EO_OUTBOX_BODY,

	/* The note of eo_outbox_note(); but for the first two NULL until then. */
	EO_OUTBOX_TROUBLE,
	EO_OUTBOX_ATTEMPTS,
	EO_OUTBOX_FAILING_SINCE,
	EO_OUTBOX_REASON,
	EO_OUTBOX_REASON_ITEM,
	EO_OUTBOX_COLUMNS = EO_OUTBOX_REASON_ITEM
} EoOutboxColumn;

/* A digest as PostgreSQL holds a bytea. */
typedef struct EoDigestDatum
{
	char		header[VARHDRSZ];
	uint8		digest[EO_DIGEST_LEN];
} EoDigestDatum;

/*
 * Rows that a scan shows: committed ones; those of transactions that go on, too; or every version
 * that is still there, whatever has become of it.
 */
typedef enum EoOutboxLook
{
	EO_LOOK_COMMITTED,
	EO_LOOK_UNDECIDED,
	EO_LOOK_ALL
} EoOutboxLook;

/* A scan over rows of a database. */
typedef struct EoOutboxScan
{
	Relation	rel;
	TupleDesc	desc;			/* of its rows, see internal_form.h */
	LOCKMODE	mode;
	EoOutboxLook look;			/* undecided: by dirty, not snapshot */
	Snapshot	snapshot;
	SnapshotData dirty;
	EoDigestDatum digest;
	pg_uuid_t	token;
	ScanKeyData keys[3];
	SysScanDesc scan;
} EoOutboxScan;

/* Scan the committed rows of this database, or that of one key (digest not NULL). */
extern void eo_outbox_scan_begin(EoOutboxScan *s, LOCKMODE mode, const uint8 *digest);

/* The same, also for rows of transactions that go on. */
extern void eo_outbox_scan_begin_undecided(EoOutboxScan *s, const uint8 *digest);

/*
 * Scan the rows of this database that bear a token (EO_UUID_LEN bytes); committed ones, or those of
 * transactions that go on, too (undecided).
 */
extern void eo_outbox_scan_begin_claim(EoOutboxScan *s, const uint8 *token, EoOutboxLook look);

/* The same for the rows whose records have that partition key, in whatever table. */
extern void eo_outbox_scan_begin_pk(EoOutboxScan *s, const char *pk, EoOutboxLook look);

/* As eo_outbox_scan_begin(), for the rows of any database. */
extern void eo_outbox_scan_begin_of(EoOutboxScan *s, LOCKMODE mode, uint64 system,
									Oid dboid, const uint8 *digest);

/* Scan the rows of this database without an index, from a block on. */
extern void eo_outbox_scan_begin_table(EoOutboxScan *s, BlockNumber from);

/* The two halves of eo_outbox_scan_begin_of(), for several scans with one snapshot. */
extern void eo_outbox_scan_open(EoOutboxScan *s, LOCKMODE mode, EoOutboxLook look);
extern void eo_outbox_scan_find(EoOutboxScan *s, uint64 system, Oid dboid,
								const uint8 *digest);

/*
 * The next row, which is committed and not of our transaction; of a scan for undecided rows, the
 * next one whose transaction goes on and is not ours.  And that of the claim with this token.
 * NULL: there is none.
 */
extern HeapTuple eo_outbox_scan_next(EoOutboxScan *s);
extern HeapTuple eo_outbox_scan_claim(EoOutboxScan *s, const char *token);

/* End the scan and close the table, or close it alone.  A lock for writing is kept. */
extern void eo_outbox_scan_end(EoOutboxScan *s);
extern void eo_outbox_scan_close(EoOutboxScan *s);

/* Read a row, and parts of it.  pk and the items of the writes are palloc'd. */
extern void eo_outbox_scan_read(const EoOutboxScan *s, HeapTuple tuple, EoOutboxRow *row);
extern bool eo_outbox_scan_has_writes(const EoOutboxScan *s, HeapTuple tuple);

/* The value of a column that is not NULL; and a digest as a value. */
extern Datum eo_outbox_scan_column(const EoOutboxScan *s, HeapTuple tuple,
								   EoOutboxColumn column);
extern Datum eo_outbox_scan_digest(EoDigestDatum *datum, const uint8 *digest);

#endif							/* EO_LEDGER_OUTBOX_SCAN_H */
