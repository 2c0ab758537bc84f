/*-------------------------------------------------------------------------
 *
 * completion.h
 *	  The decision that a claim is completed: a row that commits with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_COMPLETION_H
#define EO_COMMIT_COMPLETION_H

#include "postgres.h"

#include "commit/xact.h"
#include "ledger/outbox.h"

/*
 * Insert the row of this claim, and note that it is completed with that result (JSON text;
 * NULL: none).  writes may be NULL; the locks of their items must be held.  Raises what
 * eo_outbox_guard_add() and eo_lives_await() raise.
 */
extern void eo_completion_add(EoTxClaim *claim, const EoTarget *target,
							  const EoOutboxWrites *writes,
							  const char *result);

#endif							/* EO_COMMIT_COMPLETION_H */
