/*-------------------------------------------------------------------------
 *
 * operator.c
 *	  What others than the owner do with a key: look at it, have it run
 *	  afresh, settle it where nobody else can.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "commit/outbox.h"
#include "commit/session_tokens.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "compat.h"
#include "dynamodb/client.h"
#include "dynamodb/origin.h"
#include "dynamodb/record.h"
#include "dynamodb/token.h"
#include "keys/key.h"
#include "keys/operator.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/text.h"

/* Races lost in a row before an operator is told that the key is contended. */
#define MAX_RACES 5

typedef struct Pending
{
	uint8		origin[16];
	int			n;
	char		tokens[4][EO_TOKEN_LEN + 1];
} Pending;

static bool overlay(const EoKey *k, bool exists, EoRecord *r);
static bool forget_seen(EoKey *k, const EoRecord *seen);
pg_noreturn static void raise_contended(const EoKey *k);
static void check_named_origin(const EoKey *k, const EoRecord *r, const char *origin);
static bool dismiss(const EoKey *k, const EoRecord *r, bool completed, const Pending *pending);
static void find_pending(const EoKey *k, Pending *pending);

/* What this transaction has done to it, over what DynamoDB says. */
static bool
overlay(const EoKey *k, bool exists, EoRecord *r)
{
	const EoTxClaim *held = k->held;
	EoSlotView	view;

	if (held == NULL)
		return exists;
	if (eo_xact_is_completed(held))
	{
		int64		now_ms = eo_client_now_ms(&k->store->client);

		if (!exists)
			memset(r, 0, sizeof(*r));
		r->state = EO_STATE_COMPLETED;
		r->result = eo_text_copy(held->result);
		r->result_len = held->result_len;
		r->error = NULL;
		r->runs = exists && !held->info->once ? r->runs : r->runs + 1;
		r->ttl_s = eo_record_ttl_after(now_ms, held->info->retention_s);
		return true;
	}
	if (exists && eo_xact_is_given_up(held) && eo_slot_read(held->slot, &view))
	{
		r->state = EO_STATE_FAILED;
		r->has_retry = !view.info.terminal;
		r->retry_ms = view.info.retry_after_ms == 0 ? 0 :
			eo_client_now_ms(&k->store->client) + view.info.retry_after_ms;
		if (view.info.state == EO_SLOT_RELEASED && r->runs > 0)
			r->runs--;
		if (view.error_len > 0)
		{
			char	   *error = palloc0(view.error_len + 1);

			if (eo_slot_error(held->slot, error, view.error_len))
				r->error = error;
		}
	}
	return exists;
}

bool
eo_operator_get(EoStore *store, const char *key, EoRecord *r)
{
	EoSlotView	view;
	EoKey		k;
	EoAnswer   *answer;
	EoFate		fate;
	int64		retention_s;
	bool		exists;

	eo_key_find(&k, store, key);
	/* What a transaction of ours has left to the worker is seen to first. */
	if (k.held == NULL && !RecoveryInProgress() && eo_slot_find(k.digest, &view) &&
		eo_slot_state_is_over(view.info.state))
		eo_settle_on_the_spot(store, key, &view);
	answer = eo_settle_read(store, key, k.pk, "read", &fate, &retention_s);
	*r = *eo_answer_record(answer);
	r->result = eo_text_copy(r->result);
	r->error = eo_text_copy(r->error);
	exists = answer->exists && !eo_store_is_expired(store, r);
	if (exists && fate == EO_FATE_COMMITTED)
	{
		r->state = EO_STATE_COMPLETED;
		r->ttl_s = eo_record_ttl_after(r->updated_ms, retention_s);
	}
	eo_answer_free(answer);
	if (exists && r->state == EO_STATE_COMPLETED && r->odd_result)
		eo_error_raise_odd("read", key, store->server->name, "result");
	if (exists && r->state == EO_STATE_FAILED && r->odd_error)
		eo_error_raise_odd("read", key, store->server->name, "error");
	r->owner = r->bind = r->origin = r->payload_sha256 = NULL;
	r->item = NULL;
	return overlay(&k, exists, r);
}

bool
eo_operator_forget(EoStore *store, const char *key)
{
	EoKey		k;
	bool		forgotten = false;

	eo_key_find(&k, store, key);
	for (int races = 0;; races++)
	{
		EoAnswer   *seen = eo_store_read(store, k.pk);
		bool		again;

		if (seen->outcome == EO_FAILED_CALL)
			eo_error_raise(&seen->error, "forget", key, store->server->name);
		again = seen->exists && !forget_seen(&k, eo_answer_record(seen));
		forgotten = seen->exists && !again;
		eo_answer_free(seen);
		if (!again)
			break;
		if (races + 1 == MAX_RACES)
			raise_contended(&k);
	}
	eo_session_tokens_forget(store->server->serverid, k.pk);
	return forgotten;
}

static void
raise_contended(const EoKey *k)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_IN_PROGRESS),
			 errmsg("could not forget key \"%s\" on server \"%s\": others keep changing it",
					k->key, k->store->server->name),
			 errdetail("It was changed %d times between a look at it and the write that resets it.",
					   MAX_RACES),
			 errhint("Call idem_forget() again, or first end what claims the key.")));
}

