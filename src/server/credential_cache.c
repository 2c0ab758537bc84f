/*-------------------------------------------------------------------------
 *
 * credential_cache.c
 *	  The credentials that the processes of a cluster have fetched.
 *
 * One process fetches for all.  An entry is for all servers that ask for the same
 * credentials (EoChainWish).  A process that finds none, or finds that the service has
 * rejected them, gets the offer to fetch; until it has said how that went, or
 * EO_FETCH_US have passed because it has died, all others wait.  A failure counts for
 * everybody for a pause, which grows with each failure, so that a hundred sessions do
 * not ask a service that is away one after the other.
 *
 * The worker of any database fetches anew ten minutes before credentials expire, or at
 * half of their life if that is shorter, less a random part.  If no worker has done so
 * when half of the remaining time is over, a session does.  Meanwhile, and while
 * fetching fails, the old ones are used to their end.
 *
 * The memory is a mapping of its own, which the postmaster makes and its children
 * inherit.  Its pages are left out of core dumps, and are wiped when the server
 * restarts after a crash and when credentials expire or are replaced.
 *
 * Expiry is compared with the host's clock, as the services that hand out credentials
 * know no other; pauses are measured by the steady clock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "server/credential_cache.h"
#include "storage/lwlock.h"
#include "wire/clock.h"
#include "wire/crypto.h"

/* One more server takes the entry that was used least recently. */
#define MAX_ENTRIES 32

/*
 * A failed fetch is not repeated for so long at first, and at most.  While there are old
 * credentials that can be used, the pauses may be longer.
 */
#define RETRY_US INT64CONST(1000000)
#define MAX_RETRY_US INT64CONST(5000000)
#define REFRESH_RETRY_US INT64CONST(5000000)
#define MAX_REFRESH_RETRY_US INT64CONST(60000000)

/* The worker refreshes so long before the end. */
#define REFRESH_BEFORE_S 600

/* Credentials that nobody has used for so long are not refreshed. */
#define UNUSED_US INT64CONST(3600000000)

typedef struct Entry
{
	EoChainWish wish;
	uint64		generation;		/* of identity; 0: the entry is free */
	uint64		rejected;		/* the service has rejected this one */
	EoIdentity	identity;
	int64		refresh_s;		/* epoch seconds; INT64_MAX: never */
	int			failures;		/* of fetches, since the last that succeeded */
	int64		retry_us;		/* do not fetch before */
	int64		fetch_until_us; /* a process is fetching until then at most */
	pg_atomic_uint64 used_us;
	EoCredentialReport report;
} Entry;

typedef struct Cache
{
	uint64		generation;		/* the last one */
	Entry		entries[MAX_ENTRIES];
} Cache;

static Cache *cache;
static LWLock * lock;

static Entry *find(const EoChainWish *wish);
static Entry *find_or_make(const EoChainWish *wish);
static bool is_usable(const Entry *e);
static bool is_fetched(const Entry *e);
static void offer(Entry *e);
static EoCacheNews note_failure(Entry *e, bool is_away, const char *failure);
static int64 pause_after_failure(const Entry *e);
static void copy_identity(const Entry *e, EoIdentity *identity, uint64 *generation);
static int64 refresh_time(const Entry *e);
static int64 now_s(void);

/* ----- memory ----- */

void
eo_credential_cache_request(void)
{
	RequestNamedLWLockTranche("exactonce credentials", 1);
}

