/*-------------------------------------------------------------------------
 *
 * bars.h
 *	  The places of tenants in which the life of a database was lost, and what they may cost.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_BARS_H
#define EO_CLUSTER_BARS_H

#include "postgres.h"

#include "cluster/life.h"
#include "cluster/memory.h"

extern const EoMemory eo_bar_memory;

/* Is this the current life of the target's database, and not barred in that place? */
extern bool eo_bar_is_ours(const EoTarget *target, const uint8 *life);

/* Is the current life, whichever it is, barred there? */
extern bool eo_bar_is_barred(const EoTarget *target);

/*
 * The item of a life is not its own any more.  In a place that is trusted, by the present options
 * of its server, too, that costs the life.  In a place of a tenant the life is barred, and goes on
 * everywhere else.  Returns whether it was barred now.
 */
extern bool eo_bar_lose(const EoPlace *place, bool trusted, const char *why);

/*
 * Somebody wants a place that is barred: give the life up, so that the next one has it, if the
 * tenant's budget pays for that, and the database has room for two lives more.  Returns false if
 * it does not.
 */
extern bool eo_bar_spend(const EoPlace *place);

/*
 * An operator grants the tenant of this place, and the database, the budget of a day.  If
 * the place is barred the life is given up, and true is returned.
 */
extern bool eo_bar_lift(const EoTarget *target);

#endif							/* EO_CLUSTER_BARS_H */
