/*-------------------------------------------------------------------------
 *
 * target.h
 *	  Where a claim is kept.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_TARGET_H
#define EO_CLUSTER_TARGET_H

#include "postgres.h"

#include "records/layout.h"
#include "server/store.h"

#define EO_DIGEST_LEN 32		/* SHA-256 */

/* Longest server option key_prefix, in bytes of UTF-8. */
#define EO_MAX_KEY_PREFIX 512

/* Where a claim is kept, as it was when it was made. */
typedef struct EoTarget
{
	Oid			dboid;
	Oid			serverid;
	Oid			userid;			/* whose user mapping is used */
	Oid			tenant;			/* see eo_options_tenant() */
	Oid			owner;			/* see eo_options_owner() */
	bool		plain_http;
	char		url[320];
	char		region[64];
	char		table[256];
	char		layout[EO_MAX_LAYOUT_BYTES + 1];
	char		prefix[EO_MAX_KEY_PREFIX + 1];	/* before every key, UTF-8 */
} EoTarget;

/* Have the layouts of both the same static partition, or none? */
extern bool eo_target_same_partition(const EoTarget *a, const EoTarget *b);

/*
 * Is it the same table, whatever server and role it is reached by?  Each static
 * partition of a table counts as a table: its keys and its lives are its own.
 */
static inline bool
eo_target_same_table(const EoTarget *a, const EoTarget *b)
{
	return strcmp(a->url, b->url) == 0 && strcmp(a->region, b->region) == 0 &&
		strcmp(a->table, b->table) == 0 &&
		(strcmp(a->layout, b->layout) == 0 || eo_target_same_partition(a, b));
}

/* The same, reached over the same protocol and with its records spelled in the same layout? */
static inline bool
eo_target_same_layout(const EoTarget *a, const EoTarget *b)
{
	return eo_target_same_table(a, b) && a->plain_http == b->plain_http &&
		strcmp(a->layout, b->layout) == 0;
}

/* The same table by its address, and the same key prefix? */
static inline bool
eo_target_same_prefix(const EoTarget *a, const EoTarget *b)
{
	return eo_target_same_table(a, b) && strcmp(a->prefix, b->prefix) == 0;
}

/*
 * The same place: a life has one item there, see life.h.  By the server of a tenant it is another
 * one: whoever owns a server may have credentials of an account in which a table of that name is
 * another table, or an endpoint of his own behind that name.
 */
static inline bool
eo_target_same_place(const EoTarget *a, const EoTarget *b)
{
	return a->tenant == b->tenant && eo_target_same_prefix(a, b);
}

/* Do only superusers, and whoever they trust, answer for this target? */
static inline bool
eo_target_is_trusted(const EoTarget *target)
{
	return !OidIsValid(target->tenant);
}

/*
 * The same, by the present options of its server, too (NULL: not known): a superuser may have given
 * it away.
 */
static inline bool
eo_target_is_trusted_by(const EoTarget *target, const EoStore *store)
{
	return eo_target_is_trusted(target) &&
		(store == NULL || !OidIsValid(store->server->place_tenant));
}

/*
 * The target of a store, for claims of this database.  Raises 54000 if an option of
 * the server is too long to be kept.
 */
extern void eo_target_of(const EoStore *store, EoTarget *target);

/*
 * Write the digest (EO_DIGEST_LEN bytes) by which the claim table and the outbox find
 * a key: SHA-256 of owner, unless that is a superuser, endpoint, region, table, key and, if there
 * is one, static partition.
 */
extern void eo_target_digest(const EoTarget *target, const char *pk, uint8 *digest);

/* The digest that the key has if the server is of that owner (InvalidOid: a superuser). */
extern void eo_target_digest_of(const EoTarget *target, Oid of, const char *pk, uint8 *digest);

/*
 * Make a store for a target, in a memory context of its own below the current one;
 * NULL: the server does not exist any more.  The caller must be in a transaction.
 */
extern EoStore *eo_target_store(const EoTarget *target);

#endif							/* EO_CLUSTER_TARGET_H */
