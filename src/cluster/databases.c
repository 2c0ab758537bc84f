/*-------------------------------------------------------------------------
 *
 * databases.c
 *	  The databases of the cluster that use exactonce, and their workers.
 *
 * A database is wanted (by a call made in it, or because there is work), has a
 * worker starting, or has one; the launcher looks for those that are wanted and
 * have none.  A worker says that it lives; one that does not is noticed by the
 * sessions that depend on it.  A database can be suspended: then its worker
 * leaves and none is started, because a command needs the database empty.  A
 * suspension belongs to the process that runs the command, and counts only while
 * that process lives.
 *
 * There may be more databases than entries, and more than background workers.  The
 * entry of a database that nobody needs is reused for another one.  If a worker
 * cannot be started, the one that has been idle longest is told to leave.
 *
 * This is ordinary shared memory: it begins anew with every start of the server,
 * and with every restart after a crash.  The lock of the claim table covers it,
 * because slots are listed by database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/databases.h"
#include "miscadmin.h"
#include "server/store.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "wire/clock.h"
#include "wire/status.h"

/*
 * A worker that has ended is started again after this.  If it has failed soon after its
 * start the pause is twice as long as before, up to MAX_RESTART_US.
 */
#define RESTART_US INT64CONST(1000000)
#define MAX_RESTART_US INT64CONST(10000000)

/* A worker that has been idle for this long may have to make room for another. */
#define MIN_IDLE_US INT64CONST(200000)

/* A worker stays for so long before a role that does not own its database may send it away. */
#define MIN_STAY_US INT64CONST(5000000)

/* The most commands that suspend databases at the same time. */
#define MAX_SUSPENSIONS 64

typedef struct Database
{
	Oid			dboid;			/* InvalidOid: free */
	EoDatabaseInfo info;
	bool		wanted;
	bool		visit;			/* wanted only because the server has started:
								 * no session waits for it */
	int			draining;		/* sessions that bar new claims while they
								 * wait */
	bool		drained;		/* one of them has found nothing left: they
								 * stay barred */
	bool		wants_life;		/* a session waits for a life, see lives.h */
	bool		prepared_known; /* rows of prepared transactions have slots */
	bool		leave;			/* its worker is to go */
	int64		started_us;		/* monotonic: when a worker was last started */
	int64		restart_us;		/* the pause before its next start */
	int64		idle_since_us;	/* 0: its worker has work, or there is none */
	Latch	   *latch;			/* its worker's */
	TimestampTz failing_since;	/* 0: the worker's last request was answered */
	EoError		failure;		/* the worker's latest, if it is failing */
	bool		held;			/* completions wait as hold says */
	EoDatabaseHold hold;
	dlist_head	ended;			/* slots for its worker */
	int64		beat_due_us;	/* no heartbeat of a claim is due before this */
} Database;

/* A command needs a database without its worker. */
typedef struct Suspension
{
	Oid			dboid;
	int			pid;			/* of the process that runs the command */
} Suspension;

typedef struct Databases
{
	Latch	   *launcher;
	Suspension	suspensions[MAX_SUSPENSIONS];
	Database	entries[EO_MAX_DATABASES];
} Databases;

static Databases *databases;

/* All processes inherit the postmaster's key for hashes. */
const EoMemory eo_database_memory = {
	"exactonce", sizeof(Databases), (void **) &databases, eo_store_make_hash_key
};

static bool is_unused(Database *db);
static bool is_drained(const Database *db);
static bool has_slots(Database *db);

/* ----- entries; the lock is held ----- */

static Database *
find(Oid dboid)
{
	for (int i = 0; OidIsValid(dboid) && i < EO_MAX_DATABASES; i++)
	{
		if (databases->entries[i].dboid == dboid)
			return &databases->entries[i];
	}
	return NULL;
}

static void
wake_launcher(void)
{
	if (databases->launcher != NULL)
		SetLatch(databases->launcher);
}

static void
want(Database *db)
{
	db->wanted = true;
	wake_launcher();
}

/* A suspension whose process has ended, however it ended, does not count. */
static bool
is_in_force(const Suspension *suspension)
{
	return suspension->pid != 0 && BackendPidGetProc(suspension->pid) != NULL;
}

