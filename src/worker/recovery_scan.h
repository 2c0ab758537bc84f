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

#include "cluster/target.h"

/* To be called once, after eo_takeover_init(). */
extern void eo_recovery_scan_init(MemoryContext context);

/* Have the table scanned for records of a life, which by (a life of ours) has retired. */
extern void eo_recovery_scan_want(const EoTarget *target, const char *life, const char *by);

/* Do not scan the table for this life any more, because another heir may have it. */
extern void eo_recovery_scan_drop(const EoTarget *target, const char *life);

/* Send the next request, or take its answer.  Does not wait. */
extern void eo_recovery_scan_run(void);

/* When that is to be called again at the latest; and is a request in flight? */
extern int64 eo_recovery_scan_due_us(void);
extern bool eo_recovery_scan_in_flight(void);

/* Is a first pass still to be finished?  Then the worker stays. */
extern bool eo_recovery_scan_any(void);

/* The items of a table that the present pass has read; -1: none is under way. */
extern int64 eo_recovery_scan_progress(const EoTarget *target);

/* May the table still hold something that this life has left? */
extern bool eo_recovery_scan_is_wanted(const EoTarget *target, const char *life);

#endif							/* EO_WORKER_RECOVERY_SCAN_H */
