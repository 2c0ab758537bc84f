/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  The claims of the cluster: a slot of shared memory for each.
 *
 * A slot is filled in before the request that makes the claim leaves, and freed
 * when nothing is left to be done about the claim.  So whatever ends in between,
 * a process or the whole server, a record that may have been written is known
 * here.  The states and their arrows are drawn in slot.h; every change of a
 * state is in this file.
 *
 * Until its transaction is over a slot is changed by the backend that holds the
 * claim (and by the worker's heartbeats, which touch the lease only); the slot of a
 * claim that the session keeps, until the session is over.  Then it is
 * on the list of its database's worker, which settles and frees it.  A backend
 * that meets such a slot may do the same work at the same time: both write to
 * DynamoDB under the same conditions, and the one that frees it second finds
 * another generation.
 *
 * The file of the claim table may be read after the kill of every process at any
 * instruction.  So what belongs to a state is written before the state itself,
 * with a write barrier between them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/looks.h"
#include "cluster/shares.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "records/origin.h"
#include "server/store.h"
#include "storage/lwlock.h"
#include "wire/clock.h"

static void free_slot(uint32 index);
static EoSlotStatus make_room(const EoTargetEntry *target, const EoSlotInfo *info, uint32 nchunks,
							  bool adopted);
static EoSlotState state_after(const EoSlotInfo *info, bool committed);

/* Only claims whose end is not decided are kept alive. */
static bool
needs_beat(const EoSlot *slot, Oid dboid)
{
	return (eo_slot_waits_unsealed(&slot->info) ||
			slot->info.state == EO_SLOT_HELD || slot->info.state == EO_SLOT_COMPLETED ||
			slot->info.state == EO_SLOT_SESSION) &&
		!slot->info.lost && slot->info.due_us > 0 && eo_claim_table_database(slot) == dboid;
}

/* A heartbeat may be due earlier than all those before. */
static void
note_beat(const EoSlot *slot)
{
	Oid			dboid = eo_claim_table_database(slot);

	if (needs_beat(slot, dboid) && slot->info.due_us < eo_database_beat_due(dboid))
		eo_database_set_beat_due(dboid, slot->info.due_us);
}

void
eo_slot_enter_state(EoSlot *slot, EoSlotState state)
{
	bool		counts_anew = (slot->info.state == EO_SLOT_BURIED) != (state == EO_SLOT_BURIED);

	if (counts_anew)
		eo_share_count_slot(slot, false);
	pg_write_barrier();
	slot->info.state = state;
	if (counts_anew)
		eo_share_count_slot(slot, true);
	note_beat(slot);
}

/* Have the worker of its database see to a slot when it is due. */
static void
list_for_worker(uint32 index)
{
	if (eo_claim_table.slots[index].info.state == EO_SLOT_BURIED)
		eo_look_list(index);
	else
		eo_database_list_ended(index);
}

static void
unlist_for_worker(uint32 index)
{
	if (eo_claim_table.slots[index].info.state == EO_SLOT_BURIED)
		eo_look_unlist(index);
	else
		eo_database_unlist_ended(index);
}

/* ----- making and freeing ----- */

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

/* Fill in a free slot whose key has been stored already. */
static void
fill_slot(uint32 index, uint32 target, uint32 pk_len, const EoSlotInfo *info)
{
	EoSlot	   *slot = &eo_claim_table.slots[index];
	EoTargetEntry *entry = &eo_claim_table.targets[target];
	uint32	   *bucket = eo_claim_table_bucket(info->digest);

	eo_claim_table.header->free_slot = slot->next;
	if (index >= eo_claim_table.header->high_slot)
		eo_claim_table.header->high_slot = index + 1;
	if (entry->refs++ == 0)
		eo_share_take(entry, EO_RESOURCE_TARGETS, 1);
	slot->target = target;
	slot->pk_len = pk_len;
	slot->error_len = 0;
	slot->listed = false;
	/* After a kill in the middle of this the slot is free: nothing was sent. */
	slot->info = *info;
	slot->info.state = EO_SLOT_FREE;
	eo_share_count_slot(slot, true);
	eo_slot_enter_state(slot, info->state);
	slot->next = *bucket;
	*bucket = index;
}

/*
 * Enter a claim.  The shares of roles and databases do not count for those that the
 * server's last run has left (adopted).
 */
static EoSlotStatus
add_slot(const EoTarget *target, const char *pk, const EoSlotInfo *info, bool adopted,
		 EoSlotRef *ref)
{
	EoSlotStatus status = EO_SLOT_OK;
	EoSlotInfo	own = *info;
	uint32		index;
	uint32		t;

	eo_claim_table_lock(LW_EXCLUSIVE);
	t = eo_share_enter_target(target);
	own.prepaid = !adopted && t != EO_NO_INDEX &&
		eo_share_is_prepaid(&eo_claim_table.targets[t], info);
	if (t != EO_NO_INDEX)
		status = make_room(&eo_claim_table.targets[t], &own, eo_claim_table_chunks(strlen(pk)),
						   adopted);
	index = eo_claim_table.header->free_slot;
	if (status != EO_SLOT_OK)
		;
	else if (index == EO_NO_INDEX)
		status = EO_SLOT_TABLE_FULL;
	else if (t == EO_NO_INDEX)
		status = EO_SLOT_NO_TARGET;
	else if (!adopted && !eo_slot_state_is_over(info->state) &&
			 !eo_life_place_is_current_locked(info->place))
		status = EO_SLOT_NO_LIFE;
	else if ((info->state == EO_SLOT_ASKING || info->state == EO_SLOT_PLANNED) &&
			 eo_database_is_drained_locked(target->dboid))
		status = EO_SLOT_DRAINED;
	else if (!eo_database_enter(target->dboid))
		status = EO_SLOT_NO_DATABASE;
	else if (!eo_claim_table_put_text(pk, strlen(pk), &eo_claim_table.slots[index].pk))
		status = EO_SLOT_NO_TEXT;
	else
	{
		fill_slot(index, t, strlen(pk), &own);
		ref->index = index;
		ref->generation = eo_claim_table.slots[index].generation;
	}
	eo_claim_table_unlock();
	return status;
}

EoSlotStatus
eo_slot_add(const EoTarget *target, const char *pk, const EoSlotInfo *info, EoSlotRef *ref)
{
	return add_slot(target, pk, info, false, ref);
}

/* Free the memory of the error that idem_fail() left, if there is one. */
static void
drop_error(EoSlot *slot)
{
	eo_share_give(&eo_claim_table.targets[slot->target], EO_RESOURCE_CHUNKS,
				  eo_claim_table_chunks(slot->error_len));
	eo_claim_table_drop_text(slot->error, slot->error_len);
	slot->error_len = 0;
}

static bool
put_error(EoSlot *slot, const char *error, uint32 len)
{
	if (!eo_claim_table_put_text(error, len, &slot->error))
		return false;
	eo_share_take(&eo_claim_table.targets[slot->target], EO_RESOURCE_CHUNKS,
				  eo_claim_table_chunks(len));
	slot->error_len = len;
	return true;
}

static void
free_slot(uint32 index)
{
	EoSlot	   *slot = &eo_claim_table.slots[index];
	EoTargetEntry *target = &eo_claim_table.targets[slot->target];
	uint32	   *link = eo_claim_table_bucket(slot->info.digest);

	while (*link != EO_NO_INDEX && *link != index)
		link = &eo_claim_table.slots[*link].next;
	if (*link == index)
		*link = slot->next;
	unlist_for_worker(index);
	drop_error(slot);
	eo_claim_table_drop_text(slot->pk, slot->pk_len);
	eo_share_end_prepayment(&slot->info);
	eo_share_count_slot(slot, false);
	slot->pk_len = 0;
	if (--target->refs == 0)
		eo_share_give(target, EO_RESOURCE_TARGETS, 1);
	memset(&slot->info, 0, sizeof(slot->info));
	slot->generation++;
	slot->next = eo_claim_table.header->free_slot;
	eo_claim_table.header->free_slot = index;
}

void
eo_slot_free(EoSlotRef ref)
{
	if (eo_claim_table_lock_slot(ref) == NULL)
		return;
	free_slot(ref.index);
	eo_claim_table_unlock();
}

/* Free a slot that waits for another look, see looks.c.  False: none can make way. */
static bool
give_up_look(const EoTargetEntry *target, bool own)
{
	uint32		index = eo_look_to_give_up(target, own);

	if (index != EO_NO_INDEX)
		free_slot(index);
	return index != EO_NO_INDEX;
}

static bool
has_memory(uint32 nchunks)
{
	return eo_claim_table.header->free_slot != EO_NO_INDEX &&
		nchunks <= eo_claim_table.header->nfree_chunks;
}

/* See that there is room for a slot with that much text, at the cost of looks. */
static EoSlotStatus
make_room(const EoTargetEntry *target, const EoSlotInfo *info, uint32 nchunks, bool adopted)
{
	EoSlotStatus status = adopted ? EO_SLOT_OK : eo_share_check_slot(target, info, nchunks);

	if (status != EO_SLOT_OK)
		return status;
	/* A target may be named by looks only. */
	while (!adopted && (status = eo_share_check_target(target)) != EO_SLOT_OK &&
		   give_up_look(target, status == EO_SLOT_ROLE_SHARE))
		;
	while (status == EO_SLOT_OK && !has_memory(nchunks) && give_up_look(target, false))
		;
	return status;
}

/* ----- while the transaction is open ----- */

const EoSlotInfo *
eo_slot_own(EoSlotRef ref)
{
	return &eo_claim_table.slots[ref.index].info;
}

void
eo_slot_acquired(EoSlotRef ref, int64 fence, int64 runs, int64 lease_until_ms, int64 ttl_s)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.fence = fence;
	slot->info.runs = runs;
	slot->info.lease_until_ms = lease_until_ms;
	slot->info.ttl_s = ttl_s;
	eo_slot_enter_state(slot, EO_SLOT_HELD);
	eo_claim_table_unlock();
}

