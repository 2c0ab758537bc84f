/*-------------------------------------------------------------------------
 *
 * kept.c
 *	  What a process has kept, and whether shared memory is accounted for.
 *
 * Linked into the extension beside points.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "cluster/claim_table.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/progress.h"
#include "server/credential_cache.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "points.h"
#include "server/credentials.h"
#include "server/store.h"
#include "wire/http.h"
#include "storage/lock.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* What eo_fail_leak() keeps is more than what caches grow and shrink by. */
#define LEAK 100000

PG_FUNCTION_INFO_V1(eo_fail_kept);
PG_FUNCTION_INFO_V1(eo_fail_shared);
PG_FUNCTION_INFO_V1(eo_fail_leak);
PG_FUNCTION_INFO_V1(eo_fail_give_up_life);
PG_FUNCTION_INFO_V1(eo_fail_has_credentials);

/* ----- the worker ----- */

/* The bytes in use in a context and those below it. */
static int64
used_bytes(MemoryContext context)
{
	MemoryContextCounters counters = {0};
	int64		used;

	context->methods->stats(context, NULL, NULL, &counters, false);
	used = (int64) (counters.totalspace - counters.freespace);
	for (MemoryContext child = context->firstchild; child != NULL; child = child->nextchild)
		used += used_bytes(child);
	return used;
}

static void
count_kept(Kept *kept)
{
	struct mallinfo2 info = mallinfo2();
	DIR		   *dir = opendir("/proc/self/fd");

	/* Errors are reported in a context of their own, which is reset before the next. */
	kept->memory = used_bytes(TopMemoryContext) - used_bytes(ErrorContext);
	kept->heap = (int64) (info.uordblks + info.hblkhd) + mapped_bytes;
	kept->descriptors = 0;
	while (dir != NULL && readdir(dir) != NULL)
		kept->descriptors++;
	if (dir != NULL)
		closedir(dir);
}

extern void __real_eo_http_wait(int64_t until_us, EoWaitMode mode);
extern void __wrap_eo_http_wait(int64_t until_us, EoWaitMode mode);

/* The worker waits here between two rounds. */
void
__wrap_eo_http_wait(int64_t until_us, EoWaitMode mode)
{
	if (this_process() == WORKER && mode == EO_WAIT_LATCH)
	{
		Kept		kept;

		count_kept(&kept);
		shared->kept = kept;
		shared->worker_pid = MyProcPid;
		shared->rounds++;
	}
	__real_eo_http_wait(until_us, mode);
}

/* ----- shared memory that is accounted for ----- */

/* What the slots in use take of everything. */
typedef struct Use
{
	uint32		slots;
	uint32		chunks;
	uint32		targets[EO_MAX_TARGETS];
	uint32		shares[EO_MAX_SHARES][EO_N_RESOURCES];
	uint32		looks[EO_MAX_SHARES];	/* that are listed */
} Use;

static void
use_of_slots(Use *use)
{
	const EoClaimTable *t = &eo_claim_table;

	memset(use, 0, sizeof(*use));
	for (uint32 i = 0; i < t->header->high_slot; i++)
	{
		const EoSlot *slot = &t->slots[i];
		const EoTargetEntry *entry = &t->targets[slot->target];
		uint32		places[2] = {entry->role_share, entry->database_share};
		uint32		of_pk;
		uint32		of_error;
		uint32		weight;

		if (slot->info.state == EO_SLOT_FREE)
			continue;
		of_pk = eo_claim_table_chunks(slot->pk_len);
		of_error = eo_claim_table_chunks(slot->error_len);
		/* A claim of a session pays for the slot that settles it, too. */
		weight = slot->info.prepaid ? 0 : slot->info.session ? 2 : 1;
		use->slots++;
		use->chunks += of_pk + of_error;
		use->targets[slot->target]++;
		for (int j = 0; j < 2; j++)
		{
			use->shares[places[j]][EO_RESOURCE_TARGETS] += use->targets[slot->target] == 1;
			if (slot->info.state == EO_SLOT_BURIED)
			{
				use->shares[places[j]][EO_RESOURCE_LOOKS]++;
				if (eo_slot_has_origin(&slot->info))
				{
					use->shares[places[j]][EO_RESOURCE_COMMIT_LOOKS]++;
					use->shares[places[j]][EO_RESOURCE_COMMIT_CHUNKS] += of_pk;
				}
				continue;
			}
			use->shares[places[j]][EO_RESOURCE_SLOTS] += weight;
			use->shares[places[j]][EO_RESOURCE_CHUNKS] += weight * of_pk + of_error;
		}
		use->looks[entry->role_share] += slot->info.state == EO_SLOT_BURIED && slot->listed;
	}
}

/* Are the looks of a role, and no others, in its lists? */
static bool
are_listed(EoShare *share, uint32 n)
{
	for (int i = 0; i < EO_LOOK_KINDS * EO_LOOKS; i++)
	{
		dlist_iter	iter;

		dlist_foreach(iter, &share->looks[i / EO_LOOKS][i % EO_LOOKS])
		{
			const EoSlot *slot = dlist_container(EoSlot, node, iter.cur);

			if (slot->info.state != EO_SLOT_BURIED || !slot->listed)
				return false;
			n--;
		}
	}
	return n == 0;
}

