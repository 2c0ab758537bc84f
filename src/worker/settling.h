/*-------------------------------------------------------------------------
 *
 * settling.h
 *	  Jobs of a worker: settle claims whose transactions are over, and extend the
 *	  leases of claims whose transactions are open.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_SETTLING_H
#define EO_WORKER_SETTLING_H

#include "postgres.h"

/* To be called once. */
extern void eo_settling_init(MemoryContext context);

/*
 * Take slots that are due off the list of this database, and add jobs that settle
 * them.  Runs transactions of its own; raises what eo_outbox_find() raises.
 */
extern void eo_settling_fetch(void);

/* When the next slot is due, for a heartbeat or to be settled; INT64_MAX: never. */
extern int64 eo_settling_due_us(void);

/* Are there slots that wait for room among the jobs of their target? */
extern bool eo_settling_any(void);

/* Add jobs that extend the leases which are due. */
extern void eo_settling_fetch_beats(void);

#endif							/* EO_WORKER_SETTLING_H */
