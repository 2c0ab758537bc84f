/*-------------------------------------------------------------------------
 *
 * slot_prepared.h
 *	  Claims that wait for the end of a prepared transaction.
 *
 * Nothing here raises an error; everything may be called in transaction callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_SLOT_PREPARED_H
#define EO_CLUSTER_SLOT_PREPARED_H

#include "postgres.h"

#include "cluster/memory.h"
#include "cluster/slots.h"
#include "records/origin.h"

extern const EoMemory eo_slot_prepared_memory;

/*
 * PREPARE TRANSACTION is about to be written: if the server ends between that and
 * eo_slot_prepared_begin(), what idem_fail() has said waits all the same.
 */
extern void eo_slot_prepared_announce(EoSlotRef ref, uint64 xid);

/*
 * The claim waits for the prepared transaction with that id: no process holds it any
 * more.  For the backend that has prepared it; and for the worker, which finds that a
 * transaction of an earlier run is prepared.
 */
extern void eo_slot_prepared_begin(EoSlotRef ref, uint64 xid);

/*
 * The prepared transaction is over: the claim is settled by what the outbox tells.
 * Nothing happens if somebody has said so before.
 */
extern void eo_slot_prepared_end(EoSlotRef ref);

/* Have the workers look whether prepared transactions are over. */
extern void eo_slot_prepared_signal(Oid dboid);

/* A number that changes with each of these calls, and with each claim that begins to wait. */
extern uint32 eo_slot_prepared_signals(void);

/* Show the next claim of a database that waits, from *cursor on. */
extern bool eo_slot_prepared_walk(Oid dboid, uint32 *cursor, EoSlotView *view);

/* Does a claim wait that was sealed under this life? */
extern bool eo_slot_prepared_of_life(const uint8 *life);

/*
 * Is there a claim under this token, in whatever state?  The digest is where the search begins: the
 * claim may have been made by another address of the table.
 */
extern bool eo_slot_prepared_is_known(const uint8 *digest, const char *token);

/* Find the claim under this token that a prepared transaction completes; by any address, too. */
extern bool eo_slot_prepared_find_completed(const char *token, EoSlotView *view);

/* Note whether other data has taken over, as found out under the life by. */
extern void eo_slot_prepared_set_heir(EoSlotRef ref, EoSlotHeir heir, const uint8 *by);

/*
 * Note what the record of a claim says that was found by its row only: the seal, and
 * whether the claim ends with its transaction.
 */
extern void eo_slot_prepared_note_seal(EoSlotRef ref, const EoOrigin *origin,
									   bool release_on_abort);

#endif							/* EO_CLUSTER_SLOT_PREPARED_H */
