/*-------------------------------------------------------------------------
 *
 * slot_views.c
 *	  Looking at the claims of the cluster.
 *
 * A reader gets a copy of the slot, made under the lock of the claim table.  It
 * may be out of date when the caller reads it, and its reference may find nothing any
 * more.  Nothing is changed here: every change of a state is in slots.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/shares.h"
#include "cluster/slot.h"
#include "cluster/slot_views.h"
#include "miscadmin.h"
#include "server/guc.h"
#include "storage/lwlock.h"

void
eo_slot_view_fill(uint32 index, EoSlotView *view)
{
	EoSlot	   *slot = &eo_claim_table.slots[index];

	view->ref.index = index;
	view->ref.generation = slot->generation;
	view->info = slot->info;
	view->target = eo_claim_table.targets[slot->target].target;
	view->error_len = slot->error_len;
	(void) eo_claim_table_read_text(&eo_claim_table, slot->pk, view->pk, slot->pk_len);
	view->pk[slot->pk_len] = '\0';
}

/* Is there something to be settled before the key can be claimed again? */
static bool
is_to_settle(EoSlotState state)
{
	return state >= EO_SLOT_TO_FAIL && state <= EO_SLOT_TO_JUDGE;
}

bool
eo_slot_view_find(const uint8 *digest, EoSlotView *view)
{
	uint32		found = EO_NO_INDEX;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = *eo_claim_table_bucket(digest); i != EO_NO_INDEX;
		 i = eo_claim_table.slots[i].next)
	{
		const EoSlotInfo *info = &eo_claim_table.slots[i].info;

		if (memcmp(info->digest, digest, EO_DIGEST_LEN) != 0)
			continue;
		if (eo_slot_state_is_held(info->state) && info->pid != MyProcPid && !info->lost)
		{
			found = i;
			break;
		}
		if (found == EO_NO_INDEX && is_to_settle(info->state))
			found = i;
	}
	if (found != EO_NO_INDEX)
		eo_slot_view_fill(found, view);
	eo_claim_table_unlock();
	return found != EO_NO_INDEX;
}

bool
eo_slot_view_is_planned(const uint8 *digest)
{
	bool		planned = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = *eo_claim_table_bucket(digest); i != EO_NO_INDEX && !planned;
		 i = eo_claim_table.slots[i].next)
	{
		const EoSlotInfo *info = &eo_claim_table.slots[i].info;

		planned = info->state == EO_SLOT_PLANNED && info->pid != MyProcPid &&
			memcmp(info->digest, digest, EO_DIGEST_LEN) == 0;
	}
	eo_claim_table_unlock();
	return planned;
}

static bool
is_of_session(uint32 index, const char *token)
{
	const EoSlotInfo *info = &eo_claim_table.slots[index].info;

	return info->state == EO_SLOT_SESSION && strcmp(info->token, token) == 0;
}

/*
 * The table may have been reached by another address when the claim was made.  So the digest
 * says where to begin, and no more.
 */
uint32
eo_slot_view_session_index(const uint8 *digest, const char *token)
{
	for (uint32 i = *eo_claim_table_bucket(digest); i != EO_NO_INDEX;
		 i = eo_claim_table.slots[i].next)
	{
		if (is_of_session(i, token))
			return i;
	}
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		if (is_of_session(i, token))
			return i;
	}
	return EO_NO_INDEX;
}

bool
eo_slot_view_find_session(const uint8 *digest, const char *token, EoSlotRef *ref)
{
	uint32		i;

	eo_claim_table_lock(LW_SHARED);
	i = eo_slot_view_session_index(digest, token);
	if (i != EO_NO_INDEX)
	{
		ref->index = i;
		ref->generation = eo_claim_table.slots[i].generation;
	}
	eo_claim_table_unlock();
	return i != EO_NO_INDEX;
}

bool
eo_slot_view_read(EoSlotRef ref, EoSlotView *view)
{
	bool		found;

	eo_claim_table_lock(LW_SHARED);
	found = eo_claim_table_slot(ref) != NULL;
	if (found)
		eo_slot_view_fill(ref.index, view);
	eo_claim_table_unlock();
	return found;
}

bool
eo_slot_view_lease_is_dead(const EoSlotView *view, int64 dead_before_ms)
{
	const EoSlotInfo *info = &view->info;

	return info->state != EO_SLOT_SEALING && (!eo_slot_is_prepared(info) || info->lost) &&
		info->lease_until_ms > 0 && info->lease_until_ms < dead_before_ms;
}

