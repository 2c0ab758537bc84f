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
#include "storage/shmem.h"
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

Size
eo_life_watch_shmem_size(void)
{
	return sizeof(Watches);
}

void
eo_life_watch_shmem_init(void)
{
	bool		found;

	watches = ShmemInitStruct("exactonce life watches", sizeof(Watches), &found);
	memset(watches, 0, sizeof(Watches));
}

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
	EoPlace    *w = NULL;

	eo_claim_table_lock(LW_EXCLUSIVE);
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
	eo_claim_table_unlock();
}

bool
eo_life_watch_next(Oid dboid, EoPlace *place)
{
	bool		found = false;

	eo_claim_table_lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_WATCHED && !found; i++)
	{
		EoPlace    *w = &watches->watched[i];

		found = w->target.dboid == dboid;
		if (!found)
			continue;
		*place = *w;
		memset(w, 0, sizeof(*w));
	}
	eo_claim_table_unlock();
	return found;
}

void
eo_life_watch_report(Oid dboid, const EoLifeReport *reports, int n)
{
	int			next = 0;

	eo_claim_table_lock(LW_EXCLUSIVE);
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
	eo_claim_table_unlock();
}

bool
eo_life_watch_walk(uint32 *cursor, EoLifeReport *report)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < MAX_REPORTS)
	{
		const EoLifeReport *r = &watches->reports[(*cursor)++];

		found = OidIsValid(r->target.dboid);
		if (found)
			*report = *r;
	}
	eo_claim_table_unlock();
	return found;
}

bool
eo_life_watch_find(const EoTarget *target, const uint8 *id, EoLifeWatch *watch)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	for (int i = 0; i < MAX_REPORTS && !found; i++)
	{
		const EoLifeReport *r = &watches->reports[i];

		found = r->target.dboid == target->dboid &&
			memcmp(r->life, id, EO_UUID_LEN) == 0 &&
			eo_target_same_place(&r->target, target);
		if (found)
			*watch = r->watch;
	}
	eo_claim_table_unlock();
	return found;
}

void
eo_life_watch_settles(const EoTarget *target, const uint8 *id)
{
	Settled    *s;

	eo_claim_table_lock(LW_EXCLUSIVE);
	s = &watches->settled[watches->next_settled++ % MAX_SETTLED];
	s->target = *target;
	memcpy(s->life, id, EO_UUID_LEN);
	eo_claim_table_unlock();
}

bool
eo_life_watch_is_settled(const EoTarget *target, const uint8 *id)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	for (int i = 0; i < MAX_SETTLED && !found; i++)
		found = is_settled(&watches->settled[i], target, id);
	eo_claim_table_unlock();
	return found;
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
	Refusal    *r;

	eo_claim_table_lock(LW_EXCLUSIVE);
	r = find_refusal(target);
	if (r == NULL)
		r = &watches->refusals[watches->next_refusal++ % MAX_REFUSALS];
	r->target = *target;
	strlcpy(r->why, why, sizeof(r->why));
	eo_claim_table_unlock();
}

void
eo_life_watch_admit(const EoTarget *target)
{
	Refusal    *r;

	eo_claim_table_lock(LW_EXCLUSIVE);
	r = find_refusal(target);
	if (r != NULL)
		r->target.dboid = InvalidOid;
	eo_claim_table_unlock();
}

void
eo_life_watch_admit_all(Oid dboid)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_REFUSALS; i++)
	{
		if (watches->refusals[i].target.dboid == dboid)
			watches->refusals[i].target.dboid = InvalidOid;
	}
	eo_claim_table_unlock();
}

bool
eo_life_watch_refused(const EoTarget *target, uint32 *cursor, Oid *userid, char *why)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < MAX_REFUSALS)
	{
		const Refusal *r = &watches->refusals[(*cursor)++];

		found = r->target.dboid == target->dboid && eo_target_same_place(&r->target, target);
		if (!found)
			continue;
		*userid = r->target.userid;
		strlcpy(why, r->why, EO_WHY_LEN);
	}
	eo_claim_table_unlock();
	return found;
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
