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
 * Who may write a table can put records into it that name any number of lives.  A life that is
 * neither one of the history nor a branch of it cannot become ours, and nobody waits for its
 * silence.  So what is known of it lapses when nobody has met it for minutes, and it is read at
 * pauses that grow.  Lives that are not of the history, branches or not, have a limited number of
 * checks, which the roles share whose targets they are met by: one more takes the place of one of
 * the same role, or is not looked at until somebody meets it again.
 *
 * All others only read.  The board calls none of them: whoever has to act on a change compares
 * a count of the board with the one that it has seen last.  So this file includes no other
 * file of the worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/bars.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "ledger/life_check.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "server/guc.h"
#include "utils/memutils.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "worker/life_board.h"

/* A life of others is forgotten if nobody has met it for so long. */
#define KEEP_US INT64CONST(300000000)

/* The first pause between two reads of a life of others, which doubles, and the longest one. */
#define MIN_PAUSE_US INT64CONST(5000000)
#define MAX_PAUSE_US INT64CONST(300000000)

/* Checks of lives that are not of the history, and those of one role among them. */
#define MAX_FOREIGN 256
#define MAX_FOREIGN_OF_ROLE 32

/* See rank_of(). */
#define LAST_RANK 2

static struct
{
	EoHistory	history;		/* up to the current life */
	dlist_head	checks;			/* EoLifeCheck */
	EoLifeCounts counts;
	bool		to_publish;		/* a check has changed */
}			board;

static bool make_room(Oid userid);
static bool may_go(const EoLifeCheck *c);

/* ----- the question ----- */

static bool
is_in_place(const EoLifeCheck *c, const EoTarget *target, const uint8 *id)
{
	return memcmp(c->place.life, id, EO_UUID_LEN) == 0 &&
		eo_target_same_place(&c->place.target, target);
}

/* Has this data been through the life, or that of the database it comes from? */
static bool
is_of_history(const uint8 *id)
{
	return eo_life_rows_find(&board.history, id) >= 0 ||
		eo_life_rows_is_earlier(&board.history, id);
}

/* Is it the life of this data, or one that has ended in this cluster? */
static bool
is_own(const EoLifeCheck *c)
{
	return c->ended || is_of_history(c->place.life);
}

/*
 * Is it neither one of ours nor a branch, as far as is known, and has nobody to act on it?  In his
 * place a tenant gives as many lives as he likes another heir.
 */
static bool
is_foreign(const EoLifeCheck *c)
{
	if (c->watch == EO_WATCH_FOREIGN && !c->ended && !eo_target_is_trusted(&c->place.target))
		return c->stage == EO_LIFE_CHECK_LOOK;
	return c->stage == EO_LIFE_CHECK_LOOK && !is_own(c) &&
		!eo_life_verdict_leads_into(&board.history, c->ancestors);
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

		/*
		 * Where our current life is barred its heir has inherited what it had
		 * retired.
		 */
		finding.over = c->stage == EO_LIFE_CHECK_OVER &&
			(c->closed || !eo_bar_is_barred(target));
		finding.closed = c->closed;
		finding.beats = c->watch == EO_WATCH_BEATS;
		finding.unread = c->ended && c->silence.since_us == 0;
		finding.ancestors = c->ancestors;
	}
	eo_life_verdict(&board.history, target, id, &finding, verdict);
}

void
eo_life_board_watch(const EoTarget *target, const uint8 *id)
{
	EoLifeCheck *c = eo_life_board_enter_life(target, id);

	if (c != NULL)
		c->asked = true;
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
	EoLifeCheck *c = find_check(target, id);
	EoPlace		place = {.target = *target};

	if (c == NULL)
	{
		if (!is_of_history(id) && !make_room(target->userid))
			return NULL;
		memcpy(place.life, id, EO_UUID_LEN);
		c = eo_life_board_enter(&place);
	}
	c->asked_us = eo_clock_monotonic_us();
	return c;
}

/* May one more life that is not of the history be looked at for this role? */
static bool
make_room(Oid userid)
{
	EoLifeCheck *oldest = NULL;
	int			others = 0;
	int			of_role = 0;

	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (is_own(c))
			continue;
		if (c->place.target.userid != userid)
		{
			others++;
			continue;
		}
		of_role++;
		/* A life that is over is a branch of ours: it goes last. */
		if (may_go(c) && (oldest == NULL || c->stage < oldest->stage ||
						  (c->stage == oldest->stage && c->asked_us < oldest->asked_us)))
			oldest = c;
	}
	if (of_role < Min(MAX_FOREIGN_OF_ROLE, (MAX_FOREIGN - others) / 2))
		return true;
	if (oldest != NULL)
		eo_life_board_remove(oldest);
	return oldest != NULL;
}

/* Would nothing be lost with the check but what another read tells? */
static bool
may_go(const EoLifeCheck *c)
{
	if (c->in_flight > 0)
		return false;
	return c->stage == EO_LIFE_CHECK_OVER ? c->scan == 0 :
		is_foreign(c) && c->silence.since_us != 0;
}

void
eo_life_board_lapse(void)
{
	int64		since_us = eo_clock_monotonic_us() - eo_guc_hurried_us(KEEP_US);
	EoLifeCheck *next = eo_life_board_next(NULL);

	while (next != NULL)
	{
		EoLifeCheck *c = next;

		next = eo_life_board_next(c);
		if (c->in_flight == 0 && c->asked_us < since_us && is_foreign(c))
			eo_life_board_remove(c);
	}
}

void
eo_life_board_pause(EoLifeCheck *c)
{
	if (c->in_flight > 0 || !is_foreign(c))
		return;
	c->pause_us = Max(MIN_PAUSE_US, Min(MAX_PAUSE_US, 2 * c->pause_us));
	c->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(c->pause_us);
}

void
eo_life_board_remove(EoLifeCheck *c)
{
	dlist_delete(&c->node);
	pfree(c);
	board.to_publish = true;
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

/* The order in which they are shown, if there are too many: ours, branches, others. */
static int
rank_of(const EoLifeCheck *c)
{
	return is_own(c) ? 0 : is_foreign(c) ? LAST_RANK : 1;
}

static void
fill_report(const EoLifeCheck *c, EoLifeReport *report)
{
	bool		over = c->stage == EO_LIFE_CHECK_OVER;

	memcpy(report->life, c->place.life, EO_UUID_LEN);
	report->target = c->place.target;
	report->watch = over ? EO_WATCH_OVER : c->watch;
	report->scanned = over ? c->scanned : -1;
	report->beat = c->silence.beat;
	report->since_us = c->silence.since_us;
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
	for (int rank = 0; rank <= LAST_RANK; rank++)
	{
		for (const EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
		{
			if (is_of_interest(c) && rank_of(c) == rank)
				fill_report(c, &reports[n++]);
		}
	}
	eo_life_watch_report(MyDatabaseId, reports, n);
	pfree(reports);
}
