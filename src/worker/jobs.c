/*-------------------------------------------------------------------------
 *
 * jobs.c
 *	  The queues of a worker: conditional writes that are waiting or in flight.
 *
 * A job is one conditional write.  A definite answer goes to the job's kind, which
 * knows what it means: finish.c for rows of the outbox, settling.c for
 * slots and heartbeats.  After a failed call the job is put off by itself.
 *
 * Where several jobs of a target are waiting and may share requests, they go together, in
 * a bundle.  A job that was in one and has not been applied by it is put back into the
 * queue, and gets a request of its own, whose answer is definite.  So a bundle by itself
 * never tells that a write was refused, or that a target does not answer.
 *
 * Everybody has a fair share:
 *
 * - There is a lane for our own life, one for those of others, one for heartbeats of
 *	 claims, and one for all other writes.  Each has a window of requests of its own.
 *	 What is about lives has a pace of its own, too: no pause of the target delays it.
 * - A request to a tenant's server, or about lives, that is not answered is given up after
 *	 LIMIT_US, whatever request_timeout its server has, and a heartbeat after a third of
 *	 its lease.  It is made again, and a late copy changes nothing (docs/protocol.md).
 * - In a lane each target has a queue of its jobs.  The targets that have jobs
 *	 waiting stand in a round, and each in its turn starts one.
 * - A target takes no more than its fair share, and its tenant no more than his
 *	 (rooms.c).  It never takes more than its parallel_requests; and if it is not
 *	 trusted (write_targets.c), no more than UNTRUSTED_SHARE.  Half of each room is what
 *	 all targets that are not trusted share.  What one of them has above UNTRUSTED_SHARE
 *	 does not count there: it was taken from the whole room.
 * - Jobs are shared in the same way.  The work for which there is no room stays at its
 *	 source.
 *
 * A claim that fails is put off by itself, each time for twice as long.  The longest
 * pause depends on how many claims fail: a few are tried again every few seconds, and
 * many do not take the time of those that have not been tried yet.
 *
 * A job that anybody may do (eo_job_add_for_any) goes by another identity of the
 * database while its own is refused.  write_targets.c says which.  What such a stand-in
 * does not find says nothing: it may be of another account, where the table is another
 * one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/service_clocks.h"
#include "cluster/target.h"
#include "ledger/clock_sync.h"
#include "records/window.h"
#include "server/answer.h"
#include "server/bundle.h"
#include "server/guc.h"
#include "server/store.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "wire/call.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/status.h"
#include "worker/jobs.h"
#include "worker/rooms.h"
#include "worker/write_targets.h"

/*
 * The most jobs of a lane that superusers have, and as many that the others have; the most of one
 * target in it, and of one that is failing.
 */
#define MAX_JOBS 4096
#define MAX_JOBS_OF_TARGET 2048
#define MAX_JOBS_OF_FAILING 16

/* The most requests in flight to a target that is not trusted. */
#define UNTRUSTED_SHARE 8

/* A request is given up after this; hurried, but not more than to the second. */
#define LIMIT_US INT64CONST(10000000)
#define MIN_LIMIT_US INT64CONST(2000000)

/* A claim that fails is put off for longer than its target, so that others are tried before it. */
#define FIRST_PAUSE_US INT64CONST(2000000)

/* The longest pause: so much for each claim that fails, within these bounds. */
#define PAUSE_PER_FAILURE_US INT64CONST(200000)
#define MIN_LONGEST_US INT64CONST(5000000)
#define MAX_LONGEST_US INT64CONST(60000000)

/* If there are more they are all forgotten, and begin with short pauses again. */
#define MAX_FAILURES 20000

/* A claim whose request has failed, and none was answered since. */
typedef struct Failure
{
	char		token[EO_TOKEN_LEN + 1];	/* hash key */
	int64		pause_us;		/* the last pause */
} Failure;

typedef struct Lane
{
	EoWorkerLane number;
	int			size;			/* of the room of superusers in the window */
	dlist_head	round;			/* targets with jobs waiting, in their turn */
	int			njobs;			/* waiting, in flight, or kept by their kinds */
	EoWindow	window;			/* the requests in flight */
	int64		calls_until_us; /* when the window is to be stepped again */
} Lane;

static struct
{
	Lane		lanes[EO_WORKER_LANES];
	HTAB	   *failures;		/* Failure by token */
	bool		made_room;		/* see eo_jobs_made_room() */
}			jobs;

