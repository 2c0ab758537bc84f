/*-------------------------------------------------------------------------
 *
 * room.c
 *	  How full the claim table is, and with what.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/life.h"
#include "cluster/room.h"
#include "cluster/shares.h"
#include "cluster/slot_views.h"
#include "cluster/slot.h"
#include "server/guc.h"

void
eo_room(EoRoom *room)
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
		end_us = Max(info->due_us, info->ended_us + eo_guc_hurried_us(EO_LIFE_LATE_US));
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
eo_room_usage(Oid dboid, Oid userid, EoUsage *usage)
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
eo_room_ending(Oid dboid)
{
	uint32		cursor = 0;
	int			n = 0;
	EoSlotView	view;

	while (eo_slot_view_walk(&cursor, &view))
		n += view.target.dboid == dboid && eo_slot_state_is_ending(view.info.state);
	return n;
}
