/*-------------------------------------------------------------------------
 *
 * session_tokens.c
 *	  The tokens of claims that this session holds.
 *
 * A convenience, not a part of the protocol: whoever passes the token himself
 * needs none of it, and a token forgotten costs an ID008 and never a second
 * run.  So the table is bounded: past MAX_TOKENS the one unused for longest is
 * dropped.  A session that acquires and never completes cannot grow for ever.
 *
 * Found by a 64-bit hash; the key itself is compared, and in the case of a
 * collision the newer one takes the place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commit/session_tokens.h"
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define MAX_TOKENS 10000

typedef struct TokenEntry
{
	uint64		hash;
	dlist_node	node;			/* in recent, latest first */
	Oid			serverid;
	char	   *pk;
	EoSessionToken token;
} TokenEntry;

static HTAB *table;
static MemoryContext context;
static dlist_head recent = DLIST_STATIC_INIT(recent);

static TokenEntry *find_entry(Oid serverid, const char *pk, uint64 *hash);
static void drop_entry(TokenEntry *entry);

EoSessionToken *
eo_session_tokens_find(Oid serverid, const char *pk)
{
	uint64		hash;
	TokenEntry *entry = find_entry(serverid, pk, &hash);

	return entry != NULL ? &entry->token : NULL;
}

EoSessionToken *
eo_session_tokens_enter(Oid serverid, const char *pk)
{
	uint64		hash;
	TokenEntry *entry;
	char	   *copy;
	bool		found;

	if (table == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(TokenEntry)};

		context = AllocSetContextCreate(TopMemoryContext, "exactonce tokens",
										ALLOCSET_DEFAULT_SIZES);
		ctl.hcxt = context;
		table = hash_create("exactonce tokens", 64, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = find_entry(serverid, pk, &hash);
	if (entry != NULL)
	{
		dlist_move_head(&recent, &entry->node);
		return &entry->token;
	}
	if (hash_get_num_entries(table) >= MAX_TOKENS)
		drop_entry(dlist_tail_element(TokenEntry, node, &recent));

	copy = MemoryContextStrdup(context, pk);
	entry = hash_search(table, &hash, HASH_ENTER, &found);
	if (found)
	{
		dlist_delete(&entry->node);
		pfree(entry->pk);
	}
	entry->serverid = serverid;
	entry->pk = copy;
	memset(&entry->token, 0, sizeof(entry->token));
	dlist_push_head(&recent, &entry->node);
	return &entry->token;
}

void
eo_session_tokens_forget(Oid serverid, const char *pk)
{
	uint64		hash;
	TokenEntry *entry = find_entry(serverid, pk, &hash);

	if (entry != NULL)
		drop_entry(entry);
}

/*
 * A call may well be about another claim on the key than the one held.
 */
void
eo_session_tokens_forget_claim(Oid serverid, const char *pk, const char *token)
{
	uint64		hash;
	TokenEntry *entry = find_entry(serverid, pk, &hash);

	if (entry != NULL && strcmp(entry->token.held, token) == 0)
		drop_entry(entry);
}

static TokenEntry *
find_entry(Oid serverid, const char *pk, uint64 *hash)
{
	TokenEntry *entry;

	*hash = DatumGetUInt64(hash_any_extended((const unsigned char *) pk, strlen(pk),
											 (uint64) serverid));
	if (table == NULL)
		return NULL;
	entry = hash_search(table, hash, HASH_FIND, NULL);
	if (entry == NULL || entry->serverid != serverid || strcmp(entry->pk, pk) != 0)
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
