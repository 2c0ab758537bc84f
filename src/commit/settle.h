/*-------------------------------------------------------------------------
 *
 * settle.h
 *	  How a transaction ended, and what is left to be done about its claim.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SETTLE_H
#define EO_COMMIT_SETTLE_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "cluster/slots.h"
#include "ledger/life_verdict.h"
#include "ledger/outbox.h"
#include "records/origin.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/store.h"
#include "server/store_record.h"

/* ---- what a slot tells ---- */

/*
 * Prepare the write that settles a claim whose transaction is over and did not commit.  What view
 * points to must live until it is started.  Returns NULL if the slot was freed in the meantime,
 * because another process has settled the claim.
 */
extern EoAnswer *eo_settle_prepare(EoStore *store, const EoSlotView *view);

/* Does the answer show a record that is in this state under the claim's token? */
extern bool eo_settle_is_own(const EoSlotView *view, const EoAnswer *answer, EoState state);

/* The work that is left about a slot after the answer to its write (eo_settle_prepare()). */
typedef enum EoSettled
{
	EO_SETTLED,					/* nothing */
	EO_SETTLED_LOOKS,			/* the record was buried.  A copy of the
								 * request that made the claim may still
								 * arrive: look at the record again until the
								 * signature of that request is too old */
	EO_SETTLED_AGAIN,			/* a seal was to be taken back that has not
								 * arrived, and which the record does not
								 * refuse yet: settle the claim once more,
								 * with another write (eo_slot_wait()) */
	EO_SETTLED_WORN,			/* the record notes as many undone seals as a
								 * claim may have (EoRecord.worn): give the
								 * claim back, too, as if it had not outlived
								 * its transaction (eo_slot_give_back()) */
	EO_SETTLED_WAITS			/* the claim of a session was not given back,
								 * because one of its transactions has sealed
								 * the record: give it back again when that is
								 * finished or undone */
} EoSettled;

/* Judge the answer.  Says EO_SETTLED_WORN in the server's log. */
extern EoSettled eo_settle_take(const EoSlotView *view, const EoAnswer *answer);

/*
 * Does this store lead to the record of a claim that was found by its digest?  Another server may
 * be about a table of the same name in another account.
 */
extern bool eo_settle_leads_to(const EoStore *store, const EoSlotView *view);

/*
 * For a backend that has found a slot whose transaction is over: settle the claim
 * now, if it is one of this database that did not commit.  The others are left to
 * the worker.  When this returns the caller may ask DynamoDB for the key.  Raises
 * if DynamoDB does not answer, and what eo_outbox_find() raises.
 */
extern void eo_settle_on_the_spot(EoStore *store, const char *key, const EoSlotView *view);

/* ---- what a record tells that is COMMITTING ---- */

/*
 * How did the transaction end that is named by the origin, and completes a key under this
 * token, whatever the address by which its table was reached?  The verdict is about the
 * origin's life, which must be ours or over.  If a record is concerned it must have been
 * read before the call.  It may still have been finished since, and the row removed; so
 * only a write that is conditional on what was read may be based on EO_FATE_ABORTED.  With
 * EO_FATE_COMMITTED *retention_s is set, unless it is NULL.  Needs a transaction; raises
 * what eo_outbox_find() raises.
 */
extern EoFate eo_settle_judge(const EoOrigin *origin, const char *token,
							  const EoLifeVerdict *verdict, int64 *retention_s);

/*
 * Does the transaction with that id go on?  A prepared one does.  Not to be asked about a
 * transaction of an earlier run of the server whose id may have been assigned again.
 */
extern bool eo_settle_is_running(uint64 xid);

/*
 * As eo_settle_judge(), by the commit log alone, for a record that is COMPLETED and whose
 * life this data has been through, over or not: is the transaction committed in this data
 * (EO_FATE_COMMITTED), is it missing (EO_FATE_ABORTED), or does the log not tell
 * (EO_FATE_UNKNOWN)?  timeline_end is where this data left the origin's timeline; Invalid:
 * it has not, or that is not known.
 */
extern EoFate eo_settle_judge_completed(const EoOrigin *origin, const EoLifeVerdict *verdict,
										XLogRecPtr timeline_end);

/*
 * Has the claim of a record IN_PROGRESS ended with its life, which must be over?  So it is if the
 * claim was bound to its transaction and nothing of it is left here: no slot, which would say what
 * is to be done, as that of a prepared transaction does; and no row, which would show that its
 * transaction has sealed the record after all, so that the table is not what it was.
 */
extern bool eo_settle_is_left(const EoRecord *record, const uint8 *digest);

/*
 * The fate of a record that is COMMITTING.  Asks about its life, which may take
 * requests.
 */
extern EoFate eo_settle_fate(EoStore *store, const EoRecord *record, int64 *retention_s);

/*
 * Read a record and tell its fate: EO_FATE_ELSEWHERE if there is no record, if it is
 * not COMMITTING, and on a standby.  If there is no row the record is read a second
 * time, because the worker may have finished it since the first.  Returns the
 * answer of the read, which the caller may free.  Raises if DynamoDB does not
 * answer (doing is the verb of that error), and what eo_outbox_find() raises.
 */
extern EoAnswer *eo_settle_read(EoStore *store, const char *key, const char *pk,
								const char *doing, EoFate *fate, int64 *retention_s);

/* Prepare the write by which eo_settle_aborted() gives a record back. */
extern EoAnswer *eo_settle_prepare_aborted(EoStore *store, const char *pk,
										   const EoRecord *record);

/*
 * Give back a record whose fate is EO_FATE_ABORTED, if it is still as it was read.
 * If it is not, nothing happens.  Raises if DynamoDB does not answer.  Returns false, and
 * has written nothing, if an heir of our life may know better.
 */
extern bool eo_settle_aborted(EoStore *store, const char *key, const char *pk,
							  const EoRecord *record);

/*
 * Nobody writes what a prepared transaction has become whose claims this life has sealed, unless
 * the life of this database holds its lease.  An heir has the same transaction, and may end it the
 * other way; and whoever has not heard of the heir yet takes the sealing life for its own.
 * Returns false if the life is not ours, or not over, after all.  Raises if DynamoDB does not
 * answer about the lease.
 */
extern bool eo_settle_may_decide(EoStore *store, const char *key, const uint8 *life);

/*
 * Is the transaction that completed the record one of this database, and not visible to the
 * snapshot of the current transaction?
 */
extern bool eo_settle_is_hidden(const EoRecord *record);

/* Raise 40001 if it is, for a key. */
extern void eo_settle_check_visible(const EoRecord *record, const char *key, const char *server);

#endif							/* EO_COMMIT_SETTLE_H */
