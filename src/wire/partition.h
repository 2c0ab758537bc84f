/*-------------------------------------------------------------------------
 *
 * partition.h
 *	  The names of AWS's regional endpoints.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_PARTITION_H
#define EO_DYNAMODB_PARTITION_H

#include <stdbool.h>
#include <stddef.h>

/* RFC 1035: a label of a host name, which a region becomes. */
#define EO_MAX_REGION 63

/* Longest name that eo_partition_host() writes, with the NUL. */
#define EO_PARTITION_HOST_LEN 160

/* Has the text the form of a region, such as eu-west-1? */
extern bool eo_partition_is_region(const char *region);

/*
 * Write the host name of a service ("dynamodb", "sts") in a region to host, which has
 * EO_PARTITION_HOST_LEN bytes.  The region must have the form of one.
 */
extern void eo_partition_host(const char *service, const char *region, bool fips,
							  bool dualstack, char *host);

#endif							/* EO_DYNAMODB_PARTITION_H */
