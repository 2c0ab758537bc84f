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
	uint32		taken;			/* by claims in all states but the next */
	uint32		looks;			/* second looks, which make way for claims */
	double		fullest;		/* the greatest part of its share that a role
								 * has taken; from 1 on its claims are refused */
} EoRoom;

extern void eo_room(EoRoom *room);

/* The claims, by what ends them.  Instants are of the monotonic clock. */
typedef struct EoUsage
{
	uint32		open;			/* of transactions that are open */
	uint32		sessions;
	uint32		prepared;
	uint32		ending;			/* of ended transactions, to be settled */
	uint32		doubts;
	uint32		looks;
	int64		open_since_us;	/* of the oldest, if there are any */
	int64		ending_since_us;
	int64		looks_until_us; /* when the first look is the last one */
} EoUsage;

/* Of one database (InvalidOid: of all), and one role of it (InvalidOid: of all). */
extern void eo_room_usage(Oid dboid, Oid userid, EoUsage *usage);

/* The claims of ended transactions that the worker of a database has to settle. */
extern int	eo_room_ending(Oid dboid);

#endif							/* EO_CLUSTER_ROOM_H */
