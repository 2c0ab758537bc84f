/*-------------------------------------------------------------------------
 *
 * target.c
 *	  Where a claim is kept.
 *
 * A target is a DynamoDB table as one role of one database reaches it.  It is
 * fixed when a claim is made: a later ALTER SERVER does not move the claim.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/target.h"
#include "miscadmin.h"
#include "records/layout.h"
#include "server/options.h"
#include "server/store.h"
#include "server/text.h"
#include "utils/memutils.h"
#include "wire/buf.h"
#include "wire/crypto.h"
#include "wire/status.h"

void
eo_target_of(const EoStore *store, EoTarget *target)
{
	const EoServer *s = store->server;

	/* Targets are compared with memcmp(): clear the padding. */
	memset(target, 0, sizeof(*target));
	target->dboid = MyDatabaseId;
	target->serverid = s->serverid;
	target->userid = s->userid;
	target->tenant = s->place_tenant;
	target->owner = s->tenant;
	target->plain_http = s->plain_http;
	if (strlcpy(target->url, s->url, sizeof(target->url)) >= sizeof(target->url) ||
		strlcpy(target->region, s->region, sizeof(target->region)) >= sizeof(target->region) ||
		strlcpy(target->table, s->table, sizeof(target->table)) >= sizeof(target->table) ||
		strlcpy(target->layout, s->layout, sizeof(target->layout)) >= sizeof(target->layout) ||
		strlcpy(target->prefix, eo_text_to_utf8(s->key_prefix),
				sizeof(target->prefix)) >= sizeof(target->prefix))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("an option of server \"%s\" is too long", s->name),
				 errhint("Endpoint, region, table name and key_prefix have at most 319, 63, 255 and 512 bytes.")));
}

/* The static partition of a target's layout; NULL: it has none. */
static const char *
partition_of(const EoTarget *target)
{
	const EoLayout *layout = eo_layout_find(target->layout);

	return layout != NULL ? layout->key.partition_value : NULL;
}

bool
eo_target_same_partition(const EoTarget *a, const EoTarget *b)
{
	const char *x = partition_of(a);
	const char *y = partition_of(b);

	return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

/*
 * No credentials are part of it: they may be rotated while a claim is held, and
 * after that the key must still be found.  The owner is: whoever may make servers can name the
 * table of any other one, and must not hold up or refuse its keys.  It comes first, where no
 * address looks like it.
 */
void
eo_target_digest(const EoTarget *target, const char *pk, uint8 *digest)
{
	eo_target_digest_of(target, target->owner, pk, digest);
}

void
eo_target_digest_of(const EoTarget *target, Oid of, const char *pk, uint8 *digest)
{
	static EoCrypto *crypto;
	static EoBuf texts[2] = {{.max = INT32_MAX}, {.max = INT32_MAX}};
	static uint8 latest[EO_DIGEST_LEN];
	static int	at;				/* its text; the other one is free */
	EoBuf	   *text = &texts[!at];
	const char *partition = partition_of(target);
	char		owner[12] = "";
	const char *parts[] = {owner, target->url, target->region, target->table, pk, partition};
	int			nparts = partition != NULL ? 6 : 5;

	/* PostgreSQL's own context would fetch the algorithm for each digest. */
	if (crypto == NULL)
		crypto = eo_crypto_create();
	eo_buf_reset(text);
	if (OidIsValid(of))
		snprintf(owner, sizeof(owner), "%u", of);
	/* The terminator is included, so that two parts cannot run together. */
	for (int i = owner[0] != '\0' ? 0 : 1; i < nparts; i++)
		eo_buf_add(text, parts[i], strlen(parts[i]) + 1);
	/* A key is often completed right after it was acquired. */
	if (eo_buf_status(text) == EO_OK && text->len == texts[at].len &&
		memcmp(text->data, texts[at].data, text->len) == 0)
	{
		memcpy(digest, latest, EO_DIGEST_LEN);
		return;
	}
	if (crypto == NULL || eo_buf_status(text) != EO_OK ||
		eo_crypto_sha256(crypto, text->data, text->len, digest) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute SHA-256 of a key")));
	memcpy(latest, digest, EO_DIGEST_LEN);
	at = !at;
}

EoStore *
eo_target_store(const EoTarget *target)
{
	EoServer   *s = eo_options_load(target->serverid, target->userid);
	MemoryContext old;
	const char *host;

	/* After DROP SERVER another server of the same table serves. */
	if (s == NULL)
		s = eo_options_load_like(target->url, target->region, target->table, target->tenant);
	if (s == NULL)
		return NULL;

	/* The claim was made here, and the server may have been altered since. */
	old = MemoryContextSwitchTo(GetMemoryChunkContext(s));
	s->url = pstrdup(target->url);
	s->region = pstrdup(target->region);
	s->table = pstrdup(target->table);
	s->layout = pstrdup(target->layout);
	s->plain_http = target->plain_http;
	host = strstr(s->url, "://");
	s->host = pstrdup(host != NULL ? host + 3 : s->url);
	s->host[strcspn(s->host, "/")] = '\0';
	MemoryContextSwitchTo(old);
	return eo_store_create(s);
}
