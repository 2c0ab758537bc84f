/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of a database: what is left to do after commits
 *	  and aborts, and the leases of open transactions.
 *
 * Its work comes from three places:
 *
 * - exactonce_outbox: a row that can be seen is a transaction that has
 *	 committed.  Its record goes from COMMITTING to COMPLETED, then the row goes.
 *	 A commit leaves word of its rows in its slots, so that the table is looked
 *	 through only for what was there before, or was more than could be done.
 * - ended slots of the claim table: that word; claims of transactions that were
 *	 rolled back, verdicts, and what an earlier life of the server left behind.
 * - slots of open transactions whose lease is a third over.
 *
 * Every piece of it is a Job: one conditional write, whose answer says whether
 * the job is done, is over for some other reason, or is to be tried again.
 * Jobs run side by side, some at a time for each target, so that a table that
 * does not answer holds up nobody else's.  While a target fails, one request a
 * second asks whether it is back.
 *
 * The worker sleeps until its latch is set, by a commit, an abort or a new
 * claim with a short lease, or until the next thing is due; and wakes every
 * NAP to say that it lives.  It is never in a transaction while it waits.
 *
 * An error ends the process, and the launcher starts another: what was under
 * way is in the table and the slots.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/shmem.h"
#include "cluster/target.h"
#include "commit/outbox.h"
#include "commit/settle.h"
#include "commit/worker.h"
#include "commit/worker_targets.h"
#include "compat.h"
#include "dynamodb/call.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "dynamodb/record.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "server/store.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Sign of life, at least this often. */
#define NAP_US INT64CONST(5000000)

/* Without anything to do for this long it leaves. */
#define IDLE_US INT64CONST(300000000)

/* Jobs that may wait for a free request, and those of one place. */
#define MAX_JOBS 1024
#define MAX_JOBS_OF_PLACE 256

/* A short look at the outbox ends when it has met so many rows in vain. */
#define MAX_SKIPPED 1024

/* The outbox is looked through this often, though nobody has asked for it. */
#define PASS_US INT64CONST(60000000)

/*
 * Looking through it takes at most one part of our time in so many.  It may be
 * long: while anybody holds an old snapshot its dead rows stay.
 */
#define LOOK_SHARE 5

/* A signature is refused after this; a late request cannot arrive any more. */
#define SECOND_LOOK_US INT64CONST(900000000)

typedef enum JobKind
{
	JOB_FINISH,					/* a row of the outbox */
	JOB_SETTLE,					/* an ended slot */
	JOB_BEAT					/* a lease to extend */
} JobKind;

typedef struct Job
{
	dlist_node	node;			/* in waiting */
	JobKind		kind;
	EoWorkerTarget *place;
	MemoryContext context;
	EoAnswer   *answer;			/* while in flight */
	EoOutboxRow *row;			/* JOB_FINISH */
	EoSlotView *view;			/* the others */
} Job;

static struct
{
	Oid			dboid;
	uint8		origin[16];
	Oid			outbox;			/* the table it was found in */
	MemoryContext context;
	HTAB	   *rows;			/* KnownRow by token */
	dlist_head	waiting;
	int			njobs;			/* waiting and in flight */
	EoWindow	window;
	dlist_head	done_rows;		/* Jobs whose rows are to be removed */
	bool		more_rows;		/* there may be rows that could have a job */
	bool		held_back;		/* ... once a place has room for them */
	bool		pass_wanted;	/* a short look may have missed some */
	int64		look_allowed_us;	/* look through the table, not before */
	int64		pass_us;		/* look through all of it by then */
	int			may_skip;		/* rows, in the look that is being taken */
	int64		calls_until_us; /* when the window wants to be looked at */
	int64		last_work_us;
}			worker;

/* A row that has a job, or had one in vain. */
typedef struct KnownRow
{
	char		token[EO_TOKEN_LEN + 1];
	int64		again_us;		/* not before; 0: it has a job */
} KnownRow;

