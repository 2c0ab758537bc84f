/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  Long work that goes on in the cluster, for the view exactonce_progress.
 *
 * This is ordinary shared memory, which begins anew with every start of the server.  The
 * lock of the claim table covers which entries are in use; the numbers in an entry are
 * written by its process alone, without the lock.  A process enters its work, and removes it
 * even if it ends by an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/progress.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "wire/clock.h"

/* Work that finds no room is not shown. */
#define MAX_ENTRIES 256

typedef struct Entry
{
	int			pid;			/* 0: unused */
	int			outer;			/* the work that this is a part of; -1: none */
	Oid			dboid;
	Oid			serverid;
	const char *activity;		/* the library lies at the same address in all
								 * processes, which the postmaster has forked */
	int64		total;
	int64		since_us;
	pg_atomic_uint64 done;
	pg_atomic_uint64 found;
} Entry;

static Entry *entries;

/* The work of this process that was begun last; -1: none. */
static int	mine = -1;

Size
eo_progress_shmem_size(void)
{
	return sizeof(Entry) * MAX_ENTRIES;
}

void
eo_progress_shmem_init(void)
{
	bool		found;

	entries = ShmemInitStruct("exactonce progress", eo_progress_shmem_size(), &found);
	memset(entries, 0, eo_progress_shmem_size());
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		pg_atomic_init_u64(&entries[i].done, 0);
		pg_atomic_init_u64(&entries[i].found, 0);
	}
}

int
eo_progress_begin(const char *activity, Oid serverid, int64 total)
{
	int			number = -1;

	eo_claim_table_lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_ENTRIES && number < 0; i++)
	{
		Entry	   *e = &entries[i];

		if (e->pid != 0)
			continue;
		number = i;
		e->pid = MyProcPid;
		e->outer = mine;
		e->dboid = MyDatabaseId;
		e->serverid = serverid;
		e->activity = activity;
		e->total = total;
		e->since_us = eo_clock_monotonic_us();
		pg_atomic_write_u64(&e->done, 0);
		pg_atomic_write_u64(&e->found, 0);
	}
	eo_claim_table_unlock();
	if (number >= 0)
		mine = number;
	return number;
}

void
eo_progress_end(int number)
{
	if (number < 0)
		return;
	mine = entries[number].outer;
	eo_claim_table_lock(LW_EXCLUSIVE);
	entries[number].pid = 0;
	eo_claim_table_unlock();
}

void
eo_progress_note(int64 done, int64 found)
{
	if (mine < 0)
		return;
	pg_atomic_write_u64(&entries[mine].done, (uint64) done);
	pg_atomic_write_u64(&entries[mine].found, (uint64) found);
}

void
eo_progress_add(int64 found)
{
	if (mine < 0)
		return;
	(void) pg_atomic_fetch_add_u64(&entries[mine].done, 1);
	(void) pg_atomic_fetch_add_u64(&entries[mine].found, found);
}

bool
eo_progress_walk(uint32 *cursor, EoProgress *progress)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < MAX_ENTRIES)
	{
		Entry	   *e = &entries[(*cursor)++];

		if (e->pid == 0)
			continue;
		found = true;
		progress->pid = e->pid;
		progress->dboid = e->dboid;
		progress->serverid = e->serverid;
		progress->activity = e->activity;
		progress->total = e->total;
		progress->since_us = e->since_us;
		progress->done = (int64) pg_atomic_read_u64(&e->done);
		progress->found = (int64) pg_atomic_read_u64(&e->found);
	}
	eo_claim_table_unlock();
	return found;
}
