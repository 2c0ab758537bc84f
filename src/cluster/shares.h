/*-------------------------------------------------------------------------
 *
 * shares.h
 *	  How much of the claim table each role and each database has.
 *
 * For the files of src/cluster only.  The caller must hold the lock of the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_SHARES_H
#define EO_CLUSTER_SHARES_H

#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/slot.h"
#include "cluster/target.h"

/* Find or make the entry of a target, which counts from now on.  EO_NO_INDEX: there is no room. */
extern uint32 eo_share_enter_target(const EoTarget *target);

extern void eo_share_take(const EoTargetEntry *entry, EoResource what, uint32 n);
extern void eo_share_give(const EoTargetEntry *entry, EoResource what, uint32 n);

/*
 * May that much more be taken?  EO_SLOT_OK; EO_SLOT_ROLE_SHARE and
 * EO_SLOT_DATABASE_SHARE if the rest is for others; full if there is not that much.
 */
extern EoSlotStatus eo_share_check(const EoTargetEntry *entry, EoResource what, uint32 n,
								   EoSlotStatus full);

/* The same for one more slot, whose key takes so many chunks; and for a target that is new. */
extern EoSlotStatus eo_share_check_slot(const EoTargetEntry *entry, const EoSlotInfo *info,
										uint32 nchunks);
extern EoSlotStatus eo_share_check_target(const EoTargetEntry *entry);

/* Has the role more looks than it may have of claims? */
extern bool eo_share_has_too_many_looks(const EoTargetEntry *entry);

/* Count a slot, and its key: as a claim, or as a look if it is BURIED. */
extern void eo_share_count_slot(const EoSlot *slot, bool take);

/* Does a new claim of this role settle one that a session holds, and that counts for both? */
extern bool eo_share_is_prepaid(const EoTargetEntry *entry, const EoSlotInfo *info);

/* The slot of a claim that a session held is about to be freed: the one that it paid for counts. */
extern void eo_share_end_prepayment(const EoSlotInfo *info);

/* The greatest part of its share that a role has taken; and the slots of all claims, and looks. */
extern double eo_share_fullest(uint32 *taken, uint32 *looks);

/* How much there is of it in all. */
extern int64 eo_share_capacity(EoResource what);

/* Walk through the roles of all databases; *cursor begins with 0. */
extern bool eo_share_next_role(uint32 *cursor, EoResource what, Oid *dboid, Oid *userid,
							   uint32 *taken);

#endif							/* EO_CLUSTER_SHARES_H */
