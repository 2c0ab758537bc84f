/*-------------------------------------------------------------------------
 *
 * owed_scans.h
 *	  Tables that are to be scanned for what late seals may have left.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_OWED_SCANS_H
#define EO_CLUSTER_OWED_SCANS_H

#include "postgres.h"

#include "cluster/life.h"
#include "cluster/target.h"

/*
 * Does the current life of a database owe a scan, in a place that was reached by that server
 * last, or InvalidOid: by any?  Not while exactonce.recovery_scan is 0.
 */
extern bool eo_owed_scan_any(Oid dboid, Oid serverid);

/* Copy the place whose scan has been owed for longest.  False: there is none. */
extern bool eo_owed_scan_oldest(Oid dboid, EoPlace *place);

/* A scan of this table that began at that instant (monotonic) has ended what it has found. */
extern void eo_owed_scan_done(const EoTarget *target, int64 began_us);

/* ---- for the files of src/cluster; the caller must hold the lock ---- */

/*
 * A claim at commit in this table will not be looked at any more, though a late copy of its
 * seal may arrive.  Have the table scanned when none can.  False: no current life has an
 * open item there, which could promise that.
 */
extern bool eo_owed_scan_mark_locked(const EoTarget *target);

#endif							/* EO_CLUSTER_OWED_SCANS_H */
