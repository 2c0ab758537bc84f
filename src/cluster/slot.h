/*-------------------------------------------------------------------------
 *
 * slot.h
 *	  A claim as it stands in its slot: its states, and its terms.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_SLOT_H
#define EO_CLUSTER_SLOT_H

#include "postgres.h"

#include "cluster/target.h"
#include "records/origin.h"
#include "records/record.h"
#include "records/token.h"
#include "server/store.h"
#include "storage/lock.h"

/*
 * The state of a claim.  It is kept here and nowhere else, and changed by the
 * functions of slots.c only, each of which is one arrow of this diagram.
 *
 *	 eo_slot_add                 eo_slot_add
 *	     |                           |
 *	     v       eo_slot_acquired    v     eo_slot_completed
 *	  ASKING ----------------------> HELD <----------------> COMPLETED
 *	     |                           |  ^  eo_slot_uncompleted   |
 *	     |          eo_slot_failed   |  |                        | eo_slot_sealing
 *	     |          eo_slot_released |  | eo_slot_reclaimed      v
 *	     |                           v  |     eo_slot_sealing  SEALING
 *	     |                 FAILED, RELEASED   PLANNED ---------> |
 *	     |                           |                           |
 *	     +---------------------------+---------------------------+
 *	                                 | eo_slot_end
 *	                                 v
 *	                     TO_... (the worker), or FREE, or
 *	                                 |
 *	                              SESSION --------------------> TO_ABORT, or FREE
 *	                                   eo_slot_end_session, eo_slot_session_over
 *
 * From SEALING eo_slot_seal_refused leads back to PLANNED or COMPLETED.
 *
 * While the transaction is open the backend that holds the claim makes these
 * changes, so it may read the state of its own slot without the lock.  After
 * that the worker of the database does, or a backend that meets the key.
 *
 * If the transaction is prepared, its claims that are SEALING, FAILED or RELEASED
 * stay so until it has ended, and no process holds them (slot_prepared.h).
 */
typedef enum EoSlotState
{
	EO_SLOT_FREE,

	/* The transaction of the claim is open. */
	EO_SLOT_PLANNED,			/* idem_once(): claimed by the seal itself;
								 * nothing has been sent */
	EO_SLOT_ASKING,				/* the acquire was sent, or is about to be */
	EO_SLOT_HELD,				/* the record is ours, IN_PROGRESS */
	EO_SLOT_COMPLETED,			/* held, and its row is in the outbox */
	EO_SLOT_FAILED,				/* held; idem_fail() was called */
	EO_SLOT_RELEASED,			/* held; idem_release() was called */
	EO_SLOT_SEALING,			/* the seal was sent, or is about to be */

	/* The transaction has committed, and the session that made it goes on. */
	EO_SLOT_SESSION,			/* the record is ours, IN_PROGRESS; or a later
								 * transaction of the session settles it, by a
								 * slot of its own */

	/* The transaction is over: what is left to be done about the record. */
	EO_SLOT_TO_FINISH,			/* committed: mark it COMPLETED */
	EO_SLOT_TO_FAIL,			/* write what idem_fail() said */
	EO_SLOT_TO_RELEASE,			/* give it back, and count no run */
	EO_SLOT_TO_ABORT,			/* give it back; the run counts */
	EO_SLOT_TO_UNSEAL,			/* IN_PROGRESS again: the claim outlives the
								 * rollback */
	EO_SLOT_TO_BURY,			/* a first write of unknown outcome: leave a
								 * record that a late copy cannot get past */
	EO_SLOT_TO_JUDGE,			/* sealed before the server's last start: the
								 * outbox tells how it ended */
	EO_SLOT_BURIED,				/* to be looked at again, until no late copy
								 * can arrive any longer */
	EO_SLOT_IN_DOUBT			/* how it ended cannot be told here: for an
								 * operator */
} EoSlotState;

/* Is the transaction of a claim in this state over? */
static inline bool
eo_slot_state_is_over(EoSlotState state)
{
	return state >= EO_SLOT_TO_FINISH;
}

/* Is there something left to be done about the record, which is not done yet? */
static inline bool
eo_slot_state_is_ending(EoSlotState state)
{
	return state >= EO_SLOT_TO_FINISH && state <= EO_SLOT_TO_JUDGE;
}

/* Does a claim in this state keep other sessions of the cluster from the key? */
static inline bool
eo_slot_state_is_held(EoSlotState state)
{
	return state >= EO_SLOT_HELD && state <= EO_SLOT_SESSION;
}

/* The heir of the life under which a prepared transaction was sealed. */
typedef enum EoSlotHeir
{
	EO_HEIR_ASKED,				/* not known yet; the worker finds out */
	EO_HEIR_OURS,				/* this database, or nobody so far */
	EO_HEIR_FOREIGN				/* other data has taken over, and decides */
} EoSlotHeir;

/* Its place in shared memory, see claim_table.h. */
typedef struct EoSlot EoSlot;

typedef struct EoSlotRef
{
	uint32		index;
	uint32		generation;
} EoSlotRef;

