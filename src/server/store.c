/*-------------------------------------------------------------------------
 *
 * store.c
 *	  A server that is ready to be called.
 *
 * A store is a server's client (connection parameters, signing key, clock).
 * Stores are kept for the life of the process, one for each server and role, in the memory
 * of their server.  Any change of a server, a user mapping or a role invalidates all of them.
 * A caller further up the stack may still use an invalid one, so it is freed at the end of the
 * transaction in which the next one is built; that inherits the clock if the endpoint is the
 * same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hmac.h"
#include "common/sha2.h"
#include "miscadmin.h"
#include "records/action_item.h"
#include "records/layout.h"
#include "records/life_item.h"
#include "records/window.h"
#include "server/call_log.h"
#include "server/credentials.h"
#include "server/store.h"
#include "server/text.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "wire/clock.h"
#include "wire/secret.h"
#include "wire/sigv4.h"
#include "wire/json.h"
#include "wire/status.h"

/*
 * A finished record counts as absent this long after its ttl.  The margin is wide
 * because the clock alone decides here that finished work is done again.
 */
#define EXPIRY_MARGIN_MS 300000

typedef struct StoreKey
{
	Oid			serverid;
	Oid			userid;
} StoreKey;

typedef struct StoreEntry
{
	StoreKey	key;
	bool		valid;
	EoStore    *store;			/* NULL: nothing built */
} StoreEntry;

static HTAB *stores;
static uint64 invalidations;
static uint8 *hash_key;
static const EoCircuit *circuit_in_use;

static StoreEntry *find_entry(Oid serverid, Oid userid);
static void invalidate(Datum arg, int cacheid, uint32 hashvalue);
static void build_store(StoreEntry *entry);
static void free_parts(void *arg);
static void hash_credentials(EoStore *s);

EoStore *
eo_store_open(const char *server_name)
{
	int64		began_us = eo_clock_monotonic_us();
	StoreEntry *entry = find_entry(eo_options_find(server_name), GetUserId());
	EoClient   *client;

	if (!entry->valid)
		build_store(entry);

	/*
	 * One request_timeout covers the region, the credentials and the first
	 * call.
	 */
	client = &entry->store->client;
	eo_credentials_await(client, began_us + client->request_timeout_ms * INT64CONST(1000));
	client->waited_us = eo_clock_monotonic_us() - began_us;
	return entry->store;
}

static StoreEntry *
find_entry(Oid serverid, Oid userid)
{
	StoreKey	key = {serverid, userid};
	StoreEntry *entry;
	bool		found;

	if (stores == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(StoreKey),.entrysize = sizeof(StoreEntry)};

		stores = hash_create("exactonce stores", 16, &ctl, HASH_ELEM | HASH_BLOBS);
		eo_options_on_change(invalidate);
	}
	entry = hash_search(stores, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->valid = false;
		entry->store = NULL;
	}
	return entry;
}

static void
invalidate(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS scan;
	StoreEntry *entry;

	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	invalidations++;
	hash_seq_init(&scan, stores);
	while ((entry = hash_seq_search(&scan)) != NULL)
		entry->valid = false;
}

static void
build_store(StoreEntry *entry)
{
	uint64		before = invalidations;
	EoStore    *old = entry->store;
	EoStore    *s = eo_store_create(eo_options_read(entry->key.serverid));

	if (old != NULL)
	{
		if (strcmp(old->client.endpoint.url, s->client.endpoint.url) == 0)
			s->client.clock = old->client.clock;
		/* A caller up the stack may still use it. */
		MemoryContextSetParent(GetMemoryChunkContext(old), TopTransactionContext);
	}
	MemoryContextSetParent(GetMemoryChunkContext(s), CacheMemoryContext);
	entry->store = s;
	/* If a change came in while it was read, it serves this call only. */
	entry->valid = before == invalidations;
}

