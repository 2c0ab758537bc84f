/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  What is done with the slots of the claim table.
 *
 * A slot is changed by the backend that holds the claim until its transaction
 * is over, and by the worker of its database after that; see claim_table.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/shmem.h"
#include "cluster/target.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "miscadmin.h"

void
eo_slot_info_init(EoSlotInfo *info, EoSlotState state, const uint8 *digest, const char *token)
{
	memset(info, 0, sizeof(*info));
	info->state = state;
	memcpy(info->digest, digest, sizeof(info->digest));
	strlcpy(info->token, token, sizeof(info->token));
	info->pid = MyProcPid;
	info->vxid = eo_compat_my_vxid();
	info->since_us = eo_clock_monotonic_us();
}

EoShmemStatus
eo_slot_add(const EoTarget *target, const char *pk, const EoSlotInfo *info, EoSlotRef *ref)
{
	EoShmemStatus status = EO_SHMEM_OK;
	uint32		index;
	uint32		t;

	eo_claim_table_lock(LW_EXCLUSIVE);
	index = eo_table->free_slot;
	t = eo_claim_table_enter_target(target);
	if (index == EO_NO_INDEX && eo_claim_table_make_room())
		index = eo_table->free_slot;
	if (index == EO_NO_INDEX)
		status = EO_SHMEM_FULL;
	else if (t == EO_NO_INDEX)
		status = EO_SHMEM_NO_TARGET;
	else if (eo_database_entry(target->dboid, true) == NULL)
		status = EO_SHMEM_NO_DATABASE;
	else if (!eo_claim_table_put_text(pk, strlen(pk), &eo_slots[index].pk))
		status = EO_SHMEM_NO_TEXT;
	else
	{
		EoSlot	   *slot = &eo_slots[index];
		uint32	   *bucket = eo_claim_table_bucket(info->digest);
		EoSlotState state = info->state;

		eo_table->free_slot = slot->next;
		if (index >= eo_table->high_slot)
			eo_table->high_slot = index + 1;
		eo_targets[t].refs++;
		slot->pk_len = strlen(pk);
		slot->error_len = 0;
		slot->target = t;
		slot->listed = false;

		/*
		 * The state last: who reads the file after a kill in the middle of
		 * this finds a free slot, and nothing has been sent yet.
		 */
		slot->info = *info;
		slot->info.state = EO_SLOT_FREE;
		pg_write_barrier();
		slot->info.state = state;
		slot->next = *bucket;
		*bucket = index;
		ref->index = index;
		ref->generation = slot->generation;
	}
	eo_claim_table_unlock();
	return status;
}

void
eo_slot_asked(EoSlotRef ref, int64 fence, int64 runs, int64 lease_until_ms, int64 ttl_s)
{
	EoSlot	   *slot;

	eo_claim_table_lock(LW_EXCLUSIVE);
	slot = eo_claim_table_slot(ref);
	if (slot != NULL)
	{
		slot->info.fence = fence;
		slot->info.runs = runs;
		slot->info.lease_until_ms = lease_until_ms;
		slot->info.ttl_s = ttl_s;
		slot->info.state = EO_SLOT_HELD;
	}
	eo_claim_table_unlock();
}

void
eo_slot_sealing(EoSlotRef ref, const EoSlotInfo *origin, bool bound)
{
	EoSlot	   *slot;

	eo_claim_table_lock(LW_EXCLUSIVE);
	slot = eo_claim_table_slot(ref);
	if (slot != NULL)
	{
		memcpy(slot->info.database, origin->database, sizeof(slot->info.database));
		slot->info.xid = origin->xid;
		slot->info.lsn = origin->lsn;
		slot->info.timeline = origin->timeline;
		slot->info.incarnation = origin->incarnation;
		slot->info.bound = bound;
		pg_write_barrier();
		slot->info.state = EO_SLOT_SEALING;
	}
	eo_claim_table_unlock();
}

