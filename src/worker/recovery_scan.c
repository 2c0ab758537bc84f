/*-------------------------------------------------------------------------
 *
 * recovery_scan.c
 *	  The recovery scan: what lives that are over have left in a table.
 *
 * After a restart in place the claim file says which records an ended life has left.
 * After any other end, such as a failover, nobody knows.  Records that somebody meets
 * are settled then; so that nothing waits to be met, the heir scans the table once.
 * A second pass comes when the signature of every request of the old life has expired,
 * because one may arrive late.  Then the life's item gets a ttl, which also says to
 * later workers that nothing is left to be looked for.
 *
 * The board (life_board.c) says for which lives scans are wanted.  A scan that is wanted begins
 * the scan of its table anew.  Whatever is read is judged for all lives alike.
 *
 * A table is also scanned, once, while its life goes on: when looks at claims at commit have
 * made way (cluster/looks.c), and no late copy of their seals can arrive any more.  The place
 * owes that until everything that was found is written.
 *
 * One request is in flight at a time, and before the next one there is a pause, so that
 * at most exactonce.recovery_scan read units a second are used.  Scans take turns by pages, and
 * every other page is of superusers' tables: those that tenants have, however many and slow, keep
 * them waiting for one page only.  The requests have a window of their own: beats and other
 * writes do not wait for them.  If the role that has used the table may not scan it, any other one
 * that leads there does (known_targets.c).
 *
 * A record is judged as the one that a session meets (settle.c), and written on
 * condition that it is as it was read.  A record that is only claimed is given back if
 * it is bound to its transaction, because that cannot commit any more.  That is not so
 * if its life has ended in this run of the server: the transaction may go on, and seal
 * under the next life.  The slots know when it is over.
 *
 * Another heir may retire our life at any time, and settle by its own data what ours
 * has inherited.  So a write is sent only while our lease holds, and if the life is still
 * over for us then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/bars.h"
#include "cluster/life.h"
#include "cluster/looks.h"
#include "cluster/slot_prepared.h"
#include "cluster/target.h"
#include "commit/scan.h"
#include "commit/settle.h"
#include "compat.h"
#include "ledger/life_verdict.h"
#include "ledger/lives.h"
#include "ledger/lock_limit.h"
#include "ledger/outbox.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "records/layout.h"
#include "records/life_item.h"
#include "records/record.h"
#include "records/window.h"
#include "server/answer.h"
#include "server/call_log.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/life_store.h"
#include "server/store.h"
#include "wire/call.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "wire/json.h"
#include "wire/status.h"
#include "worker/jobs.h"
#include "worker/life_board.h"
#include "worker/own_life.h"
#include "worker/sources.h"
#include "worker/write_targets.h"

#define PASSES 2

/* After a failure the page is asked for again after this, of a tenant after up to 32 times that. */
#define FAILURE_PAUSE_US INT64CONST(10000000)
#define MAX_DOUBLINGS 5

#define PAGE_ITEMS 1000

typedef struct TableScan
{
	dlist_node	node;
	EoTarget	target;
	EoTarget	as;				/* the same place, as it is scanned now */
	int			refused;		/* so many identities may not scan it */
	int			lives;			/* for which the board wants a scan; else it
								 * is one that a place owes */
	int			pass;			/* passes that are finished */
	bool		under_way;		/* a page of the present pass was read */
	bool		again;			/* the page in flight does not count */
	bool		complained;
	int			failures;		/* in a row */
	EoScan		pages;			/* of the present pass */
	int64		due_us;
	int64		began_us;		/* the present pass */
	int64		tells_us;		/* the last pass began then, and all that it
								 * has found is to be written; 0: that is told */
	int			unwritten;		/* records that were found */
} TableScan;

/* The mark that nothing is left of a life. */
typedef struct Mark
{
	char		life[EO_UUID_TEXT_LEN + 1];
	char		by[EO_UUID_TEXT_LEN + 1];	/* the life that has retired it */
} Mark;

