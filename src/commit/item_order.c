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
 * An item's lock is that of an object of the outbox, by 47 bits of the item's hash.  Items
 * that share them wait for each other without need, which does no harm.  Memory for
 * locks is bounded (max_locks_per_transaction).  So a transaction that has locked many items
 * takes one lock instead that keeps out all other transactions with writes.  Everybody else
 * holds that one in a mode that conflicts with it only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "commit/internal.h"
#include "commit/item_order.h"
#include "miscadmin.h"
#include "storage/lock.h"

/* A transaction that locks more items than this locks all of them. */
#define MAX_LOCKED (4 * max_locks_per_xact)

static struct
{
	FullTransactionId transaction;	/* that the rest is about */
	int			locked;			/* at least as many as it has locked */
}			order;

static int
compare(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

static void
lock(Oid object, uint16 part, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, eo_internal_id(EO_INTERNAL_OUTBOX), object, part);
	(void) LockAcquire(&tag, mode, false, false);
}

void
eo_item_order_lock(uint64 *items, int n)
{
	FullTransactionId mine = GetTopFullTransactionId();

	if (!FullTransactionIdEquals(order.transaction, mine))
		order.locked = 0;
	order.transaction = mine;
	qsort(items, n, sizeof(uint64), compare);

	/*
	 * A level that is rolled back has released its locks, so each call takes
	 * them all.
	 */
	lock(InvalidOid, 0, RowExclusiveLock);
	if (order.locked + n > MAX_LOCKED)
	{
		lock(InvalidOid, 0, ShareRowExclusiveLock);
		return;
	}
	for (int i = 0; i < n; i++)
		lock((Oid) (items[i] >> 32), (uint16) items[i] | 1, ExclusiveLock);
	order.locked += n;
}

int64
eo_item_order_number(void)
{
	return (int64) GetXLogInsertRecPtr();
}