void
eo_credential_cache_init(void)
{
	/* After a crash of a child the postmaster still has the mapping. */
	if (cache == NULL)
	{
		void	   *memory = mmap(NULL, sizeof(Cache), PROT_READ | PROT_WRITE,
								  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			ereport(FATAL,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not map memory for credentials: %m")));
#ifdef MADV_DONTDUMP
		(void) madvise(memory, sizeof(Cache), MADV_DONTDUMP);
#endif
		cache = memory;
	}
	eo_crypto_wipe(cache, sizeof(Cache));
	for (int i = 0; i < MAX_ENTRIES; i++)
		pg_atomic_init_u64(&cache->entries[i].used_us, 0);
	lock = &GetNamedLWLockTranche("exactonce credentials")->lock;
}

/* ----- entries ----- */

/* The caller must hold the lock. */
static Entry *
find(const EoChainWish *wish)
{
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		Entry	   *e = &cache->entries[i];

		if (e->generation != 0 && memcmp(&e->wish, wish, sizeof(*wish)) == 0)
		{
			pg_atomic_write_u64(&e->used_us, (uint64) eo_clock_steady_us());
			return e;
		}
	}
	return NULL;
}

/* The caller must hold the lock exclusively. */
static Entry *
find_or_make(const EoChainWish *wish)
{
	Entry	   *e = find(wish);

	if (e != NULL)
		return e;
	e = &cache->entries[0];
	for (int i = 1; i < MAX_ENTRIES; i++)
	{
		if (pg_atomic_read_u64(&cache->entries[i].used_us) < pg_atomic_read_u64(&e->used_us))
			e = &cache->entries[i];
	}
	eo_crypto_wipe(e, sizeof(*e));
	e->wish = *wish;
	e->generation = ++cache->generation;
	pg_atomic_init_u64(&e->used_us, (uint64) eo_clock_steady_us());
	return e;
}

/* Is there an identity that has not expired, and that the service has not rejected? */
static bool
is_usable(const Entry *e)
{
	return (e->identity.access_key_id[0] != '\0' || e->identity.region[0] != '\0') &&
		e->rejected != e->generation &&
		(e->identity.expires_s == 0 || now_s() < e->identity.expires_s);
}

static bool
is_fetched(const Entry *e)
{
	return eo_clock_steady_us() < e->fetch_until_us;
}

static void
offer(Entry *e)
{
	e->fetch_until_us = eo_clock_steady_us() + EO_FETCH_US;
}

static void
copy_identity(const Entry *e, EoIdentity *identity, uint64 *generation)
{
	if (*generation == e->generation)
		return;
	*identity = e->identity;
	*generation = e->generation;
}

static int64
now_s(void)
{
	return (eo_clock_steady_us() + eo_clock_host_offset_us()) / 1000000;
}

/* ----- for those who sign ----- */

EoCacheAnswer
eo_credential_cache_ask(const EoChainWish *wish, EoIdentity *identity, uint64 *generation)
{
	EoCacheAnswer answer;
	Entry	   *e;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	e = find_or_make(wish);
	if (is_usable(e))
	{
		bool		overdue = e->refresh_s < e->identity.expires_s &&
		now_s() > e->refresh_s + (e->identity.expires_s - e->refresh_s) / 2;

		copy_identity(e, identity, generation);
		answer = overdue && !is_fetched(e) && eo_clock_steady_us() >= e->retry_us ?
			EO_CACHE_FETCH : EO_CACHE_HAS;
	}
	else if (is_fetched(e))
		answer = EO_CACHE_WAIT;
	else if (eo_clock_steady_us() < e->retry_us)
		answer = EO_CACHE_FAILED;
	else
		answer = EO_CACHE_FETCH;
	if (answer == EO_CACHE_FETCH)
		offer(e);
	LWLockRelease(lock);
	return answer;
}

bool
eo_credential_cache_follow(const EoChainWish *wish, EoIdentity *identity, uint64 *generation)
{
	Entry	   *e;
	bool		usable;
	bool		known;

	LWLockAcquire(lock, LW_SHARED);
	e = find(wish);
	known = e != NULL;
	usable = known && is_usable(e);
	if (usable)
		copy_identity(e, identity, generation);
	LWLockRelease(lock);
	if (!known)
	{
		/* Have the worker fetch them. */
		LWLockAcquire(lock, LW_EXCLUSIVE);
		(void) find_or_make(wish);
		LWLockRelease(lock);
	}
	if (!usable)
	{
		eo_crypto_wipe(identity, sizeof(*identity));
		*generation = 0;
	}
	return usable;
}

void
eo_credential_cache_reject(const EoChainWish *wish, uint64 generation)
{
	Entry	   *e;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	e = find(wish);
	if (e != NULL && e->generation == generation)
		e->rejected = generation;
	LWLockRelease(lock);
}

/* ----- for those who fetch ----- */

EoCacheNews
eo_credential_cache_end(const EoChainWish *wish, const EoFetchResult *result)
{
	const EoIdentity *identity = &result->identity;
	const char *failure = NULL;
	EoCacheNews news;
	Entry	   *e;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	e = find_or_make(wish);
	e->fetch_until_us = 0;
	e->report.fetches++;
	if (result->status != EO_OK)
	{
		failure = result->failure;
		if (!is_usable(e))
		{
			eo_crypto_wipe(&e->identity, sizeof(e->identity));
			strlcpy(e->report.why, result->why, sizeof(e->report.why));
		}
	}
	else
	{
		strlcpy(e->report.source, result->source, sizeof(e->report.source));
		strlcpy(e->report.why, result->why, sizeof(e->report.why));
		if (e->rejected == e->generation &&
			strcmp(e->identity.access_key_id, identity->access_key_id) == 0 &&
			strcmp(e->identity.session_token, identity->session_token) == 0)
			failure = "the source hands out credentials that the service calls expired";
		else if (identity->expires_s != 0 && identity->expires_s <= now_s())
			failure = "the source hands out credentials that have expired";
	}
	if (failure != NULL)
		news = note_failure(e, result->status == EO_OK || result->status == EO_UNANSWERED, failure);
	else
	{
		news = e->failures > 0 ? EO_CACHE_WORKS_AGAIN : EO_CACHE_NOTHING_NEW;
		e->identity = *identity;
		e->generation = ++cache->generation;
		e->refresh_s = refresh_time(e);
		e->retry_us = 0;
		e->failures = 0;
		e->report.failure[0] = '\0';
		e->report.failing_since = 0;
	}
	LWLockRelease(lock);
	return news;
}

/*
 * Ten minutes before the end, or at half of the life if that is shorter, less a tenth of
 * that at random, so that many servers do not ask in the same second.  Keys that do not
 * expire are read again every hour: the files they come from may have changed.  A region
 * is for one run of the server: claims are known by it.
 */
static int64
refresh_time(const Entry *e)
{
	int64		life_s = e->identity.expires_s - now_s();
	int64		until_s;

	if (e->wish.region_only)
		return INT64_MAX;
	if (e->identity.expires_s == 0)
		return now_s() + UNUSED_US / 1000000;
	until_s = life_s > 2 * REFRESH_BEFORE_S ? life_s - REFRESH_BEFORE_S : life_s / 2;
	return now_s() + until_s -
		(int64) pg_prng_uint64_range(&pg_global_prng_state, 0, (uint64) Max(until_s, 0) / 10);
}

/* The caller must hold the lock exclusively. */
static EoCacheNews
note_failure(Entry *e, bool is_away, const char *failure)
{
	e->report.failed_fetches++;
	if (e->failures++ == 0)
		e->report.failing_since = GetCurrentTimestamp();
	strlcpy(e->report.failure, failure, sizeof(e->report.failure));
	e->report.is_away = is_away;
	e->retry_us = eo_clock_steady_us() + pause_after_failure(e);
	return e->failures == 1 ? EO_CACHE_FAILS : EO_CACHE_NOTHING_NEW;
}

/*
 * Each pause is twice the one before.  It never goes beyond half of what is left of the
 * old credentials, so that there is always one more attempt before their end.
 */
static int64
pause_after_failure(const Entry *e)
{
	bool		usable = is_usable(e);
	int			doublings = Min(e->failures - 1, 10);
	int64		pause_us = (usable ? REFRESH_RETRY_US : RETRY_US) << doublings;

	pause_us = Min(pause_us, usable ? MAX_REFRESH_RETRY_US : MAX_RETRY_US);
	if (usable && e->identity.expires_s != 0)
		pause_us = Min(pause_us, (e->identity.expires_s - now_s()) * 1000000 / 2);
	return Max(pause_us, RETRY_US);
}

void
eo_credential_cache_abandon(const EoChainWish *wish)
{
	Entry	   *e;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	e = find(wish);
	if (e != NULL)
		e->fetch_until_us = 0;
	LWLockRelease(lock);
}

bool
eo_credential_cache_due(EoChainWish *wish)
{
	bool		due = false;
	int64		now_us = eo_clock_steady_us();

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_ENTRIES && !due; i++)
	{
		Entry	   *e = &cache->entries[i];
		bool		unused = now_us > (int64) pg_atomic_read_u64(&e->used_us) + UNUSED_US;

		if (e->generation == 0)
			continue;
		if (!is_usable(e) && e->rejected != e->generation)
			eo_crypto_wipe(&e->identity, sizeof(e->identity));
		if (is_fetched(e) || now_us < e->retry_us || unused ||
			(is_usable(e) && now_s() < e->refresh_s))
			continue;
		offer(e);
		*wish = e->wish;
		due = true;
	}
	LWLockRelease(lock);
	return due;
}

