/*-------------------------------------------------------------------------
 *
 * write_targets.c
 *	  The targets that a worker writes to, and whether they answer.
 *
 * A target is a table as one role reaches it, see target.h.  Its store is built from
 * the catalogs, and built anew when they have changed.
 *
 * A target is trusted once it has answered, until a call fails or nothing is heard
 * for SLOW_US while requests are in flight.  One that is not trusted has a small
 * share of the worker's requests (jobs.c).  After a failure it has a pause,
 * and its calls make no retries of their own, until the next definite answer.
 *
 * A call may fail because of its key and not because of its target: its partition
 * may be throttled, or a policy may forbid it.  So the target is not to blame if it
 * has answered another request since the call was sent, or if it is trusted and the
 * key has failed before.
 *
 * Lives, and what a transaction that has committed owes, concern the database and not one
 * of its roles.  So while the identity of a target is refused, another one that leads to
 * the same place stands in for it: the roles with a user mapping for a server that leads
 * there now, and the owners of these servers (known_targets.c), one after the other.  Who was
 * answered goes on.  The target's own identity is asked again once a minute, when the
 * catalogs have changed, and when all others were refused.  While somebody has locked the
 * catalogs one is chosen of those that have been answered before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/life_watch.h"
#include "cluster/service_clocks.h"
#include "cluster/target.h"
#include "compat.h"
#include "ledger/known_targets.h"
#include "ledger/lock_limit.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/options.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "wire/clock.h"
#include "wire/status.h"
#include "worker/write_targets.h"

/* A target that refuses requests is tried again after this. */
#define PAUSE_REFUSED_US INT64CONST(5000000)

/*
 * A store that cannot be built is tried again after this, and after twice as long each
 * time: it may have been for want of memory, and no catalog need change for it to work.
 */
#define FIRST_BUILD_PAUSE_US INT64CONST(100000)
#define LONGEST_BUILD_PAUSE_US INT64CONST(60000000)

/* While others stand in, the target's own identity is asked again this often. */
#define OWN_AGAIN_US INT64CONST(60000000)

/* A target that has answered nothing for this long is slow. */
#define SLOW_US INT64CONST(1000000)

/*
 * Each store is built in a transaction of its own, and requests wait meanwhile.  Whoever alters
 * servers has all stores built anew.  So a round builds for so long, and the next one goes on.
 */
#define BUILD_US INT64CONST(20000)

/* A target that had nothing to do at so many looks is forgotten. */
#define IDLE_LOOK_US INT64CONST(60000000)
#define MAX_IDLE_LOOKS 5

static struct
{
	HTAB	   *table;			/* EoWorkerTarget by target */
	dlist_head	all;			/* the same */
	slist_head	owners;			/* EoWorkerTenant, superusers among them */
	EoWorkerTenant tenants;		/* all but superusers */
	EoWorkerTarget *last;		/* the one that was asked for last */
	uint64		catalog;		/* version of the catalogs: counts changes of
								 * servers and mappings */
	uint32		recoveries;
	bool		changed;		/* somebody does not stand in any more */
	bool		to_build;		/* the time to build stores was up */
	int64		idle_due_us;	/* the next look for those without work */
}			targets;

/* A store that is read from the catalogs. */
typedef struct Reading
{
	const EoTarget *target;
	EoStore    *store;			/* NULL: the server was dropped */
} Reading;

static void forget_idle(void);
static bool must_be_built(const EoWorkerTarget *t);
static void build_store(EoWorkerTarget *t);

/* A server or a mapping has changed: every store is to be built anew. */
static void
catalog_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	targets.catalog++;
}

void
eo_write_targets_init(void)
{
	HASHCTL		ctl = {.keysize = sizeof(EoTarget),.entrysize = sizeof(EoWorkerTarget)};

	targets.table = hash_create("exactonce targets", 16, &ctl, HASH_ELEM | HASH_BLOBS);
	targets.catalog = 1;
	eo_life_watch_admit_all(MyDatabaseId);
	eo_options_on_change(catalog_changed);
}