/* A record that is to be given back. */
typedef struct Leftover
{
	char	   *pk;
	EoRecord	record;			/* owner, bind, origin_text, lease_ms */
	uint8		life[EO_UUID_LEN];	/* of the origin */
} Leftover;

static struct
{
	dlist_head	scans;
	uint32		seen;			/* the board's count of scans at the last look */
	TableScan  *active;			/* whose request is in flight; NULL: none is */
	EoWorkerTarget *through;	/* its target */
	EoCall		call;
	EoWindow	window;
	int64		sent_us;		/* when it was started */
	int64		until_us;
	bool		of_tenant;		/* the last page was of a tenant's table */
	int64		owed_due_us;	/* the next scan that a place owes */
}			recovery;

/* The items of a page. */
typedef struct Judging
{
	TableScan  *scan;
	EoJsonValue *items;
} Judging;

static void begin_pass(TableScan *scan, int pass);
static bool start_page(TableScan *scan);
static void take_finished(EoWindow *window, EoCall *call, void *arg);
static bool change_identity(TableScan *scan);
static void take_page(TableScan *scan, const EoCall *call);
static void take_item(TableScan *scan, EoJsonValue *item);
static void end_pass(TableScan *scan);
static EoAnswer *prepare_leftover(EoWorkerJob *job, EoStore *store);
static EoAnswer *prepare_mark(EoWorkerJob *job, EoStore *store);
static void end_leftover(const EoWorkerJob *job);
static bool take_leftover(EoWorkerJob *job, const EoAnswer *answer);
static void put_off(EoWorkerJob *job, int64 pause_us);
static void put_off_mark(EoWorkerJob *job, int64 pause_us);

static const EoWorkerJobKind leftover_kind = {
	.prepare = prepare_leftover,
	.take = take_leftover,
	.put_off = put_off,
	.lane = EO_WORKER_WRITES
};

static const EoWorkerJobKind mark_kind = {
	.prepare = prepare_mark,
	.put_off = put_off_mark,
	.lane = EO_WORKER_WRITES
};

static TableScan *
scan_of(const EoTarget *target)
{
	dlist_iter	iter;

	dlist_foreach(iter, &recovery.scans)
	{
		TableScan  *scan = dlist_container(TableScan, node, iter.cur);

		if (eo_target_same_place(&scan->target, target))
			return scan;
	}
	return NULL;
}

static TableScan *
enter_scan(const EoTarget *target)
{
	TableScan  *scan = scan_of(target);

	if (scan != NULL)
		return scan;
	scan = MemoryContextAllocZero(TopMemoryContext, sizeof(TableScan));
	scan->target = scan->as = *target;
	scan->pages.states[0] = EO_STATE_IN_PROGRESS;
	scan->pages.states[1] = EO_STATE_COMMITTING;
	scan->pages.page_items = PAGE_ITEMS;
	scan->pages.context = TopMemoryContext;
	dlist_push_tail(&recovery.scans, &scan->node);
	begin_pass(scan, PASSES);
	return scan;
}

/* Say how far the present pass is. */
static void
tell_progress(const TableScan *scan)
{
	eo_life_board_set_scanned(&scan->target, scan->pass < PASSES && scan->under_way ?
							  scan->pages.items : -1);
}

/* Begin a pass with the first page of the table. */
static void
begin_pass(TableScan *scan, int pass)
{
	eo_scan_rewind(&scan->pages);
	scan->pass = pass;
	scan->under_way = false;
	tell_progress(scan);
}

/* Begin a pass at once.  The page in flight may be past what the pass is for. */
static void
begin_anew(TableScan *scan, int pass)
{
	begin_pass(scan, pass);
	scan->due_us = 0;
	scan->again = scan == recovery.active;
}

/* Does the board want a scan of this table for the life? */
static bool
is_wanted(const TableScan *scan, const EoLifeCheck *c)
{
	return c->scan != 0 && eo_target_same_place(&c->place.target, &scan->target);
}

