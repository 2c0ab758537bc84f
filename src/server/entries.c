/*-------------------------------------------------------------------------
 *
 * entries.c
 *	  Arrays of a fixed size in shared memory, and whose entries make way for others.
 *
 * What such an array has is of use and can be had again: the clock of a service, whether an
 * endpoint answers, a life that is to be looked at.  Whoever may create servers can fill any
 * array, and must not drive out what others have.  So an entry makes way for one of a role that
 * has fewer, and a role that has most replaces its own oldest.  Nothing is set aside: a role that
 * is alone uses the whole array.
 *
 * What is evidence, or keeps anybody from doing something, never makes way, and has shares that
 * are set aside (cluster/shares.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "server/entries.h"
#include "wire/clock.h"

/* How much a victim is worth: the greatest one goes. */
typedef struct Weight
{
	int			of_database;	/* entries of its database */
	bool		here;			/* that is the one that takes an entry */
	int			of_role;
	bool		own;			/* so is its role */
	EoEntryStay stay;
	int64		since_us;
} Weight;

static void *use(EoEntry *entry, Oid dboid, Oid roleid);
static EoEntry *free_entry(const EoEntries *all);
static void weigh(const EoEntries *all, const EoEntry *e, Oid dboid, Oid roleid, Weight *w);
static bool is_greater(const Weight *a, const Weight *b);

/* The entries of a database, or of one role of it. */
static int
count(const EoEntries *all, Oid dboid, const Oid *roleid)
{
	int			n = 0;

	for (int i = 0; i < all->n; i++)
	{
		const EoEntry *e = eo_entries_at(all, i);

		n += e->dboid == dboid && (roleid == NULL || e->roleid == *roleid);
	}
	return n;
}

void *
eo_entries_take(const EoEntries *all, Oid dboid, Oid roleid)
{
	EoEntry    *victim = free_entry(all);
	Weight		greatest = {0};
	Weight		w;

	if (victim != NULL)
		return use(victim, dboid, roleid);
	for (int i = 0; i < all->n; i++)
	{
		EoEntry    *e = eo_entries_at(all, i);

		weigh(all, e, dboid, roleid, &w);
		if (w.stay == EO_ENTRY_STAYS || (victim != NULL && !is_greater(&w, &greatest)))
			continue;
		victim = e;
		greatest = w;
	}
	return victim != NULL ? use(victim, dboid, roleid) : NULL;
}

static void *
use(EoEntry *entry, Oid dboid, Oid roleid)
{
	entry->dboid = dboid;
	entry->roleid = roleid;
	entry->since_us = eo_clock_monotonic_us();
	return entry;
}

static EoEntry *
free_entry(const EoEntries *all)
{
	for (int i = 0; i < all->n; i++)
	{
		if (!OidIsValid(eo_entries_at(all, i)->dboid))
			return eo_entries_at(all, i);
	}
	return NULL;
}

/* The one that takes an entry counts with it, if it has others. */
static void
weigh(const EoEntries *all, const EoEntry *e, Oid dboid, Oid roleid, Weight *w)
{
	w->here = e->dboid == dboid;
	w->own = w->here && e->roleid == roleid;
	w->of_database = count(all, e->dboid, NULL) + w->here;
	w->of_role = count(all, e->dboid, &e->roleid) + w->own;
	w->stay = all->stay != NULL ? all->stay(e, w->own) : EO_ENTRY_GOES;
	w->since_us = e->since_us;
}

static bool
is_greater(const Weight *a, const Weight *b)
{
	if (a->of_database != b->of_database)
		return a->of_database > b->of_database;
	if (a->here != b->here)
		return a->here;
	if (a->of_role != b->of_role)
		return a->of_role > b->of_role;
	if (a->own != b->own)
		return a->own;
	if (a->stay != b->stay)
		return a->stay < b->stay;
	return a->since_us < b->since_us;
}

/* ----- shares that are set aside ----- */

int
eo_entries_share(const EoEntries *all, Oid dboid)
{
	return (count(all, InvalidOid, NULL) + count(all, dboid, NULL)) / 2;
}

int
eo_entries_room(const EoEntries *all, Oid dboid)
{
	return eo_entries_share(all, dboid) - count(all, dboid, NULL);
}

void *
eo_entries_take_share(const EoEntries *all, Oid dboid, Oid roleid)
{
	int			left = eo_entries_room(all, dboid);
	int			of_role = count(all, dboid, &roleid);

	if (left <= 0 || (OidIsValid(roleid) && of_role >= Max(1, (of_role + left) / 2)))
		return NULL;
	return use(free_entry(all), dboid, roleid);
}
