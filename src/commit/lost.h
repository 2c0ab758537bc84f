/*-------------------------------------------------------------------------
 *
 * lost.h
 *	  What becomes of a session that loses a claim: the argument on_lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_LOST_H
#define EO_COMMIT_LOST_H

#include "postgres.h"

#include "commit/tx_claim.h"

typedef enum EoOnLost
{
	EO_LOST_IGNORE,				/* it is told at its next call, or at COMMIT */
	EO_LOST_CANCEL,				/* its statement is canceled, or the next one */
	EO_LOST_TERMINATE			/* its connection is terminated */
} EoOnLost;

/*
 * To be called once, in _PG_init: whether the transaction commits, and how many statements
 * are nested in each other.
 */
extern void eo_lost_init(const bool *committing, const int *depth);

/*
 * A claim was made: act if it is lost while the transaction is open, or while the session keeps
 * it.  Raises if there is no memory.
 */
extern void eo_lost_watch(const EoTxClaim *claim, EoOnLost on_lost);

/*
 * The transaction, or only a subtransaction, has ended, and its slots say how.  Allocates and
 * raises nothing.
 */
extern void eo_lost_ended(bool whole);

/*
 * The session has given up its claim on this key, or has a new one.  NULL: it gives up all that it
 * holds, or is another client's from now on.
 */
extern void eo_lost_forget(const uint8 *digest);

/* A statement of the client begins: raise if a claim is lost, and nobody has been told. */
extern void eo_lost_check(void);

/*
 * To be called in PG_CATCH: if the error is a cancel because of a lost claim, raise one that says
 * so in its place.  context: for the new error's memory.
 */
extern void eo_lost_explain(MemoryContext context);

#endif							/* EO_COMMIT_LOST_H */
