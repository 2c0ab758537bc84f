/*-------------------------------------------------------------------------
 *
 * cache.c
 *	  Completed keys that are answered from memory.
 *
 * A duplicate that is found here costs no request.  A wrong answer would lose work, so
 * only one answer is ever given, "completed", and only as DynamoDB gave it:
 *
 * - An entry is made of a record that DynamoDB has shown as COMPLETED, in a refusal or
 *	 after a finish.  Neither a record that is sealed nor what a transaction is about to do
 *	 is kept.
 * - An entry is found by SHA-256 of endpoint, region, table and key, whole, whoever owns the
 *	 server.
 * - It is given only to callers with the credentials that fetched it, as DynamoDB would.
 * - It ends after the server's cache_ttl, and clock_skew before the record's own ttl.
 * - A key that this cluster forgets is dropped.  Each drop is counted by its part, and a
 *	 record whose request was sent before the last drop is not kept: the request may
 *	 have been answered before the key was forgotten.  What other clusters and services
 *	 forget is noticed after cache_ttl.
 *
 * The memory is divided into parts, by digest.  A part has a lock, a hash table of
 * its entries, and chunks for their results; nothing moves between parts.  If there is
 * no room, the hand of a clock goes round the entries: one that was used since the hand
 * was there stays for another round, else it makes room.  It passes the entries of roles that
 * take less than the newcomer's role does, so that no role drives the keys of another one out by
 * having many.
 *
 * This is ordinary shared memory.  It is empty after each start of the server, and a
 * standby, which answers no calls, has nothing in it when it is promoted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/cache.h"
#include "cluster/target.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "records/origin.h"
#include "server/guc.h"
#include "server/options.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "wire/client.h"
#include "wire/clock.h"

#define PARTS 16
#define TRANCHE "exactonce cache"

/* Results are chains of chunks; there are so many for each entry, on average. */
#define CHUNK_LEN 252
#define CHUNKS_PER_ENTRY 3

/* Roles are told apart by so many values of a hash. */
#define SHARES 64

#define NONE UINT32_MAX

typedef struct Chunk
{
	uint32		next;
	char		text[CHUNK_LEN];
} Chunk;

typedef struct Entry
{
	uint32		next;			/* in its bucket; of a free entry: the next
								 * free one */
	bool		used;
	bool		has_result;
	uint8		share;
	pg_atomic_uint32 touched;	/* since the hand was here */
	uint32		result_len;
	uint32		chunks;			/* the first one */
	uint8		digest[EO_DIGEST_LEN];
	uint8		credentials_hash[EO_CREDENTIALS_HASH_LEN];
	int64		seen_us;		/* eo_clock_steady_us() */
	int64		ttl_s;			/* 0: none */
	int64		fence;
	int64		runs;
	char		payload_sha256[65]; /* "": none */
	char		handler[EO_MAX_HANDLER_BYTES + 1];	/* "": none */
	char		origin[EO_ORIGIN_LEN + 1];	/* "": none */
} Entry;

typedef struct Part
{
	pg_atomic_uint64 drops;
	uint32		free_entries;
	uint32		free_chunks;
	uint32		hand;
	uint32		taken[SHARES];	/* entries and chunks of those that are used */
} Part;

/* The parts of a part. */
typedef struct View
{
	Part	   *part;
	LWLock	   *lock;
	uint32	   *buckets;		/* nentries of them */
	Entry	   *entries;
	Chunk	   *chunks;
} View;

static char *memory;			/* NULL: there is no cache */

static View view_of(const uint8 *digest);
static uint32 *bucket_of(const View *v, const uint8 *digest);
static Entry *find(const View *v, const uint8 *digest);
static bool is_valid(const EoStore *store, const Entry *e);
static void add_entry(const View *v, const EoStore *store, const uint8 *digest, const EoRecord *r);
static uint8 share_of(const EoServer *server);
static uint32 size_of(const Entry *e);
static void put_result(const View *v, Entry *e, const EoRecord *r);
static void make_room(const View *v, uint8 share);
static void remove_entry(const View *v, Entry *e);

