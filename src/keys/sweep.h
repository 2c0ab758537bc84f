/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  Deleting what is past its ttl, where DynamoDB does not.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_SWEEP_H
#define EO_KEYS_SWEEP_H

#include "postgres.h"

#include "server/store.h"

/* An item is past its ttl for so long at least. */
#define EO_SWEEP_MARGIN_MS INT64CONST(3600000)

/*
 * Scan the server's table and delete what has been past its ttl for margin_ms.  Returns how many
 * items were deleted, which stay so if an error is raised: ID006 and ID007 for a request that
 * failed, and interrupts.
 */
extern int64 eo_sweep(EoStore *store, int64 margin_ms, int units_per_second);

#endif							/* EO_KEYS_SWEEP_H */
