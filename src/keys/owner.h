/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  What the owner of a key does with it: complete, fail, release, extend.
 *
 * The owner is the run that has the claim's token.  token is that token; NULL: the
 * one that the current transaction holds, or the session remembers.  A result or
 * error is JSON text; NULL: none.
 *
 * All functions wait interruptibly.  They raise ID008 if no token is given and none
 * is known, or if the claim was settled before in another way; ID002 if the claim is
 * lost; ID006 and ID007 for a call that failed; 54000 if a text or the claim has no
 * room.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_OWNER_H
#define EO_KEYS_OWNER_H

#include "postgres.h"

#include "compat.h"
#include "keys/writes.h"
#include "server/error.h"
#include "server/store.h"

/*
 * Complete a key: if and when the current transaction commits, or at once if
 * immediate is true.  Completing a key again with the same result does nothing.
 */
extern void eo_owner_complete(EoStore *store, const char *key, const char *token,
							  const char *result, bool immediate, const EoWrites *writes);

/*
 * Have the commit of the current transaction claim and complete a key that it has
 * not acquired.  retention_s -1: the server's.  guard is the trigger that asks, and
 * must last until the end of the transaction; NULL: a function call asks.  Raises
 * ID005 (23505 for a guard) if the transaction has the key, or if one that has
 * committed has completed it.
 */
extern void eo_owner_once(EoStore *store, const char *key, const char *result,
						  int64 retention_s, const EoGuard *guard, const EoWrites *writes);

/*
 * Fail a key: for good if terminal is true, otherwise until retry_after_ms from now.
 * Done at once if immediate is true, or if this transaction does not hold the key
 * and no transaction block is open.  Otherwise it is done when the transaction is
 * over, however that ends.
 */
extern void eo_owner_fail(EoStore *store, const char *key, const char *token,
						  const char *error, int64 retry_after_ms, bool terminal,
						  bool immediate);

/*
 * Give a key back without counting the run, when the transaction is over or at once,
 * as eo_owner_fail().  Returns false if there is no claim of ours to release; that
 * raises nothing.  spared: the machine has failed, which the record notes; for a claim that
 * this transaction holds.
 */
extern bool eo_owner_release(EoStore *store, const char *key, const char *token, bool spared);

/*
 * Extend the lease of a claim to lease_ms from now (negative: by the server's
 * option), and note its progress (JSON text; NULL: leave it), at once.  Returns the new end
 * of the lease, epoch milliseconds.  Raises 55000 if there is a note that the caller has
 * not seen.
 */
extern int64 eo_owner_extend(EoStore *store, const char *key, const char *token,
							 int64 lease_ms, const char *progress);

#endif							/* EO_KEYS_OWNER_H */
