/*-------------------------------------------------------------------------
 *
 * worker_targets.h
 *	  The tables a worker writes to, and how they have been of late.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_TARGETS_H
#define EO_COMMIT_WORKER_TARGETS_H

#include "postgres.h"

#include "cluster/target.h"
#include "dynamodb/status.h"
#include "server/store.h"

/* A failing place is asked again after this. */
#define EO_WORKER_TARGET_PAUSE_US INT64CONST(1000000)

typedef struct EoWorkerTarget
{
	EoTarget	target;			/* hash key */
	EoStore    *store;			/* NULL: to be built, or cannot be */
	MemoryContext context;
	uint64		built;			/* state of the catalogs it was built from */
	int			in_flight;
	int			jobs;			/* waiting or in flight */
	bool		gone;			/* there is no such server any more */
	bool		failing;
	bool		complained;
	int64		pause_until_us; /* 0: none */
} EoWorkerTarget;

extern void eo_worker_targets_init(MemoryContext context);
extern EoWorkerTarget *eo_worker_target_of(const EoTarget *target);

/* Give those with jobs a store.  Begins and ends transactions. */
extern void eo_worker_targets_build(void);
extern bool eo_worker_target_may_send(const EoWorkerTarget *place);

/* A request got an answer that is one; or failed: then there is a pause. */
extern void eo_worker_target_answered(EoWorkerTarget *place);
extern void eo_worker_target_failed(EoWorkerTarget *place, const EoError *error);

/* When the next pause of a place with jobs is over; INT64_MAX: there is none. */
extern int64 eo_worker_targets_due_us(void);

#endif							/* EO_COMMIT_WORKER_TARGETS_H */
