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
#include "compat.h"
#include "miscadmin.h"
#include "wire/clock.h"

static EoSlotStatus make_room(const EoTargetEntry *target, const EoSlotInfo *info, uint32 nchunks,
							  bool adopted);
static void give_up(EoSlot *slot, EoSlotState state);
static EoSlotState state_after(const EoSlotInfo *info, bool committed);

static void free_slot(EoSlot *slot);

/*
 * Is the record in progress, so that its lease is to be extended?  A claim that was failed or
 * released, too, is kept alive: as long as its transaction can commit no other run may begin.
 */
static bool
needs_beat(const EoSlotInfo *info)
{
	bool		open = info->state >= EO_SLOT_HELD && info->state <= EO_SLOT_RELEASED;

	return (open || info->state == EO_SLOT_SESSION) && !info->lost && info->due_us > 0;
}

/* A heartbeat may be due earlier than all those before. */
static void
note_beat(const EoSlot *slot)
{
	Oid			dboid = eo_claim_table_database(slot);

	if (needs_beat(&slot->info) && slot->info.due_us < eo_database_beat_due(dboid))
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
list_for_worker(EoSlot *slot)
{
	if (slot->info.state == EO_SLOT_BURIED)
		eo_look_list(slot);
	else
		eo_database_list_ended(slot);
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
fill_slot(EoSlot *slot, uint32 target, uint32 pk_len, const EoSlotInfo *info)
{
	uint32		index = (uint32) (slot - eo_claim_table.slots);
	EoTargetEntry *entry = &eo_claim_table.targets[target];
	EoSlot	  **bucket = eo_claim_table_bucket(info->digest);

	eo_claim_table.header->free_slot = slot->next;
	eo_claim_table.header->high_slot = Max(eo_claim_table.header->high_slot, index + 1);
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
	*bucket = slot;
}

/*
 * Enter a claim.  The shares of roles and databases do not count for those that the
 * server's last run has left (adopted).
 */
static EoSlotStatus
add_slot(const EoTarget *target, const char *pk, const EoSlotInfo *info, bool adopted,
		 EoSlotRef *ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlotStatus status = EO_SLOT_OK;
	EoSlotInfo	own = *info;
	uint32		t = eo_share_enter_target(target);
	EoSlot	   *slot;

	own.prepaid = !adopted && t != EO_NO_INDEX &&
		eo_share_is_prepaid(&eo_claim_table.targets[t], info);
	if (t != EO_NO_INDEX)
		status = make_room(&eo_claim_table.targets[t], &own, eo_claim_table_chunks(strlen(pk)),
						   adopted);
	slot = eo_claim_table.header->free_slot;
	if (status != EO_SLOT_OK)
		return status;
	if (slot == NULL)
		return EO_SLOT_TABLE_FULL;
	if (t == EO_NO_INDEX)
		return EO_SLOT_NO_TARGET;
	if (!adopted && !eo_slot_state_is_over(info->state) &&
		!eo_life_place_is_current_locked(info->place))
		return EO_SLOT_NO_LIFE;
	if ((info->state == EO_SLOT_ASKING || info->state == EO_SLOT_PLANNED) &&
		eo_database_is_drained_locked(target->dboid))
		return EO_SLOT_DRAINED;
	if (!eo_database_enter(target->dboid))
		return EO_SLOT_NO_DATABASE;
	if (!eo_claim_table_put_text(pk, strlen(pk), &slot->pk))
		return EO_SLOT_NO_TEXT;
	fill_slot(slot, t, strlen(pk), &own);
	*ref = eo_claim_table_ref(slot);
	return EO_SLOT_OK;
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
	eo_share_give(eo_claim_table_target(slot), EO_RESOURCE_CHUNKS,
				  eo_claim_table_chunks(slot->error_len));
	eo_claim_table_drop_text(slot->error, slot->error_len);
	slot->error_len = 0;
}

static bool
put_error(EoSlot *slot, const char *error, uint32 len)
{
	if (!eo_claim_table_put_text(error, len, &slot->error))
		return false;
	eo_share_take(eo_claim_table_target(slot), EO_RESOURCE_CHUNKS, eo_claim_table_chunks(len));
	slot->error_len = len;
	return true;
}

static void
free_slot(EoSlot *slot)
{
	EoTargetEntry *target = eo_claim_table_target(slot);
	EoSlot	  **link = eo_claim_table_bucket(slot->info.digest);

	while (*link != NULL && *link != slot)
		link = &(*link)->next;
	if (*link == slot)
		*link = slot->next;
	eo_claim_table_unlist(slot);
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
	eo_claim_table.header->free_slot = slot;
}

void
eo_slot_free(EoSlotRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot != NULL)
		free_slot(slot);
}

/* Free a slot that waits for another look, see looks.c.  False: none can make way. */
static bool
give_up_look(const EoTargetEntry *target, bool own)
{
	EoSlot	   *slot = eo_look_to_give_up(target, own);

	if (slot != NULL)
		free_slot(slot);
	return slot != NULL;
}

static bool
has_memory(uint32 nchunks)
{
	return eo_claim_table.header->free_slot != NULL &&
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
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.fence = fence;
	slot->info.runs = runs;
	slot->info.lease_until_ms = lease_until_ms;
	slot->info.ttl_s = ttl_s;
	eo_slot_enter_state(slot, EO_SLOT_HELD);
}

void
eo_slot_completed(EoSlotRef ref, bool has_writes)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	/* A claim by idem_once() has its row from the beginning. */
	if (slot->info.state == EO_SLOT_HELD)
		eo_slot_enter_state(slot, EO_SLOT_COMPLETED);
	slot->info.has_writes = has_writes;
}