EoShmemStatus
eo_slot_verdict(EoSlotRef ref, EoVerdict verdict, bool terminal, int64 retry_after_ms,
				const char *error, size_t error_len)
{
	EoShmemStatus status = EO_SHMEM_OK;
	EoSlot	   *slot;

	eo_claim_table_lock(LW_EXCLUSIVE);
	slot = eo_claim_table_slot(ref);
	if (slot != NULL)
	{
		eo_claim_table_drop_text(slot->error, slot->error_len);
		slot->error_len = 0;
		if (error_len > 0 && !eo_claim_table_put_text(error, error_len, &slot->error))
			status = EO_SHMEM_NO_TEXT;
		else
		{
			slot->error_len = error_len;
			slot->info.verdict = verdict;
			slot->info.terminal = terminal;
			slot->info.retry_after_ms = retry_after_ms;
		}
	}
	eo_claim_table_unlock();
	return status;
}

void
eo_slot_extended(EoSlotRef ref, int64 lease_until_ms, int64 lease_ms)
{
	EoSlot	   *slot;

	eo_claim_table_lock(LW_EXCLUSIVE);
	slot = eo_claim_table_slot(ref);
	if (slot != NULL)
	{
		slot->info.lease_until_ms = lease_until_ms;
		slot->info.lease_ms = lease_ms;
		slot->info.due_us = eo_clock_monotonic_us() + lease_ms * 1000 / 3;
	}
	eo_claim_table_unlock();
}

bool
eo_slot_is_lost(EoSlotRef ref)
{
	bool		lost;

	eo_claim_table_lock(LW_SHARED);
	lost = eo_claim_table_slot(ref) == NULL || eo_slots[ref.index].info.lost;
	eo_claim_table_unlock();
	return lost;
}

uint32
eo_slot_lost_count(void)
{
	return pg_atomic_read_u32(&eo_shared->lost);
}

static void
end_slot(EoSlotRef ref, bool committed, int64 retention_s)
{
	EoSlot	   *slot;

	eo_claim_table_lock(LW_EXCLUSIVE);
	slot = eo_claim_table_slot(ref);
	if (slot != NULL)
	{
		EoDatabase *db = eo_database_entry(eo_targets[slot->target].target.dboid, false);

		slot->info.committed = committed;
		if (committed)
			slot->info.retention_s = retention_s;
		pg_write_barrier();
		slot->info.ended = true;
		slot->info.due_us = 0;
		eo_claim_table_list_ended(ref.index);
		eo_database_wake_worker(db);
	}
	eo_claim_table_unlock();
}

void
eo_slot_end(EoSlotRef ref)
{
	end_slot(ref, false, 0);
}

void
eo_slot_committed(EoSlotRef ref, int64 retention_s)
{
	end_slot(ref, true, retention_s);
}

void
eo_slot_free(EoSlotRef ref)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	if (eo_claim_table_slot(ref) != NULL)
		eo_claim_table_free_slot(ref.index);
	eo_claim_table_unlock();
}

static void
view_slot(uint32 index, EoSlotView *view)
{
	EoSlot	   *slot = &eo_slots[index];

	view->ref.index = index;
	view->ref.generation = slot->generation;
	view->info = slot->info;
	view->target = eo_targets[slot->target].target;
	view->error_len = slot->error_len;
	(void) eo_claim_table_read_text(eo_chunks, eo_table->nchunks, slot->pk, view->pk, slot->pk_len);
	view->pk[slot->pk_len] = '\0';
}

bool
eo_slot_find(const uint8 *digest, EoSlotView *view)
{
	uint32		found = EO_NO_INDEX;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = *eo_claim_table_bucket(digest); i != EO_NO_INDEX; i = eo_slots[i].next)
	{
		EoSlotInfo *info = &eo_slots[i].info;

		if (memcmp(info->digest, digest, EO_DIGEST_LEN) != 0)
			continue;
		if (info->ended)
		{
			/*
			 * One that was buried and waits for its second look is over, and
			 * so is one that has committed.
			 */
			if (found == EO_NO_INDEX && !info->looked && !info->doubt && !info->committed)
				found = i;
		}
		else if (info->pid != MyProcPid && !info->lost &&
				 (info->state == EO_SLOT_HELD || info->state == EO_SLOT_SEALING))
		{
			found = i;
			break;
		}
	}
	if (found != EO_NO_INDEX)
		view_slot(found, view);
	eo_claim_table_unlock();
	return found != EO_NO_INDEX;
}