/*
 * A claim as it stands in its slot.  Instants in milliseconds are of the
 * service's clock, those in microseconds of the monotonic clock.
 */
typedef struct EoSlotInfo
{
	EoSlotState state;

	/* The terms on which the claim was made. */
	bool		once;			/* by idem_once() */
	bool		has_writes;		/* its row has; from COMPLETED on */
	bool		bound;			/* bind = tx: it ends with the transaction */
	bool		session;		/* bind = session: it ends with the session */
	bool		prepaid;		/* settles a claim that the session holds,
								 * which counts for both */
	bool		release_on_abort;	/* else the claim outlives a rollback */
	uint8		digest[EO_DIGEST_LEN];	/* of target and key */
	char		fingerprint[EO_FINGERPRINT_LEN + 1];	/* "": none */
	uint64		handler_hash;	/* of its name; 0: there is none */
	char		token[EO_TOKEN_LEN + 1];
	uint8		credentials_hash[EO_CREDENTIALS_HASH_LEN];	/* of the holder, see
															 * eo_store_is_trusted() */
	int			pid;			/* of the holder; 0: there is none any more */
	VirtualTransactionId vxid;
	int64		retention_s;
	int64		lease_ms;		/* length of the lease, ms */
	int64		max_hold_ms;	/* 0: no limit */
	int64		since_us;		/* when it was made */

	/* From HELD on. */
	bool		lost;			/* a heartbeat was refused */
	int64		fence;
	int64		runs;
	int64		lease_until_ms;
	int64		ttl_s;

	/* Of idem_fail(); its text is beside it, see EoSlotView. */
	bool		terminal;
	int64		retry_after_ms;

	/* Of RELEASED: the machine has failed, which the record notes. */
	bool		spared;

	/*
	 * Of BURIED and TO_UNSEAL, and of a session's TO_ABORT: looks that were
	 * taken or are due.  A restart begins anew.
	 */
	int			looks;

	/*
	 * The life that claims; from SEALING on the one that seals, with the
	 * transaction.  The xid is 0 before that.
	 */
	EoOrigin	origin;
	EoPlaceRef	place;			/* of that life */

	/* The prepared transaction that the claim waits for; 0: there is none. */
	uint64		prepared_xid;
	uint64		announced_xid;	/* the same, from before PREPARE is written;
								 * it counts after a crash */
	EoSlotHeir	heir;			/* of its life */
	uint8		heir_by[EO_UUID_LEN];	/* the life under which that was found
										 * out */

	int64		ended_us;		/* when the transaction ended */

	/* The next heartbeat, or the next try; 0: at once, or no heartbeat. */
	int64		due_us;
} EoSlotInfo;

/* Was a seal sent for this claim, so that the record may name its origin? */
static inline bool
eo_slot_has_origin(const EoSlotInfo *info)
{
	return info->origin.xid != 0;
}

/* Is the seal known in full?  Of one that was found by its row the record must be read. */
static inline bool
eo_slot_knows_seal(const EoSlotInfo *info)
{
	return info->origin.timeline != 0;
}

/* Does the claim wait for the end of a prepared transaction? */
static inline bool
eo_slot_is_prepared(const EoSlotInfo *info)
{
	return info->prepared_xid != 0;
}

/*
 * Is this an unsealed claim of a prepared transaction?  What idem_fail() or idem_release() has
 * said is written at the end, and until then heartbeats keep the key.
 */
static inline bool
eo_slot_waits_unsealed(const EoSlotInfo *info)
{
	return eo_slot_is_prepared(info) &&
		(info->state == EO_SLOT_FAILED || info->state == EO_SLOT_RELEASED);
}

/* So often a record is looked at again at most, see looks.c and worker/settling.c. */
#define EO_LOOKS 3

/* AWS refuses a request whose signature is older than this. */
#define EO_LATE_US INT64CONST(900000000)

/* A copy of a slot, with the texts that belong to it. */
typedef struct EoSlotView
{
	EoSlotRef	ref;
	EoSlotInfo	info;
	EoTarget	target;
	char		pk[EO_MAX_KEY_BYTES + 1];
	uint32		error_len;		/* of idem_fail(); 0: none */
} EoSlotView;

typedef enum EoSlotStatus
{
	EO_SLOT_OK,
	EO_SLOT_TABLE_FULL,			/* no slot is free */
	EO_SLOT_ROLE_SHARE,			/* the rest is for other roles, see shares.c */
	EO_SLOT_DATABASE_SHARE,		/* the rest is for other databases */
	EO_SLOT_NO_TEXT,			/* no room for keys and errors */
	EO_SLOT_NO_TARGET,			/* too many different servers and roles */
	EO_SLOT_NO_DATABASE,		/* too many databases */
	EO_SLOT_DRAINED,			/* idem_drain() bars new claims */
	EO_SLOT_NO_LIFE				/* the life of the claim is over: make contact
								 * again */
} EoSlotStatus;

#endif							/* EO_CLUSTER_SLOT_H */
