/*-------------------------------------------------------------------------
 *
 * collected.h
 *	  Writes that a transaction collects, and hands in later for keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_COLLECTED_H
#define EO_KEYS_COLLECTED_H

#include "postgres.h"

#include "keys/writes.h"
#include "server/store.h"

/* ---- for the key at hand, while its handler runs ---- */

/*
 * A handler begins, and has ended, whether it raised an error or not.  What was collected in
 * between is returned by the second function; NULL: nothing.  A handler may call another
 * one.
 */
extern void eo_collected_enter(EoStore *store);
extern const EoWrites *eo_collected_leave(void);

/* The server of the innermost handler that runs; NULL: there is none. */
extern EoStore *eo_collected_store(void);

/* Lock the items of writes, and collect them for that handler.  Raises as eo_writes_append(). */
extern void eo_collected_add(const EoWrites *writes);

/* ---- for keys that the commit makes ---- */

/*
 * Lock the items of writes, and collect them for keys of that server.  When the transaction
 * commits, the last write to each item is handed in; the store must last until then.
 */
extern void eo_collected_at_commit(EoStore *store, const EoWrites *writes);

#endif							/* EO_KEYS_COLLECTED_H */
