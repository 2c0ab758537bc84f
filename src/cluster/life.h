/*-------------------------------------------------------------------------
 *
 * life.h
 *	  The lives of the databases of this cluster, and the leases on them.
 *
 * A life is the identity under which a database seals records: one database, one
 * start of the server.  A place is a table in which a life has an item (see
 * records/life_item.h), or is about to have one.
 *
 * Nothing here raises an error; everything may be called in transaction callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_LIFE_H
#define EO_CLUSTER_LIFE_H

#include "postgres.h"

#include "cluster/target.h"
#include "datatype/timestamp.h"
#include "server/entries.h"
#include "server/guc.h"
#include "server/store.h"
#include "wire/hex.h"

/* The lives of the cluster; and the index of an EoPlaceRef is below this. */
#define EO_MAX_LIVES 256
#define EO_MAX_PLACES 1024

typedef struct EoLife
{
	uint8		id[EO_UUID_LEN];
	int64		began_us;		/* steady clock */
} EoLife;

/* A place as it stands in shared memory. */
typedef struct EoPlace
{
	EoPlaceRef	ref;
	uint8		life[EO_UUID_LEN];
	EoTarget	target;			/* as its item was reached last */
	bool		home;			/* the first of its life that is trusted */
	bool		sent;			/* a write was sent that may have created the
								 * item */
	bool		open;			/* the item was created by us, as we know */
	bool		retired;		/* the heir has taken over here */
	TimestampTz barred_at;		/* the life was lost here, see bars.h; 0: it
								 * was not */
	char		barred_why[64];
	int64		beat;			/* of the item, as far as is known */
	int64		sent_beat;		/* the highest that was sent */
	int64		confirmed_us;	/* steady clock: when the last confirmed beat
								 * was sent */
	int64		scan_due_us;	/* monotonic: the scan that is owed, see
								 * looks.h; 0: none is */
	int64		owed_us;		/* and when a look last made way for it */
	uint64		sent_nonce;		/* of a copy: by its last write */
} EoPlace;

/* ---- this start of the server ---- */

/* In the startup hook: begin anew, with the lives of the last run to be retired. */
extern Size eo_life_size(void);
extern void eo_life_place_memory(void *memory);
extern void eo_life_adopt(const void *old_memory);

/* ---- for everybody ---- */

/* The life under which this database claims and seals now; false: there is none. */
extern bool eo_life_current(Oid dboid, EoLife *life);
extern bool eo_life_is_current(Oid dboid, const uint8 *id);

/*
 * Find or enter the place of the current life for a table.  Sets *ref, and *open if
 * its item is there already.  False: there is no current life, or no room: that is what the
 * tenant of the target may have, or the database.
 */
extern bool eo_life_enter_place(const EoTarget *target, const uint8 *life, EoPlaceRef *ref,
								bool *open);

/* The item could not be made: give the place back, unless a request may still make it. */
extern void eo_life_leave_place(EoPlaceRef ref);

/* Is this an open place of a current life, which is not barred there? */
extern bool eo_life_place_is_open(EoPlaceRef ref);
extern bool eo_life_place_info(EoPlaceRef ref, EoPlace *place);

/* How long ago the last confirmed beat was sent; INT64_MAX: the life is over. */
extern int64 eo_life_lease_age_us(EoPlaceRef ref);

/*
 * Note a nonce of a place before it is sent, with the beat that it goes with and the one that this
 * goes on from; say that it was not sent after all; and ask whether a nonce was noted for any
 * place of that life with such a beat (negative: any), and when.  If another copy of the beat
 * may be under way its nonce is to be used: then *nonce and *sent_us are those of the first copy.
 * False: nothing may be sent, because the place is gone, or has seen a later beat than this one.
 */
extern bool eo_life_sending(EoPlaceRef ref, int64 seen_beat, int64 beat, uint64 *nonce,
							int64 *sent_us);
extern void eo_life_not_sent(EoPlaceRef ref, uint64 nonce);
extern bool eo_life_sent(EoPlaceRef ref, uint64 nonce, int64 beat, int64 *sent_us);

/*
 * Take the turn to write the item of a place, for at most two seconds, so that not
 * every session writes when all need the lease.  False: another process has it.
 */
extern bool eo_life_take_turn(EoPlaceRef ref);
extern void eo_life_end_turn(EoPlaceRef ref);

/* The item is open at this beat of ours, which was sent at sent_us. */
extern void eo_life_confirmed(EoPlaceRef ref, int64 beat, int64 sent_us,
							  const EoTarget *target);

/* The arrays of lives and places, for entries.h.  Whoever looks into them must hold the lock. */
extern EoEntries eo_life_entries(void);
extern EoEntries eo_life_place_entries(void);

/* This life seals and finishes nothing any more; the worker mints another. */
extern void eo_life_give_up(Oid dboid, const uint8 *id);

/* ---- for the launcher ---- */

/* Walk through the databases that have lives. */
extern bool eo_life_next_database(uint32 *cursor, Oid *dboid);

/* ---- for the worker ---- */

/* A life whose row is flushed; false: there is no room. */
extern bool eo_life_begin(Oid dboid, const uint8 *id);

/*
 * Walk through the places of the current life of a database, or of its lives that are
 * over; InvalidOid: of all databases.
 */
extern bool eo_life_walk_places(Oid dboid, bool current, uint32 *cursor, EoPlace *place);

/* Walk through the lives of this database that are over and not retired everywhere. */
extern bool eo_life_next_ended(Oid dboid, uint32 *cursor, uint8 *id, bool *this_run);
extern bool eo_life_any_ended(Oid dboid);

/* An heir has taken over from the life here, or finds it closed. */
extern void eo_life_place_retired(EoPlaceRef ref);

/* Nothing is to be done about this life, or any of this database, any more. */
extern void eo_life_forget(const uint8 *id);
extern void eo_life_drop_database(Oid dboid);

/*
 * Bar the current life from new claims, if the database has no slots, and owes no scan but to
 * tenants.  It is over when eo_life_forget() is called; eo_life_reopen() takes that back.
 */
extern bool eo_life_bar(Oid dboid, uint8 *id);
extern void eo_life_reopen(const uint8 *id);

/* ---- for the files of src/cluster; the caller must hold the lock ---- */

extern bool eo_life_place_is_current_locked(EoPlaceRef ref);
extern void eo_life_give_up_locked(Oid dboid, const uint8 *id);

/* The place itself; NULL: its life is not a current one any more. */
extern EoPlace *eo_life_current_place_locked(EoPlaceRef ref);

/*
 * Walk through the places of a database, or of all (InvalidOid).  Sets *current if it is one of
 * the current life.
 */
extern EoPlace *eo_life_next_place_locked(Oid dboid, uint32 *cursor, bool *current);

/*
 * Is a scan owed there?  Without scans no debt ends: a session that meets a record settles it.
 */
static inline bool
eo_life_place_owes_scan(const EoPlace *place)
{
	return place->scan_due_us > 0 && place->barred_at == 0 && eo_guc_recovery_scan > 0;
}

/*
 * The place of the current life whose scan has been owed for longest, of those that were reached
 * by that server last (InvalidOid: by any), or only of those that are no tenant's.  NULL: none is
 * owed, or exactonce.recovery_scan is 0.
 */
extern const EoPlace *eo_life_owed_place_locked(Oid dboid, Oid serverid, bool trusted);

#endif							/* EO_CLUSTER_LIFE_H */
