/*-------------------------------------------------------------------------
 *
 * deferred_writes.c
 *	  Writes that a transaction collects, and hands in later for keys.
 *
 * They are of two sorts: those of the handler of an idem_call(), for its key; and those of
 * triggers, for which the commit makes keys, each with as many writes as DynamoDB takes in a
 * transaction.  Such a key is named after the transaction, so that it is new.
 *
 * What a subtransaction has collected goes with it if it is rolled back, and is its parent's
 * if it is released.  So of two writes to one item both are kept until the end: the earlier
 * one counts again if the later one is rolled back.
 *
 * Triggers are not fired in the order in which versions of a row were made: if one of them
 * changes the row again, the inner change is told of before the outer one; and if rows change
 * places, one comes to an item before the other one has left it.  So each write tells which
 * version of the row it has made and which one it has ended.  A version that was made and
 * not ended is there when the transaction commits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/life.h"
#include "commit/xact.h"
#include "keys/deferred_writes.h"
#include "keys/owner.h"
#include "keys/writes.h"
#include "ledger/item_order.h"
#include "ledger/lives.h"
#include "miscadmin.h"
#include "records/token.h"
#include "server/store.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "wire/hex.h"

/* The keys that the commit makes are remembered for an hour. */
#define RETENTION_S 3600

/* Of handlers that call each other. */
#define MAX_DEPTH 100

typedef struct Entry
{
	EoStore    *store;
	EoWriteItem write;
	SubTransactionId level;		/* it goes if this one is rolled back */
	int			handler;		/* depth of the handler; 0: none, it is for
								 * the commit */
	EoRowChange change;			/* of those for the commit */
} Entry;

/* Whether a version was made or ended. */
typedef struct Version
{
	EoRowVersion version;		/* the key */
	bool		made;			/* by this transaction */
	bool		ended;
} Version;

/* How much a write says about the end of its item. */
typedef enum Rank
{
	REPLACED,					/* another one has come after it */
	ENDED,						/* of a version that was ended */
	LEFT,						/* of a row that has left its item */
	LASTS						/* of a version that was not ended */
} Rank;

/* The write that counts for an item. */
typedef struct Last
{
	uint64		item;			/* the key */
	int			entry;
	Rank		rank;
} Last;

/* All of it ends with the transaction. */
static struct
{
	MemoryContext context;		/* NULL: nothing has been collected */
	Entry	   *entries;
	int			n;
	int			room;
	int			depth;			/* of handlers */
	EoStore    *stores[MAX_DEPTH + 1];	/* of handlers */
	SubTransactionId deepest;	/* no level is greater */
}			collected;

static void at_commit(void);
static void hand_in(EoStore *store, EoWrites *writes, int number);

static void
forget(void *arg)
{
	(void) arg;
	memset(&collected, 0, sizeof(collected));
}

/* A subtransaction has ended. */
static void
end_level(bool released, SubTransactionId mine, SubTransactionId parent)
{
	int			kept = 0;

	if (collected.n == 0 || collected.deepest < mine)
		return;
	collected.deepest = InvalidSubTransactionId;
	for (int i = 0; i < collected.n; i++)
	{
		Entry	   *e = &collected.entries[i];

		if (e->level >= mine)
		{
			if (!released)
				continue;
			e->level = parent;
		}
		collected.deepest = Max(collected.deepest, e->level);
		collected.entries[kept++] = *e;
	}
	collected.n = kept;
}

