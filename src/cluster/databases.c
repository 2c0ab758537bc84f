/*-------------------------------------------------------------------------
 *
 * databases.c
 *	  The databases of the cluster that use exactonce, and their workers.
 *
 * A database is wanted (by a call made in it, or because there is work), has a
 * worker starting, or has one; the launcher looks for those that are wanted and
 * have none.  A worker says that it lives; one that does not is noticed by the
 * sessions that depend on it.  A database can be suspended: then its worker
 * leaves and none is started, because a command needs the database empty.
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
#include "cluster/slots.h"
#include "dynamodb/clock.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

/* A worker that has ended is started again after this. */
#define RESTART_US INT64CONST(1000000)

typedef struct Database
{
	Oid			dboid;			/* InvalidOid: free */
	EoDatabaseInfo info;
	bool		wanted;
	bool		leave;			/* its worker is to go, and another to come */
	int64		started_us;		/* monotonic: when a worker was last started */
	Latch	   *latch;			/* its worker's */
	TimestampTz failing_since;	/* 0: the worker's last request was answered */
	EoError		failure;		/* the worker's latest, if it is failing */
	uint32		ended_head;		/* slots for its worker */
	uint32		ended_tail;
} Database;

typedef struct Databases
{
	Latch	   *launcher;
	Database	entries[EO_MAX_DATABASES];
} Databases;

static Databases *databases;

/* ----- memory ----- */

Size
eo_database_shmem_size(void)
{
	return sizeof(Databases);
}

void
eo_database_shmem_init(void)
{
	bool		found;

	databases = ShmemInitStruct("exactonce", sizeof(Databases), &found);
	memset(databases, 0, sizeof(Databases));
}

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

static Database *
find_or_enter(Oid dboid)
{
	Database   *db = find(dboid);

	for (int i = 0; db == NULL && i < EO_MAX_DATABASES; i++)
	{
		if (OidIsValid(databases->entries[i].dboid))
			continue;
		db = &databases->entries[i];
		memset(db, 0, sizeof(Database));
		db->dboid = dboid;
		db->info.known = true;
		db->ended_head = db->ended_tail = EO_NO_INDEX;
	}
	return db;
}

/* Nothing is kept of a database that has no worker, no slots and no claim to one. */
static void
forget_if_unused(Database *db)
{
	if (db->info.worker_pid == 0 && db->ended_head == EO_NO_INDEX && db->info.suspended == 0)
		memset(db, 0, sizeof(Database));
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

static bool
has_slots(Oid dboid)
{
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		const EoSlot *slot = &eo_claim_table.slots[i];

		if (slot->info.state != EO_SLOT_FREE && eo_claim_table_database(slot) == dboid)
			return true;
	}
	return false;
}

/*
 * Take the lock and find the entry.  Returns NULL, without the lock, if there is
 * none.  Otherwise the caller must release the lock.
 */
static Database *
lock_database(Oid dboid, LWLockMode mode)
{
	Database   *db;

	eo_claim_table_lock(mode);
	db = find(dboid);
	if (db == NULL)
		eo_claim_table_unlock();
	return db;
}

/* ----- for slots.c ----- */

bool
eo_database_enter(Oid dboid)
{
	return find_or_enter(dboid) != NULL;
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
eo_database_list_ended(uint32 index)
{
	EoSlot	   *slot = &eo_claim_table.slots[index];
	Database   *db = find_or_enter(eo_claim_table_database(slot));

	if (slot->listed || db == NULL)
		return;
	slot->listed = true;
	slot->next_ended = EO_NO_INDEX;
	if (db->ended_tail == EO_NO_INDEX)
		db->ended_head = index;
	else
		eo_claim_table.slots[db->ended_tail].next_ended = index;
	db->ended_tail = index;
}

/* The slot may stand anywhere in the list. */
void
eo_database_unlist_ended(uint32 index)
{
	EoSlot	   *slots = eo_claim_table.slots;
	Database   *db = find(eo_claim_table_database(&slots[index]));
	uint32	   *link;
	uint32		before = EO_NO_INDEX;

	if (!slots[index].listed || db == NULL)
		return;
	for (link = &db->ended_head; *link != EO_NO_INDEX && *link != index;)
	{
		before = *link;
		link = &slots[before].next_ended;
	}
	if (*link == EO_NO_INDEX)
		return;
	*link = slots[index].next_ended;
	if (db->ended_tail == index)
		db->ended_tail = before;
	slots[index].listed = false;
}

uint32
eo_database_first_ended(Oid dboid)
{
	Database   *db = find(dboid);

	return db != NULL ? db->ended_head : EO_NO_INDEX;
}

/* ----- for everybody ----- */

bool
eo_database_want(Oid dboid)
{
	Database   *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = find_or_enter(dboid);
	if (db != NULL)
	{
		db->info.absent = false;
		want(db);
	}
	eo_claim_table_unlock();
	return db != NULL;
}

bool
eo_database_info(Oid dboid, EoDatabaseInfo *info)
{
	Database   *db = lock_database(dboid, LW_SHARED);

	memset(info, 0, sizeof(*info));
	if (db == NULL)
		return false;
	*info = db->info;
	eo_claim_table_unlock();
	return true;
}

void
eo_database_wake(Oid dboid)
{
	Database   *db = lock_database(dboid, LW_SHARED);

	if (db == NULL)
		return;
	if (db->latch != NULL)
		SetLatch(db->latch);
	eo_claim_table_unlock();
}

void
eo_database_suspend(Oid dboid, bool suspended)
{
	Database   *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = suspended ? find_or_enter(dboid) : find(dboid);
	if (db != NULL)
	{
		db->info.suspended = Max(0, db->info.suspended + (suspended ? 1 : -1));
		if (db->latch != NULL)
			SetLatch(db->latch);
		if (!suspended && db->info.suspended == 0)
			want(db);
	}
	eo_claim_table_unlock();
}

void
eo_database_forget(Oid dboid)
{
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);

	if (db == NULL)
		return;
	forget_if_unused(db);
	eo_claim_table_unlock();
}