static void enter_database(Oid dboid);
static void shake_off_settings(void);
static void leave(int code, Datum arg);
static void work(void);
static int64 pass_due_us(void);
static void fetch_rows(void);
static void finish_slot(const EoSlotView *view);
static void fetch_slots(void);
static void fetch_beats(void);
static bool visit_row(const EoOutboxRow *row);
static Job *add_job(JobKind kind, const EoTarget *target);
static void start_jobs(void);
static bool prepare_job(Job *job);
static void take_answer(Job *job);
static void take_failure(Job *job);
static void put_off(Job *job);
static void put_off_beat(const EoSlotView *view);
static void thin_out(void);
static void take_finish(Job *job);
static void take_settle(Job *job);
static void take_beat(Job *job);
static void end_job(Job *job);
static void remove_rows(void);
static int64 next_wake_us(void);

/* ----- life ----- */

void
eo_worker_main(Datum arg)
{
	Oid			dboid = DatumGetObjectId(arg);

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!eo_database_attach(dboid))
		proc_exit(0);
	worker.dboid = dboid;
	before_shmem_exit(leave, (Datum) 0);
	BackgroundWorkerInitializeConnectionByOid(dboid, InvalidOid, 0);
	shake_off_settings();
	enter_database(dboid);

	while (!eo_database_should_leave(dboid))
	{
		int64		until;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		eo_database_alive(dboid);
		work();
		if (worker.njobs > 0 || hash_get_num_entries(worker.rows) > 0)
			worker.last_work_us = eo_clock_monotonic_us();
		else if (eo_clock_monotonic_us() - worker.last_work_us > IDLE_US)
		{
			worker.last_work_us = eo_clock_monotonic_us();
			if (eo_database_may_leave(dboid))
				break;
		}
		until = next_wake_us();
		/* Requests under way go on only while we wait. */
		if (worker.window.n > 0)
			until = Max(until, eo_clock_monotonic_us() + 1000);
		if (until > eo_clock_monotonic_us())
			eo_http_wait(until, EO_WAIT_LATCH);
	}
	proc_exit(0);
}

/*
 * ALTER DATABASE ... SET is for sessions.  Here it could lead names astray that
 * a superuser uses, or have the worker fail for ever.
 */
static void
shake_off_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", ""},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		/* A row that comes back after a crash is finished again. */
		{"synchronous_commit", "local"}
	};

	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

static void
leave(int code, Datum arg)
{
	(void) arg;
	eo_database_detach(worker.dboid, code != 0);
}

/*
 * Say who this database is.  The first worker of a life of the server begins
 * a new incarnation; committing that, with the standbys that
 * synchronous_standby_names asks for, is also the barrier after which what
 * recovery made visible may be told to others.
 */
static void
enter_database(Oid dboid)
{
	HASHCTL		rows = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(KnownRow)};
	EoDatabaseInfo db;
	int64		incarnation = 0;
	uint64		horizon = 0;
	bool		here;

	worker.context = AllocSetContextCreate(TopMemoryContext, "exactonce worker",
										   ALLOCSET_DEFAULT_SIZES);
	rows.hcxt = worker.context;
	worker.rows = hash_create("exactonce rows", 256, &rows,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	dlist_init(&worker.waiting);
	dlist_init(&worker.done_rows);
	worker.last_work_us = eo_clock_monotonic_us();
	eo_worker_targets_init(worker.context);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	/* This commit waits for the standbys, whatever ours do later. */
	(void) set_config_option("synchronous_commit", "on", PGC_SUSET, PGC_S_OVERRIDE,
							 GUC_ACTION_LOCAL, true, 0, false);
	here = eo_outbox_exists();
	worker.outbox = eo_outbox_id();
	if (here && eo_database_info(dboid, &db))
		eo_outbox_enter_origin(db.incarnation == 0, worker.origin, &incarnation, &horizon);
	PopActiveSnapshot();
	ForceSyncCommit();
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
	if (!here)
	{
		eo_database_absent(dboid);
		proc_exit(0);
	}
	eo_database_publish(dboid, worker.origin, incarnation, horizon, worker.outbox);
	worker.more_rows = true;
}

