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

/* To be called once. */
extern void eo_worker_prepared_init(MemoryContext context);

/* End the claims of prepared transactions that are over, if it is time to look. */
extern void eo_worker_prepared_fetch(void);

/* The next look; INT64_MAX: none of them has claims. */
extern int64 eo_worker_prepared_due_us(void);

#endif							/* EO_COMMIT_WORKER_PREPARED_H */