/* The caller must hold the lock. */
static void
describe(const Entry *e, EoCredentialReport *report)
{
	*report = e->report;
	report->has_identity = is_usable(e);
	report->expires_s = e->identity.expires_s;
	strlcpy(report->profile, e->wish.profile, sizeof(report->profile));
	strlcpy(report->role_arn, e->wish.role.arn, sizeof(report->role_arn));
}

void
eo_credential_cache_look(const EoChainWish *wish, EoCredentialReport *report)
{
	Entry	   *e;

	memset(report, 0, sizeof(*report));
	LWLockAcquire(lock, LW_SHARED);
	e = find(wish);
	if (e != NULL)
		describe(e, report);
	LWLockRelease(lock);
}

bool
eo_credential_cache_walk(uint32 *cursor, EoCredentialReport *report)
{
	bool		found = false;
	int64		now_us = eo_clock_steady_us();

	LWLockAcquire(lock, LW_SHARED);
	while (*cursor < MAX_ENTRIES && !found)
	{
		Entry	   *e = &cache->entries[(*cursor)++];

		found = e->generation != 0 && !e->wish.region_only &&
			now_us <= (int64) pg_atomic_read_u64(&e->used_us) + UNUSED_US;
		if (found)
			describe(e, report);
	}
	LWLockRelease(lock);
	return found;
}
