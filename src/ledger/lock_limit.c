/*-------------------------------------------------------------------------
 *
 * lock_limit.c
 *	  Transactions of worker and launcher that wait for locks only so long.
 *
 * Somebody may have locked an internal table or a catalog for hours, or wait for that lock
 * himself, as VACUUM FULL and DROP EXTENSION do behind any open transaction; then everybody
 * else waits behind him.  As long as the worker waited, too, it would extend no lease, and
 * keys of open transactions would be given to others.
 *
 * So whatever it does in a transaction runs here, under a lock_timeout, which counts for
 * tables, indexes, catalogs and rows alike.  If it ends a wait the work is put off, and
 * nothing is concluded from it: not that a row is absent, nor that a server was dropped.
 * In a round of the main loop all waits that end in vain take WAIT_US together, a third of
 * the shortest lease there is, and then there is a pause.  A lock that is obtained after
 * less than that does not count.
 *
 * Beats and heartbeats themselves need no table and no transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "cluster/databases.h"
#include "ledger/internal.h"
#include "ledger/lock_limit.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/options.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "wire/clock.h"

/* In vain locks are waited for as long in each round. */
#define WAIT_US (INT64CONST(1000) * EO_MIN_LEASE_MS / 3)

/* The pause after that, and after work that has found the round's time used up. */
#define PAUSE_US INT64CONST(300000)
#define TURN_US INT64CONST(10000)

/* Work that was put off for so long is worth a message, and another each minute. */
#define QUIET_US INT64CONST(2000000)
#define COMPLAIN_US INT64CONST(60000000)

/* Work that nobody has tried for so long does not wait. */
#define UNWANTED_US INT64CONST(10000000)

/* The most processes that are named. */
#define MAX_NAMED 5

typedef struct Need
{
	int64		again_us;		/* no try before this; 0: none has failed */
	int64		since_us;		/* tries have failed since; 0: none has */
	int64		complain_us;	/* no message before this */
	TimestampTz since;
} Need;

static Need needs[EO_LOCK_NEEDS];
static int64 left_us = WAIT_US; /* of this round */

static bool is_about_lock(int sqlerrcode);
static void forget_timeout(void);
static void succeed(Need *n);
static void fail(EoLockNeed need, int64 waited_us);

void
eo_lock_limit_begin_round(void)
{
	int64		now_us = eo_clock_monotonic_us();

	left_us = WAIT_US;
	for (int i = 0; i < EO_LOCK_NEEDS; i++)
	{
		/* The work that was put off is not wanted any more. */
		if (needs[i].since_us != 0 && now_us - needs[i].again_us > UNWANTED_US)
			succeed(&needs[i]);
	}
}

int64
eo_lock_limit_again_us(EoLockNeed need)
{
	return needs[need].again_us;
}

int64
eo_lock_limit_due_us(void)
{
	int64		now_us = eo_clock_monotonic_us();
	int64		due_us = INT64_MAX;

	for (int i = 0; i < EO_LOCK_NEEDS; i++)
	{
		if (needs[i].again_us > now_us)
			due_us = Min(due_us, needs[i].again_us);
	}
	return due_us;
}