/* False: it is another one by now. */
static bool
forget_seen(EoKey *k, const EoRecord *seen)
{
	char		token[EO_TOKEN_LEN + 1];
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		applied;
	const char *server = k->store->server->name;

	if (seen->state == EO_STATE_COMMITTING)
		eo_error_raise_committing(k->key, server,
								  "A transaction that completes it has announced its commit.",
								  "Wait until that is settled; see exactonce_pending and exactonce_in_doubt.");
	eo_store_new_token(token);
	w.owner = token;
	w.seen = seen;
	w.now_ms = eo_client_now_ms(&k->store->client);
	w.ttl_s = eo_record_ttl_after(w.now_ms, k->store->server->retention_s);
	answer = eo_store_write(k->store, k->pk, EO_FORGET, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, "forget", k->key, server);
	applied = answer->outcome == EO_APPLIED;
	eo_answer_free(answer);
	return applied;
}

/*
 * Another database may be between its seal and its commit at this moment.
 * Whoever overrules it has to name it.
 */
static void
check_named_origin(const EoKey *k, const EoRecord *r, const char *origin)
{
	const char *theirs = r->origin != NULL ? r->origin : "";
	size_t		len = strcspn(theirs, "/");
	EoOrigin	named;

	if (origin != NULL && strlen(origin) == len && strncmp(origin, theirs, len) == 0)
		return;
	/* No database can be asked that has no name. */
	if (!eo_origin_read(theirs, &named))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("key \"%s\" on server \"%s\" is being committed by another database", k->key,
					k->store->server->name),
			 errdetail("Its origin is \"%.*s\".", (int) len, theirs),
			 errhint("Resolve it there. Only if that database is gone for good, name it here: idem_resolve(..., origin => '%.*s').",
					 (int) len, theirs)));
}

/*
 * The record is not one that waits for an answer.  Then what this database
 * remembers of it goes: a doubt that is none any more, and a completion that
 * can never be written, because somebody else has changed the record.  Its
 * row was there before the record was read, so the record had been sealed with
 * its token by then.
 */
static bool
dismiss(const EoKey *k, const EoRecord *r, bool completed, const Pending *pending)
{
	int			n = 0;

	eo_slot_undoubt(&k->target, k->pk);
	for (int i = 0; completed && i < pending->n; i++)
	{
		if (r == NULL || strcmp(r->owner, pending->tokens[i]) != 0)
			n += eo_outbox_remove(pending->origin, k->pk, pending->tokens[i]);
	}
	if (n > 0)
		ereport(LOG,
				(errmsg("exactonce: a completion of key \"%s\" on server \"%s\" was given up by an operator",
						k->key, k->store->server->name)));
	return n > 0;
}

/* Completions of the key that are committed; looked for before the record. */
static void
find_pending(const EoKey *k, Pending *pending)
{
	EoDatabaseInfo db;

	pending->n = 0;
	if (!eo_database_info(MyDatabaseId, &db) || db.incarnation == 0)
		return;
	memcpy(pending->origin, db.origin, sizeof(pending->origin));
	pending->n = eo_outbox_tokens(db.origin, k->pk, &k->target, pending->tokens,
								  lengthof(pending->tokens));
}

/*
 * For a record of which nobody here can say how it ended.  Where PostgreSQL
 * does know, it decides, and not the operator.
 */
bool
eo_operator_resolve(EoStore *store, const char *key, bool completed, const char *origin)
{
	Pending		pending;
	EoKey		k;
	EoAnswer   *answer;
	EoAnswer   *written;
	const EoRecord *r;
	EoWrite		w = {0};
	int64		retention_s = store->server->retention_s;
	bool		resolved;

	eo_key_find(&k, store, key);
	find_pending(&k, &pending);
	answer = eo_store_read(store, k.pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, "resolve", key, store->server->name);
	r = eo_answer_record(answer);
	if (!answer->exists || r->state != EO_STATE_COMMITTING)
	{
		resolved = dismiss(&k, answer->exists ? r : NULL, completed, &pending);
		eo_answer_free(answer);
		return resolved;
	}
	switch (eo_settle_fate(r, k.pk, &retention_s))
	{
		case EO_FATE_RUNNING:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("the transaction that completes key \"%s\" on server \"%s\" is still going on",
							key, store->server->name),
					 errhint("Wait for it, or end its session.")));
			break;
		case EO_FATE_COMMITTED:
			if (!completed)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("key \"%s\" on server \"%s\" was completed by a transaction that has committed",
								key, store->server->name),
						 errhint("The worker is about to say so in DynamoDB; idem_forget() redrives the key after that.")));
			break;
		case EO_FATE_ABORTED:
			if (completed)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("the transaction that was to complete key \"%s\" on server \"%s\" was rolled back",
								key, store->server->name),
						 errhint("Resolve it as failed.")));
			break;
		case EO_FATE_ELSEWHERE:
			check_named_origin(&k, r, origin);
			break;
		case EO_FATE_UNKNOWN:
			break;
	}
	w.owner = r->owner;
	w.origin = r->origin != NULL ? r->origin : "";
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = eo_record_ttl_after(w.now_ms, retention_s);
	written = eo_store_write(store, k.pk, completed ? EO_FINISH : EO_ABORT, &w);
	if (written->outcome == EO_FAILED_CALL)
		eo_error_raise(&written->error, "resolve", key, store->server->name);
	resolved = written->outcome == EO_APPLIED;
	if (resolved)
	{
		ereport(LOG,
				(errmsg("exactonce: key \"%s\" on server \"%s\" was resolved as %s by an operator",
						key, store->server->name, completed ? "completed" : "failed")));
		eo_slot_undoubt(&k.target, k.pk);
	}
	eo_answer_free(written);
	eo_answer_free(answer);
	return resolved;
}
