/*-------------------------------------------------------------------------
 *
 * owed_scans.c
 *	  Tables that are to be scanned for what late seals may have left.
 *
 * When the look at a claim at commit makes way (looks.c), nobody knows its key any more.
 * So its place is marked: a quarter of an hour later, when no copy of the seal can arrive
 * any more, the worker scans the table (worker/recovery_scan.c).
 *
 * The mark lies in the memory of the places, which is a part of the claim file, and that is
 * enough.  A life that owes a scan is not closed, so whatever else ends it, its heir scans
 * the table, twice.  An heir that has the claim file does so, too: it finds the mark, and
 * does not believe that the file tells all (worker/takeover.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/life.h"
#include "cluster/owed_scans.h"
#include "cluster/target.h"
#include "server/guc.h"
#include "wire/clock.h"

/* The open place of the current life of a database for a table; NULL: there is none. */
static EoPlace *
find_open_place(const EoTarget *target)
{
	uint32		cursor = 0;
	bool		current;
	EoPlace    *place;

	while ((place = eo_life_next_place_locked(target->dboid, &cursor, &current)) != NULL)
	{
		if (current && place->open && eo_target_same_place(&place->target, target))
			break;
	}
	return place;
}

/*
 * The seal may be one of a life that has ended and is not retired yet, so its place is marked,
 * too: its records cannot be judged before that.
 */
bool
eo_owed_scan_mark_locked(const EoTarget *target)
{
	int64		now_us = eo_clock_monotonic_us();
	uint32		cursor = 0;
	bool		current;
	EoPlace    *place;

	if (find_open_place(target) == NULL)
		return false;
	while ((place = eo_life_next_place_locked(target->dboid, &cursor, &current)) != NULL)
	{
		if (!eo_target_same_place(&place->target, target))
			continue;
		place->owed_us = now_us;
		if (place->scan_due_us == 0)
			place->scan_due_us = now_us + eo_guc_hurried_us(EO_LATE_US);
	}
	/* The slot is freed after this. */
	pg_write_barrier();
	return true;
}

/* A debt that was younger than EO_LATE_US when the scan began is left for another scan. */
void
eo_owed_scan_done(const EoTarget *target, int64 began_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoPlace    *place = find_open_place(target);
	int64		due_us;

	if (place == NULL || place->scan_due_us <= 0)
		return;
	due_us = place->owed_us + eo_guc_hurried_us(EO_LATE_US);
	place->scan_due_us = due_us <= began_us ? 0 : due_us;
}

bool
eo_owed_scan_any(Oid dboid, Oid serverid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	return eo_life_owed_place_locked(dboid, serverid) != NULL;
}

bool
eo_owed_scan_oldest(Oid dboid, EoPlace *place)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoPlace *oldest = eo_life_owed_place_locked(dboid, InvalidOid);

	if (oldest != NULL)
		*place = *oldest;
	return oldest != NULL;
}
