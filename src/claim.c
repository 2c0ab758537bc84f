/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  What the owner of a key does with it, and what operators do.
 *
 *				 acquire			 idem_complete		commit
 *	 (absent) -----------> IN_PROGRESS ....(row)....> COMMITTING --> COMPLETED
 *				  ^			|	 |	^					 |
 *		   acquire|	  fail, |	 |__| extend			 | abort
 *			if due|	release, abort						 |
 *				  |			v							 |
 *				  +------ FAILED <-----------------------+
 *						  (without retry_ms: for good)
 *
 * Completing within a transaction makes no request: it inserts the row that
 * is the decision, and the seal does the rest (seal.c).  Failing and releasing
 * leave a verdict in the claim's slot, which the worker carries out when the
 * transaction is over, either way: as long as it can still commit nobody else
 * may begin.  What is said to be immediate, and what is about a claim that is
 * not this transaction's and no transaction block is open, is written at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "claim.h"
#include "compat.h"
#include "error.h"
#include "outbox.h"
#include "settle.h"
#include "tokens.h"
#include "xact.h"

/* A key and its names. */
typedef struct Key
{
	EoStore    *store;
	const char *key;
	char	   *pk;
	EoTarget	target;
	uint8		digest[EO_DIGEST_LEN];
	EoTxClaim  *held;			/* by this transaction; NULL: not */
	int64		retention_s;	/* of a claim that has been read; 0: it was
								 * not */
} Key;

static void find_key(Key *k, EoStore *store, const char *key);
static void check_size(const Key *k, const char *what, size_t len, const char *hint);
static EoTxClaim *held_by(const Key *k, const char *token, const char *verb);
static EoTxClaim *enter_earlier(Key *k, const char *token, const char *verb);
static void decide(Key *k, EoTxClaim *claim, const char *result);
static void complete_now(Key *k, const char *token, const char *result);
static void fail_now(Key *k, const char *token, const char *error, int64 retry_after_ms,
					 bool terminal);
static bool release_now(Key *k, const char *token);
static void leave_verdict(Key *k, EoTxClaim *claim, EoSlotVerdict verdict, bool terminal,
						  int64 retry_after_ms, const char *error);
static const char *choose_token(const Key *k, const char *given, const char *verb);
static int64 retention_of(const Key *k, const char *token, const char *verb, bool must_own);
static int64 retention_in(const EoRecord *r);
static bool is_completed_already(Key *k, const char *token, const char *result);
pg_noreturn static void raise_other_result(const Key *k);
pg_noreturn static void raise_lost(const Key *k, const EoRecord *record);
pg_noreturn static void raise_settled(const Key *k, const char *how);

static int64
ttl_after(int64 from_ms, int64 retention_s)
{
	return (from_ms + 999) / 1000 + retention_s;
}

static void
find_key(Key *k, EoStore *store, const char *key)
{
	memset(k, 0, sizeof(*k));
	k->store = store;
	k->key = key;
	k->pk = eo_store_pk(store, key);
	eo_settle_target(store, &k->target);
	eo_settle_digest(&k->target, store, k->pk, k->digest);
	k->held = eo_xact_find(k->digest);
	if (!store->client.clock_known)
		(void) eo_target_clock(&k->target, &store->client.clock_offset_ms);
}

/* ----- complete ----- */

void
eo_claim_complete(EoStore *store, const char *key, const char *token, const char *result,
				  bool immediate)
{
	Key			k;
	EoTxClaim  *claim;

	find_key(&k, store, key);
	check_size(&k, "result", result != NULL ? strlen(result) : 0,
			   "Store it elsewhere and complete the key with a reference to it.");
	claim = held_by(&k, token, "complete");
	if (claim != NULL && claim->phase == EO_PHASE_COMPLETED)
	{
		/* The same call twice is one. */
		if ((claim->result == NULL) == (result == NULL) &&
			(result == NULL || strcmp(claim->result, result) == 0))
			return;
		raise_settled(&k, "completed with another result");
	}
	if (claim != NULL && claim->verdict != EO_VERDICT_NONE)
		raise_settled(&k, "failed or released");
	if (immediate)
	{
		complete_now(&k, claim != NULL ? pstrdup(claim->token) : token, result);
		return;
	}
	if (claim == NULL && token != NULL && is_completed_already(&k, token, result))
		return;
	if (claim == NULL)
		claim = enter_earlier(&k, token, "complete");
	decide(&k, claim, result);
}

