/*-------------------------------------------------------------------------
 *
 * endpoint.c
 *	  The server option "endpoint", the names of AWS's regional endpoints, and addresses.
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

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static void look_at_host(EoEndpoint *ep);
static bool is_of_dynamodb(char *labels);

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
	look_at_host(ep);
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
		ep->has_port = true;
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

/*
 * The authority is a host without a port yet.  A resolver takes other spellings for addresses,
 * too, and looks 127.0.0.1.1 up as a name: none of these is an address here.
 */
static void
look_at_host(EoEndpoint *ep)
{
	size_t		len = strlen(ep->authority);
	char		inner[EO_AUTHORITY_LEN];
	struct in_addr v4;
	struct in6_addr v6;

	if (ep->authority[0] == '[')
	{
		snprintf(inner, sizeof(inner), "%.*s", (int) len - 2, ep->authority + 1);
		ep->is_address = inet_pton(AF_INET6, inner, &v6) == 1;
		ep->loopback = strcmp(inner, "::1") == 0;
		return;
	}
	ep->is_address = inet_pton(AF_INET, ep->authority, &v4) == 1;
	ep->loopback = strcasecmp(ep->authority, "localhost") == 0 ||
		(ep->is_address && ntohl(v4.s_addr) >> 24 == 127);
}

bool
eo_endpoint_next(const char **at, bool https, EoEndpoint *ep, const char **reason)
{
	static const char space[] = " \t\r\n";
	const char *entry = *at + strspn(*at, space);
	size_t		len = strcspn(entry, ",");
	char		url[sizeof("https://") + EO_AUTHORITY_LEN];

	if (*entry == '\0')
		return false;
	*at = entry + len + (entry[len] == ',');
	while (len > 0 && strchr(space, entry[len - 1]) != NULL)
		len--;
	if (len > EO_AUTHORITY_LEN - 1)
		len = EO_AUTHORITY_LEN - 1;
	snprintf(url, sizeof(url), "%s%.*s", https ? "https://" : "http://", (int) len, entry);
	if (eo_endpoint_parse(url, ep, reason))
		*reason = NULL;
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

bool
eo_endpoint_is_dynamodb(const EoEndpoint *ep)
{
	char		host[EO_AUTHORITY_LEN];
	size_t		len = strlen(ep->authority);

	if (!ep->https || strchr(ep->authority, ':') != NULL)
		return false;
	for (size_t i = 0; i < sizeof(partitions) / sizeof(partitions[0]); i++)
	{
		const char *const suffixes[] = {partitions[i].suffix, partitions[i].dualstack_suffix};

		for (size_t j = 0; j < 2; j++)
		{
			size_t		rest = len - strlen(suffixes[j]);

			if (strlen(suffixes[j]) + 1 >= len || ep->authority[rest - 1] != '.' ||
				strcasecmp(ep->authority + rest, suffixes[j]) != 0)
				continue;
			for (size_t k = 0; k + 1 < rest; k++)
				host[k] = (char) tolower((unsigned char) ep->authority[k]);
			host[rest - 1] = '\0';
			if (is_of_dynamodb(host))
				return true;
		}
	}
	return false;
}

/*
 * Are the labels before a suffix those of DynamoDB?  Other hosts below the same suffixes belong
 * to AWS's customers.
 */
static bool
is_of_dynamodb(char *labels)
{
	char	   *label[4];
	int			n = 0;

	for (char *p = labels; p != NULL && n < 4; n++)
	{
		label[n] = p;
		p = strchr(p, '.');
		if (p != NULL)
			*p++ = '\0';
		if (p != NULL && n == 3)
			return false;
	}
	for (int i = 0; i < n; i++)
	{
		if (!eo_endpoint_is_region(label[i]))
			return false;
	}
	if (n == 2)
		return strcmp(label[0], "dynamodb") == 0 || strcmp(label[0], "dynamodb-fips") == 0;
	if (n == 3)
		return strcmp(label[1], "ddb") == 0 || strcmp(label[1], "ddb-fips") == 0;
	return n == 4 && strncmp(label[0], "vpce-", 5) == 0 && strcmp(label[3], "vpce") == 0 &&
		(strcmp(label[1], "dynamodb") == 0 || strcmp(label[1], "dynamodb-fips") == 0);
}

/* ----- addresses ----- */

/* Linux takes 0.0.0.0 and :: for itself. */
static bool
is_local4(uint32_t ip)
{
	return ip >> 24 == 127 || ip >> 24 == 0 || ip >> 16 == 0xA9FE;
}

/* fd00:ec2::/32 is where AWS's instances have their metadata. */
static bool
is_local6(const struct in6_addr *ip)
{
	static const unsigned char ec2[4] = {0xFD, 0x00, 0x0E, 0xC2};
	static const unsigned char nat64[12] = {0x00, 0x64, 0xFF, 0x9B};
	uint32_t	v4;

	if (IN6_IS_ADDR_LINKLOCAL(ip) || memcmp(ip, ec2, sizeof(ec2)) == 0)
		return true;
	memcpy(&v4, &ip->s6_addr[12], sizeof(v4));
	/* ::1 and :: are among those that begin as 0.0.0.0/8. */
	return (IN6_IS_ADDR_V4MAPPED(ip) || memcmp(ip, nat64, sizeof(nat64)) == 0 ||
			memcmp(ip, &in6addr_any, 12) == 0) && is_local4(ntohl(v4));
}

bool
eo_endpoint_is_local(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return is_local4(ntohl(((const struct sockaddr_in *) addr)->sin_addr.s_addr));
	return addr->sa_family != AF_INET6 ||
		is_local6(&((const struct sockaddr_in6 *) addr)->sin6_addr);
}

bool
eo_endpoint_is_local_text(const char *ip)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, ip, &v4) == 1)
		return is_local4(ntohl(v4.s_addr));
	return inet_pton(AF_INET6, ip, &v6) != 1 || is_local6(&v6);
}