void
eo_slot_completed(EoSlotRef ref, bool has_writes)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	/* A claim by idem_once() has its row from the beginning. */
	if (slot->info.state == EO_SLOT_HELD)
		eo_slot_enter_state(slot, EO_SLOT_COMPLETED);
	slot->info.has_writes = has_writes;
	eo_claim_table_unlock();
}

void
eo_slot_uncompleted(EoSlotRef ref)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	if (slot->info.state == EO_SLOT_COMPLETED)
		eo_slot_enter_state(slot, EO_SLOT_HELD);
	eo_claim_table_unlock();
}

EoSlotStatus
eo_slot_failed(EoSlotRef ref, bool terminal, int64 retry_after_ms, const char *error,
			   size_t error_len)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);
	EoSlotStatus status = EO_SLOT_OK;

	if (slot == NULL)
		return status;
	drop_error(slot);
	if (error_len > 0)
		status = eo_share_check(&eo_claim_table.targets[slot->target], EO_RESOURCE_CHUNKS,
								eo_claim_table_chunks(error_len), EO_SLOT_NO_TEXT);
	while (status == EO_SLOT_OK && !put_error(slot, error, error_len))
	{
		if (!give_up_look(&eo_claim_table.targets[slot->target], false))
			status = EO_SLOT_NO_TEXT;
	}
	if (status == EO_SLOT_OK)
	{
		slot->info.terminal = terminal;
		slot->info.retry_after_ms = retry_after_ms;
		eo_slot_enter_state(slot, EO_SLOT_FAILED);
	}
	eo_claim_table_unlock();
	return status;
}

