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

#include "acquire.h"
#include "compat.h"
#include "http.h"
#include "utils/memutils.h"

/* A multiple of what may be under way, so that few wait for the end of a part. */
#define PART 256

typedef struct Entry
{
	EoAcquire	ask;
	EoAsking	asking;
	EoClaim		claim;
	bool		repeated;		/* the key was in this part before */
} Entry;

static void ask_for(EoStore *store, Entry *items, int n);
static bool start(Entry *item, EoWindow *window, bool answered);
static void mark_repeated(Entry *items, int n);

void
eo_claim_acquire_many(EoStore *store, const EoAcquire *asks, int n, EoEmitClaim emit, void *arg)
{
	int64		give_up_us = eo_clock_monotonic_us() + (n > 0 ? asks[0].wait_ms * 1000 : 0);
	MemoryContext part = AllocSetContextCreate(CurrentMemoryContext, "exactonce batch",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(part);

	for (int first = 0; first < n; first += PART)
	{
		int			count = Min(PART, n - first);
		Entry	   *items = palloc(sizeof(Entry) * count);

		for (int i = 0; i < count; i++)
		{
			items[i].ask = asks[first + i];
			eo_asking_init(&items[i].asking, store, &items[i].ask, &items[i].claim);
		}
		mark_repeated(items, count);
		ask_for(store, items, count);
		for (int i = 0; i < count; i++)
		{
			Entry	   *item = &items[i];
			int64		left_us = give_up_us - eo_clock_monotonic_us();

			/* What is waited for is waited for in turn; one time for all. */
			item->ask.wait_ms = Max(0, left_us / 1000);
			if (item->repeated || (item->claim.outcome == EO_CLAIM_IN_PROGRESS &&
								   !item->claim.mine && item->ask.wait_ms > 0))
				eo_claim_acquire(store, &item->ask, &item->claim);
			emit(arg, item->ask.key, &item->claim);
		}
		MemoryContextReset(part);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(part);
}

/* A duplicate within a part is answered when the first is. */
static void
mark_repeated(Entry *items, int n)
{
	for (int i = 0; i < n; i++)
	{
		items[i].repeated = false;
		for (int j = 0; j < i && !items[i].repeated; j++)
			items[i].repeated = memcmp(items[i].asking.digest, items[j].asking.digest,
									   EO_DIGEST_LEN) == 0;
	}
}

static void
ask_for(EoStore *store, Entry *items, int n)
{
	EoWindow	window = {.n = 0};
	int			parallel = Min(store->server->parallel_requests, EO_MAX_PARALLEL);
	int			next = 0;

	while (next < n || window.n > 0)
	{
		EoCall	   *finished[EO_MAX_PARALLEL];
		int64		until;
		int			nfinished;

		while (next < n && window.n < parallel)
		{
			Entry	   *item = &items[next++];

			if (!item->repeated)
				(void) start(item, &window, eo_asking_begin(&item->asking));
		}
		nfinished = eo_window_step(&window, finished, &until);
		for (int i = 0; i < nfinished; i++)
		{
			EoAnswer   *answer = eo_answer_of_call(finished[i]);
			Entry	   *item = answer->user;

			if (eo_answer_take(answer, &window, 0))
				(void) start(item, &window, eo_asking_take(&item->asking));
		}
		if (nfinished == 0 && window.n > 0)
			eo_http_wait(until, EO_WAIT_RAISE);
	}
}

/* Until an item is answered or has a request under way; true: it is answered. */
static bool
start(Entry *item, EoWindow *window, bool answered)
{
	while (!answered)
	{
		item->asking.answer->user = item;
		if (eo_answer_start(item->asking.answer, window, 0))
			return false;
		answered = eo_asking_take(&item->asking);
	}
	return true;
}