static void forget_failures(void);
static bool start_next(EoWindow *window, void *arg);
static void take_finished(EoWindow *window, EoCall *call, void *arg);
static bool has_failed(const EoWorkerJob *job);
static bool start_together(Lane *lane, EoWorkerQueue *queue);
static int64 limit_of(const EoWorkerJob *job);
static EoAnswer *next_together(EoBundle *bundle);
static void note_sent(EoBundle *bundle);
static bool start_job(EoWorkerJob *job);
static void take_answer(EoWorkerJob *job);
static void back_off(EoWorkerJob *job);
static void take_definite(EoWorkerJob *job, const EoAnswer *answer);
static void note_ended(EoBundle *bundle);
static void take_together(EoAnswer *answer, void *arg);
static void take_contact(EoWorkerJob *job);
static void start_over(EoWorkerJob *job);
static void take_failure(EoWorkerJob *job, const EoError *error);
static void pass_on(void);
static void put_off(EoWorkerJob *job, int64 pause_us);
static void tell_unbuilt(Lane *lane);
static void thin_out(Lane *lane);

void
eo_jobs_init(void)
{
	static const int sizes[] = {
		[EO_WORKER_LIVES] = EO_MAX_PARALLEL / 2,
		[EO_WORKER_LOOKS] = EO_MAX_PARALLEL / 2,
		[EO_WORKER_BEATS] = EO_MAX_PARALLEL / 2,
		[EO_WORKER_WRITES] = EO_MAX_PARALLEL
	};

	forget_failures();
	for (int i = 0; i < EO_WORKER_LANES; i++)
	{
		jobs.lanes[i].number = i;
		jobs.lanes[i].size = sizes[i];
	}
}

static void
forget_failures(void)
{
	HASHCTL		ctl = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(Failure)};

	if (jobs.failures != NULL)
		hash_destroy(jobs.failures);
	jobs.failures = hash_create("exactonce failures", 64, &ctl, HASH_ELEM | HASH_STRINGS);
}

int
eo_jobs_count(void)
{
	return jobs.lanes[EO_WORKER_BEATS].njobs + jobs.lanes[EO_WORKER_WRITES].njobs;
}

bool
eo_jobs_are_full(EoWorkerLane lane)
{
	return jobs.lanes[lane].njobs >= 2 * MAX_JOBS;
}

bool
eo_jobs_in_flight(void)
{
	for (int i = 0; i < EO_WORKER_LANES; i++)
	{
		if (jobs.lanes[i].window.n > 0)
			return true;
	}
	return false;
}

static bool
is_about_lives(EoWorkerLane lane)
{
	return lane == EO_WORKER_LIVES || lane == EO_WORKER_LOOKS;
}

/* ----- shares ----- */

bool
eo_jobs_accept(EoWorkerLane lane, const EoTarget *target)
{
	const EoWorkerTarget *t = lane == EO_WORKER_BEATS ? eo_write_target_of(target) :
	eo_write_target_via(target);
	const EoWorkerTenant *tenant = t->tenant;
	EoRoomUse	use = {.mine = t->queues[lane].jobs,.tenant = tenant->jobs[lane]};
	int			asked = MAX_JOBS_OF_TARGET;

	use.tenants = eo_write_targets_tenants()->jobs[lane];
	/* However many targets are failing, they leave room for the others. */
	if (t->failing)
		asked = use.tenant < MAX_JOBS / 2 ? MAX_JOBS_OF_FAILING : 1;
	return use.mine < asked && eo_room_has_share(tenant->id, MAX_JOBS, MAX_JOBS, &use);
}

bool
eo_jobs_half_full(const EoTarget *target)
{
	return eo_write_target_via(target)->queues[EO_WORKER_WRITES].jobs >= MAX_JOBS_OF_TARGET / 2;
}

