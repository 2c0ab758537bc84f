/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Conditional verbs on records and actions, and what became of them.
 *
 * The one question answered here is "was it applied?", for a write whose
 * answer may have been lost:
 *
 * - The service said yes, and the reply bears our key, our token and the state
 *	 we wrote: applied.
 * - It refused, and the record that stood in the way is our own write, seen by
 *	 its token and state: applied, by an attempt whose answer was lost.
 * - It refused and the record is anything else: not applied.  This is definite
 *	 even after a lost answer, because a token is never used by two claims.
 * - A refusal that brings no record (some engines return none, and a record can
 *	 be gone) is followed by a consistent read.  Not so for an action: what was
 *	 not there is told as that, and never by a later read.  An engine has to
 *	 return items for that, as DynamoDB does since June 2023.
 * - Everything else is unknown, and said to be.
 *
 * Stores (a server's client: connection parameters, signing key, clock) are
 * kept per process and rebuilt when options.c hands out a new generation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "dynamodb/action_item.h"
#include "dynamodb/buf.h"
#include "dynamodb/call.h"
#include "dynamodb/client.h"
#include "dynamodb/http.h"
#include "dynamodb/json.h"
#include "dynamodb/record.h"
#include "dynamodb/sigv4.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"
#include "dynamodb/window.h"
#include "mb/pg_wchar.h"
#include "server/credentials.h"
#include "server/guc.h"
#include "server/options.h"
#include "server/store.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/*
 * A finished record counts as absent this long after its ttl.  The margin is wide
 * because this is the one place where a clock decides that work is done again.
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
	uint64		generation;		/* 0: nothing built */
	MemoryContext context;
	EoStore    *store;
} StoreEntry;

static HTAB *stores;

static void build_store(StoreEntry *entry, EoServer *server);
static EoStore *fill_store(EoServer *server, MemoryContext context);
static void free_signer(void *arg);
static EoAnswer *new_answer(EoStore *store, const char *pk, EoOperation op);
static void free_call(void *arg);
static bool believe_write(const EoCall *call, EoJsonValue *item, bool refused);
static bool believe_transaction(const EoCall *call, EoJsonValue *item, bool refused);
static bool believe_read(const EoCall *call, EoJsonValue *item, bool refused);
static void settle(EoAnswer *answer);
static void settle_refusal(EoAnswer *answer);
static bool is_own_write(const EoAnswer *answer);
static void settle_second_look(EoAnswer *answer);
static void unreadable(EoAnswer *answer);
static void log_call(const EoStore *store, const EoCall *call);

EoStore *
eo_store_open(const char *server_name)
{
	EoServer   *server = eo_options_lookup(server_name);
	StoreKey	key = {server->serverid, server->userid};
	StoreEntry *entry;
	bool		found;

	if (stores == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(StoreKey),.entrysize = sizeof(StoreEntry)};

		stores = hash_create("exactonce stores", 16, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(stores, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->generation = 0;
		entry->context = NULL;
		entry->store = NULL;
	}
	if (entry->generation != server->generation)
		build_store(entry, server);
	return entry->store;
}

static void
build_store(StoreEntry *entry, EoServer *server)
{
	MemoryContext context;
	EoStore    *old = entry->store;
	EoStore    *s;

	/* Somebody up the stack may still hold the old one. */
	entry->generation = 0;
	entry->store = NULL;
	if (entry->context != NULL)
		MemoryContextSetParent(entry->context, TopTransactionContext);
	entry->context = NULL;

	context = AllocSetContextCreate(CurrentMemoryContext, "exactonce store",
									ALLOCSET_SMALL_SIZES);
	s = fill_store(server, context);
	if (old != NULL && strcmp(old->client.endpoint.url, s->client.endpoint.url) == 0)
	{
		s->client.clock_offset_ms = old->client.clock_offset_ms;
		s->client.clock_known = old->client.clock_known;
	}
	MemoryContextSetParent(context, TopMemoryContext);
	entry->context = context;
	entry->store = s;
	entry->generation = server->generation;
}

EoStore *
eo_store_create(EoServer *server)
{
	return fill_store(server, GetMemoryChunkContext(server));
}

static EoStore *
fill_store(EoServer *server, MemoryContext context)
{
	EoStore    *s = MemoryContextAllocZero(context, sizeof(EoStore));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(MemoryContextCallback));
	EoClient   *c = &s->client;

	callback->func = free_signer;
	callback->arg = s;
	MemoryContextRegisterResetCallback(context, callback);

	s->server = server;
	s->layout = eo_record_layout(server->layout);
	s->credentials_from = eo_credentials_find(server, &c->credentials);
	c->endpoint.url = server->url;
	c->endpoint.ca_file = server->ca_file;
	c->endpoint.plain_http = server->plain_http;
	c->endpoint.connect_timeout_ms = server->connect_timeout_ms;
	c->host = server->host;
	c->region = server->region;
	c->request_timeout_ms = server->request_timeout_ms;
	c->max_attempts = server->max_attempts;
	c->signer = eo_sigv4_create();
	if (c->signer == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not prepare to sign requests for server \"%s\"", server->name)));
	return s;
}