static int
count_lives(const TableScan *scan)
{
	int			n = 0;

	for (const EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
		n += is_wanted(scan, c);
	return n;
}

/*
 * Look for which lives the board wants scans.  If another heir may have the last life for which
 * a table is scanned, the scan ends.
 */
static void
look_at_board(void)
{
	uint32		seen = recovery.seen;
	dlist_iter	iter;

	recovery.seen = eo_life_board_counts()->scans;
	if (recovery.seen == seen)
		return;
	for (const EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (c->scan > seen)
			begin_anew(enter_scan(&c->place.target), 0);
	}
	dlist_foreach(iter, &recovery.scans)
	{
		TableScan  *scan = dlist_container(TableScan, node, iter.cur);
		int			lives = count_lives(scan);

		if (scan->lives > 0 && lives == 0 && scan->pass < PASSES)
			begin_anew(scan, PASSES);
		scan->lives = lives;
	}
}

bool
eo_recovery_scan_any(void)
{
	dlist_iter	iter;

	look_at_board();
	dlist_foreach(iter, &recovery.scans)
	{
		const TableScan *scan = dlist_container(TableScan, node, iter.cur);

		if (eo_guc_recovery_scan > 0 && scan->pass == 0 && !scan->complained &&
			!eo_bar_is_barred(&scan->target))
			return true;
	}
	return false;
}

bool
eo_recovery_scan_in_flight(void)
{
	return recovery.active != NULL;
}

int64
eo_recovery_scan_due_us(void)
{
	int64		due_us = INT64_MAX;
	dlist_iter	iter;

	look_at_board();
	if (recovery.active != NULL)
		return recovery.until_us;
	if (eo_guc_recovery_scan > 0)
		due_us = recovery.owed_due_us;
	dlist_foreach(iter, &recovery.scans)
	{
		const TableScan *scan = dlist_container(TableScan, node, iter.cur);

		if (eo_guc_recovery_scan > 0 && scan->pass < PASSES)
			due_us = Min(due_us, scan->due_us);
	}
	return due_us;
}

/* ----- scans that places owe ----- */

/* Begin those that are due.  A pass that is to come anyway serves as well. */
static void
begin_owed(int64 now_us)
{
	uint32		cursor = 0;
	EoPlace		place;

	recovery.owed_due_us = INT64_MAX;
	while (eo_life_walk_places(MyDatabaseId, true, &cursor, &place))
	{
		TableScan  *scan;

		if (place.scan_due_us > now_us)
			recovery.owed_due_us = Min(recovery.owed_due_us, place.scan_due_us);
		if (place.scan_due_us == 0 || place.scan_due_us > now_us || place.barred_at != 0)
			continue;
		scan = enter_scan(&place.target);
		/* It may be reached in another way since it was scanned last. */
		if (scan != recovery.active)
			scan->target = place.target;
		if (scan->pass < PASSES || scan->tells_us != 0)
			continue;
		begin_pass(scan, PASSES - 1);
		scan->due_us = 0;
	}
}

/* Say what a pass tells, once all that it has found is written. */
static void
tell(TableScan *scan)
{
	if (scan->tells_us == 0 || scan->unwritten > 0)
		return;
	eo_look_scan_done(&scan->target, scan->tells_us);
	scan->tells_us = 0;
}

/* Forget the scans that are finished: a worker may live long, and meet many tables. */
static void
forget_finished(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &recovery.scans)
	{
		TableScan  *scan = dlist_container(TableScan, node, iter.cur);

		if (scan->pass < PASSES || scan->tells_us != 0 || scan->unwritten > 0 ||
			scan == recovery.active)
			continue;
		dlist_delete(&scan->node);
		eo_scan_rewind(&scan->pages);
		pfree(scan);
	}
}

/* ----- pages ----- */

/* Start a page of the first table that is due, of those of tenants or of the others. */
static void
start_due(bool of_tenants, int64 now_us)
{
	dlist_iter	iter;

	dlist_foreach(iter, &recovery.scans)
	{
		TableScan  *scan = dlist_container(TableScan, node, iter.cur);

		if (recovery.active == NULL && eo_guc_recovery_scan > 0 && scan->pass < PASSES &&
			scan->due_us <= now_us && OidIsValid(scan->target.tenant) == of_tenants &&
			!start_page(scan))
			scan->due_us = now_us + EO_WORKER_TARGET_PAUSE_US;
	}
}