/* May one more request be sent to this target? */
static bool
may_send(const Lane *lane, EoWorkerTarget *t)
{
	EoWorkerLane number = lane->number;
	bool		lives = is_about_lives(number);
	EoRoomUse	use = {.mine = t->queues[number].in_flight,.tenant = t->tenant->in_flight[number]};
	int			size = lane->size;
	int			asked;

	if (!(lives ? eo_write_target_is_built(t) : eo_write_target_is_ready(t)))
		return false;
	/* As long as the service's clock is not known, one read at a time. */
	asked = lives || eo_client_knows_clock(&t->store->client) ?
		t->store->server->parallel_requests : 1;
	use.tenants = eo_write_targets_tenants()->in_flight[number];
	if (!eo_write_target_is_trusted(t))
	{
		asked = Min(asked, UNTRUSTED_SHARE);
		use.tenant = eo_write_targets_untrusted(number, t->tenant, UNTRUSTED_SHARE, &use.tenants);
		size /= 2;
	}
	/* A tenant that is alone has as much as superusers. */
	return use.mine < asked && eo_room_has_share(t->tenant->id, size, 2 * size, &use);
}

bool
eo_jobs_made_room(void)
{
	bool		made_room = jobs.made_room;

	jobs.made_room = false;
	return made_room;
}

/* ----- queues ----- */

static void
enqueue(EoWorkerJob *job)
{
	EoWorkerQueue *queue = &job->target->queues[job->kind->lane];

	if (dlist_is_empty(&queue->waiting))
		dlist_push_tail(&jobs.lanes[job->kind->lane].round, &queue->turn);
	dlist_push_tail(&queue->waiting, &job->node);
}

/* Take a job off its queue.  Its target has had its turn. */
static void
dequeue(EoWorkerJob *job)
{
	EoWorkerQueue *queue = &job->target->queues[job->kind->lane];

	dlist_delete(&job->node);
	dlist_delete(&queue->turn);
	if (!dlist_is_empty(&queue->waiting))
		dlist_push_tail(&jobs.lanes[job->kind->lane].round, &queue->turn);
}

static EoWorkerJob *
add_job(const EoWorkerJobKind *kind, EoWorkerTarget *asked, EoWorkerTarget *via, const char *token)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "exactonce job",
												  ALLOCSET_SMALL_SIZES);
	EoWorkerJob *job = MemoryContextAllocZero(context, sizeof(EoWorkerJob));

	job->kind = kind;
	job->context = context;
	job->asked = asked;
	job->target = via;
	asked->asked++;
	asked->idle = via->idle = 0;
	strlcpy(job->token, token, sizeof(job->token));
	eo_write_target_count_jobs(job->target, kind->lane, 1);
	jobs.lanes[kind->lane].njobs++;
	enqueue(job);
	return job;
}

EoWorkerJob *
eo_job_add(const EoWorkerJobKind *kind, const EoTarget *target, const char *token)
{
	EoWorkerTarget *t = eo_write_target_of(target);

	return add_job(kind, t, t, token);
}

EoWorkerJob *
eo_job_add_for_any(const EoWorkerJobKind *kind, const EoTarget *target, const char *token)
{
	EoWorkerTarget *asked = eo_write_target_of(target);
	bool		again = is_about_lives(kind->lane) && eo_write_target_asks_again(asked);
	EoWorkerJob *job = add_job(kind, asked, again ? asked : eo_write_target_via(target), token);

	job->for_any = true;
	return job;
}

/* Give a job that is not in flight to another target. */
static void
move(EoWorkerJob *job, EoWorkerTarget *to)
{
	EoWorkerLane lane = job->kind->lane;

	eo_write_target_count_jobs(job->target, lane, -1);
	job->target = to;
	eo_write_target_count_jobs(job->target, lane, 1);
	enqueue(job);
}

void
eo_job_end(EoWorkerJob *job)
{
	EoWorkerTarget *t = job->target;
	EoWorkerQueue *queue = &t->queues[job->kind->lane];

	job->asked->asked--;
	eo_write_target_count_jobs(t, job->kind->lane, -1);
	jobs.lanes[job->kind->lane].njobs--;
	if (queue->jobs <= (t->failing ? MAX_JOBS_OF_FAILING : MAX_JOBS_OF_TARGET) / 2)
		jobs.made_room = true;
	MemoryContextDelete(job->context);
}

void
eo_jobs_run(void)
{
	if (eo_write_targets_choose())
		pass_on();
	eo_write_targets_build();
	tell_unbuilt(&jobs.lanes[EO_WORKER_WRITES]);
	/* Lives first, then heartbeats of claims. */
	for (int i = 0; i < EO_WORKER_LANES; i++)
	{
		Lane	   *lane = &jobs.lanes[i];

		thin_out(lane);
		while (eo_window_turn(&lane->window, EO_MAX_WINDOW, start_next, take_finished, lane,
							  &lane->calls_until_us))
			 /* as long as something finishes */ ;
	}
}

