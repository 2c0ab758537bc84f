/*-------------------------------------------------------------------------
 *
 * write_targets.h
 *	  The targets that a worker writes to, and whether they answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_WRITE_TARGETS_H
#define EO_WORKER_WRITE_TARGETS_H

#include "postgres.h"

#include "cluster/target.h"
#include "ledger/known_targets.h"
#include "lib/ilist.h"
#include "server/store.h"
#include "wire/client.h"
#include "wire/status.h"

/* A failing target is tried again after this. */
#define EO_WORKER_TARGET_PAUSE_US INT64CONST(1000000)

/*
 * Requests of the lanes do not take each other's room.  Heartbeats have a lane of
 * their own, because they are of no use if they come late.
 */
typedef enum EoWorkerLane
{
	EO_WORKER_LIVES,			/* see own_life.c */
	EO_WORKER_LOOKS,			/* see takeover.c */
	EO_WORKER_BEATS,
	EO_WORKER_WRITES,
	EO_WORKER_LANES
} EoWorkerLane;

/* A tenant, or all of them together: the jobs of all targets, for jobs.c. */
typedef struct EoWorkerTenant
{
	slist_node	node;
	Oid			id;				/* InvalidOid: superusers */
	int			jobs[EO_WORKER_LANES];	/* waiting, in flight, or kept by
										 * their kinds */
	int			in_flight[EO_WORKER_LANES];
	size_t		write_bytes;	/* of the writes of jobs, see write_order.c */
} EoWorkerTenant;

/* The jobs of a target in one lane, for jobs.c. */
typedef struct EoWorkerQueue
{
	struct EoWorkerTarget *target;
	dlist_node	turn;			/* in the lane's round, if jobs are waiting */
	dlist_head	waiting;
	int			jobs;			/* waiting, in flight, or kept by their kinds */
	int			in_flight;
} EoWorkerQueue;

typedef struct EoWorkerTarget
{
	EoTarget	target;			/* hash key */
	dlist_node	node;			/* in the list of all */
	EoWorkerTenant *tenant;
	EoStore    *store;			/* NULL: not built yet, or cannot be built */
	uint64		built;			/* the version of the catalogs it was built
								 * from */
	EoWorkerQueue queues[EO_WORKER_LANES];
	int			in_flight;		/* requests, of all lanes */
	int			jobs;			/* of all lanes */
	int			asked;			/* jobs that are for it, whoever they go by */
	size_t		write_bytes;	/* of their writes */
	int			idle;			/* looks at which it had nothing to do */
	bool		kept;			/* it stands in for another one */
	dlist_head	slots;			/* that wait for room (settling.c) */
	dlist_node	line;			/* there, if there are any */
	bool		late;			/* the store is of old catalogs, and the new
								 * ones are locked */
	bool		gone;			/* no server leads there */
	bool		answers;		/* it has answered, and not failed since */
	bool		failing;		/* it has failed, or there is no store */
	int64		answered_us;	/* the last definite answer */
	int64		quiet_since_us; /* with requests in flight, nothing was heard
								 * since then */
	int64		recovered_us;	/* when it last stopped failing */
	bool		complained;		/* a WARNING was logged since the last answer */
	int64		pause_until_us; /* no request before this; 0: no pause */
	int64		build_pause_us; /* 0: the store could be built */
	EoError		build_error;	/* why it could not */
	bool		unbuilt;		/* and that is not told yet */
	EoReadings	readings;		/* of a first contact that is under way */
	bool		refused;		/* its identity was, when it was asked last */
	bool		wanted;			/* build a store although there is no job */

	/* While its identity is refused, jobs that anybody may do go by another. */
	struct EoWorkerTarget *via; /* NULL: none stands in */
	uint64		via_catalog;	/* the version of the catalogs that named it */
	struct EoWorkerTarget *stand_in;	/* the last that was answered */
	uint64		found;			/* the version of its store that has found, as
								 * a stand-in, what is there */
	bool		seeks;			/* somebody is to be chosen; no request until
								 * then */
	bool		recalled;		/* the catalogs were locked; as soon as they
								 * can be read somebody is chosen anew */
	int			tried;			/* so many of the others have had their turn */
	int64		again_us;		/* its own identity is asked again, or the
								 * others are */
} EoWorkerTarget;

/* To be called once. */
extern void eo_write_targets_init(void);

/*
 * The entry of a target, made if there is none.  It lasts until it has had nothing to do for five
 * minutes, and is forgotten in eo_write_targets_build() only.
 */