void
eo_database_renew(Oid dboid, Oid outbox)
{
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);

	if (db == NULL)
		return;
	if (db->info.ready && db->info.outbox != outbox)
	{
		db->info.ready = false;
		db->leave = true;
		db->wanted = true;
		eo_database_wake_worker(dboid);
	}
	eo_claim_table_unlock();
}

/* ----- for its worker ----- */

bool
eo_database_attach(Oid dboid)
{
	Database   *db;
	bool		attached;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = find_or_enter(dboid);
	attached = db != NULL && db->info.worker_pid == 0;
	if (attached)
	{
		db->info.worker_pid = MyProcPid;
		db->info.alive_us = eo_clock_monotonic_us();
		db->latch = MyLatch;
		db->wanted = false;
		db->failing_since = 0;
	}
	eo_claim_table_unlock();
	return attached;
}

void
eo_database_detach(Oid dboid, bool again)
{
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);

	if (db == NULL)
		return;
	if (db->info.worker_pid == MyProcPid)
	{
		db->info.worker_pid = 0;
		db->info.ready = false;
		db->latch = NULL;
		db->leave = false;
		/* Work that came up while it was leaving is for the next worker. */
		db->wanted |= again;
		/* The extension is not in it: its entry is free for another database. */
		if (db->info.absent && !db->wanted)
			forget_if_unused(db);
		wake_launcher();
	}
	eo_claim_table_unlock();
}

void
eo_database_publish(Oid dboid, const uint8 *origin, int64 incarnation, uint64 horizon, Oid outbox)
{
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);

	if (db == NULL)
		return;
	memcpy(db->info.origin, origin, sizeof(db->info.origin));
	db->info.incarnation = incarnation;
	db->info.horizon = horizon;
	db->info.outbox = outbox;
	db->info.alive_us = eo_clock_monotonic_us();
	db->info.absent = false;
	db->info.ready = true;
	eo_claim_table_unlock();
}

void
eo_database_absent(Oid dboid)
{
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);

	if (db == NULL)
		return;
	db->info.absent = true;
	db->info.ready = false;
	db->info.incarnation = 0;
	db->info.outbox = InvalidOid;
	db->wanted = false;
	eo_claim_table_unlock();
}

void
eo_database_alive(Oid dboid)
{
	Database   *db = lock_database(dboid, LW_SHARED);

	if (db == NULL)
		return;
	db->info.alive_us = eo_clock_monotonic_us();
	eo_claim_table_unlock();
}

void
eo_database_set_failure(Oid dboid, const EoError *error)
{
	TimestampTz now = GetCurrentTimestamp();
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);

	if (db == NULL)
		return;
	if (error == NULL)
		db->failing_since = 0;
	else
	{
		if (db->failing_since == 0)
			db->failing_since = now;
		db->failure = *error;
	}
	eo_claim_table_unlock();
}

bool
eo_database_failure(Oid dboid, EoError *error, TimestampTz *since)
{
	Database   *db = lock_database(dboid, LW_SHARED);

	if (db == NULL)
		return false;
	*error = db->failure;
	*since = db->failing_since;
	eo_claim_table_unlock();
	return *since != 0;
}

bool
eo_database_should_leave(Oid dboid)
{
	Database   *db = lock_database(dboid, LW_SHARED);
	bool		leave;

	if (db == NULL)
		return true;
	leave = db->info.suspended > 0 || db->leave;
	eo_claim_table_unlock();
	return leave;
}

bool
eo_database_may_leave(Oid dboid)
{
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);
	bool		may;

	if (db == NULL)
		return true;
	may = db->ended_head == EO_NO_INDEX && !has_slots(dboid);
	if (may)
		db->info.ready = false;
	eo_claim_table_unlock();
	return may;
}

/* ----- for the launcher ----- */

void
eo_database_launcher_attach(void)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	databases->launcher = MyLatch;
	eo_claim_table_unlock();
}

bool
eo_database_next_to_start(uint32 *cursor, Oid *dboid, bool *later)
{
	int64		now_us = eo_clock_monotonic_us();
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < EO_MAX_DATABASES)
	{
		Database   *db = &databases->entries[(*cursor)++];

		if (!OidIsValid(db->dboid) || db->info.worker_pid != 0 || db->info.suspended)
			continue;
		if (!db->wanted && (db->ended_head == EO_NO_INDEX || db->info.absent))
			continue;
		if (db->started_us != 0 && now_us - db->started_us < RESTART_US)
		{
			*later = true;
			continue;
		}
		*dboid = db->dboid;
		found = true;
	}
	eo_claim_table_unlock();
	return found;
}

void
eo_database_started(Oid dboid, bool started)
{
	Database   *db = lock_database(dboid, LW_EXCLUSIVE);

	if (db == NULL)
		return;
	db->started_us = started ? eo_clock_monotonic_us() : 0;
	eo_claim_table_unlock();
}