/*
 * A caller that did not hear the answer says it again, with its token.
 */
static bool
is_completed_already(Key *k, const char *token, const char *result)
{
	EoToken    *memory = eo_tokens_find(k->store->server->serverid, k->pk);
	EoAnswer   *answer;
	const EoRecord *r;
	int64		retention_s;
	bool		completed;

	if (memory != NULL && strcmp(memory->held, token) == 0)
		return false;			/* it is held */
	answer = eo_store_read(k->store, k->pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "complete", k->key, k->store->server->name);
	r = &answer->record;
	if (!answer->exists || strcmp(r->owner, token) != 0)
		raise_lost(k, answer->exists ? r : NULL);
	completed = r->state == EO_STATE_COMPLETED ||
		(r->state == EO_STATE_COMMITTING &&
		 eo_settle_fate(r, k->pk, &retention_s) == EO_FATE_COMMITTED);
	if (completed && ((r->result == NULL) != (result == NULL) ||
					  (result != NULL && strcmp(r->result, result) != 0)))
		raise_other_result(k);
	if (!completed && r->state == EO_STATE_IN_PROGRESS)
		k->retention_s = retention_in(r);
	eo_answer_free(answer);
	return completed;
}

static void
raise_other_result(const Key *k)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_NOT_OWNER),
			 errmsg("key \"%s\" on server \"%s\" is already completed", k->key,
					k->store->server->name),
			 errdetail("This claim completed it before, with another result."),
			 errhint("The first result stays; idem_get() shows it.")));
}

/*
 * The row first: it may wait for another transaction, and fail.
 */
static void
decide(Key *k, EoTxClaim *claim, const char *result)
{
	EoOutboxRow row = {0};
	EoDbInfo	db;

	(void) eo_db_info(MyDatabaseId, &db);
	memcpy(row.origin, db.origin, sizeof(row.origin));
	row.target = k->target;
	row.pk = k->pk;
	strlcpy(row.token, claim->token, sizeof(row.token));
	row.retention_s = claim->retention_s;
	eo_outbox_add(&row, k->key, k->store->server->name, claim->once);
	eo_xact_completed(claim, result);
}

/*
 * A claim from before this transaction, or from another session, by its
 * token.  It gets a slot and a place in the transaction now.
 */
static EoTxClaim *
enter_earlier(Key *k, const char *token, const char *verb)
{
	EoSlotInfo	info = {0};
	EoSlotView	view;
	EoTxClaim  *claim;

	token = choose_token(k, token, verb);
	/* An earlier try to complete it may have ended without a word. */
	if (eo_slot_find(k->digest, &view) && view.info.ended)
		eo_settle_on_the_spot(k->store, k->key, &view);
	info.retention_s = retention_of(k, token, verb, true);
	info.state = EO_SLOT_HELD;
	memcpy(info.digest, k->digest, sizeof(info.digest));
	strlcpy(info.token, token, sizeof(info.token));
	info.pid = MyProcPid;
	info.vxid = eo_compat_my_vxid();
	info.lease_ms = k->store->server->lease_ms;
	info.since_us = eo_clock_monotonic_us();
	claim = eo_xact_add(k->store, k->key, k->pk, &k->target, &info);
	claim->phase = EO_PHASE_HELD;
	claim->earlier = true;
	return claim;
}

