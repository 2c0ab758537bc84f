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

/*
 * Of a fetch that has ended: EO_OK and the identity, or why there is none.
 * EO_UNANSWERED: the source does not answer, or not as it should; that may pass.
 */
extern EoStatus eo_fetch_status(const EoFetch *f);
extern const EoIdentity *eo_fetch_identity(const EoFetch *f);
extern const EoCaller *eo_fetch_caller(const EoFetch *f);
extern const char *eo_fetch_source(const EoFetch *f);
extern const char *eo_fetch_why(const EoFetch *f);	/* the sources before it */
extern const char *eo_fetch_failure(const EoFetch *f);

/* Ends a request in flight, and wipes everything; f may be NULL. */
extern void eo_fetch_free(EoFetch *f);

#endif							/* EO_SERVER_FETCH_H */