EoStore *
eo_store_create(EoServer *server)
{
	MemoryContext context = GetMemoryChunkContext(server);
	EoStore    *s = MemoryContextAllocZero(context, sizeof(EoStore));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));
	EoClient   *c = &s->client;

	callback->func = free_parts;
	callback->arg = s;
	MemoryContextRegisterResetCallback(context, callback);

	s->server = server;
	s->stats = eo_stats_of(server->serverid, server->name, server->tenant);
	c->observer = &eo_stats_observer;
	c->observed = s->stats;
	s->layout = eo_layout_find(server->layout);
	if (s->layout == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("server \"%s\" has options for its record layout that do not fit together",
						server->name),
				 errhint("Correct them with ALTER SERVER.")));
	eo_layout_keep(s->layout);
	eo_options_check_endpoint(server);
	s->credentials_from = eo_credentials_open(server, c);
	hash_credentials(s);
	c->endpoint.url = server->url;
	c->endpoint.ca_file = server->ca_file;
	c->endpoint.plain_http = server->plain_http;
	c->endpoint.remote_only = server->remote_only;
	c->endpoint.connect_timeout_ms = server->connect_timeout_ms;
	c->host = server->host;
	c->region = server->region;
	c->request_timeout_ms = server->request_timeout_ms;
	c->max_attempts = server->max_attempts;
	c->return_capacity = server->return_capacity;
	c->tenant = server->tenant;
	c->circuit = circuit_in_use;
	c->signer = eo_sigv4_create();
	if (c->signer == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not prepare to sign requests for server \"%s\"", server->name)));
	return s;
}

void
eo_store_use_circuit(const EoCircuit *circuit)
{
	circuit_in_use = circuit;
}

void
eo_store_make_hash_key(void)
{
	eo_secret_free(hash_key);
	hash_key = eo_secret_alloc(EO_CREDENTIALS_HASH_LEN);
	if (hash_key == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	if (!pg_strong_random(hash_key, EO_CREDENTIALS_HASH_LEN))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a key: no random numbers")));
}

/*
 * HMAC-SHA256 of access key and secret; zero if there are none.  Of a chain it is that of
 * the options that name it: its keys change, and whoever may use the server has them.
 */
static void
hash_credentials(EoStore *s)
{
	const EoCredentials *c = &s->client.credentials;
	const EoChainWish *wish = eo_credentials_wish(&s->client);
	const char *name = wish != NULL ? "chain:" : c->access_key_id;
	const void *secret = wish != NULL ? (const void *) wish : c->secret_access_key;
	pg_hmac_ctx *ctx;
	bool		done;

	if (s->credentials_from == NULL || hash_key == NULL)
		return;
	ctx = pg_hmac_create(PG_SHA256);
	/* The terminator is included, so that the two cannot run together. */
	done = ctx != NULL && pg_hmac_init(ctx, hash_key, EO_CREDENTIALS_HASH_LEN) >= 0 &&
		pg_hmac_update(ctx, (const uint8 *) name, strlen(name) + 1) >= 0 &&
		pg_hmac_update(ctx, secret, wish != NULL ? sizeof(*wish) : strlen(secret)) >= 0 &&
		pg_hmac_final(ctx, s->credentials_hash, EO_CREDENTIALS_HASH_LEN) >= 0;
	pg_hmac_free(ctx);
	if (!done)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not hash the credentials of server \"%s\"", s->server->name)));
}

bool
eo_store_is_trusted(const EoStore *store, const uint8 *credentials_hash)
{
	return store->credentials_from != NULL &&
		memcmp(store->credentials_hash, credentials_hash, EO_CREDENTIALS_HASH_LEN) == 0;
}

/*
 * The digest of a key has no credentials in it, which may be rotated while the key is held.  So it
 * does not tell two tables apart that have the same name in two accounts.  To take the claim on one
 * for the claim on the other would complete a key whose work was not done.
 */
