/*-------------------------------------------------------------------------
 *
 * life_watch.c
 *	  Lives that may be over: those that sessions have met, for the worker; and the
 *	  worker's view of them, and of who is refused, for everybody.
 *
 * This is ordinary shared memory, which begins anew with every start of the server.  The
 * lock of the claim table covers it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "wire/hex.h"

/* Lives that sessions have met in records, and no worker has taken yet. */
#define MAX_WATCHED 64

/* Lives that workers look at, for the view. */
#define MAX_REPORTS 128

/* Identities that were refused. */
#define MAX_REFUSALS 64

/* Lives that a session has asked for, and the worker takes for over. */
#define MAX_SETTLED 64

typedef struct Refusal
{
	EoTarget	target;			/* dboid InvalidOid: unused */
	char		why[EO_WHY_LEN];
} Refusal;

typedef struct Settled
{
	uint8		life[EO_UUID_LEN];
	EoTarget	target;			/* dboid InvalidOid: unused */
} Settled;

typedef struct Watches
{
	EoLifeReport reports[MAX_REPORTS];	/* target.dboid InvalidOid: unused */
	uint32		next_watched;
	EoPlace		watched[MAX_WATCHED];	/* target.dboid InvalidOid: unused */
	uint32		next_refusal;
	Refusal		refusals[MAX_REFUSALS];
	uint32		next_settled;
	Settled		settled[MAX_SETTLED];
} Watches;

static Watches *watches;

const EoMemory eo_life_watch_memory = {
	"exactonce life watches", sizeof(Watches), (void **) &watches, NULL
};

static bool
is_settled(const Settled *s, const EoTarget *target, const uint8 *id)
{
	return s->target.dboid == target->dboid && memcmp(s->life, id, EO_UUID_LEN) == 0 &&
		eo_target_same_place(&s->target, target);
}

/* If there is no room an older entry goes: the session asks again. */
void
eo_life_watch_add(const EoTarget *target, const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoPlace    *w = NULL;

	for (int i = 0; i < MAX_WATCHED && w == NULL; i++)
	{
		if (memcmp(watches->watched[i].life, id, EO_UUID_LEN) == 0 &&
			memcmp(&watches->watched[i].target, target, sizeof(EoTarget)) == 0)
			w = &watches->watched[i];
	}
	if (w == NULL)
		w = &watches->watched[watches->next_watched++ % MAX_WATCHED];
	memset(w, 0, sizeof(*w));
	w->target = *target;
	memcpy(w->life, id, EO_UUID_LEN);
	for (int i = 0; i < MAX_SETTLED; i++)
	{
		if (is_settled(&watches->settled[i], target, id))
			watches->settled[i].target.dboid = InvalidOid;
	}
}

bool
eo_life_watch_next(Oid dboid, EoPlace *place)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

	for (int i = 0; i < MAX_WATCHED; i++)
	{
		EoPlace    *w = &watches->watched[i];

		if (w->target.dboid != dboid)
			continue;
		*place = *w;
		memset(w, 0, sizeof(*w));
		return true;
	}
	return false;
}

void
eo_life_watch_report(Oid dboid, const EoLifeReport *reports, int n)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	int			next = 0;

	for (int i = 0; i < MAX_REPORTS; i++)
	{
		EoLifeReport *r = &watches->reports[i];

		if (r->target.dboid != dboid && OidIsValid(r->target.dboid))
			continue;
		if (next < n)
			*r = reports[next++];
		else
			r->target.dboid = InvalidOid;
	}
}

bool
eo_life_watch_walk(uint32 *cursor, EoLifeReport *report)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	while (*cursor < MAX_REPORTS)
	{
		*report = watches->reports[(*cursor)++];
		if (OidIsValid(report->target.dboid))
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
		const EoLifeReport *r = &watches->reports[i];

		if (r->target.dboid != target->dboid || memcmp(r->life, id, EO_UUID_LEN) != 0 ||
			!eo_target_same_place(&r->target, target))
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
	Settled    *s = &watches->settled[watches->next_settled++ % MAX_SETTLED];

	s->target = *target;
	memcpy(s->life, id, EO_UUID_LEN);
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
		if (memcmp(&watches->refusals[i].target, target, sizeof(EoTarget)) == 0)
			return &watches->refusals[i];
	}
	return NULL;
}

/* If there is no room an older entry goes; only the view lacks it. */
void
eo_life_watch_refuse(const EoTarget *target, const char *why)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Refusal    *r = find_refusal(target);

	if (r == NULL)
		r = &watches->refusals[watches->next_refusal++ % MAX_REFUSALS];
	r->target = *target;
	strlcpy(r->why, why, sizeof(r->why));
}

void
eo_life_watch_admit(const EoTarget *target)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Refusal    *r = find_refusal(target);

	if (r != NULL)
		r->target.dboid = InvalidOid;
}

void
eo_life_watch_admit_all(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

	for (int i = 0; i < MAX_REFUSALS; i++)
	{
		if (watches->refusals[i].target.dboid == dboid)
			watches->refusals[i].target.dboid = InvalidOid;
	}
}

bool
eo_life_watch_refused(const EoTarget *target, uint32 *cursor, Oid *userid, char *why)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	while (*cursor < MAX_REFUSALS)
	{
		const Refusal *r = &watches->refusals[(*cursor)++];

		if (r->target.dboid != target->dboid || !eo_target_same_place(&r->target, target))
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
