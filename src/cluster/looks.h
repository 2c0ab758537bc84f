/*-------------------------------------------------------------------------
 *
 * looks.h
 *	  Claims that are buried and wait for another look, in the order of these looks.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_LOOKS_H
#define EO_CLUSTER_LOOKS_H

#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/life.h"
#include "cluster/slot.h"
#include "cluster/target.h"

/* ---- for the worker of a database ---- */

/* Take the next slot whose look is due off its list. */
extern bool eo_look_next(Oid dboid, int64 now_us, EoSlotView *view);

/* When the next look is due, about; INT64_MAX: none waits. */
extern int64 eo_look_due_us(Oid dboid);

/* ---- scans that are owed instead of looks ---- */

/*
 * Does the current life of a database owe a scan, in a place that was reached by that server
 * last, or InvalidOid: in any that is no tenant's?  Not while exactonce.recovery_scan is 0.
 */
extern bool eo_look_owes_scan(Oid dboid, Oid serverid);

/* Copy the place whose scan has been owed for longest.  False: there is none. */
extern bool eo_look_owed_scan(Oid dboid, EoPlace *place);

/* A scan of this table that began at that instant (monotonic) has ended what it has found. */
extern void eo_look_scan_done(const EoTarget *target, int64 began_us);

/* ---- for slots.c; the caller must hold the lock ---- */

/* Have a slot that is BURIED wait for its next look. */
extern void eo_look_list(EoSlot *slot);

/*
 * The slot that makes way, to be freed by the caller: that of the role's oldest look, if it has
 * any, else that of the role which has most, unless own is set.  NULL: none can.
 */
extern EoSlot *eo_look_to_give_up(const EoTargetEntry *entry, bool own);

#endif							/* EO_CLUSTER_LOOKS_H */
