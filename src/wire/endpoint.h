/*-------------------------------------------------------------------------
 *
 * endpoint.h
 *	  The server option "endpoint", and the names of AWS's regional endpoints.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_ENDPOINT_H
#define EO_WIRE_ENDPOINT_H

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

/* RFC 1035: a label of a host name, which a region becomes. */
#define EO_MAX_REGION 63

/* Longest name that eo_endpoint_host() writes, with the NUL. */
#define EO_ENDPOINT_HOST_LEN 160

/* Has the text the form of a region, such as eu-west-1? */
extern bool eo_endpoint_is_region(const char *region);

/*
 * Write the host name of a service ("dynamodb", "sts") in a region to host, which has
 * EO_ENDPOINT_HOST_LEN bytes.  The region must have the form of one.
 */
extern void eo_endpoint_host(const char *service, const char *region, bool fips,
							 bool dualstack, char *host);

#endif							/* EO_WIRE_ENDPOINT_H */