void
eo_claim_once(EoStore *store, const char *key, const char *result, int64 retention_s)
{
	Key			k;
	EoSlotInfo	info = {0};
	EoTxClaim  *claim;

	find_key(&k, store, key);
	check_size(&k, "result", result != NULL ? strlen(result) : 0,
			   "Store it elsewhere and complete the key with a reference to it.");
	if (k.held != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_EO_DUPLICATE),
				 errmsg("duplicate key \"%s\" on server \"%s\"", key, store->server->name),
				 errdetail("This transaction holds or has completed it already.")));
	info.state = EO_SLOT_PLANNED;
	info.once = true;
	info.release_on_abort = true;
	memcpy(info.digest, k.digest, sizeof(info.digest));
	eo_token_make(info.token);
	info.pid = MyProcPid;
	info.vxid = eo_compat_my_vxid();
	info.retention_s = retention_s >= 0 ? retention_s : store->server->retention_s;
	info.since_us = eo_clock_monotonic_us();
	claim = eo_xact_add(store, key, k.pk, &k.target, &info);
	claim->phase = EO_PHASE_PLANNED;
	decide(&k, claim, result);
}

static void
complete_now(Key *k, const char *token, const char *result)
{
	EoWrite		w = {0};
	EoAnswer   *answer;

	w.result = result;
	w.result_len = result != NULL ? strlen(result) : 0;
	w.owner = choose_token(k, token, "complete");
	w.now_ms = eo_client_now_ms(&k->store->client);
	w.ttl_s = ttl_after(w.now_ms, retention_of(k, w.owner, "complete", false));
	answer = eo_store_write(k->store, k->pk, EO_COMPLETE, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "complete", k->key, k->store->server->name);
	eo_tokens_forget_claim(k->store->server->serverid, k->pk, w.owner);
	if (answer->outcome != EO_APPLIED)
		raise_lost(k, answer->exists ? &answer->record : NULL);
	if (answer->replayed &&
		(answer->record.result_len != w.result_len ||
		 (w.result_len > 0 && memcmp(answer->record.result, result, w.result_len) != 0)))
		raise_other_result(k);
	if (k->held != NULL)
		eo_xact_drop(k->held);
	eo_answer_free(answer);
}

/* ----- fail and release ----- */

void
eo_claim_fail(EoStore *store, const char *key, const char *token, const char *error,
			  int64 retry_after_ms, bool terminal, bool immediate)
{
	Key			k;
	EoTxClaim  *claim;

	find_key(&k, store, key);
	check_size(&k, "error", error != NULL ? strlen(error) : 0,
			   "Keep what helps to find the cause, such as SQLSTATE and message.");
	claim = held_by(&k, token, "fail");
	if (claim != NULL && claim->phase != EO_PHASE_HELD)
		raise_settled(&k, "completed");
	if (immediate || (claim == NULL && !IsTransactionBlock()))
	{
		fail_now(&k, claim != NULL ? pstrdup(claim->token) : token, error, retry_after_ms, terminal);
		return;
	}
	if (claim == NULL)
		claim = enter_earlier(&k, token, "fail");
	leave_verdict(&k, claim, EO_VERDICT_FAIL, terminal, retry_after_ms, error);
}

static void
leave_verdict(Key *k, EoTxClaim *claim, EoSlotVerdict verdict, bool terminal,
			  int64 retry_after_ms, const char *error)
{
	if (eo_slot_verdict(claim->slot, verdict, terminal, retry_after_ms, error,
						error != NULL ? strlen(error) : 0) != EO_SHMEM_OK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("no room for the error of key \"%s\" on server \"%s\"", k->key,
						k->store->server->name),
				 errdetail("It waits for the end of the transaction in shared memory, of which too little is left."),
				 errhint("Give a shorter error, or immediate => true; or raise exactonce.max_claims.")));
	claim->verdict = verdict;
}

static void
fail_now(Key *k, const char *token, const char *error, int64 retry_after_ms, bool terminal)
{
	EoWrite		w = {0};
	EoAnswer   *answer;

	w.error = error;
	w.error_len = error != NULL ? strlen(error) : 0;
	w.owner = choose_token(k, token, "fail");
	w.now_ms = eo_client_now_ms(&k->store->client);
	w.terminal = terminal;
	w.retry_ms = retry_after_ms > 0 ? w.now_ms + retry_after_ms : 0;

	/* Until it may be retried it must not be swept. */
	w.ttl_s = ttl_after(w.now_ms + (terminal ? 0 : retry_after_ms),
						retention_of(k, w.owner, "fail", false));
	answer = eo_store_write(k->store, k->pk, EO_FAIL, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "fail", k->key, k->store->server->name);
	eo_tokens_forget_claim(k->store->server->serverid, k->pk, w.owner);
	if (answer->outcome != EO_APPLIED)
		raise_lost(k, answer->exists ? &answer->record : NULL);
	if (k->held != NULL)
		eo_xact_drop(k->held);
	eo_answer_free(answer);
}