int64
eo_jobs_due_us(void)
{
	int64		due_us = eo_write_targets_due_us();

	for (int i = 0; i < EO_WORKER_LANES; i++)
	{
		if (jobs.lanes[i].window.n > 0)
			due_us = Min(due_us, jobs.lanes[i].calls_until_us);
	}
	return due_us;
}

/* ----- sending ----- */

/* The server of a target was dropped: end one of its jobs, if one can end. */
static bool
abandon_one(EoWorkerQueue *queue)
{
	dlist_iter	iter;

	dlist_foreach(iter, &queue->waiting)
	{
		EoWorkerJob *job = dlist_container(EoWorkerJob, node, iter.cur);

		if (job->kind->abandon != NULL && !job->kind->abandon(job))
			continue;
		dequeue(job);
		if (job->kind->abandon == NULL)
			put_off(job, EO_WORKER_TARGET_PAUSE_US);
		else
			eo_job_end(job);
		return true;
	}
	return false;
}

/* Start the first job of the next target in the round that can take a request. */
static bool
start_next(EoWindow *window, void *arg)
{
	Lane	   *lane = arg;
	dlist_iter	iter;

	(void) window;
	dlist_foreach(iter, &lane->round)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerQueue, turn, iter.cur)->target;
		EoWorkerQueue *queue = &t->queues[lane->number];
		EoWorkerJob *job;

		if (t->gone)
		{
			if (abandon_one(queue))
				return true;
			continue;
		}
		if (!may_send(lane, t))
			continue;
		if (start_together(lane, queue))
			return true;
		job = dlist_container(EoWorkerJob, node, dlist_head_node(&queue->waiting));
		dequeue(job);
		if (!start_job(job))
			eo_job_end(job);
		return true;
	}
	return false;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	EoAnswer   *answer;

	(void) arg;
	if (eo_bundle_take(call))
		return;
	answer = eo_answer_of_call(call);
	if (eo_answer_take(answer, window, ((EoWorkerJob *) answer->user)->deadline_us))
		take_answer(answer->user);
}

/* May the job share a request?  Not if that or another call has failed for it. */
static bool
may_share(const EoWorkerJob *job)
{
	return job->kind->shares && !job->alone && !has_failed(job);
}

static bool
has_failed(const EoWorkerJob *job)
{
	return hash_search(jobs.failures, job->token, HASH_FIND, NULL) != NULL;
}

/*
 * Start the next jobs of a target in one request, if the first two in the queue may share
 * one.  Returns false if nothing has changed.
 */
static bool
start_together(Lane *lane, EoWorkerQueue *queue)
{
	static const EoBundleOwner owner = {
		.next = next_together,.sending = note_sent,.ended = note_ended,.take = take_together
	};
	EoWorkerTarget *t = queue->target;
	dlist_node *first = dlist_head_node(&queue->waiting);
	const EoWorkerJob *job = dlist_container(EoWorkerJob, node, first);
	MemoryContext old;
	bool		started;

	if (!dlist_has_next(&queue->waiting, first) || !may_share(job) ||
		!may_share(dlist_container(EoWorkerJob, node, dlist_next_node(&queue->waiting, first))) ||
		!eo_write_target_is_trusted(t) || !eo_service_clock_follow(&t->store->client))
		return false;
	t->store->client.no_retries = !eo_write_target_retries(t);
	old = MemoryContextSwitchTo(TopMemoryContext);
	started = eo_bundle_start_next(t->store, &owner, queue, &lane->window, INT64_MAX);
	MemoryContextSwitchTo(old);
	return started;
}

/* None waits for the others longer than for half of its own limit. */
static EoAnswer *
next_together(EoBundle *bundle)
{
	EoWorkerQueue *queue = bundle->arg;

	while (!dlist_is_empty(&queue->waiting))
	{
		EoWorkerJob *job = dlist_container(EoWorkerJob, node, dlist_head_node(&queue->waiting));
		MemoryContext old;

		if (!may_share(job))
			return NULL;
		dequeue(job);
		old = MemoryContextSwitchTo(job->context);
		job->answer = job->kind->prepare(job, bundle->store);
		MemoryContextSwitchTo(old);
		if (job->answer != NULL)
		{
			job->answer->user = job;
			job->answer->may_narrow = true;
			bundle->deadline_us = Min(bundle->deadline_us, eo_clock_monotonic_us() + limit_of(job));
			return job->answer;
		}
		eo_job_end(job);
	}
	return NULL;
}