void
eo_slot_released(EoSlotRef ref)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	eo_slot_enter_state(slot, EO_SLOT_RELEASED);
	eo_claim_table_unlock();
}

void
eo_slot_reclaimed(EoSlotRef ref)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	eo_slot_enter_state(slot, EO_SLOT_HELD);
	eo_claim_table_unlock();
}

void
eo_slot_sealing(EoSlotRef ref, const EoOrigin *origin, EoPlaceRef place)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.origin = *origin;
	slot->info.place = place;
	eo_slot_enter_state(slot, EO_SLOT_SEALING);
	eo_claim_table_unlock();
}

void
eo_slot_seal_refused(EoSlotRef ref)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	eo_slot_enter_state(slot, slot->info.once ? EO_SLOT_PLANNED : EO_SLOT_COMPLETED);
	slot->info.origin.xid = 0;
	eo_claim_table_unlock();
}

void
eo_slot_extended(EoSlotRef ref, int64 lease_until_ms, int64 lease_ms, int64 ttl_s)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	/* If it has ended meanwhile, its due_us is when to settle it. */
	if (!eo_slot_state_is_over(slot->info.state))
	{
		slot->info.lease_until_ms = lease_until_ms;
		slot->info.lease_ms = lease_ms;
		slot->info.ttl_s = ttl_s;
		slot->info.due_us = eo_clock_monotonic_us() + lease_ms * 1000 / 3;
		note_beat(slot);
	}
	eo_claim_table_unlock();
}

