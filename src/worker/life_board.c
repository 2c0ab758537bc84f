/*-------------------------------------------------------------------------
 *
 * life_board.c
 *	  What the worker knows of lives: is a life over, and who answers for it?
 *
 * The board has a check for each life that may be over, in each place: its stage, what its
 * item has said, and whether the table is to be scanned for what the life has left.  Beside the
 * checks it has the history of this data.
 *
 *	 own_life.c			writes the history, losses and adoptions
 *	 takeover.c			writes the stages, and wants scans
 *	 recovery_scan.c	writes how far the scans are
 *
 * All others only read.  The board calls none of them: whoever has to act on a change compares
 * a count of the board with the one that it has seen last.  So this file includes no other
 * file of the worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "ledger/life_check.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "wire/hex.h"
#include "worker/life_board.h"

static struct
{
	EoHistory	history;		/* up to the current life */
	dlist_head	checks;			/* EoLifeCheck */
	EoLifeCounts counts;
	bool		to_publish;		/* a check has changed */
}			board;

/* ----- the question ----- */

static bool
is_in_place(const EoLifeCheck *c, const EoTarget *target, const uint8 *id)
{
	return memcmp(c->place.life, id, EO_UUID_LEN) == 0 &&
		eo_target_same_place(&c->place.target, target);
}

static EoLifeCheck *
find_check(const EoTarget *target, const uint8 *id)
{
	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (is_in_place(c, target, id))
			return c;
	}
	return NULL;
}

void
eo_life_board_verdict(const EoTarget *target, const uint8 *id, EoLifeVerdict *verdict)
{
	const EoLifeCheck *c = find_check(target, id);
	EoLifeFinding finding = {0};

	if (c != NULL)
	{
		finding.exists = c->exists;
		finding.over = c->stage == EO_LIFE_CHECK_OVER;
		finding.closed = c->closed;
		finding.beats = c->watch == EO_WATCH_BEATS;
		finding.unread = c->ended && c->silence.since_us == 0;
		finding.ancestors = c->ancestors;
	}
	eo_life_verdict(&board.history, id, &finding, verdict);
}

void
eo_life_board_watch(const EoTarget *target, const uint8 *id)
{
	eo_life_board_enter_life(target, id)->asked = true;
}

bool
eo_life_board_any(void)
{
	for (const EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (c->stage != EO_LIFE_CHECK_OVER &&
			(c->ended || c->in_flight > 0 || c->watch == EO_WATCH_SILENT))
			return true;
	}
	return false;
}

/* ----- history and counts ----- */

const EoHistory *
eo_life_board_history(void)
{
	return &board.history;
}

/* Until here the old history counts: without its lives all others would be strangers. */
void
eo_life_board_take_history(const EoHistory *read)
{
	if (board.history.rows != NULL)
		pfree(board.history.rows);
	board.history = *read;
}

EoLifeCounts *
eo_life_board_counts(void)
{
	return &board.counts;
}

/* ----- checks ----- */

EoLifeCheck *
eo_life_board_next(const EoLifeCheck *after)
{
	if (after == NULL)
		return dlist_is_empty(&board.checks) ? NULL :
			dlist_head_element(EoLifeCheck, node, &board.checks);
	if (!dlist_has_next(&board.checks, (dlist_node *) &after->node))
		return NULL;
	return dlist_container(EoLifeCheck, node, after->node.next);
}

EoLifeCheck *
eo_life_board_enter(const EoPlace *place)
{
	EoLifeCheck *c = find_check(&place->target, place->life);

	if (c != NULL)
		return c;
	c = MemoryContextAllocZero(TopMemoryContext, sizeof(EoLifeCheck));
	c->place = *place;
	c->scanned = -1;
	eo_hex_put_uuid(place->life, c->id);
	dlist_push_tail(&board.checks, &c->node);
	return c;
}

EoLifeCheck *
eo_life_board_enter_life(const EoTarget *target, const uint8 *id)
{
	EoPlace		place = {.target = *target};

	memcpy(place.life, id, EO_UUID_LEN);
	return eo_life_board_enter(&place);
}

void
eo_life_board_remove(EoLifeCheck *c)
{
	dlist_delete(&c->node);
	pfree(c);
}

void
eo_life_board_set_over(EoLifeCheck *c)
{
	c->stage = EO_LIFE_CHECK_OVER;
	board.counts.changes++;
	board.to_publish = true;
}

void
eo_life_board_take_back(EoLifeCheck *c)
{
	c->stage = EO_LIFE_CHECK_LOOK;
	c->watch = EO_WATCH_LOOKING;
	c->silence.since_us = 0;
	c->due_us = 0;
	eo_life_board_end_scan(c);
}

/* ----- recovery scans ----- */

void
eo_life_board_want_scan(EoLifeCheck *c, const char *by)
{
	c->scan = ++board.counts.scans;
	if (by != c->scan_by)
		strlcpy(c->scan_by, by, sizeof(c->scan_by));
	board.to_publish = true;
}

void
eo_life_board_end_scan(EoLifeCheck *c)
{
	if (c->scan != 0)
		board.counts.scans++;
	c->scan = 0;
	board.to_publish = true;
}

bool
eo_life_board_repeat_scan(const EoTarget *target, const char *life)
{
	uint8		id[EO_UUID_LEN];
	EoLifeCheck *c = eo_hex_read_uuid(life, id) ? find_check(target, id) : NULL;

	if (c == NULL || c->stage != EO_LIFE_CHECK_OVER)
		return false;
	if (c->scan == 0)
		eo_life_board_want_scan(c, c->scan_by);
	return true;
}

void
eo_life_board_set_scanned(const EoTarget *target, int64 items)
{
	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (eo_target_same_place(&c->place.target, target))
			c->scanned = items;
	}
	board.to_publish = true;
}

/* ----- the view exactonce_lives ----- */

void
eo_life_board_touch(void)
{
	board.to_publish = true;
}

/* A life that is over, and has left nothing, is of no interest. */
static bool
is_of_interest(const EoLifeCheck *c)
{
	return c->stage != EO_LIFE_CHECK_OVER || c->ended || c->scan != 0;
}

void
eo_life_board_publish(void)
{
	EoLifeReport *reports;
	int			n = 0;

	if (!board.to_publish)
		return;
	board.to_publish = false;
	for (const EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
		n++;
	reports = palloc0(sizeof(EoLifeReport) * Max(1, n));
	n = 0;
	for (const EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		bool		over = c->stage == EO_LIFE_CHECK_OVER;

		if (!is_of_interest(c))
			continue;
		memcpy(reports[n].life, c->place.life, EO_UUID_LEN);
		reports[n].target = c->place.target;
		reports[n].watch = over ? EO_WATCH_OVER : c->watch;
		reports[n].scanned = over ? c->scanned : -1;
		reports[n].beat = c->silence.beat;
		reports[n++].since_us = c->silence.since_us;
	}
	eo_life_watch_report(MyDatabaseId, reports, n);
	pfree(reports);
}