bool
eo_slot_read(EoSlotRef ref, EoSlotView *view)
{
	bool		found;

	eo_claim_table_lock(LW_SHARED);
	found = eo_claim_table_slot(ref) != NULL;
	if (found)
		view_slot(ref.index, view);
	eo_claim_table_unlock();
	return found;
}

bool
eo_slot_error(EoSlotRef ref, char *text, uint32 len)
{
	bool		found;

	eo_claim_table_lock(LW_SHARED);
	found = eo_claim_table_slot(ref) != NULL && eo_slots[ref.index].error_len == len &&
		eo_claim_table_read_text(eo_chunks, eo_table->nchunks, eo_slots[ref.index].error, text, len);
	eo_claim_table_unlock();
	return found;
}

/* ----- for the worker ----- */

bool
eo_slot_next_ended(Oid dboid, EoSlotView *view)
{
	int64		now_us = eo_clock_monotonic_us();
	bool		found = false;
	EoDatabase *db;

	eo_claim_table_lock(LW_EXCLUSIVE);
	db = eo_database_entry(dboid, false);
	for (uint32 i = db != NULL ? db->ended_head : EO_NO_INDEX; i != EO_NO_INDEX; i = eo_slots[i].next_ended)
	{
		if (eo_slots[i].info.due_us > now_us)
			continue;
		eo_claim_table_unlist_ended(i);
		view_slot(i, view);
		found = true;
		break;
	}
	eo_claim_table_unlock();
	return found;
}

void
eo_slot_again(EoSlotRef ref, int64 due_us, bool looked)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	if (eo_claim_table_slot(ref) != NULL)
	{
		eo_slots[ref.index].info.due_us = due_us;
		eo_slots[ref.index].info.looked |= looked;
		eo_claim_table_list_ended(ref.index);
	}
	eo_claim_table_unlock();
}

/* It stays until an operator decides. */
void
eo_slot_doubt(EoSlotRef ref)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	if (eo_claim_table_slot(ref) != NULL)
	{
		eo_slots[ref.index].info.doubt = true;
		eo_slots[ref.index].info.due_us = INT64_MAX;
	}
	eo_claim_table_unlock();
}

void
eo_slot_note_doubt(const EoTarget *target, const char *pk, const EoSlotInfo *info)
{
	EoSlotInfo	doubt = *info;
	EoSlotRef	ref;
	uint32		n = 0;
	bool		noted = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_table->high_slot; i++)
	{
		const EoSlotInfo *s = &eo_slots[i].info;

		if (s->state == EO_SLOT_FREE || !s->doubt)
			continue;
		n++;
		noted |= memcmp(s->digest, info->digest, EO_DIGEST_LEN) == 0;
	}
	eo_claim_table_unlock();
	/* Most of the room is for work. */
	if (noted || n > eo_table->nslots / 4)
		return;
	doubt.state = EO_SLOT_SEALING;
	doubt.ended = doubt.doubt = true;
	doubt.due_us = INT64_MAX;
	(void) eo_slot_add(target, pk, &doubt, &ref);
}

void
eo_slot_undoubt(const EoTarget *target, const char *pk)
{
	EoSlotView	view;

	eo_claim_table_lock(LW_EXCLUSIVE);
	for (uint32 i = 0; i < eo_table->high_slot; i++)
	{
		if (eo_slots[i].info.state == EO_SLOT_FREE || !eo_slots[i].info.doubt)
			continue;
		view_slot(i, &view);
		if (strcmp(view.pk, pk) == 0 && eo_target_same_table(&view.target, target))
			eo_claim_table_free_slot(i);
	}
	eo_claim_table_unlock();
}

static bool
needs_beat(const EoSlot *slot, Oid dboid)
{
	return slot->info.state == EO_SLOT_HELD && !slot->info.ended && !slot->info.lost &&
		slot->info.verdict == EO_VERDICT_NONE && slot->info.due_us > 0 &&
		eo_targets[slot->target].target.dboid == dboid;
}