/* The tenant of that id, made if there is none. */
static EoWorkerTenant *
tenant_of(Oid id)
{
	slist_iter	iter;
	EoWorkerTenant *tenant;

	slist_foreach(iter, &targets.owners)
	{
		tenant = slist_container(EoWorkerTenant, node, iter.cur);
		if (tenant->id == id)
			return tenant;
	}
	tenant = MemoryContextAllocZero(TopMemoryContext, sizeof(EoWorkerTenant));
	tenant->id = id;
	slist_push_head(&targets.owners, &tenant->node);
	return tenant;
}

EoWorkerTarget *
eo_write_target_of(const EoTarget *target)
{
	bool		found;
	EoWorkerTarget *t = targets.last;

	/*
	 * To compare is faster than to hash, and rows of one target come
	 * together.
	 */
	if (t != NULL && memcmp(target, &t->target, sizeof(EoTarget)) == 0)
		return t;
	t = targets.last = hash_search(targets.table, target, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) t + sizeof(EoTarget), 0, sizeof(EoWorkerTarget) - sizeof(EoTarget));
		t->tenant = tenant_of(target->tenant);
		dlist_push_tail(&targets.all, &t->node);
		for (int lane = 0; lane < EO_WORKER_LANES; lane++)
			t->queues[lane].target = t;
	}
	return t;
}

dlist_head *
eo_write_targets_all(void)
{
	return &targets.all;
}

/* Reading the catalogs needs a transaction.  Each target has its own, because an error ends it. */
static void
build_if_needed(EoWorkerTarget *t)
{
	if (!must_be_built(t) || (t->jobs == 0 && !t->wanted))
		return;
	if (t->in_flight == 0)
		build_store(t);
	/* It must be idle before its store can be built. */
	else if (eo_lock_limit_again_us(EO_LOCKS_CATALOGS) <= eo_clock_monotonic_us())
		t->late = false;
}

/* Others must not delay what is about lives and heartbeats.  They have their turns. */
void
eo_write_targets_build(void)
{
	int64		until_us;
	dlist_iter	iter;

	AcceptInvalidationMessages();
	dlist_foreach(iter, &targets.all)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, node, iter.cur);

		if (t->queues[EO_WORKER_LIVES].jobs + t->queues[EO_WORKER_BEATS].jobs > 0)
			build_if_needed(t);
	}
	until_us = eo_clock_monotonic_us() + BUILD_US;
	targets.to_build = false;
	for (long n = hash_get_num_entries(targets.table); n > 0 && !targets.to_build; n--)
	{
		dlist_node *node = dlist_pop_head_node(&targets.all);

		dlist_push_tail(&targets.all, node);
		build_if_needed(dlist_container(EoWorkerTarget, node, node));
		targets.to_build = n > 1 && eo_clock_monotonic_us() > until_us;
	}
	forget_idle();
}

static bool
must_be_built(const EoWorkerTarget *t)
{
	return t->built != targets.catalog ||
		(t->build_pause_us > 0 && eo_clock_monotonic_us() >= t->pause_until_us);
}

/* A store has a memory context of its own. */
static void
delete_store(EoStore *store)
{
	if (store != NULL)
		MemoryContextDelete(GetMemoryChunkContext(store));
}

static bool
is_busy(EoWorkerTarget *t)
{
	return t->jobs > 0 || t->asked > 0 || t->in_flight > 0 || t->wanted ||
		!dlist_is_empty(&t->slots);
}

static void
forget(EoWorkerTarget *t)
{
	EoTarget	key = t->target;

	if (t->refused)
		eo_life_watch_admit(&t->target);
	if (targets.last == t)
		targets.last = NULL;
	dlist_delete(&t->node);
	delete_store(t->store);
	(void) hash_search(targets.table, &key, HASH_REMOVE, NULL);
}

