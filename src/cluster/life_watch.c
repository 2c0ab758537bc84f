/*-------------------------------------------------------------------------
 *
 * life_watch.c
 *	  Lives that may be over: those that sessions have met, for the worker; and the
 *	  worker's view of them, and of who is refused, for everybody.
 *
 * This is ordinary shared memory, which begins anew with every start of the server.  The
 * lock of the claim table covers it.
 *
 * A role that meets many lives replaces its own (server/entries.c), and they are asked for again.
 * Of the reports a database has half of what the others leave.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "server/entries.h"
#include "wire/clock.h"
#include "wire/hex.h"

/* Lives that sessions have met in records, and no worker has taken yet. */
#define MAX_WATCHED 64

/* Lives that workers look at, for the view. */
#define MAX_REPORTS 256

/* Identities that were refused. */
#define MAX_REFUSALS 64

/* Lives that a session has asked for, and the worker takes for over. */
#define MAX_SETTLED 64

/* Somebody may wait for so long to be told that a life is settled. */
#define SETTLED_US INT64CONST(60000000)

typedef struct Report
{
	EoEntry		entry;
	EoLifeReport report;
} Report;

typedef struct Watched
{
	EoEntry		entry;
	EoPlace		place;
} Watched;

typedef struct Refusal
{
	EoEntry		entry;
	EoTarget	target;
	char		why[EO_WHY_LEN];
} Refusal;

typedef struct Settled
{
	EoEntry		entry;
	uint8		life[EO_UUID_LEN];
	EoTarget	target;
} Settled;

typedef struct Watches
{
	Report		reports[MAX_REPORTS];
	Watched		watched[MAX_WATCHED];
	Refusal		refusals[MAX_REFUSALS];
	Settled		settled[MAX_SETTLED];
} Watches;

static Watches *watches;

const EoMemory eo_life_watch_memory = {
	"exactonce life watches", sizeof(Watches), (void **) &watches, NULL
};

static void *take_for(const EoEntries *all, const EoTarget *target);
static EoEntryStay stay_of_settled(const EoEntry *entry, bool own);

/* ----- lives that sessions have met ----- */

EoEntries
eo_life_watch_entries(EoWatchedKind kind)
{
	const EoEntries arrays[] = {
		[EO_WATCHED_LIVES] = {watches->watched, sizeof(Watched), MAX_WATCHED, NULL},
		[EO_WATCHED_REPORTS] = {watches->reports, sizeof(Report), MAX_REPORTS, NULL},
		[EO_WATCHED_REFUSALS] = {watches->refusals, sizeof(Refusal), MAX_REFUSALS, NULL},
		[EO_WATCHED_SETTLED] = {watches->settled, sizeof(Settled), MAX_SETTLED, stay_of_settled}
	};

	return arrays[kind];
}

static bool
is_settled(const Settled *s, const EoTarget *target, const uint8 *id)
{
	return s->entry.dboid == target->dboid && memcmp(s->life, id, EO_UUID_LEN) == 0 &&
		eo_target_same_place(&s->target, target);
}

/* If there is no room another entry goes: the session asks again. */
void
eo_life_watch_add(const EoTarget *target, const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoEntries	all = eo_life_watch_entries(EO_WATCHED_LIVES);
	Watched    *w = NULL;

	for (int i = 0; i < MAX_WATCHED && w == NULL; i++)
	{
		const EoPlace *place = &watches->watched[i].place;

		if (OidIsValid(watches->watched[i].entry.dboid) &&
			memcmp(place->life, id, EO_UUID_LEN) == 0 &&
			memcmp(&place->target, target, sizeof(EoTarget)) == 0)
			w = &watches->watched[i];
	}
	if (w == NULL)
		w = take_for(&all, target);
	memset(&w->place, 0, sizeof(EoPlace));
	w->place.target = *target;
	memcpy(w->place.life, id, EO_UUID_LEN);
	for (int i = 0; i < MAX_SETTLED; i++)
	{
		if (is_settled(&watches->settled[i], target, id))
			watches->settled[i].entry.dboid = InvalidOid;
	}
}

static void *
take_for(const EoEntries *all, const EoTarget *target)
{
	return eo_entries_take(all, target->dboid, target->userid);
}

bool
eo_life_watch_next(Oid dboid, EoPlace *place)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

	for (int i = 0; i < MAX_WATCHED; i++)
	{
		Watched    *w = &watches->watched[i];

		if (w->entry.dboid != dboid)
			continue;
		*place = w->place;
		w->entry.dboid = InvalidOid;
		return true;
	}
	return false;
}

/* ----- what the workers know of lives ----- */