/* The lane of a queue. */
static EoWorkerLane
lane_of(const EoWorkerQueue *queue)
{
	return (EoWorkerLane) (queue - queue->target->queues);
}

static void
note_sent(EoBundle *bundle)
{
	const EoWorkerQueue *queue = bundle->arg;

	eo_write_target_sent(queue->target, lane_of(queue));
}

int64
eo_jobs_limit_us(const EoWorkerTarget *t, EoWorkerLane lane)
{
	int64		timeout_us = t->store->server->request_timeout_ms * INT64CONST(1000);

	/*
	 * Superusers have a room of their own, and may need long for what is
	 * large.  What is about lives is small, and leases wait for it.
	 */
	if (!OidIsValid(t->target.tenant) && !is_about_lives(lane))
		return timeout_us;
	return Min(timeout_us, Max(eo_guc_hurried_us(LIMIT_US), MIN_LIMIT_US));
}

/* After what time is its request given up? */
static int64
limit_of(const EoWorkerJob *job)
{
	int64		limit_us = eo_jobs_limit_us(job->target, job->kind->lane);

	return job->limit_us > 0 ? Min(limit_us, job->limit_us) : limit_us;
}

/* Send the request of a job.  Returns false if there is nothing left to be done. */
static bool
start_job(EoWorkerJob *job)
{
	EoStore    *store = job->target->store;
	MemoryContext old = MemoryContextSwitchTo(job->context);
	bool		knows_clock;

	/* This ends the retries of its calls in flight, too. */
	store->client.no_retries = !eo_write_target_retries(job->target);
	knows_clock = eo_service_clock_follow(&store->client);
	/* Whether a life goes on is not decided by time. */
	job->contact = !knows_clock && !is_about_lives(job->kind->lane);
	if (knows_clock)
		job->target->readings.n = 0;
	job->answer = job->contact ? eo_clock_sync_prepare(store) : job->kind->prepare(job, store);
	MemoryContextSwitchTo(old);
	if (job->answer == NULL)
		return false;
	job->answer->user = job;
	/* No job needs the result of a record. */
	job->answer->may_narrow = !job->contact;
	job->sent_us = eo_clock_monotonic_us();
	job->deadline_us = job->sent_us + limit_of(job);
	eo_write_target_sent(job->target, job->kind->lane);
	if (!eo_answer_start(job->answer, &jobs.lanes[job->kind->lane].window, job->deadline_us))
		take_answer(job);
	return true;
}

/* ----- answers ----- */

static void
take_answer(EoWorkerJob *job)
{
	const EoAnswer *answer = job->answer;

	eo_write_target_ended(job->target, job->kind->lane);
	if (job->contact)
	{
		take_contact(job);
		return;
	}
	if (answer->call.clock_moved && !job->clock_moved)
	{
		job->clock_moved = true;
		start_over(job);
		return;
	}
	/* EO_INVALID is an answer: a record that cannot be read. */
	if (answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID)
	{
		if (job->kind->refused != NULL && job->kind->refused(job, answer))
		{
			eo_write_target_answered(job->target);
			eo_job_end(job);
		}
		else
			take_failure(job, &answer->error);
		return;
	}
	eo_write_target_answered(job->target);
	/* A stand-in has not found what the job is about. */
	if (job->target != job->asked && answer->outcome != EO_APPLIED && !answer->exists)
	{
		back_off(job);
		return;
	}
	if (job->target != job->asked)
		eo_write_target_stands_in(job->asked, job->target);
	(void) hash_search(jobs.failures, job->token, HASH_REMOVE, NULL);
	take_definite(job, answer);
}

/* Put off a job whose request has failed. */
static void
back_off(EoWorkerJob *job)
{
	Failure    *failure;
	bool		found;
	int64		longest_us;

	if (hash_get_num_entries(jobs.failures) >= MAX_FAILURES)
		forget_failures();
	failure = hash_search(jobs.failures, job->token, HASH_ENTER, &found);
	longest_us = hash_get_num_entries(jobs.failures) * PAUSE_PER_FAILURE_US;
	longest_us = Max(MIN_LONGEST_US, Min(MAX_LONGEST_US, longest_us));
	failure->pause_us = found ? Min(2 * failure->pause_us, longest_us) : FIRST_PAUSE_US;
	put_off(job, failure->pause_us);
}