/* One round: take in what has come up, send what can be sent, read answers. */
static void
work(void)
{
	EoCall	   *finished[EO_MAX_PARALLEL];
	int64		until;
	int			n;

	/* The extension may have been dropped: then fetch_rows() finds that out. */
	AcceptInvalidationMessages();
	if (!eo_outbox_is_known() || pass_due_us() <= eo_clock_monotonic_us())
		worker.more_rows = true;
	if (worker.more_rows && worker.njobs < MAX_JOBS &&
		worker.look_allowed_us <= eo_clock_monotonic_us())
		fetch_rows();
	fetch_slots();
	fetch_beats();
	eo_worker_targets_build();
	thin_out();
	do
	{
		start_jobs();
		n = eo_window_step(&worker.window, finished, &until);
		for (int i = 0; i < n; i++)
		{
			EoAnswer   *answer = eo_answer_of_call(finished[i]);

			if (eo_answer_take(answer, &worker.window, 0))
				take_answer(answer->user);
		}
	} while (n > 0);
	worker.calls_until_us = until;
	remove_rows();
}

/* ----- taking in ----- */

/*
 * A target that fails has one job to try it with, and none has so many that
 * others could not get theirs; the rest wait where they are.
 */
static bool
is_enough(const EoWorkerTarget *place)
{
	return place->jobs >= (place->failing ? 1 : MAX_JOBS_OF_PLACE);
}

/*
 * Rows are met in an order that is no order of time, and behind a backlog of
 * one table may be the rows of another.  So a short look, which is taken
 * whenever there is a reason, is followed by one through everything, as
 * often as its cost allows.
 */
static int64
pass_due_us(void)
{
	return worker.pass_wanted ? worker.look_allowed_us : worker.pass_us;
}

static bool
visit_row(const EoOutboxRow *row)
{
	char		token[EO_TOKEN_LEN + 1] = {0};
	KnownRow   *known;
	Job		   *job;

	strlcpy(token, row->token, sizeof(token));
	known = hash_search(worker.rows, token, HASH_FIND, NULL);
	if (known != NULL && (known->again_us == 0 || known->again_us > eo_clock_monotonic_us()))
		return true;
	if (is_enough(eo_worker_target_of(&row->target)))
	{
		worker.held_back = true;
		return worker.may_skip-- > 0;
	}
	known = hash_search(worker.rows, token, HASH_ENTER, NULL);
	known->again_us = 0;
	job = add_job(JOB_FINISH, &row->target);
	job->row = MemoryContextAlloc(job->context, sizeof(EoOutboxRow));
	*job->row = *row;
	job->row->pk = MemoryContextStrdup(job->context, row->pk);
	return worker.njobs < MAX_JOBS;
}

/* Jobs for the rows of committed transactions that have none. */
static void
fetch_rows(void)
{
	int64		started_us = eo_clock_monotonic_us();
	int64		now_us;
	bool		pass = pass_due_us() <= started_us;
	bool		all;

	StartTransactionCommand();
	if (!eo_outbox_exists() || eo_outbox_id() != worker.outbox)
	{
		/* The extension was dropped under our hands, and perhaps made anew. */
		bool		gone = !OidIsValid(eo_outbox_id());

		CommitTransactionCommand();
		eo_database_absent(worker.dboid);
		proc_exit(gone ? 0 : 1);
	}
	worker.may_skip = pass ? INT_MAX : MAX_SKIPPED;
	worker.held_back = false;
	all = eo_outbox_visit(worker.origin, visit_row);
	CommitTransactionCommand();
	MemoryContextSwitchTo(worker.context);
	worker.more_rows = worker.njobs >= MAX_JOBS;
	worker.pass_wanted = !all;
	now_us = eo_clock_monotonic_us();
	/* What was spent waiting for a lock is no cost of the look. */
	worker.look_allowed_us = now_us + Min(LOOK_SHARE * (now_us - started_us), PASS_US);
	if (pass)
		worker.pass_us = now_us + PASS_US;
}

