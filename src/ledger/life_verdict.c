/*-------------------------------------------------------------------------
 *
 * life_verdict.c
 *	  Is a life over, and who answers for what it has left?
 *
 * eo_life_verdict() says what follows from the history of this data and from what the item
 * of the life says.  A session reads the item when it needs the verdict.  The worker reads the
 * items of many lives again and again, keeps what they say (worker/life_board.c), and takes over
 * from lives that are over without having been closed (worker/takeover.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/bars.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/runs.h"
#include "cluster/target.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "miscadmin.h"
#include "records/life_item.h"
#include "server/answer.h"
#include "server/life_store.h"
#include "server/store.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "wire/http.h"
#include "wire/status.h"

/* A life of this cluster that is over is retired in about a round trip. */
#define RETIRE_WAIT_US INT64CONST(1000000)

/* Lives that have retired one another are followed this far. */
#define MAX_HEIRS 4

/* ----- the verdict ----- */

bool
eo_life_verdict_leads_into(const EoHistory *history, const char *ancestors)
{
	uint8		id[EO_UUID_LEN];

	while (ancestors != NULL && eo_hex_read_uuid(ancestors, id))
	{
		if (eo_life_rows_find(history, id) >= 0)
			return true;
		ancestors += EO_UUID_TEXT_LEN;
		ancestors += *ancestors == ' ';
	}
	return false;
}

/*
 * The lowest floor and start of the runs since that of a life.  The history goes from new to
 * old: the row of the first life of another run after it tells, for its own run and for those
 * without a life in between.  All runs after that have higher ones: this data has that
 * row, so none of them went back to before it.  If there is no such row, the runs up to the
 * present one are without a life.
 */
static void
find_next(const EoHistory *history, int i, uint64 *floor, uint64 *start)
{
	const EoLifeRow *rows = history->rows;
	int			j = i - 1;

	while (j >= 0 && memcmp(rows[j].run, rows[i].run, EO_UUID_LEN) == 0)
		j--;
	if (j < 0)
		eo_runs_since(rows[i].run, floor, start);
	else
	{
		*floor = rows[j].xid_floor;
		*start = rows[j].xid_start;
	}
}

void
eo_life_verdict(const EoHistory *history, const EoTarget *target, const uint8 *id,
				const EoLifeFinding *finding, EoLifeVerdict *verdict)
{
	static const EoLifeFinding nothing;
	const EoLifeFinding *f = finding != NULL ? finding : &nothing;
	int			i;

	*verdict = (EoLifeVerdict)
	{
		.relation = EO_LIFE_OTHER,.next_floor = UINT64_MAX,.next_start = UINT64_MAX
	};
	if (eo_life_is_current(MyDatabaseId, id))
	{
		verdict->relation = eo_bar_is_ours(target, id) ? EO_LIFE_OURS : EO_LIFE_OTHER;
		verdict->known = verdict->exists = verdict->this_run = true;
		return;
	}
	i = eo_life_rows_find(history, id);
	verdict->known = i >= 0 || eo_life_verdict_leads_into(history, f->ancestors);
	if (f->over && verdict->known)
		verdict->relation = i >= 0 ? EO_LIFE_PAST : EO_LIFE_BRANCH;
	verdict->known |= f->unread;
	verdict->exists = f->exists;
	verdict->beats = f->beats;
	verdict->closed = f->closed;
	verdict->this_run = i >= 0 && memcmp(history->rows[i].run, eo_runs_present(), EO_UUID_LEN) == 0;
	if (i >= 0 && !verdict->this_run)
		find_next(history, i, &verdict->next_floor, &verdict->next_start);
}

bool
eo_life_verdict_passes_on(const EoHistory *history, const uint8 *heir, bool closed)
{
	return !closed || eo_life_rows_find(history, heir) >= 0;
}

/* ----- for sessions ----- */

/*
 * Is the life over for us, by what its item says?  It is if it was closed, or retired by
 * our current life.  If another life has retired it, that heir must be over for us in turn,
 * and pass it on.
 */
