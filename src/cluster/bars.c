/*-------------------------------------------------------------------------
 *
 * bars.c
 *	  The places of tenants in which the life of a database was lost, and what they may cost.
 *
 * Whoever can write the item of a life in his own table can take the life from the database there
 * as often as he likes.  So the place is barred, for as long as this life lasts: nothing is done
 * there under it, and it goes on elsewhere.  That is right because the safety of a key rests on the
 * lease of its own place alone.  Another life has the place back, at the price of the commits that
 * are under way everywhere.  So a tenant has a budget of lives a day, and the tenants of a database
 * have one together.  That a life is barred is never forgotten while it lasts: a tenant can
 * write his item back as it was, and an heir may have had the place meanwhile.
 *
 * The budgets begin anew with each start of the server.  The lock of the claim table covers them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/bars.h"
#include "cluster/claim_table.h"
#include "cluster/databases.h"
#include "server/guc.h"
#include "utils/timestamp.h"
#include "wire/clock.h"

#define MAX_BUDGETS 512

#define OF_TENANT 5
#define OF_DATABASE 20

#define DAY_US (INT64CONST(86400) * 1000000)

typedef struct Budget
{
	Oid			dboid;			/* InvalidOid: unused */
	Oid			tenant;			/* InvalidOid: all of the database */
	int64		since_us;		/* steady clock: its day began */
	int			spent;			/* since then */
} Budget;

static struct Shared
{
	bool		any;			/* a place was barred in this run of the
								 * server */
	Budget		budgets[MAX_BUDGETS];
}		   *shared;

const EoMemory eo_bar_memory = {
	"exactonce budgets", sizeof(*shared), (void **) &shared, NULL
};

static bool is_barred(const EoTarget *target, const uint8 *life);
static EoPlace *find_place(const EoTarget *target, const uint8 *life);
static bool take(Oid dboid, Oid tenant);
static Budget *find_budget(Oid dboid, Oid tenant, bool make);

/* ----- places ----- */

bool
eo_bar_is_ours(const EoTarget *target, const uint8 *life)
{
	return !is_barred(target, life) && eo_life_is_current(target->dboid, life);
}

bool
eo_bar_is_barred(const EoTarget *target)
{
	return is_barred(target, NULL);
}

/*
 * Is this life barred there (NULL: the current one)?  A life may be given up between this question
 * and the next, but that it is barred is never taken back.  Most clusters have no bars: they do not
 * need the lock.
 */
static bool
is_barred(const EoTarget *target, const uint8 *life)
{
	const EoPlace *p;

	if (!shared->any)
		return false;
	{
		EoTableLock lock = eo_claim_table_lock(LW_SHARED);

		p = find_place(target, life);
		return p != NULL && p->barred_at != 0;
	}
}

/* The place of a life, or of the current one; NULL: there is none. */
static EoPlace *
find_place(const EoTarget *target, const uint8 *life)
{
	uint32		cursor = 0;
	bool		current;
	EoPlace    *p;

	while ((p = eo_life_next_place_locked(target->dboid, &cursor, &current)) != NULL)
	{
		if ((life == NULL ? current : memcmp(p->life, life, EO_UUID_LEN) == 0) &&
			eo_target_same_place(&p->target, target))
			return p;
	}
	return NULL;
}

bool
eo_bar_lose(const EoPlace *place, bool trusted, const char *why)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoPlace    *p;

	if (trusted)
	{
		eo_life_give_up_locked(place->target.dboid, place->life);
		return false;
	}
	p = eo_life_current_place_locked(place->ref);
	if (p == NULL || p->barred_at != 0)
		return false;
	p->barred_at = GetCurrentTimestamp();
	shared->any = true;
	strlcpy(p->barred_why, why, sizeof(p->barred_why));
	return true;
}

bool
eo_bar_spend(const EoPlace *place)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Oid			dboid = place->target.dboid;
	EoEntries	all = eo_life_entries();
	EoPlace    *p = eo_life_current_place_locked(place->ref);

	/* Somebody else may have done it since. */
	if (p == NULL || p->barred_at == 0)
		return true;

	/*
	 * The life that is given up stays until it is dealt with, and so may the
	 * next one.
	 */
	if (eo_entries_room(&all, dboid) < 2 || !take(dboid, p->target.tenant))
		return false;
	eo_life_give_up_locked(dboid, p->life);
	return true;
}

bool
eo_bar_lift(const EoTarget *target)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoPlace    *p = find_place(target, NULL);
	bool		lifts = p != NULL && p->barred_at != 0;

	for (int i = 0; i < MAX_BUDGETS; i++)
	{
		Budget	   *b = &shared->budgets[i];

		if (b->dboid == target->dboid && (b->tenant == target->tenant || !OidIsValid(b->tenant)))
			b->dboid = InvalidOid;
	}
	if (lifts)
		eo_life_give_up_locked(target->dboid, p->life);
	return lifts;
}

/* ----- budgets ----- */

static bool
take(Oid dboid, Oid tenant)
{
	Budget	   *own = find_budget(dboid, tenant, false);
	Budget	   *all = find_budget(dboid, InvalidOid, false);

	if ((own != NULL && own->spent >= OF_TENANT) || (all != NULL && all->spent >= OF_DATABASE))
		return false;
	own = find_budget(dboid, tenant, true);
	all = own != NULL ? find_budget(dboid, InvalidOid, true) : NULL;
	if (all == NULL)
		return false;
	own->spent++;
	all->spent++;
	return true;
}

/*
 * The entry for today.  NULL: there is none; or there is no room to make one, because so many
 * others have spent something today.
 */
static Budget *
find_budget(Oid dboid, Oid tenant, bool make)
{
	int64		now_us = eo_clock_steady_us();
	Budget	   *unused = NULL;

	for (int i = 0; i < MAX_BUDGETS; i++)
	{
		Budget	   *b = &shared->budgets[i];
		bool		is_over = !OidIsValid(b->dboid) ||
		now_us - b->since_us >= eo_guc_hurried_us(DAY_US);

		if (b->dboid == dboid && b->tenant == tenant && !is_over)
			return b;
		if (is_over && unused == NULL)
			unused = b;
	}
	if (!make)
		return NULL;
	if (unused != NULL)
		*unused = (Budget)
	{
		.dboid = dboid,.tenant = tenant,.since_us = now_us
	};
	return unused;
}
