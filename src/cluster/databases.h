/*-------------------------------------------------------------------------
 *
 * databases.h
 *	  The databases of the cluster that use exactonce, and their workers.
 *
 * Nothing here raises an error; everything may be called in transaction
 * callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_DATABASES_H
#define EO_CLUSTER_DATABASES_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "cluster/memory.h"
#include "cluster/slot.h"
#include "lib/ilist.h"
#include "storage/latch.h"
#include "utils/timestamp.h"
#include "wire/status.h"

/*
 * The databases that are dealt with at the same time.  Those that have slots always
 * find room: their number is limited by that of the targets, EO_MAX_TARGETS.
 */
#define EO_MAX_DATABASES 512

typedef struct EoDatabaseInfo
{
	bool		known;
	bool		ready;			/* its worker has published what follows */
	bool		absent;			/* the extension is not in it */
	bool		missed;			/* it needs a worker, and has none */
	Oid			outbox;			/* the table its worker knows */
	int			worker_pid;		/* 0: none */
	int64		alive_us;		/* monotonic: last sign of life */
	TimestampTz waits_since;	/* 0: it does not put work off for a lock */
	Oid			waits_for;		/* InvalidOid: not known which */
} EoDatabaseInfo;

/* The wait of a database's completions for standbys and slots. */
typedef struct EoDatabaseHold
{
	XLogRecPtr	lsn;			/* up to here the WAL is to be confirmed */
	TimestampTz since;
	uint64		from_xid;		/* transactions before this do not wait */
} EoDatabaseHold;

extern const EoMemory eo_database_memory;

/* ---- for everybody ---- */

/* Ask for a worker, without a pause for failures; false: there is no room for another database. */
extern bool eo_database_want(Oid dboid);

/* False: the database is not known, and info is zero. */
extern bool eo_database_info(Oid dboid, EoDatabaseInfo *info);
extern void eo_database_wake(Oid dboid);

/*
 * A session bars new claims of a database and has its worker close its life once nothing is left
 * to be done (false: there is no room), until it ends that.  If the database is drained by then
 * new claims stay barred, until somebody allows them again.
 */
extern bool eo_database_drain(Oid dboid);
extern void eo_database_drain_end(Oid dboid, bool drained);
extern void eo_database_undrain(Oid dboid);
extern bool eo_database_is_drained(Oid dboid);

/* Have the worker mint a life, see lives.h; and ask whether somebody wants one. */
extern void eo_database_want_life(Oid dboid);
extern bool eo_database_wants_life(Oid dboid);

/*
 * Note that all rows of prepared transactions of the database have slots; and ask whether that was
 * noted since the start of the server.  If its entry has made way, the next worker notes it again.
 */
extern void eo_database_set_prepared_known(Oid dboid);
extern bool eo_database_is_prepared_known(Oid dboid);

/* Why its worker cannot write, and since when; false: it can, as far as is known. */
extern bool eo_database_failure(Oid dboid, EoError *error, TimestampTz *since);

/* Do completions wait for standbys or slots?  False: none does, and *hold is zero. */
extern bool eo_database_held(Oid dboid, EoDatabaseHold *hold);

/*
 * Have the worker of a database leave, and let none start, until this process calls
 * eo_database_resume() or ends.  A process suspends one database at a time.  Whoever does
 * not own the database may do so only once its worker has been there for five seconds: until
 * then, and while one is to start, this does nothing and returns false.
 */
extern bool eo_database_suspend(Oid dboid, bool owns);
extern void eo_database_resume(void);

/* It was dropped: its entry goes, unless it has slots. */
extern void eo_database_forget(Oid dboid);

/* The extension was created anew: the worker that knows the old table must go. */
extern void eo_database_renew(Oid dboid, Oid outbox);

/* ---- for its worker ---- */

/* False: it has one already, is suspended, or was dropped since the worker was started. */
extern bool eo_database_attach(Oid dboid);

/*
 * again: another worker must be started.  failed: this one could not do its work, so
 * the next one is started after a pause, which is longer each time.
 */
extern void eo_database_detach(Oid dboid, bool again, bool failed);
extern void eo_database_publish(Oid dboid, Oid outbox);

/* The extension is not in this database. */
extern void eo_database_absent(Oid dboid);

/* A sign of life; idle: the worker has nothing to do. */
extern void eo_database_alive(Oid dboid, bool idle);

/* Note that a request of the worker has failed; NULL: the target answers again. */
extern void eo_database_set_failure(Oid dboid, const EoError *error);

/* Note what completions wait for; NULL: for nothing. */
extern void eo_database_set_held(Oid dboid, const EoDatabaseHold *hold);

/* Work is put off since then for the lock of a table (InvalidOid: not known); 0: none is. */
extern void eo_database_set_wait(Oid dboid, Oid relid, TimestampTz since);
extern bool eo_database_should_leave(Oid dboid);

/* May an idle worker leave?  If so nobody relies on it from now on. */
extern bool eo_database_may_leave(Oid dboid);

/* ---- for the launcher ---- */

extern void eo_database_launcher_attach(void);

/*
 * Ask for a worker that looks for what is left to be done.  A database in which a
 * call is made goes before it.  False: there is no room, try again later.
 */
extern bool eo_database_visit(Oid dboid);

/*
 * The next database for which a worker is to be started now.  visits: one of those
 * that eo_database_visit() asked for, else one of the others.  *cursor goes from any
 * number to end, which is EO_MAX_DATABASES more.  Sets *later if there are others
 * for which it is too early.
 */
extern bool eo_database_next_to_start(bool visits, uint32 *cursor, uint32 end, Oid *dboid,
									  bool *later);

/*
 * No worker can be started: have the one leave that has been idle longest, if there
 * is one and none is leaving already.
 */
extern void eo_database_make_room(void);

/* A worker was started, or (false) could not be. */
extern void eo_database_started(Oid dboid, bool started);

/* ---- for slots.c; the caller must hold the lock ---- */

/* Put a slot at the end of the list of its database's worker, unless it is there already. */
extern void eo_database_list_ended(EoSlot *slot);

/* That list; NULL: the database is not known. */
extern dlist_head *eo_database_ended(Oid dboid);

/*
 * No heartbeat of a claim of the database is due before this (monotonic), so the slots need
 * not be looked through.  0: that is not known.
 */
extern int64 eo_database_beat_due(Oid dboid);
extern void eo_database_set_beat_due(Oid dboid, int64 due_us);

extern bool eo_database_is_drained_locked(Oid dboid);

/* Enter the database; false: there is no room. */
extern bool eo_database_enter(Oid dboid);

/* Set the latch of its worker, or of the launcher if it has none. */
extern void eo_database_wake_worker(Oid dboid);

#endif							/* EO_CLUSTER_DATABASES_H */
