/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Claiming many keys, side by side.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_BATCH_H
#define EO_KEYS_BATCH_H

#include "postgres.h"

#include "keys/acquire.h"
#include "server/store.h"

/*
 * batch.c.  The same for many keys, parallel_requests at a time.  wait_ms is that
 * of the first, and is for all of them together.  emit() gets the claims in the
 * order of the keys; their strings are gone when it returns.
 */
typedef void (*EoEmitClaim) (void *arg, const char *key, const EoClaim *claim);

extern void eo_batch_acquire(EoStore *store, const EoAcquire *asks, int n,
							 EoEmitClaim emit, void *arg);

#endif							/* EO_KEYS_BATCH_H */
