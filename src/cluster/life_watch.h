/*-------------------------------------------------------------------------
 *
 * life_watch.h
 *	  Lives that may be over: those that sessions have met, for the worker; and the
 *	  worker's view of them, for everybody.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_LIFE_WATCH_H
#define EO_CLUSTER_LIFE_WATCH_H

#include "postgres.h"

#include "cluster/life.h"
#include "cluster/memory.h"
#include "cluster/target.h"
#include "server/entries.h"
#include "wire/hex.h"

/* The state of a life that may be over, as the worker of its heir sees it. */
typedef enum EoLifeWatch
{
	EO_WATCH_LOOKING,			/* not read yet, or it cannot be reached */
	EO_WATCH_BEATS,				/* somebody extends it */
	EO_WATCH_SILENT,			/* it has been silent for not long enough */
	EO_WATCH_NOT_NEAR,			/* silent; exactonce.takeover leaves it to
								 * idem_take_over() */
	EO_WATCH_FOREIGN,			/* retired by a life of other data, or not of
								 * our past */
	EO_WATCH_OVER				/* settled by this database */
} EoLifeWatch;

typedef struct EoLifeReport
{
	uint8		life[EO_UUID_LEN];
	EoTarget	target;
	EoLifeWatch watch;
	int64		scanned;		/* items of the table that were looked at for
								 * what it has left; -1: no scan goes on */
	int64		beat;
	int64		since_us;		/* steady clock: it has not changed since */
} EoLifeReport;

extern const EoMemory eo_life_watch_memory;

/*
 * Have the worker look after a life that a session has met in a record: it may be over
 * without having been closed.
 */
extern void eo_life_watch_add(const EoTarget *target, const uint8 *id);

/* Take the next life that is to be watched.  Fills in target and life. */
extern bool eo_life_watch_next(Oid dboid, EoPlace *place);

/*
 * An identity was refused in a place, and why (a code of DynamoDB's); or it was answered.
 * The view shows it.
 */
extern void eo_life_watch_refuse(const EoTarget *target, const char *why);
extern void eo_life_watch_admit(const EoTarget *target);

/* A worker begins, and knows of nobody that is refused. */
extern void eo_life_watch_admit_all(Oid dboid);

/* Walk through the identities that are refused in the target's place. */
extern bool eo_life_watch_refused(const EoTarget *target, uint32 *cursor, Oid *userid, char *why);
#define EO_WHY_LEN 64

/*
 * The worker has come to know that a life which it was told to look after is over, and
 * settles what that has left; and has it since eo_life_watch_add()?
 */
extern void eo_life_watch_settles(const EoTarget *target, const uint8 *id);
extern bool eo_life_watch_is_settled(const EoTarget *target, const uint8 *id);

/* Say what this worker does about lives that may be over; those of before are gone. */
extern void eo_life_watch_report(Oid dboid, const EoLifeReport *reports, int n);

/*
 * The last report of the worker of the target's database about a life there.  False:
 * there is none; the life is its own, or over, and has left nothing.
 */
extern bool eo_life_watch_find(const EoTarget *target, const uint8 *id, EoLifeWatch *watch);

/* The name of it in the view exactonce_lives. */
extern const char *eo_life_watch_name(EoLifeWatch watch);

/* The arrays of this memory, for the view exactonce_room; the caller must hold the lock. */
typedef enum EoWatchedKind
{
	EO_WATCHED_LIVES,			/* that sessions have met */
	EO_WATCHED_REPORTS,
	EO_WATCHED_REFUSALS,
	EO_WATCHED_SETTLED
} EoWatchedKind;

extern EoEntries eo_life_watch_entries(EoWatchedKind kind);

/* Walk through all reports of the cluster, for the view. */
extern bool eo_life_watch_walk(uint32 *cursor, EoLifeReport *report);

#endif							/* EO_CLUSTER_LIFE_WATCH_H */
