/*-------------------------------------------------------------------------
 *
 * room.h
 *	  How full the claim table is, and with what.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_ROOM_H
#define EO_CLUSTER_ROOM_H

#include "postgres.h"

typedef struct EoRoom
{
	uint32		slots;			/* exactonce.max_claims, or what a file had */
	uint32		taken;			/* by claims in all states */
	double		fullest;		/* the greatest part of its share that a role
								 * has taken; from 1 on its claims are refused */
} EoRoom;

extern void eo_room(EoRoom *room);

/* The claims of ended transactions that the worker of a database has to settle. */
extern int	eo_room_ending(Oid dboid);

#endif							/* EO_CLUSTER_ROOM_H */
