/*-------------------------------------------------------------------------
 *
 * worker_jobs.h
 *	  The queue of a worker: conditional writes that are waiting or in flight.
 *
 * A source of work (worker_rows.c, worker_slots.c) asks eo_worker_jobs_accept(),
 * adds jobs, and is called back by the functions of the job's kind.
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

/* The functions of a kind of job.  None of them may begin a transaction. */
typedef struct EoWorkerJobKind
{
	/*
	 * Prepare the write, in the job's memory context.  Returns NULL if
	 * nothing is left to be done; then the job ends.
	 */
	EoAnswer   *(*prepare) (EoWorkerJob *job, EoStore *store);

	/*
	 * Take a definite answer: the write was applied, it was refused, or the
	 * record cannot be read.  Returns true if the job ends.  If this returns
	 * false the kind keeps the job, and calls eo_worker_job_end() later.
	 */
	bool		(*take) (EoWorkerJob *job, const EoAnswer *answer);

	/*
	 * Give the work back to its source, to be found there again; the job
	 * ends.
	 */
	void		(*put_off) (EoWorkerJob *job);

	/*
	 * The server of the target was dropped.  Returns true if the job ends,
	 * and false if it stays in the queue until there is such a server again.
	 */
	bool		(*abandon) (EoWorkerJob *job);

	/*
	 * May a job stay in the queue after a failed call, to be tried again?  If
	 * not, it is always put off.
	 */
	bool		can_wait;
} EoWorkerJobKind;

struct EoWorkerJob
{
	dlist_node	node;			/* in the queue, or in a list of its kind */
	const EoWorkerJobKind *kind;
	EoWorkerTarget *target;
	MemoryContext context;		/* of the job and what belongs to it */
	EoAnswer   *answer;			/* while it is in flight */
	void	   *data;			/* for the kind; in the job's context */
};

/* Begin with an empty queue.  Jobs live in contexts below this one. */
extern void eo_worker_jobs_init(MemoryContext context);

/* The number of jobs: waiting, in flight, or kept by their kinds. */
extern int	eo_worker_jobs_count(void);

/* Is the queue so long that no source should add a job? */
extern bool eo_worker_jobs_are_full(void);

/* May a job be added for this target now? */
extern bool eo_worker_jobs_accept(const EoTarget *target);

/* Add a job to the queue.  The caller fills in data. */
extern EoWorkerJob *eo_worker_job_add(const EoWorkerJobKind *kind, const EoTarget *target);

/* End a job and free it.  It must not be in a list any more. */
extern void eo_worker_job_end(EoWorkerJob *job);

/*
 * Has a target got room for more jobs since the last call of this function?  Then
 * a source that was refused by eo_worker_jobs_accept() should look again.
 */
extern bool eo_worker_jobs_made_room(void);

/*
 * Start jobs whose targets can take a request, and take the answers that have
 * arrived.  Does not wait.  Must not be called in a transaction.
 */
extern void eo_worker_jobs_run(void);

/* When eo_worker_jobs_run() is to be called again at the latest. */
extern int64 eo_worker_jobs_due_us(void);

/* Are there requests in flight? */
extern bool eo_worker_jobs_in_flight(void);

#endif							/* EO_COMMIT_WORKER_JOBS_H */
