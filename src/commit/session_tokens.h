/*-------------------------------------------------------------------------
 *
 * session_tokens.h
 *	  The tokens of claims that this session holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SESSION_TOKENS_H
#define EO_COMMIT_SESSION_TOKENS_H

#include "postgres.h"

#include "dynamodb/token.h"

/* A claim this session owns beyond the transaction that made it. */
typedef struct EoSessionToken
{
	char		held[EO_TOKEN_LEN + 1];
	int64		retention_s;	/* what it was acquired with */
} EoSessionToken;

/* NULL if nothing is remembered.  Valid until the next call of this file. */
extern EoSessionToken *eo_session_tokens_find(Oid serverid, const char *pk);

/* The same, but made if need be; may drop the one unused for longest. */
extern EoSessionToken *eo_session_tokens_enter(Oid serverid, const char *pk);
extern void eo_session_tokens_forget(Oid serverid, const char *pk);

/* Only if it is that claim's; allocates and raises nothing. */
extern void eo_session_tokens_forget_claim(Oid serverid, const char *pk, const char *token);

#endif							/* EO_COMMIT_SESSION_TOKENS_H */
