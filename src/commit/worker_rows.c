/*-------------------------------------------------------------------------
 *
 * worker_rows.c
 *	  Of a worker: finishing the rows of the outbox.
 *
 * A row that can be seen is a transaction that has committed.  Its record goes
 * from COMMITTING to COMPLETED, and then the row is removed: in this order, so
 * that a crash between the two leaves the row, and the record is finished again.
 *
 * A commit leaves word of its rows in its slots (eo_worker_rows_take()), so that
 * the table is looked through only for rows that were there before, or were more
 * than could be done.  Rows are met in an order that is no order of time, and
 * behind a backlog of one table may be the rows of another.  So a short look, which
 * is taken whenever there is a reason, is followed by one through everything, as
 * often as its cost allows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commit/internal.h"
#include "commit/known_targets.h"
#include "commit/outbox.h"
#include "commit/worker_jobs.h"
#include "commit/worker_rows.h"
#include "commit/worker_targets.h"
#include "dynamodb/client.h"
#include "dynamodb/clock.h"
#include "dynamodb/record.h"
#include "dynamodb/token.h"
#include "pgstat.h"
#include "server/answer.h"
#include "server/store.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* A short look at the outbox ends when it has met so many rows in vain. */
#define MAX_SKIPPED 1024

/* The outbox is looked through this often without a reason. */
#define PASS_US INT64CONST(60000000)

/*
 * Looking through it takes at most one part of the worker's time in this many.  A
 * look may be long: as long as any session holds an old snapshot dead rows stay.
 */
#define LOOK_SHARE 5

/* A row whose record cannot be finished is tried again after this. */
#define REFUSED_US INT64CONST(600000000)

/* A row that has a job, or had one in vain. */
typedef struct KnownRow
{
	char		token[EO_TOKEN_LEN + 1];
	int64		again_us;		/* not before; 0: it has a job */
} KnownRow;

static struct
{
	MemoryContext context;
	Oid			outbox;
	HTAB	   *known;			/* KnownRow by token */
	dlist_head	done;			/* jobs whose rows are to be removed */
	bool		wanted;			/* there may be rows that could have a job */
	bool		held_back;		/* such rows wait until a target has room */
	bool		pass_wanted;	/* a short look may have missed some */
	int64		allowed_us;		/* look through the table, not before */
	int64		pass_us;		/* look through all of it by then */
	int			may_skip;		/* rows, in the look that is being taken */
}			rows;

static EoAnswer *prepare(EoWorkerJob *job, EoStore *store);
static bool take(EoWorkerJob *job, const EoAnswer *answer);
static void put_off(EoWorkerJob *job);
static bool abandon(EoWorkerJob *job);
static bool visit(const EoOutboxRow *row);

static const EoWorkerJobKind finish_kind = {
	.prepare = prepare,
	.take = take,
	.put_off = put_off,
	.abandon = abandon,
	.can_wait = true
};

void
eo_worker_rows_init(MemoryContext context, Oid outbox)
{
	HASHCTL		ctl = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(KnownRow)};

	ctl.hcxt = rows.context = context;
	rows.known = hash_create("exactonce rows", 256, &ctl,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	rows.outbox = outbox;
	dlist_init(&rows.done);
	rows.wanted = true;
}

bool
eo_worker_rows_any(void)
{
	return hash_get_num_entries(rows.known) > 0;
}

void
eo_worker_rows_want_look(void)
{
	rows.wanted = true;
}

/* ----- looking ----- */

/* When to look through the whole table. */
static int64
pass_due_us(void)
{
	return rows.pass_wanted ? rows.allowed_us : rows.pass_us;
}

int64
eo_worker_rows_due_us(void)
{
	return rows.wanted ? rows.allowed_us : pass_due_us();
}

bool
eo_worker_rows_fetch(void)
{
	int64		started_us = eo_clock_monotonic_us();
	int64		now_us;
	bool		pass = pass_due_us() <= started_us;
	bool		all;

	if (eo_worker_jobs_made_room() && rows.held_back)
		rows.wanted = true;
	/* An invalidation: the extension may have been dropped. */
	if (!eo_internal_is_known() || pass)
		rows.wanted = true;
	if (!rows.wanted || eo_worker_jobs_are_full() || rows.allowed_us > started_us)
		return true;

	StartTransactionCommand();
	if (eo_internal_look() != rows.outbox)
	{
		CommitTransactionCommand();
		return false;
	}
	rows.may_skip = pass ? INT_MAX : MAX_SKIPPED;
	rows.held_back = false;
	all = eo_outbox_visit(visit);
	CommitTransactionCommand();
	MemoryContextSwitchTo(rows.context);
	rows.wanted = eo_worker_jobs_are_full();
	rows.pass_wanted = !all;
	now_us = eo_clock_monotonic_us();
	/* Waiting for a lock costs nothing, but is bounded here all the same. */
	rows.allowed_us = now_us + Min(LOOK_SHARE * (now_us - started_us), PASS_US);
	if (pass)
		rows.pass_us = now_us + PASS_US;
	return true;
}