/*
 * Servers are altered, and the targets that they have led to are not asked for again.  All of them
 * would cost memory and time in every round.
 */
static void
forget_idle(void)
{
	dlist_mutable_iter iter;

	if (eo_clock_monotonic_us() < targets.idle_due_us)
		return;
	targets.idle_due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(IDLE_LOOK_US);
	dlist_foreach_modify(iter, &targets.all)
		dlist_container(EoWorkerTarget, node, iter.cur)->kept = false;
	dlist_foreach_modify(iter, &targets.all)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, node, iter.cur);

		if (t->via != NULL)
			t->via->kept = true;
		if (t->stand_in != NULL)
			t->stand_in->kept = true;
	}
	dlist_foreach_modify(iter, &targets.all)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, node, iter.cur);

		t->idle = is_busy(t) || t->kept ? 0 : t->idle + 1;
		/* A scan that goes on says so again. */
		t->wanted = false;
		if (t->idle <= MAX_IDLE_LOOKS)
			continue;
		elog(DEBUG1, "exactonce: table \"%s\" had no work by role %u on server %u, and is forgotten",
			 t->target.table, t->target.userid, t->target.serverid);
		forget(t);
	}
}

/*
 * The current error says why a store could not be built.  Without memory for a copy of it only
 * the log says it.
 */
static void
note_build_error(EoWorkerTarget *t)
{
	memset(&t->build_error, 0, sizeof(t->build_error));
	t->build_error.status = EO_NO_CREDENTIALS;
	strlcpy(t->build_error.message, "The server's options or credentials are of no use: see the log",
			sizeof(t->build_error.message));
	PG_TRY();
	{
		ErrorData  *edata = CopyErrorData();

		strlcpy(t->build_error.message, edata->message, sizeof(t->build_error.message));
		FreeErrorData(edata);
	}
	PG_CATCH();
	{
		/* The caller flushes both. */
	}
	PG_END_TRY();
	t->unbuilt = true;
	eo_database_set_failure(MyDatabaseId, &t->build_error);
}

static void
read_store(void *arg)
{
	Reading    *reading = arg;

	reading->store = eo_target_store(reading->target);
	/* All else that was read for it goes with the transaction. */
	if (reading->store != NULL)
		MemoryContextSetParent(GetMemoryChunkContext(reading->store), TopMemoryContext);
}

/* Use what was read. */
static void
take_store(EoWorkerTarget *t, EoStore *store)
{
	delete_store(t->store);
	t->store = store;
	/* The worker has a pace of its own, and its answers close circuits. */
	if (store != NULL)
		store->client.insists = true;
	t->gone = store == NULL;
	t->failing |= t->gone;
	t->build_pause_us = t->pause_until_us = 0;
	t->readings.n = 0;
}

/*
 * While somebody has locked the catalogs the old store is used: a request that was sent a moment
 * before they changed would be no different.
 */
