/*-------------------------------------------------------------------------
 *
 * durability.h
 *	  Is what is flushed here safe from a failover, too?
 *
 * Nothing here waits, and nothing raises an error but for a lack of memory.  The
 * settings are those that this process has read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_DURABILITY_H
#define EO_COMMIT_DURABILITY_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "lib/stringinfo.h"

/* How a named slot stands to a position of the WAL, the best first. */
typedef enum EoSlotStanding
{
	EO_STANDING_CONFIRMED,		/* its standby has flushed so much */
	EO_STANDING_BEHIND,			/* its standby has not yet */
	EO_STANDING_BROKEN			/* it cannot say so until somebody mends it */
} EoSlotStanding;

/* Do the settings name standbys or slots that must confirm a commit? */
extern bool eo_durability_is_asked_for(void);

/* Have all of them confirmed what was flushed here up to lsn? */
extern bool eo_durability_has(XLogRecPtr lsn);

/* Does synchronous_standby_names count? */
extern bool eo_durability_names_standbys(void);

/*
 * Have the standbys of synchronous_standby_names flushed up to lsn?  Sets *confirmed,
 * if it is not NULL, to what they have flushed.  True if none is named.
 */
extern bool eo_durability_standbys_have(XLogRecPtr lsn, XLogRecPtr * confirmed);

/* Is a slot named? */
extern bool eo_durability_names_slots(void);

/*
 * The standing of the named slot that stands worst; EO_STANDING_CONFIRMED if none is named.
 * Appends to facts, if it is not NULL, a clause about each slot that stands as badly,
 * unless all have confirmed.
 */
extern EoSlotStanding eo_durability_slots(XLogRecPtr lsn, StringInfo facts);

#endif							/* EO_COMMIT_DURABILITY_H */
