/*-------------------------------------------------------------------------
 *
 * worker_slots.h
 *	  Of a worker: settling claims whose transactions are over, and extending the
 *	  leases of those that are open.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_SLOTS_H
#define EO_COMMIT_WORKER_SLOTS_H

#include "postgres.h"

/* origin: the identity of the database. */
extern void eo_worker_slots_init(MemoryContext context, Oid dboid, const uint8 *origin);

/* Make jobs of slots that are due.  May begin transactions. */
extern void eo_worker_slots_fetch(void);

/* The same of leases. */
extern void eo_worker_slots_fetch_beats(void);

#endif							/* EO_COMMIT_WORKER_SLOTS_H */
