/*-------------------------------------------------------------------------
 *
 * claim_table.c
 *	  The memory of the claim table: its parts, its lock, and their free lists.
 *
 * The table has a slot for each claim of an open transaction (slots.c).  Its
 * memory is a file that is mapped by the postmaster (claim_file.c), so that it
 * survives the end of every process.
 *
 * Keys and the texts of errors are chains of chunks of a fixed size, so that
 * they are bounded by exactonce.max_claims as well.  Servers and roles are
 * entered once, and counted by the slots that name them.
 *
 * One lock covers the table, the databases (databases.c) and the services' clocks
 * (service_clocks.c).  It is held for some hundred instructions at a time, never
 * across a system call.  Nothing is allocated and nothing is raised while it is held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/slot.h"
#include "cluster/target.h"
#include "storage/proc.h"

EoClaimTable eo_claim_table;

EoSlot	  **
eo_claim_table_bucket(const uint8 *digest)
{
	uint32		hash;

	memcpy(&hash, digest, sizeof(hash));
	return &eo_claim_table.buckets[hash & (eo_claim_table.header->nbuckets - 1)];
}

/* The postmaster is the only process at start, and has no PGPROC: no lock is taken. */
EoTakenLock
eo_claim_table_lock(LWLockMode mode)
{
	if (MyProc == NULL)
		return NULL;
	LWLockAcquire(eo_claim_table.lock, mode);
	return eo_claim_table.lock;
}

void
eo_claim_table_unlock(EoTakenLock * lock)
{
	if (*lock != NULL)
		LWLockRelease(*lock);
}

EoSlot *
eo_claim_table_slot(EoSlotRef ref)
{
	EoSlot	   *slot = &eo_claim_table.slots[ref.index];

	if (ref.index >= eo_claim_table.header->nslots || slot->generation != ref.generation ||
		slot->info.state == EO_SLOT_FREE)
		return NULL;
	return slot;
}

EoSlot *
eo_claim_table_next(Oid dboid, uint32 *cursor)
{
	while (*cursor < eo_claim_table.header->high_slot)
	{
		EoSlot	   *slot = &eo_claim_table.slots[(*cursor)++];

		if (slot->info.state != EO_SLOT_FREE &&
			(!OidIsValid(dboid) || eo_claim_table_database(slot) == dboid))
			return slot;
	}
	return NULL;
}

void
eo_claim_table_list(EoSlot *slot, dlist_head *list)
{
	if (!slot->listed)
		dlist_push_tail(list, &slot->node);
	slot->listed = true;
}

void
eo_claim_table_unlist(EoSlot *slot)
{
	if (slot->listed)
		dlist_delete(&slot->node);
	slot->listed = false;
}

/* ----- targets ----- */

/* A target counts the slots that name it. */
bool
eo_claim_table_has_slots(Oid dboid)
{
	for (uint32 i = 0; i < EO_MAX_TARGETS; i++)
	{
		const EoTargetEntry *entry = &eo_claim_table.targets[i];

		if (entry->refs > 0 && entry->target.dboid == dboid)
			return true;
	}
	return false;
}

/* ----- texts ----- */

uint32
eo_claim_table_chunks(uint32 len)
{
	return (len + EO_CHUNK_BYTES - 1) / EO_CHUNK_BYTES;
}

bool
eo_claim_table_put_text(const char *text, uint32 len, uint32 *first)
{
	EoClaimTableHeader *header = eo_claim_table.header;
	uint32		n = eo_claim_table_chunks(len);
	uint32	   *link = first;

	if (n > header->nfree_chunks)
		return false;
	header->nfree_chunks -= n;
	for (uint32 i = 0; i < n; i++)
	{
		uint32		part = Min(len, EO_CHUNK_BYTES);
		uint32		chunk = header->free_chunk;

		header->free_chunk = eo_claim_table.chunks[chunk].next;
		memcpy(eo_claim_table.chunks[chunk].data, text, part);
		text += part;
		len -= part;
		*link = chunk;
		link = &eo_claim_table.chunks[chunk].next;
	}
	*link = EO_NO_INDEX;
	return true;
}

void
eo_claim_table_drop_text(uint32 first, uint32 len)
{
	EoClaimTableHeader *header = eo_claim_table.header;

	for (uint32 n = eo_claim_table_chunks(len); n > 0; n--)
	{
		EoChunk    *chunk = &eo_claim_table.chunks[first];
		uint32		next = chunk->next;

		/* Keys may be personal data: nothing of them stays in the file. */
		memset(chunk->data, 0, EO_CHUNK_BYTES);
		chunk->next = header->free_chunk;
		header->free_chunk = first;
		header->nfree_chunks++;
		first = next;
	}
}

bool
eo_claim_table_read_text(const EoClaimTable *from, uint32 first, char *out, uint32 len)
{
	while (len > 0)
	{
		uint32		n = Min(len, EO_CHUNK_BYTES);

		if (first >= from->header->nchunks)
			return false;
		memcpy(out, from->chunks[first].data, n);
		out += n;
		len -= n;
		first = from->chunks[first].next;
	}
	return true;
}
