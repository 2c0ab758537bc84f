/*-------------------------------------------------------------------------
 *
 * endpoint.h
 *	  Small parsers of text from outside: endpoints and header lines.
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
	bool		loopback;
	char		authority[EO_AUTHORITY_LEN];	/* host[:port], the default
												 * port left out */
} EoEndpoint;

/*
 * scheme://host[:port][/] and nothing else: no user, path, query or fragment.
 * False, with a sentence in *reason, for anything else.
 */
extern bool eo_endpoint_parse(const char *value, EoEndpoint *ep, const char **reason);

#endif							/* EO_DYNAMODB_ENDPOINT_H */
