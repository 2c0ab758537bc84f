/*-------------------------------------------------------------------------
 *
 * databases.c
 *	  The databases of the cluster that use exactonce, and their workers.
 *
 * A database is wanted (by a call made in it, or because there is work), has a
 * worker starting, or has one; the launcher looks for those that are wanted
 * and have none.  A worker says that it lives; one that does not is noticed by
 * whoever depends on it.  A database can be suspended: then its worker leaves
 * and none is started, because a command needs it empty.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/shmem.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "miscadmin.h"

EoDatabase *
eo_database_entry(Oid dboid, bool make)
{
	EoDatabase *room = NULL;

	for (int i = 0; i < EO_MAX_DATABASES; i++)
	{
		EoDatabase *db = &eo_shared->databases[i];

		if (db->dboid == dboid)
			return db;
		if (room == NULL && db->dboid == InvalidOid)
			room = db;
	}
	if (!make || room == NULL)
		return NULL;
	memset(room, 0, sizeof(EoDatabase));
	room->dboid = dboid;
	room->info.known = true;
	room->ended_head = room->ended_tail = EO_NO_INDEX;
	return room;
}

/* The worker, or who starts one. */
void
eo_database_wake_worker(EoDatabase *db)
{
	if (db != NULL && db->latch != NULL)
		SetLatch(db->latch);
	else if (db != NULL)
	{
		db->wanted = true;
		if (eo_shared->launcher != NULL)
			SetLatch(eo_shared->launcher);
	}
}

bool
eo_database_want(Oid dboid)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, true);
	if (db != NULL)
	{
		db->wanted = true;
		db->info.absent = false;
		if (eo_shared->launcher != NULL)
			SetLatch(eo_shared->launcher);
	}
	eo_claim_table_unlock();
	return db != NULL;
}

bool
eo_database_info(Oid dboid, EoDatabaseInfo *info)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_SHARED);
	db = eo_database_entry(dboid, false);
	if (db != NULL)
		*info = db->info;
	else
		memset(info, 0, sizeof(*info));
	eo_claim_table_unlock();
	return db != NULL;
}

void
eo_database_wake(Oid dboid)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_SHARED);
	db = eo_database_entry(dboid, false);
	if (db != NULL && db->latch != NULL)
		SetLatch(db->latch);
	eo_claim_table_unlock();
}

void
eo_database_suspend(Oid dboid, bool suspended)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, suspended);
	if (db != NULL)
	{
		db->info.suspended = Max(0, db->info.suspended + (suspended ? 1 : -1));
		if (db->latch != NULL)
			SetLatch(db->latch);
		if (!suspended && db->info.suspended == 0)
		{
			db->wanted = true;
			if (eo_shared->launcher != NULL)
				SetLatch(eo_shared->launcher);
		}
	}
	eo_claim_table_unlock();
}

void
eo_database_forget(Oid dboid)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	if (db != NULL && db->info.worker_pid == 0 && db->ended_head == EO_NO_INDEX &&
		db->info.suspended == 0)
		memset(db, 0, sizeof(EoDatabase));
	eo_claim_table_unlock();
}

bool
eo_database_attach(Oid dboid)
{
	EoDatabase *db;
	bool		attached = false;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, true);
	if (db != NULL && db->info.worker_pid == 0)
	{
		db->info.worker_pid = MyProcPid;
		db->info.alive_us = eo_clock_monotonic_us();
		db->latch = MyLatch;
		db->wanted = false;
		attached = true;

		/* What the last worker had in hand when it ended. */
		for (uint32 i = 0; i < eo_table->high_slot; i++)
		{
			EoSlotInfo *s = &eo_slots[i].info;

			if (s->state == EO_SLOT_FREE || eo_targets[eo_slots[i].target].target.dboid != dboid)
				continue;
			if (s->ended && !s->doubt)
				eo_claim_table_list_ended(i);
			else if (!s->ended && s->due_us == INT64_MAX)
				s->due_us = eo_clock_monotonic_us();
		}
	}
	eo_claim_table_unlock();
	return attached;
}

void
eo_database_detach(Oid dboid, bool again)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	if (db != NULL && db->info.worker_pid == MyProcPid)
	{
		db->info.worker_pid = 0;
		db->info.ready = false;
		db->latch = NULL;
		db->leave = false;
		/* What came up while it was leaving is for the next one. */
		db->wanted |= again;
		/* Not one of ours: its place is free for another. */
		if (db->info.absent && !db->wanted && db->ended_head == EO_NO_INDEX &&
			db->info.suspended == 0)
			memset(db, 0, sizeof(EoDatabase));
		if (eo_shared->launcher != NULL)
			SetLatch(eo_shared->launcher);
	}
	eo_claim_table_unlock();
}

void
eo_database_publish(Oid dboid, const uint8 *origin, int64 incarnation, uint64 horizon, Oid outbox)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	if (db != NULL)
	{
		memcpy(db->info.origin, origin, sizeof(db->info.origin));
		db->info.incarnation = incarnation;
		db->info.horizon = horizon;
		db->info.outbox = outbox;
		db->info.alive_us = eo_clock_monotonic_us();
		db->info.absent = false;
		db->info.ready = true;
	}
	eo_claim_table_unlock();
}

void
eo_database_absent(Oid dboid)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	if (db != NULL)
	{
		db->info.absent = true;
		db->info.ready = false;
		db->info.incarnation = 0;
		db->info.outbox = InvalidOid;
		db->wanted = false;
	}
	eo_claim_table_unlock();
}

void
eo_database_alive(Oid dboid)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_SHARED);
	db = eo_database_entry(dboid, false);
	if (db != NULL)
		db->info.alive_us = eo_clock_monotonic_us();
	eo_claim_table_unlock();
}

bool
eo_database_should_leave(Oid dboid)
{
	EoDatabase *db;
	bool		leave;

	eo_claim_table_lock(LW_SHARED);
	db = eo_database_entry(dboid, false);
	leave = db == NULL || db->info.suspended > 0 || db->leave;
	eo_claim_table_unlock();
	return leave;
}

bool
eo_database_may_leave(Oid dboid)
{
	EoDatabase *db;
	bool		may = true;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	if (db != NULL)
	{
		may = db->ended_head == EO_NO_INDEX;
		for (uint32 i = 0; may && i < eo_table->high_slot; i++)
			may = eo_slots[i].info.state == EO_SLOT_FREE ||
				eo_targets[eo_slots[i].target].target.dboid != dboid;
		if (may)
			db->info.ready = false;
	}
	eo_claim_table_unlock();
	return may;
}

void
eo_database_renew(Oid dboid, Oid outbox)
{
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	if (db != NULL && db->info.ready && db->info.outbox != outbox)
	{
		db->info.ready = false;
		db->leave = true;
		db->wanted = true;
		eo_database_wake_worker(db);
	}
	eo_claim_table_unlock();
}

/* ----- launcher ----- */

/* One that has ended is started again after this. */
#define RESTART_US INT64CONST(1000000)

void
eo_database_launcher_attach(void)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	eo_shared->launcher = MyLatch;
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
		EoDatabase *db = &eo_shared->databases[(*cursor)++];

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
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	if (db != NULL)
		db->started_us = started ? eo_clock_monotonic_us() : 0;
	eo_claim_table_unlock();
}