static bool
is_over(EoStore *store, const EoTarget *target, const EoHistory *history, const EoLifeItem *item,
		int depth, EoError *error, bool *failed)
{
	uint8		by[EO_UUID_LEN];
	EoAnswer   *answer;
	EoLifeItem *heir;
	bool		over = false;

	if (item->state != EO_LIFE_RETIRED)
		return item->state == EO_LIFE_CLOSED;
	if (!eo_hex_read_uuid(item->retired_by, by))
		return false;
	if (eo_life_is_current(MyDatabaseId, by))
		return eo_bar_is_ours(target, by);
	if (depth >= MAX_HEIRS)
		return false;
	answer = eo_answer_run_one(eo_life_store_prepare_read(store, target->prefix, item->retired_by));
	heir = eo_life_store_item(answer);
	if (answer->outcome == EO_FAILED_CALL)
	{
		*error = answer->error;
		*failed = true;
	}
	else if (answer->exists &&
			 eo_life_verdict_passes_on(history, by, heir->state == EO_LIFE_CLOSED))
		over = is_over(store, target, history, heir, depth + 1, error, failed);
	eo_answer_free(answer);
	return over;
}

bool
eo_life_verdict_read(EoStore *store, const EoHistory *history, const uint8 *id,
					 EoLifeVerdict *verdict, EoError *error)
{
	char		text[EO_UUID_TEXT_LEN + 1];
	EoTarget	target;
	EoLifeFinding finding = {0};
	EoAnswer   *answer;
	bool		failed = false;

	eo_target_of(store, &target);
	if (eo_life_is_current(MyDatabaseId, id))
	{
		eo_life_verdict(history, &target, id, NULL, verdict);
		return true;
	}
	eo_hex_put_uuid(id, text);
	answer = eo_answer_run_one(eo_life_store_prepare_read(store, target.prefix, text));
	if (answer->outcome == EO_FAILED_CALL)
	{
		*error = answer->error;
		failed = true;
	}
	else if (answer->exists)
	{
		const EoLifeItem *item = eo_life_store_item(answer);

		finding.exists = true;
		finding.closed = item->state == EO_LIFE_CLOSED;
		finding.over = is_over(store, &target, history, item, 0, error, &failed);
		finding.ancestors = item->ancestors;
	}
	if (!failed)
		eo_life_verdict(history, &target, id, &finding, verdict);
	eo_answer_free(answer);
	return !failed;
}

/* Is the worker about to retire the life here, because this cluster knows that it is over? */
static bool
is_being_retired(const EoTarget *target, const uint8 *id)
{
	uint32		cursor = 0;
	EoPlace		place;

	while (eo_life_walk_places(MyDatabaseId, false, &cursor, &place))
	{
		if (memcmp(place.life, id, EO_UUID_LEN) == 0 && (place.open || place.sent) &&
			!place.retired && place.barred_at == 0 && eo_target_same_place(&place.target, target))
			return true;
	}
	return false;
}

bool
eo_life_verdict_watch(EoStore *store, const uint8 *id, EoLifeVerdict *verdict, EoError *error)
{
	int64		give_up_us = eo_clock_monotonic_us() + RETIRE_WAIT_US;
	EoHistory	history = {0};
	EoTarget	target;

	eo_target_of(store, &target);
	if (eo_bar_is_ours(&target, id))
		return eo_life_verdict_read(store, &history, id, verdict, error);
	eo_database_wake(MyDatabaseId);
	while (is_being_retired(&target, id) && eo_clock_monotonic_us() < give_up_us)
		eo_http_wait(eo_clock_monotonic_us() + 2000, EO_WAIT_RAISE);
	eo_life_rows_read(&history);
	if (!eo_life_verdict_read(store, &history, id, verdict, error))
		return false;
	if (verdict->relation == EO_LIFE_OTHER)
	{
		eo_life_watch_add(&target, id);
		eo_database_wake(MyDatabaseId);
	}
	return true;
}
