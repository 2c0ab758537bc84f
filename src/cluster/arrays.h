/*-------------------------------------------------------------------------
 *
 * arrays.h
 *	  How full the arrays in shared memory are, and with what of whom.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_ARRAYS_H
#define EO_CLUSTER_ARRAYS_H

#include "postgres.h"

#include "server/entries.h"

/* The part of an array that one role of one database has; or that all have. */
typedef struct EoArrayUse
{
	const char *array;
	int64		size;
	bool		total;			/* of all; dboid and roleid are invalid */
	Oid			dboid;
	Oid			roleid;			/* InvalidOid: the superusers, or nobody in
								 * particular */
	int64		taken;
	const char *emptied_by;		/* the call that gives room back */
} EoArrayUse;

/* No more uses than these are read. */
#define EO_ARRAY_USES 4096

/* Read the uses of all arrays; for each the total comes first.  Returns their number. */
extern int	eo_array_read(EoArrayUse *uses);

/* May this database have more of that array, whose entries have shares that are set aside? */
extern bool eo_array_has_room(EoEntries array, Oid dboid);

#endif							/* EO_CLUSTER_ARRAYS_H */
