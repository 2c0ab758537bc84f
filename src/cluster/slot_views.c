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
eo_slot_view_fill(const EoSlot *slot, EoSlotView *view)
{
	view->ref = eo_claim_table_ref(slot);
	view->info = slot->info;
	view->target = eo_claim_table_target(slot)->target;
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
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoSlot *found = NULL;

	for (const EoSlot *slot = *eo_claim_table_bucket(digest); slot != NULL; slot = slot->next)
	{
		const EoSlotInfo *info = &slot->info;

		if (memcmp(info->digest, digest, EO_DIGEST_LEN) != 0)
			continue;
		if (eo_slot_state_is_held(info->state) && info->pid != MyProcPid && !info->lost)
		{
			found = slot;
			break;
		}
		if (found == NULL && is_to_settle(info->state))
			found = slot;
	}
	if (found != NULL)
		eo_slot_view_fill(found, view);
	return found != NULL;
}

bool
eo_slot_view_is_planned(const uint8 *digest)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	for (const EoSlot *slot = *eo_claim_table_bucket(digest); slot != NULL; slot = slot->next)
	{
		if (slot->info.state == EO_SLOT_PLANNED && slot->info.pid != MyProcPid &&
			memcmp(slot->info.digest, digest, EO_DIGEST_LEN) == 0)
			return true;
	}
	return false;
}

static bool
is_of_token(const EoSlot *slot, const char *token, EoSlotState state)
{
	return (slot->info.state == state || state == EO_SLOT_FREE) &&
		strcmp(slot->info.token, token) == 0;
}

bool
eo_slot_view_find_session(const uint8 *digest, const char *token, EoSlotRef *ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoSlot *slot = eo_slot_view_of_token(digest, token, EO_SLOT_SESSION);

	if (slot != NULL)
		*ref = eo_claim_table_ref(slot);
	return slot != NULL;
}

/*
 * The table may have been reached by another address when the claim was made.  So the digest
 * says where to begin, and no more.
 */
EoSlot *
eo_slot_view_of_token(const uint8 *digest, const char *token, EoSlotState state)
{
	uint32		cursor = 0;
	EoSlot	   *slot;

	for (slot = *eo_claim_table_bucket(digest); slot != NULL; slot = slot->next)
	{
		if (is_of_token(slot, token, state))
			return slot;
	}
	while ((slot = eo_claim_table_next(InvalidOid, &cursor)) != NULL)
	{
		if (is_of_token(slot, token, state))
			return slot;
	}
	return NULL;
}

bool
eo_slot_view_read(EoSlotRef ref, EoSlotView *view)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoSlot *slot = eo_claim_table_slot(ref);

	if (slot != NULL)
		eo_slot_view_fill(slot, view);
	return slot != NULL;
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
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoSlot *slot = eo_claim_table_slot(ref);

	return slot != NULL && slot->error_len == len &&
		eo_claim_table_read_text(&eo_claim_table, slot->error, text, len);
}

bool
eo_slot_view_walk(uint32 *cursor, EoSlotView *view)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoSlot *slot = eo_claim_table_next(InvalidOid, cursor);

	if (slot != NULL)
		eo_slot_view_fill(slot, view);
	return slot != NULL;
}

/* A record left against late copies of an acquire is a precaution, and not unfinished. */
static bool
is_unfinished(const EoSlotInfo *info)
{
	return (info->state != EO_SLOT_TO_BURY && info->state != EO_SLOT_BURIED) ||
		eo_slot_has_origin(info);
}

int
eo_slot_view_count(Oid dboid, Oid serverid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	uint32		cursor = 0;
	const EoSlot *slot;
	int			n = 0;

	while ((slot = eo_claim_table_next(dboid, &cursor)) != NULL)
	{
		if ((!OidIsValid(serverid) || eo_claim_table_target(slot)->target.serverid == serverid) &&
			is_unfinished(&slot->info))
			n++;
	}
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
	uint32		cursor = 0;
	const EoSlot *slot;

	while ((slot = eo_claim_table_next(dboid, &cursor)) != NULL)
	{
		if (slot->info.state != EO_SLOT_IN_DOUBT &&
			(slot->info.state != EO_SLOT_BURIED || eo_slot_has_origin(&slot->info)))
			return true;
	}
	return false;
}

bool
eo_slot_view_any_ending(void)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	uint32		cursor = 0;
	const EoSlot *slot;

	while ((slot = eo_claim_table_next(InvalidOid, &cursor)) != NULL)
	{
		if (eo_slot_state_is_ending(slot->info.state))
			return true;
	}
	return false;
}

/* ----- how full the table is, and with what ----- */

void
eo_slot_view_room(EoRoom *room)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	room->slots = eo_claim_table.header->nslots;
	room->fullest = eo_share_fullest(&room->taken, &room->looks);
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
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	uint32		cursor = 0;
	const EoSlot *slot;

	memset(usage, 0, sizeof(*usage));
	while ((slot = eo_claim_table_next(dboid, &cursor)) != NULL)
	{
		if (!OidIsValid(userid) || eo_claim_table_target(slot)->target.userid == userid)
			count_claim(&slot->info, usage);
	}
}

int
eo_slot_view_ending(Oid dboid)
{
	EoUsage		usage;

	eo_slot_view_usage(dboid, InvalidOid, &usage);
	return (int) usage.ending;
}
