/*-------------------------------------------------------------------------
 *
 * life_check.c
 *	  Whether a life that may be over may be retired by this database: what its item,
 *	  this cluster and this data say.  takeover.c does it.
 *
 * A life of others is silent when consistent reads that were answered have shown the same beat for
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

#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "compat.h"
#include "ledger/life_check.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "server/guc.h"
#include "wire/clock.h"
#include "wire/hex.h"

/* Our data reaches the end of a life if so many of its beats are missing at most. */
#define NEAR_BEATS 24

#define MAX_GAP_US INT64CONST(10000000)
#define SILENCE_US INT64CONST(30000000)
#define CALM_US INT64CONST(10000000)
#define CALM_READS 3

/* An owner who goes on extends his life more often than this. */
#define MISSED_US INT64CONST(12000000)

/* ----- silence ----- */

bool
eo_life_check_counts(const EoLifeCheck *c, int64 sent_us)
{
	return c->silence.since_us == 0 || sent_us > c->silence.read_us;
}

EoReadingSays
eo_life_check_take(EoLifeCheck *c, int64 beat, int64 sent_us)
{
	EoSilence  *s = &c->silence;
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

/* Has the owner stopped committing, and had the time for a beat? */
static bool
is_silent(const EoSilence *s)
{
	return s->silent_us >= eo_guc_hurried_us(SILENCE_US) && s->calm_reads >= CALM_READS &&
		s->read_us - s->calm_since_us >= eo_guc_hurried_us(CALM_US);
}

bool
eo_life_check_is_fresh(const EoLifeCheck *c)
{
	return eo_clock_steady_us() - c->silence.read_us <= eo_guc_hurried_us(MAX_GAP_US);
}

/* ----- whether it may be retired ----- */

bool
eo_life_check_is_known_by_file(const EoLifeCheck *c, const EoHistory *history)
{
	int			i = eo_life_rows_find(history, c->place.life);

	return c->ended && i >= 0 && history->rows[i].timeline == eo_compat_timeline() &&
		c->place.scan_due_us == 0 &&
		(c->this_run || Max(c->silence.beat, c->place.beat) - history->rows[i].beat <= NEAR_BEATS);
}

bool
eo_life_check_is_ours(const EoLifeCheck *c, const EoHistory *history)
{
	return eo_life_rows_find(history, c->place.life) >= 0 ||
		eo_life_verdict_leads_into(history, c->ancestors);
}

bool
eo_life_check_waits_for_operator(const EoLifeCheck *c, const EoHistory *history)
{
	return (c->watch == EO_WATCH_SILENT || c->watch == EO_WATCH_NOT_NEAR) &&
		eo_life_rows_is_earlier(history, c->place.life);
}

/*
 * Does our data reach the end of the life, as far as the beats tell?  The row of a young
 * life may not have reached us; then its parent counts.
 */
static bool
is_near(const EoLifeCheck *c, const EoHistory *history,
		const EoLifeCheck *(*parent_of) (const EoLifeCheck *, const uint8 *))
{
	int			i = eo_life_rows_find(history, c->place.life);
	uint8		parent[EO_UUID_LEN];
	const EoLifeCheck *p;

	if (i >= 0)
		return c->silence.beat - history->rows[i].beat <= NEAR_BEATS;
	if (c->silence.beat > NEAR_BEATS || !eo_hex_read_uuid(c->ancestors, parent))
		return false;
	i = eo_life_rows_find(history, parent);
	p = i >= 0 ? parent_of(c, parent) : NULL;
	/* If it was not read yet, this is asked again after the next look. */
	return p != NULL && p->silence.since_us != 0 &&
		p->silence.beat - history->rows[i].beat <= NEAR_BEATS;
}

bool
eo_life_check_may_retire(EoLifeCheck *c, const EoHistory *history,
						 const EoLifeCheck *(*parent_of) (const EoLifeCheck *, const uint8 *))
{
	bool		silent = is_silent(&c->silence);

	if (!eo_life_check_is_ours(c, history))
	{
		if (!eo_life_check_waits_for_operator(c, history))
			c->watch = EO_WATCH_FOREIGN;
		else if (silent)
			c->watch = EO_WATCH_NOT_NEAR;
		return false;
	}

	/*
	 * It ended in this run of the server.  If a twin of this machine has
	 * written the item, that may still commit.
	 */
	if (c->ended && c->this_run && (c->own_nonce || !c->exists))
		return true;
	/* It ran in this very directory, and nobody has extended it since. */
	if (c->ended && !c->this_run &&
		(!c->exists || (c->silence.beat >= c->place.beat && c->silence.beat <= c->place.sent_beat)))
		return true;
	if (!silent)
		return false;
	/* An item that is absent does not say how far the life has come. */
	if (eo_guc_takeover == EO_TAKEOVER_ALWAYS ||
		(eo_guc_takeover == EO_TAKEOVER_NEAR && c->exists && is_near(c, history, parent_of)))
		return true;
	c->watch = EO_WATCH_NOT_NEAR;
	return false;
}