/* ----- memory ----- */

static uint32
entries_of_part(void)
{
	return (uint32) ((eo_guc_cache_entries + PARTS - 1) / PARTS);
}

static uint32
chunks_of_part(void)
{
	/* The longest result must fit into any part. */
	return Max(entries_of_part() * CHUNKS_PER_ENTRY, EO_CACHE_MAX_RESULT / CHUNK_LEN + 1);
}

static Size
part_size(void)
{
	return MAXALIGN(sizeof(Part)) + MAXALIGN(sizeof(uint32) * entries_of_part()) +
		MAXALIGN(sizeof(Entry) * entries_of_part()) + MAXALIGN(sizeof(Chunk) * chunks_of_part());
}

void
eo_cache_request(void)
{
	if (eo_guc_cache_entries == 0)
		return;
	RequestAddinShmemSpace(mul_size(PARTS, part_size()));
	RequestNamedLWLockTranche(TRANCHE, PARTS);
}

static View
view_of_part(uint32 i)
{
	char	   *p = memory + i * part_size();
	View		v;

	v.part = (Part *) p;
	v.lock = &GetNamedLWLockTranche(TRANCHE)[i].lock;
	p += MAXALIGN(sizeof(Part));
	v.buckets = (uint32 *) p;
	p += MAXALIGN(sizeof(uint32) * entries_of_part());
	v.entries = (Entry *) p;
	p += MAXALIGN(sizeof(Entry) * entries_of_part());
	v.chunks = (Chunk *) p;
	return v;
}

void
eo_cache_init(void)
{
	uint32		nentries = entries_of_part();
	uint32		nchunks = chunks_of_part();
	bool		found;

	memory = NULL;
	if (eo_guc_cache_entries == 0)
		return;
	memory = ShmemInitStruct(TRANCHE, mul_size(PARTS, part_size()), &found);
	memset(memory, 0, PARTS * part_size());
	for (uint32 i = 0; i < PARTS; i++)
	{
		View		v = view_of_part(i);

		pg_atomic_init_u64(&v.part->drops, 0);
		for (uint32 j = 0; j < nentries; j++)
		{
			v.buckets[j] = NONE;
			pg_atomic_init_u32(&v.entries[j].touched, 0);
			v.entries[j].next = j + 1 < nentries ? j + 1 : NONE;
		}
		for (uint32 j = 0; j < nchunks; j++)
			v.chunks[j].next = j + 1 < nchunks ? j + 1 : NONE;
	}
}

/* A digest is random: some bits say which part, others which bucket. */
static View
view_of(const uint8 *digest)
{
	return view_of_part(digest[0] % PARTS);
}

static uint32 *
bucket_of(const View *v, const uint8 *digest)
{
	uint32		hash;

	memcpy(&hash, digest + 1, sizeof(hash));
	return &v->buckets[hash % entries_of_part()];
}

/* The caller must hold the lock, as for all that take a View below. */
static Entry *
find(const View *v, const uint8 *digest)
{
	for (uint32 i = *bucket_of(v, digest); i != NONE; i = v->entries[i].next)
	{
		if (memcmp(v->entries[i].digest, digest, EO_DIGEST_LEN) == 0)
			return &v->entries[i];
	}
	return NULL;
}

/* ----- answers ----- */

bool
eo_cache_is_used(const EoStore *store)
{
	return memory != NULL && store->server->cache_ttl_ms > 0;
}

void
eo_cache_digest(const EoTarget *target, const char *pk, uint8 *digest)
{
	eo_target_digest_of(target, InvalidOid, pk, digest);
}