extern EoWorkerTarget *eo_write_target_of(const EoTarget *target);

/*
 * Build stores for targets that have jobs and no store from the present catalogs: for all that
 * are about lives and heartbeats, and for some of the others.  Runs transactions of its own, so it
 * must not be called in one.  If a store cannot be built the error is logged, the target is
 * failing, and it is tried again after a pause.
 */
extern void eo_write_targets_build(void);

/*
 * Choose who stands in for targets whose identity was refused.  Runs transactions, as
 * above.  Returns whether jobs are to be given to others.
 */
extern bool eo_write_targets_choose(void);

/* By which target do jobs that anybody may do go?  By the target itself, as a rule. */
extern EoWorkerTarget *eo_write_target_via(const EoTarget *target);

/*
 * A call for asked has failed that went by another target, or by itself.  Returns true if
 * that was about the identity, and the job is to go by eo_write_target_via(), which may
 * have to be chosen first.  False: it is to be put off.
 */
extern bool eo_write_target_refused(EoWorkerTarget *asked, EoWorkerTarget *by,
									const EoError *error);

/* A call for asked was answered that went by another target. */
extern void eo_write_target_stands_in(EoWorkerTarget *asked, EoWorkerTarget *by);

/*
 * May an item be made by this target that asked is to find?  Not by a stand-in that has found
 * nothing there yet: it may be of another account, where the table is another one.
 */
extern bool eo_write_target_may_create(const EoWorkerTarget *asked, const EoWorkerTarget *by);

/* Is it time to see whether its own identity works again?  Once in a while it is. */
extern bool eo_write_target_asks_again(EoWorkerTarget *asked);

/* Has the call failed because of who has signed it, or because nobody could? */
extern bool eo_write_target_is_refusal(const EoError *error);

/* Has it a store of the present catalogs, so that a request can be sent? */
extern bool eo_write_target_is_built(const EoWorkerTarget *t);

/* The same, and it has no pause. */
extern bool eo_write_target_is_ready(EoWorkerTarget *t);

/* Has it answered, and is it not failing and not slow? */
extern bool eo_write_target_is_trusted(const EoWorkerTarget *t);

/* May a call to this target make more than one request? */
extern bool eo_write_target_retries(const EoWorkerTarget *t);

/* All tenants but superusers together. */
extern const EoWorkerTenant *eo_write_targets_tenants(void);

/*
 * The requests in flight in a lane to targets that are not trusted: to those of a tenant, and in
 * *tenants to those of all tenants but superusers.  One that was trusted has more than most.
 */
extern int	eo_write_targets_untrusted(EoWorkerLane lane, const EoWorkerTenant *tenant, int most,
									   int *tenants);

/* So many jobs more, or less, have this target. */
extern void eo_write_target_count_jobs(EoWorkerTarget *t, EoWorkerLane lane, int n);

/* So many bytes more, or less, have the writes of its jobs. */
extern void eo_write_target_count_bytes(EoWorkerTarget *t, int64 n);

/* A request is sent; and it is over, whatever came of it. */
extern void eo_write_target_sent(EoWorkerTarget *t, EoWorkerLane lane);
extern void eo_write_target_ended(EoWorkerTarget *t, EoWorkerLane lane);

/* A call had a definite answer: the target is not failing, and has no pause. */
extern void eo_write_target_answered(EoWorkerTarget *t);

/*
 * A call that was sent at sent_us failed.  Then the target is failing, and a pause
 * begins; but not if only the key is to blame, see write_targets.c.
 */
extern void eo_write_target_failed(EoWorkerTarget *t, const EoError *error, int64 sent_us,
								   bool failed_before);

/* The identities of the database that lead to the table of a target. */
typedef struct EoWorkerIdentities
{
	const EoTarget *target;
	EoIdentityRef refs[EO_MAX_IDENTITIES];
	int			n;
} EoWorkerIdentities;

/* Look them up in a transaction, which may raise.  False: the catalogs are locked. */
extern bool eo_write_target_identities(const EoTarget *target, EoWorkerIdentities *identities);

/* All targets: EoWorkerTarget by its node. */
extern dlist_head *eo_write_targets_all(void);

/* A number that changes whenever a target has stopped failing. */
extern uint32 eo_write_targets_recoveries(void);

/* When the next pause of a target with jobs ends; INT64_MAX: there is none. */
extern int64 eo_write_targets_due_us(void);

#endif							/* EO_WORKER_WRITE_TARGETS_H */