static void
free_signer(void *arg)
{
	EoStore    *s = arg;

	eo_sigv4_free(s->client.signer);
}

/* DynamoDB's strings are UTF-8, and so are its limits. */
static const char *
utf8(const char *s)
{
	return pg_server_to_any(s, strlen(s), PG_UTF8);
}

char *
eo_store_pk(const EoStore *store, const char *key)
{
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;

	if (eo_record_make_pk(store->layout, utf8(store->server->key_prefix), utf8(key), pk, &len) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key for server \"%s\" is too long", store->server->name),
				 errdetail("With its prefix it has %zu bytes; DynamoDB allows %d.",
						   len, EO_MAX_KEY_BYTES),
				 errhint("Use idem_key(...) to make a short key of long parts.")));
	return pstrdup(pk);
}

char *
eo_store_action_pk(const EoStore *store, const char *id)
{
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;

	if (eo_action_item_make_pk(utf8(store->server->key_prefix), utf8(id), pk, &len) != EO_OK)
		return NULL;
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
eo_store_is_expired(const EoStore *store, const EoRecord *r)
{
	if (r->state != EO_STATE_COMPLETED && r->state != EO_STATE_FAILED)
		return false;
	return r->ttl_s != 0 &&
		r->ttl_s * 1000 + EXPIRY_MARGIN_MS < eo_client_now_ms(&store->client);
}

/* ----- preparing ----- */

/* What its answer will be compared with. */
static void
remember(EoAnswer *answer, EoVerb verb, const EoWrite *w)
{
	answer->verb = verb;
	if (w->owner != NULL)
		strlcpy(answer->owner, w->owner, sizeof(answer->owner));
	if (w->origin != NULL)
		strlcpy(answer->origin, w->origin, sizeof(answer->origin));
	answer->lease_ms = w->lease_ms;
}

EoAnswer *
eo_store_prepare_write(EoStore *store, const char *pk, EoVerb verb, const EoWrite *w)
{
	EoAnswer   *answer = new_answer(store, pk, EO_UPDATE_ITEM);

	remember(answer, verb, w);
	answer->call.believe = believe_write;
	eo_record_put_write(store->layout, &answer->call.body, store->server->table, pk, verb, w);
	return answer;
}

/*
 * The consumed capacity is asked for as a sign that the reply, which says
 * nothing else, is one to a transaction, see believe_transaction().
 */
EoAnswer *
eo_store_prepare_transaction(EoStore *store, const char *pk, EoVerb verb, const EoWrite *w,
							 const char *request_token, const char *actions, int nactions)
{
	EoAnswer   *answer = new_answer(store, pk, EO_TRANSACT);
	EoBuf	   *body = &answer->call.body;

	remember(answer, verb, w);
	answer->call.believe = believe_transaction;
	answer->call.nactions = 1 + nactions;
	eo_buf_addf(body, "{\"ClientRequestToken\":\"%s\",\"ReturnConsumedCapacity\":\"TOTAL\",\"TransactItems\":[",
				request_token);
	eo_record_put_transact_item(store->layout, body, store->server->table, pk, verb, w);
	if (nactions > 0)
	{
		eo_buf_addc(body, ',');
		eo_buf_adds(body, actions);
	}
	eo_buf_adds(body, "]}");
	return answer;
}

EoAnswer *
eo_store_prepare_read(EoStore *store, const char *pk)
{
	EoAnswer   *answer = new_answer(store, pk, EO_GET_ITEM);

	answer->is_read = true;
	answer->call.believe = believe_read;
	eo_record_put_read(store->layout, &answer->call.body, store->server->table, pk);
	return answer;
}

EoAnswer *
eo_store_prepare_action_write(EoStore *store, const char *pk, EoActionVerb verb,
							  const EoActionWrite *w)
{
	EoAnswer   *answer = new_answer(store, pk, EO_UPDATE_ITEM);

	answer->is_action = true;
	answer->action_verb = verb;
	answer->call.dated = true;
	strlcpy(answer->owner, w->token, sizeof(answer->owner));
	answer->call.believe = believe_write;
	eo_action_item_put_write(&answer->call.body, store->server->table, pk, verb, w);
	return answer;
}

EoAnswer *
eo_store_prepare_action_read(EoStore *store, const char *pk)
{
	EoAnswer   *answer = new_answer(store, pk, EO_GET_ITEM);

	answer->is_read = answer->is_action = true;
	answer->call.believe = believe_read;
	eo_action_item_put_read(&answer->call.body, store->server->table, pk);
	return answer;
}

/*
 * The call's buffers are malloc'd, because they pass through libcurl and
 * json-c; the context's callback ties them to PostgreSQL's error handling.
 */
static EoAnswer *
new_answer(EoStore *store, const char *pk, EoOperation op)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "exactonce answer",
												  ALLOCSET_SMALL_SIZES);
	EoAnswer   *answer = MemoryContextAllocZero(context, sizeof(EoAnswer));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));

	answer->context = context;
	answer->store = store;
	answer->pk = MemoryContextStrdup(context, pk);
	eo_call_init(&answer->call, &store->client, op);
	answer->call.arg = answer;
	callback->func = free_call;
	callback->arg = &answer->call;
	MemoryContextRegisterResetCallback(context, callback);
	return answer;
}

