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
#include "server/entries.h"
#include "wire/clock.h"

/* Work that finds no room is not shown: a database has half of what the others leave. */
#define MAX_ENTRIES 1024

typedef struct Entry
{
	EoEntry		entry;
	EoProgress	shown;			/* but the next two */
	int			outer;			/* the work that this is a part of; -1: none */
	pg_atomic_uint64 done;
	pg_atomic_uint64 found;
} Entry;

static Entry *entries;

/* The work of this process that was begun last; -1: none. */
static int	mine = -1;

static void
begin(void)
{
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		pg_atomic_init_u64(&entries[i].done, 0);
		pg_atomic_init_u64(&entries[i].found, 0);
	}
}

const EoMemory eo_progress_memory = {
	"exactonce progress", sizeof(Entry) * MAX_ENTRIES, (void **) &entries, begin
};

int
eo_progress_begin(const char *activity, Oid serverid, int64 total)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoEntries	all = eo_progress_entries();
	Entry	   *e = eo_entries_take_share(&all, MyDatabaseId, GetUserId());

	if (e == NULL)
		return -1;

	/*
	 * The library lies at the same address in all processes, and so does the
	 * activity.
	 */
	e->shown = (EoProgress)
	{
		.pid = MyProcPid,.dboid = MyDatabaseId,.serverid = serverid,.activity = activity,
			.total = total,.since_us = eo_clock_monotonic_us()
	};
	e->outer = mine;
	pg_atomic_write_u64(&e->done, 0);
	pg_atomic_write_u64(&e->found, 0);
	mine = (int) (e - entries);
	return mine;
}

EoEntries
eo_progress_entries(void)
{
	return (EoEntries)
	{
		entries, sizeof(Entry), MAX_ENTRIES, NULL
	};
}

void
eo_progress_end(int number)
{
	if (number >= 0)
	{
		EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

		mine = entries[number].outer;
		entries[number].entry.dboid = InvalidOid;
	}
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
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	while (*cursor < MAX_ENTRIES)
	{
		Entry	   *e = &entries[(*cursor)++];

		if (!OidIsValid(e->entry.dboid))
			continue;
		*progress = e->shown;
		progress->done = (int64) pg_atomic_read_u64(&e->done);
		progress->found = (int64) pg_atomic_read_u64(&e->found);
		return true;
	}
	return false;
}