static bool
is_suspended(Oid dboid)
{
	for (int i = 0; i < MAX_SUSPENSIONS; i++)
	{
		const Suspension *suspension = &databases->suspensions[i];

		if (suspension->dboid == dboid && is_in_force(suspension))
			return true;
	}
	return false;
}

/* Free the entry of a database that is unused. */
static void
forget_if_unused(Database *db)
{
	if (is_unused(db))
		memset(db, 0, sizeof(Database));
}

/* Has it no worker and no slots? */
static bool
is_unused(Database *db)
{
	return db->info.worker_pid == 0 && !is_drained(db) && !has_slots(db);
}

/* Find the entry of a database, or make one; NULL: there is no room. */
static Database *
find_or_enter(Oid dboid)
{
	Database   *db = find(dboid);

	/* An entry that nobody has used is taken before one that was. */
	for (int i = 0; db == NULL && i < EO_MAX_DATABASES; i++)
	{
		if (!OidIsValid(databases->entries[i].dboid))
			db = &databases->entries[i];
	}
	for (int i = 0; db == NULL && i < EO_MAX_DATABASES; i++)
	{
		if (!databases->entries[i].wanted && is_unused(&databases->entries[i]))
			db = &databases->entries[i];
	}
	if (db != NULL && db->dboid != dboid)
	{
		memset(db, 0, sizeof(Database));
		db->dboid = dboid;
		db->info.known = true;
	}
	return db;
}

/* ----- for slots.c ----- */

bool
eo_database_enter(Oid dboid)
{
	Database   *db = find_or_enter(dboid);

	/* Its worker may have left since the session looked. */
	if (db != NULL && (db->info.worker_pid == 0 || db->leave))
		want(db);
	return db != NULL;
}

void
eo_database_wake_worker(Oid dboid)
{
	Database   *db = find(dboid);

	if (db != NULL && db->latch != NULL)
		SetLatch(db->latch);
	else if (db != NULL)
		want(db);
}

void
eo_database_list_ended(EoSlot *slot)
{
	Database   *db = find_or_enter(eo_claim_table_database(slot));

	if (db != NULL)
		eo_claim_table_list(slot, &db->ended);
}

dlist_head *
eo_database_ended(Oid dboid)
{
	Database   *db = find(dboid);

	return db != NULL ? &db->ended : NULL;
}

int64
eo_database_beat_due(Oid dboid)
{
	Database   *db = find(dboid);

	return db != NULL ? db->beat_due_us : 0;
}

void
eo_database_set_beat_due(Oid dboid, int64 due_us)
{
	Database   *db = find(dboid);

	if (db != NULL)
		db->beat_due_us = due_us;
}

/* ----- for everybody ----- */

bool
eo_database_want(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find_or_enter(dboid);

	if (db == NULL)
		return false;
	db->info.absent = false;
	db->visit = false;
	db->restart_us = 0;
	want(db);
	return true;
}

bool
eo_database_info(Oid dboid, EoDatabaseInfo *info)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Database *db = find(dboid);

	memset(info, 0, sizeof(*info));
	if (db == NULL)
		return false;
	*info = db->info;
	info->missed = db->wanted && db->info.worker_pid == 0;
	return true;
}

void
eo_database_wake(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Database *db = find(dboid);

	if (db != NULL && db->latch != NULL)
		SetLatch(db->latch);
}

bool
eo_database_drain(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find_or_enter(dboid);

	if (db == NULL)
		return false;
	db->draining++;
	return true;
}

void
eo_database_drain_end(Oid dboid, bool drained)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->draining--;
	db->drained |= drained;
}

void
eo_database_undrain(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db != NULL)
		db->drained = false;
}

static bool
is_drained(const Database *db)
{
	return db->drained || db->draining > 0;
}

bool
eo_database_is_drained_locked(Oid dboid)
{
	const Database *db = find(dboid);

	return db != NULL && is_drained(db);
}

bool
eo_database_is_drained(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	return eo_database_is_drained_locked(dboid);
}

void
eo_database_want_life(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->wants_life = true;
	eo_database_wake_worker(dboid);
}

