/*-------------------------------------------------------------------------
 *
 * partition.c
 *	  The names of AWS's regional endpoints.
 *
 * Sources: "AWS partitions" (AWS Fault Isolation Boundaries), "Dual-stack and FIPS
 * endpoints" (AWS SDKs and Tools Reference Guide), and the endpoint rules that AWS
 * publishes with its SDKs for DynamoDB and STS.  test/interop compares every partition with
 * the rules of the AWS SDK for JavaScript.  A region that no partition claims belongs to
 * "aws", as in those rules, so that a new region works before this file knows it.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/partition.h"

#include <stdio.h>
#include <string.h>

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
eo_partition_is_region(const char *region)
{
	size_t		len = strlen(region);

	return len >= 1 && len <= EO_MAX_REGION &&
		strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == len &&
		region[0] != '-' && region[len - 1] != '-';
}

void
eo_partition_host(const char *service, const char *region, bool fips, bool dualstack, char *host)
{
	const Partition *p = partitions;

	/* The last one has all. */
	while (strncmp(region, p->prefix, strlen(p->prefix)) != 0)
		p++;
	if (p->plain_is_fips && !dualstack)
		fips = false;
	snprintf(host, EO_PARTITION_HOST_LEN, "%s%s.%s.%s", service, fips ? "-fips" : "", region,
			 dualstack ? p->dualstack_suffix : p->suffix);
}