static void
free_call(void *arg)
{
	eo_call_free(arg);
}

void
eo_answer_free(EoAnswer *answer)
{
	MemoryContextDelete(answer->context);
}

/* ----- running ----- */

static EoAnswer *
run_alone(EoAnswer *answer)
{
	eo_store_run(&answer, 1, 1, 0, EO_WAIT_RAISE);
	return answer;
}

EoAnswer *
eo_store_write(EoStore *store, const char *pk, EoVerb verb, const EoWrite *w)
{
	return run_alone(eo_store_prepare_write(store, pk, verb, w));
}

EoAnswer *
eo_store_read(EoStore *store, const char *pk)
{
	return run_alone(eo_store_prepare_read(store, pk));
}

EoAnswer *
eo_store_write_action(EoStore *store, const char *pk, EoActionVerb verb, EoActionWrite *w)
{
	EoAnswer   *answer;

	for (int round = 0;; round++)
	{
		w->now_ms = eo_client_now_ms(&store->client);
		answer = run_alone(eo_store_prepare_action_write(store, pk, verb, w));
		/* Unless an earlier copy of it may have been carried out. */
		if (!answer->call.clock_moved || answer->call.in_doubt || round > 0)
			return answer;
		eo_answer_free(answer);
	}
}

EoAnswer *
eo_store_read_action(EoStore *store, const char *pk)
{
	return run_alone(eo_store_prepare_action_read(store, pk));
}

