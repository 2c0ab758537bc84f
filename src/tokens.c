/*-------------------------------------------------------------------------
 *
 * tokens.c
 *	  The tokens that this session holds or may hold.
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

#include "common/hashfn.h"
#include "lib/ilist.h"
#include "tokens.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define MAX_TOKENS 10000

typedef struct TokenEntry
{
	uint64		hash;
	dlist_node	node;			/* in recent, latest first */
	Oid			serverid;
	char	   *pk;
	EoToken		token;
} TokenEntry;

static HTAB *table;
static MemoryContext context;
static dlist_head recent = DLIST_STATIC_INIT(recent);

static TokenEntry *find_entry(Oid serverid, const char *pk, uint64 *hash);
static void drop_entry(TokenEntry *entry);

EoToken *
eo_tokens_find(Oid serverid, const char *pk)
{
	uint64		hash;
	TokenEntry *entry = find_entry(serverid, pk, &hash);

	return entry != NULL ? &entry->token : NULL;
}

EoToken *
eo_tokens_enter(Oid serverid, const char *pk)
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
eo_tokens_forget(Oid serverid, const char *pk)
{
	uint64		hash;
	TokenEntry *entry = find_entry(serverid, pk, &hash);

	if (entry != NULL)
		drop_entry(entry);
}

void
eo_token_make(char token[EO_TOKEN_LEN + 1])
{
	uint8		b[16];

	if (!pg_strong_random(b, sizeof(b)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a token: no random numbers")));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(token, EO_TOKEN_LEN + 1,
			 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
			 b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
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
