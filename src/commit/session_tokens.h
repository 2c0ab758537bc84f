/*-------------------------------------------------------------------------
 *
 * session_tokens.h
 *	  The tokens of claims that this session may use after their transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SESSION_TOKENS_H
#define EO_COMMIT_SESSION_TOKENS_H

#include "postgres.h"

#include "dynamodb/token.h"

/* A claim of this session that may outlive the transaction which made it. */
typedef struct EoSessionToken
{
	char		token[EO_TOKEN_LEN + 1];
	int64		retention_s;	/* the claim was acquired with this */
} EoSessionToken;

/*
 * The token that is remembered for a key; NULL: none is.  Valid until the next call
 * of a function of this file.
 */
extern EoSessionToken *eo_session_tokens_find(Oid serverid, const char *pk);

/*
 * The same, but if nothing is remembered an empty entry is made, for the caller to
 * fill in.  Another entry may be dropped for it.  Raises if there is no memory.
 */
extern EoSessionToken *eo_session_tokens_enter(Oid serverid, const char *pk);

/* Forget the token of a key, whichever it is. */
extern void eo_session_tokens_forget(Oid serverid, const char *pk);

/* Forget the token of a key if it is this one.  Allocates and raises nothing. */
extern void eo_session_tokens_forget_claim(Oid serverid, const char *pk, const char *token);

#endif							/* EO_COMMIT_SESSION_TOKENS_H */
