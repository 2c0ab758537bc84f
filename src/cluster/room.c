/*-------------------------------------------------------------------------
 *
 * room.c
 *	  How full the claim table is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/room.h"
#include "cluster/shares.h"

void
eo_room(EoRoom *room)
{
	eo_claim_table_lock(LW_SHARED);
	room->slots = eo_claim_table.header->nslots;
	room->fullest = eo_share_fullest(&room->taken);
	eo_claim_table_unlock();
}