uint32
eo_slot_lost_count(void)
{
	return pg_atomic_read_u32(&eo_claim_table.header->lost);
}

/* ----- the end of the transaction ----- */

/* The state of a sealed claim whose transaction did not commit. */
static EoSlotState
state_after_seal(const EoSlotInfo *info)
{
	return info->once ? EO_SLOT_TO_BURY :
		info->release_on_abort ? EO_SLOT_TO_ABORT : EO_SLOT_TO_UNSEAL;
}

/*
 * The state of a claim when its transaction is over: it says what is left to be
 * done.  idem_fail() and idem_release() are carried out however the transaction
 * ends: they are about the claim and not about the work.
 */
static EoSlotState
state_after(const EoSlotInfo *info, bool committed)
{
	switch (info->state)
	{
		case EO_SLOT_FAILED:
			return EO_SLOT_TO_FAIL;
		case EO_SLOT_RELEASED:
			return EO_SLOT_TO_RELEASE;
		case EO_SLOT_ASKING:
			return EO_SLOT_TO_BURY;
		case EO_SLOT_SEALING:
			return committed ? EO_SLOT_TO_FINISH : state_after_seal(info);
		case EO_SLOT_HELD:
		case EO_SLOT_COMPLETED:
			if (committed && info->session && !info->lost)
				return EO_SLOT_SESSION;
			/* A claim that outlives its transaction is left to its lease. */
			return !committed && info->release_on_abort ? EO_SLOT_TO_ABORT : EO_SLOT_FREE;
		default:
			return EO_SLOT_FREE;
	}
}

void
eo_slot_end(EoSlotRef ref, bool committed)
{
	int64		now_us = eo_clock_monotonic_us();
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);
	EoSlotState state;

	if (slot == NULL)
		return;
	slot->info.ended_us = now_us;
	state = state_after(&slot->info, committed);
	if (state == EO_SLOT_FREE)
		free_slot(ref.index);
	else if (state == EO_SLOT_SESSION)
		eo_slot_enter_state(slot, state);
	else
		eo_slot_give_to_worker(ref.index, state);
	eo_claim_table_unlock();
}

void
eo_slot_give_to_worker(uint32 index, EoSlotState state)
{
	EoSlot	   *slot = &eo_claim_table.slots[index];

	slot->info.due_us = 0;
	eo_slot_enter_state(slot, state);
	eo_database_list_ended(index);
	eo_database_wake_worker(eo_claim_table_database(slot));
}

/* ----- the end of a session ----- */

void
eo_slot_end_session(int pid)
{
	int64		now_us = eo_clock_monotonic_us();

	eo_claim_table_lock(LW_EXCLUSIVE);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		EoSlotInfo *info = &eo_claim_table.slots[i].info;

		if (info->state != EO_SLOT_SESSION || info->pid != pid)
			continue;
		info->ended_us = now_us;
		eo_slot_give_to_worker(i, EO_SLOT_TO_ABORT);
	}
	eo_claim_table_unlock();
}

bool
eo_slot_session_over(const uint8 *digest, const char *token)
{
	uint32		i;

	eo_claim_table_lock(LW_EXCLUSIVE);
	i = eo_slot_view_session_index(digest, token);
	if (i != EO_NO_INDEX)
		free_slot(i);
	eo_claim_table_unlock();
	return i != EO_NO_INDEX;
}

