/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Claiming many keys, side by side.
 *
 * Keys are taken a part at a time, so that memory is bounded by the part and
 * not by the whole; within it as many requests as the server's option allows
 * are under way.  Answers are handed over in the order of the keys.
 *
 * What fails raises, and the abort gives back all that has been claimed by
 * then; requests whose answers nobody has read are buried like any other, see
 * acquire.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/target.h"
#include "commit/xact.h"
#include "compat.h"
#include "dynamodb/call.h"
#include "dynamodb/clock.h"
#include "dynamodb/window.h"
#include "keys/acquire.h"
#include "keys/batch.h"
#include "server/answer.h"
#include "server/store.h"
#include "utils/memutils.h"

/* A multiple of what may be under way, so that few wait for the end of a part. */
#define PART_SIZE 256

typedef struct Entry
{
	EoAcquire	ask;
	EoAcquiring asking;
	EoClaim		claim;
	bool		repeated;		/* the key was in this part before */
} Entry;

static void ask_for(EoStore *store, Entry *entries, int n);
static bool start(Entry *entry, EoWindow *window, bool answered);
static EoTxClaim *acquire_alone(Entry *entry);
static bool is_new(const Entry *entry);
static void mark_repeated(Entry *entries, int n);

void
eo_batch_acquire(EoStore *store, const EoAcquire *asks, int n, EoEmitClaim emit, void *arg)
{
	int64		give_up_us = eo_clock_monotonic_us() + (n > 0 ? asks[0].wait_ms * 1000 : 0);
	MemoryContext part = AllocSetContextCreate(CurrentMemoryContext, "exactonce batch",
											   ALLOCSET_DEFAULT_SIZES);
	EoTxClaim **claimed = palloc(sizeof(EoTxClaim *) * Max(1, n));
	int			nclaimed = 0;
	MemoryContext old = MemoryContextSwitchTo(part);

	for (int first = 0; first < n; first += PART_SIZE)
	{
		int			count = Min(PART_SIZE, n - first);
		Entry	   *entries = palloc(sizeof(Entry) * count);

		for (int i = 0; i < count; i++)
		{
			entries[i].ask = asks[first + i];
			eo_acquire_init(&entries[i].asking, store, &entries[i].ask, &entries[i].claim);
		}
		mark_repeated(entries, count);
		ask_for(store, entries, count);
		for (int i = 0; i < count; i++)
		{
			Entry	   *entry = &entries[i];
			int64		left_us = give_up_us - eo_clock_monotonic_us();

			/* What is waited for is waited for in turn; one time for all. */
			entry->ask.wait_ms = Max(0, left_us / 1000);
			if (entry->repeated || (entry->claim.outcome == EO_CLAIM_IN_PROGRESS &&
									!entry->claim.mine && entry->ask.wait_ms > 0))
				entry->asking.held = acquire_alone(entry);
			if (is_new(entry))
				claimed[nclaimed++] = entry->asking.held;
			emit(arg, entry->ask.key, &entry->claim);
		}
		MemoryContextReset(part);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(part);
	for (int i = 0; i < nclaimed; i++)
		claimed[i]->untried = false;
	pfree(claimed);
}

/* A duplicate within a part is answered when the first is. */
static void
mark_repeated(Entry *entries, int n)
{
	for (int i = 0; i < n; i++)
	{
		entries[i].repeated = false;
		for (int j = 0; j < i && !entries[i].repeated; j++)
			entries[i].repeated = memcmp(entries[i].asking.k.digest, entries[j].asking.k.digest,
										 EO_DIGEST_LEN) == 0;
	}
}

/* The claim, if it was acquired. */
static EoTxClaim *
acquire_alone(Entry *entry)
{
	EoTxClaim  *claim;

	eo_acquire(entry->asking.k.store, &entry->ask, &entry->claim);
	if (entry->claim.outcome != EO_CLAIM_ACQUIRED)
		return NULL;
	claim = eo_xact_find(entry->asking.k.digest);
	if (claim != NULL)
		claim->untried = true;
	return claim;
}

static bool
is_new(const Entry *entry)
{
	return entry->claim.outcome == EO_CLAIM_ACQUIRED && entry->asking.held != NULL;
}

typedef struct Part
{
	Entry	   *entries;
	int			n;
	int			next;			/* to be started */
} Part;

static bool
start_next(EoWindow *window, void *arg)
{
	Part	   *part = arg;
	Entry	   *entry;

	if (part->next == part->n)
		return false;
	entry = &part->entries[part->next++];
	if (!entry->repeated)
		(void) start(entry, window, eo_acquire_begin(&entry->asking));
	return true;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	EoAnswer   *answer = eo_answer_of_call(call);
	Entry	   *entry = answer->user;

	(void) arg;
	if (eo_answer_take(answer, window, 0))
		(void) start(entry, window, eo_acquire_take(&entry->asking));
}

static void
ask_for(EoStore *store, Entry *entries, int n)
{
	Part		part = {.entries = entries,.n = n};
	EoWindow	window = {.n = 0};

	eo_window_run(&window, store->server->parallel_requests, start_next, take_finished, &part);
}

/* Until an entry is answered or has a request under way; true: it is answered. */
static bool
start(Entry *entry, EoWindow *window, bool answered)
{
	while (!answered)
	{
		entry->asking.answer->user = entry;
		if (eo_answer_start(entry->asking.answer, window, 0))
			return false;
		answered = eo_acquire_take(&entry->asking);
	}
	/* Should another one fail, nothing has been tried yet. */
	if (is_new(entry))
		entry->asking.held->untried = true;
	return true;
}
