/*-------------------------------------------------------------------------
 *
 * slot_prepared.c
 *	  Claims that wait for the end of a prepared transaction.
 *
 * PREPARE TRANSACTION ends the session's part in a transaction and not the transaction.
 * What it has decided about its claims (sealed, failed, released) stays in their slots as
 * it is, and no process holds them any more.  They do not end with the session, and not
 * with the run of the server: the slots are in the claim file, and the worker makes slots
 * anew of the rows of the outbox if there is no file.
 *
 * Nobody says how a prepared transaction has ended, because it may be ended by a process
 * that knows nothing of this (an apply worker of a subscription).  So whoever sees that
 * it is not going on any more ends the slot, and the outbox tells the rest, as after a
 * crash.
 *
 * Others who wait for the key wait for the transaction's id, which it keeps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/databases.h"
#include "cluster/slot_prepared.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "compat.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "wire/clock.h"

typedef struct Shared
{
	pg_atomic_uint32 signals;
	Oid			complete[EO_MAX_DATABASES]; /* the claim table's lock covers
											 * it */
} Shared;

static Shared *shared;

Size
eo_slot_prepared_shmem_size(void)
{
	return MAXALIGN(sizeof(Shared));
}

void
eo_slot_prepared_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("exactonce prepared", eo_slot_prepared_shmem_size(), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(Shared));
	pg_atomic_init_u32(&shared->signals, 0);
}

void
eo_slot_prepared_announce(EoSlotRef ref, uint64 xid)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.announced_xid = xid;
	eo_claim_table_unlock();
}

void
eo_slot_prepared_begin(EoSlotRef ref, uint64 xid)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.pid = 0;
	slot->info.vxid = eo_compat_prepared_vxid((TransactionId) xid);
	slot->info.heir = EO_HEIR_ASKED;
	pg_write_barrier();
	slot->info.prepared_xid = xid;
	if (eo_slot_waits_unsealed(&slot->info))
	{
		slot->info.due_us = 1;	/* a heartbeat, now */
		eo_database_set_beat_due(eo_claim_table_database(slot), 0);
	}
	if (slot->info.state == EO_SLOT_TO_JUDGE)
		eo_slot_enter_state(slot, EO_SLOT_SEALING);
	pg_atomic_fetch_add_u32(&shared->signals, 1);
	eo_database_wake_worker(eo_claim_table_database(slot));
	eo_claim_table_unlock();
}

void
eo_slot_prepared_end(EoSlotRef ref)
{
	int64		now_us = eo_clock_monotonic_us();
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	if (eo_slot_is_prepared(&slot->info))
	{
		slot->info.ended_us = now_us;
		eo_slot_give_to_worker(ref.index, eo_slot_state_after_crash(&slot->info));
		pg_write_barrier();
		slot->info.prepared_xid = 0;
	}
	eo_claim_table_unlock();
}

void
eo_slot_prepared_signal(Oid dboid)
{
	pg_atomic_fetch_add_u32(&shared->signals, 1);
	eo_database_wake(dboid);
}

uint32
eo_slot_prepared_signals(void)
{
	return pg_atomic_read_u32(&shared->signals);
}

/* The entry of a database, or the first that is free; NULL: there is none. */
static Oid *
complete_entry(Oid dboid)
{
	Oid		   *entry = shared->complete;

	while (entry < shared->complete + EO_MAX_DATABASES && OidIsValid(*entry) && *entry != dboid)
		entry++;
	return entry < shared->complete + EO_MAX_DATABASES ? entry : NULL;
}

void
eo_slot_prepared_set_complete(Oid dboid)
{
	Oid		   *entry;

	eo_claim_table_lock(LW_EXCLUSIVE);
	entry = complete_entry(dboid);
	if (entry != NULL)
		*entry = dboid;
	eo_claim_table_unlock();
}

bool
eo_slot_prepared_is_complete(Oid dboid)
{
	const Oid  *entry;
	bool		complete;

	eo_claim_table_lock(LW_SHARED);
	entry = complete_entry(dboid);
	complete = entry != NULL && *entry == dboid;
	eo_claim_table_unlock();
	return complete;
}

bool
eo_slot_prepared_walk(Oid dboid, uint32 *cursor, EoSlotView *view)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < eo_claim_table.header->high_slot)
	{
		const EoSlot *slot = &eo_claim_table.slots[*cursor];

		found = slot->info.state != EO_SLOT_FREE && eo_slot_is_prepared(&slot->info) &&
			eo_claim_table_database(slot) == dboid;
		if (found)
			eo_slot_view_fill(*cursor, view);
		(*cursor)++;
	}
	eo_claim_table_unlock();
	return found;
}

bool
eo_slot_prepared_of_life(const uint8 *life)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot && !found; i++)
	{
		const EoSlotInfo *info = &eo_claim_table.slots[i].info;

		found = info->state != EO_SLOT_FREE && eo_slot_is_prepared(info) &&
			memcmp(info->origin.life, life, sizeof(info->origin.life)) == 0;
	}
	eo_claim_table_unlock();
	return found;
}

bool
eo_slot_prepared_is_known(const uint8 *digest, const char *token)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = *eo_claim_table_bucket(digest); i != EO_NO_INDEX && !found;
		 i = eo_claim_table.slots[i].next)
	{
		found = strcmp(eo_claim_table.slots[i].info.token, token) == 0;
	}
	for (uint32 i = 0; i < eo_claim_table.header->high_slot && !found; i++)
	{
		const EoSlotInfo *info = &eo_claim_table.slots[i].info;

		found = info->state != EO_SLOT_FREE && strcmp(info->token, token) == 0;
	}
	eo_claim_table_unlock();
	return found;
}

bool
eo_slot_prepared_find_completed(const char *token, EoSlotView *view)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot && !found; i++)
	{
		const EoSlotInfo *info = &eo_claim_table.slots[i].info;

		found = info->state == EO_SLOT_SEALING && eo_slot_is_prepared(info) &&
			strcmp(info->token, token) == 0;
		if (found)
			eo_slot_view_fill(i, view);
	}
	eo_claim_table_unlock();
	return found;
}

void
eo_slot_prepared_set_heir(EoSlotRef ref, EoSlotHeir heir, const uint8 *by)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.heir = heir;
	memcpy(slot->info.heir_by, by, EO_UUID_LEN);
	eo_claim_table_unlock();
}

void
eo_slot_prepared_note_seal(EoSlotRef ref, const EoOrigin *origin, bool release_on_abort)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.origin = *origin;
	slot->info.release_on_abort = release_on_abort;
	slot->info.due_us = 0;
	eo_database_list_ended(ref.index);
	eo_claim_table_unlock();
}
