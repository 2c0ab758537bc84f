/*-------------------------------------------------------------------------
 *
 * item_order.c
 *	  The order in which transactions write to items of DynamoDB.
 *
 * A transaction that hands in a write locks the item until it ends.  So if two
 * transactions write to one item, the second one gets the lock when the first one has
 * ended, and its row in the outbox is visible or will never be.  That gives the worker what
 * it needs: a snapshot that shows a row shows all rows before it that write to its
 * items, unless they are finished.
 *
 * The number of a write is the position in the WAL.  The commit record of the first
 * transaction lies between its rows and the number of the second; and within a transaction
 * each row lies between two numbers.  A position never goes back in the data that
 * the rows are in, be it on a standby that is promoted or after a recovery.
 *
 * An item's lock is that of a bucket, by the item's hash.  Items that share one wait for each
 * other without need.  Memory for locks is bounded, and a transaction may write to more items
 * than there is room for.  Each table of a tenant has buckets of its own: whoever may write to
 * it can hold up all who write there, and nobody else.  There is one mode, and the buckets that are
 * locked together are locked in the order of their numbers.  So of transactions that lock
 * once, as mirrors do when they commit, no two wait for each other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "ledger/internal.h"
#include "ledger/item_order.h"
#include "miscadmin.h"
#include "storage/lock.h"

/*
 * The number of different locks of a table: they take up at most a 32nd of the memory for locks,
 * as a transaction may write to many tables.  But the locks of a prepared transaction outlive the
 * run of the server, and those of the next run are to meet them, whatever its settings are; so
 * are those of a standby that is promoted.
 */
#define BUCKETS ((uint64) (max_prepared_xacts > 0 ? 256 : \
						   Min(1024, Max(16, max_locks_per_xact * MaxBackends / 32))))

static int
compare(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/*
 * 16 bits each of tenant, table and bucket.  Tenants have no hash: nobody chooses his OID, but a
 * tenant may choose the names of his tables.
 */
uint64
eo_item_order_lock_of(Oid tenant, const char *table, uint64 item)
{
	uint64		its_table = hash_bytes((const unsigned char *) table, strlen(table)) & 0xFFFF;

	return (uint64) (tenant & 0xFFFF) << 32 | its_table << 16 | item % BUCKETS;
}

void
eo_item_order_lock(uint64 *locks, int n)
{
	LOCKTAG		tag;

	qsort(locks, n, sizeof(uint64), compare);

	/*
	 * A level that is rolled back has released its locks, so each call takes
	 * them all.
	 */
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && locks[i] == locks[i - 1])
			continue;
		SET_LOCKTAG_OBJECT(tag, MyDatabaseId, eo_internal_id(EO_INTERNAL_OUTBOX),
						   (Oid) locks[i], (uint16) (locks[i] >> 32));
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
	}
}

int64
eo_item_order_number(void)
{
	return (int64) GetXLogInsertRecPtr();
}
