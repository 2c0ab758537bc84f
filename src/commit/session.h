/*-------------------------------------------------------------------------
 *
 * session.h
 *	  What a session keeps when a transaction has ended: tokens, and claims.
 *
 * A token is remembered for the role that acquired: the role in whose name the server
 * was looked up (EoServer.userid).  Another role of the same session does not find it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SESSION_H
#define EO_COMMIT_SESSION_H

#include "postgres.h"

#include "records/token.h"
#include "server/options.h"

/* A claim of this session that may outlive the transaction which made it. */
typedef struct EoSessionToken
{
	char		token[EO_TOKEN_LEN + 1];
	int64		retention_s;	/* the claim was acquired with this */
	int64		progress_no;	/* of the last progress that was seen */
	size_t		progress_len;
} EoSessionToken;

/*
 * The token that this role has remembered for a key; NULL: none is.  Valid until the
 * next call of a function of this file.
 */
extern EoSessionToken *eo_session_tokens_find(const EoServer *server, const char *pk);

/*
 * The same, but if nothing is remembered an empty entry is made, for the caller to
 * fill in.  Another entry may be dropped for it.  Raises if there is no memory.
 */
extern EoSessionToken *eo_session_tokens_enter(const EoServer *server, const char *pk);

/* Forget the token of a key if it is this one (NULL: any).  Allocates and raises nothing. */
extern void eo_session_tokens_forget(const EoServer *server, const char *pk, const char *token);

/* A claim with on_commit => 'session' is about to be made: have it given back at the end. */
extern void eo_session_claim_expect(void);

/* Give back what this session holds; claims of an open transaction are not among that. */
extern void eo_session_claims_end(void);

#endif							/* EO_COMMIT_SESSION_H */