/* Tables of tenants, however many, and of superusers have every other page. */
void
eo_recovery_scan_run(void)
{
	int64		now_us = eo_clock_monotonic_us();
	bool		first = !recovery.of_tenant;

	look_at_board();
	begin_owed(now_us);
	start_due(first, now_us);
	start_due(!first, now_us);
	if (recovery.active != NULL)
		(void) eo_window_turn(&recovery.window, 1, NULL, take_finished, NULL, &recovery.until_us);
	forget_finished();
}

static bool
start_page(TableScan *scan)
{
	recovery.through = eo_write_target_of(&scan->as);
	/* A target without jobs has no store yet. */
	recovery.through->wanted = true;
	/* Its server may be gone, or have invalid options. */
	if (recovery.through->store == NULL && recovery.through->failing)
		(void) change_identity(scan);
	if (!eo_write_target_is_ready(recovery.through) || !eo_own_life_hold(&scan->target) ||
		!eo_jobs_accept(EO_WORKER_WRITES, &scan->target))
		return false;
	/* A page that cannot be judged would be read in vain. */
	if (eo_lock_limit_again_us(EO_LOCKS_OUTBOX) > eo_clock_monotonic_us())
		return false;
	eo_call_init(&recovery.call, &recovery.through->store->client, EO_SCAN);
	eo_scan_prepare(&scan->pages, recovery.through->store, &recovery.call);
	recovery.active = scan;
	recovery.of_tenant = OidIsValid(scan->target.tenant);
	recovery.sent_us = eo_clock_monotonic_us();
	if (!scan->under_way)
		scan->began_us = recovery.sent_us;
	scan->again = false;
	eo_write_target_sent(recovery.through, EO_WORKER_WRITES);
	if (!eo_window_add(&recovery.window, &recovery.call,
					   recovery.sent_us + eo_jobs_limit_us(recovery.through, EO_WORKER_WRITES)))
		take_finished(&recovery.window, &recovery.call, NULL);
	return true;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	TableScan  *scan = recovery.active;
	int64		units;

	(void) window;
	(void) arg;
	eo_call_log(recovery.through->store->server->name, call);
	eo_write_target_ended(recovery.through, EO_WORKER_WRITES);
	recovery.active = NULL;
	/* The others have their turn first. */
	dlist_delete(&scan->node);
	dlist_push_tail(&recovery.scans, &scan->node);
	if (call->error.status == EO_OK)
		take_page(scan, call);
	else if (eo_scan_narrow(&scan->pages, call, &units))
		scan->due_us = recovery.sent_us + eo_scan_pause_us(units, eo_guc_recovery_scan);
	else if (eo_write_target_is_refusal(&call->error) && change_identity(scan))
		scan->due_us = 0;
	else
	{
		scan->due_us = eo_clock_monotonic_us() +
			(eo_guc_hurried_us(FAILURE_PAUSE_US) << Min(scan->failures, MAX_DOUBLINGS));
		scan->failures += OidIsValid(scan->target.tenant);
		if (!scan->complained)
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("exactonce: table \"%s\" cannot be scanned for what %s",
							scan->target.table, scan->lives == 0 ?
							"late requests may have left" : "a life that is over has left"),
					 errdetail_internal("%s", eo_error_facts(&call->error)),
					 errhint("It needs the permission dynamodb:Scan. Until it can be scanned, such keys are settled when somebody meets them.")));
		scan->complained = true;
	}
	eo_call_free(call);
}

/*
 * Have the scan go on by the next identity.  False: none is left, and it begins again; or the
 * catalogs are locked.
 */
static bool
change_identity(TableScan *scan)
{
	EoWorkerIdentities identities;

	if (!eo_write_target_identities(&scan->target, &identities))
		return false;
	scan->as = scan->target;
	if (scan->refused < identities.n)
	{
		scan->as.serverid = identities.refs[scan->refused].serverid;
		scan->as.userid = identities.refs[scan->refused].userid;
		scan->refused++;
		return true;
	}
	scan->refused = 0;
	return false;
}