/* The same by the word of a commit; if there is no room the row is found later. */
static void
finish_slot(const EoSlotView *view)
{
	EoOutboxRow row = {.pk = (char *) view->pk};

	memcpy(row.origin, worker.origin, sizeof(row.origin));
	row.target = view->target;
	row.retention_s = view->info.retention_s;
	strlcpy(row.token, view->info.token, sizeof(row.token));
	/* Of another identity, or history: if there is a row it is found. */
	if (memcmp(view->info.database, worker.origin, sizeof(worker.origin)) != 0 ||
		view->info.timeline != eo_compat_timeline())
		worker.more_rows = true;
	else
	{
		worker.may_skip = 1;
		(void) visit_row(&row);
	}
	eo_slot_free(view->ref);
}

static void
fetch_slots(void)
{
	EoSlotView	view;

	while (worker.njobs < MAX_JOBS && eo_slot_next_ended(worker.dboid, &view))
	{
		EoRest		rest = eo_settle_rest(&view, worker.origin);
		int64		retention_s;
		Job		   *job;

		if (rest == EO_REST_FINISH)
		{
			finish_slot(&view);
			continue;
		}
		if (rest == EO_REST_ASK_OUTBOX)
		{
			StartTransactionCommand();
			rest = eo_outbox_find(worker.origin, view.pk, view.info.token, &retention_s) ?
				EO_REST_NOTHING : EO_REST_WRITE;
			CommitTransactionCommand();
			MemoryContextSwitchTo(worker.context);
		}
		if (rest == EO_REST_DOUBT)
		{
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("exactonce: a commit announced by another identity of this database is in doubt"),
					 errhint("See exactonce_in_doubt; find out whether the work was done, and say so with idem_resolve().")));
			eo_slot_doubt(view.ref);
			continue;
		}
		if (rest == EO_REST_NOTHING)
		{
			eo_slot_free(view.ref);
			continue;
		}
		if (is_enough(eo_worker_target_of(&view.target)))
		{
			eo_slot_again(view.ref, eo_clock_monotonic_us() + EO_WORKER_TARGET_PAUSE_US, false);
			continue;
		}
		job = add_job(JOB_SETTLE, &view.target);
		job->view = MemoryContextAlloc(job->context, sizeof(EoSlotView));
		*job->view = view;
	}
}

static void
fetch_beats(void)
{
	EoSlotView	view;
	uint32		cursor = 0;

	while (worker.njobs < MAX_JOBS &&
		   eo_slot_beat_due(worker.dboid, eo_clock_monotonic_us(), &cursor, &view))
	{
		Job		   *job;

		if (is_enough(eo_worker_target_of(&view.target)))
		{
			put_off_beat(&view);
			continue;
		}
		job = add_job(JOB_BEAT, &view.target);
		job->view = MemoryContextAlloc(job->context, sizeof(EoSlotView));
		*job->view = view;
	}
}

static Job *
add_job(JobKind kind, const EoTarget *target)
{
	MemoryContext context = AllocSetContextCreate(worker.context, "exactonce job",
												  ALLOCSET_SMALL_SIZES);
	Job		   *job = MemoryContextAllocZero(context, sizeof(Job));

	job->kind = kind;
	job->context = context;
	job->place = eo_worker_target_of(target);
	job->place->jobs++;
	dlist_push_tail(&worker.waiting, &job->node);
	worker.njobs++;
	return job;
}

/* ----- sending ----- */

static void
start_jobs(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &worker.waiting)
	{
		Job		   *job = dlist_container(Job, node, iter.cur);

		if (worker.window.n >= EO_MAX_PARALLEL)
			break;
		if (job->place->gone)
		{
			/* The server is gone, and with it the credentials. */
			if (job->kind != JOB_FINISH)
			{
				dlist_delete(&job->node);
				eo_slot_free(job->view->ref);
				end_job(job);
				continue;
			}
			if (!job->place->complained)
				ereport(WARNING,
						(errcode(ERRCODE_WARNING),
						 errmsg("exactonce: the server of %d unfinished completions does not exist any more",
								job->place->jobs),
						 errhint("Create it again, or settle the keys of table \"%s\" by hand.",
								 job->place->target.table)));
			job->place->complained = true;
			continue;
		}
		if (!eo_worker_target_may_send(job->place))
			continue;
		dlist_delete(&job->node);
		if (!prepare_job(job))
		{
			end_job(job);
			continue;
		}
		job->answer->user = job;
		job->place->in_flight++;
		if (!eo_answer_start(job->answer, &worker.window, 0))
			take_answer(job);
	}
}

