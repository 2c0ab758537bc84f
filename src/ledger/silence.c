/*-------------------------------------------------------------------------
 *
 * silence.c
 *	  For how long nobody has extended a life of others.
 *
 * Silent means: consistent reads that were answered have shown the same beat for
 * SILENCE_US, which is the sum of the intervals between them.  What a gap of more than
 * MAX_GAP_US hides counts for nothing, and takes nothing away.  An interval counts from the
 * instant at which a read was sent, and the first one from its answer, so that the sum is
 * never more than the time since the beat was made.  SILENCE_US is longer than the lease of
 * ledger/lives.c, so that the owner of the life, if there is one, has stopped committing by
 * then.
 *
 * But an owner who has stopped for want of DynamoDB goes on when it is back, and so he must
 * be given the time for a beat: the reads of the last CALM_US at least, and CALM_READS of
 * them, must have had no gap between them.  He tries at the pace of the reads,
 * EO_LIVES_PACE_US.  test/model/silence.pml has both rules.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger/silence.h"
#include "server/guc.h"
#include "wire/clock.h"

#define MAX_GAP_US INT64CONST(10000000)
#define SILENCE_US INT64CONST(30000000)
#define CALM_US INT64CONST(10000000)
#define CALM_READS 3

/* An owner who goes on extends his life more often than this. */
#define MISSED_US INT64CONST(12000000)

bool
eo_silence_counts(const EoSilence *s, int64 sent_us)
{
	return s->since_us == 0 || sent_us > s->read_us;
}

EoReadingSays
eo_silence_take(EoSilence *s, int64 beat, int64 sent_us)
{
	int64		now_us = eo_clock_steady_us();
	int64		interval_us = sent_us - s->read_us;
	bool		first = s->since_us == 0;

	if (first || s->beat != beat)
	{
		*s = (EoSilence)
		{
			.beat = beat,.since_us = now_us,.read_us = now_us,.calm_since_us = now_us,
				.calm_reads = 1
		};
		return first ? EO_READING_FIRST : EO_READING_BEATS;
	}
	s->read_us = sent_us;
	s->calm_reads++;
	if (interval_us <= eo_guc_hurried_us(MAX_GAP_US))
		s->silent_us += interval_us;
	else
	{
		s->calm_since_us = now_us;
		s->calm_reads = 1;
	}
	return now_us - s->since_us > eo_guc_hurried_us(MISSED_US) ? EO_READING_MISSES :
		EO_READING_SAME;
}

bool
eo_silence_is_long(const EoSilence *s)
{
	return s->silent_us >= eo_guc_hurried_us(SILENCE_US) && s->calm_reads >= CALM_READS &&
		s->read_us - s->calm_since_us >= eo_guc_hurried_us(CALM_US);
}

bool
eo_silence_is_fresh(const EoSilence *s)
{
	return eo_clock_steady_us() - s->read_us <= eo_guc_hurried_us(MAX_GAP_US);
}