static void
judge_page(void *arg)
{
	const Judging *page = arg;

	for (size_t i = 0; i < eo_json_array_length(page->items); i++)
		take_item(page->scan, eo_json_array_get(page->items, i));
}

static void
take_page(TableScan *scan, const EoCall *call)
{
	int64		units;
	Judging		page = {scan, eo_scan_take(&scan->pages, recovery.through->store, call, &units)};

	scan->complained = false;
	scan->failures = 0;

	/*
	 * If the outbox is locked now the page must be read again, with those
	 * before it.
	 */
	if (!eo_lock_limit_run(EO_LOCKS_OUTBOX, judge_page, &page))
		scan->again = true;

	/*
	 * The time that the page took is a part of the pause, or the rate would
	 * be lower.
	 */
	scan->due_us = recovery.sent_us + eo_scan_pause_us(units, eo_guc_recovery_scan);
	if (scan->again)
	{
		eo_scan_rewind(&scan->pages);
		tell_progress(scan);
		return;
	}
	scan->under_way = true;
	tell_progress(scan);
	if (scan->pages.ended)
		end_pass(scan);
}

/* Has a life that is over, or ours, left the record, and can the claim not complete it any more? */
static bool
is_left(const EoRecord *r, const uint8 *digest, const EoLifeVerdict *verdict)
{
	if (r->state == EO_STATE_COMMITTING)
		return r->origin.xid != 0 &&
			eo_settle_judge(&r->origin, r->owner, verdict, NULL) == EO_FATE_ABORTED;
	return !verdict->this_run && eo_settle_is_left(r, digest);
}

/*
 * Add a job for a record that is to be given back.  Lives that are named by finished records only
 * are not looked after: most of them are long gone.
 */
static void
take_item(TableScan *scan, EoJsonValue *item)
{
	const EoLayout *layout = recovery.through->store->layout;
	const char *pk = eo_record_pk_of(layout, item);
	EoRecord	r;
	EoLifeVerdict verdict;
	uint8		digest[EO_DIGEST_LEN];
	EoWorkerJob *job;
	Leftover   *left;

	if (pk == NULL)
		return;
	if (eo_record_read(layout, item, &r) != EO_OK)
	{
		scan->pages.unreadable++;
		return;
	}
	if (!r.has_origin || r.owner == NULL ||
		(r.state != EO_STATE_COMMITTING && r.state != EO_STATE_IN_PROGRESS))
		return;
	eo_life_board_verdict(&scan->target, r.origin.life, &verdict);
	if (verdict.relation == EO_LIFE_OTHER)
	{
		eo_life_board_watch(&scan->target, r.origin.life);
		return;
	}
	eo_target_digest(&scan->target, pk, digest);
	if (!is_left(&r, digest, &verdict))
		return;
	job = eo_job_add_for_any(&leftover_kind, &scan->target, r.owner);
	job->data = left = MemoryContextAllocZero(job->context, sizeof(Leftover));
	left->pk = MemoryContextStrdup(job->context, pk);
	left->record.owner = MemoryContextStrdup(job->context, r.owner);
	left->record.bind = r.bind != NULL ? MemoryContextStrdup(job->context, r.bind) : NULL;
	left->record.origin_text = MemoryContextStrdup(job->context, r.origin_text);
	left->record.worn = r.worn;
	left->record.lease_ms = r.lease_ms;
	memcpy(left->life, r.origin.life, sizeof(left->life));
	scan->unwritten++;
}

/* Nothing is left of a life in this place: have its item marked. */
static void
add_mark(EoLifeCheck *c)
{
	EoWorkerJob *job = eo_job_add_for_any(&mark_kind, &c->place.target, c->id);
	Mark	   *mark = MemoryContextAlloc(job->context, sizeof(Mark));

	strlcpy(mark->life, c->id, sizeof(mark->life));
	strlcpy(mark->by, c->scan_by, sizeof(mark->by));
	job->data = mark;
	eo_life_board_end_scan(c);
}

