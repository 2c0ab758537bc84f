/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Claiming many keys in parallel.
 *
 * The keys are asked for in parts of PART_SIZE, so that memory is bounded by a part
 * and not by the number of keys.  Within a part parallel_requests are in flight.
 * Outcomes are handed over in the order of the keys, part by part.
 *
 * If one key raises an error, the abort gives back every key that was claimed
 * before.  The claims whose answers have not been read are buried, see acquire.c.
 * Until the whole batch has succeeded each claim is untried: no work has begun, so
 * the abort counts no run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/progress.h"
#include "cluster/target.h"
#include "commit/xact.h"
#include "compat.h"
#include "keys/acquire.h"
#include "keys/batch.h"
#include "records/window.h"
#include "server/answer.h"
#include "server/bundle.h"
#include "server/store.h"
#include "utils/memutils.h"
#include "wire/call.h"
#include "wire/clock.h"

/* Several times EO_MAX_PARALLEL, so that little time is lost at the end of a part. */
#define PART_SIZE 400

typedef struct Entry
{
	EoAcquire	ask;
	EoAcquiring asking;
	EoClaim		claim;
	bool		repeated;		/* an earlier entry of this part has this key */
} Entry;

/* Entries that are asked for in parallel. */
typedef struct Part
{
	Entry	   *entries;
	int			n;
	int			next;			/* to be started */
	EoStore    *store;
	bool	   *bundles;		/* keys may share requests */
	List	   *alone;			/* entries that were in a bundle, and now need
								 * a request of their own */
} Part;

static void mark_repeated(Entry *entries, int n);
static void acquire_part(EoStore *store, Entry *entries, int n, bool *bundles);
static bool start_next(EoWindow *window, void *arg);
static void take_finished(EoWindow *window, EoCall *call, void *arg);
static void start(Entry *entry, EoWindow *window, bool answered);
static void end(Entry *entry);
static EoAnswer *next_together(EoBundle *bundle);
static void note_refusals(EoBundle *bundle);
static void take_together(EoAnswer *answer, void *arg);
static EoTxClaim *acquire_alone(Entry *entry);
static bool is_new(const Entry *entry);

void
eo_batch_acquire(EoStore *store, const EoAcquire *asks, int n, EoEmitClaim emit, void *arg)
{
	int64		give_up_us = eo_clock_monotonic_us() + (n > 0 ? asks[0].wait_ms * 1000 : 0);
	MemoryContext part = AllocSetContextCreate(CurrentMemoryContext, "exactonce batch",
											   ALLOCSET_DEFAULT_SIZES);
	EoTxClaim **claimed = palloc(sizeof(EoTxClaim *) * Max(1, n));
	int			nclaimed = 0;

	/* Fewer keys take one round by themselves. */
	bool		bundles = n > store->server->parallel_requests;
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
		acquire_part(store, entries, count, &bundles);
		for (int i = 0; i < count; i++)
		{
			Entry	   *entry = &entries[i];
			int64		left_us = give_up_us - eo_clock_monotonic_us();

			/*
			 * Keys are waited for one after the other, within one time for
			 * all.  A repeated key is asked for now, when the first is
			 * answered.
			 */
			entry->ask.wait_ms = Max(0, left_us / 1000);
			if (entry->repeated || (entry->claim.outcome == EO_CLAIM_IN_PROGRESS &&
									!entry->claim.mine && entry->ask.wait_ms > 0))
				entry->asking.held = acquire_alone(entry);
			if (entry->repeated)
				eo_progress_add(is_new(entry));
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

/* Mark each entry whose key is that of an earlier one. */
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

/* Ask for the keys of a part in parallel, but for repeated ones, without waiting. */
static void
acquire_part(EoStore *store, Entry *entries, int n, bool *bundles)
{
	Part		part = {.entries = entries,.n = n,.store = store,.bundles = bundles};
	EoWindow	window = {.n = 0};

	eo_window_run(&window, store->server->parallel_requests, start_next, take_finished, &part);
}

static bool
start_next(EoWindow *window, void *arg)
{
	static const EoBundleOwner owner = {
		.next = next_together,.ended = note_refusals,.take = take_together
	};
	Part	   *part = arg;
	Entry	   *entry;

	if (part->alone != NIL)
	{
		entry = linitial(part->alone);
		part->alone = list_delete_first(part->alone);
		start(entry, window,
			  entry->asking.answer == NULL && eo_acquire_begin(&entry->asking));
		return true;
	}
	if (part->next == part->n)
		return false;
	if (*part->bundles && eo_bundle_start_next(part->store, &owner, part, window, 0))
		return true;
	entry = &part->entries[part->next++];
	if (!entry->repeated)
		start(entry, window, eo_acquire_begin(&entry->asking));
	return true;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	EoAnswer   *answer;
	Entry	   *entry;

	(void) arg;
	if (eo_bundle_take(call))
		return;
	answer = eo_answer_of_call(call);
	entry = answer->user;
	if (eo_answer_take(answer, window, 0))
		start(entry, window, eo_acquire_take(&entry->asking));
}

/*
 * Move an entry on until it is answered or has a request in flight.  answered is what
 * eo_acquire_begin() or eo_acquire_take() has just returned.
 */
static void
start(Entry *entry, EoWindow *window, bool answered)
{
	while (!answered)
	{
		entry->asking.answer->user = entry;
		if (eo_answer_start(entry->asking.answer, window, 0))
			return;
		answered = eo_acquire_take(&entry->asking);
	}
	end(entry);
}

/* The entry is answered. */
static void
end(Entry *entry)
{
	eo_progress_add(is_new(entry));
	/* If another key raises an error, this one was not tried. */
	if (is_new(entry))
		entry->asking.held->untried = true;
}

/* Begin with an entry whose write may join the bundle.  Returns true if it is answered. */
static bool
begin_in(EoBundle *bundle, Entry *entry)
{
	bool		answered = false;

	PG_TRY();
	{
		answered = eo_acquire_begin(&entry->asking);
	}
	PG_CATCH();
	{
		/*
		 * Nothing was sent for those in the bundle, so nothing is left of
		 * them.
		 */
		for (int i = 0; i < bundle->n; i++)
		{
			Entry	   *other = bundle->members[i]->user;

			eo_acquire_forget(&other->asking);
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
	return answered;
}

static EoAnswer *
next_together(EoBundle *bundle)
{
	Part	   *part = bundle->arg;

	while (part->next < part->n)
	{
		Entry	   *entry = &part->entries[part->next++];

		if (entry->repeated)
			continue;
		if (!begin_in(bundle, entry))
		{
			entry->asking.answer->user = entry;
			return entry->asking.answer;
		}
		end(entry);
	}
	return NULL;
}

/* If most keys are taken, the others are not tried in bundles, which would be paid for twice. */
static void
note_refusals(EoBundle *bundle)
{
	Part	   *part = bundle->arg;

	if (2 * bundle->nrefused > bundle->n)
		*part->bundles = false;
}

/* A key that is not claimed together with others is asked for by itself. */
static void
take_together(EoAnswer *answer, void *arg)
{
	Part	   *part = arg;
	Entry	   *entry = answer->user;

	if (eo_acquire_take_bundled(&entry->asking))
		end(entry);
	else
		part->alone = lappend(part->alone, entry);
}

/* Ask for one key, and wait for it.  Returns the claim; NULL: it was not acquired. */
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

/* Has this batch acquired the key? */
static bool
is_new(const Entry *entry)
{
	return entry->claim.outcome == EO_CLAIM_ACQUIRED && entry->asking.held != NULL;
}
