/*-------------------------------------------------------------------------
 *
 * decision.h
 *	  The decision that a claim is completed: a row that commits with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_DECISION_H
#define EO_COMMIT_DECISION_H

#include "postgres.h"

#include "commit/xact.h"
#include "ledger/outbox.h"

/*
 * Insert the row of this claim, and note that it is completed with that result (JSON text;
 * NULL: none).  writes may be NULL; the locks of their items must be held.  The first call
 * of a life asks DynamoDB; verb is for messages.  Raises what eo_outbox_add() and
 * eo_lives_contact() raise.
 */
extern void eo_decision_add(EoTxClaim *claim, const EoTarget *target, const EoOutboxWrites *writes,
							const char *result, const char *verb);

/*
 * Put claims whose rows have writes in the order in which these were handed in.  The worker is
 * told of them in the order of the claims, and relies on that (write_order.c).  It may be
 * another one: the claim that was made last may have been completed first.  All of them must
 * be of the same level.
 */
extern void eo_decision_order(dlist_head *claims);

#endif							/* EO_COMMIT_DECISION_H */
