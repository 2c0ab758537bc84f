/*-------------------------------------------------------------------------
 *
 * acquire.h
 *	  Claiming a key: at once, or by steps, for callers that claim many in
 *	  parallel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_ACQUIRE_H
#define EO_KEYS_ACQUIRE_H

#include "postgres.h"

#include "commit/lost.h"
#include "commit/xact.h"
#include "keys/key.h"
#include "records/origin.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/store.h"

/* The outcome of a claim; the names in SQL are the same. */
typedef enum EoClaimOutcome
{
	EO_CLAIM_ACQUIRED,			/* the caller owns the key, and does the work */
	EO_CLAIM_COMPLETED,			/* an earlier run has completed it */
	EO_CLAIM_IN_PROGRESS,		/* another run has it; or this transaction or
								 * session, and then mine is true */
	EO_CLAIM_RETRY_LATER,		/* failed; retry_at_ms is not reached */
	EO_CLAIM_FAILED				/* failed for good, or out of runs */
} EoClaimOutcome;

/* The arguments of idem_acquire(). */
typedef struct EoAcquire
{
	const char *key;
	int64		lease_ms;		/* -1: the server's */
	int64		retention_s;	/* -1: the server's */
	int64		wait_ms;		/* 0: do not wait */
	int64		max_runs;		/* 0: no limit */
	const char *payload_sha256; /* NULL: no payload given */
	const char *handler;		/* of idem_call(), in UTF-8, see
								 * EO_MAX_HANDLER_BYTES; NULL: none */
	bool		hold;			/* on_abort => 'hold' */
	bool		keep;			/* on_commit => 'keep', or: */
	bool		session;		/* on_commit => 'session' */
	EoOnLost	on_lost;
	bool		settled_within; /* the statement that claims the key also
								 * settles it (idem_call, idem_guard) */
} EoAcquire;

/*
 * The result of idem_acquire().  Instants are epoch milliseconds; 0: none.  Strings
 * are palloc'd.
 */
typedef struct EoClaim
{
	EoClaimOutcome outcome;
	char		token[EO_TOKEN_LEN + 1];	/* "": the key was not acquired */
	int64		fence;
	int64		runs;
	char	   *result;			/* JSON text or NULL */
	char	   *error;			/* JSON text or NULL */
	char	   *progress;		/* JSON text or NULL; only if mine is true */
	int64		lease_until_ms;
	int64		retry_at_ms;
	int64		expires_at_ms;
	bool		mine;			/* this transaction or session has the claim */
	bool		replayed;		/* the outcome is that of an earlier run */
	bool		answered_here;	/* it was told without a request */
	bool		answered_from_cache;	/* the same, by the cache of completed
										 * keys */
	bool		out_of_runs;	/* EO_CLAIM_FAILED, but a larger max_runs
								 * would allow another run */
} EoClaim;

/*
 * Claim a key.  If another run has it this waits for at most wait_ms, interruptibly.
 * No outcome is raised as an error.  Raises ID003 for another payload or handler, ID006 and
 * ID007 for a call that failed, 40001 if a concurrent transaction that the snapshot
 * does not show has completed the key, and 54000 if there is no room for the claim.
 */
extern void eo_acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim);

/*
 * For callers that cannot go on without the key: raise ID001 or ID004 for a claim
 * whose outcome is neither "acquired" nor "completed".
 */
pg_noreturn extern void eo_acquire_raise(const EoStore *store, const char *key,
										 const EoClaim *claim);

/* ---- by steps ---- */

/* A key that is being claimed. */
typedef struct EoAcquiring
{
	EoKey		k;
	const EoAcquire *ask;
	EoClaim    *claim;			/* to be filled in */
	char		token[EO_TOKEN_LEN + 1];
	uint8		cache_digest[EO_DIGEST_LEN];	/* see cache.h */
	uint64		cache_mark;		/* before any request, the same */
	int			races;			/* lost so far; the limit is MAX_RACES */

	/* The request that is to be run next, or is in flight. */
	EoAnswer   *answer;
	EoWrite		write;			/* what it writes */
	char		origin[EO_ORIGIN_LEN + 1];	/* the life that claims */
	EoTxClaim  *held;			/* the claim it is for, in the transaction */
	bool		replacing;		/* it replaces an expired record */
	bool		in_doubt;		/* a copy of it, or of the request before, may
								 * still arrive */
	bool		clock_moved;	/* the service has refused a request's time */

	/*
	 * IN_PROGRESS in another session of this cluster, which can be waited
	 * for.
	 */
	bool		local;
	VirtualTransactionId holder;
} EoAcquiring;

/* Begin with a key, under a new token.  ask and claim are borrowed. */
extern void eo_acquire_init(EoAcquiring *a, EoStore *store, const EoAcquire *ask, EoClaim *claim);

/*
 * Begin to claim the key; and take the answer of a request, which this frees.  Both
 * return true when the claim is filled in.  If they return false the caller must
 * run a->answer, and then call eo_acquire_take().  They raise what eo_acquire()
 * raises, and do not wait for another run.
 */
extern bool eo_acquire_begin(EoAcquiring *a);
extern bool eo_acquire_take(EoAcquiring *a);

/*
 * The answer was to travel in a bundle.  True: the key is claimed.  False: it is not, as far as
 * is known, and a->answer is now a request of its own, to be run; or, if it is known, NULL,
 * and the key is to be begun with again.
 */
extern bool eo_acquire_take_bundled(EoAcquiring *a);

/* Forget the claim, because its request was never sent. */
extern void eo_acquire_forget(EoAcquiring *a);

/* ---- for callers that write with a verb other than EO_ACQUIRE ---- */

/*
 * If another session of this cluster holds the key, fill in the claim and return
 * true.  If a transaction that is over has left it to be settled, settle it.  Raises
 * what eo_acquire() raises.
 */
extern bool eo_acquire_check_slots(EoAcquiring *a);

/*
 * Fill in the claim from the record that has refused a write.  Returns false if the
 * key may be free by now, so that the caller should try again.  Raises what
 * eo_acquire() raises.
 */
extern bool eo_acquire_explain(EoAcquiring *a, const EoRecord *r);

#endif							/* EO_KEYS_ACQUIRE_H */
