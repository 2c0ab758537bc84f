/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  What the backends and workers of a cluster know together: claims held
 *	  by open transactions, and the databases with their workers.
 *
 * Nothing here raises but where it is said; all may be called in transaction
 * callbacks.  A slot is named by its number and generation: after it has been
 * freed, a name kept from before finds nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_SHMEM_H
#define EO_CLUSTER_SHMEM_H

#include "postgres.h"

#include "cluster/target.h"
#include "dynamodb/record.h"
#include "dynamodb/token.h"
#include "storage/latch.h"
#include "storage/lock.h"

typedef enum EoSlotState
{
	EO_SLOT_FREE,
	EO_SLOT_PLANNED,			/* idem_once before the seal: nothing sent */
	EO_SLOT_ASKING,				/* acquire was sent, or is about to be */
	EO_SLOT_HELD,				/* the record is ours, IN_PROGRESS */
	EO_SLOT_SEALING				/* the seal was sent, or is about to be */
} EoSlotState;

typedef enum EoVerdict
{
	EO_VERDICT_NONE,
	EO_VERDICT_FAIL,			/* idem_fail() */
	EO_VERDICT_RELEASE			/* idem_release() */
} EoVerdict;

typedef struct EoSlotRef
{
	uint32		index;
	uint32		generation;
} EoSlotRef;

/* A claim as it stands in its slot.  Instants are of the service's clock. */
typedef struct EoSlotInfo
{
	EoSlotState state;
	bool		ended;			/* its transaction is over */
	bool		orphan;			/* ... by the end of the server's last life */
	bool		lost;			/* a heartbeat was refused */
	bool		once;			/* claimed by the seal itself */
	bool		bound;			/* bind = tx: dies with the transaction */
	bool		release_on_abort;	/* else the claim outlives an abort */
	bool		has_fingerprint;
	bool		terminal;		/* of EO_VERDICT_FAIL */
	EoVerdict	verdict;
	uint8		digest[EO_DIGEST_LEN];
	char		fingerprint[EO_FINGERPRINT_LEN + 1];
	char		token[EO_TOKEN_LEN + 1];
	int			pid;
	VirtualTransactionId vxid;	/* the holder's */
	int64		fence;
	int64		runs;
	int64		lease_ms;		/* length of the lease, ms */
	int64		lease_until_ms;
	int64		ttl_s;
	int64		retention_s;
	int64		retry_after_ms; /* of EO_VERDICT_FAIL */
	int64		max_hold_ms;	/* 0: no limit */
	int64		since_us;		/* monotonic: when it was made */
	int64		due_us;			/* monotonic: next heartbeat, or next try */

	bool		committed;		/* ended, and to be marked completed */
	bool		doubt;			/* nobody here can say how it ended */
	bool		looked;			/* buried, and to be looked at once more */

	/* The parts of the origin it was sealed with, see outbox.h. */
	uint8		database[16];
	uint64		xid;
	uint64		lsn;
	uint32		timeline;
	int64		incarnation;
} EoSlotInfo;

/* With what belongs to it. */
typedef struct EoSlotView
{
	EoSlotRef	ref;
	EoSlotInfo	info;
	EoTarget	target;
	char		pk[EO_MAX_KEY_BYTES + 1];
	uint32		error_len;		/* of EO_VERDICT_FAIL; 0: none */
} EoSlotView;

typedef enum EoShmemStatus
{
	EO_SHMEM_OK,
	EO_SHMEM_FULL,				/* no slot */
	EO_SHMEM_NO_TEXT,			/* no room for keys and errors */
	EO_SHMEM_NO_TARGET,			/* too many different servers and roles */
	EO_SHMEM_NO_DATABASE		/* too many databases */
} EoShmemStatus;

/* In _PG_init and its hooks. */
extern void eo_shmem_init(void);

/* ---- claims ---- */

/* What every slot of this backend begins with; the rest is zero. */
extern void eo_slot_info_init(EoSlotInfo *info, EoSlotState state, const uint8 *digest,
							  const char *token);
extern EoShmemStatus eo_slot_add(const EoTarget *target, const char *pk,
								 const EoSlotInfo *info, EoSlotRef *ref);

/* Change a slot that this transaction holds. */
extern void eo_slot_asked(EoSlotRef ref, int64 fence, int64 runs, int64 lease_until_ms,
						  int64 ttl_s);
extern void eo_slot_sealing(EoSlotRef ref, const EoSlotInfo *origin, bool bound);
extern EoShmemStatus eo_slot_verdict(EoSlotRef ref, EoVerdict verdict, bool terminal,
									 int64 retry_after_ms, const char *error, size_t error_len);