bool
eo_slot_view_error(EoSlotRef ref, char *text, uint32 len)
{
	EoSlot	   *slot;
	bool		found;

	eo_claim_table_lock(LW_SHARED);
	slot = eo_claim_table_slot(ref);
	found = slot != NULL && slot->error_len == len &&
		eo_claim_table_read_text(&eo_claim_table, slot->error, text, len);
	eo_claim_table_unlock();
	return found;
}

bool
eo_slot_view_walk(uint32 *cursor, EoSlotView *view)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < eo_claim_table.header->high_slot)
	{
		found = eo_claim_table.slots[*cursor].info.state != EO_SLOT_FREE;
		if (found)
			eo_slot_view_fill(*cursor, view);
		(*cursor)++;
	}
	eo_claim_table_unlock();
	return found;
}

/* A record left against late copies of an acquire is a precaution, and not unfinished. */
static bool
is_unfinished(const EoSlotInfo *info)
{
	return info->state != EO_SLOT_FREE &&
		((info->state != EO_SLOT_TO_BURY && info->state != EO_SLOT_BURIED) ||
		 eo_slot_has_origin(info));
}

int
eo_slot_view_count(Oid dboid, Oid serverid)
{
	int			n = 0;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		const EoSlot *slot = &eo_claim_table.slots[i];
		const EoTarget *target = &eo_claim_table.targets[slot->target].target;

		if (target->dboid == dboid && (!OidIsValid(serverid) || target->serverid == serverid) &&
			is_unfinished(&slot->info))
			n++;
	}
	eo_claim_table_unlock();
	return n;
}

/*
 * An acquire that is buried is settled: what a late request leaves ends with its lease.  A claim
 * at commit is not, before its last look: nobody but an heir would look for what its seal
 * leaves, and a life that was closed has none.
 */
bool
eo_slot_view_any_unsettled_locked(Oid dboid)
{
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		const EoSlot *slot = &eo_claim_table.slots[i];

		if (slot->info.state != EO_SLOT_FREE && slot->info.state != EO_SLOT_IN_DOUBT &&
			(slot->info.state != EO_SLOT_BURIED || eo_slot_has_origin(&slot->info)) &&
			eo_claim_table_database(slot) == dboid)
			return true;
	}
	return false;
}

bool
eo_slot_view_any_ending(void)
{
	bool		any = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot && !any; i++)
		any = eo_slot_state_is_ending(eo_claim_table.slots[i].info.state);
	eo_claim_table_unlock();
	return any;
}

/* ----- how full the table is, and with what ----- */

void
eo_slot_view_room(EoRoom *room)
{
	eo_claim_table_lock(LW_SHARED);
	room->slots = eo_claim_table.header->nslots;
	room->fullest = eo_share_fullest(&room->taken, &room->looks);
	eo_claim_table_unlock();
}

static void
count_claim(const EoSlotInfo *info, EoUsage *usage)
{
	int64		end_us;

	if (eo_slot_is_prepared(info))
		usage->prepared++;
	else if (info->state == EO_SLOT_SESSION)
		usage->sessions++;
	else if (info->state == EO_SLOT_IN_DOUBT)
		usage->doubts++;
	else if (info->state == EO_SLOT_BURIED)
	{
		end_us = Max(info->due_us, info->ended_us + eo_guc_hurried_us(EO_LATE_US));
		if (usage->looks++ == 0 || end_us < usage->looks_until_us)
			usage->looks_until_us = end_us;
	}
	else if (eo_slot_state_is_over(info->state))
	{
		if (usage->ending++ == 0 || info->ended_us < usage->ending_since_us)
			usage->ending_since_us = info->ended_us;
	}
	else if (usage->open++ == 0 || info->since_us < usage->open_since_us)
		usage->open_since_us = info->since_us;
}

void
eo_slot_view_usage(Oid dboid, Oid userid, EoUsage *usage)
{
	memset(usage, 0, sizeof(*usage));
	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		const EoSlot *slot = &eo_claim_table.slots[i];
		const EoTarget *target = &eo_claim_table.targets[slot->target].target;

		if (slot->info.state != EO_SLOT_FREE &&
			(!OidIsValid(dboid) || target->dboid == dboid) &&
			(!OidIsValid(userid) || target->userid == userid))
			count_claim(&slot->info, usage);
	}
	eo_claim_table_unlock();
}

int
eo_slot_view_ending(Oid dboid)
{
	EoUsage		usage;

	eo_slot_view_usage(dboid, InvalidOid, &usage);
	return (int) usage.ending;
}