bool
eo_claim_release(EoStore *store, const char *key, const char *token)
{
	Key			k;
	EoTxClaim  *claim;
	EoToken    *memory;

	find_key(&k, store, key);
	claim = k.held;
	if (claim != NULL && (token == NULL || strcmp(token, claim->token) == 0))
	{
		if (claim->phase != EO_PHASE_HELD)
			raise_settled(&k, "completed");
		if (claim->verdict != EO_VERDICT_NONE)
			return claim->verdict == EO_VERDICT_RELEASE;
		leave_verdict(&k, claim, EO_VERDICT_RELEASE, false, 0, NULL);
		return true;
	}
	memory = eo_tokens_find(store->server->serverid, k.pk);
	if (token == NULL && memory == NULL)
		return false;
	if (token == NULL)
		token = pstrdup(memory->held);
	if (claim != NULL || !IsTransactionBlock())
		return release_now(&k, token);
	leave_verdict(&k, enter_earlier(&k, token, "release"), EO_VERDICT_RELEASE, false, 0, NULL);
	return true;
}

static bool
release_now(Key *k, const char *token)
{
	EoToken    *memory = eo_tokens_find(k->store->server->serverid, k->pk);
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		released;

	w.owner = token;
	w.now_ms = eo_client_now_ms(&k->store->client);
	w.ttl_s = ttl_after(w.now_ms, memory != NULL && memory->retention_s > 0 ?
						memory->retention_s : k->store->server->retention_s);
	answer = eo_store_write(k->store, k->pk, EO_RELEASE, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "release", k->key, k->store->server->name);

	/* Released before, by this very claim: what was asked for is the case. */
	released = answer->outcome == EO_APPLIED &&
		(!answer->replayed || (answer->record.has_retry && answer->record.error == NULL));
	eo_tokens_forget_claim(k->store->server->serverid, k->pk, token);
	eo_answer_free(answer);
	return released;
}

/* ----- extend ----- */

int64
eo_claim_extend(EoStore *store, const char *key, const char *token, int64 lease_ms)
{
	Key			k;
	EoTxClaim  *claim;
	EoWrite		w = {0};
	EoAnswer   *answer;
	int64		until_ms;

	find_key(&k, store, key);
	claim = held_by(&k, token, "extend");
	if (lease_ms < 0)
		lease_ms = store->server->lease_ms;
	w.owner = claim != NULL ? claim->token : choose_token(&k, token, "extend");
	w.now_ms = eo_client_now_ms(&store->client);
	w.lease_ms = w.now_ms + lease_ms;
	w.ttl_s = ttl_after(w.lease_ms, claim != NULL ? claim->retention_s :
						retention_of(&k, w.owner, "extend", false));
	answer = eo_store_write(store, k.pk, EO_EXTEND, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "extend", key, store->server->name);
	if (answer->outcome != EO_APPLIED)
	{
		eo_tokens_forget_claim(store->server->serverid, k.pk, w.owner);
		raise_lost(&k, answer->exists ? &answer->record : NULL);
	}
	until_ms = answer->record.lease_ms;
	if (claim != NULL)
	{
		claim->lease_until_ms = until_ms;
		claim->ttl_s = answer->record.ttl_s;
		eo_slot_extended(claim->slot, until_ms, lease_ms);
	}
	eo_answer_free(answer);
	return until_ms;
}

/* ----- what others do ----- */

static char *
copy_or_null(const char *s)
{
	return s != NULL ? pstrdup(s) : NULL;
}

