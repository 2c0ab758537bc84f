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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/kept.h"
#include "dynamodb/clock.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#define MAX_KEPT 512

typedef struct KeptClaims
{
	pg_atomic_uint32 n;			/* used, ended ones included; lets most calls
								 * do without the lock */
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

/* The caller must hold the lock. */
static EoKept *
find(const char *token)
{
	for (int i = 0; i < MAX_KEPT; i++)
	{
		EoKept	   *e = &claims->entries[i];

		if (OidIsValid(e->dboid) && strcmp(e->token, token) == 0)
			return e;
	}
	return NULL;
}

/* A free entry, else the one that ends first.  The caller must hold the lock. */
static EoKept *
find_room(void)
{
	EoKept	   *first = &claims->entries[0];

	for (int i = 0; i < MAX_KEPT; i++)
	{
		EoKept	   *e = &claims->entries[i];

		if (!OidIsValid(e->dboid))
			return e;
		if (e->until_us < first->until_us)
			first = e;
	}
	return first;
}

void
eo_kept_enter(const EoKept *kept)
{
	EoKept	   *e;

	eo_claim_table_lock(LW_EXCLUSIVE);
	e = find_room();
	if (!OidIsValid(e->dboid))
		(void) pg_atomic_fetch_add_u32(&claims->n, 1);
	*e = *kept;
	eo_claim_table_unlock();
}

void
eo_kept_remove(const char *token)
{
	EoKept	   *e;

	if (pg_atomic_read_u32(&claims->n) == 0)
		return;
	eo_claim_table_lock(LW_EXCLUSIVE);
	e = find(token);
	if (e != NULL)
	{
		/* Keys may be personal data. */
		memset(e, 0, sizeof(EoKept));
		(void) pg_atomic_fetch_sub_u32(&claims->n, 1);
	}
	eo_claim_table_unlock();
}

void
eo_kept_extended(const char *token, int64 lease_until_ms, int64 until_us)
{
	EoKept	   *e;

	eo_claim_table_lock(LW_EXCLUSIVE);
	e = find(token);
	if (e != NULL)
	{
		e->lease_until_ms = lease_until_ms;
		e->until_us = until_us;
	}
	eo_claim_table_unlock();
}

void
eo_kept_drop_database(Oid dboid)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_KEPT; i++)
	{
		EoKept	   *e = &claims->entries[i];

		if (e->dboid != dboid)
			continue;
		memset(e, 0, sizeof(EoKept));
		(void) pg_atomic_fetch_sub_u32(&claims->n, 1);
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
		const EoKept *e = &claims->entries[(*cursor)++];

		found = OidIsValid(e->dboid) && e->until_us > now_us;
		if (found)
			*kept = *e;
	}
	eo_claim_table_unlock();
	return found;
}
