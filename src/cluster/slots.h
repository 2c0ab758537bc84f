/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  The claims of the cluster: a slot of shared memory for each.
 *
 * Nothing here raises an error; everything may be called in transaction
 * callbacks.  A slot is named by its number and generation: a reference that was
 * kept after the slot was freed finds nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_SLOTS_H
#define EO_CLUSTER_SLOTS_H

#include "postgres.h"

#include "cluster/slot.h"
#include "cluster/target.h"
#include "records/origin.h"

/* ---- for the backend that holds a claim ---- */

/*
 * Begin the description of a claim of this backend, for eo_slot_add(); what is not
 * an argument is zero.
 */
extern void eo_slot_info_init(EoSlotInfo *info, EoSlotState state, const uint8 *digest,
							  const char *token);

/* Enter a claim, PLANNED, ASKING or HELD. */
extern EoSlotStatus eo_slot_add(const EoTarget *target, const char *pk,
								const EoSlotInfo *info, EoSlotRef *ref);

/*
 * The slot of a claim that this backend holds, to be read without the lock as long
 * as its transaction is open.
 */
extern const EoSlotInfo *eo_slot_own(EoSlotRef ref);

extern void eo_slot_acquired(EoSlotRef ref, int64 fence, int64 runs, int64 lease_until_ms,
							 int64 ttl_s);
extern void eo_slot_completed(EoSlotRef ref, bool has_writes);
extern void eo_slot_uncompleted(EoSlotRef ref);

/* Another status if there is no room for the error, and then nothing has changed. */
extern EoSlotStatus eo_slot_failed(EoSlotRef ref, bool terminal, int64 retry_after_ms,
								   const char *error, size_t error_len);
extern void eo_slot_released(EoSlotRef ref, bool spared);
extern void eo_slot_reclaimed(EoSlotRef ref);
extern void eo_slot_sealing(EoSlotRef ref, const EoOrigin *origin, EoPlaceRef place);

/* The seal was refused and cannot arrive any more: nothing has been sent, or written. */
extern void eo_slot_seal_refused(EoSlotRef ref);

/* The lease was extended by its owner; also of a claim that the session holds. */
extern void eo_slot_extended(EoSlotRef ref, int64 lease_until_ms, int64 lease_ms, int64 ttl_s);

/*
 * The transaction, or the subtransaction that made the claim, is over.  The slot
 * goes to the worker of its database, or is freed if there is nothing to be done.
 */
extern void eo_slot_end(EoSlotRef ref, bool committed);
extern void eo_slot_free(EoSlotRef ref);

/* The process with that id is over, or gives up what it holds as a session. */
extern void eo_slot_end_session(int pid);

/*
 * The claim that a session holds by this token was settled or lost: free its slot.  Returns
 * false if there is none.
 */
extern bool eo_slot_session_over(const uint8 *digest, const char *token);

/* A number that changes whenever a claim of the cluster is found lost. */
extern uint32 eo_slot_lost_count(void);

/*
 * These take no lock, so that a signal handler may call them.  Has a heartbeat found the claim
 * lost?  One of an open transaction of this backend counts while the transaction has it and has
 * not sealed it; one of_session also when its slot has been freed since.
 */
extern bool eo_slot_is_lost(EoSlotRef ref, bool of_session);

/* Does a session hold it? */
extern bool eo_slot_is_session(EoSlotRef ref);

/* ---- for the worker of a database ---- */

/* Take the next slot that is due off the list of those to be settled. */
extern bool eo_slot_next_ended(Oid dboid, int64 now_us, EoSlotView *view);

/* Put it back on that list, not to be taken before due_us. */
extern void eo_slot_put_off(EoSlotRef ref, int64 due_us);

/* The same, and count it as a look. */
extern void eo_slot_wait(EoSlotRef ref, int64 due_us);

/* Give a claim back whose seal was to be undone only: it is TO_ABORT, and due. */
extern void eo_slot_give_back(EoSlotRef ref);

/* A record was left, or a look was taken: look again at due_us. */
extern void eo_slot_buried(EoSlotRef ref, int64 due_us);

/* How it ended cannot be told; it stays until an operator decides. */
extern void eo_slot_doubted(EoSlotRef ref);

/* Find the next claim whose lease is to be extended, from *cursor on. */
extern bool eo_slot_beat_due(Oid dboid, int64 now_us, uint32 *cursor, EoSlotView *view);

/* The heartbeat has ended; lease_until_ms 0: not known, or not extended. */
extern void eo_slot_beaten(EoSlotRef ref, bool lost, int64 lease_until_ms, int64 due_us);

/*
 * When the next of the database's slots is due, but for looks (looks.h), some instant that is
 * past if one is due already; INT64_MAX: never.
 */
extern int64 eo_slot_next_due(Oid dboid);

/* A new worker: nothing of the database is under way any more. */
extern void eo_slot_restart(Oid dboid);
extern void eo_slot_drop_database(Oid dboid);

/* ---- for claim_file.c, and slot_prepared.c ---- */

/*
 * Take over a slot that the server's last run has left, or enter one of a prepared
 * transaction; slots about which nothing is to be done are left out.
 */
extern void eo_slot_adopt(const EoTarget *target, const char *pk, const EoSlotInfo *info,
						  const char *error, uint32 error_len);

/* ---- for slot_prepared.c ---- */

/* The state of a claim whose transaction is over, nobody has said how. */
extern EoSlotState eo_slot_state_after_crash(const EoSlotInfo *info);

/* Enter a state, and have the worker of the database see to it.  The caller must hold the lock. */
extern void eo_slot_enter_state(EoSlot *slot, EoSlotState state);
extern void eo_slot_give_to_worker(EoSlot *slot, EoSlotState state);

#endif							/* EO_CLUSTER_SLOTS_H */