bool
eo_cache_find(const EoStore *store, const uint8 *digest, EoRecord *r)
{
	View		v;
	char		result[EO_CACHE_MAX_RESULT];
	Entry		copy;
	Entry	   *e;

	if (!eo_cache_is_used(store))
		return false;
	v = view_of(digest);
	LWLockAcquire(v.lock, LW_SHARED);
	e = find(&v, digest);
	if (e == NULL || !is_valid(store, e))
	{
		LWLockRelease(v.lock);
		return false;
	}
	copy = *e;
	for (uint32 n = 0, i = e->chunks; n < e->result_len; n += CHUNK_LEN, i = v.chunks[i].next)
		memcpy(result + n, v.chunks[i].text, Min(CHUNK_LEN, e->result_len - n));
	if (pg_atomic_read_u32(&e->touched) == 0)
		pg_atomic_write_u32(&e->touched, 1);
	LWLockRelease(v.lock);

	memset(r, 0, sizeof(*r));
	r->state = EO_STATE_COMPLETED;
	r->owner = "";
	r->fence = copy.fence;
	r->runs = copy.runs;
	r->ttl_s = copy.ttl_s;
	if (copy.has_result)
		r->result = pnstrdup(result, copy.result_len);
	r->result_len = copy.result_len;
	r->payload_sha256 = copy.payload_sha256[0] != '\0' ? pstrdup(copy.payload_sha256) : NULL;
	r->handler = copy.handler[0] != '\0' ? pstrdup(copy.handler) : NULL;
	r->origin_text = copy.origin[0] != '\0' ? pstrdup(copy.origin) : NULL;
	r->has_origin = eo_origin_read(r->origin_text, &r->origin);
	return true;
}

static bool
is_valid(const EoStore *store, const Entry *e)
{
	const EoServer *server = store->server;

	return eo_clock_steady_us() - e->seen_us < server->cache_ttl_ms * 1000 &&
		(e->ttl_s == 0 ||
		 eo_client_now_ms(&store->client) + server->clock_skew_ms < e->ttl_s * 1000) &&
		eo_store_is_trusted(store, e->credentials_hash);
}

/* ----- filling ----- */

uint64
eo_cache_mark(const EoStore *store, const uint8 *digest)
{
	return !eo_cache_is_used(store) ? 0 : pg_atomic_read_u64(&view_of(digest).part->drops);
}

void
eo_cache_put(const EoStore *store, const uint8 *digest, const EoRecord *r, uint64 mark)
{
	View		v;
	Entry	   *e;

	if (!eo_cache_is_used(store) || r->state != EO_STATE_COMPLETED ||
		r->odd_result || r->odd_payload_sha256 || r->odd_handler ||
		r->result_len > EO_CACHE_MAX_RESULT ||
		(r->payload_sha256 != NULL && strlen(r->payload_sha256) >= sizeof(e->payload_sha256)) ||
		(r->handler != NULL && strlen(r->handler) >= sizeof(e->handler)) ||
		(r->origin_text != NULL && strlen(r->origin_text) >= sizeof(e->origin)))
		return;
	v = view_of(digest);
	LWLockAcquire(v.lock, LW_EXCLUSIVE);
	e = find(&v, digest);
	if (e != NULL)
		remove_entry(&v, e);
	if (pg_atomic_read_u64(&v.part->drops) == mark)
		add_entry(&v, store, digest, r);
	LWLockRelease(v.lock);
}

