/*-------------------------------------------------------------------------
 *
 * worker_jobs.h
 *	  The queue of a worker: conditional writes that are waiting or under way.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_JOBS_H
#define EO_COMMIT_WORKER_JOBS_H

#include "postgres.h"

#include "cluster/target.h"
#include "commit/worker_targets.h"
#include "lib/ilist.h"
#include "server/answer.h"
#include "server/store.h"

typedef struct EoWorkerJob EoWorkerJob;

/* What a kind of job does.  None of the functions begins a transaction. */
typedef struct EoWorkerJobKind
{
	/*
	 * Prepare the write, in the job's memory context.  NULL: there is nothing
	 * to be done any more, and the job ends.
	 */
	EoAnswer   *(*prepare) (EoWorkerJob *job, EoStore *store);

	/*
	 * Take a definite answer: applied, refused, or an unreadable record.
	 * Returns false if the job goes on, and then eo_worker_job_end() is
	 * called later.
	 */
	bool		(*take) (EoWorkerJob *job, const EoAnswer *answer);

	/* Give the job back to its source, which finds it again; then it ends. */
	void		(*put_off) (EoWorkerJob *job);

	/*
	 * The server does not exist any more.  Returns false if the job waits for
	 * it.
	 */
	bool		(*abandon) (EoWorkerJob *job);

	/* After a failure it may be tried again as it is. */
	bool		can_wait;
} EoWorkerJobKind;

struct EoWorkerJob
{
	dlist_node	node;			/* in the queue, or in a list of its kind */
	const EoWorkerJobKind *kind;
	EoWorkerTarget *target;
	MemoryContext context;
	EoAnswer   *answer;			/* while it is under way */
	void	   *data;			/* of its kind, in the job's context */
};

extern void eo_worker_jobs_init(MemoryContext context);

/* Jobs that are waiting or under way; and is there no room for another? */
extern int	eo_worker_jobs_count(void);
extern bool eo_worker_jobs_are_full(void);

/* May another job be added for this target now? */
extern bool eo_worker_jobs_accept(const EoTarget *target);

/* Add a job; the caller fills in data. */
extern EoWorkerJob *eo_worker_job_add(const EoWorkerJobKind *kind, const EoTarget *target);
extern void eo_worker_job_end(EoWorkerJob *job);

/*
 * Has a target got room for more jobs since this was asked last?  A source that
 * was refused by eo_worker_jobs_accept() asks.
 */
extern bool eo_worker_jobs_made_room(void);

/* Send what can be sent, and take the answers that have arrived. */
extern void eo_worker_jobs_run(void);

/* When to call that again at the latest; and are requests under way? */
extern int64 eo_worker_jobs_due_us(void);
extern bool eo_worker_jobs_in_flight(void);

#endif							/* EO_COMMIT_WORKER_JOBS_H */