static void
build_store(EoWorkerTarget *t)
{
	MemoryContext old = CurrentMemoryContext;
	Reading		reading = {.target = &t->target};
	uint64		catalog = targets.catalog;

	PG_TRY();
	{
		t->late = !eo_lock_limit_run(EO_LOCKS_CATALOGS, read_store, &reading);

		/*
		 * The end of the transaction may have failed, and what was read
		 * outlives it.
		 */
		if (t->late)
			delete_store(reading.store);
		else
		{
			take_store(t, reading.store);
			t->built = catalog;
		}
	}
	PG_CATCH();
	{
		/* For example, a user mapping has half of its credentials. */
		MemoryContextSwitchTo(old);
		EmitErrorReport();
		note_build_error(t);
		FlushErrorState();
		AbortCurrentTransaction();
		delete_store(reading.store);
		delete_store(t->store);
		t->store = NULL;
		t->gone = false;
		t->failing = true;
		if (t->built != catalog)
			t->build_pause_us = 0;
		t->built = catalog;
		t->build_pause_us = t->build_pause_us == 0 ? FIRST_BUILD_PAUSE_US :
			Min(2 * t->build_pause_us, LONGEST_BUILD_PAUSE_US);
		t->pause_until_us = eo_clock_monotonic_us() + t->build_pause_us;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
}

/* ----- who stands in for whom ----- */

/* The target of another identity for the same place. */
static EoWorkerTarget *
target_as(const EoTarget *target, const EoIdentityRef *who)
{
	EoTarget	as = *target;

	as.serverid = who->serverid;
	as.userid = who->userid;
	return eo_write_target_of(&as);
}

/* The next one whose turn it is; when all have had it, the target's own. */
static void
choose(EoWorkerTarget *t, const EoIdentityRef *others, int n)
{
	int64		now_us = eo_clock_monotonic_us();

	t->seeks = false;
	t->via = NULL;
	while (t->via == NULL && t->tried < n)
	{
		EoWorkerTarget *other = target_as(&t->target, &others[t->tried++]);

		/* Leave out an identity that was refused a moment ago. */
		if (!other->failing || other->pause_until_us <= now_us)
			t->via = other;
	}
	if (t->via == NULL)
		t->tried = 0;
	t->recalled = false;
	t->via_catalog = targets.catalog;
	t->again_us = now_us + (t->via != NULL ? eo_guc_hurried_us(OWN_AGAIN_US) : PAUSE_REFUSED_US);
}

/*
 * Choose without the catalogs: an identity that was answered in that place, else the target's.  Its
 * server must spell records as the target's does.
 */
static void
recall(EoWorkerTarget *t)
{
	dlist_iter	iter;

	choose(t, NULL, 0);
	t->recalled = true;
	dlist_foreach(iter, &targets.all)
	{
		EoWorkerTarget *other = dlist_container(EoWorkerTarget, node, iter.cur);

		if (other != t && other->answers && other->store != NULL &&
			eo_target_same_layout(&other->target, &t->target) &&
			eo_target_same_place(&other->target, &t->target))
			t->via = other;
	}
}

static void
ask_for_identities(void *arg)
{
	EoWorkerIdentities *identities = arg;

	identities->n = eo_known_target_identities(identities->target, identities->refs);
}

bool
eo_write_target_identities(const EoTarget *target, EoWorkerIdentities *identities)
{
	identities->target = target;
	return eo_lock_limit_run(EO_LOCKS_CATALOGS, ask_for_identities, identities);
}

/* Can the chosen identity send nothing, so that other identities are to be asked? */
static bool
is_stuck(const EoWorkerTarget *t)
{
	const EoWorkerTarget *by = t->via != NULL ? t->via : t;

	return by->jobs > 0 && by->store == NULL && by->built == targets.catalog &&
		(t->via != NULL || eo_clock_monotonic_us() >= t->again_us);
}

/* Returns false if nobody was chosen, because the catalogs are still locked. */
static bool
choose_for(EoWorkerTarget *t)
{
	EoWorkerIdentities identities = {.target = &t->target};
	bool		failed;

	if (eo_lock_limit_try(EO_LOCKS_CATALOGS, ask_for_identities, &identities, &failed) || failed)
		choose(t, identities.refs, identities.n);
	else if (t->seeks || is_stuck(t))
		recall(t);
	else
		return false;
	return true;
}

/* Is it to be chosen who sends what is for this target? */
static bool
must_choose(const EoWorkerTarget *t)
{
	return t->seeks || is_stuck(t) ||
		(t->recalled && eo_lock_limit_again_us(EO_LOCKS_CATALOGS) <= eo_clock_monotonic_us());
}

bool
eo_write_targets_choose(void)
{
	dlist_iter	iter;
	bool		changed = targets.changed;

	targets.changed = false;
	dlist_foreach(iter, &targets.all)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, node, iter.cur);

		if (must_choose(t))
			changed |= choose_for(t);
	}
	return changed;
}

