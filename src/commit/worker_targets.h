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
#include "dynamodb/client.h"
#include "dynamodb/status.h"
#include "lib/ilist.h"
#include "server/store.h"

/* A failing target is tried again after this. */
#define EO_WORKER_TARGET_PAUSE_US INT64CONST(1000000)

/*
 * Requests of the lanes do not take each other's room.  Heartbeats have a lane of
 * their own, because they are of no use if they come late.
 */
typedef enum EoWorkerLane
{
	EO_WORKER_LIVES,			/* see worker_lives.c */
	EO_WORKER_BEATS,
	EO_WORKER_WRITES,
	EO_WORKER_LANES
} EoWorkerLane;

/* The jobs of a target in one lane, for worker_jobs.c. */
typedef struct EoWorkerQueue
{
	dlist_node	turn;			/* in the lane's round, if jobs are waiting */
	dlist_head	waiting;
	int			jobs;			/* waiting, in flight, or kept by their kinds */
	int			in_flight;
} EoWorkerQueue;

typedef struct EoWorkerTarget
{
	EoTarget	target;			/* hash key */
	EoStore    *store;			/* NULL: not built yet, or cannot be built */
	MemoryContext context;		/* of the store */
	uint64		built;			/* the version of the catalogs it was built
								 * from */
	EoWorkerQueue queues[EO_WORKER_LANES];
	int			in_flight;		/* requests, of all lanes */
	int			jobs;			/* of all lanes */
	size_t		write_bytes;	/* of the writes in jobs (worker_writes.c) */
	dlist_head	slots;			/* that wait for room (worker_slots.c) */
	dlist_node	line;			/* there, if there are any */
	bool		late;			/* the store is of old catalogs, and the new
								 * ones are locked */
	bool		gone;			/* the server was dropped */
	bool		answers;		/* it has answered, and not failed since */
	bool		failing;		/* it has failed, or there is no store */
	int64		answered_us;	/* the last definite answer */
	int64		quiet_since_us; /* with requests in flight, nothing was heard
								 * since then */
	int64		recovered_us;	/* when it last stopped failing */
	bool		complained;		/* a WARNING was logged since the last answer */
	int64		pause_until_us; /* no request before this; 0: no pause */
	int64		build_pause_us; /* 0: the store could be built */
	EoReadings	readings;		/* of a first contact that is under way */
} EoWorkerTarget;

/* To be called once.  Targets and their stores live below this context. */
extern void eo_worker_targets_init(MemoryContext context);

/* The entry of a target, made if there is none.  It lasts as long as the worker. */
extern EoWorkerTarget *eo_worker_target_of(const EoTarget *target);

/*
 * Build a store for each target that has jobs and no store from the present
 * catalogs.  Runs transactions of its own, so it must not be called in one.  If a
 * store cannot be built the error is logged, the target is failing, and it is tried again
 * after a pause.
 */
extern void eo_worker_targets_build(void);

/* May a request be sent to this target now, as far as the target is concerned? */
extern bool eo_worker_target_is_ready(EoWorkerTarget *t);

/* Has it answered, and is it not failing and not slow? */
extern bool eo_worker_target_is_trusted(const EoWorkerTarget *t);

/* May a call to this target make more than one request? */
extern bool eo_worker_target_retries(const EoWorkerTarget *t);

/* The requests in flight in a lane to all targets that are not trusted. */
extern int	eo_worker_targets_untrusted(EoWorkerLane lane);

/* A request is sent; and it is over, whatever came of it. */
extern void eo_worker_target_sent(EoWorkerTarget *t, EoWorkerLane lane);
extern void eo_worker_target_ended(EoWorkerTarget *t, EoWorkerLane lane);

/* A call had a definite answer: the target is not failing, and has no pause. */
extern void eo_worker_target_answered(EoWorkerTarget *t);

/*
 * A call that was sent at sent_us failed.  Then the target is failing, and a pause
 * begins; but not if only the key is to blame, see worker_targets.c.
 */
extern void eo_worker_target_failed(EoWorkerTarget *t, const EoError *error, int64 sent_us,
									bool failed_before);

/* Call a function with each target that has a store.  It may add jobs for this target. */
extern void eo_worker_targets_visit(void (*visit) (EoWorkerTarget *t));

/* A number that changes whenever a target has stopped failing. */
extern uint32 eo_worker_targets_recoveries(void);

/* When the next pause of a target with jobs ends; INT64_MAX: there is none. */
extern int64 eo_worker_targets_due_us(void);

#endif							/* EO_COMMIT_WORKER_TARGETS_H */