/* False: there is nothing left to be done. */
static bool
prepare_job(Job *job)
{
	EoStore    *store = job->place->store;
	MemoryContext old = MemoryContextSwitchTo(job->context);
	EoWrite		w = {0};

	/* What a backend has learnt of the service's clock since. */
	(void) eo_target_clock(&job->place->target, &store->client.clock_offset_ms);
	w.now_ms = eo_client_now_ms(&store->client);
	switch (job->kind)
	{
		case JOB_FINISH:
			w.owner = job->row->token;
			w.ttl_s = eo_record_ttl_after(w.now_ms, job->row->retention_s);
			job->answer = eo_store_prepare_write(store, job->row->pk, EO_FINISH, &w);
			break;
		case JOB_SETTLE:
			job->answer = eo_settle_prepare(store, job->view);
			break;
		case JOB_BEAT:
			w.owner = job->view->info.token;
			w.lease_ms = w.now_ms + job->view->info.lease_ms;
			w.ttl_s = eo_record_ttl_after(w.lease_ms, job->view->info.retention_s);
			job->answer = eo_store_prepare_write(store, job->view->pk, EO_EXTEND, &w);
			break;
	}
	MemoryContextSwitchTo(old);
	return job->answer != NULL;
}

/* ----- answers ----- */

static void
take_answer(Job *job)
{
	EoWorkerTarget *place = job->place;

	place->in_flight--;
	if (job->answer->outcome == EO_FAILED_CALL && job->answer->error.status != EO_INVALID)
	{
		take_failure(job);
		return;
	}
	eo_worker_target_answered(place);
	switch (job->kind)
	{
		case JOB_FINISH:
			take_finish(job);
			break;
		case JOB_SETTLE:
			take_settle(job);
			break;
		case JOB_BEAT:
			take_beat(job);
			break;
	}
}

/* Try again later; one is enough, and for a heartbeat the next is as good. */
static void
take_failure(Job *job)
{
	EoWorkerTarget *place = job->place;

	eo_worker_target_failed(place, &job->answer->error);
	eo_answer_free(job->answer);
	job->answer = NULL;
	if (job->kind == JOB_BEAT || place->jobs > 1)
		put_off(job);
	else
		dlist_push_tail(&worker.waiting, &job->node);
}

/* Back to where it came from, to be found again. */
static void
put_off(Job *job)
{
	switch (job->kind)
	{
		case JOB_FINISH:
			hash_search(worker.rows, job->row->token, HASH_REMOVE, NULL);
			worker.held_back = true;
			break;
		case JOB_SETTLE:
			eo_slot_again(job->view->ref, eo_clock_monotonic_us() + EO_WORKER_TARGET_PAUSE_US, false);
			break;
		case JOB_BEAT:
			put_off_beat(job->view);
			break;
	}
	end_job(job);
}

static void
put_off_beat(const EoSlotView *view)
{
	eo_slot_beaten(view->ref, false, 0, eo_clock_monotonic_us() +
				   Min(EO_WORKER_TARGET_PAUSE_US, view->info.lease_ms * 1000 / 10));
}

/*
 * Jobs that wait for a place that fails would take the room of others' jobs.
 */
static void
thin_out(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &worker.waiting)
	{
		Job		   *job = dlist_container(Job, node, iter.cur);

		if (!job->place->failing || job->place->jobs <= 1)
			continue;
		dlist_delete(&job->node);
		put_off(job);
	}
}

