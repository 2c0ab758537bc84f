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
 * - The look at a claim at commit makes way only for a scan that is owed.  A
 *	 late copy of the seal leaves the record COMMITTING, which no clock ends and nobody else
 *	 may take over.  So those of acquires go first.  When one has made way nobody knows its key
 *	 any more.  So its place is marked: a quarter of an hour later, when no copy of the seal can
 *	 arrive any more, the worker scans the table (worker/recovery_scan.c).
 *
 * The mark lies in the memory of the places, which is a part of the claim file, and that is
 * enough.  Where a life owes a scan its item is not closed, so whatever ends the life, its heir
 * scans the table, twice.  An heir that has the claim file does so, too: it finds the mark, and
 * does not believe that the file tells all (worker/takeover.c).
 *
 * A role has a list for each kind and each number of looks.  The pause before a look depends
 * on that number alone, so the lists are in the order in which looks are due, and those with
 * most looks are the oldest.  Only a slot that was put off stands a little too far behind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/life.h"
#include "cluster/looks.h"
#include "cluster/slot.h"
#include "cluster/slot_views.h"
#include "cluster/target.h"
#include "server/guc.h"
#include "wire/clock.h"

static EoSlot *first_in(dlist_head *list);
static bool mark_for_scan(const EoTarget *target);

void
eo_look_list(EoSlot *slot)
{
	EoShare    *share = &eo_claim_table.shares[eo_claim_table_target(slot)->role_share];
	EoLookKind	kind = eo_slot_has_origin(&slot->info) ? EO_LOOK_AT_COMMIT : EO_LOOK_AT_ACQUIRE;
	int			stage = Max(1, Min(slot->info.looks, EO_LOOKS)) - 1;

	eo_claim_table_list(slot, &share->looks[kind][stage]);
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

/* NULL: the list is empty. */
static EoSlot *
first_in(dlist_head *list)
{
	return dlist_is_empty(list) ? NULL : dlist_head_element(EoSlot, node, list);
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

/* The open place of the current life of a database for a table; NULL: there is none. */
static EoPlace *
find_open_place(const EoTarget *target)
{
	uint32		cursor = 0;
	bool		current;
	EoPlace    *place;

	while ((place = eo_life_next_place_locked(target->dboid, &cursor, &current)) != NULL)
	{
		if (current && place->open && place->barred_at == 0 &&
			eo_target_same_place(&place->target, target))
			break;
	}
	return place;
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
			mark_for_scan(&eo_claim_table_target(slot)->target))
			return slot;
		unmarked = slot->target;
	}
	return NULL;
}

/*
 * A claim at commit in this table will not be looked at any more, though a late copy of its
 * seal may arrive.  Have the table scanned when none can.  False: no current life has an
 * open item there, which could promise that.
 *
 * The seal may be one of a life that has ended and is not retired yet, so its place is marked,
 * too: its records cannot be judged before that.
 */
static bool
mark_for_scan(const EoTarget *target)
{
	int64		now_us = eo_clock_monotonic_us();
	uint32		cursor = 0;
	bool		current;
	EoPlace    *place;

	if (find_open_place(target) == NULL)
		return false;
	while ((place = eo_life_next_place_locked(target->dboid, &cursor, &current)) != NULL)
	{
		if (!eo_target_same_place(&place->target, target))
			continue;
		place->owed_us = now_us;
		if (place->scan_due_us == 0)
			place->scan_due_us = now_us + eo_guc_hurried_us(EO_LATE_US);
	}
	/* The slot is freed after this. */
	pg_write_barrier();
	return true;
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

/* A debt that was younger than EO_LATE_US when the scan began is left for another scan. */
void
eo_look_scan_done(const EoTarget *target, int64 began_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoPlace    *place = find_open_place(target);
	int64		due_us;

	if (place == NULL || place->scan_due_us <= 0)
		return;
	due_us = place->owed_us + eo_guc_hurried_us(EO_LATE_US);
	place->scan_due_us = due_us <= began_us ? 0 : due_us;
}

bool
eo_look_owes_scan(Oid dboid, Oid serverid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	return eo_life_owed_place_locked(dboid, serverid, !OidIsValid(serverid)) != NULL;
}

bool
eo_look_owed_scan(Oid dboid, EoPlace *place)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoPlace *oldest = eo_life_owed_place_locked(dboid, InvalidOid, false);

	if (oldest != NULL)
		*place = *oldest;
	return oldest != NULL;
}