static void
add_entry(const View *v, const EoStore *store, const uint8 *digest, const EoRecord *r)
{
	uint32	   *bucket = bucket_of(v, digest);
	uint8		share = share_of(store->server);
	Entry	   *e;

	if (v->part->free_entries == NONE)
		make_room(v, share);
	e = &v->entries[v->part->free_entries];
	v->part->free_entries = e->next;
	e->share = share;
	memcpy(e->digest, digest, EO_DIGEST_LEN);
	memcpy(e->credentials_hash, store->credentials_hash, EO_CREDENTIALS_HASH_LEN);
	e->seen_us = eo_clock_steady_us();
	e->ttl_s = r->ttl_s;
	e->fence = r->fence;
	e->runs = r->runs;
	strlcpy(e->payload_sha256, r->payload_sha256 != NULL ? r->payload_sha256 : "",
			sizeof(e->payload_sha256));
	strlcpy(e->handler, r->handler != NULL ? r->handler : "", sizeof(e->handler));
	strlcpy(e->origin, r->origin_text != NULL ? r->origin_text : "", sizeof(e->origin));
	put_result(v, e, r);
	e->used = true;
	v->part->taken[share] += size_of(e);
	e->next = *bucket;
	*bucket = (uint32) (e - v->entries);
}

static uint8
share_of(const EoServer *server)
{
	uint32		database = hash_bytes_uint32(MyDatabaseId);

	return hash_combine(database, hash_bytes_uint32(server->userid)) % SHARES;
}

static uint32
size_of(const Entry *e)
{
	return 1 + (e->result_len + CHUNK_LEN - 1) / CHUNK_LEN;
}

/* Copy the result into chunks.  There are enough in a part for the longest one. */
static void
put_result(const View *v, Entry *e, const EoRecord *r)
{
	uint32	   *link = &e->chunks;

	e->has_result = r->result != NULL;
	e->result_len = (uint32) r->result_len;
	*link = NONE;
	for (size_t n = 0; n < r->result_len; n += CHUNK_LEN)
	{
		Chunk	   *c;

		while (v->part->free_chunks == NONE)
			make_room(v, e->share);
		*link = v->part->free_chunks;
		c = &v->chunks[*link];
		v->part->free_chunks = c->next;
		c->next = NONE;
		memcpy(c->text, r->result + n, Min(CHUNK_LEN, r->result_len - n));
		link = &c->next;
	}
}

/*
 * Remove the entry that the hand comes to next, of a role that takes more than this one, or of
 * this one.  There is one: the caller has found that entries or chunks are all in use, and has one
 * entry at most, which does not count as used.
 */
static void
make_room(const View *v, uint8 share)
{
	const uint32 *taken = v->part->taken;

	for (;;)
	{
		Entry	   *e = &v->entries[v->part->hand];

		v->part->hand = (v->part->hand + 1) % entries_of_part();
		if (e->used && (e->share == share || taken[e->share] > taken[share]) &&
			pg_atomic_exchange_u32(&e->touched, 0) == 0)
		{
			remove_entry(v, e);
			return;
		}
	}
}

/* Results may be personal data: they are wiped. */
static void
remove_entry(const View *v, Entry *e)
{
	uint32	   *link = bucket_of(v, e->digest);
	uint32		self = (uint32) (e - v->entries);

	v->part->taken[e->share] -= size_of(e);
	while (*link != self)
		link = &v->entries[*link].next;
	*link = e->next;
	for (uint32 i = e->chunks, next; i != NONE; i = next)
	{
		next = v->chunks[i].next;
		memset(&v->chunks[i], 0, sizeof(Chunk));
		v->chunks[i].next = v->part->free_chunks;
		v->part->free_chunks = i;
	}
	memset(e->digest, 0, sizeof(e->digest));
	memset(e->payload_sha256, 0, sizeof(e->payload_sha256));
	e->used = false;
	pg_atomic_write_u32(&e->touched, 0);
	e->next = v->part->free_entries;
	v->part->free_entries = self;
}

/* ----- forgetting ----- */

void
eo_cache_drop(const uint8 *digest)
{
	View		v;
	Entry	   *e;

	if (memory == NULL)
		return;
	v = view_of(digest);
	LWLockAcquire(v.lock, LW_EXCLUSIVE);
	(void) pg_atomic_fetch_add_u64(&v.part->drops, 1);
	e = find(&v, digest);
	if (e != NULL)
		remove_entry(&v, e);
	LWLockRelease(v.lock);
}
