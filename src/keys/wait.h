/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Waiting for a key that another run holds.
 *
 * Both functions wait interruptibly, and return at give_up_us (monotonic clock) at
 * the latest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_WAIT_H
#define EO_KEYS_WAIT_H

#include "postgres.h"

#include "server/store.h"
#include "storage/lock.h"

/*
 * Wait for the end of a transaction of this cluster.  PostgreSQL's deadlock detector
 * sees this wait, and may raise 40P01; the user's own lock_timeout may raise 55P03.
 */
extern void eo_wait_for_holder(VirtualTransactionId holder, int64 give_up_us);

/*
 * Wait until DynamoDB should be asked again.  polls is the number of times that it
 * was asked before; the pause grows with it.  lease_until_ms is the end of the
 * lease that was found; 0: there is none.
 */
extern void eo_wait_for_poll(const EoStore *store, int polls, int64 lease_until_ms,
							 int64 give_up_us);

#endif							/* EO_KEYS_WAIT_H */