bool
eo_answer_start(EoAnswer *answer, EoWindow *window, int64 deadline_us)
{
	if (eo_window_add(window, &answer->call, deadline_us))
		return true;
	(void) eo_answer_take(answer, window, deadline_us);
	return false;
}

/*
 * A refusal that did not show by which record is followed by a read.
 */
bool
eo_answer_take(EoAnswer *a, EoWindow *window, int64 deadline_us)
{
	log_call(a->store, &a->call);
	if (a->read_again)
	{
		settle_second_look(a);
		return true;
	}
	settle(a);
	if (!a->read_again)
		return true;
	a->doubted = a->call.in_doubt;
	eo_call_free(&a->call);
	eo_call_init(&a->call, &a->store->client, EO_GET_ITEM);
	a->call.arg = a;
	a->call.believe = believe_read;
	eo_record_put_read(a->store->layout, &a->call.body, a->store->server->table, a->pk);
	if (eo_window_add(window, &a->call, deadline_us))
		return false;
	log_call(a->store, &a->call);
	settle_second_look(a);
	return true;
}

EoAnswer *
eo_answer_of_call(EoCall *call)
{
	return call->arg;
}

typedef struct Group
{
	EoAnswer  **answers;
	int			n;
	int			next;
	int64		deadline_us;
} Group;

static bool
start_answer(EoWindow *window, void *arg)
{
	Group	   *group = arg;

	if (group->next == group->n)
		return false;
	(void) eo_answer_start(group->answers[group->next++], window, group->deadline_us);
	return true;
}

static void
take_answer(EoWindow *window, EoCall *call, void *arg)
{
	Group	   *group = arg;

	(void) eo_answer_take(eo_answer_of_call(call), window, group->deadline_us);
}

void
eo_store_run(EoAnswer **answers, int n, int parallel, int64 deadline_us, EoWaitMode mode)
{
	Group		group = {.answers = answers,.n = n,.deadline_us = deadline_us};
	EoWindow	window = {.n = 0};

	Assert(mode == EO_WAIT_RAISE);
	(void) mode;
	eo_window_run(&window, parallel, start_answer, take_answer, &group);
}

void
eo_store_run_call(EoStore *store, EoCall *call)
{
	EoWindow	window = {.n = 0};

	if (eo_window_add(&window, call, 0))
		eo_window_run(&window, 1, NULL, NULL, NULL);
	log_call(store, call);
}

/*
 * A reply is believed if it speaks of the key that was sent and, after a
 * write, of our token in the state we wrote.  Anything else was meant for
 * somebody else, or was made up on the way.  The record is read here, once.
 */
static bool
believe_write(const EoCall *call, EoJsonValue *item, bool refused)
{
	const EoAnswer *answer = call->arg;

	if (item == NULL)
		return refused;
	if (!believe_read(call, item, refused))
		return false;
	if (refused || (!answer->is_action && answer->verb == EO_PROBE))
		return true;
	return answer->readable && is_own_write(answer);
}

/* A success names the tables that were written, and ours is one of them. */
static bool
believe_transaction(const EoCall *call, EoJsonValue *item, bool refused)
{
	const EoAnswer *answer = call->arg;
	EoJsonValue *capacity = eo_json_get(eo_json_root(call->reply), "ConsumedCapacity");

	if (refused)
		return believe_read(call, item, refused);
	for (size_t i = 0; i < eo_json_array_length(capacity); i++)
	{
		size_t		len;
		const char *table = eo_json_string(eo_json_get(eo_json_array_get(capacity, i), "TableName"),
										   &len);

		if (table != NULL && strcmp(table, answer->store->server->table) == 0)
			return true;
	}
	return false;
}

static bool
believe_read(const EoCall *call, EoJsonValue *item, bool refused)
{
	EoAnswer   *answer = call->arg;
	const EoLayout *layout = answer->store->layout;
	const char *pk;

	(void) refused;
	if (item == NULL)
	{
		answer->readable = false;
		return true;
	}
	if (answer->is_action)
	{
		answer->readable = eo_action_item_read(item, &answer->action) == EO_OK;
		pk = eo_action_item_pk_of(item);
	}
	else
	{
		answer->readable = eo_record_read(layout, item, &answer->record) == EO_OK;
		pk = eo_record_pk_of(layout, item);
	}
	return pk != NULL && strcmp(pk, answer->pk) == 0;
}

