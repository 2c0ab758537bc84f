/*-------------------------------------------------------------------------
 *
 * life_check.c
 *	  Whether a life that may be over may be retired by this database: what its item,
 *	  this cluster and this data say.  takeover.c does it.
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
#include "ledger/silence.h"
#include "server/guc.h"
#include "wire/hex.h"

/* Our data reaches the end of a life if so many of its beats are missing at most. */
#define NEAR_BEATS 24

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
	p = parent_of(c, parent);
	/* If it was not read yet, this is asked again after the next look. */
	return i >= 0 && p->silence.since_us != 0 &&
		p->silence.beat - history->rows[i].beat <= NEAR_BEATS;
}

bool
eo_life_check_may_retire(EoLifeCheck *c, const EoHistory *history,
						 const EoLifeCheck *(*parent_of) (const EoLifeCheck *, const uint8 *))
{
	bool		silent = eo_silence_is_long(&c->silence);

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
