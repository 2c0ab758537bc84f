/*-------------------------------------------------------------------------
 *
 * arrays.c
 *	  How full the arrays in shared memory are, and with what of whom.
 *
 * Each array whose entries roles can cause is here; docs/security.md says what its shares are and
 * what happens when it is full.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/arrays.h"
#include "cluster/circuit.h"
#include "cluster/claim_table.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/progress.h"
#include "cluster/service_clocks.h"
#include "cluster/shares.h"
#include "server/entries.h"
#include "server/stats.h"
#include "storage/lwlock.h"

#define BY_ITSELF "nothing: an entry makes way for others"
#define BY_SETTLING "exactonce_claims: pg_terminate_backend(pid), idem_resolve(key, ...)"

typedef struct Reading
{
	EoArrayUse *uses;
	int			n;
	EoArrayUse *total;			/* of the array that is read */
} Reading;

static void read_shares(Reading *r, const char *array, EoResource what, const char *emptied_by);
static void read_lives(Reading *r);
static void read_entries(Reading *r, const char *array, const EoEntries *all,
						 const char *emptied_by);
static void begin(Reading *r, const char *array, int64 size, const char *emptied_by);
static void note(Reading *r, Oid dboid, Oid roleid, int64 n);

int
eo_array_read(EoArrayUse *uses)
{
	Reading		r = {.uses = uses};
	EoEntries	places = eo_life_place_entries();
	EoEntries	met = eo_life_watch_entries(EO_WATCHED_LIVES);
	EoEntries	reports = eo_life_watch_entries(EO_WATCHED_REPORTS);
	EoEntries	refusals = eo_life_watch_entries(EO_WATCHED_REFUSALS);
	EoEntries	settled = eo_life_watch_entries(EO_WATCHED_SETTLED);
	EoEntries	circuits = eo_circuit_entries();
	EoEntries	clocks = eo_service_clock_entries();
	EoEntries	stats = eo_stats_entries();
	EoEntries	progress = eo_progress_entries();

	read_shares(&r, "claims", EO_RESOURCE_SLOTS, BY_SETTLING);
	read_shares(&r, "texts of claims", EO_RESOURCE_CHUNKS, BY_SETTLING);
	read_shares(&r, "targets of claims", EO_RESOURCE_TARGETS, BY_SETTLING);
	read_shares(&r, "second looks", EO_RESOURCE_LOOKS, "nothing: they make way for claims");
	read_lives(&r);
	read_entries(&r, "places", &places, "idem_drain(): the life is closed, and so are its places");
	read_entries(&r, "lives met", &met, BY_ITSELF);
	read_entries(&r, "lives shown", &reports, "exactonce_lives: idem_take_over(life)");
	read_entries(&r, "lives settled", &settled, BY_ITSELF);
	read_entries(&r, "refused roles", &refusals, "exactonce_lives: ALTER USER MAPPING");
	read_entries(&r, "circuits", &circuits, BY_ITSELF);
	read_entries(&r, "service clocks", &clocks, BY_ITSELF);
	read_entries(&r, "statistics", &stats, "DROP SERVER");
	read_entries(&r, "long calls", &progress, "exactonce_progress: pg_cancel_backend(pid)");
	return r.n;
}

static void
read_shares(Reading *r, const char *array, EoResource what, const char *emptied_by)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	uint32		cursor = 0;
	Oid			dboid;
	Oid			roleid;
	uint32		taken;

	begin(r, array, eo_share_capacity(what), emptied_by);
	while (eo_share_next_role(&cursor, what, &dboid, &roleid, &taken))
		note(r, dboid, roleid, taken);
}

static void
read_lives(Reading *r)
{
	uint32		cursor = 0;
	Oid			dboid;

	begin(r, "lives", EO_MAX_LIVES, "exactonce_lives: idem_take_over(life)");
	while (eo_life_next_database(&cursor, &dboid))
		note(r, dboid, InvalidOid, 1);
}

/* Those of circuits and statistics may change meanwhile, because other locks are for them. */
static void
read_entries(Reading *r, const char *array, const EoEntries *all, const char *emptied_by)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	begin(r, array, all->n, emptied_by);
	for (int i = 0; i < all->n; i++)
	{
		EoEntry		e = *eo_entries_at(all, i);

		if (OidIsValid(e.dboid))
			note(r, e.dboid, e.roleid, 1);
	}
}

static void
begin(Reading *r, const char *array, int64 size, const char *emptied_by)
{
	r->total = &r->uses[Min(r->n, EO_ARRAY_USES - 1)];
	r->n = Min(r->n + 1, EO_ARRAY_USES);
	*r->total = (EoArrayUse)
	{
		.array = array,.size = size,.total = true,.emptied_by = emptied_by
	};
}

static void
note(Reading *r, Oid dboid, Oid roleid, int64 n)
{
	EoArrayUse *end = r->uses + r->n;
	EoArrayUse *use = r->total + 1;

	r->total->taken += n;
	while (use < end && (use->dboid != dboid || use->roleid != roleid))
		use++;
	if (use == end)
	{
		if (r->n == EO_ARRAY_USES)
			return;
		r->n++;
		*use = *r->total;
		use->total = false;
		use->dboid = dboid;
		use->roleid = roleid;
		use->taken = 0;
	}
	use->taken += n;
}

bool
eo_array_has_room(EoEntries array, Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	return eo_entries_room(&array, dboid) > 0;
}
