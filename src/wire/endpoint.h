/*-------------------------------------------------------------------------
 *
 * endpoint.h
 *	  The server option "endpoint".
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_ENDPOINT_H
#define EO_DYNAMODB_ENDPOINT_H

#include <stdbool.h>

/* RFC 1035: a name has at most 253 characters; then a colon and a port. */
#define EO_MAX_HOST 253
#define EO_AUTHORITY_LEN (EO_MAX_HOST + 8)

typedef struct EoEndpoint
{
	bool		https;
	bool		loopback;		/* the host is this machine */
	char		authority[EO_AUTHORITY_LEN];	/* host[:port], the default
												 * port left out */
} EoEndpoint;

/*
 * Parse scheme://host[:port][/], without user, path, query or fragment.  For
 * anything else false is returned, and a sentence in *reason says why.
 */
extern bool eo_endpoint_parse(const char *value, EoEndpoint *ep, const char **reason);

#endif							/* EO_DYNAMODB_ENDPOINT_H */
