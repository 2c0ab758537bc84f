/*-------------------------------------------------------------------------
 *
 * doubts.c
 *	  Records in doubt that sessions have met.
 *
 * Each takes a slot of the claim table, which is IN_DOUBT from the beginning and
 * counts in the share of the role that has met it.  It is for an operator to see.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/doubts.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "storage/lwlock.h"

void
eo_doubt_note(const EoTarget *target, const char *pk, const EoSlotInfo *info)
{
	EoSlotInfo	doubt = *info;
	EoSlotRef	ref;
	uint32		n = 0;
	bool		noted = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		const EoSlotInfo *s = &eo_claim_table.slots[i].info;

		if (s->state != EO_SLOT_IN_DOUBT)
			continue;
		n++;
		noted |= memcmp(s->digest, info->digest, EO_DIGEST_LEN) == 0;
	}
	eo_claim_table_unlock();
	/* A quarter of what a role may have at most: the rest is for work. */
	if (noted || n >= eo_claim_table.header->nslots / 16)
		return;
	doubt.state = EO_SLOT_IN_DOUBT;
	doubt.due_us = INT64_MAX;
	(void) eo_slot_add(target, pk, &doubt, &ref);
}

void
eo_doubt_end(const EoTarget *target, const char *pk, const char *token)
{
	EoSlotView	view;
	uint32		cursor = 0;

	while (eo_slot_view_walk(&cursor, &view))
	{
		if (view.info.state == EO_SLOT_IN_DOUBT && strcmp(view.pk, pk) == 0 &&
			(eo_target_same_table(&view.target, target) ||
			 (token != NULL && strcmp(view.info.token, token) == 0)))
			eo_slot_free(view.ref);
	}
}
