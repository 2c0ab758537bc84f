/*-------------------------------------------------------------------------
 *
 * life.h
 *	  The lives of the databases of this cluster, and the leases on them.
 *
 * A life is the identity under which a database seals records: one database, one
 * start of the server.  A place is a table in which a life has an item (see
 * dynamodb/life_item.h), or is about to have one.
 *
 * Nothing here raises an error; everything may be called in transaction callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_LIFE_H
#define EO_CLUSTER_LIFE_H

#include "postgres.h"

#include "cluster/target.h"
#include "dynamodb/hex.h"
#include "server/store.h"

typedef struct EoLife
{
	uint8		id[EO_UUID_LEN];
	uint32		timeline;
	int64		began_us;		/* steady clock */
} EoLife;

/* A place as it stands in shared memory. */
typedef struct EoPlace
{
	EoPlaceRef	ref;
	uint8		life[EO_UUID_LEN];
	EoTarget	target;			/* as its item was reached last */
	bool		home;			/* the first of its life */
	bool		open;			/* the item was created by us */
	bool		retired;		/* the heir has taken over here */
	int64		beat;			/* of the item, as far as is known */
	int64		sent_beat;		/* the one that was sent last */
	int64		confirmed_us;	/* steady clock: when the last confirmed beat
								 * was sent */
} EoPlace;

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

/* ---- this start of the server ---- */

/* In the startup hook: begin anew, with the lives of the last run to be retired. */
extern Size eo_life_size(void);
extern void eo_life_place_memory(void *memory);
extern void eo_life_begin_run(void);
extern void eo_life_adopt(const void *old_memory);

/* A random number for each start, and the next transaction id before recovery. */
extern const uint8 *eo_life_run(void);
extern uint64 eo_life_xid_floor(void);

/* ---- for everybody ---- */

/* The life under which this database claims and seals now; false: there is none. */
extern bool eo_life_current(Oid dboid, EoLife *life);
extern bool eo_life_is_current(Oid dboid, const uint8 *id);

/*
 * Find or enter the place of the current life for a table.  Sets *ref, and *open if
 * its item is there already.  False: there is no current life, or no room.
 */
extern bool eo_life_enter_place(const EoTarget *target, const uint8 *life, EoPlaceRef *ref,
								bool *open);

/* Is this an open place of a current life? */
extern bool eo_life_place_is_open(EoPlaceRef ref);
extern bool eo_life_place_info(EoPlaceRef ref, EoPlace *place);

/* How long ago the last confirmed beat was sent; INT64_MAX: the life is over. */
extern int64 eo_life_lease_age_us(EoPlaceRef ref);

/*
 * Note a nonce of the place's life before it is sent, with the beat that it goes with;
 * and ask whether a nonce was noted, and when.
 */
extern void eo_life_sending(EoPlaceRef ref, uint64 nonce, int64 beat, int64 sent_us);
extern bool eo_life_sent(EoPlaceRef ref, uint64 nonce, int64 *sent_us);

/* The item is open at this beat, which was sent at sent_us. */
extern void eo_life_confirmed(EoPlaceRef ref, int64 beat, int64 sent_us,
							  const EoTarget *target);

/*
 * Have the worker look after a life that a session has met in a record: it may be over
 * without having been closed.
 */
extern void eo_life_watch(const EoTarget *target, const uint8 *id);

/* This life seals and finishes nothing any more; the worker mints another. */
extern void eo_life_give_up(Oid dboid, const uint8 *id);

/* Walk through all places and reports of the cluster, for the view. */
extern bool eo_life_walk_all(uint32 *cursor, EoPlace *place, bool *current);
extern bool eo_life_walk_reports(uint32 *cursor, EoLifeReport *report);

/* ---- for the worker ---- */

/* Say what this worker does about lives that may be over; those of before are gone. */
extern void eo_life_report(Oid dboid, const EoLifeReport *reports, int n);

/* A life whose row is flushed; false: there is no room. */
extern bool eo_life_begin(Oid dboid, const uint8 *id, uint32 timeline);

/* Walk through the places of the current life, or of those that are over. */
extern bool eo_life_walk_places(Oid dboid, bool current, uint32 *cursor, EoPlace *place);

/* Any life of this database that is over and not retired everywhere? */
extern bool eo_life_next_ended(Oid dboid, uint32 *cursor, uint8 *id, bool *this_run);

/* Take the next life that is to be watched.  Fills in target and life. */
extern bool eo_life_next_watched(Oid dboid, EoPlace *place);

/* An heir has taken over from the life here, or finds it closed. */
extern void eo_life_place_retired(EoPlaceRef ref);

/* Nothing is to be done about this life, or any of this database, any more. */
extern void eo_life_forget(const uint8 *id);
extern void eo_life_drop_database(Oid dboid);

/*
 * Bar the current life from new claims, if the database has no slots.  It is over
 * when eo_life_forget() is called; eo_life_reopen() takes that back.
 */
extern bool eo_life_bar(Oid dboid, uint8 *id);
extern void eo_life_reopen(const uint8 *id);

/* ---- for slots.c; the caller must hold the lock ---- */

extern bool eo_life_place_is_current_locked(EoPlaceRef ref);

#endif							/* EO_CLUSTER_LIFE_H */
