/*-------------------------------------------------------------------------
 *
 * recovery_scan.h
 *	  The recovery scan: what lives that are over have left in a table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_RECOVERY_SCAN_H
#define EO_WORKER_RECOVERY_SCAN_H

#include "postgres.h"

/* To be called once. */
extern void eo_recovery_scan_init(MemoryContext context);

/* Send the next request, or take its answer.  Does not wait. */
extern void eo_recovery_scan_run(void);

/* When that is to be called again at the latest; and is a request in flight? */
extern int64 eo_recovery_scan_due_us(void);
extern bool eo_recovery_scan_in_flight(void);

/* Is a first pass still to be finished?  Then the worker stays. */
extern bool eo_recovery_scan_any(void);

#endif							/* EO_WORKER_RECOVERY_SCAN_H */
