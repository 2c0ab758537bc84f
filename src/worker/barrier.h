/*-------------------------------------------------------------------------
 *
 * barrier.h
 *	  The transactions whose keys a worker may mark COMPLETED.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_BARRIER_H
#define EO_WORKER_BARRIER_H

#include "postgres.h"

/* The settings were read again, and may name other standbys and slots. */
extern void eo_barrier_reload(void);

/*
 * May the keys of this transaction be marked COMPLETED?  The caller must know that it
 * has committed.  If not, eo_barrier_look() tells when to ask again.
 */
extern bool eo_barrier_is_open_for(uint64 xid);

/*
 * Look whether what is waited for has been confirmed.  Returns true if the barrier is
 * open for more transactions than before.  May run a transaction of its own.
 */
extern bool eo_barrier_look(void);

/* When to look again; INT64_MAX: nothing waits. */
extern int64 eo_barrier_due_us(void);

#endif							/* EO_WORKER_BARRIER_H */
