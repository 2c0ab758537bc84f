/*-------------------------------------------------------------------------
 *
 * entries.h
 *	  Arrays of a fixed size in shared memory, and whose entries make way for others.
 *
 * The caller must hold the lock of the array.  Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_ENTRIES_H
#define EO_SERVER_ENTRIES_H

#include "postgres.h"

/* The beginning of an entry. */
typedef struct EoEntry
{
	Oid			dboid;			/* InvalidOid: it is free */
	Oid			roleid;			/* InvalidOid: superusers */
	int64		since_us;		/* monotonic: when it was taken */
} EoEntry;

/* May an entry make way? */
typedef enum EoEntryStay
{
	EO_ENTRY_GOES,
	EO_ENTRY_GOES_LAST,			/* if its role has no other */
	EO_ENTRY_STAYS
} EoEntryStay;

typedef struct EoEntries
{
	void	   *first;			/* begins with an EoEntry, as the others */
	Size		size;			/* of an entry */
	int			n;

	/* own: it is of the role that takes one; NULL: each entry goes. */
	EoEntryStay (*stay) (const EoEntry *entry, bool own);
} EoEntries;

/*
 * Take an entry: a free one, or else the oldest of the role that has most in the database that has
 * most.  So a role that takes many replaces its own.  NULL: none may go.  The caller fills in what
 * follows the EoEntry.
 */
extern void *eo_entries_take(const EoEntries *all, Oid dboid, Oid roleid);

/*
 * For arrays whose entries never make way: take a free one.  A database may have half of what the
 * others leave, and a role half of what the other roles leave of that; superusers all of that.
 * NULL: there is none.
 */
extern void *eo_entries_take_share(const EoEntries *all, Oid dboid, Oid roleid);

/*
 * How many entries may a database have, if that is half of what the others leave, and how many more
 * than it has?
 */
extern int	eo_entries_share(const EoEntries *all, Oid dboid);
extern int	eo_entries_room(const EoEntries *all, Oid dboid);

/* The entry with that number. */
static inline EoEntry *
eo_entries_at(const EoEntries *all, int i)
{
	return (EoEntry *) ((char *) all->first + all->size * i);
}

#endif							/* EO_SERVER_ENTRIES_H */
