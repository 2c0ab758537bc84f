/*-------------------------------------------------------------------------
 *
 * claim.h
 *	  Idempotency keys: the state machine, and what an answer means.
 *
 * All functions work on the current role's store, wait interruptibly, and
 * raise with class ID SQLSTATEs.  Strings returned are palloc'd.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLAIM_H
#define EO_CLAIM_H

#include "postgres.h"

#include "compat.h"

#include "store.h"

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
} EoClaim;

extern void eo_claim_acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim);

/*
 * token NULL: the one this session remembers.  result NULL: no result.
 */
extern void eo_claim_complete(EoStore *store, const char *key, const char *token,
							  const char *result);
extern void eo_claim_fail(EoStore *store, const char *key, const char *token,
						  const char *error, int64 retry_after_ms, bool terminal);

/* False: there was nothing of ours to release. */
extern bool eo_claim_release(EoStore *store, const char *key, const char *token);

/* Returns the end of the lease, epoch milliseconds. */
extern int64 eo_claim_extend(EoStore *store, const char *key, const char *token,
							 int64 lease_ms);

/* False: there is no live record.  The answer is freed by its context. */
extern bool eo_claim_get(EoStore *store, const char *key, EoAnswer **answer);

/* False: there is no record. */
extern bool eo_claim_forget(EoStore *store, const char *key);

/* Raise what a claim that was not acquired means to who needed it. */
pg_noreturn extern void eo_claim_raise(const EoStore *store, const char *key, const EoClaim *claim);

#endif							/* EO_CLAIM_H */
