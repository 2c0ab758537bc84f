/*-------------------------------------------------------------------------
 *
 * acquire.h
 *	  Claiming a key by steps, for who claims many side by side.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_ACQUIRE_H
#define EO_KEYS_ACQUIRE_H

#include "postgres.h"

#include "keys/owner.h"

/* One key that is asked for. */
typedef struct EoAsking
{
	EoKey		k;
	const EoAcquire *ask;
	EoClaim    *claim;			/* what it comes to */
	char		token[EO_TOKEN_LEN + 1];
	int			races;			/* lost so far */

	/* The request that is next, or under way, and what it is for. */
	EoAnswer   *answer;
	EoWrite		write;
	EoTxClaim  *held;
	bool		replacing;		/* a finished record past its time */
	bool		in_doubt;		/* an earlier request may still arrive */

	/* Another session of this cluster holds it; to be waited for. */
	bool		local;
	VirtualTransactionId holder;
} EoAsking;

extern void eo_asking_init(EoAsking *a, EoStore *store, const EoAcquire *ask, EoClaim *claim);

/*
 * Both return true once the claim is filled in.  False: a->answer is to be run,
 * and then given to eo_asking_take().  They raise what eo_claim_acquire()
 * raises.
 */
extern bool eo_asking_begin(EoAsking *a);
extern bool eo_asking_take(EoAsking *a);

/*
 * For who writes otherwise than acquire does.  Is the key held by another
 * session of this cluster?  And, after a refusal by a record: what does it mean?
 * Both return true once the claim is filled in; false from the second: the
 * record has changed, ask again.  They raise what eo_claim_acquire() raises.
 */
extern bool eo_asking_look_around(EoAsking *a);
extern bool eo_asking_explain(EoAsking *a, const EoRecord *r);

#endif							/* EO_KEYS_ACQUIRE_H */