/* What this transaction has done to it, over what DynamoDB says. */
static bool
overlay(const Key *k, bool exists, EoRecord *r)
{
	const EoTxClaim *held = k->held;
	EoSlotView	view;

	if (held == NULL)
		return exists;
	if (held->phase == EO_PHASE_COMPLETED)
	{
		int64		now_ms = eo_client_now_ms(&k->store->client);

		if (!exists)
			memset(r, 0, sizeof(*r));
		r->state = EO_STATE_COMPLETED;
		r->result = copy_or_null(held->result);
		r->result_len = held->result_len;
		r->error = NULL;
		r->runs = exists && !held->once ? r->runs : r->runs + 1;
		r->ttl_s = ttl_after(now_ms, held->retention_s);
		return true;
	}
	if (exists && held->verdict != EO_VERDICT_NONE && eo_slot_read(held->slot, &view))
	{
		r->state = EO_STATE_FAILED;
		r->has_retry = !view.info.terminal;
		r->retry_ms = view.info.retry_after_ms == 0 ? 0 :
			eo_client_now_ms(&k->store->client) + view.info.retry_after_ms;
		if (held->verdict == EO_VERDICT_RELEASE && r->runs > 0)
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
eo_claim_get(EoStore *store, const char *key, EoRecord *r)
{
	Key			k;
	EoAnswer   *answer;
	int64		retention_s;
	bool		exists;

	find_key(&k, store, key);
	answer = eo_store_read(store, k.pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "read", key, store->server->name);
	*r = answer->record;
	r->result = copy_or_null(r->result);
	r->error = copy_or_null(r->error);
	exists = answer->exists && !eo_claim_is_expired(store, r);
	if (exists && r->state == EO_STATE_COMMITTING && !RecoveryInProgress() &&
		eo_settle_fate(r, k.pk, &retention_s) == EO_FATE_COMMITTED)
	{
		r->state = EO_STATE_COMPLETED;
		r->ttl_s = ttl_after(r->updated_ms, retention_s);
	}
	eo_answer_free(answer);
	r->owner = r->bind = r->origin = r->payload_sha256 = NULL;
	return overlay(&k, exists, r);
}

bool
eo_claim_forget(EoStore *store, const char *key)
{
	Key			k;
	char		token[EO_TOKEN_LEN + 1];
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		forgotten;

	find_key(&k, store, key);
	eo_token_make(token);
	w.owner = token;
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = ttl_after(w.now_ms, store->server->retention_s);
	answer = eo_store_write(store, k.pk, EO_FORGET, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "forget", key, store->server->name);
	forgotten = answer->outcome == EO_APPLIED;
	if (!forgotten && answer->exists)
		ereport(ERROR,
				(errcode(ERRCODE_EO_IN_PROGRESS),
				 errmsg("key \"%s\" on server \"%s\" is being committed", key, store->server->name),
				 errdetail("A transaction that completes it has announced its commit."),
				 errhint("Wait until that is settled; see exactonce_pending and exactonce_in_doubt.")));
	eo_tokens_forget(store->server->serverid, k.pk);
	eo_answer_free(answer);
	return forgotten;
}

/*
 * For a record of which nobody here can say how it ended.  Where PostgreSQL
 * does know, it decides, and not the operator.
 */
bool
eo_claim_resolve(EoStore *store, const char *key, bool completed)
{
	Key			k;
	EoAnswer   *answer;
	EoAnswer   *written;
	const EoRecord *r;
	EoWrite		w = {0};
	int64		retention_s = store->server->retention_s;
	bool		resolved;

	find_key(&k, store, key);
	answer = eo_store_read(store, k.pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "resolve", key, store->server->name);
	r = &answer->record;
	if (!answer->exists || r->state != EO_STATE_COMMITTING)
	{
		eo_slot_undoubt(k.digest);
		return false;
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
		case EO_FATE_UNKNOWN:
			break;
	}
	w.owner = r->owner;
	w.origin = r->origin != NULL ? r->origin : "";
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = ttl_after(w.now_ms, retention_s);
	written = eo_store_write(store, k.pk, completed ? EO_FINISH : EO_ABORT, &w);
	if (written->outcome == EO_FAILED_CALL)
		eo_raise(&written->error, "resolve", key, store->server->name);
	resolved = written->outcome == EO_APPLIED;
	if (resolved)
	{
		ereport(LOG,
				(errmsg("exactonce: key \"%s\" on server \"%s\" was resolved as %s by an operator",
						key, store->server->name, completed ? "completed" : "failed")));
		eo_slot_undoubt(k.digest);
	}
	eo_answer_free(written);
	eo_answer_free(answer);
	return resolved;
}

/* ----- helpers ----- */

static void
check_size(const Key *k, const char *what, size_t len, const char *hint)
{
	size_t		max = eo_layout_max_value(k->store->layout, strlen(k->pk));

	if (len <= max)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("%s of key \"%s\" on server \"%s\" is too large", what, k->key,
					k->store->server->name),
			 errdetail("As text it has %zu bytes; with this key there is room for %zu.", len, max),
			 errhint("%s", hint)));
}