void
eo_slot_uncompleted(EoSlotRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot != NULL && slot->info.state == EO_SLOT_COMPLETED)
		eo_slot_enter_state(slot, EO_SLOT_HELD);
}

EoSlotStatus
eo_slot_failed(EoSlotRef ref, bool terminal, int64 retry_after_ms, const char *error,
			   size_t error_len)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);
	EoSlotStatus status = EO_SLOT_OK;

	if (slot == NULL)
		return EO_SLOT_OK;
	drop_error(slot);
	if (error_len > 0)
		status = eo_share_check(eo_claim_table_target(slot), EO_RESOURCE_CHUNKS,
								eo_claim_table_chunks(error_len), EO_SLOT_NO_TEXT);
	if (status != EO_SLOT_OK)
		return status;
	while (!put_error(slot, error, error_len))
	{
		if (!give_up_look(eo_claim_table_target(slot), false))
			return EO_SLOT_NO_TEXT;
	}
	slot->info.terminal = terminal;
	slot->info.retry_after_ms = retry_after_ms;
	give_up(slot, EO_SLOT_FAILED);
	return EO_SLOT_OK;
}

void
eo_slot_released(EoSlotRef ref, bool spared)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.spared = spared;
	give_up(slot, EO_SLOT_RELEASED);
}

/*
 * The failure or release is written when the transaction is over.  A claim that is older than
 * the transaction has had no heartbeats, and needs them until then.
 */
static void
give_up(EoSlot *slot, EoSlotState state)
{
	if (slot->info.due_us == 0)
	{
		slot->info.due_us = 1;
		eo_database_wake_worker(eo_claim_table_database(slot));
	}
	eo_slot_enter_state(slot, state);
}

void
eo_slot_reclaimed(EoSlotRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot != NULL)
		eo_slot_enter_state(slot, EO_SLOT_HELD);
}

void
eo_slot_sealing(EoSlotRef ref, const EoOrigin *origin, EoPlaceRef place)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.origin = *origin;
	slot->info.place = place;
	eo_slot_enter_state(slot, EO_SLOT_SEALING);
}

void
eo_slot_seal_refused(EoSlotRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	eo_slot_enter_state(slot, slot->info.once ? EO_SLOT_PLANNED : EO_SLOT_COMPLETED);
	slot->info.origin.xid = 0;
}