bool
eo_lock_limit_run(EoLockNeed need, void (*work) (void *arg), void *arg)
{
	MemoryContext old = CurrentMemoryContext;
	int64		started_us = eo_clock_monotonic_us();
	volatile bool done = false;

	if (needs[need].again_us > started_us)
		return false;
	if (left_us < 1000)
	{
		needs[need].again_us = started_us + TURN_US;
		return false;
	}
	StartTransactionCommand();
	LockTimeout = (int) (left_us / 1000);
	PG_TRY();
	{
		work(arg);
		CommitTransactionCommand();
		done = true;
	}
	PG_CATCH();
	{
		LockTimeout = 0;
		forget_timeout();
		if (!is_about_lock(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(old);
		FlushErrorState();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	LockTimeout = 0;
	forget_timeout();
	MemoryContextSwitchTo(old);
	if (done)
		succeed(&needs[need]);
	else
		fail(need, eo_clock_monotonic_us() - started_us);
	return done;
}

bool
eo_lock_limit_try(EoLockNeed need, void (*work) (void *arg), void *arg, bool *failed)
{
	MemoryContext old = CurrentMemoryContext;
	volatile bool done = false;

	*failed = false;
	PG_TRY();
	{
		done = eo_lock_limit_run(need, work, arg);
	}
	PG_CATCH();
	{
		eo_error_log_and_abort(old);
		*failed = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	return done;
}

/* A deadlock is found before the lock_timeout where deadlock_timeout is very short. */
static bool
is_about_lock(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED;
}

/* The timeout may have come when the lock had just been obtained: then it cancels nothing else. */
static void
forget_timeout(void)
{
	disable_timeout(LOCK_TIMEOUT, true);
	if (get_timeout_indicator(LOCK_TIMEOUT, true))
		QueryCancelPending = false;
}

/* ----- telling ----- */

static void
succeed(Need *n)
{
	bool		told = n->since_us != 0;

	n->again_us = n->since_us = 0;
	for (int i = 0; i < EO_LOCK_NEEDS; i++)
		told &= needs[i].since_us == 0;
	if (told)
		eo_database_set_wait(MyDatabaseId, InvalidOid, 0);
}

/* The modes that this process holds or awaits. */
static LOCKMASK
modes_of(const LockInstanceData * l)
{
	return l->holdMask | (l->waitLockMode != NoLock ? LOCKBIT_ON(l->waitLockMode) : 0);
}

/* Is it a lock in this database, or on a catalog of the cluster? */
static bool
is_here(const LockInstanceData * l)
{
	return l->locktag.locktag_type == LOCKTAG_RELATION && l->pid != MyProcPid &&
		(l->locktag.locktag_field1 == MyDatabaseId || l->locktag.locktag_field1 == InvalidOid);
}

/* Does somebody's lock, or wait for one, keep us from a lock of that relation? */
static bool
is_in_the_way(const LockInstanceData * l, EoLockNeed need)
{
	LOCKMASK	strong = LOCKBIT_ON(AccessExclusiveLock);

	if (need != EO_LOCKS_CATALOGS)
		strong |= LOCKBIT_ON(ShareLock) | LOCKBIT_ON(ShareRowExclusiveLock) |
			LOCKBIT_ON(ExclusiveLock);
	return is_here(l) && (modes_of(l) & strong) != 0;
}

/*
 * The relation whose lock was not obtained.  PostgreSQL does not tell that, so this looks for
 * one that could not be: an internal table, or else a catalog.  InvalidOid: there is none now, or
 * it was the lock of a row or of an index.
 */
static Oid
find_relation(EoLockNeed need)
{
	const		LockData *data = GetLockStatusData();
	Oid			found = InvalidOid;

	for (int i = 0; i < data->nelements; i++)
	{
		const		LockInstanceData *l = &data->locks[i];
		Oid			relid = l->locktag.locktag_field2;

		if (!is_in_the_way(l, need))
			continue;
		if (need != EO_LOCKS_CATALOGS && eo_internal_name(relid) != NULL)
			return relid;
		if (relid < FirstNormalObjectId)
			found = relid;
	}
	return found;
}

const char *
eo_lock_limit_name(Oid relid)
{
	const char *name = eo_internal_name(relid);

	/* The name of a catalog would be read from a catalog. */
	return name != NULL ? name : OidIsValid(relid) ? psprintf("relation %u", relid) : "a table";
}

static void
tell_of(const LockInstanceData * l, LOCKMODE mode, const char *what, StringInfo facts)
{
	const char *name = GetLockmodeName(DEFAULT_LOCKMETHOD, mode);

	if (facts->len > 0)
		appendStringInfoString(facts, "; ");
	if (l->pid != 0)
		appendStringInfo(facts, "process %d %s %s", l->pid, what, name);
	else
		appendStringInfo(facts, "a prepared transaction %s %s", what, name);
}

/* Name waiting processes first: usually the worker waits behind one of them. */
void
eo_lock_limit_tell(Oid relid, StringInfo facts)
{
	const		LockData *data = GetLockStatusData();
	int			named = 0;

	for (int held = 0; held < 2; held++)
	{
		for (int i = 0; i < data->nelements && named < MAX_NAMED; i++)
		{
			const		LockInstanceData *l = &data->locks[i];
			LOCKMODE	mode = l->waitLockMode;

			if (!is_here(l) || l->locktag.locktag_field2 != relid ||
				(held ? l->holdMask == 0 : mode < ShareLock))
				continue;
			if (held)
			{
				mode = MaxLockMode;
				while ((l->holdMask & LOCKBIT_ON(mode)) == 0)
					mode--;
			}
			tell_of(l, mode, held ? "has" : "waits for", facts);
			named++;
		}
	}
}

static void
fail(EoLockNeed need, int64 waited_us)
{
	Need	   *n = &needs[need];
	int64		now_us = eo_clock_monotonic_us();
	Oid			relid;
	StringInfoData facts;

	left_us -= waited_us;
	n->again_us = now_us + PAUSE_US;
	if (n->since_us == 0)
	{
		n->since_us = now_us;
		n->since = GetCurrentTimestamp();
	}
	/* A lock that is soon free is no news. */
	if (now_us - n->since_us < QUIET_US)
		return;
	relid = find_relation(need);
	eo_database_set_wait(MyDatabaseId, relid, n->since);
	if (now_us < n->complain_us)
		return;
	n->complain_us = now_us + COMPLAIN_US;
	initStringInfo(&facts);
	eo_lock_limit_tell(relid, &facts);
	ereport(WARNING,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("exactonce: the %s waits for a lock on %s",
					OidIsValid(MyDatabaseId) ? "worker" : "launcher", eo_lock_limit_name(relid)),
			 facts.len > 0 ? errdetail_internal("%s.", facts.data) : 0,
			 errhint("Leases are extended meanwhile; what needs the table is put off. See pg_locks and pg_stat_activity, and end the session that should not have the lock.")));
	pfree(facts.data);
}
