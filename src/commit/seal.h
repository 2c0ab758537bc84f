/*-------------------------------------------------------------------------
 *
 * seal.h
 *	  Before PostgreSQL commits: seal the keys that the transaction completes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SEAL_H
#define EO_COMMIT_SEAL_H

#include "postgres.h"

#include "lib/ilist.h"

/*
 * Seal all completed claims of a list of EoTxClaim.  When this returns every one of
 * them is sealed, and its slot is SEALING.  Waits interruptibly, at most for the
 * smallest commit_timeout of the servers involved.  Raises ID002 if a claim was
 * lost; ID001, ID004 or ID005 (23505 for a guard) if a key of idem_once() is in
 * progress, failed or completed already; ID006 if DynamoDB gives no definite answer
 * in time; ID007 if it refuses; 55000 if this database has no worker yet.
 */
extern void eo_seal(dlist_head *claims);

#endif							/* EO_COMMIT_SEAL_H */
