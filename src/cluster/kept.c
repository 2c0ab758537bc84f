/*-------------------------------------------------------------------------
 *
 * kept.c
 *	  Claims that have outlived their transactions, for the view exactonce_claims.
 *
 * Such a claim has no slot: the record and the session's token are all that it needs.  This
 * is ordinary shared memory, which begins anew with every start of the server.  The lock of
 * the claim table covers it.  If there is no room, the claim whose lease ends first is not
 * shown any more.
 *
 * Entries are large, so what is searched for is in an array beside them: the search goes on
 * at the end of a transaction, under the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/kept.h"
#include "wire/clock.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#define MAX_KEPT 512

/* The part of an entry that searches look at. */
typedef struct Mark
{
	int64		until_us;		/* 0: unused */
	uint32		tag;			/* of the token */
} Mark;

typedef struct KeptClaims
{
	pg_atomic_uint32 n;			/* used, ended ones included; lets most calls
								 * do without the lock */
	int			next;			/* after the place that was taken last */
	Mark		marks[MAX_KEPT];
	EoKept		entries[MAX_KEPT];
} KeptClaims;

static KeptClaims *claims;

Size
eo_kept_shmem_size(void)
{
	return sizeof(KeptClaims);
}

void
eo_kept_shmem_init(void)
{
	bool		found;

	claims = ShmemInitStruct("exactonce kept claims", sizeof(KeptClaims), &found);
	memset(claims, 0, sizeof(KeptClaims));
	pg_atomic_init_u32(&claims->n, 0);
}

/* The first bytes of a token, which are random. */
static uint32
tag_of(const char *token)
{
	uint32		tag;

	StaticAssertStmt(sizeof(tag) <= EO_TOKEN_LEN, "a token is longer than its tag");
	memcpy(&tag, token, sizeof(tag));
	return tag;
}

/* The place of a claim; -1: there is none.  The caller must hold the lock. */
static int
find(const char *token)
{
	uint32		tag = tag_of(token);

	for (int i = 0; i < MAX_KEPT; i++)
	{
		if (claims->marks[i].tag == tag && claims->marks[i].until_us != 0 &&
			strcmp(claims->entries[i].token, token) == 0)
			return i;
	}
	return -1;
}

/* A free place, else that of the claim that ends first.  The caller must hold the lock. */
static int
find_room(void)
{
	const Mark *marks = claims->marks;
	int			first = claims->next;

	for (int i = 0; i < MAX_KEPT && marks[first].until_us != 0; i++)
	{
		if (marks[i].until_us < marks[first].until_us)
			first = i;
	}
	claims->next = (first + 1) % MAX_KEPT;
	return first;
}

/* Keys may be personal data, so nothing is left.  The caller must hold the lock. */
static void
clear(int i)
{
	memset(&claims->marks[i], 0, sizeof(Mark));
	memset(&claims->entries[i], 0, sizeof(EoKept));
	(void) pg_atomic_fetch_sub_u32(&claims->n, 1);
}

void
eo_kept_enter(const EoKept *kept)
{
	int			i;

	eo_claim_table_lock(LW_EXCLUSIVE);
	i = find_room();
	if (claims->marks[i].until_us == 0)
		(void) pg_atomic_fetch_add_u32(&claims->n, 1);
	claims->entries[i] = *kept;
	claims->marks[i].until_us = Max(kept->until_us, 1);
	claims->marks[i].tag = tag_of(kept->token);
	eo_claim_table_unlock();
}

void
eo_kept_remove(const char *token)
{
	int			i;

	if (pg_atomic_read_u32(&claims->n) == 0)
		return;
	eo_claim_table_lock(LW_EXCLUSIVE);
	i = find(token);
	if (i >= 0)
		clear(i);
	eo_claim_table_unlock();
}

void
eo_kept_extended(const char *token, int64 lease_until_ms, int64 until_us)
{
	int			i;

	eo_claim_table_lock(LW_EXCLUSIVE);
	i = find(token);
	if (i >= 0)
	{
		claims->entries[i].lease_until_ms = lease_until_ms;
		claims->entries[i].until_us = until_us;
		claims->marks[i].until_us = Max(until_us, 1);
	}
	eo_claim_table_unlock();
}

void
eo_kept_drop_database(Oid dboid)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_KEPT; i++)
	{
		if (claims->marks[i].until_us != 0 && claims->entries[i].dboid == dboid)
			clear(i);
	}
	eo_claim_table_unlock();
}

bool
eo_kept_walk(uint32 *cursor, EoKept *kept)
{
	int64		now_us = eo_clock_monotonic_us();
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < MAX_KEPT)
	{
		uint32		i = (*cursor)++;

		found = claims->marks[i].until_us > now_us;
		if (found)
			*kept = claims->entries[i];
	}
	eo_claim_table_unlock();
	return found;
}
