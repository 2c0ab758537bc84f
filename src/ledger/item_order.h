/*-------------------------------------------------------------------------
 *
 * item_order.h
 *	  The order in which transactions write to items of DynamoDB.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_ITEM_ORDER_H
#define EO_LEDGER_ITEM_ORDER_H

#include "postgres.h"

/* The lock of an item of a table, by the item's hash; see eo_options_tenant(). */
extern uint64 eo_item_order_lock_of(Oid tenant, const char *table, uint64 item);

/*
 * Lock items until the transaction ends.  The locks are shown in pg_locks, and PostgreSQL's
 * deadlock detector sees them.  The array is sorted.  Raises 40P01, and what else the
 * wait for a lock ends with.
 */
extern void eo_item_order_lock(uint64 *locks, int n);

/*
 * A number for writes to items that this transaction has locked: greater than that of
 * every earlier write to one of them.  To be called right before the row with this number is
 * inserted into the outbox.
 */
extern int64 eo_item_order_number(void);

#endif							/* EO_LEDGER_ITEM_ORDER_H */
