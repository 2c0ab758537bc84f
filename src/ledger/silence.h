/*-------------------------------------------------------------------------
 *
 * silence.h
 *	  For how long nobody has extended a life of others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_SILENCE_H
#define EO_LEDGER_SILENCE_H

#include "postgres.h"

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

/* Does the answer count?  Not if a read that was sent later was answered before. */
extern bool eo_silence_counts(const EoSilence *s, int64 sent_us);

/* Take an answer: the item was at this beat at some instant after the read was sent. */
extern EoReadingSays eo_silence_take(EoSilence *s, int64 beat, int64 sent_us);

/* Has the owner stopped committing, and had the time for a beat? */
extern bool eo_silence_is_long(const EoSilence *s);

/* Is the last reading so recent that there is no gap after it? */
extern bool eo_silence_is_fresh(const EoSilence *s);

#endif							/* EO_LEDGER_SILENCE_H */