extern void eo_slot_extended(EoSlotRef ref, int64 lease_until_ms, int64 lease_ms);
extern bool eo_slot_is_lost(EoSlotRef ref);

/* Changes whenever some claim of the cluster is found lost. */
extern uint32 eo_slot_lost_count(void);

/* Its transaction is over: the worker sees to the rest.  And: nothing is left to do. */
extern void eo_slot_end(EoSlotRef ref);

/* The same for one whose row is committed: a word to the worker, to spare it a search. */
extern void eo_slot_committed(EoSlotRef ref, int64 retention_s);
extern void eo_slot_free(EoSlotRef ref);

/*
 * A claim on the key with that digest that is not committed: one held by an open transaction of
 * another backend if there is one, else one that has ended and is not seen to
 * yet.  False: there is none.
 */
extern bool eo_slot_find(const uint8 *digest, EoSlotView *view);
extern bool eo_slot_read(EoSlotRef ref, EoSlotView *view);
extern bool eo_slot_error(EoSlotRef ref, char *text, uint32 len);

/*
 * For the worker of a database.  next_ended() takes one off the list of those
 * to be seen to; again() puts it back, not before due_us; beat_due() finds the
 * next whose lease is to be extended, from *cursor on.
 */
extern bool eo_slot_next_ended(Oid dboid, EoSlotView *view);
extern void eo_slot_again(EoSlotRef ref, int64 due_us, bool looked);
extern void eo_slot_doubt(EoSlotRef ref);
extern void eo_slot_undoubt(const EoTarget *target, const char *pk);

/* A record in doubt that was met, with its origin, so that exactonce_in_doubt shows it. */
extern void eo_slot_note_doubt(const EoTarget *target, const char *pk, const EoSlotInfo *info);

extern bool eo_slot_beat_due(Oid dboid, int64 now_us, uint32 *cursor, EoSlotView *view);
extern void eo_slot_beaten(EoSlotRef ref, bool lost, int64 lease_until_ms, int64 due_us);

/* The earliest due_us of the database's slots; INT64_MAX: none. */
extern int64 eo_slot_next_due(Oid dboid);

/* Are there slots that a worker is about to see to? */
extern bool eo_slot_any_ended(void);

/* For views: the next slot in use from *cursor on. */
extern bool eo_slot_walk(uint32 *cursor, EoSlotView *view);

/* Slots in use by a database, or by one server of it (InvalidOid: all). */
extern int	eo_slot_count(Oid dboid, Oid serverid, int but_pid);
extern void eo_slot_drop_database(Oid dboid);

/* ---- databases and their workers ---- */

typedef struct EoDatabaseInfo
{
	bool		known;
	bool		ready;			/* its worker has published what follows */
	bool		absent;			/* the extension is not in it */
	int			suspended;		/* so many need it without a worker */
	Oid			outbox;			/* the table its worker knows */
	int			worker_pid;		/* 0: none */
	int64		alive_us;		/* monotonic: last sign of life */
	uint8		origin[16];
	int64		incarnation;
	uint64		horizon;		/* evidence is complete from this xid on */
} EoDatabaseInfo;

/* Ask for a worker; false: no room for another database. */
extern bool eo_database_want(Oid dboid);
extern bool eo_database_info(Oid dboid, EoDatabaseInfo *info);
extern void eo_database_wake(Oid dboid);
extern void eo_database_suspend(Oid dboid, bool suspended);
extern void eo_database_forget(Oid dboid);

/* The extension was made anew: the worker that knows the old table is to go. */
extern void eo_database_renew(Oid dboid, Oid outbox);

/* For workers. */
extern bool eo_database_attach(Oid dboid);	/* false: another one is there */
extern void eo_database_detach(Oid dboid, bool again);	/* again: it failed */
extern void eo_database_publish(Oid dboid, const uint8 *origin, int64 incarnation, uint64 horizon,
								Oid outbox);
extern void eo_database_absent(Oid dboid);
extern void eo_database_alive(Oid dboid);
extern bool eo_database_should_leave(Oid dboid);

/* Nothing to do: from now on it is not relied on.  False: there is something. */
extern bool eo_database_may_leave(Oid dboid);

/* For the launcher. */
extern void eo_database_launcher_attach(void);

/* later: there are others, for whom it is too early yet. */
extern bool eo_database_next_to_start(uint32 *cursor, Oid *dboid, bool *later);
extern void eo_database_started(Oid dboid, bool started);

#endif							/* EO_CLUSTER_SHMEM_H */