void
eo_life_watch_report(Oid dboid, const EoLifeReport *reports, int n)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoEntries	all = eo_life_watch_entries(EO_WATCHED_REPORTS);
	int			room = Min(n, eo_entries_share(&all, dboid));
	int			next = 0;

	for (int i = 0; i < MAX_REPORTS; i++)
	{
		Report	   *r = &watches->reports[i];

		if (r->entry.dboid != dboid && OidIsValid(r->entry.dboid))
			continue;
		r->entry.dboid = next < room ? dboid : InvalidOid;
		if (next == room)
			continue;
		r->entry.roleid = reports[next].target.userid;
		r->report = reports[next++];
	}
}

bool
eo_life_watch_walk(uint32 *cursor, EoLifeReport *report)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	while (*cursor < MAX_REPORTS)
	{
		const Report *r = &watches->reports[(*cursor)++];

		if (!OidIsValid(r->entry.dboid))
			continue;
		*report = r->report;
		return true;
	}
	return false;
}

bool
eo_life_watch_find(const EoTarget *target, const uint8 *id, EoLifeWatch *watch)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	for (int i = 0; i < MAX_REPORTS; i++)
	{
		const EoLifeReport *r = &watches->reports[i].report;

		if (watches->reports[i].entry.dboid != target->dboid ||
			memcmp(r->life, id, EO_UUID_LEN) != 0 || !eo_target_same_place(&r->target, target))
			continue;
		*watch = r->watch;
		return true;
	}
	return false;
}

void
eo_life_watch_settles(const EoTarget *target, const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoEntries	all = eo_life_watch_entries(EO_WATCHED_SETTLED);
	Settled    *s = take_for(&all, target);

	/*
	 * If there is none, whoever waits is told that it takes longer, and asks
	 * again.
	 */
	if (s == NULL)
		return;
	s->target = *target;
	memcpy(s->life, id, EO_UUID_LEN);
}

static EoEntryStay
stay_of_settled(const EoEntry *entry, bool own)
{
	return own || eo_clock_monotonic_us() - entry->since_us > SETTLED_US ?
		EO_ENTRY_GOES : EO_ENTRY_STAYS;
}

bool
eo_life_watch_is_settled(const EoTarget *target, const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	for (int i = 0; i < MAX_SETTLED; i++)
	{
		if (is_settled(&watches->settled[i], target, id))
			return true;
	}
	return false;
}

/* ----- identities ----- */

/* The lock is held.  NULL: this identity was not refused there. */
static Refusal *
find_refusal(const EoTarget *target)
{
	for (int i = 0; i < MAX_REFUSALS; i++)
	{
		if (OidIsValid(watches->refusals[i].entry.dboid) &&
			memcmp(&watches->refusals[i].target, target, sizeof(EoTarget)) == 0)
			return &watches->refusals[i];
	}
	return NULL;
}

/* If there is no room another entry goes; only the view lacks it. */
void
eo_life_watch_refuse(const EoTarget *target, const char *why)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoEntries	all = eo_life_watch_entries(EO_WATCHED_REFUSALS);
	Refusal    *r = find_refusal(target);

	if (r == NULL)
		r = take_for(&all, target);
	r->target = *target;
	strlcpy(r->why, why, sizeof(r->why));
}

void
eo_life_watch_admit(const EoTarget *target)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Refusal    *r = find_refusal(target);

	if (r != NULL)
		r->entry.dboid = InvalidOid;
}

void
eo_life_watch_admit_all(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

	for (int i = 0; i < MAX_REFUSALS; i++)
	{
		if (watches->refusals[i].entry.dboid == dboid)
			watches->refusals[i].entry.dboid = InvalidOid;
	}
}

bool
eo_life_watch_refused(const EoTarget *target, uint32 *cursor, Oid *userid, char *why)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	while (*cursor < MAX_REFUSALS)
	{
		const Refusal *r = &watches->refusals[(*cursor)++];

		if (r->entry.dboid != target->dboid || !eo_target_same_place(&r->target, target))
			continue;
		*userid = r->target.userid;
		strlcpy(why, r->why, EO_WHY_LEN);
		return true;
	}
	return false;
}

const char *
eo_life_watch_name(EoLifeWatch watch)
{
	static const char *const names[] = {
		[EO_WATCH_LOOKING] = "not reached",
		[EO_WATCH_BEATS] = "alive",
		[EO_WATCH_SILENT] = "silent",
		[EO_WATCH_NOT_NEAR] = "waits for idem_take_over()",
		[EO_WATCH_FOREIGN] = "has another heir",
		[EO_WATCH_OVER] = "settled here"
	};

	return names[watch];
}
