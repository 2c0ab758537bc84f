/*-------------------------------------------------------------------------
 *
 * sources.h
 *	  Sources of a worker's work that nobody but its main loop calls.
 *
 * The table in worker.c says what each kind of function is for.  Those that fetch may run
 * transactions of their own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_SOURCES_H
#define EO_WORKER_SOURCES_H

#include "postgres.h"

/* ---- prepared_ends.c: the claims of prepared transactions that are over ---- */

extern void eo_prepared_ends_init(void);
extern void eo_prepared_ends_fetch(void);
extern int64 eo_prepared_ends_due_us(void);

/* ---- probes.c: each open circuit of this worker's targets whose turn it is ---- */

extern void eo_probes_fetch(void);
extern int64 eo_probes_due_us(void);

/* ---- recovery_scan.c: what lives that are over have left in a table ---- */

/* Ask for the next page, if it is due, and take the one that has arrived.  Does not wait. */
extern void eo_recovery_scan_run(void);
extern bool eo_recovery_scan_in_flight(void);
extern int64 eo_recovery_scan_due_us(void);

/* Is a first pass not finished, of a table that can be scanned? */
extern bool eo_recovery_scan_any(void);

/* ---- settling.c: claims whose transactions are over, and heartbeats of the others ---- */

extern void eo_settling_init(void);

/* Take slots that are due off the list of this database.  Raises what eo_outbox_find() raises. */
extern void eo_settling_fetch(void);
extern int64 eo_settling_due_us(void);
extern bool eo_settling_any(void);

/* Extend the leases which are due. */
extern void eo_settling_fetch_beats(void);

/* ---- takeover.c: the lives that are to be looked at now ---- */

extern void eo_takeover_fetch(void);
extern int64 eo_takeover_due_us(void);

#endif							/* EO_WORKER_SOURCES_H */