bool
eo_database_wants_life(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Database *db = find(dboid);

	return db != NULL && db->wants_life;
}

void
eo_database_set_prepared_known(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db != NULL)
		db->prepared_known = true;
}

bool
eo_database_is_prepared_known(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Database *db = find(dboid);

	return db != NULL && db->prepared_known;
}

/*
 * A template may be copied by every role with CREATEDB, by commands that fail at once and
 * may be repeated for ever.  So a worker that has left for a command comes back, and has time for
 * its work, before it leaves for one of a role that does not own the database.
 */
static bool
may_suspend(Database *db)
{
	if (db->info.worker_pid == 0)
		return !db->wanted && dlist_is_empty(&db->ended);
	return eo_clock_monotonic_us() - db->started_us >= MIN_STAY_US;
}

bool
eo_database_suspend(Oid dboid, bool owns)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (!owns && db != NULL && !may_suspend(db))
		return false;
	for (int i = 0; i < MAX_SUSPENSIONS; i++)
	{
		if (is_in_force(&databases->suspensions[i]))
			continue;
		databases->suspensions[i].dboid = dboid;
		databases->suspensions[i].pid = MyProcPid;
		if (db != NULL && db->latch != NULL)
			SetLatch(db->latch);
		break;
	}
	return true;
}

void
eo_database_resume(void)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

	for (int i = 0; i < MAX_SUSPENSIONS; i++)
	{
		if (databases->suspensions[i].pid == MyProcPid)
			memset(&databases->suspensions[i], 0, sizeof(Suspension));
	}
	wake_launcher();
}

void
eo_database_forget(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->drained = false;
	forget_if_unused(db);
}

void
eo_database_renew(Oid dboid, Oid outbox)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL || !db->info.ready || db->info.outbox == outbox)
		return;
	db->info.ready = false;
	db->leave = true;
	db->wanted = true;
	eo_database_wake_worker(dboid);
}

/* ----- for its worker ----- */

bool
eo_database_attach(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL || db->info.worker_pid != 0 || is_suspended(dboid))
		return false;
	db->leave = false;
	db->visit = false;
	db->idle_since_us = 0;
	db->info.worker_pid = MyProcPid;
	db->info.alive_us = eo_clock_monotonic_us();
	db->latch = MyLatch;
	db->wanted = false;
	db->failing_since = 0;
	return true;
}

void
eo_database_detach(Oid dboid, bool again, bool failed)
{
	int64		now_us = eo_clock_monotonic_us();
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL || db->info.worker_pid != MyProcPid)
		return;
	db->info.worker_pid = 0;
	db->info.ready = false;
	db->latch = NULL;
	db->leave = false;
	db->held = false;
	db->info.waits_since = 0;
	db->idle_since_us = 0;
	if (!failed || now_us - db->started_us > MAX_RESTART_US)
		db->restart_us = 0;
	if (failed)
		db->restart_us = Min(Max(2 * db->restart_us, RESTART_US), MAX_RESTART_US);

	/*
	 * Work that came up while it was leaving is for the next worker.  If it
	 * leaves for a command, it comes back after that.
	 */
	db->wanted |= again || (is_suspended(dboid) && !db->info.absent);
	/* The extension is not in it: its entry is free for another database. */
	if (db->info.absent && !db->wanted)
		forget_if_unused(db);
	wake_launcher();
}

void
eo_database_publish(Oid dboid, Oid outbox)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->info.outbox = outbox;
	db->info.alive_us = eo_clock_monotonic_us();
	db->info.absent = false;
	db->info.ready = true;
	db->wants_life = false;
}

void
eo_database_absent(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->info.absent = true;
	db->info.ready = false;

	/* Transactions with claims go on, and may still commit. */
	if (!eo_claim_table_has_slots(dboid))
		db->info.outbox = InvalidOid;
	db->wanted = false;
}

void
eo_database_alive(Oid dboid, bool idle)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->info.alive_us = eo_clock_monotonic_us();
	if (!idle)
		db->idle_since_us = 0;
	else if (db->idle_since_us == 0)
		db->idle_since_us = db->info.alive_us;
}

