/*-------------------------------------------------------------------------
 *
 * audit.c
 *	  Do the records of a table match the work in this data?
 *
 * A key is COMPLETED if and only if its transaction committed.  Failovers that nobody
 * provided for, and recoveries to an earlier point in time, break that: the record says
 * that the work is done, and the data does not have it.  This file finds such keys.
 *
 * The table is scanned once.  A record says by its origin which transaction completed
 * it.  What is asked depends on how the transaction's life stands to this data:
 *
 *	 in our history			-> the commit log, see eo_settle_judge_completed()
 *	 descends from it		-> none of its commits are here
 *	 is an earlier one of the database that this data comes from (life_rows.h)
 *							-> that one may go on: the records are counted
 *	 has no item			-> it may be any of these: the records are counted
 *	 anything else			-> another database's: left out
 *
 * A missing commit is lost only if this data has taken over from its life.  Otherwise
 * another server may go on with it, and the key must not be done again before that is
 * ruled out.
 *
 * Records that are COMMITTING are judged as a session would (settle.c), but not written.
 * The worker settles such records all the time, so what looks wrong is read once more.
 *
 * After the scan the outbox is compared.  A row stays there until its record was marked
 * COMPLETED.  If the record is gone, or is not the row's any more, somebody else has
 * settled the key: a second heir, or another program.  Such a row is stronger than what
 * the scan finds under its key, so the scan leaves the key to it.
 *
 * One request is in flight at a time.  Each is followed by a pause, which pays for the
 * capacity that it took.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/timeline.h"
#include "cluster/progress.h"
#include "cluster/target.h"
#include "commit/audit.h"
#include "commit/scan.h"
#include "commit/settle.h"
#include "compat.h"
#include "ledger/clock_sync.h"
#include "ledger/known_targets.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "ledger/outbox.h"
#include "records/layout.h"
#include "records/origin.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/store_record.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "wire/hex.h"
#include "wire/json.h"
#include "wire/status.h"

/* A life that records name. */
typedef struct KnownLife
{
	uint8		id[EO_UUID_LEN];	/* the hash key */
	bool		is_ours;		/* this data has been through it */
	bool		is_earlier;		/* the same, before it was copied */
	bool		looked;			/* its item was read */
	EoLifeVerdict verdict;		/* before that, by the history alone */
} KnownLife;

typedef struct Audit
{
	EoStore    *store;
	EoTarget	target;
	char	   *pk_prefix;		/* of the records under the key_prefix */
	void		(*report) (const EoAuditRow *row, void *arg);
	void	   *arg;
	MemoryContext context;		/* lasts as long as the audit */
	EoHistory	history;
	List	   *timelines;		/* that this data has been through */
	HTAB	   *lives;			/* KnownLife */
	EoPages		pages;
	int64		unjudged;		/* records of lives without an item */
	int64		earlier;		/* of lives of the original */
} Audit;

static List *found_rows;
static const Audit *visiting;

static void run(Audit *a);
static void judge_item(EoJsonValue *item, void *arg);
static void judge_completed(Audit *a, const char *pk, const EoRecord *r);
static XLogRecPtr timeline_end(const Audit *a, uint32 timeline);
static void judge_committing(Audit *a, const char *pk, const EoRecord *seen);
static bool is_in_doubt(Audit *a, const EoRecord *r, EoAuditFinding *finding);
static KnownLife *find_life(Audit *a, const uint8 *id);
static void judge_by_history(Audit *a, KnownLife *life);
static void look_at(Audit *a, KnownLife *life);
static void compare_rows(Audit *a);
static void compare_row(Audit *a, const EoOutboxRow *row);
static EoAnswer *read_again(Audit *a, const char *pk);
static const char *key_of(const Audit *a, const char *pk);
static void put(Audit *a, EoAuditFinding finding, const char *pk, const EoRecord *r,
				const EoOrigin *origin, const pg_uuid_t *pending);
static void put_count(Audit *a, EoAuditFinding finding, int64 records);