static void
end_pass(TableScan *scan)
{
	ereport(LOG,
			(errmsg("exactonce: table \"%s\" was scanned for what %s: %lld items",
					scan->target.table, scan->lives == 0 ?
					"late requests may have left" : "lives that are over have left",
					(long long) scan->pages.items),
			 scan->pages.unreadable > 0 ?
			 errdetail("%lld of them cannot be read, because they are too long, or are no records of the server's layout.",
					   (long long) scan->pages.unreadable) : 0));
	scan->tells_us = scan->began_us;
	tell(scan);
	begin_pass(scan, scan->pass + 1);
	scan->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(EO_LATE_US);
	if (scan->pass < PASSES)
		return;
	for (EoLifeCheck *c = NULL; (c = eo_life_board_next(c)) != NULL;)
	{
		if (is_wanted(scan, c))
			add_mark(c);
	}
	scan->lives = 0;
}

/* ----- writes ----- */

/*
 * Is it still for us to settle what the life has left?  If not, nothing is to be done: should
 * the life be over for us again, the table is scanned for it anew.
 */
static bool
is_ours(const EoWorkerJob *job, const uint8 *life)
{
	EoLifeVerdict verdict;

	eo_life_board_verdict(&job->target->target, life, &verdict);
	return verdict.relation != EO_LIFE_OTHER;
}

/* May it be done now?  If not, the job is put off. */
static bool
may_write(EoWorkerJob *job)
{
	if (eo_own_life_hold(&job->target->target))
		return true;
	job->kind->put_off(job, EO_WORKER_TARGET_PAUSE_US);
	return false;
}

static EoAnswer *
prepare_leftover(EoWorkerJob *job, EoStore *store)
{
	const Leftover *left = job->data;

	if (!is_ours(job, left->life))
	{
		end_leftover(job);
		return NULL;
	}
	if (!may_write(job))
		return NULL;
	return eo_settle_prepare_aborted(store, left->pk, &left->record);
}

/* Nothing is left of the life: its item may go. */
static EoAnswer *
prepare_mark(EoWorkerJob *job, EoStore *store)
{
	const Mark *mark = job->data;
	EoLifeWrite w = {.life = mark->life,.seen_by = mark->by};
	uint8		life[EO_UUID_LEN];

	/* While a transaction of the life is prepared, its item is needed. */
	if (!eo_hex_read_uuid(mark->life, life) || eo_slot_prepared_of_life(life) ||
		!is_ours(job, life) || !may_write(job))
		return NULL;
	w.now_ms = eo_lives_now_ms(store);
	w.ttl_s = w.now_ms / 1000 + EO_LIFE_TTL_S;
	return eo_life_store_prepare_write(store, job->target->target.prefix, EO_LIFE_SCANNED, &w);
}

/* The record was written, or need not be. */
static void
end_leftover(const EoWorkerJob *job)
{
	TableScan  *scan = scan_of(&job->target->target);

	scan->unwritten--;
	tell(scan);
}

/* A refusal means that somebody else has settled the record meanwhile. */
static bool
take_leftover(EoWorkerJob *job, const EoAnswer *answer)
{
	(void) answer;
	end_leftover(job);
	return true;
}

static void
scan_again(TableScan *scan, int64 pause_us)
{
	scan->pass = 0;
	scan->due_us = eo_clock_monotonic_us() + pause_us;
}

/* The next pass, or the next worker, finds the record again.  Until then nothing is told. */
static void
put_off(EoWorkerJob *job, int64 pause_us)
{
	TableScan  *scan = scan_of(&job->target->target);

	scan->unwritten--;
	scan->began_us = scan->tells_us = 0;
	scan_again(scan, pause_us);
}

/*
 * The scan for the life is finished, and without another one nobody would try the mark again.
 * If the life is not over any more, nothing is to be marked.
 */
static void
put_off_mark(EoWorkerJob *job, int64 pause_us)
{
	const Mark *mark = job->data;

	if (!eo_life_board_repeat_scan(&job->target->target, mark->life))
		return;
	look_at_board();
	scan_again(scan_of(&job->target->target), pause_us);
}