/* Give a definite answer to the job's kind. */
static void
take_definite(EoWorkerJob *job, const EoAnswer *answer)
{
	if (job->kind->take == NULL || job->kind->take(job, answer))
		eo_job_end(job);
}

static void
note_ended(EoBundle *bundle)
{
	const EoWorkerQueue *queue = bundle->arg;

	eo_write_target_ended(queue->target, lane_of(queue));
	if (bundle->call.error.status == EO_OK)
		eo_write_target_answered(queue->target);
}

/* A job whose write is not known to be applied starts over by itself. */
static void
take_together(EoAnswer *answer, void *arg)
{
	EoWorkerJob *job = answer->user;

	(void) arg;
	if (answer->outcome != EO_APPLIED)
	{
		job->alone = true;
		start_over(job);
	}
	else
		take_definite(job, answer);
}

/* The clock is known now, or another read is needed, or the contact has failed. */
static void
take_contact(EoWorkerJob *job)
{
	EoReadings *readings = &job->target->readings;
	EoError		error;

	if (eo_clock_sync_take(readings, job->answer, &error))
	{
		start_over(job);
		return;
	}
	readings->n = 0;
	take_failure(job, &error);
}

/* Put a job back into its queue. */
static void
start_over(EoWorkerJob *job)
{
	eo_answer_free(job->answer);
	job->answer = NULL;
	enqueue(job);
}

/* A call has failed, because of its target or of its key: put the job off. */
static void
take_failure(EoWorkerJob *job, const EoError *error)
{
	bool		failed_before = !job->contact && has_failed(job);

	if (job->kind->failed != NULL)
		job->kind->failed(job, error);
	eo_write_target_failed(job->target, error, job->sent_us, failed_before);
	eo_stats_add(job->target->store->stats, EO_COUNT_WORKER_RETRIES, 1);
	eo_answer_free(job->answer);
	job->answer = NULL;
	if (job->for_any && eo_write_target_refused(job->asked, job->target, error))
	{
		move(job, eo_write_target_via(&job->asked->target));
		return;
	}
	back_off(job);
}

/* Give those jobs of a queue to other identities for which they stand in now. */
static void
pass_on_of(EoWorkerQueue *queue)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &queue->waiting)
	{
		EoWorkerJob *job = dlist_container(EoWorkerJob, node, iter.cur);

		if (!job->for_any || job->target == eo_write_target_via(&job->asked->target))
			continue;
		dequeue(job);
		move(job, eo_write_target_via(&job->asked->target));
	}
}

static void
pass_on(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, eo_write_targets_all())
	{
		for (int i = 0; i < EO_WORKER_LANES; i++)
			pass_on_of(&dlist_container(EoWorkerTarget, node, iter.cur)->queues[i]);
	}
}

static void
put_off(EoWorkerJob *job, int64 pause_us)
{
	if (job->kind->put_off != NULL)
		job->kind->put_off(job, pause_us);
	eo_job_end(job);
}

/* The stores of some targets could not be built: their jobs wait for that, and are told why. */
static void
tell_unbuilt(Lane *lane)
{
	dlist_iter	iter;

	dlist_foreach(iter, &lane->round)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerQueue, turn, iter.cur)->target;
		dlist_iter	waiting;

		if (!t->unbuilt)
			continue;
		t->unbuilt = false;
		dlist_foreach(waiting, &t->queues[lane->number].waiting)
		{
			EoWorkerJob *job = dlist_container(EoWorkerJob, node, waiting.cur);

			if (job->kind->failed != NULL)
				job->kind->failed(job, &t->build_error);
		}
	}
}

/* Put off the jobs of failing targets that they may not have any more. */
static void
thin_out(Lane *lane)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &lane->round)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerQueue, turn, iter.cur)->target;
		EoWorkerQueue *queue = &t->queues[lane->number];

		while (t->failing && queue->jobs > MAX_JOBS_OF_FAILING && !dlist_is_empty(&queue->waiting))
		{
			EoWorkerJob *job = dlist_container(EoWorkerJob, node, dlist_tail_node(&queue->waiting));

			dequeue(job);
			put_off(job, 0);
		}
	}
}
