/*-------------------------------------------------------------------------
 *
 * slot_views.h
 *	  Looking at the claims of the cluster.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_SLOT_VIEWS_H
#define EO_CLUSTER_SLOT_VIEWS_H

#include "postgres.h"

#include "cluster/slot.h"

/*
 * Find a claim on the key with that digest which is not known to have committed:
 * one that another backend holds, in an open transaction or as a session, if there is one; else one
 * whose transaction is over and which is not settled yet.
 */
extern bool eo_slot_view_find(const uint8 *digest, EoSlotView *view);
extern bool eo_slot_view_read(EoSlotRef ref, EoSlotView *view);

/* Does another backend have a claim at commit on it, which it has not begun to seal? */
extern bool eo_slot_view_is_planned(const uint8 *digest);

/* Find the claim that a session holds by this token. */
extern bool eo_slot_view_find_session(const uint8 *digest, const char *token, EoSlotRef *ref);

/*
 * Has the lease of a claim ended before that instant?  Past max_hold a claim has no heartbeats,
 * unless it is of a prepared transaction.  One that is sealed ends with its transaction, and
 * not with its lease.
 */
extern bool eo_slot_view_lease_is_dead(const EoSlotView *view, int64 dead_before_ms);

/* Copy the text that idem_fail() left; len is error_len of the view. */
extern bool eo_slot_view_error(EoSlotRef ref, char *text, uint32 len);

/* Show the next slot in use, from *cursor on. */
extern bool eo_slot_view_walk(uint32 *cursor, EoSlotView *view);

/*
 * Count the claims of a database, or of one server of it (InvalidOid: all), which
 * are unfinished: held by a process, or to be settled.
 */
extern int	eo_slot_view_count(Oid dboid, Oid serverid);

/* Are there slots that a worker is about to free? */
extern bool eo_slot_view_any_ending(void);

/* ---- how full the table is, and with what ---- */

typedef struct EoRoom
{
	uint32		slots;			/* exactonce.max_claims, or what a file had */
	uint32		taken;			/* by claims in all states but the next */
	uint32		looks;			/* second looks, which make way for claims */
	double		fullest;		/* the greatest part of its share that a role
								 * has taken; from 1 on its claims are refused */
} EoRoom;

extern void eo_slot_view_room(EoRoom *room);

/* The claims, by what ends them.  Instants are of the monotonic clock. */
typedef struct EoUsage
{
	uint32		open;			/* of transactions that are open */
	uint32		sessions;
	uint32		prepared;
	uint32		ending;			/* of ended transactions, to be settled */
	uint32		doubts;
	uint32		looks;
	int64		open_since_us;	/* of the oldest, if there are any */
	int64		ending_since_us;
	int64		looks_until_us; /* when the first look is the last one */
} EoUsage;

/* Of one database (InvalidOid: of all), and one role of it (InvalidOid: of all). */
extern void eo_slot_view_usage(Oid dboid, Oid userid, EoUsage *usage);

/* The claims of ended transactions that the worker of a database has to settle. */
extern int	eo_slot_view_ending(Oid dboid);

/* ---- for the files of src/cluster ---- */

/*
 * Is there a claim for which the life of a database has to stay open?  The caller must hold the
 * lock of the claim table.
 */
extern bool eo_slot_view_any_unsettled_locked(Oid dboid);

/* Copy a slot.  The same lock. */
extern void eo_slot_view_fill(const EoSlot *slot, EoSlotView *view);

/*
 * A slot of the claim with this token, in that state, or EO_SLOT_FREE: in whatever state.  NULL:
 * there is none.  The same lock.
 */
extern EoSlot *eo_slot_view_of_token(const uint8 *digest, const char *token, EoSlotState state);

#endif							/* EO_CLUSTER_SLOT_VIEWS_H */
