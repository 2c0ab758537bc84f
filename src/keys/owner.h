/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  Idempotency keys: the state machine, and what an answer means.
 *
 * All functions work on the current role's store, wait interruptibly, and
 * raise with class ID SQLSTATEs.  Strings returned are palloc'd.  What is
 * tied to the transaction takes effect with it, see xact.h and seal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_OWNER_H
#define EO_KEYS_OWNER_H

#include "postgres.h"

#include "compat.h"

#include "server/store.h"
#include "commit/xact.h"

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

/* A key and its names; see eo_key_find(). */
typedef struct EoKey
{
	EoStore    *store;
	const char *key;
	char	   *pk;
	EoTarget	target;
	uint8		digest[EO_DIGEST_LEN];
	EoTxClaim  *held;			/* by this transaction; NULL: not */
	int64		retention_s;	/* of a claim that has been read; 0: it was
								 * not */
} EoKey;

extern void eo_key_find(EoKey *k, EoStore *store, const char *key);

/* Raise 54000 if there is no room in the item for a result or error that long. */
extern void eo_key_check_size(const EoKey *k, const char *what, size_t len, const char *hint);

/* acquire.c */
extern void eo_claim_acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim);

/*
 * batch.c.  The same for many keys, parallel_requests at a time.  wait_ms is that
 * of the first, and is for all of them together.  emit() gets the claims in the
 * order of the keys; their strings are gone when it returns.
 */
typedef void (*EoEmitClaim) (void *arg, const char *key, const EoClaim *claim);

extern void eo_claim_acquire_many(EoStore *store, const EoAcquire *asks, int n,
								  EoEmitClaim emit, void *arg);

/* Raise what a claim that was not acquired means to who needed it. */
pg_noreturn extern void eo_claim_raise(const EoStore *store, const char *key, const EoClaim *claim);

/* Finished, and so long ago that it counts as absent. */
extern bool eo_claim_is_expired(const EoStore *store, const EoRecord *r);

/*
 * owner.c.  token NULL: the one this transaction or session holds.  result
 * NULL: no result.  immediate: written at once, whatever becomes of the
 * transaction.
 */
extern void eo_claim_complete(EoStore *store, const char *key, const char *token,
							  const char *result, bool immediate);

/*
 * Claimed by the commit itself.  retention_s -1: the server's.  guard: for whom,
 * as long as the transaction; NULL: for a call.
 */
extern void eo_claim_once(EoStore *store, const char *key, const char *result,
						  int64 retention_s, const EoGuard *guard);
extern void eo_claim_fail(EoStore *store, const char *key, const char *token,
						  const char *error, int64 retry_after_ms, bool terminal,
						  bool immediate);

/* False: there was nothing of ours to release. */
extern bool eo_claim_release(EoStore *store, const char *key, const char *token);

/* Returns the end of the lease, epoch milliseconds. */
extern int64 eo_claim_extend(EoStore *store, const char *key, const char *token,
							 int64 lease_ms);

/*
 * operator.c.  False: there is no live record.  As this transaction sees it: what it has
 * completed is completed.  Strings belong to the current memory context.
 */
extern bool eo_claim_get(EoStore *store, const char *key, EoRecord *record);

/* False: there is no record. */
extern bool eo_claim_forget(EoStore *store, const char *key);

/*
 * False: the record is not COMMITTING.  completed: or else failed.  origin:
 * the database, if it is another one; NULL: this one.
 */
extern bool eo_claim_resolve(EoStore *store, const char *key, bool completed,
							 const char *origin);

#endif							/* EO_KEYS_OWNER_H */
