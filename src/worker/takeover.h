/*-------------------------------------------------------------------------
 *
 * takeover.h
 *	  The worker's second duty: lives that are over, and what they have left.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_TAKEOVER_H
#define EO_WORKER_TAKEOVER_H

#include "postgres.h"

/* Make jobs of the lives that are to be looked at now. */
extern void eo_takeover_fetch(void);

/* When that is to be called again at the latest. */
extern int64 eo_takeover_due_us(void);

#endif							/* EO_WORKER_TAKEOVER_H */
