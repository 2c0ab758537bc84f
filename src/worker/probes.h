/*-------------------------------------------------------------------------
 *
 * probes.h
 *	  The worker asks whether a service that was away is back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_PROBES_H
#define EO_WORKER_PROBES_H

#include "postgres.h"

/* Add a job for each open circuit of this worker's targets whose turn it is. */
extern void eo_probes_fetch(void);

/* When it is to be called again; INT64_MAX: no circuit is open. */
extern int64 eo_probes_due_us(void);

#endif							/* EO_WORKER_PROBES_H */
