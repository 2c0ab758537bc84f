/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  Long work that goes on in the cluster, for the view exactonce_progress.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_PROGRESS_H
#define EO_CLUSTER_PROGRESS_H

#include "postgres.h"

#include "cluster/memory.h"
#include "server/entries.h"

/* Work that goes on: a call for many keys, a scan, an audit. */
typedef struct EoProgress
{
	int			pid;
	Oid			dboid;
	Oid			serverid;
	const char *activity;
	int64		done;			/* keys, actions, or items of the table */
	int64		total;			/* -1: not known */
	int64		found;			/* rows of the answer so far */
	int64		since_us;		/* monotonic clock */
} EoProgress;

extern const EoMemory eo_progress_memory;

/*
 * Work of this process begins; activity is a constant of the library.  It may be part of
 * other work that goes on.  Returns a number for eo_progress_end(), which the caller must
 * call even if an error is raised or the process ends.
 */
extern int	eo_progress_begin(const char *activity, Oid serverid, int64 total);
extern void eo_progress_end(int number);

/* So much of the work of this process that was begun last is done; without one, nothing. */
extern void eo_progress_note(int64 done, int64 found);

/* One more key or action is done, which has added that many rows to the answer. */
extern void eo_progress_add(int64 found);

/* Walk through the work of the cluster. */
extern bool eo_progress_walk(uint32 *cursor, EoProgress *progress);

/* For the view exactonce_room; the caller must hold the lock. */
extern EoEntries eo_progress_entries(void);

#endif							/* EO_CLUSTER_PROGRESS_H */
