/*-------------------------------------------------------------------------
 *
 * cache.h
 *	  Completed keys that are answered from memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_CACHE_H
#define EO_CLUSTER_CACHE_H

#include "postgres.h"

#include "cluster/target.h"
#include "records/record.h"
#include "server/store.h"

/* A longer result is not kept, in bytes. */
#define EO_CACHE_MAX_RESULT 8192

/* In the hooks of shared memory: ask for it, and set it up. */
extern void eo_cache_request(void);
extern void eo_cache_init(void);

/* Is anything kept for this server?  If not, nothing is found below, and nothing is put. */
extern bool eo_cache_is_used(const EoStore *store);

/*
 * The digest by which a key is looked for here, kept and dropped.  The owner of a server does not
 * count: its credentials say who may be told.
 */
extern void eo_cache_digest(const EoTarget *target, const char *pk, uint8 *digest);

/*
 * Look for a key.  True: a record was seen COMPLETED less
 * than the server's cache_ttl ago, by somebody who signs as this store does, and it has not
 * reached its ttl.  The clock of the service must be known.  What r points to is palloc'd;
 * r has neither owner nor item.
 */
extern bool eo_cache_find(const EoStore *store, const uint8 *digest, EoRecord *r);

/*
 * Keep a record that DynamoDB has said is COMPLETED.  mark is what eo_cache_mark() gave
 * before the request was sent that has brought the record: if the key was dropped since,
 * the record may be older than that, and is not kept.
 */
extern uint64 eo_cache_mark(const EoStore *store, const uint8 *digest);
extern void eo_cache_put(const EoStore *store, const uint8 *digest, const EoRecord *r,
						 uint64 mark);

/*
 * Forget a key.  To be called before a write that may take a completed key back, and
 * again after it.
 */
extern void eo_cache_drop(const uint8 *digest);

#endif							/* EO_CLUSTER_CACHE_H */