void
eo_slot_extended(EoSlotRef ref, int64 lease_until_ms, int64 lease_ms, int64 ttl_s)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	/* If it has ended meanwhile, its due_us is when to settle it. */
	if (slot == NULL || eo_slot_state_is_over(slot->info.state))
		return;
	slot->info.lease_until_ms = lease_until_ms;
	slot->info.lease_ms = lease_ms;
	slot->info.ttl_s = ttl_s;
	slot->info.due_us = eo_clock_monotonic_us() + lease_ms * 1000 / 3;
	note_beat(slot);
}

uint32
eo_slot_lost_count(void)
{
	return pg_atomic_read_u32(&eo_claim_table.header->lost);
}

bool
eo_slot_is_lost(EoSlotRef ref, bool of_session)
{
	const EoSlot *slot = &eo_claim_table.slots[ref.index];

	return slot->lost == ref.generation + 1 &&
		(of_session || (slot->generation == ref.generation &&
						(slot->info.state == EO_SLOT_HELD ||
						 slot->info.state == EO_SLOT_COMPLETED)));
}

bool
eo_slot_is_session(EoSlotRef ref)
{
	const EoSlot *slot = &eo_claim_table.slots[ref.index];

	return slot->generation == ref.generation && slot->info.state == EO_SLOT_SESSION;
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
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);
	EoSlotState state;

	if (slot == NULL)
		return;
	slot->info.ended_us = now_us;
	state = state_after(&slot->info, committed);
	if (state == EO_SLOT_FREE)
		free_slot(slot);
	else if (state == EO_SLOT_SESSION)
		eo_slot_enter_state(slot, state);
	else
		eo_slot_give_to_worker(slot, state);
}

void
eo_slot_give_to_worker(EoSlot *slot, EoSlotState state)
{
	slot->info.due_us = 0;
	eo_slot_enter_state(slot, state);
	list_for_worker(slot);
	eo_database_wake_worker(eo_claim_table_database(slot));
}

/* ----- the end of a session ----- */

void
eo_slot_end_session(int pid)
{
	int64		now_us = eo_clock_monotonic_us();
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	uint32		cursor = 0;
	EoSlot	   *slot;

	while ((slot = eo_claim_table_next(InvalidOid, &cursor)) != NULL)
	{
		if (slot->info.state != EO_SLOT_SESSION || slot->info.pid != pid)
			continue;
		slot->info.ended_us = now_us;
		eo_slot_give_to_worker(slot, EO_SLOT_TO_ABORT);
	}
}

bool
eo_slot_session_over(const uint8 *digest, const char *token)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_slot_view_of_token(digest, token, EO_SLOT_SESSION);

	if (slot != NULL)
		free_slot(slot);
	return slot != NULL;
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
	if (adopted.state != EO_SLOT_FREE &&
		add_slot(target, pk, &adopted, true, &ref) == EO_SLOT_OK)
	{
		EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
		EoSlot	   *slot = eo_claim_table_slot(ref);

		if (error_len > 0)
			(void) put_error(slot, error, error_len);
		if (!eo_slot_is_prepared(&adopted))
			list_for_worker(slot);
	}
}

/* ----- for the worker ----- */

bool
eo_slot_next_ended(Oid dboid, int64 now_us, EoSlotView *view)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	dlist_head *list = eo_database_ended(dboid);
	dlist_iter	iter;

	if (list == NULL)
		return false;
	dlist_foreach(iter, list)
	{
		EoSlot	   *slot = dlist_container(EoSlot, node, iter.cur);

		if (slot->info.due_us > now_us)
			continue;
		eo_claim_table_unlist(slot);
		eo_slot_view_fill(slot, view);
		return true;
	}
	return false;
}

void
eo_slot_put_off(EoSlotRef ref, int64 due_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = due_us;
	list_for_worker(slot);
}

void
eo_slot_wait(EoSlotRef ref, int64 due_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = due_us;
	slot->info.looks++;
	eo_database_list_ended(slot);
}

void
eo_slot_give_back(EoSlotRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = 0;
	eo_slot_enter_state(slot, EO_SLOT_TO_ABORT);
	list_for_worker(slot);
}