/* See that what is collected ends with the transaction, and with its parts. */
static void
prepare(void)
{
	MemoryContextCallback *callback;

	if (collected.context != NULL)
		return;
	eo_xact_follow_levels(end_level);
	callback = MemoryContextAllocZero(TopTransactionContext, sizeof(*callback));
	callback->func = forget;
	collected.context = AllocSetContextCreate(TopTransactionContext, "exactonce writes",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContextRegisterResetCallback(TopTransactionContext, callback);
}

static void
collect(EoStore *store, const EoWrites *writes, int handler, const EoRowChange *change)
{
	MemoryContext old = MemoryContextSwitchTo(collected.context);

	if (collected.n + writes->n > collected.room)
	{
		Size		size;

		collected.room = Max(128, 2 * collected.room);
		size = sizeof(Entry) * collected.room;
		collected.entries = collected.entries == NULL ?
			MemoryContextAllocHuge(collected.context, size) :
			repalloc_huge(collected.entries, size);
	}
	for (int i = 0; i < writes->n; i++)
	{
		Entry	   *e = &collected.entries[collected.n++];

		e->store = store;
		e->write = writes->list[i];
		e->write.text = pstrdup(e->write.text);
		e->write.item = pstrdup(e->write.item);
		e->level = GetCurrentSubTransactionId();
		e->handler = handler;
		if (change != NULL)
			e->change = *change;
		collected.deepest = Max(collected.deepest, e->level);
	}
	MemoryContextSwitchTo(old);
}

/* ----- for the key at hand ----- */

void
eo_deferred_writes_enter(EoStore *store)
{
	prepare();
	if (collected.depth == MAX_DEPTH)
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("too many handlers of idem_call() call each other"),
				 errdetail("There are %d.", MAX_DEPTH)));
	collected.stores[++collected.depth] = store;
}

/* Those that the innermost handler has collected so far. */
static const EoWrites *
of_handler(void)
{
	EoWrites   *writes = palloc0(sizeof(EoWrites));

	writes->list = palloc(sizeof(EoWriteItem) * EO_MAX_WRITES);
	for (int i = 0; i < collected.n; i++)
	{
		const Entry *e = &collected.entries[i];

		if (e->handler != collected.depth)
			continue;
		writes->list[writes->n++] = e->write;
		writes->size += e->write.size;
	}
	return writes;
}

const EoWrites *
eo_deferred_writes_leave(void)
{
	const EoWrites *writes = collected.n > 0 ? of_handler() : NULL;
	int			kept = 0;

	for (int i = 0; i < collected.n; i++)
	{
		if (collected.entries[i].handler != collected.depth)
			collected.entries[kept++] = collected.entries[i];
	}
	collected.n = kept;
	collected.depth--;
	return writes == NULL || writes->n == 0 ? NULL : writes;
}

EoStore *
eo_deferred_writes_store(void)
{
	return collected.stores[collected.depth];
}

void
eo_deferred_writes_add(const EoWrites *writes)
{
	EoWrites	all = *of_handler();

	eo_writes_append(&all, writes);
	eo_writes_lock(writes);
	collect(collected.stores[collected.depth], writes, collected.depth, NULL);
}

/* ----- for keys that the commit makes ----- */

void
eo_deferred_writes_at_commit(EoStore *store, const EoWrites *writes, const EoRowChange *change)
{
	eo_xact_at_commit(at_commit, store->server);
	prepare();
	collect(store, writes, 0, change);
}

/* Lock all items at once. */
static void
lock_all(void)
{
	uint64	   *locks = MemoryContextAllocHuge(collected.context, sizeof(uint64) * collected.n);

	for (int i = 0; i < collected.n; i++)
		locks[i] = collected.entries[i].write.lock;
	eo_item_order_lock(locks, collected.n);
	pfree(locks);
}

/* Find or enter a version of the row of an item; NULL: it has no name. */
static Version *
look_up(HTAB *versions, const Entry *e, const EoRowVersion *version)
{
	EoRowVersion key;
	Version    *v;
	bool		found;

	if (!ItemPointerIsValid(&version->tid))
		return NULL;
	memset(&key, 0, sizeof(key));
	key.item = e->write.hash;
	key.storage = version->storage;
	key.tid = version->tid;
	v = hash_search(versions, &key, HASH_ENTER, &found);
	if (!found)
		v->made = v->ended = false;
	return v;
}

/* Note all versions that were made and ended. */
static HTAB *
find_versions(void)
{
	HASHCTL		ctl = {.keysize = sizeof(EoRowVersion),.entrysize = sizeof(Version)};
	HTAB	   *versions;
	Version    *v;

	ctl.hcxt = collected.context;
	versions = hash_create("exactonce versions of rows", collected.n, &ctl,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; i < collected.n; i++)
	{
		const Entry *e = &collected.entries[i];

		if (e->change.put && (v = look_up(versions, e, &e->change.made)) != NULL)
			v->made = true;
		if (e->change.ends && (v = look_up(versions, e, &e->change.ended)) != NULL)
			v->ended = true;
	}
	return versions;
}

