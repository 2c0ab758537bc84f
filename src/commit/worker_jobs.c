/*-------------------------------------------------------------------------
 *
 * worker_jobs.c
 *	  The queue of a worker: conditional writes that are waiting or in flight.
 *
 * A job is one conditional write.  A definite answer goes to the job's kind, which
 * knows what it means: worker_rows.c for rows of the outbox, worker_slots.c for
 * slots and heartbeats.  After a failed call the job is tried again, or put off.
 *
 * Jobs run in parallel, for each target as many as its parallel_requests.  A table
 * that does not answer must not hold up the others.  So no target may have more
 * than MAX_JOBS_OF_TARGET jobs, and one that is failing has a single job, whose
 * request finds out whether it answers again.  The other work for it stays at its
 * source.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/target.h"
#include "commit/worker_jobs.h"
#include "commit/worker_targets.h"
#include "dynamodb/call.h"
#include "dynamodb/status.h"
#include "dynamodb/window.h"
#include "server/answer.h"
#include "server/store.h"
#include "utils/memutils.h"

/* The most jobs of a worker, and of one target. */
#define MAX_JOBS 1024
#define MAX_JOBS_OF_TARGET 256

static struct
{
	MemoryContext context;
	dlist_head	waiting;		/* the queue */
	int			njobs;			/* waiting, in flight, or kept by their kinds */
	bool		made_room;		/* see eo_worker_jobs_made_room() */
	EoWindow	window;			/* the requests in flight */
	int64		calls_until_us; /* when the window is to be stepped again */
}			jobs;

static bool start_next(EoWindow *window, void *arg);
static void take_finished(EoWindow *window, EoCall *call, void *arg);
static bool start_job(EoWorkerJob *job);
static void take_answer(EoWorkerJob *job);
static void take_failure(EoWorkerJob *job);
static void put_off(EoWorkerJob *job);
static void thin_out(void);

void
eo_worker_jobs_init(MemoryContext context)
{
	jobs.context = context;
	dlist_init(&jobs.waiting);
}

int
eo_worker_jobs_count(void)
{
	return jobs.njobs;
}

bool
eo_worker_jobs_are_full(void)
{
	return jobs.njobs >= MAX_JOBS;
}

bool
eo_worker_jobs_in_flight(void)
{
	return jobs.window.n > 0;
}

bool
eo_worker_jobs_accept(const EoTarget *target)
{
	const EoWorkerTarget *t = eo_worker_target_of(target);

	return t->jobs < (t->failing ? 1 : MAX_JOBS_OF_TARGET);
}

bool
eo_worker_jobs_made_room(void)
{
	bool		made_room = jobs.made_room;

	jobs.made_room = false;
	return made_room;
}

EoWorkerJob *
eo_worker_job_add(const EoWorkerJobKind *kind, const EoTarget *target)
{
	MemoryContext context = AllocSetContextCreate(jobs.context, "exactonce job",
												  ALLOCSET_SMALL_SIZES);
	EoWorkerJob *job = MemoryContextAllocZero(context, sizeof(EoWorkerJob));

	job->kind = kind;
	job->context = context;
	job->target = eo_worker_target_of(target);
	job->target->jobs++;
	dlist_push_tail(&jobs.waiting, &job->node);
	jobs.njobs++;
	return job;
}

void
eo_worker_job_end(EoWorkerJob *job)
{
	job->target->jobs--;
	jobs.njobs--;
	if (!job->target->failing && job->target->jobs <= MAX_JOBS_OF_TARGET / 2)
		jobs.made_room = true;
	MemoryContextDelete(job->context);
}

void
eo_worker_jobs_run(void)
{
	eo_worker_targets_build();
	thin_out();
	while (eo_window_turn(&jobs.window, EO_MAX_PARALLEL, start_next, take_finished, NULL,
						  &jobs.calls_until_us))
		 /* as long as something finishes */ ;
}

int64
eo_worker_jobs_due_us(void)
{
	int64		due_us = INT64_MAX;

	if (jobs.window.n > 0)
		due_us = Min(due_us, jobs.calls_until_us);
	if (jobs.window.n < EO_MAX_PARALLEL)
		due_us = Min(due_us, eo_worker_targets_due_us());
	return due_us;
}

/* ----- sending ----- */

/*
 * Start the first job in the queue whose target can take a request, or end one that
 * is abandoned with its server.
 */
static bool
start_next(EoWindow *window, void *arg)
{
	dlist_iter	iter;

	(void) window;
	(void) arg;
	dlist_foreach(iter, &jobs.waiting)
	{
		EoWorkerJob *job = dlist_container(EoWorkerJob, node, iter.cur);

		if (job->target->gone ? !job->kind->abandon(job) : !eo_worker_target_may_send(job->target))
			continue;
		dlist_delete(&job->node);
		if (job->target->gone || !start_job(job))
			eo_worker_job_end(job);
		return true;
	}
	return false;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	EoAnswer   *answer = eo_answer_of_call(call);

	(void) arg;
	if (eo_answer_take(answer, window, 0))
		take_answer(answer->user);
}

/* Send the request of a job.  Returns false if there is nothing left to be done. */
static bool
start_job(EoWorkerJob *job)
{
	EoStore    *store = job->target->store;
	MemoryContext old = MemoryContextSwitchTo(job->context);

	/* A backend may have learnt more about the service's clock. */
	(void) eo_target_clock(&job->target->target, &store->client.clock_offset_ms);
	job->answer = job->kind->prepare(job, store);
	MemoryContextSwitchTo(old);
	if (job->answer == NULL)
		return false;
	job->answer->user = job;
	job->target->in_flight++;
	if (!eo_answer_start(job->answer, &jobs.window, 0))
		take_answer(job);
	return true;
}

/* ----- answers ----- */

static void
take_answer(EoWorkerJob *job)
{
	const EoAnswer *answer = job->answer;

	job->target->in_flight--;
	/* EO_INVALID is an answer: a record that cannot be read. */
	if (answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID)
	{
		take_failure(job);
		return;
	}
	eo_worker_target_answered(job->target);
	if (job->kind->take(job, answer))
		eo_worker_job_end(job);
}

/*
 * A call has failed, and so has the target.  Keep the job for the next try if it is
 * the target's only one; otherwise put it off.
 */
static void
take_failure(EoWorkerJob *job)
{
	eo_worker_target_failed(job->target, &job->answer->error);
	eo_answer_free(job->answer);
	job->answer = NULL;
	if (job->kind->can_wait && job->target->jobs == 1)
		dlist_push_tail(&jobs.waiting, &job->node);
	else
		put_off(job);
}

static void
put_off(EoWorkerJob *job)
{
	job->kind->put_off(job);
	eo_worker_job_end(job);
}

/*
 * Put off the waiting jobs of failing targets, but for one of each: they would take
 * the room of other targets' jobs.
 */
static void
thin_out(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &jobs.waiting)
	{
		EoWorkerJob *job = dlist_container(EoWorkerJob, node, iter.cur);

		if (!job->target->failing || job->target->jobs <= 1)
			continue;
		dlist_delete(&job->node);
		put_off(job);
	}
}
