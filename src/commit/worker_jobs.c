/*-------------------------------------------------------------------------
 *
 * worker_jobs.c
 *	  The queue of a worker: conditional writes that are waiting or under way.
 *
 * A job is one conditional write, whose answer says whether the job is done, is
 * over for some other reason, or is to be tried again.  Its kind knows the rest:
 * rows of the outbox (worker_rows.c), slots and heartbeats (worker_slots.c).
 *
 * Jobs run side by side, some at a time for each target, so that a table that does
 * not answer holds up no other table's.  No target has so many jobs that others
 * cannot get theirs; and one that fails has a single job, which asks whether it is
 * back.  The rest waits at its source.
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

/* Jobs that may wait for a free request, and those of one target. */
#define MAX_JOBS 1024
#define MAX_JOBS_OF_TARGET 256

static struct
{
	MemoryContext context;
	dlist_head	waiting;
	int			njobs;			/* waiting, under way, or kept by their kind */
	bool		made_room;
	EoWindow	window;
	int64		calls_until_us; /* when the window wants to be looked at */
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

/* Start the first job in the queue whose target can take a request. */
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

/* False: there is nothing to be done any more. */
static bool
start_job(EoWorkerJob *job)
{
	EoStore    *store = job->target->store;
	MemoryContext old = MemoryContextSwitchTo(job->context);

	/* A backend may have learnt of the service's clock since. */
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
	/* An unreadable record is an answer, too: the table can be reached. */
	if (answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID)
	{
		take_failure(job);
		return;
	}
	eo_worker_target_answered(job->target);
	if (job->kind->take(job, answer))
		eo_worker_job_end(job);
}

/* Try again later.  The target needs no more than one job to be tried with. */
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

/* Jobs that wait for a failing target would take the room of other targets' jobs. */
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