void
eo_slot_buried(EoSlotRef ref, int64 due_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	eo_claim_table_unlist(slot);
	slot->info.due_us = due_us;
	slot->info.looks++;
	eo_slot_enter_state(slot, EO_SLOT_BURIED);
	list_for_worker(slot);
	if (eo_share_has_too_many_looks(eo_claim_table_target(slot)))
		(void) give_up_look(eo_claim_table_target(slot), true);
}

void
eo_slot_doubted(EoSlotRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	if (slot == NULL)
		return;
	slot->info.due_us = INT64_MAX;
	eo_slot_enter_state(slot, EO_SLOT_IN_DOUBT);
}

bool
eo_slot_beat_due(Oid dboid, int64 now_us, uint32 *cursor, EoSlotView *view)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot;

	if (eo_database_beat_due(dboid) > now_us)
		return false;
	while ((slot = eo_claim_table_next(dboid, cursor)) != NULL)
	{
		EoSlotInfo *info = &slot->info;

		if (!needs_beat(info) || info->due_us > now_us)
			continue;
		/* Past max_hold there is no heartbeat any more: the lease runs out. */
		if (info->max_hold_ms > 0 && !eo_slot_is_prepared(info) &&
			now_us - info->since_us > info->max_hold_ms * 1000)
		{
			info->due_us = 0;
			continue;
		}
		info->due_us = INT64_MAX;	/* a heartbeat is under way */
		eo_slot_view_fill(slot, view);
		return true;
	}
	return false;
}

void
eo_slot_beaten(EoSlotRef ref, bool lost, int64 lease_until_ms, int64 due_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoSlot	   *slot = eo_claim_table_slot(ref);

	/* If it has ended meanwhile, its due_us is when to settle it. */
	if (slot == NULL || eo_slot_state_is_over(slot->info.state))
		return;
	slot->info.lost |= lost;
	if (lost)
	{
		slot->lost = slot->generation + 1;
		pg_atomic_fetch_add_u32(&eo_claim_table.header->lost, 1);
	}
	slot->info.lease_until_ms = Max(slot->info.lease_until_ms, lease_until_ms);
	slot->info.due_us = due_us;
	note_beat(slot);
}

/* Looks through the slots only if a heartbeat may be due: there may be many, held for long. */
int64
eo_slot_next_due(Oid dboid)
{
	int64		now_us = eo_clock_monotonic_us();
	int64		due_us = INT64_MAX;
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	dlist_head *list = eo_database_ended(dboid);
	uint32		cursor = 0;
	EoSlot	   *slot;
	dlist_iter	iter;

	if (list == NULL)
		return INT64_MAX;
	dlist_foreach(iter, list)
	{
		due_us = Min(due_us, dlist_container(EoSlot, node, iter.cur)->info.due_us);
		if (due_us <= now_us)
			break;
	}
	if (eo_database_beat_due(dboid) <= now_us)
	{
		eo_database_set_beat_due(dboid, INT64_MAX);
		while ((slot = eo_claim_table_next(dboid, &cursor)) != NULL)
			note_beat(slot);
	}
	return Min(due_us, eo_database_beat_due(dboid));
}

void
eo_slot_restart(Oid dboid)
{
	int64		now_us = eo_clock_monotonic_us();
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	uint32		cursor = 0;
	EoSlot	   *slot;

	while ((slot = eo_claim_table_next(dboid, &cursor)) != NULL)
	{
		if (slot->info.state != EO_SLOT_IN_DOUBT && eo_slot_state_is_over(slot->info.state))
			list_for_worker(slot);
		else if (slot->info.due_us == INT64_MAX)
			slot->info.due_us = now_us;
	}
	eo_database_set_beat_due(dboid, 0);
}

void
eo_slot_drop_database(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	uint32		cursor = 0;
	EoSlot	   *slot;

	Assert(OidIsValid(dboid));
	while ((slot = eo_claim_table_next(dboid, &cursor)) != NULL)
		free_slot(slot);
}
