/*-------------------------------------------------------------------------
 *
 * life_board.h
 *	  What the worker knows of lives: is a life over, and who answers for it?
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_LIFE_BOARD_H
#define EO_WORKER_LIFE_BOARD_H

#include "postgres.h"

#include "cluster/target.h"
#include "ledger/life_check.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"

/* ---- the question ---- */

/*
 * How does the life stand to this database, as far as this target is concerned?  Only reads
 * what is known.  As long as the life goes on, or nothing is known, it is an EO_LIFE_OTHER.
 */
extern void eo_life_board_verdict(const EoTarget *target, const uint8 *id, EoLifeVerdict *verdict);

/*
 * Have takeover.c look at the life in this place.  When it is found to be over,
 * the count of changes is another one.
 */
extern void eo_life_board_watch(const EoTarget *target, const uint8 *id);

/* Is there a life that is about to be retired, or watched for that?  Then the worker stays. */
extern bool eo_life_board_any(void);

/* The lives of this data up to the current one; valid until another history is taken. */
extern const EoHistory *eo_life_board_history(void);

/*
 * Numbers, of which a reader compares each with the one that it has seen last.  Only the file
 * that is named changes it.
 */
typedef struct EoLifeCounts
{
	uint32		changes;		/* takeover.c has found a life to be over */
	uint32		losses;			/* own_life.c: the current life was given up;
								 * another heir may have retired it, and with
								 * it what it has inherited */
	uint32		adoptions;		/* own_life.c: rows of the outbox were
								 * adopted, with the last of them lives */
	uint32		scans;			/* the board: a recovery scan is wanted for a
								 * life, or is not wanted any more */
} EoLifeCounts;

extern EoLifeCounts *eo_life_board_counts(void);

/* ---- for own_life.c ---- */

/* A history was read, and its transaction has committed.  Its rows are the board's now. */
extern void eo_life_board_take_history(const EoHistory *read);

/* ---- for takeover.c ---- */

/* The check after this one (NULL: the first one); NULL: there is none. */
extern EoLifeCheck *eo_life_board_next(const EoLifeCheck *after);

/* Find the check of a place of a life that has ended here, or make it. */
extern EoLifeCheck *eo_life_board_enter(const EoPlace *place);

/*
 * The same of a life that may have no place in shared memory, and that somebody asks for.  NULL:
 * it is not of the history, and there is no room.  May remove checks that have nothing in flight.
 */
extern EoLifeCheck *eo_life_board_enter_life(const EoTarget *target, const uint8 *id);

/* Forget lives of others that nobody has met for long. */
extern void eo_life_board_lapse(void);

/* The item of a life was read.  If the life is one of others, it is read again after a pause. */
extern void eo_life_board_pause(EoLifeCheck *c);

/* Forget a check that has nothing in flight. */
extern void eo_life_board_remove(EoLifeCheck *c);

/* The life is over; or that does not hold any more, and nothing is scanned for it. */
extern void eo_life_board_set_over(EoLifeCheck *c);
extern void eo_life_board_take_back(EoLifeCheck *c);

/* Have the table scanned for records of the life, which by (a life of ours) has retired. */
extern void eo_life_board_want_scan(EoLifeCheck *c, const char *by);

/* A check was changed otherwise; and show the checks that were changed in exactonce_lives. */
extern void eo_life_board_touch(void);
extern void eo_life_board_publish(void);

/* ---- for recovery_scan.c ---- */

/* A scan for what the life has left was finished. */
extern void eo_life_board_end_scan(EoLifeCheck *c);

/* Have the table scanned once more; false: the life is not over any more. */
extern bool eo_life_board_repeat_scan(const EoTarget *target, const char *life);

/* The items of a table that the present pass has read; -1: none is under way. */
extern void eo_life_board_set_scanned(const EoTarget *target, int64 items);

#endif							/* EO_WORKER_LIFE_BOARD_H */
