/*-------------------------------------------------------------------------
 *
 * prepared_ends.h
 *	  For a worker: the claims of prepared transactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_PREPARED_ENDS_H
#define EO_WORKER_PREPARED_ENDS_H

#include "postgres.h"

/* To be called once. */
extern void eo_prepared_ends_init(MemoryContext context);

/* End the claims of prepared transactions that are over, if it is time to look. */
extern void eo_prepared_ends_fetch(void);

/* The next look; INT64_MAX: none of them has claims. */
extern int64 eo_prepared_ends_due_us(void);

#endif							/* EO_WORKER_PREPARED_ENDS_H */
