/*-------------------------------------------------------------------------
 *
 * jobs.h
 *	  The queues of a worker: conditional writes that are waiting or in flight.
 *
 * A source of work (finish.c, settling.c) asks eo_jobs_accept(),
 * adds jobs, and is called back by the functions of the job's kind.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_JOBS_H
#define EO_WORKER_JOBS_H

#include "postgres.h"

#include "cluster/target.h"
#include "lib/ilist.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/store.h"
#include "worker/write_targets.h"

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
	 * record cannot be read.  By a stand-in it is never that there is no
	 * item: then the job is put off.  Returns true if the job ends.  If this
	 * returns false the kind keeps the job, and calls eo_job_end() later.
	 * NULL: the job ends, whatever the answer is.
	 */
	bool		(*take) (EoWorkerJob *job, const EoAnswer *answer);

	/*
	 * The call has failed.  Returns true if that is about this job alone, and
	 * its target has answered: then the job ends.  NULL: it never is.
	 */
	bool		(*refused) (EoWorkerJob *job, const EoAnswer *answer);

	/*
	 * The call has failed, or there can be none because the store of the
	 * target cannot be built.  For what is told of it; NULL: nothing is.
	 */
	void		(*failed) (EoWorkerJob *job, const EoError *error);

	/*
	 * Give the work back to its source, to be found there again after a
	 * pause; the job ends.  0: it has not failed, but its target has no room.
	 * NULL: the source finds the work again by itself.
	 */
	void		(*put_off) (EoWorkerJob *job, int64 pause_us);

	/*
	 * There is no server that leads to the target, and so there are no
	 * credentials.  The work must not be forgotten for that.  Returns true if
	 * the job ends, and false if it stays in the queue until there is such a
	 * server again.  NULL: the job is put off.
	 */
	bool		(*abandon) (EoWorkerJob *job);

	EoWorkerLane lane;
	bool		shares;			/* its writes may share requests, see bundle.h */
} EoWorkerJobKind;

struct EoWorkerJob
{
	dlist_node	node;			/* in a queue, or in a list of its kind */
	const EoWorkerJobKind *kind;
	EoWorkerTarget *asked;		/* the target that the job is for */
	EoWorkerTarget *target;		/* the one that it goes by: another identity
								 * may stand in */
	bool		for_any;		/* ... if this is set */
	MemoryContext context;		/* of the job and what belongs to it */
	char		token[EO_TOKEN_LEN + 1];	/* of its claim */
	EoAnswer   *answer;			/* while it is in flight */
	bool		contact;		/* ... to a read of the first contact, which
								 * precedes the write */
	bool		alone;			/* the write has been in a bundle, or cannot
								 * be: it gets a request of its own */
	bool		clock_moved;	/* the service has refused the write's time */
	int64		sent_us;
	int64		limit_us;		/* of its call; 0: that of the worker (jobs.c) */
	int64		deadline_us;	/* of the call */
	void	   *data;			/* for the kind; in the job's context */

	/* For a kind whose answers are remembered, see cluster/cache.h. */
	uint8		digest[EO_DIGEST_LEN];
	uint64		cache_mark;
};

/* After what time does the worker give up a request to that target, unless its job says less? */
extern int64 eo_jobs_limit_us(const EoWorkerTarget *t, EoWorkerLane lane);

/* To be called once. */
extern void eo_jobs_init(void);

/* The number of jobs: waiting, in flight, or kept by their kinds. */
extern int	eo_jobs_count(void);

/* Has a lane so many jobs that no source should add one? */
extern bool eo_jobs_are_full(EoWorkerLane lane);

/* May a job be added for this target now? */
extern bool eo_jobs_accept(EoWorkerLane lane, const EoTarget *target);

/* Has a target half of the writes that it may have at most? */
extern bool eo_jobs_half_full(const EoTarget *target);

/* Add a job for the claim with that token.  The caller fills in data. */
extern EoWorkerJob *eo_job_add(const EoWorkerJobKind *kind, const EoTarget *target,
							   const char *token);

/*
 * The same of a job that concerns the database and not a role: while the identity of the
 * target is refused it goes by another one that leads to the same place.  The condition
 * of its write must be such that it can be true in the right table only.
 */
extern EoWorkerJob *eo_job_add_for_any(const EoWorkerJobKind *kind, const EoTarget *target,
									   const char *token);

/* End a job and free it.  It must not be in a list any more. */
extern void eo_job_end(EoWorkerJob *job);

/*
 * Has a target got room for more jobs since the last call of this function?  Then
 * a source that was refused by eo_jobs_accept() should look again.
 */
extern bool eo_jobs_made_room(void);

/*
 * Start jobs whose targets can take a request, and take the answers that have
 * arrived.  Does not wait.  Must not be called in a transaction.
 */
extern void eo_jobs_run(void);

/* When eo_jobs_run() is to be called again at the latest. */
extern int64 eo_jobs_due_us(void);

/* Are there requests in flight? */
extern bool eo_jobs_in_flight(void);

#endif							/* EO_WORKER_JOBS_H */
