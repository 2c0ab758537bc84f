/*-------------------------------------------------------------------------
 *
 * own_life.h
 *	  The worker's first duty: the life of its database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_OWN_LIFE_H
#define EO_WORKER_OWN_LIFE_H

#include "postgres.h"

#include "cluster/target.h"

/*
 * Read the history and mint a life, unless somebody has locked the table: then this returns
 * false, and is to be called again.  Outside of a transaction.
 */
extern bool eo_own_life_enter(void);

/* Mint a life if one is needed, and note beats in its row. */
extern void eo_own_life_fetch(void);

/* Make jobs of the beats that are due; also before eo_own_life_enter(). */
extern void eo_own_life_fetch_beats(void);

/* When that is to be called again at the latest. */
extern int64 eo_own_life_due_us(void);

/*
 * An operator has decided that this database inherits the lives of the one that its data
 * comes from: make them, and the rows of the outbox that name them, our own.  Returns false
 * if a session is about to complete the key of such a row, or a lock could not be had; then this
 * is to be called again.  Rows that were adopted have no slots, and may be older than those that
 * have: the count of adoptions on the board tells of that.  Outside of a transaction.
 */
extern bool eo_own_life_adopt(void);

/*
 * Does our own life hold its lease in the place of this target?  A life that was retired
 * and does not know it yet must not retire its heir: then the two would have retired
 * each other, and nobody could settle either.  If our life has no item there, this
 * returns false and has one made.
 */
extern bool eo_own_life_hold(const EoTarget *target);

/*
 * Close the life if nothing is left to be done under it, until deadline_us at the
 * latest.  Interrupts are held off.
 */
extern void eo_own_life_close(int64 deadline_us);

/* The process ends.  If an error has ended it while it closed the life, that goes on. */
extern void eo_own_life_leave(void);

#endif							/* EO_WORKER_OWN_LIFE_H */