static void
take_finish(Job *job)
{
	const EoAnswer *answer = job->answer;
	KnownRow   *known;

	if (answer->outcome == EO_APPLIED)
	{
		dlist_push_tail(&worker.done_rows, &job->node);
		return;
	}

	/*
	 * The transaction has committed, and the record is not the one it sealed.
	 * Somebody wrote past the protocol, or the table is another one: nothing
	 * here can put that right, and the row stays as evidence.
	 */
	known = hash_search(worker.rows, job->row->token, HASH_FIND, NULL);
	if (known != NULL)
		known->again_us = eo_clock_monotonic_us() + 600 * INT64CONST(1000000);
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("exactonce: a key of table \"%s\" cannot be marked completed, although its transaction committed",
					job->row->target.table),
			 answer->outcome == EO_NOT_APPLIED && answer->exists ?
			 errdetail("Its record is %s, and not by that transaction.",
					   eo_record_state_name(eo_answer_record(answer)->state)) :
			 errdetail("Its record is gone, or cannot be read."),
			 errhint("It stays in exactonce_pending and is tried again every ten minutes. Look for whoever changed the record or the table.")));
	end_job(job);
}

static void
take_settle(Job *job)
{
	/*
	 * Applied, or refused because somebody has been there before: either way
	 * the claim is over.
	 */
	if (job->answer->outcome != EO_APPLIED && job->view->info.verdict != EO_VERDICT_NONE)
		ereport(LOG,
				(errmsg("exactonce: a claim on table \"%s\" was lost before its failure or release could be written",
						job->view->target.table)));
	if (eo_settle_looks_again(job->view) && !job->view->info.looked)
		eo_slot_again(job->view->ref, eo_clock_monotonic_us() + SECOND_LOOK_US, true);
	else
		eo_slot_free(job->view->ref);
	end_job(job);
}

static void
take_beat(Job *job)
{
	const EoAnswer *answer = job->answer;
	const EoRecord *r = eo_answer_record(answer);
	const EoSlotInfo *info = &job->view->info;
	bool		ours = answer->outcome == EO_APPLIED;

	if (!ours && answer->exists && strcmp(r->owner, info->token) == 0)
		ours = r->state != EO_STATE_FAILED;
	eo_slot_beaten(job->view->ref, !ours, ours && answer->outcome == EO_APPLIED ? r->lease_ms : 0,
				   eo_clock_monotonic_us() + info->lease_ms * 1000 / 3);
	end_job(job);
}

static void
end_job(Job *job)
{
	job->place->jobs--;
	worker.njobs--;
	if (worker.held_back && !job->place->failing && job->place->jobs <= MAX_JOBS_OF_PLACE / 2)
		worker.more_rows = true;
	MemoryContextDelete(job->context);
}

/* DynamoDB says COMPLETED: the rows have done their duty. */
static void
remove_rows(void)
{
	dlist_iter	iter;
	dlist_mutable_iter removal;

	if (dlist_is_empty(&worker.done_rows))
		return;
	StartTransactionCommand();
	if (eo_outbox_exists())
	{
		dlist_foreach(iter, &worker.done_rows)
		{
			Job		   *job = dlist_container(Job, node, iter.cur);

			eo_outbox_remove(job->row->origin, job->row->pk, job->row->token);
		}
	}
	CommitTransactionCommand();
	/* So that autovacuum hears of it. */
	pgstat_report_stat(false);
	MemoryContextSwitchTo(worker.context);
	dlist_foreach_modify(removal, &worker.done_rows)
	{
		Job		   *job = dlist_container(Job, node, removal.cur);

		dlist_delete(&job->node);
		hash_search(worker.rows, job->row->token, HASH_REMOVE, NULL);
		end_job(job);
	}
}

/* ----- sleeping ----- */

static int64
next_wake_us(void)
{
	int64		until = eo_clock_monotonic_us() + NAP_US;

	if (worker.njobs < MAX_JOBS)
	{
		until = Min(until, worker.more_rows ? worker.look_allowed_us : pass_due_us());
		until = Min(until, eo_slot_next_due(worker.dboid));
	}
	if (worker.window.n > 0)
		until = Min(until, worker.calls_until_us);
	if (worker.window.n < EO_MAX_PARALLEL)
		until = Min(until, eo_worker_targets_due_us());
	return until;
}