/* Make a job of a row that has none.  False: the look is over. */
static bool
add_row(const EoOutboxRow *row)
{
	KnownRow   *known;
	EoWorkerJob *job;
	EoOutboxRow *copy;

	if (!eo_worker_jobs_accept(&row->target))
	{
		rows.held_back = true;
		return rows.may_skip-- > 0;
	}
	known = hash_search(rows.known, row->token, HASH_ENTER, NULL);
	known->again_us = 0;
	job = eo_worker_job_add(&finish_kind, &row->target);
	job->data = copy = MemoryContextAlloc(job->context, sizeof(EoOutboxRow));
	*copy = *row;
	copy->pk = MemoryContextStrdup(job->context, row->pk);
	return !eo_worker_jobs_are_full();
}

/* A row that no transaction of ours can have made: no request is made for it. */
static void
refuse_row(const EoOutboxRow *row)
{
	KnownRow   *known = hash_search(rows.known, row->token, HASH_ENTER, NULL);

	known->again_us = eo_clock_monotonic_us() + REFUSED_US;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("exactonce: a completion names the table \"%s\" at \"%s\", which no server of this database has or had",
					row->target.table, row->target.url),
			 errhint("Somebody has written to exactonce_internal.outbox. Look for who may, and remove the row with idem_resolve(pending => ...).")));
}

static bool
visit(const EoOutboxRow *row)
{
	KnownRow   *known = hash_search(rows.known, row->token, HASH_FIND, NULL);

	if (known != NULL && (known->again_us == 0 || known->again_us > eo_clock_monotonic_us()))
		return true;
	if (eo_known_target_exists(&row->target))
		return add_row(row);
	refuse_row(row);
	return true;
}

void
eo_worker_rows_take(const EoOutboxRow *row)
{
	KnownRow   *known = hash_search(rows.known, row->token, HASH_FIND, NULL);

	if (known != NULL && known->again_us == 0)
		return;
	/* If there is no room a look finds the row later. */
	rows.may_skip = 1;
	(void) add_row(row);
}

/* ----- the job ----- */

static EoAnswer *
prepare(EoWorkerJob *job, EoStore *store)
{
	const EoOutboxRow *row = job->data;
	EoWrite		w = {0};

	w.owner = row->token;
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = eo_record_ttl_after(w.now_ms, row->retention_s);
	return eo_store_prepare_write(store, row->pk, EO_FINISH, &w);
}

static bool
take(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoOutboxRow *row = job->data;
	KnownRow   *known;

	if (answer->outcome == EO_APPLIED)
	{
		dlist_push_tail(&rows.done, &job->node);
		return false;
	}

	/*
	 * The transaction has committed, and the record is not the one it sealed.
	 * Somebody wrote past the protocol, or the table is another one: nothing
	 * here can put that right, and the row stays as evidence.
	 */
	known = hash_search(rows.known, row->token, HASH_FIND, NULL);
	if (known != NULL)
		known->again_us = eo_clock_monotonic_us() + REFUSED_US;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("exactonce: a key of table \"%s\" cannot be marked completed, although its transaction committed",
					row->target.table),
			 answer->outcome == EO_NOT_APPLIED && answer->exists ?
			 errdetail("Its record is %s, and not by that transaction.",
					   eo_record_state_name(eo_answer_record(answer)->state)) :
			 errdetail("Its record is gone, or cannot be read."),
			 errhint("It stays in exactonce_pending and is tried again every ten minutes. Look for whoever changed the record or the table.")));
	return true;
}

static void
put_off(EoWorkerJob *job)
{
	const EoOutboxRow *row = job->data;

	hash_search(rows.known, row->token, HASH_REMOVE, NULL);
	rows.held_back = true;
}

/* A row waits for its server: the credentials have gone with it. */
static bool
abandon(EoWorkerJob *job)
{
	EoWorkerTarget *target = job->target;

	if (!target->complained)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce: the server of %d unfinished completions does not exist any more",
						target->jobs),
				 errhint("Create it again, or settle the keys of table \"%s\" by hand.",
						 target->target.table)));
	target->complained = true;
	return false;
}

/* ----- removing ----- */

void
eo_worker_rows_remove(void)
{
	dlist_iter	iter;
	dlist_mutable_iter removal;

	if (dlist_is_empty(&rows.done))
		return;
	StartTransactionCommand();
	if (OidIsValid(eo_internal_look()))
	{
		dlist_foreach(iter, &rows.done)
		{
			const EoOutboxRow *row = dlist_container(EoWorkerJob, node, iter.cur)->data;

			(void) eo_outbox_remove(row->digest, row->token);
		}
	}
	CommitTransactionCommand();
	/* Report the dead rows, so that autovacuum comes. */
	pgstat_report_stat(false);
	MemoryContextSwitchTo(rows.context);
	dlist_foreach_modify(removal, &rows.done)
	{
		EoWorkerJob *job = dlist_container(EoWorkerJob, node, removal.cur);
		const EoOutboxRow *row = job->data;

		dlist_delete(&job->node);
		hash_search(rows.known, row->token, HASH_REMOVE, NULL);
		eo_worker_job_end(job);
	}
}
