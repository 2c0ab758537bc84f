/*-------------------------------------------------------------------------
 *
 * worker_targets.h
 *	  The targets that a worker writes to, and whether they answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_TARGETS_H
#define EO_COMMIT_WORKER_TARGETS_H

#include "postgres.h"

#include "cluster/target.h"
#include "dynamodb/status.h"
#include "server/store.h"

/* A failing target is tried again after this. */
#define EO_WORKER_TARGET_PAUSE_US INT64CONST(1000000)

typedef struct EoWorkerTarget
{
	EoTarget	target;			/* hash key */
	EoStore    *store;			/* NULL: not built yet, or cannot be built */
	MemoryContext context;		/* of the store */
	uint64		built;			/* the version of the catalogs it was built
								 * from */
	int			in_flight;		/* requests */
	int			jobs;			/* waiting, in flight, or kept by their kinds */
	bool		gone;			/* the server was dropped */
	bool		failing;		/* the last call failed, or there is no store */
	bool		complained;		/* a WARNING was logged since the last answer */
	int64		pause_until_us; /* no request before this; 0: no pause */
} EoWorkerTarget;

/* To be called once.  Targets and their stores live below this context. */
extern void eo_worker_targets_init(MemoryContext context);

/* The entry of a target, made if there is none.  It lasts as long as the worker. */
extern EoWorkerTarget *eo_worker_target_of(const EoTarget *target);

/*
 * Build a store for each target that has jobs and no store from the present
 * catalogs.  Runs transactions of its own, so it must not be called in one.  If a
 * store cannot be built the error is logged, and the target is failing.
 */
extern void eo_worker_targets_build(void);

/* May a request be sent to this target now? */
extern bool eo_worker_target_may_send(const EoWorkerTarget *t);

/* A call had a definite answer: the target is not failing, and has no pause. */
extern void eo_worker_target_answered(EoWorkerTarget *t);

/* A call failed: the target is failing, and a pause begins. */
extern void eo_worker_target_failed(EoWorkerTarget *t, const EoError *error);

/* When the next pause of a target with jobs ends; INT64_MAX: there is none. */
extern int64 eo_worker_targets_due_us(void);

#endif							/* EO_COMMIT_WORKER_TARGETS_H */