static Rank
rank_of(HTAB *versions, const Entry *e)
{
	const Version *v;

	if (!e->change.put)
		return LEFT;
	v = look_up(versions, e, &e->change.made);
	return v != NULL && v->ended ? ENDED : LASTS;
}

/*
 * Has the entry ended a version that this transaction has made, and that no entry tells of?
 * Then those before it are about older versions: there are triggers that are not fired by all
 * changes, and commands that give a table another storage.
 */
static bool
ends_unknown(HTAB *versions, const Entry *e)
{
	const Version *v;

	if (!e->change.ends || !e->change.own)
		return false;
	v = look_up(versions, e, &e->change.ended);
	return v == NULL || !v->made;
}

/* Note for each item the entry that counts. */
static HTAB *
find_last(void)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(Last)};
	HTAB	   *versions = find_versions();
	HTAB	   *all;

	ctl.hcxt = collected.context;
	all = hash_create("exactonce last writes", collected.n, &ctl,
					  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; i < collected.n; i++)
	{
		const Entry *e = &collected.entries[i];
		bool		found;
		Last	   *last = hash_search(all, &e->write.hash, HASH_ENTER, &found);
		Rank		rank = rank_of(versions, e);

		if (!found || ends_unknown(versions, e))
			last->rank = REPLACED;
		if (rank < last->rank)
			continue;
		last->rank = rank;
		last->entry = i;
	}
	return all;
}

/* Does another entry count for the same item? */
static bool
is_replaced(HTAB *all, int i)
{
	const Entry *e = &collected.entries[i];
	const Last *last = hash_search(all, &e->write.hash, HASH_FIND, NULL);

	return last->entry != i &&
		strcmp(collected.entries[last->entry].write.item, e->write.item) == 0;
}

/*
 * Hand in what was collected: for each server as many keys as its writes need, in the
 * order in which their items were last written.
 */
static void
at_commit(void)
{
	HTAB	   *last;
	EoWrites	writes = {0};
	int			number = 0;
	int			done = 0;

	if (collected.n == 0)
		return;
	lock_all();
	PushActiveSnapshot(GetTransactionSnapshot());
	last = find_last();
	writes.list = palloc(sizeof(EoWriteItem) * EO_MAX_WRITES);
	while (done < collected.n)
	{
		EoStore    *store = NULL;

		for (int i = 0; i < collected.n; i++)
		{
			Entry	   *e = &collected.entries[i];

			if (e->store == NULL || (store != NULL && e->store != store))
				continue;
			store = e->store;
			e->store = NULL;
			done++;
			if (is_replaced(last, i))
				continue;
			if (writes.n == EO_MAX_WRITES || !eo_writes_has_room(&writes, e->write.size))
				hand_in(store, &writes, ++number);
			writes.list[writes.n++] = e->write;
			writes.size += e->write.size;
		}
		if (writes.n > 0)
			hand_in(store, &writes, ++number);
	}
	collected.n = 0;
	PopActiveSnapshot();
}

/* Complete a key with the writes, and empty them. */
static void
hand_in(EoStore *store, EoWrites *writes, int number)
{
	EoLife		life;
	char		text[EO_UUID_TEXT_LEN + 1];
	char		token[EO_TOKEN_LEN + 1];
	char	   *key;

	eo_lives_await("mirror", store->server->name, &life);
	eo_hex_put_uuid(life.id, text);
	/* So that nobody can take the key before. */
	eo_store_new_token(token);
	key = psprintf("mirror/%s/%llu/%d/%s", text,
				   (unsigned long long) U64FromFullTransactionId(GetTopFullTransactionId()),
				   number, token);
	eo_owner_once(store, key, NULL, RETENTION_S, NULL, writes);
	writes->n = 0;
	writes->size = 0;
}
