/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Claiming many keys in parallel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_BATCH_H
#define EO_KEYS_BATCH_H

#include "postgres.h"

#include "keys/acquire.h"
#include "server/store.h"

/* Takes the outcome for a key, whose strings are freed after it has returned. */
typedef void (*EoEmitClaim) (void *arg, const char *key, const EoClaim *claim);

/*
 * As eo_acquire() for each of n keys, parallel_requests of the server at a time.
 * emit() is called once for each, in the order of the keys.  The wait_ms of the
 * first key is the time that all keys together may be waited for.  Raises what
 * eo_acquire() raises; then the claims made so far are given back by the abort of
 * the (sub)transaction, and their runs are not counted.
 */
extern void eo_batch_acquire(EoStore *store, const EoAcquire *asks, int n,
							 EoEmitClaim emit, void *arg);

#endif							/* EO_KEYS_BATCH_H */
