/*-------------------------------------------------------------------------
 *
 * credential_cache.h
 *	  The credentials that the processes of a cluster have fetched.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_CREDENTIAL_CACHE_H
#define EO_SERVER_CREDENTIAL_CACHE_H

#include "postgres.h"

#include "identity/chain.h"
#include "identity/identity.h"
#include "server/fetch.h"
#include "utils/timestamp.h"
#include "wire/status.h"

/* A summary of an entry, without any secret. */
typedef struct EoCredentialReport
{
	char		source[64 + EO_MAX_PROFILE];	/* that has answered last; "":
												 * none has */
	char		why[EO_CHAIN_WHY_LEN];	/* why the sources before it have not */
	char		failure[EO_CHAIN_WHY_LEN];	/* of the last fetch; "": none */
	TimestampTz failing_since;	/* if it has failed */
	bool		is_away;		/* the source does not answer, which may pass */
	int64		expires_s;		/* epoch seconds; 0: never */
	bool		has_identity;	/* one that has not expired */
	int64		fetches;		/* that have ended since the server was used
								 * first */
	int64		failed_fetches; /* of these */
	char		profile[EO_MAX_PROFILE + 1];	/* as the server's options
												 * say, "": none */
	char		role_arn[EO_MAX_ARN + 1];	/* the same */
} EoCredentialReport;

typedef enum EoCacheAnswer
{
	EO_CACHE_HAS,				/* identity has them */
	EO_CACHE_FETCH,				/* the caller must fetch them, and then call
								 * one of the two functions that end a fetch */
	EO_CACHE_WAIT,				/* another process is fetching them */
	EO_CACHE_FAILED				/* they could not be fetched a moment ago */
} EoCacheAnswer;

/* How long a process may take to fetch. */
#define EO_FETCH_US INT64CONST(10000000)

/* Request the lock, and make the memory.  Called in the postmaster, at each start. */
extern void eo_credential_cache_request(void);
extern void eo_credential_cache_init(void);

/*
 * Ask for credentials.  If *generation is not that of the cache's, they are copied to
 * identity, and *generation is set.
 */
extern EoCacheAnswer eo_credential_cache_ask(const EoChainWish *wish, EoIdentity *identity,
											 uint64 *generation);

/*
 * The same without an offer to fetch: false, and an empty identity, if there are none
 * that can be used.
 */
extern bool eo_credential_cache_follow(const EoChainWish *wish, EoIdentity *identity,
									   uint64 *generation);

/* The service has called the credentials of that generation expired. */
extern void eo_credential_cache_reject(const EoChainWish *wish, uint64 generation);

/* News for the log that the end of a fetch brings. */
typedef enum EoCacheNews
{
	EO_CACHE_NOTHING_NEW,
	EO_CACHE_FAILS,				/* this fetch is the first that failed */
	EO_CACHE_WORKS_AGAIN
} EoCacheNews;

/* The fetch has ended: with a result, or by an error. */
extern EoCacheNews eo_credential_cache_end(const EoChainWish *wish, const EoFetchResult *result);
extern void eo_credential_cache_abandon(const EoChainWish *wish);

/* For the worker: credentials that are in use and to be fetched now; false: none. */
extern bool eo_credential_cache_due(EoChainWish *wish);

/* The summary of an entry; empty if there is no entry. */
extern void eo_credential_cache_look(const EoChainWish *wish, EoCredentialReport *report);

/*
 * The summary of the next entry that has been used within the hour, from *cursor on; false:
 * there are no more.
 */
extern bool eo_credential_cache_walk(uint32 *cursor, EoCredentialReport *report);

#endif							/* EO_SERVER_CREDENTIAL_CACHE_H */
