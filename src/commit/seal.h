/*-------------------------------------------------------------------------
 *
 * seal.h
 *	  Before PostgreSQL commits: put the completed keys out of reach.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SEAL_H
#define EO_COMMIT_SEAL_H

#include "postgres.h"

#include "lib/ilist.h"

/*
 * Seal all completed claims of the list (of EoTxClaim), or raise: ID001,
 * ID002, ID004 or ID005 for what a key turns out to be, ID006 if there is no
 * definite answer within commit_timeout, ID007 if DynamoDB refuses.
 */
extern void eo_seal(dlist_head *claims);

#endif							/* EO_COMMIT_SEAL_H */
