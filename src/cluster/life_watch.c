/*-------------------------------------------------------------------------
 *
 * life_watch.c
 *	  Lives that may be over: those that sessions have met, for the worker; and the
 *	  worker's view of them, for everybody.
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
#include "dynamodb/hex.h"
#include "storage/shmem.h"

/* Lives that sessions have met in records, and no worker has taken yet. */
#define MAX_WATCHED 64

/* Lives that workers look at, for the view. */
#define MAX_REPORTS 128

typedef struct Watches
{
	EoLifeReport reports[MAX_REPORTS];	/* target.dboid InvalidOid: unused */
	uint32		next_watched;
	EoPlace		watched[MAX_WATCHED];	/* target.dboid InvalidOid: unused */
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
