/*-------------------------------------------------------------------------
 *
 * rooms.h
 *	  How the tenants of a database, and their targets, share what its worker has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_ROOMS_H
#define EO_WORKER_ROOMS_H

#include "postgres.h"

/* The requests in flight that are taken, or the jobs. */
typedef struct EoRoomUse
{
	int			mine;			/* by a target */
	int			tenant;			/* by all targets of its tenant */
	int			tenants;		/* by all tenants, without superusers */
} EoRoomUse;

/*
 * May a target of this tenant (InvalidOid: superusers) take one more?  There are so many for
 * superusers, and for all others.
 */
extern bool eo_room_has_share(Oid tenant, int of_superusers, int of_tenants,
							  const EoRoomUse *use);

#endif							/* EO_WORKER_ROOMS_H */
