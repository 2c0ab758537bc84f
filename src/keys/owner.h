/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  Idempotency keys: the state machine, and what an answer means.
 *
 * All functions work on the current role's store, wait interruptibly, and
 * raise with class ID SQLSTATEs.  Strings returned are palloc'd.  What is
 * tied to the transaction takes effect with it, see xact.h and seal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_OWNER_H
#define EO_KEYS_OWNER_H

#include "postgres.h"

#include "compat.h"
#include "server/error.h"
#include "server/store.h"

/*
 * owner.c.  token NULL: the one this transaction or session holds.  result
 * NULL: no result.  immediate: written at once, whatever becomes of the
 * transaction.
 */
extern void eo_owner_complete(EoStore *store, const char *key, const char *token,
							  const char *result, bool immediate);

/*
 * Claimed by the commit itself.  retention_s -1: the server's.  guard: for whom,
 * as long as the transaction; NULL: for a call.
 */
extern void eo_owner_once(EoStore *store, const char *key, const char *result,
						  int64 retention_s, const EoGuard *guard);
extern void eo_owner_fail(EoStore *store, const char *key, const char *token,
						  const char *error, int64 retry_after_ms, bool terminal,
						  bool immediate);

/* False: there was nothing of ours to release. */
extern bool eo_owner_release(EoStore *store, const char *key, const char *token);

/* Returns the end of the lease, epoch milliseconds. */
extern int64 eo_owner_extend(EoStore *store, const char *key, const char *token,
							 int64 lease_ms);

#endif							/* EO_KEYS_OWNER_H */
