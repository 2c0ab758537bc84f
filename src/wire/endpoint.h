/*-------------------------------------------------------------------------
 *
 * endpoint.h
 *	  The server option "endpoint", the names of AWS's regional endpoints, and addresses.
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
	bool		is_address;		/* the host is an address, not a name */
	bool		has_port;		/* the text names a port, be it the default */
	char		authority[EO_AUTHORITY_LEN];	/* host[:port], the default
												 * port left out */
} EoEndpoint;

/*
 * Parse scheme://host[:port][/], without user, path, query or fragment.  For
 * anything else false is returned, and a sentence in *reason says why.
 */
extern bool eo_endpoint_parse(const char *value, EoEndpoint *ep, const char **reason);

/*
 * The next one of a list of host[:port] with commas between, as an endpoint by https or http;
 * *at begins with the list, and moves on.  False: there is none.  *reason is NULL, or says why it
 * is none.
 */
extern bool eo_endpoint_next(const char **at, bool https, EoEndpoint *ep, const char **reason);

/*
 * Is this one of AWS's endpoints of DynamoDB, by its name: a region's, an account's, or one
 * of a VPC, by https and at its port?
 */
extern bool eo_endpoint_is_dynamodb(const EoEndpoint *ep);

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

struct sockaddr;

/*
 * Does an address lead to this machine or no further than its link?  Of what is no IPv4 or IPv6
 * address that is true.
 */
extern bool eo_endpoint_is_local(const struct sockaddr *addr);
extern bool eo_endpoint_is_local_text(const char *ip);

#endif							/* EO_WIRE_ENDPOINT_H */