EoWorkerTarget *
eo_write_target_via(const EoTarget *target)
{
	EoWorkerTarget *t = eo_write_target_of(target);

	if (t->via_catalog != targets.catalog)
	{
		t->via = NULL;
		t->tried = 0;
		t->again_us = 0;
		t->recalled = false;
		t->via_catalog = targets.catalog;
	}
	return t->via != NULL && !t->seeks ? t->via : t;
}

bool
eo_write_target_is_refusal(const EoError *error)
{
	return error->status == EO_DENIED || error->status == EO_NO_CREDENTIALS ||
		error->status == EO_CREDENTIALS_AWAY;
}

bool
eo_write_target_refused(EoWorkerTarget *asked, EoWorkerTarget *by, const EoError *error)
{
	if (!eo_write_target_is_refusal(error))
		return false;
	/* Somebody else has been chosen since, or is going to be. */
	if (asked->seeks || eo_write_target_via(&asked->target) != by)
		return true;
	/* All were refused, a moment ago. */
	if (by == asked && eo_clock_monotonic_us() < asked->again_us)
		return false;
	asked->seeks = true;
	return true;
}

/* The work that was put off when the own identity was refused is due at once. */
void
eo_write_target_stands_in(EoWorkerTarget *asked, EoWorkerTarget *by)
{
	by->found = by->built;
	if (asked->stand_in == by)
		return;
	asked->stand_in = by;
	asked->recovered_us = eo_clock_monotonic_us();
	targets.recoveries++;
	ereport(LOG,
			(errmsg("exactonce: table \"%s\" is reached by another identity, because that of role %u on server %u is refused",
					asked->target.table, asked->target.userid, asked->target.serverid),
			 errdetail("It is that of role %u on server \"%s\".", by->target.userid,
					   by->store->server->name)));
}

bool
eo_write_target_may_create(const EoWorkerTarget *asked, const EoWorkerTarget *by)
{
	return by == asked || (by->store != NULL && by->found == by->built);
}

bool
eo_write_target_asks_again(EoWorkerTarget *asked)
{
	if (asked->via == NULL || !eo_write_target_is_built(asked) ||
		eo_clock_monotonic_us() < asked->again_us)
		return false;
	asked->again_us = eo_clock_monotonic_us() + eo_guc_hurried_us(OWN_AGAIN_US);
	return true;
}

/* ----- whether it answers ----- */

/* A store of old catalogs is not used: it is built anew when it is idle. */
bool
eo_write_target_is_built(const EoWorkerTarget *t)
{
	return t->store != NULL && (t->built == targets.catalog || t->late) && !t->seeks;
}

bool
eo_write_target_is_ready(EoWorkerTarget *t)
{
	if (!eo_write_target_is_built(t))
		return false;
	if (eo_clock_monotonic_us() < t->pause_until_us)
		return false;
	t->pause_until_us = 0;
	return true;
}

static bool
is_slow(const EoWorkerTarget *t)
{
	return t->in_flight > 0 && eo_clock_monotonic_us() - t->quiet_since_us > SLOW_US;
}

bool
eo_write_target_is_trusted(const EoWorkerTarget *t)
{
	return t->answers && !is_slow(t);
}

bool
eo_write_target_retries(const EoWorkerTarget *t)
{
	return !t->failing && !is_slow(t);
}

const EoWorkerTenant *
eo_write_targets_tenants(void)
{
	return &targets.tenants;
}

int
eo_write_targets_untrusted(EoWorkerLane lane, const EoWorkerTenant *tenant, int most,
						   int *tenants)
{
	dlist_iter	iter;
	int			its = 0;

	*tenants = 0;
	dlist_foreach(iter, &targets.all)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, node, iter.cur);
		int			n = Min(t->queues[lane].in_flight, most);

		if (n == 0 || eo_write_target_is_trusted(t))
			continue;
		if (t->tenant == tenant)
			its += n;
		if (OidIsValid(t->tenant->id))
			*tenants += n;
	}
	return its;
}

