/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  The claims of the current transaction, and its callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_XACT_H
#define EO_COMMIT_XACT_H

#include "postgres.h"

#include "cluster/target.h"
#include "commit/tx_claim.h"
#include "lib/ilist.h"
#include "server/store.h"

/* Claims that one transaction may have. */
#define EO_MAX_CLAIMS_OF_TRANSACTION 10000

/* Has this claim a row in the outbox, and no seal yet? */
static inline bool
eo_xact_is_completed(const EoTxClaim *claim)
{
	return claim->info->state == EO_SLOT_COMPLETED || claim->info->state == EO_SLOT_PLANNED;
}

/* Has idem_fail() or idem_release() been called for this claim? */
static inline bool
eo_xact_is_given_up(const EoTxClaim *claim)
{
	return claim->info->state == EO_SLOT_FAILED || claim->info->state == EO_SLOT_RELEASED;
}

/*
 * Register the callbacks.  To be called once, in _PG_init.  Before a transaction
 * commits that has completed claims, seal() is called with the list of all its
 * claims (EoTxClaim).  It must seal those for which eo_xact_is_completed() is true,
 * or raise.
 */
extern void eo_xact_init(void (*seal) (dlist_head *claims));

/* The claim of this transaction on the key with that digest; NULL: there is none. */
extern EoTxClaim *eo_xact_find(const uint8 *digest);

/*
 * Enter a claim of this transaction, with a slot filled from info.  This must be
 * done before a request is sent that may create the claim.  key and pk are copied;
 * the store must last until the end of the transaction.  The caller fills in
 * unsettled, earlier and guard, which are zero.  If the claim table is full and slots
 * are about to be freed, this waits for some seconds, interruptibly.  Raises 54000 if
 * there is no room, or the transaction has too many claims.
 */
extern EoTxClaim *eo_xact_add(EoStore *store, const char *key, const char *pk,
							  const EoTarget *target, const EoSlotInfo *info);

/*
 * Remove a claim and free its slot.  For a claim about whose record nothing is left
 * to be done: no record was written, or it has been settled already.
 */
extern void eo_xact_drop(EoTxClaim *claim);

/*
 * Remove a claim whose acquire was refused, while an earlier copy of the request may
 * still arrive.  The worker buries whatever that copy writes under the claim's
 * token.
 */
extern void eo_xact_abandon(EoTxClaim *claim);

/*
 * Note that the row of this claim was inserted into the outbox by the current
 * subtransaction: the claim is to be sealed.  result is copied; NULL: none.
 */
extern void eo_xact_completed(EoTxClaim *claim, const char *result);

/*
 * Move our callback to the head of PostgreSQL's list, so that it runs before all
 * callbacks that are registered now.  Does nothing while the transaction commits.
 */
extern void eo_xact_stay_first(void);

/*
 * Have add() called when this transaction commits, before its keys are sealed: it may make
 * keys of this server that are to be claimed by the commit.  Raises 55000 if the transaction
 * has created or altered the server.
 */
extern void eo_xact_at_commit(void (*add) (void), const EoServer *server);

/* Has this transaction claims, or work of eo_xact_at_commit(), of this server? */
extern bool eo_xact_uses_server(Oid serverid);

/*
 * Have ended() called when a subtransaction ends; released: what it did is its parent's, else it
 * was rolled back.  It must not raise.
 */
extern void eo_xact_follow_levels(void (*ended) (bool released, SubTransactionId mine,
												 SubTransactionId parent));

/* Has PRE_COMMIT been reached, so that it is too late for new claims? */
extern bool eo_xact_is_committing(void);

/*
 * Has this transaction anything that its commit must seal or settle: a claim, or a function
 * of eo_xact_at_commit(), which is going to make claims?
 */
extern bool eo_xact_has_work(void);

/*
 * Note that the executor or a utility command begins or ends.  At depth 0 it is a
 * statement of the client.  eo_xact_leave() must be called even if an error is
 * raised in between.
 */
extern void eo_xact_enter(void);
extern void eo_xact_leave(void);

/*
 * If the depth is 0, note that a statement of the client begins.  To be called
 * before eo_xact_enter(), and whenever the executor starts.
 */
extern void eo_xact_note_statement(void);

/*
 * Was a transaction block open when the client's statement began?  A pipeline counts
 * as a block from its second statement on.  PostgreSQL's IsTransactionBlock() cannot
 * be asked later: in a subtransaction of a function, such as that of an exception
 * block, it always says yes.
 */
extern bool eo_xact_in_block(void);

/*
 * The claim is held again: what idem_release() has said has not been written.  Raises ID002 if
 * another run has got the key since.
 */
extern void eo_xact_reclaimed(EoTxClaim *claim);

/* Raise ID002 if a heartbeat has found a claim of this transaction lost. */
extern void eo_xact_check_lost(void);

#endif							/* EO_COMMIT_XACT_H */