/* Compare what is counted in shared memory with what there is.  NULL: they agree. */
static const char *
compare_use(const Use *use)
{
	const EoClaimTable *t = &eo_claim_table;
	uint32		free_slots = 0;
	uint32		free_chunks = 0;

	for (const EoSlot *slot = t->header->free_slot; slot != NULL; slot = slot->next)
		free_slots += slot < t->slots + t->header->high_slot;
	for (uint32 i = t->header->free_chunk; i != EO_NO_INDEX; i = t->chunks[i].next)
		free_chunks++;
	if (use->slots + free_slots != t->header->high_slot)
		return "a slot is neither in use nor free";
	if (free_chunks != t->header->nfree_chunks || use->chunks + free_chunks != t->header->nchunks)
		return "a chunk is neither in use nor free";
	for (uint32 i = 0; i < EO_MAX_TARGETS; i++)
	{
		if (use->targets[i] != t->targets[i].refs)
			return "a target does not count the slots that name it";
	}
	for (uint32 i = 1; i < EO_MAX_SHARES; i++)
	{
		if (t->shares[i].targets > 0 &&
			memcmp(use->shares[i], t->shares[i].taken, sizeof(use->shares[i])) != 0)
			return "a share does not count what it has";
		if (t->shares[i].targets > 0 && !are_listed(&t->shares[i], use->looks[i]))
			return "a look is in no list, or in a list that it does not belong to";
	}
	return NULL;
}

/* Long calls that go on without a process. */
static const char *
find_progress(void)
{
	uint32		cursor = 0;
	EoProgress	progress;

	while (eo_progress_walk(&cursor, &progress))
	{
		if (progress.pid == MyProcPid || BackendPidGetProc(progress.pid) == NULL)
			return "a long call has not ended";
	}
	return NULL;
}

/* Locks that no process can give back any more.  Prepared transactions have none. */
static const char *
find_lock(void)
{
	LockData   *data = GetLockStatusData();

	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *lock = &data->locks[i];

		if (lock->holdMask != 0 && lock->pid != 0 && BackendPidGetProc(lock->pid) == NULL &&
			kill(lock->pid, 0) != 0)
			return "a process has ended, and its lock is left";
	}
	return NULL;
}

/* ----- for SQL ----- */

/*
 * eo_fail_kept(process int): the pid of the process, bytes of PostgreSQL's memory and of
 * malloc()'s, and descriptors.  Those of the worker are from after the call.
 */
Datum
eo_fail_kept(PG_FUNCTION_ARGS)
{
	Kept		kept;
	int			pid = MyProcPid;

	if (PG_GETARG_INT32(0) == SESSION)
		count_kept(&kept);
	else
	{
		int64		since = shared->rounds;

		for (int i = 0; i < 3000 && shared->rounds < since + 2; i++)
		{
			eo_database_wake(MyDatabaseId);
			CHECK_FOR_INTERRUPTS();
			pg_usleep(1000);
		}
		kept = shared->kept;
		pid = shared->worker_pid;
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%d|%lld|%lld|%lld", pid,
											  (long long) kept.memory, (long long) kept.heap,
											  (long long) kept.descriptors)));
}

static const char *
find_miscount(void)
{
	static Use	use;
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	use_of_slots(&use);
	return compare_use(&use);
}

/* What is wrong with the counts in shared memory; 'ok': nothing. */
Datum
eo_fail_shared(PG_FUNCTION_ARGS)
{
	const char *wrong = find_miscount();

	(void) fcinfo;
	if (wrong == NULL)
		wrong = find_progress();
	if (wrong == NULL)
		wrong = find_lock();
	PG_RETURN_TEXT_P(cstring_to_text(wrong != NULL ? wrong : "ok"));
}

/*
 * eo_fail_leak(what text, failed bool): for the test of these tests.  Something is not given
 * back, if that point has failed.
 */
Datum
eo_fail_leak(PG_FUNCTION_ARGS)
{
	const char *what = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (strcmp(what, "memory") == 0)
		(void) MemoryContextAlloc(TopMemoryContext, LEAK);
	else if (strcmp(what, "heap") == 0)
	{
		static void *lost[2];

		lost[0] = lost[1];
		lost[1] = malloc(LEAK);
	}
	else if (strcmp(what, "descriptor") == 0)
	{
		for (int i = 0; i < 5; i++)
			(void) dup(STDERR_FILENO);
	}
	else if (strcmp(what, "chunk") == 0)
	{
		EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
		uint32		first;

		(void) eo_claim_table_put_text("x", 1, &first);
	}
	PG_RETURN_VOID();
}

/* The current life of this database is over, as if another data directory had retired it. */
Datum
eo_fail_give_up_life(PG_FUNCTION_ARGS)
{
	EoLife		life;

	(void) fcinfo;
	if (eo_life_current(MyDatabaseId, &life))
		eo_life_give_up(MyDatabaseId, life.id);
	PG_RETURN_VOID();
}

/*
 * eo_fail_has_credentials(server text): does the cache have those of the server?  If it does
 * not know them, it does from now on, and the worker fetches them.
 */
Datum
eo_fail_has_credentials(PG_FUNCTION_ARGS)
{
	EoStore    *store = eo_store_open(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	EoCredentialReport report;

	eo_credential_cache_look(eo_credentials_wish(&store->client), &report);
	if (!report.has_identity)
		eo_database_wake(MyDatabaseId);
	PG_RETURN_BOOL(report.has_identity);
}
