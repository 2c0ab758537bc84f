/*-------------------------------------------------------------------------
 *
 * fetch.h
 *	  Fetching credentials from where the chain says.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_FETCH_H
#define EO_SERVER_FETCH_H

#include "postgres.h"

#include "identity/chain.h"
#include "identity/identity.h"
#include "wire/status.h"

/* One fetch under way.  It is in memory of secret.h. */
typedef struct EoFetch EoFetch;

/*
 * EO_OK and the identity, or the caller; or why there is none.  EO_UNANSWERED: the source does
 * not answer, or not as it should; that may pass.
 */
typedef struct EoFetchResult
{
	EoStatus	status;
	EoIdentity	identity;
	EoCaller	caller;
	const char *source;
	const char *why;			/* why the sources before it have not answered */
	char		failure[EO_CHAIN_WHY_LEN];
} EoFetchResult;

/*
 * Begin: read the files and make the plan.  env and wish must outlive the fetch.  NULL:
 * there is no memory.
 */
extern EoFetch *eo_fetch_start(const EoChainEnvironment *env, const EoChainWish *wish,
							   int64 deadline_us);

/*
 * Begin to ask STS who the identity belongs to.  The wish says which endpoint; the
 * rest as above.
 */
extern EoFetch *eo_fetch_start_caller(const EoChainEnvironment *env, const EoChainWish *wish,
									  const EoIdentity *identity, int64 deadline_us);

/*
 * Go on without waiting.  False: the fetch has ended.  Otherwise there is nothing to
 * do before *until_us or the next reply, for which the caller waits in
 * eo_http_wait().  Raises what eo_http_start() raises.
 */
extern bool eo_fetch_step(EoFetch *f, int64 *until_us);

/* The result of a fetch that has ended; it lives as long as the fetch. */
extern const EoFetchResult *eo_fetch_result(const EoFetch *f);

/* Ends a request in flight, and wipes everything; f may be NULL. */
extern void eo_fetch_free(EoFetch *f);

#endif							/* EO_SERVER_FETCH_H */
