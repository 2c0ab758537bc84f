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

/* The list in which a slot waits, or is to wait. */
static EoSlotList *
list_of(const EoSlot *slot)
{
	EoShare    *share = &eo_claim_table.shares[eo_claim_table.targets[slot->target].role_share];
	int			stage = Max(1, Min(slot->info.looks, EO_LOOKS)) - 1;

	return eo_slot_has_origin(&slot->info) ? &share->looks[EO_LOOK_AT_COMMIT][stage] :
		&share->looks[EO_LOOK_AT_ACQUIRE][stage];
}

void
eo_look_list(uint32 index)
{
	EoSlot	   *slot = &eo_claim_table.slots[index];
	EoSlotList *list = list_of(slot);

	if (slot->listed)
		return;
	slot->listed = true;
	slot->next_ended = EO_NO_INDEX;
	slot->before_ended = list->n > 0 ? list->last : EO_NO_INDEX;
	if (list->n++ > 0)
		eo_claim_table.slots[list->last].next_ended = index;
	else
		list->first = index;
	list->last = index;
}

void
eo_look_unlist(uint32 index)
{
	EoSlot	   *slot = &eo_claim_table.slots[index];
	EoSlotList *list = list_of(slot);

	if (!slot->listed)
		return;
	slot->listed = false;
	list->n--;
	if (slot->before_ended != EO_NO_INDEX)
		eo_claim_table.slots[slot->before_ended].next_ended = slot->next_ended;
	else
		list->first = slot->next_ended;
	if (slot->next_ended != EO_NO_INDEX)
		eo_claim_table.slots[slot->next_ended].before_ended = slot->before_ended;
	else
		list->last = slot->before_ended;
}

/* The first slot in the lists of a database, by the due instants of those that are first. */
static uint32
first_of(Oid dboid)
{
	uint32		found = EO_NO_INDEX;

	for (uint32 i = 0; i < eo_claim_table.header->high_share; i++)
	{
		const EoShare *share = &eo_claim_table.shares[i];

		if (share->dboid != dboid || !OidIsValid(share->userid) ||
			share->taken[EO_RESOURCE_LOOKS] == 0)
			continue;
		for (int j = 0; j < EO_LOOK_KINDS * EO_LOOKS; j++)
		{
			const EoSlotList *list = &share->looks[j / EO_LOOKS][j % EO_LOOKS];

			if (list->n > 0 &&
				(found == EO_NO_INDEX || eo_claim_table.slots[list->first].info.due_us <
				 eo_claim_table.slots[found].info.due_us))
				found = list->first;
		}
	}
	return found;
}

bool
eo_look_next(Oid dboid, int64 now_us, EoSlotView *view)
{
	uint32		first;
	bool		due;

	eo_claim_table_lock(LW_EXCLUSIVE);
	first = first_of(dboid);
	due = first != EO_NO_INDEX && eo_claim_table.slots[first].info.due_us <= now_us;
	if (due)
	{
		eo_look_unlist(first);
		eo_slot_view_fill(first, view);
	}
	eo_claim_table_unlock();
	return due;
}

int64
eo_look_due_us(Oid dboid)
{
	uint32		first;
	int64		due_us;

	eo_claim_table_lock(LW_SHARED);
	first = first_of(dboid);
	due_us = first != EO_NO_INDEX ? eo_claim_table.slots[first].info.due_us : INT64_MAX;
	eo_claim_table_unlock();
	return due_us;
}

/* ----- making way ----- */

/* The oldest slot of a list that can make way; of a claim at commit the place is marked. */
static uint32
give_up_one(const EoSlotList *list, EoLookKind kind)
{
	uint32		i = list->n > 0 ? list->first : EO_NO_INDEX;
	uint32		unmarked = EO_NO_INDEX; /* a target whose place cannot be */

	/* Without scans a mark would be in vain. */
	if (kind == EO_LOOK_AT_COMMIT && eo_guc_recovery_scan == 0)
		return EO_NO_INDEX;
	while (i != EO_NO_INDEX && kind == EO_LOOK_AT_COMMIT)
	{
		const EoSlot *slot = &eo_claim_table.slots[i];

		if (slot->target != unmarked &&
			eo_owed_scan_mark_locked(&eo_claim_table.targets[slot->target].target))
			break;
		unmarked = slot->target;
		i = slot->next_ended;
	}
	return i;
}

static uint32
give_up_of(const EoShare *share)
{
	uint32		found = EO_NO_INDEX;

	if (share->taken[EO_RESOURCE_LOOKS] == 0)
		return EO_NO_INDEX;
	for (int kind = 0; kind < EO_LOOK_KINDS && found == EO_NO_INDEX; kind++)
	{
		for (int stage = EO_LOOKS - 1; stage >= 0 && found == EO_NO_INDEX; stage--)
			found = give_up_one(&share->looks[kind][stage], kind);
	}
	return found;
}

uint32
eo_look_to_give_up(const EoTargetEntry *entry, bool own)
{
	const EoShare *most = &eo_claim_table.shares[entry->role_share];
	uint32		found = give_up_of(most);

	if (found != EO_NO_INDEX || own)
		return found;
	for (uint32 i = 0; i < eo_claim_table.header->high_share; i++)
	{
		const EoShare *share = &eo_claim_table.shares[i];

		if (OidIsValid(share->userid) &&
			share->taken[EO_RESOURCE_LOOKS] > most->taken[EO_RESOURCE_LOOKS])
			most = share;
	}
	return give_up_of(most);
}
