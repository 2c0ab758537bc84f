/*-------------------------------------------------------------------------
 *
 * life_check.h
 *	  A life that may be over, in one place, and whether it may be retired there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_LIFE_CHECK_H
#define EO_LEDGER_LIFE_CHECK_H

#include "postgres.h"

#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "ledger/life_rows.h"
#include "lib/ilist.h"
#include "records/life_item.h"
#include "wire/hex.h"

/* The readings of an item.  All instants are of the steady clock. */
typedef struct EoSilence
{
	int64		beat;			/* of the item, when it was read last */
	int64		since_us;		/* it is at this beat since; 0: not read yet */
	int64		read_us;		/* when the last read was sent that counts */
	int64		silent_us;		/* the sum of the intervals */
	int64		calm_since_us;	/* there was no gap since */
	int			calm_reads;		/* ... in so many reads */
} EoSilence;

/* A reading says this about the owner of the life. */
typedef enum EoReadingSays
{
	EO_READING_FIRST,
	EO_READING_BEATS,			/* he has extended it since the last one */
	EO_READING_SAME,
	EO_READING_MISSES			/* he should have, and has not */
} EoReadingSays;

/* The next step, see takeover.c. */
typedef enum EoLifeCheckStage
{
	EO_LIFE_CHECK_LOOK,
	EO_LIFE_CHECK_RETIRE,
	EO_LIFE_CHECK_OVER
} EoLifeCheckStage;

typedef struct EoLifeCheck
{
	dlist_node	node;
	EoPlace		place;			/* life and target */
	char		id[EO_UUID_TEXT_LEN + 1];	/* the life as text */
	bool		ended;			/* in this cluster; place is as it was left */
	bool		this_run;
	int64		ended_us;		/* monotonic: since this was known */
	bool		asked;			/* a record that was scanned, a row or a slot
								 * names the life */
	bool		met;			/* a session has met it, or waits for its end */
	int			in_flight;		/* reads, and the write */
	bool		retiring;		/* ... which is one of them */
	EoLifeCheckStage stage;
	int64		due_us;
	int64		asked_us;		/* monotonic: when it was last met or asked
								 * for */
	int64		pause_us;		/* of a life of others, between its reads */
	EoLifeWatch watch;			/* for the view */
	bool		closed;			/* of OVER: nobody had to take over */
	bool		own_nonce;		/* the item bears a nonce of this cluster */
	bool		exists;			/* the item, when it was read last */
	EoSilence	silence;		/* and its beat */
	char		ancestors[EO_ANCESTORS_LEN + 1];
	uint32		scan;			/* number of the recovery scan that is wanted
								 * for what the life has left; 0: none is */
	char		scan_by[EO_UUID_TEXT_LEN + 1];	/* the life of ours that has
												 * retired it */
	int64		scanned;		/* items that its present pass has read; -1:
								 * none is under way */
} EoLifeCheck;

/* Does the answer to a read count?  Not if a read that was sent later was answered before. */
extern bool eo_life_check_counts(const EoLifeCheck *c, int64 sent_us);

/* Take an answer: the item was at this beat at some instant after the read was sent. */
extern EoReadingSays eo_life_check_take(EoLifeCheck *c, int64 beat, int64 sent_us);

/* Is the last reading so recent that there is no gap after it? */
extern bool eo_life_check_is_fresh(const EoLifeCheck *c);

/* Is the life one of our history, or a branch of it? */
extern bool eo_life_check_is_ours(const EoLifeCheck *c, const EoHistory *history);

/* Is it a life from before pg_upgrade that waits for an operator? */
extern bool eo_life_check_waits_for_operator(const EoLifeCheck *c, const EoHistory *history);

/*
 * Does the claim file tell all that the life has left, so that its item may go?  If the
 * data is that of an earlier point in time, the file lacks the keys whose commits were
 * lost: it says that they have committed.  Recovery to that point begins another
 * timeline.  After an older backup was put in place the timeline is the same, but beats
 * of the life are missing.  Nor does it tell what is found by a scan that is owed.
 */
extern bool eo_life_check_is_known_by_file(const EoLifeCheck *c, const EoHistory *history);

/*
 * The item is open, or there is none.  May it be retired?  If not, the watch says why.
 * parent_of returns the check of the life before it, in the same place.
 */
extern bool eo_life_check_may_retire(EoLifeCheck *c, const EoHistory *history,
									 const EoLifeCheck *(*parent_of) (const EoLifeCheck *c,
																	  const uint8 *parent));

#endif							/* EO_LEDGER_LIFE_CHECK_H */
