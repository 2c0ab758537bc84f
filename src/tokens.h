/*-------------------------------------------------------------------------
 *
 * tokens.h
 *	  The tokens that this session holds or may hold.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_TOKENS_H
#define EO_TOKENS_H

#include "postgres.h"

#include "layout.h"

typedef struct EoToken
{
	/*
	 * The claim this session was told it owns; "" if none.  retention_s is
	 * what it was acquired with.
	 */
	char		held[EO_TOKEN_LEN + 1];
	int64		retention_s;

	/*
	 * A claim that was asked for and whose answer never came; "" if none.  It
	 * is asked for again under the same token, so that what may have been
	 * granted is found and not fought.
	 */
	char		pending[EO_TOKEN_LEN + 1];
} EoToken;

/* NULL if nothing is remembered.  Valid until the next call of this file. */
extern EoToken *eo_tokens_find(Oid serverid, const char *pk);

/* The same, but made if need be; may drop the one unused for longest. */
extern EoToken *eo_tokens_enter(Oid serverid, const char *pk);
extern void eo_tokens_forget(Oid serverid, const char *pk);

/* A new token: 128 random bits, spelled as a version 4 UUID (RFC 9562). */
extern void eo_token_make(char token[EO_TOKEN_LEN + 1]);

#endif							/* EO_TOKENS_H */
