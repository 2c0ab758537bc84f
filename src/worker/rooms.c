/*-------------------------------------------------------------------------
 *
 * rooms.c
 *	  How the tenants of a database, and their targets, share what its worker has.
 *
 * A tenant owns servers, which may leave every request without an answer, and what they
 * have then is missing to others.  So superusers, all together, have a room of their
 * own.  The other tenants have another room, of which each takes at most half of what the
 * others leave.
 *
 * Of what its tenant may take a target takes at most half of what the tenant's other
 * targets leave: one target of many has a large share, and leaves some for the next one.
 *
 * Halves come to an end: seven of them fill 64 places.  So in each room SPARE places are only
 * for a tenant, or a target of superusers, that has none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/rooms.h"

/* Places that are only for who has none. */
#define SPARE 8

/* Half of what the others leave, rounded up. */
static int
half_of(int all, int others)
{
	return (all - others + 1) / 2;
}

/* May one more be taken by somebody who has mine? */
static bool
may_take(int all, int others, int mine)
{
	return mine == 0 ? others < all + SPARE : mine < half_of(all, others);
}

bool
eo_room_has_share(Oid tenant, int of_superusers, int of_tenants, const EoRoomUse *use)
{
	int			all = of_superusers;

	if (OidIsValid(tenant))
	{
		int			others = use->tenants - use->tenant;

		if (!may_take(of_tenants, others, use->tenant))
			return false;
		all = Max(1, half_of(of_tenants, others));
	}
	return may_take(all, use->tenant - use->mine, use->mine);
}
