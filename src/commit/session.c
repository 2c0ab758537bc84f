/*-------------------------------------------------------------------------
 *
 * session.c
 *	  What a session keeps when a transaction has ended: tokens, and claims.
 *
 * Tokens of claims are remembered, so that a later transaction need not pass them.
 * This is a convenience and no part of the protocol.  A caller that passes its
 * token does not need it, and a token that was forgotten leads to an ID008 and
 * never to a second run.  So the table may be bounded: a session that acquires
 * keys and never completes them must not grow without limit.  If there are
 * MAX_TOKENS, the one whose key was acquired longest ago is dropped.
 *
 * An entry is found by a 64-bit hash of server, role and key; then these are compared.
 * If two entries have the same hash, the newer one replaces the other.
 *
 * A claim with on_commit => 'session' is held by the session.  It keeps its slot when its
 * transaction has committed (EO_SLOT_SESSION), and the worker goes on extending its lease.
 * A later transaction that settles the key enters it with a slot of its own, as it does
 * with any claim that is older than it (owner.c); this one is freed when that has
 * succeeded (xact.c).
 *
 * When the process ends, the slot becomes one whose transaction was rolled back, and
 * the worker gives the key back.  There are three ways to this:
 *
 * - The process ends by itself, or is terminated: give_back_at_exit().
 * - The process is killed.  Then PostgreSQL ends all others, too, and begins anew; or
 *	 the whole server is killed.  The next claim table takes over the slot
 *	 (eo_slot_state_after_crash() in slots.c).
 * - Neither has happened, and there is no such process any more: the worker finds that
 *	 out at the next heartbeat (settling.c).
 *
 * No heir of our life gives such a key back: what the record says (bind is session) is
 * no proof that the session is over, as it is for the claim of a transaction.  So if the
 * machine is lost, the key is free when its lease is over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/slots.h"
#include "commit/lost.h"
#include "commit/session.h"
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* ----- tokens ----- */

#define MAX_TOKENS 10000

typedef struct TokenEntry
{
	uint64		hash;
	dlist_node	node;			/* in recent */
	Oid			serverid;
	Oid			userid;			/* the role that acquired */
	char	   *pk;
	EoSessionToken remembered;
} TokenEntry;

static HTAB *table;				/* NULL: not made yet */
static MemoryContext context;	/* of the table and its strings */
static dlist_head recent = DLIST_STATIC_INIT(recent);	/* latest first */

static bool expected;			/* give_back_at_exit() is registered */

static TokenEntry *find_entry(const EoServer *server, const char *pk, uint64 *hash);
static void drop_entry(TokenEntry *entry);

/* ----- tokens ----- */

EoSessionToken *
eo_session_tokens_find(const EoServer *server, const char *pk)
{
	uint64		hash;
	TokenEntry *entry = find_entry(server, pk, &hash);

	return entry != NULL ? &entry->remembered : NULL;
}

EoSessionToken *
eo_session_tokens_enter(const EoServer *server, const char *pk)
{
	uint64		hash;
	TokenEntry *entry;
	bool		found;

	if (table == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(TokenEntry)};

		/* There is one already if the table could not be made. */
		if (context == NULL)
			context = AllocSetContextCreate(TopMemoryContext, "exactonce tokens",
											ALLOCSET_DEFAULT_SIZES);
		MemoryContextReset(context);
		ctl.hcxt = context;
		table = hash_create("exactonce tokens", 64, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = find_entry(server, pk, &hash);
	if (entry != NULL)
	{
		dlist_move_head(&recent, &entry->node);
		return &entry->remembered;
	}
	if (hash_get_num_entries(table) >= MAX_TOKENS)
		drop_entry(dlist_tail_element(TokenEntry, node, &recent));

	entry = hash_search(table, &hash, HASH_ENTER, &found);
	if (found)
	{
		dlist_delete(&entry->node);
		pfree(entry->pk);
	}
	/* Last, because nobody would free it if there were no room for the entry. */
	entry->pk = MemoryContextAllocExtended(context, strlen(pk) + 1, MCXT_ALLOC_NO_OOM);
	if (entry->pk == NULL)
	{
		hash_search(table, &hash, HASH_REMOVE, NULL);
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	memcpy(entry->pk, pk, strlen(pk) + 1);
	entry->serverid = server->serverid;
	entry->userid = server->userid;
	memset(&entry->remembered, 0, sizeof(entry->remembered));
	dlist_push_head(&recent, &entry->node);
	return &entry->remembered;
}

void
eo_session_tokens_forget(const EoServer *server, const char *pk, const char *token)
{
	uint64		hash;
	TokenEntry *entry = find_entry(server, pk, &hash);

	if (entry != NULL && (token == NULL || strcmp(entry->remembered.token, token) == 0))
		drop_entry(entry);
}

/* Find an entry; NULL: there is none.  *hash is set in both cases. */
static TokenEntry *
find_entry(const EoServer *server, const char *pk, uint64 *hash)
{
	TokenEntry *entry;

	*hash = DatumGetUInt64(hash_any_extended((const unsigned char *) pk, strlen(pk),
											 (uint64) server->serverid << 32 | server->userid));
	if (table == NULL)
		return NULL;
	entry = hash_search(table, hash, HASH_FIND, NULL);
	if (entry == NULL || entry->serverid != server->serverid || entry->userid != server->userid ||
		strcmp(entry->pk, pk) != 0)
		return NULL;
	return entry;
}

static void
drop_entry(TokenEntry *entry)
{
	dlist_delete(&entry->node);
	pfree(entry->pk);
	hash_search(table, &entry->hash, HASH_REMOVE, NULL);
}

/* ----- claims ----- */

/*
 * This is called after the open transaction was rolled back, which ends its claims, and
 * while locks of shared memory can still be taken.
 */
static void
give_back_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	eo_slot_end_session(MyProcPid);
}

void
eo_session_claim_expect(void)
{
	if (!expected)
		on_shmem_exit(give_back_at_exit, (Datum) 0);
	expected = true;
}

void
eo_session_claims_end(void)
{
	if (expected)
		eo_slot_end_session(MyProcPid);
	eo_lost_forget(NULL);
}