static void
settle(EoAnswer *answer)
{
	EoCall	   *call = &answer->call;

	answer->error = call->error;
	switch (call->error.status)
	{
		case EO_OK:
			answer->outcome = answer->is_read ? EO_READ : EO_APPLIED;
			answer->exists = call->item != NULL;
			if (answer->exists && !answer->readable)
				unreadable(answer);
			break;
		case EO_CONDITION_FAILED:
			settle_refusal(answer);
			break;
		default:
			answer->outcome = EO_FAILED_CALL;
			break;
	}
}

static void
settle_refusal(EoAnswer *answer)
{
	EoCall	   *call = &answer->call;

	answer->outcome = EO_NOT_APPLIED;
	answer->exists = call->item != NULL;
	if (!answer->exists)
	{
		answer->read_again = !answer->is_action && answer->verb != EO_PROBE;
		return;
	}
	if (!answer->readable)
	{
		unreadable(answer);
		return;
	}
	if (is_own_write(answer))
	{
		answer->outcome = EO_APPLIED;
		answer->replayed = !call->in_doubt;
	}
}

/*
 * Does the record that refused us show that very write?  For a lease, one
 * that ends no earlier than the one we asked for.  For a seal, one of this very
 * transaction: two that complete under the same token must not both believe
 * that they have sealed.
 */
static bool
is_own_write(const EoAnswer *answer)
{
	const EoRecord *r = &answer->record;

	if (answer->is_action)
		return eo_action_item_shows(&answer->action, answer->action_verb, answer->owner);
	if (r->owner == NULL || strcmp(r->owner, answer->owner) != 0 ||
		r->state != eo_record_state_after(answer->verb))
		return false;
	if (answer->verb == EO_SEAL || answer->verb == EO_SEAL_NEW ||
		answer->verb == EO_SEAL_EXPIRED)
		return r->origin != NULL && strcmp(r->origin, answer->origin) == 0;
	return answer->verb != EO_EXTEND || r->lease_ms >= answer->lease_ms;
}

/*
 * The answer to the read that followed a refusal.
 */
static void
settle_second_look(EoAnswer *answer)
{
	EoCall	   *call = &answer->call;

	answer->read_again = false;
	if (call->error.status != EO_OK)
	{
		/* The write itself was refused; only by what is not known. */
		answer->error = call->error;
		if (answer->doubted)
			answer->error.status = EO_UNKNOWN;
		answer->outcome = EO_FAILED_CALL;
		return;
	}
	call->in_doubt = answer->doubted;
	call->error.status = EO_CONDITION_FAILED;
	if (call->item == NULL)
	{
		answer->exists = false;
		return;
	}
	settle_refusal(answer);
}

static void
unreadable(EoAnswer *answer)
{
	answer->outcome = EO_FAILED_CALL;
	answer->exists = false;
	answer->error.status = EO_INVALID;
	answer->error.code[0] = '\0';
	strlcpy(answer->error.message, answer->is_action ? "The item under this id is not an action" :
			"The item under this key is not a record of the server's layout",
			sizeof(answer->error.message));
}

static void
log_call(const EoStore *store, const EoCall *call)
{
	const EoError *e = &call->error;

	if (!eo_guc_log_requests)
		return;
	ereport(LOG,
			(errmsg("exactonce: %s on server \"%s\": %s, HTTP status %d, attempt %d, %.3f ms, request id %s",
					eo_call_operation_name(call->op), store->server->name,
					e->status == EO_OK ? "ok" :
					e->code[0] != '\0' ? e->code : "no answer",
					e->http_status, e->attempts, call->elapsed_us / 1000.0,
					e->request_id[0] != '\0' ? e->request_id : "unknown"),
			 errhidestmt(true)));
}
