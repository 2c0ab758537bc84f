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

#include "commit/xact.h"
#include "dynamodb/record.h"
#include "dynamodb/token.h"
#include "keys/key.h"
#include "server/answer.h"
#include "server/store.h"

typedef enum EoClaimOutcome
{
	EO_CLAIM_ACQUIRED,
	EO_CLAIM_COMPLETED,
	EO_CLAIM_IN_PROGRESS,
	EO_CLAIM_RETRY_LATER,
	EO_CLAIM_FAILED
} EoClaimOutcome;

/* What idem_acquire() was asked; durations as named, -1 or 0 where noted. */
typedef struct EoAcquire
{
	const char *key;
	int64		lease_ms;		/* -1: the server's */
	int64		retention_s;	/* -1: the server's */
	int64		wait_ms;		/* 0: do not wait */
	int64		max_runs;		/* 0: no limit */
	const char *payload_sha256; /* NULL: no payload given */
	bool		hold;			/* on_abort => 'hold' */
	bool		keep;			/* on_commit => 'keep' */
	bool		settled_within; /* by the statement itself, however it ends */
} EoAcquire;

/* What it answers.  Instants are epoch milliseconds; 0: none. */
typedef struct EoClaim
{
	EoClaimOutcome outcome;
	char		token[EO_TOKEN_LEN + 1];	/* "": not ours */
	int64		fence;
	int64		runs;
	char	   *result;			/* JSON text or NULL */
	char	   *error;			/* JSON text or NULL */
	int64		lease_until_ms;
	int64		retry_at_ms;
	int64		expires_at_ms;
	bool		mine;
	bool		replayed;
	bool		out_of_runs;	/* of EO_CLAIM_FAILED: might run with a larger
								 * max_runs */
} EoClaim;

extern void eo_acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim);

/* Raise what a claim that was not acquired means to who needed it. */
pg_noreturn extern void eo_acquire_raise(const EoStore *store, const char *key, const EoClaim *claim);

/* One key that is asked for. */
typedef struct EoAcquiring
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
} EoAcquiring;

extern void eo_acquire_init(EoAcquiring *a, EoStore *store, const EoAcquire *ask, EoClaim *claim);

/*
 * Both return true once the claim is filled in.  False: a->answer is to be run,
 * and then given to eo_acquire_take().  They raise what eo_acquire()
 * raises.
 */
extern bool eo_acquire_begin(EoAcquiring *a);
extern bool eo_acquire_take(EoAcquiring *a);

/*
 * For who writes otherwise than acquire does.  Is the key held by another
 * session of this cluster?  And, after a refusal by a record: what does it mean?
 * Both return true once the claim is filled in; false from the second: the
 * record has changed, ask again.  They raise what eo_acquire() raises.
 */
extern bool eo_acquire_look_around(EoAcquiring *a);
extern bool eo_acquire_explain(EoAcquiring *a, const EoRecord *r);

#endif							/* EO_KEYS_ACQUIRE_H */
