/*-------------------------------------------------------------------------
 *
 * endpoint.c
 *	  The server option "endpoint", and the names of AWS's regional endpoints.
 *
 * Sources: "AWS partitions" (AWS Fault Isolation Boundaries), "Dual-stack and FIPS
 * endpoints" (AWS SDKs and Tools Reference Guide), and the endpoint rules that AWS
 * publishes with its SDKs for DynamoDB and STS.  test/interop compares every partition with
 * the rules of the AWS SDK for JavaScript.  A region that no partition claims belongs to
 * "aws", as in those rules, so that a new region works before this file knows it.
 *
 * Plain C over the caller's buffers, so that test/fuzz can call it.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/endpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool
eo_endpoint_parse(const char *value, EoEndpoint *ep, const char **reason)
{
	const char *p;
	size_t		host_len;
	long		port = 0;

	memset(ep, 0, sizeof(*ep));
	*reason = "The scheme is neither https nor http.";
	if (strncasecmp(value, "https://", 8) == 0)
	{
		ep->https = true;
		p = value + 8;
	}
	else if (strncasecmp(value, "http://", 7) == 0)
		p = value + 7;
	else
		return false;

	*reason = "The host is not a name or an address.";
	if (*p == '[')
	{
		host_len = strspn(p + 1, "0123456789abcdefABCDEF:.");
		if (p[1 + host_len] != ']')
			return false;
		host_len += 2;
	}
	else
		host_len = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
	if (host_len < 1 || host_len > EO_MAX_HOST)
		return false;
	memcpy(ep->authority, p, host_len);
	ep->authority[host_len] = '\0';
	ep->loopback = strcasecmp(ep->authority, "localhost") == 0 ||
		strcmp(ep->authority, "[::1]") == 0 ||
		(strncmp(ep->authority, "127.", 4) == 0 &&
		 strspn(ep->authority, "0123456789.") == host_len);
	p += host_len;
	if (*p == ':')
	{
		char	   *end;

		*reason = "The port is not a number from 1 to 65535.";
		if (!isdigit((unsigned char) p[1]))
			return false;
		port = strtol(p + 1, &end, 10);
		if (port < 1 || port > 65535)
			return false;
		p = end;
	}
	if (*p == '/')
		p++;
	*reason = "Something follows the host and port.";
	if (*p != '\0')
		return false;
	if (port != 0 && port != (ep->https ? 443 : 80))
		snprintf(ep->authority + host_len, sizeof(ep->authority) - host_len, ":%ld", port);
	return true;
}

/* ----- the endpoints of AWS ----- */

typedef struct Partition
{
	const char *prefix;			/* of the names of its regions */
	const char *suffix;			/* of its host names */
	const char *dualstack_suffix;	/* of those with IPv4 and IPv6 */
	bool		plain_is_fips;	/* the plain names are those for FIPS, too */
} Partition;

static const Partition partitions[] = {
	{"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn", false},
	{"us-gov-", "amazonaws.com", "api.aws", true},
	{"us-iso-", "c2s.ic.gov", "api.aws.ic.gov", false},
	{"us-isob-", "sc2s.sgov.gov", "api.aws.scloud", false},
	{"eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk", false},
	{"us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov", false},
	{"eusc-", "amazonaws.eu", "api.amazonwebservices.eu", false},
	{"", "amazonaws.com", "api.aws", false}
};

bool
eo_endpoint_is_region(const char *region)
{
	size_t		len = strlen(region);

	return len >= 1 && len <= EO_MAX_REGION &&
		strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == len &&
		region[0] != '-' && region[len - 1] != '-';
}

void
eo_endpoint_host(const char *service, const char *region, bool fips, bool dualstack, char *host)
{
	const Partition *p = partitions;

	/* The last one has all. */
	while (strncmp(region, p->prefix, strlen(p->prefix)) != 0)
		p++;
	if (p->plain_is_fips && !dualstack)
		fips = false;
	snprintf(host, EO_ENDPOINT_HOST_LEN, "%s%s.%s.%s", service, fips ? "-fips" : "", region,
			 dualstack ? p->dualstack_suffix : p->suffix);
}