bool
eo_slot_beat_due(Oid dboid, int64 now_us, uint32 *cursor, EoSlotView *view)
{
	bool		found = false;

	eo_claim_table_lock(LW_EXCLUSIVE);
	while (!found && *cursor < eo_table->high_slot)
	{
		EoSlot	   *slot = &eo_slots[(*cursor)++];

		if (!needs_beat(slot, dboid) || slot->info.due_us > now_us)
			continue;
		if (slot->info.max_hold_ms > 0 &&
			now_us - slot->info.since_us > slot->info.max_hold_ms * 1000)
		{
			slot->info.due_us = 0;	/* long enough: let the lease run out */
			continue;
		}
		slot->info.due_us = INT64_MAX;	/* under way */
		view_slot(*cursor - 1, view);
		found = true;
	}
	eo_claim_table_unlock();
	return found;
}

void
eo_slot_beaten(EoSlotRef ref, bool lost, int64 lease_until_ms, int64 due_us)
{
	EoSlot	   *slot;

	eo_claim_table_lock(LW_EXCLUSIVE);
	slot = eo_claim_table_slot(ref);
	/* Ended meanwhile: its due_us means something else now. */
	if (slot != NULL && !slot->info.ended)
	{
		slot->info.lost |= lost;
		if (lost)
			pg_atomic_fetch_add_u32(&eo_shared->lost, 1);
		if (lease_until_ms > slot->info.lease_until_ms)
			slot->info.lease_until_ms = lease_until_ms;
		slot->info.due_us = due_us;
	}
	eo_claim_table_unlock();
}

int64
eo_slot_next_due(Oid dboid)
{
	int64		due_us = INT64_MAX;
	EoDatabase *db;

	eo_claim_table_lock(LW_SHARED);
	db = eo_database_entry(dboid, false);
	for (uint32 i = db != NULL ? db->ended_head : EO_NO_INDEX; i != EO_NO_INDEX; i = eo_slots[i].next_ended)
		due_us = Min(due_us, eo_slots[i].info.due_us);
	for (uint32 i = 0; i < eo_table->high_slot; i++)
	{
		if (needs_beat(&eo_slots[i], dboid))
			due_us = Min(due_us, eo_slots[i].info.due_us);
	}
	eo_claim_table_unlock();
	return due_us;
}

bool
eo_slot_any_ended(void)
{
	bool		any = false;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_table->high_slot && !any; i++)
	{
		const EoSlotInfo *info = &eo_slots[i].info;

		any = info->state != EO_SLOT_FREE && info->ended && !info->looked && !info->doubt;
	}
	eo_claim_table_unlock();
	return any;
}

bool
eo_slot_walk(uint32 *cursor, EoSlotView *view)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < eo_table->high_slot)
	{
		if (eo_slots[*cursor].info.state != EO_SLOT_FREE)
		{
			view_slot(*cursor, view);
			found = true;
		}
		(*cursor)++;
	}
	eo_claim_table_unlock();
	return found;
}

int
eo_slot_count(Oid dboid, Oid serverid, int but_pid)
{
	int			n = 0;

	eo_claim_table_lock(LW_SHARED);
	for (uint32 i = 0; i < eo_table->high_slot; i++)
	{
		const EoTarget *target = &eo_targets[eo_slots[i].target].target;
		const EoSlotInfo *info = &eo_slots[i].info;

		/* What is only a precaution against late requests does not count. */
		if (info->state != EO_SLOT_FREE && target->dboid == dboid &&
			(!OidIsValid(serverid) || target->serverid == serverid) &&
			(info->ended ? info->state != EO_SLOT_ASKING : info->pid != but_pid))
			n++;
	}
	eo_claim_table_unlock();
	return n;
}

void
eo_slot_drop_database(Oid dboid)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	for (uint32 i = 0; i < eo_table->high_slot; i++)
	{
		if (eo_slots[i].info.state != EO_SLOT_FREE &&
			eo_targets[eo_slots[i].target].target.dboid == dboid)
			eo_claim_table_free_slot(i);
	}
	eo_claim_table_unlock();
}
