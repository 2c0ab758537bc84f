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
#include "wire/clock.h"

static pg_atomic_uint32 * signals;

const EoMemory eo_slot_prepared_memory = {
	"exactonce prepared", sizeof(pg_atomic_uint32), (void **) &signals, NULL
};

void
eo_slot_prepared_announce(EoSlotRef ref, uint64 xid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot != NULL)
		slot->info.announced_xid = xid;
}

void
eo_slot_prepared_begin(EoSlotRef ref, uint64 xid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

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
	pg_atomic_fetch_add_u32(signals, 1);
	eo_database_wake_worker(eo_claim_table_database(slot));
}

void
eo_slot_prepared_end(EoSlotRef ref)
{
	int64		now_us = eo_clock_monotonic_us();
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL || !eo_slot_is_prepared(&slot->info))
		return;
	slot->info.ended_us = now_us;
	eo_slot_give_to_worker(slot, eo_slot_state_after_crash(&slot->info));
	pg_write_barrier();
	slot->info.prepared_xid = 0;
}

void
eo_slot_prepared_signal(Oid dboid)
{
	pg_atomic_fetch_add_u32(signals, 1);
	eo_database_wake(dboid);
}

uint32
eo_slot_prepared_signals(void)
{
	return pg_atomic_read_u32(signals);
}

bool
eo_slot_prepared_walk(Oid dboid, uint32 *cursor, EoSlotView *view)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoSlot *slot;

	while ((slot = eo_claim_table_next(dboid, cursor)) != NULL)
	{
		if (eo_slot_is_prepared(&slot->info))
		{
			eo_slot_view_fill(slot, view);
			return true;
		}
	}
	return false;
}

bool
eo_slot_prepared_of_life(const uint8 *life)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	uint32		cursor = 0;
	const EoSlot *slot;

	while ((slot = eo_claim_table_next(InvalidOid, &cursor)) != NULL)
	{
		if (eo_slot_is_prepared(&slot->info) &&
			memcmp(slot->info.origin.life, life, EO_UUID_LEN) == 0)
			return true;
	}
	return false;
}

bool
eo_slot_prepared_is_known(const uint8 *digest, const char *token)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	return eo_slot_view_of_token(digest, token, EO_SLOT_FREE) != NULL;
}

bool
eo_slot_prepared_find_completed(const char *token, EoSlotView *view)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	uint32		cursor = 0;
	const EoSlot *slot;

	while ((slot = eo_claim_table_next(InvalidOid, &cursor)) != NULL)
	{
		if (slot->info.state == EO_SLOT_SEALING && eo_slot_is_prepared(&slot->info) &&
			strcmp(slot->info.token, token) == 0)
		{
			eo_slot_view_fill(slot, view);
			return true;
		}
	}
	return false;
}

void
eo_slot_prepared_set_heir(EoSlotRef ref, EoSlotHeir heir, const uint8 *by)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.heir = heir;
	memcpy(slot->info.heir_by, by, EO_UUID_LEN);
}

void
eo_slot_prepared_note_seal(EoSlotRef ref, const EoOrigin *origin, bool release_on_abort)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.origin = *origin;
	slot->info.release_on_abort = release_on_abort;
	slot->info.due_us = 0;
	eo_database_list_ended(slot);
}
