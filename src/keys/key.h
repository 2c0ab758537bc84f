/*-------------------------------------------------------------------------
 *
 * key.h
 *	  A key, the names under which it is known, and waiting for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_KEY_H
#define EO_KEYS_KEY_H

#include "postgres.h"

#include "cluster/target.h"
#include "commit/xact.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/store.h"
#include "storage/lock.h"

typedef struct EoKey
{
	EoStore    *store;
	const char *key;			/* as the user gave it */
	char	   *pk;				/* partition key of its record */
	EoTarget	target;			/* the table its record is in */
	uint8		digest[EO_DIGEST_LEN];	/* of target and pk: the name in the
										 * claim table */

	/*
	 * The claim that the current transaction has on the key, in whatever
	 * state; NULL if it has none.  It is looked up by eo_key_find(), and is
	 * not valid any more after a call that may end the claim.
	 */
	EoTxClaim  *held;
} EoKey;

/*
 * Fill in a key.  key and store are borrowed; pk is palloc'd.  Makes no request.  The caller has
 * this token of the claim (NULL: none), which says for sure that the claim is the one he means.
 * Raises 54000 if the key is too long, 0A000 if the transaction holds it in what may be another
 * account.
 */
extern void eo_key_find(EoKey *k, EoStore *store, const char *key, const char *token);

/*
 * The same for an action, of whose partition key messages and views make a key; see
 * action_seal.h.  pk is borrowed.
 */
extern void eo_key_find_action(EoKey *k, EoStore *store, char *pk);

/*
 * Make sure that the service's clock is known, before anything is judged or written by
 * it.  Raises ID006, or what the request for it ends with: could not "doing" key.
 */
extern void eo_key_need_clock(const EoKey *k, const char *doing);

/*
 * If a transaction that is over has left the key to be settled, settle it.  token: only if the
 * claim is of that token; NULL: of any.
 */
extern void eo_key_settle(const EoKey *k, const char *token);

/* Read the record.  Raises what the request ends with: could not "doing" key. */
extern EoAnswer *eo_key_read(const EoKey *k, const char *doing);

/*
 * Does that claim of this transaction, on this key, belong to the current role: has it
 * acquired it, or does it remember its token?
 */
extern bool eo_key_owns(const EoKey *k, const EoTxClaim *claim);

/*
 * Raise 54000 if a result or error of len bytes does not fit into the item beside
 * the key and the progress that is known.  what begins the message; hint is its hint.
 */
extern void eo_key_check_size(const EoKey *k, const char *what, size_t len, const char *hint);

/*
 * The same for a result (NULL: none), as the layout keeps it.  Raises 22023, too, if results
 * are kept in DynamoDB's own types and these have no such value.
 */
extern void eo_key_check_result(const EoKey *k, const char *result, const char *hint);

/*
 * Note the progress in a record of the claim with that token, for the next note and for
 * eo_key_check_size().  held is the claim in this transaction; NULL: it is not in this one.
 */
extern void eo_key_see_progress(const EoKey *k, EoTxClaim *held, const char *token,
								const EoRecord *r);

/*
 * Both of these wait, interruptibly, for a key that another run holds, and return at give_up_us
 * (monotonic clock) at the latest.
 */

/*
 * Wait for the end of a transaction of this cluster.  PostgreSQL's deadlock detector
 * sees this wait, and may raise 40P01; the user's own lock_timeout may raise 55P03.
 */
extern void eo_key_wait_for_holder(VirtualTransactionId holder, int64 give_up_us);

/*
 * Wait until DynamoDB should be asked again.  polls is the number of times that it
 * was asked before; the pause grows with it.  lease_until_ms is the end of the
 * lease that was found; 0: there is none.
 */
extern void eo_key_wait_for_poll(const EoStore *store, int polls, int64 lease_until_ms,
								 int64 give_up_us);

#endif							/* EO_KEYS_KEY_H */