void
eo_database_set_held(Oid dboid, const EoDatabaseHold *hold)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->held = hold != NULL;
	if (hold != NULL)
		db->hold = *hold;
}

bool
eo_database_held(Oid dboid, EoDatabaseHold *hold)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Database *db = find(dboid);

	memset(hold, 0, sizeof(*hold));
	if (db == NULL || !db->held)
		return false;
	*hold = db->hold;
	return true;
}

void
eo_database_set_wait(Oid dboid, Oid relid, TimestampTz since)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	db->info.waits_for = relid;
	db->info.waits_since = since;
}

void
eo_database_set_failure(Oid dboid, const EoError *error)
{
	TimestampTz now = GetCurrentTimestamp();
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return;
	if (error == NULL)
		db->failing_since = 0;
	else if (db->failing_since == 0)
		db->failing_since = now;
	if (error != NULL)
		db->failure = *error;
}

bool
eo_database_failure(Oid dboid, EoError *error, TimestampTz *since)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Database *db = find(dboid);

	if (db == NULL)
		return false;
	*error = db->failure;
	*since = db->failing_since;
	return *since != 0;
}

bool
eo_database_should_leave(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Database *db = find(dboid);

	return db == NULL || db->leave || is_suspended(dboid);
}

bool
eo_database_may_leave(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db == NULL)
		return true;
	if (has_slots(db))
		return false;
	db->info.ready = false;
	db->leave = true;
	return true;
}

static bool
has_slots(Database *db)
{
	return !dlist_is_empty(&db->ended) ||
		eo_claim_table_has_slots(db->dboid);
}

/* ----- for the launcher ----- */

void
eo_database_launcher_attach(void)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

	databases->launcher = MyLatch;
}

bool
eo_database_visit(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = NULL;
	int			busy = 0;

	for (int i = 0; i < EO_MAX_DATABASES; i++)
		busy += databases->entries[i].wanted || databases->entries[i].info.worker_pid != 0 ? 1 : 0;
	/* Half of the entries are for databases in which calls are made. */
	if (busy < EO_MAX_DATABASES / 2)
		db = find_or_enter(dboid);
	if (db != NULL && db->info.worker_pid == 0 && !db->wanted)
	{
		db->visit = true;
		want(db);
	}
	return db != NULL;
}

/* Is a worker to be started in this database, now or later? */
static bool
needs_worker(Database *db)
{
	bool		has_work = db->wanted ||
	(!dlist_is_empty(&db->ended) && !db->info.absent);

	return OidIsValid(db->dboid) && db->info.worker_pid == 0 && has_work &&
		!is_suspended(db->dboid);
}

bool
eo_database_next_to_start(bool visits, uint32 *cursor, uint32 end, Oid *dboid, bool *later)
{
	int64		now_us = eo_clock_monotonic_us();
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	while (*cursor < end)
	{
		Database   *db = &databases->entries[(*cursor)++ % EO_MAX_DATABASES];

		if (db->visit != visits || !needs_worker(db))
			continue;
		if (db->started_us != 0 && now_us - db->started_us < Max(db->restart_us, RESTART_US))
		{
			*later = true;
			continue;
		}
		*dboid = db->dboid;
		return true;
	}
	return false;
}

void
eo_database_make_room(void)
{
	int64		now_us = eo_clock_monotonic_us();
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *oldest = NULL;

	for (int i = 0; i < EO_MAX_DATABASES; i++)
	{
		Database   *db = &databases->entries[i];

		if (db->info.worker_pid == 0)
			continue;
		if (db->leave)
			return;
		if (db->idle_since_us != 0 && now_us - db->idle_since_us >= MIN_IDLE_US &&
			(oldest == NULL || oldest->idle_since_us > db->idle_since_us) && !has_slots(db))
			oldest = db;
	}
	if (oldest == NULL)
		return;
	/* Nobody relies on it from now on. */
	oldest->info.ready = false;
	oldest->leave = true;
	if (oldest->latch != NULL)
		SetLatch(oldest->latch);
}

void
eo_database_started(Oid dboid, bool started)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Database   *db = find(dboid);

	if (db != NULL)
		db->started_us = started ? eo_clock_monotonic_us() : 0;
}