/*
 * The state of a claim of the server's last run, whose transactions are all over.
 * A transaction that had ended before the server did is known to have ended so; a
 * claim that was sealing is decided by the outbox; none of the others can have
 * committed.
 */
EoSlotState
eo_slot_state_after_crash(const EoSlotInfo *info)
{
	switch (info->state)
	{
		case EO_SLOT_HELD:
		case EO_SLOT_COMPLETED:
			return info->bound || info->session ? EO_SLOT_TO_ABORT : EO_SLOT_FREE;
		case EO_SLOT_SESSION:
			return EO_SLOT_TO_ABORT;
		case EO_SLOT_SEALING:
			return EO_SLOT_TO_JUDGE;
		case EO_SLOT_BURIED:
			return EO_SLOT_TO_BURY;
		default:
			if (info->state > EO_SLOT_IN_DOUBT)
				return EO_SLOT_FREE;
			return eo_slot_state_is_over(info->state) ? info->state : state_after(info, false);
	}
}

void
eo_slot_adopt(const EoTarget *target, const char *pk, const EoSlotInfo *info, const char *error,
			  uint32 error_len)
{
	EoSlotInfo	adopted = *info;
	EoSlotRef	ref;
	EoSlot	   *slot;

	/* A prepared transaction outlives the server's run. */
	if (info->announced_xid != 0 &&
		(info->state == EO_SLOT_FAILED || info->state == EO_SLOT_RELEASED))
	{
		adopted.prepared_xid = info->announced_xid;
		adopted.vxid = eo_compat_prepared_vxid((TransactionId) info->announced_xid);
	}
	if (!eo_slot_is_prepared(&adopted))
		adopted.state = eo_slot_state_after_crash(info);
	adopted.heir = EO_HEIR_ASKED;
	adopted.due_us = eo_slot_waits_unsealed(&adopted) ? 1 : 0;
	adopted.looks = 0;
	memset(&adopted.place, 0, sizeof(adopted.place));
	adopted.pid = 0;
	if (adopted.state == EO_SLOT_FREE ||
		add_slot(target, pk, &adopted, true, &ref) != EO_SLOT_OK)
		return;
	slot = eo_claim_table_lock_slot(ref);
	if (error_len > 0)
		(void) put_error(slot, error, error_len);
	if (!eo_slot_is_prepared(&adopted))
		eo_database_list_ended(ref.index);
	eo_claim_table_unlock();
}

/* ----- for the worker ----- */

bool
eo_slot_next_ended(Oid dboid, int64 now_us, EoSlotView *view)
{
	uint32		i;

	eo_claim_table_lock(LW_EXCLUSIVE);
	i = eo_database_first_ended(dboid);
	while (i != EO_NO_INDEX && eo_claim_table.slots[i].info.due_us > now_us)
		i = eo_claim_table.slots[i].next_ended;
	if (i != EO_NO_INDEX)
	{
		eo_database_unlist_ended(i);
		eo_slot_view_fill(i, view);
	}
	eo_claim_table_unlock();
	return i != EO_NO_INDEX;
}

void
eo_slot_put_off(EoSlotRef ref, int64 due_us)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = due_us;
	list_for_worker(ref.index);
	eo_claim_table_unlock();
}

void
eo_slot_wait(EoSlotRef ref, int64 due_us)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = due_us;
	slot->info.looks++;
	eo_database_list_ended(ref.index);
	eo_claim_table_unlock();
}

void
eo_slot_give_back(EoSlotRef ref)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = 0;
	eo_slot_enter_state(slot, EO_SLOT_TO_ABORT);
	eo_database_list_ended(ref.index);
	eo_claim_table_unlock();
}

void
eo_slot_buried(EoSlotRef ref, int64 due_us)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	unlist_for_worker(ref.index);
	slot->info.due_us = due_us;
	slot->info.looks++;
	eo_slot_enter_state(slot, EO_SLOT_BURIED);
	list_for_worker(ref.index);
	if (eo_share_has_too_many_looks(&eo_claim_table.targets[slot->target]))
		(void) give_up_look(&eo_claim_table.targets[slot->target], true);
	eo_claim_table_unlock();
}

