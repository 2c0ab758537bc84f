/*-------------------------------------------------------------------------
 *
 * room.c
 *	  How full the claim table is, and with what.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/room.h"
#include "cluster/shares.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"

void
eo_room(EoRoom *room)
{
	eo_claim_table_lock(LW_SHARED);
	room->slots = eo_claim_table.header->nslots;
	room->fullest = eo_share_fullest(&room->taken);
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