void
eo_write_target_count_jobs(EoWorkerTarget *t, EoWorkerLane lane, int n)
{
	t->jobs += n;
	t->queues[lane].jobs += n;
	t->tenant->jobs[lane] += n;
	if (OidIsValid(t->tenant->id))
		targets.tenants.jobs[lane] += n;
}

void
eo_write_target_count_bytes(EoWorkerTarget *t, int64 n)
{
	t->write_bytes += n;
	t->tenant->write_bytes += n;
	if (OidIsValid(t->tenant->id))
		targets.tenants.write_bytes += n;
}

static void
count_requests(EoWorkerTarget *t, EoWorkerLane lane, int n)
{
	t->in_flight += n;
	t->queues[lane].in_flight += n;
	t->tenant->in_flight[lane] += n;
	if (OidIsValid(t->tenant->id))
		targets.tenants.in_flight[lane] += n;
}

void
eo_write_target_sent(EoWorkerTarget *t, EoWorkerLane lane)
{
	if (t->in_flight == 0)
		t->quiet_since_us = eo_clock_monotonic_us();
	count_requests(t, lane, 1);
}

void
eo_write_target_ended(EoWorkerTarget *t, EoWorkerLane lane)
{
	count_requests(t, lane, -1);
}

void
eo_write_target_answered(EoWorkerTarget *t)
{
	t->answered_us = t->quiet_since_us = eo_clock_monotonic_us();
	if (t->failing)
	{
		ereport(LOG,
				(errmsg("exactonce: table \"%s\" of server \"%s\" can be written again",
						t->target.table, t->store->server->name)));
		t->recovered_us = t->answered_us;
		targets.recoveries++;
		eo_database_set_failure(MyDatabaseId, NULL);
	}
	if (t->refused)
		eo_life_watch_admit(&t->target);
	if (t->via != NULL)
		targets.changed = true;
	t->via = t->stand_in = NULL;
	t->recalled = false;
	t->tried = 0;
	t->again_us = 0;
	t->refused = false;
	t->answers = true;
	t->failing = false;
	t->complained = false;
	t->pause_until_us = 0;
	eo_service_clock_share(&t->store->client);
}

void
eo_write_target_failed(EoWorkerTarget *t, const EoError *error, int64 sent_us,
					   bool failed_before)
{
	bool		refused = error->status == EO_DENIED || error->status == EO_NO_TABLE ||
	error->status == EO_REFUSED || error->status == EO_NO_CREDENTIALS;

	if (t->answered_us > sent_us || (failed_before && eo_write_target_is_trusted(t)))
		return;
	t->pause_until_us = eo_clock_monotonic_us() +
		(refused ? PAUSE_REFUSED_US : EO_WORKER_TARGET_PAUSE_US);
	t->answers = false;
	t->failing = true;
	if (eo_write_target_is_refusal(error))
	{
		eo_life_watch_refuse(&t->target, error->code[0] != '\0' ? error->code : "no credentials");
		t->refused = true;
	}
	eo_database_set_failure(MyDatabaseId, error);
	if (!t->complained)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce: table \"%s\" of server \"%s\" cannot be written; keys of ended transactions wait",
						t->target.table, t->store->server->name),
				 errdetail_internal("%s", eo_error_facts(error)),
				 errhint("It is tried again every few seconds; see exactonce_pending.")));
	t->complained = true;
}

int64
eo_write_targets_due_us(void)
{
	int64		due_us = targets.to_build ? 0 : INT64_MAX;
	dlist_iter	iter;

	dlist_foreach(iter, &targets.all)
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, node, iter.cur);

		for (int lane = 0; lane < EO_WORKER_LANES; lane++)
		{
			if (!dlist_is_empty(&t->queues[lane].waiting) && t->pause_until_us > 0)
				due_us = Min(due_us, t->pause_until_us);
		}
		if (t->seeks)
			due_us = 0;
	}
	return due_us;
}

uint32
eo_write_targets_recoveries(void)
{
	return targets.recoveries;
}