void
eo_slot_doubted(EoSlotRef ref)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = INT64_MAX;
	eo_slot_enter_state(slot, EO_SLOT_IN_DOUBT);
	eo_claim_table_unlock();
}

bool
eo_slot_beat_due(Oid dboid, int64 now_us, uint32 *cursor, EoSlotView *view)
{
	bool		found = false;

	eo_claim_table_lock(LW_EXCLUSIVE);
	while (!found && eo_database_beat_due(dboid) <= now_us &&
		   *cursor < eo_claim_table.header->high_slot)
	{
		uint32		index = (*cursor)++;
		EoSlotInfo *info = &eo_claim_table.slots[index].info;

		if (!needs_beat(&eo_claim_table.slots[index], dboid) || info->due_us > now_us)
			continue;
		/* Past max_hold there is no heartbeat any more: the lease runs out. */
		if (info->max_hold_ms > 0 && !eo_slot_is_prepared(info) &&
			now_us - info->since_us > info->max_hold_ms * 1000)
		{
			info->due_us = 0;
			continue;
		}
		info->due_us = INT64_MAX;	/* a heartbeat is under way */
		eo_slot_view_fill(index, view);
		found = true;
	}
	eo_claim_table_unlock();
	return found;
}

void
eo_slot_beaten(EoSlotRef ref, bool lost, int64 lease_until_ms, int64 due_us)
{
	EoSlot	   *slot = eo_claim_table_lock_slot(ref);

	if (slot == NULL)
		return;
	/* If it has ended meanwhile, its due_us is when to settle it. */
	if (!eo_slot_state_is_over(slot->info.state))
	{
		slot->info.lost |= lost;
		if (lost)
			pg_atomic_fetch_add_u32(&eo_claim_table.header->lost, 1);
		if (lease_until_ms > slot->info.lease_until_ms)
			slot->info.lease_until_ms = lease_until_ms;
		slot->info.due_us = due_us;
		note_beat(slot);
	}
	eo_claim_table_unlock();
}

/* Looks through the slots only if a heartbeat may be due: there may be many, held for long. */
int64
eo_slot_next_due(Oid dboid)
{
	int64		now_us = eo_clock_monotonic_us();
	int64		due_us = INT64_MAX;
	int64		beat_due_us;

	eo_claim_table_lock(LW_EXCLUSIVE);
	for (uint32 i = eo_database_first_ended(dboid); i != EO_NO_INDEX && due_us > now_us;
		 i = eo_claim_table.slots[i].next_ended)
		due_us = Min(due_us, eo_claim_table.slots[i].info.due_us);
	beat_due_us = eo_database_beat_due(dboid);
	if (beat_due_us <= now_us)
	{
		beat_due_us = INT64_MAX;
		for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
		{
			if (needs_beat(&eo_claim_table.slots[i], dboid))
				beat_due_us = Min(beat_due_us, eo_claim_table.slots[i].info.due_us);
		}
		eo_database_set_beat_due(dboid, beat_due_us);
	}
	eo_claim_table_unlock();
	return Min(due_us, beat_due_us);
}

void
eo_slot_restart(Oid dboid)
{
	int64		now_us = eo_clock_monotonic_us();

	eo_claim_table_lock(LW_EXCLUSIVE);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		EoSlot	   *slot = &eo_claim_table.slots[i];

		if (slot->info.state == EO_SLOT_FREE || eo_claim_table_database(slot) != dboid)
			continue;
		if (slot->info.state != EO_SLOT_IN_DOUBT && eo_slot_state_is_over(slot->info.state))
			list_for_worker(i);
		else if (slot->info.due_us == INT64_MAX)
			slot->info.due_us = now_us;
	}
	eo_database_set_beat_due(dboid, 0);
	eo_claim_table_unlock();
}

void
eo_slot_drop_database(Oid dboid)
{
	eo_claim_table_lock(LW_EXCLUSIVE);
	for (uint32 i = 0; i < eo_claim_table.header->high_slot; i++)
	{
		const EoSlot *slot = &eo_claim_table.slots[i];

		if (slot->info.state != EO_SLOT_FREE && eo_claim_table_database(slot) == dboid)
			free_slot(i);
	}
	eo_claim_table_unlock();
}
