/*-------------------------------------------------------------------------
 *
 * looks.c
 *	  Claims that are buried and wait for another look, in the order of these looks.
 *
 * The first write of a claim, whose outcome was not known, may still arrive.  Until its
 * signature has expired the worker looks at the record again (worker/settling.c).
 * Such a slot is no claim of anybody any more.  So looks have room of their own, as much
 * as a role may have of claims (shares.c), and whatever else is needed for a claim they
 * make way for, the oldest first.
 *
 * - The look at an acquire makes way as it is.  If the request arrives after all, the
 *	 record is IN_PROGRESS without a holder, and the end of its lease frees the key.
 * - The look at a claim at commit makes way only for a scan that is owed (owed_scans.c).  A
 *	 late copy of the seal leaves the record COMMITTING, which no clock ends and nobody else
 *	 may take over.  So those of acquires go first.
 *
 * A role has a list for each kind and each number of looks.  The pause before a look depends
 * on that number alone, so the lists are in the order in which looks are due, and those with
 * most looks are the oldest.  Only a slot that was put off stands a little too far behind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/looks.h"
#include "cluster/owed_scans.h"
#include "cluster/slot.h"
#include "cluster/slot_views.h"
#include "server/guc.h"

void
eo_look_list(EoSlot *slot)
{
	EoShare    *share = &eo_claim_table.shares[eo_claim_table_target(slot)->role_share];
	EoLookKind	kind = eo_slot_has_origin(&slot->info) ? EO_LOOK_AT_COMMIT : EO_LOOK_AT_ACQUIRE;
	int			stage = Max(1, Min(slot->info.looks, EO_LOOKS)) - 1;

	eo_claim_table_list(slot, &share->looks[kind][stage]);
}

/* NULL: the list is empty. */
static EoSlot *
first_in(dlist_head *list)
{
	return dlist_is_empty(list) ? NULL : dlist_head_element(EoSlot, node, list);
}

/* The first slot in the lists of a database, by the due instants of those that are first. */
static EoSlot *
first_of(Oid dboid)
{
	EoSlot	   *found = NULL;

	for (uint32 i = 0; i < eo_claim_table.header->high_share; i++)
	{
		EoShare    *share = &eo_claim_table.shares[i];

		if (share->dboid != dboid || !OidIsValid(share->userid) ||
			share->taken[EO_RESOURCE_LOOKS] == 0)
			continue;
		for (int j = 0; j < EO_LOOK_KINDS * EO_LOOKS; j++)
		{
			EoSlot	   *first = first_in(&share->looks[j / EO_LOOKS][j % EO_LOOKS]);

			if (first != NULL && (found == NULL || first->info.due_us < found->info.due_us))
				found = first;
		}
	}
	return found;
}

bool
eo_look_next(Oid dboid, int64 now_us, EoSlotView *view)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *first = first_of(dboid);

	if (first == NULL || first->info.due_us > now_us)
		return false;
	eo_claim_table_unlist(first);
	eo_slot_view_fill(first, view);
	return true;
}

int64
eo_look_due_us(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoSlot *first = first_of(dboid);

	return first != NULL ? first->info.due_us : INT64_MAX;
}

/* ----- making way ----- */

/* The oldest slot of a list that can make way; of a claim at commit the place is marked. */
static EoSlot *
give_up_one(dlist_head *list, EoLookKind kind)
{
	uint32		unmarked = EO_NO_INDEX; /* a target whose place cannot be */
	dlist_iter	iter;

	if (kind == EO_LOOK_AT_ACQUIRE)
		return first_in(list);
	/* Without scans a mark would be in vain. */
	if (eo_guc_recovery_scan == 0)
		return NULL;
	dlist_foreach(iter, list)
	{
		EoSlot	   *slot = dlist_container(EoSlot, node, iter.cur);

		if (slot->target != unmarked &&
			eo_owed_scan_mark_locked(&eo_claim_table_target(slot)->target))
			return slot;
		unmarked = slot->target;
	}
	return NULL;
}

static EoSlot *
give_up_of(EoShare *share)
{
	EoSlot	   *found = NULL;

	if (share->taken[EO_RESOURCE_LOOKS] == 0)
		return NULL;
	for (int kind = 0; kind < EO_LOOK_KINDS && found == NULL; kind++)
	{
		for (int stage = EO_LOOKS - 1; stage >= 0 && found == NULL; stage--)
			found = give_up_one(&share->looks[kind][stage], kind);
	}
	return found;
}

EoSlot *
eo_look_to_give_up(const EoTargetEntry *entry, bool own)
{
	EoShare    *most = &eo_claim_table.shares[entry->role_share];
	EoSlot	   *found = give_up_of(most);

	if (found != NULL || own)
		return found;
	for (uint32 i = 0; i < eo_claim_table.header->high_share; i++)
	{
		EoShare    *share = &eo_claim_table.shares[i];

		if (OidIsValid(share->userid) &&
			share->taken[EO_RESOURCE_LOOKS] > most->taken[EO_RESOURCE_LOOKS])
			most = share;
	}
	return give_up_of(most);
}