void
eo_store_check_account(const EoStore *store, const EoStore *holder, const char *key)
{
	bool		one_server = holder->server->serverid == store->server->serverid;

	if ((one_server && holder->server->userid == store->server->userid) ||
		eo_store_is_trusted(store, holder->credentials_hash))
		return;
	if (one_server)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use key \"%s\" on server \"%s\" by two roles in one transaction",
						eo_text_key_shown(key), store->server->name),
				 errdetail("They have other credentials, which may be of another account."),
				 errhint("Use a transaction for each role, one user mapping for both, or the token of the claim.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot use key \"%s\" on servers \"%s\" and \"%s\" in one transaction",
					eo_text_key_shown(key), holder->server->name, store->server->name),
			 errdetail("They have the same endpoint, region and table, and other credentials, which may be of another account."),
			 errhint("Use a transaction for each server. If they are of two accounts, give them the endpoints of these accounts, or other table names.")));
}

static void
free_parts(void *arg)
{
	EoStore    *s = arg;

	eo_credentials_close(&s->client);
	eo_sigv4_free(s->client.signer);
	if (s->layout != NULL)
		eo_layout_release(s->layout);
}

int64
eo_store_dead_before_ms(const EoStore *store)
{
	return eo_client_now_ms(&store->client) - store->server->clock_skew_ms;
}

char *
eo_store_pk(const EoStore *store, const char *key)
{
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;
	size_t		max = eo_layout_max_key(store->layout);

	if (eo_record_key_make(store->layout, eo_text_to_utf8(store->server->key_prefix),
						   eo_text_to_utf8(key), pk, &len) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key for server \"%s\" is too long", store->server->name),
				 errdetail("With its prefix it has %zu bytes; DynamoDB allows %zu.",
						   len, max),
				 errhint("Use idem_key(...) to make a short key of long parts.")));

	/*
	 * A layout without an item_prefix could name the items of lives and
	 * actions.
	 */
	if (!store->layout->is_native && (eo_life_item_is_pk(pk) || eo_action_item_is_pk(pk)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key for server \"%s\" begins like those of other items", store->server->name),
				 errdetail("ORIGIN# and ACTION# are the beginnings of other items in the table."),
				 errhint("Use another key, or give the server an item_prefix.")));
	return pstrdup(pk);
}

void
eo_store_new_token(char token[EO_TOKEN_LEN + 1])
{
	if (eo_token_make(token) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a token: no random numbers")));
}

bool
eo_store_is_replaceable(const EoStore *store, const EoRecord *r)
{
	if (r->is_foreign && (r->state == EO_STATE_IN_PROGRESS ||
						  (r->state == EO_STATE_FAILED && r->has_retry)))
		return eo_store_is_free(store, r);
	return eo_store_is_expired(store, r);
}

bool
eo_store_is_free(const EoStore *store, const EoRecord *r)
{
	int64		now_ms = eo_client_now_ms(&store->client);

	if (r->state == EO_STATE_IN_PROGRESS)
		return r->lease_ms + store->server->clock_skew_ms < now_ms;
	return r->state == EO_STATE_FAILED && r->has_retry && r->retry_ms <= now_ms;
}

bool
eo_store_is_expired(const EoStore *store, const EoRecord *r)
{
	if (r->state != EO_STATE_COMPLETED && r->state != EO_STATE_FAILED)
		return false;
	return r->ttl_s != 0 &&
		r->ttl_s * 1000 + EXPIRY_MARGIN_MS < eo_client_now_ms(&store->client);
}

static void
free_call(void *call)
{
	eo_call_free(call);
}

EoCall *
eo_store_new_call(EoStore *store, EoOperation op)
{
	EoCall	   *call = palloc0(sizeof(EoCall));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	eo_call_init(call, &store->client, op);
	callback->func = free_call;
	callback->arg = call;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	return call;
}

EoCall *
eo_store_new_table_call(EoStore *store, EoOperation op, const char *table)
{
	EoCall	   *call = eo_store_new_call(store, op);

	eo_buf_adds(&call->body, "{\"TableName\":");
	eo_json_put_string(&call->body, table, strlen(table));
	return call;
}

void
eo_store_run_call(EoStore *store, EoCall *call)
{
	EoWindow	window = {.n = 0};

	if (eo_window_add(&window, call, 0))
		eo_window_run(&window, 1, NULL, NULL, NULL);
	eo_call_log(store->server->name, call);
}