void
eo_audit(EoStore *store, int units_per_second,
		 void (*report) (const EoAuditRow *row, void *arg), void *arg)
{
	Audit		a = {.store = store};
	MemoryContext old;

	a.pages.store = store;
	a.pages.units_per_second = units_per_second;
	a.report = report;
	a.arg = arg;
	a.context = AllocSetContextCreate(CurrentMemoryContext, "exactonce audit",
									  ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(a.context);
	run(&a);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(a.context);
}

static void
run(Audit *a)
{
	HASHCTL		ctl = {.keysize = EO_UUID_LEN,.entrysize = sizeof(KnownLife),.hcxt = a->context};

	EoError		error;

	eo_target_of(a->store, &a->target);
	if (!eo_clock_sync_make(a->store, 0, &error))
		eo_error_raise(&error, "audit the keys", NULL, a->store->server->name);
	a->pk_prefix = eo_store_pk(a->store, "");
	eo_life_rows_read(&a->history);
	a->timelines = readTimeLineHistory(eo_compat_timeline());
	a->lives = hash_create("exactonce lives of an audit", 64, &ctl,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	a->pages.scan.states[0] = EO_STATE_COMMITTING;
	a->pages.scan.states[1] = EO_STATE_COMPLETED;
	eo_scan_read(&a->pages, judge_item, a);
	compare_rows(a);
	put_count(a, EO_FOUND_EARLIER, a->earlier);
	put_count(a, EO_FOUND_UNJUDGED, a->unjudged);
	put_count(a, EO_FOUND_UNREADABLE, a->pages.scan.unreadable);
}

/* ----- the scan ----- */

static void
judge_item(EoJsonValue *item, void *arg)
{
	Audit	   *a = arg;
	const EoLayout *layout = a->store->layout;
	const char *pk = eo_record_pk_of(layout, item);
	EoRecord	r;

	if (pk == NULL || strncmp(pk, a->pk_prefix, strlen(a->pk_prefix)) != 0)
		return;
	if (eo_record_read(layout, item, &r) != EO_OK)
	{
		a->pages.scan.unreadable++;
		return;
	}
	if (!r.has_origin || r.origin.xid == 0)
		return;
	if (r.state == EO_STATE_COMMITTING)
		judge_committing(a, pk, &r);
	else if (r.state == EO_STATE_COMPLETED && !eo_store_is_expired(a->store, &r))
		judge_completed(a, pk, &r);
}

/* ----- records that are COMPLETED ----- */

static void
judge_completed(Audit *a, const char *pk, const EoRecord *r)
{
	KnownLife  *life = find_life(a, r->origin.life);
	uint8		digest[EO_DIGEST_LEN];
	EoFate		by_log = EO_FATE_ABORTED;
	EoFate		by_row;
	EoOutboxRow row;

	if (life->is_earlier)
	{
		a->earlier++;
		return;
	}
	if (life->is_ours)
		by_log = eo_settle_judge_completed(&r->origin, &life->verdict,
										   timeline_end(a, r->origin.timeline));
	else
	{
		look_at(a, life);
		if (!life->verdict.exists)
			a->unjudged++;
		if (!life->verdict.known)
			return;
	}
	if (by_log == EO_FATE_COMMITTED)
		return;
	/* This data has work under the key, after all: compare_rows() reports it. */
	eo_target_digest(&a->target, pk, digest);
	if (eo_outbox_read(digest, &row))
		return;

	/*
	 * The same by another address of the table, or by a later transaction of
	 * the claim.
	 */
	by_row = eo_outbox_find(r->owner, &r->origin, NULL);
	if (by_row == EO_FATE_COMMITTED || by_row == EO_FATE_OTHER_COMMITTED)
		return;
	if (by_log == EO_FATE_UNKNOWN)
	{
		put(a, by_row == EO_FATE_RUNNING ? EO_FOUND_PREPARED : EO_FOUND_UNKNOWN, pk, r,
			&r->origin, NULL);
		return;
	}
	look_at(a, life);
	put(a, life->verdict.this_run ? EO_FOUND_LOST :
		life->verdict.relation == EO_LIFE_OTHER ? EO_FOUND_ELSEWHERE :
		life->verdict.closed ? EO_FOUND_CLOSED : EO_FOUND_LOST, pk, r, &r->origin, NULL);
}

/* Where this data left a timeline; Invalid: it is on it, or has no such notes. */
static XLogRecPtr
timeline_end(const Audit *a, uint32 timeline)
{
	ListCell   *cell;

	foreach(cell, a->timelines)
	{
		const		TimeLineHistoryEntry *entry = lfirst(cell);

		if (entry->tli == timeline)
			return entry->end;
	}
	return InvalidXLogRecPtr;
}

/* ----- records that are COMMITTING ----- */

/* The worker may have settled the record since it was read, so a second read decides. */
static void
judge_committing(Audit *a, const char *pk, const EoRecord *seen)
{
	EoAnswer   *answer;
	const EoRecord *r;
	EoAuditFinding finding;

	if (!is_in_doubt(a, seen, &finding))
		return;
	answer = read_again(a, pk);
	r = answer->exists && answer->outcome != EO_FAILED_CALL ? eo_store_record(answer) : NULL;
	if (r != NULL && r->state == EO_STATE_COMMITTING && r->has_origin && r->origin.xid != 0 &&
		is_in_doubt(a, r, &finding))
		put(a, finding, pk, r, &r->origin, NULL);
	eo_answer_free(answer);
}

/* Is nobody going to settle the record, as far as can be told here? */
static bool
is_in_doubt(Audit *a, const EoRecord *r, EoAuditFinding *finding)
{
	KnownLife  *life = find_life(a, r->origin.life);

	if (life->is_earlier)
	{
		a->earlier++;
		return false;
	}
	look_at(a, life);
	if (!life->verdict.known)
		return false;
	*finding = EO_FOUND_WAITING;
	if (life->verdict.relation == EO_LIFE_OTHER)
		return true;
	*finding = EO_FOUND_DOUBT;
	return eo_settle_judge(&r->origin, r->owner, &life->verdict, NULL) == EO_FATE_UNKNOWN;
}

/* ----- lives ----- */

static KnownLife *
find_life(Audit *a, const uint8 *id)
{
	bool		found;
	KnownLife  *life = hash_search(a->lives, id, HASH_ENTER, &found);

	if (found)
		return life;
	life->looked = false;
	judge_by_history(a, life);
	if (!life->is_ours)
	{
		/* It may have been minted since the history was read. */
		MemoryContext old = MemoryContextSwitchTo(a->context);

		pfree(a->history.rows);
		eo_life_rows_read(&a->history);
		MemoryContextSwitchTo(old);
		judge_by_history(a, life);
	}
	return life;
}

static void
judge_by_history(Audit *a, KnownLife *life)
{
	life->is_ours = eo_life_rows_find(&a->history, life->id) >= 0;
	life->is_earlier = eo_life_rows_is_earlier(&a->history, life->id);
	eo_life_verdict(&a->history, &a->target, life->id, NULL, &life->verdict);
}

/* Read the life's item, once for each audit. */
static void
look_at(Audit *a, KnownLife *life)
{
	EoError		error;

	if (life->looked)
		return;
	eo_scan_wait(&a->pages);
	if (!eo_life_verdict_read(a->store, &a->history, life->id, &life->verdict, &error))
	{
		char		id[EO_UUID_TEXT_LEN + 1];

		eo_hex_put_uuid(life->id, id);
		eo_error_raise_life(&error, "read", id, a->store->server->name);
	}
	life->looked = true;
	eo_scan_pay(&a->pages, 1);
}

/* ----- rows of the outbox ----- */

/* The server may have been altered since: then the row is for another address. */
static bool
is_of_server(const EoOutboxRow *row, const Audit *a)
{
	return eo_target_same_prefix(&row->target, &a->target) ||
		(row->target.serverid == a->target.serverid &&
		 strcmp(row->target.prefix, a->target.prefix) == 0 &&
		 strncmp(row->pk, a->pk_prefix, strlen(a->pk_prefix)) == 0);
}

static bool
collect_row(const EoOutboxRow *row)
{
	EoOutboxRow *copy;
	MemoryContext old;

	if (!is_of_server(row, visiting))
		return true;
	old = MemoryContextSwitchTo(visiting->context);
	copy = palloc(sizeof(EoOutboxRow));
	*copy = *row;
	copy->pk = pstrdup(row->pk);
	found_rows = lappend(found_rows, copy);
	MemoryContextSwitchTo(old);
	return true;
}

static void
compare_rows(Audit *a)
{
	ListCell   *cell;

	found_rows = NIL;
	visiting = a;
	(void) eo_outbox_visit(0, collect_row);
	foreach(cell, found_rows)
	{
		CHECK_FOR_INTERRUPTS();
		compare_row(a, lfirst(cell));
		eo_progress_note(a->pages.scan.items, a->pages.found);
	}
}

/*
 * Read the record of a row by the row's own address.  NULL: that is not the server's any more, and
 * does not answer.
 */
static EoAnswer *
read_for(Audit *a, const EoOutboxRow *row)
{
	EoStore    *store;
	EoAnswer   *answer;

	if (eo_target_same_prefix(&row->target, &a->target))
		return read_again(a, row->pk);
	store = eo_known_target_exists(&row->target) ? eo_target_store(&row->target) : NULL;
	if (store == NULL)
		return NULL;
	eo_scan_wait(&a->pages);
	answer = eo_store_record_look(store, row->pk);
	eo_scan_pay(&a->pages, 1);
	return answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID ? NULL : answer;
}

/*
 * The row was read before the record.  So the record had been sealed under its token
 * before, and must still be, unless the row has gone since.
 */
static void
compare_row(Audit *a, const EoOutboxRow *row)
{
	EoAnswer   *answer;
	const EoRecord *r;
	bool		unreadable;
	EoOrigin	origin = {.xid = row->xid};
	pg_uuid_t	id;

	if (!eo_outbox_read_claim(row->token, NULL))
		return;
	answer = read_for(a, row);
	if (answer == NULL)
		return;
	unreadable = answer->outcome == EO_FAILED_CALL;
	r = answer->exists && !unreadable ? eo_store_record(answer) : NULL;
	if ((r == NULL || strcmp(r->owner, row->token) != 0 ||
		 (r->state != EO_STATE_COMMITTING && r->state != EO_STATE_COMPLETED)) &&
		eo_outbox_read_claim(row->token, NULL))
	{
		memcpy(origin.life, row->life, sizeof(origin.life));
		eo_outbox_id(row, &id);
		put(a, r == NULL && !unreadable ? EO_FOUND_NO_RECORD : EO_FOUND_TWICE, row->pk, r,
			&origin, &id);
	}
	eo_answer_free(answer);
}

/* ----- both ----- */

/* The key as it is shown: without our prefix, if it has that.  An action does not. */
static const char *
key_of(const Audit *a, const char *pk)
{
	return eo_record_key_text(a->store->layout, a->target.prefix, pk);
}

static EoAnswer *
read_again(Audit *a, const char *pk)
{
	EoAnswer   *answer;

	eo_scan_wait(&a->pages);
	answer = eo_store_record_look(a->store, pk);
	/* A record that cannot be read is there, and is none of ours. */
	if (answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID)
		eo_error_raise(&answer->error, "read", key_of(a, pk), a->store->server->name);
	eo_scan_pay(&a->pages, 1);
	return answer;
}

static void
put(Audit *a, EoAuditFinding finding, const char *pk, const EoRecord *r, const EoOrigin *origin,
	const pg_uuid_t *pending)
{
	EoAuditRow	row = {.finding = finding,.origin = origin,.pending = pending};

	row.key = key_of(a, pk);
	row.status = r != NULL ? eo_record_state_name(r->state) : NULL;
	row.updated_ms = r != NULL ? r->updated_ms : 0;
	a->pages.found++;
	a->report(&row, a->arg);
}

/* Report that so many records were not judged. */
static void
put_count(Audit *a, EoAuditFinding finding, int64 records)
{
	EoAuditRow	row = {.finding = finding,.records = records};

	if (records > 0)
		a->report(&row, a->arg);
}
