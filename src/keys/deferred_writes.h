/*-------------------------------------------------------------------------
 *
 * deferred_writes.h
 *	  Writes that a transaction collects, and hands in later for keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_DEFERRED_WRITES_H
#define EO_KEYS_DEFERRED_WRITES_H

#include "postgres.h"

#include "keys/writes.h"
#include "server/store.h"
#include "storage/itemptr.h"

/* ---- for the key at hand, while its handler runs ---- */

/*
 * A handler begins, and has ended, whether it raised an error or not.  What was collected in
 * between is returned by the second function; NULL: nothing.  A handler may call another
 * one.
 */
extern void eo_deferred_writes_enter(EoStore *store);
extern const EoWrites *eo_deferred_writes_leave(void);

/* The server of the innermost handler that runs; NULL: there is none. */
extern EoStore *eo_deferred_writes_store(void);

/* Lock the items of writes, and collect them for that handler.  Raises as eo_writes_append(). */
extern void eo_deferred_writes_add(const EoWrites *writes);

/* ---- for keys that the commit makes ---- */

/* A version of a row, in the storage that it is in; an invalid tid: it is not known. */
typedef struct EoRowVersion
{
	uint64		item;			/* the item's hash; deferred_writes.c fills it
								 * in */
	Oid			storage;
	ItemPointerData tid;
} EoRowVersion;

/* The change of a row that a write is about. */
typedef struct EoRowChange
{
	bool		put;			/* is there a new version? */
	EoRowVersion made;			/* it */
	bool		ends;			/* was there an old version? */
	bool		own;			/* and was it made by this transaction? */
	EoRowVersion ended;			/* it */
} EoRowChange;

/*
 * Collect the writes of a change for keys of that server.  When the transaction commits, their
 * items are locked, and of the writes to each item one is handed in: that of the version
 * which is there then, or if there is none the last one.  The store must last until then.
 */
extern void eo_deferred_writes_at_commit(EoStore *store, const EoWrites *writes,
										 const EoRowChange *change);

#endif							/* EO_KEYS_DEFERRED_WRITES_H */