/* This transaction's claim, if that is what the token means; NULL: it is not. */
static EoTxClaim *
held_by(const Key *k, const char *token, const char *verb)
{
	EoTxClaim  *held = k->held;

	(void) verb;
	if (held == NULL || token == NULL || strcmp(token, held->token) == 0)
		return held;
	/* We own the key, so whoever has another token does not. */
	raise_lost(k, NULL);
}

static const char *
choose_token(const Key *k, const char *given, const char *verb)
{
	EoToken    *memory;

	if (given != NULL)
		return given;
	memory = eo_tokens_find(k->store->server->serverid, k->pk);
	if (memory == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_EO_NOT_OWNER),
				 errmsg("cannot %s key \"%s\" on server \"%s\": this session does not own it",
						verb, k->key, k->store->server->name),
				 errhint("Acquire it first; or, from another session or behind a connection pooler, pass the token that idem_acquire() returned.")));
	return pstrdup(memory->held);
}

/*
 * The retention this claim was acquired with.  A session that acquired it
 * remembers; for a token from elsewhere it is read off the record, where ttl
 * is the lease's end plus retention.  That read can also tell that the token
 * owns nothing any more.
 */
static int64
retention_of(const Key *k, const char *token, const char *verb, bool must_own)
{
	EoToken    *memory = eo_tokens_find(k->store->server->serverid, k->pk);
	EoAnswer   *answer;
	int64		retention_s = k->store->server->retention_s;

	if (k->held != NULL && strcmp(k->held->token, token) == 0)
		return k->held->retention_s;
	if (memory != NULL && strcmp(memory->held, token) == 0 && memory->retention_s > 0)
		return memory->retention_s;
	if (k->retention_s > 0)
		return k->retention_s;
	answer = eo_store_read(k->store, k->pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, verb, k->key, k->store->server->name);
	if (must_own && (!answer->exists || strcmp(answer->record.owner, token) != 0 ||
					 answer->record.state != EO_STATE_IN_PROGRESS))
		raise_lost(k, answer->exists ? &answer->record : NULL);
	if (answer->exists && answer->record.ttl_s != 0)
		retention_s = retention_in(&answer->record);
	eo_answer_free(answer);
	return retention_s;
}

static int64
retention_in(const EoRecord *r)
{
	int64		from_ms = r->state == EO_STATE_IN_PROGRESS ? r->lease_ms : r->updated_ms;
	int64		retention_s = r->ttl_s - (from_ms + 999) / 1000;

	return Max(EO_MIN_RETENTION_S, Min(retention_s, EO_MAX_RETENTION_S));
}

/* The record that refused an owner's write shows why he is none. */
static void
raise_lost(const Key *k, const EoRecord *record)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_CLAIM_LOST),
			 errmsg("the claim on key \"%s\" on server \"%s\" was lost", k->key,
					k->store->server->name),
			 k->held != NULL ? errdetail("This transaction holds the key by another claim.") :
			 record == NULL ? errdetail("There is no record of the key any more.") :
			 errdetail("The key is %s, by another run or after this one was ended.",
					   eo_state_name(record->state)),
			 errhint("Undo what was done under this claim. A longer lease, or idem_extend() in time, keeps it.")));
}

static void
raise_settled(const Key *k, const char *how)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_NOT_OWNER),
			 errmsg("key \"%s\" on server \"%s\" is already settled by this transaction", k->key,
					k->store->server->name),
			 errdetail("It was %s.", how),
			 errhint("A key is settled once; roll back to a savepoint to undo that.")));
}
