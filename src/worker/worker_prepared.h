/*-------------------------------------------------------------------------
 *
 * worker_prepared.h
 *	  For a worker: the claims of prepared transactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_PREPARED_H
#define EO_COMMIT_WORKER_PREPARED_H

#include "postgres.h"

#include "cluster/slots.h"

extern void eo_worker_prepared_init(Oid dboid);

/* End the claims of prepared transactions that are over, if it is time to look. */
extern void eo_worker_prepared_fetch(void);

/* The next look; INT64_MAX: none of them has claims. */
extern int64 eo_worker_prepared_due_us(void);

/*
 * Have the record of an ended claim read.  If the claim was found by its row only, its slot
 * tells after that all that settles it.  If other data settles it, the slot is freed
 * as soon as the record shows that it was settled.
 */
extern void eo_worker_prepared_read(const EoSlotView *view);

#endif							/* EO_COMMIT_WORKER_PREPARED_H */
