/*-------------------------------------------------------------------------
 *
 * owner.c
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
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "commit/outbox.h"
#include "commit/session_tokens.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "compat.h"
#include "dynamodb/client.h"
#include "dynamodb/record.h"
#include "dynamodb/token.h"
#include "keys/key.h"
#include "keys/owner.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"

static EoTxClaim *held_by(const EoKey *k, const char *token);
static EoTxClaim *enter_earlier(EoKey *k, const char *token, const char *verb);
static void decide(EoKey *k, EoTxClaim *claim, const char *result);
static void complete_now(EoKey *k, const char *token, const char *result);
static void fail_now(EoKey *k, const char *token, const char *error, int64 retry_after_ms,
					 bool terminal);
static bool release_now(EoKey *k, const char *token);
static void fail_at_end(EoKey *k, EoTxClaim *claim, const char *error, int64 retry_after_ms,
						bool terminal);
static EoAnswer *write_as_owner(EoKey *k, EoVerb verb, const EoWrite *w, const char *doing);
static const char *choose_token(const EoKey *k, const char *given, const char *verb);
static int64 retention_of(const EoKey *k, const char *token, const char *verb, bool must_own);
static int64 retention_in(const EoRecord *r);
static bool is_completed_already(EoKey *k, const char *token, const char *result);
static bool same_text(const char *a, const char *b);
pg_noreturn static void raise_other_result(const EoKey *k);
pg_noreturn static void raise_lost(const EoKey *k, const EoRecord *record);
pg_noreturn static void raise_settled(const EoKey *k, bool completed);

/*
 * A write of the owner's.  If the record is in the middle of a commit that our
 * own earlier transaction announced and did not reach, it is ours again.
 */
static EoAnswer *
write_as_owner(EoKey *k, EoVerb verb, const EoWrite *w, const char *doing)
{
	EoSlotView	view;
	EoAnswer   *answer;
	const EoRecord *r;
	EoFate		fate;
	int64		retention_s;

	if (k->held == NULL && eo_slot_find(k->digest, &view) && eo_slot_state_is_over(view.info.state) &&
		strcmp(view.info.token, w->owner) == 0)
		eo_settle_on_the_spot(k->store, k->key, &view);
	answer = eo_store_write(k->store, k->pk, verb, w);
	r = eo_answer_record(answer);
	if (answer->outcome == EO_NOT_APPLIED && answer->exists &&
		r->state == EO_STATE_COMMITTING && strcmp(r->owner, w->owner) == 0)
	{
		fate = eo_settle_fate(r, k->pk, &retention_s);
		if (fate == EO_FATE_RUNNING)
			eo_error_raise_committing(k->key, k->store->server->name,
									  "Another transaction completes it under the same token.",
									  "Wait for its end.");
		if (fate == EO_FATE_ABORTED)
		{
			eo_settle_aborted(k->store, k->key, k->pk, r);
			eo_answer_free(answer);
			answer = eo_store_write(k->store, k->pk, verb, w);
		}
	}
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, doing, k->key, k->store->server->name);
	return answer;
}

/* ----- complete ----- */

void
eo_owner_complete(EoStore *store, const char *key, const char *token, const char *result,
				  bool immediate)
{
	EoKey		k;
	EoTxClaim  *claim;

	eo_key_find(&k, store, key);
	eo_key_check_size(&k, "result", result != NULL ? strlen(result) : 0,
					  "Store it elsewhere and complete the key with a reference to it.");
	claim = held_by(&k, token);
	if (claim != NULL && eo_xact_is_completed(claim))
	{
		/* The same call twice is one. */
		if (!immediate && same_text(claim->result, result))
			return;
		raise_settled(&k, true);
	}
	if (claim != NULL && eo_xact_is_given_up(claim))
		raise_settled(&k, false);
	if (immediate)
	{
		complete_now(&k, claim != NULL ? pstrdup(claim->info->token) : token, result);
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
is_completed_already(EoKey *k, const char *token, const char *result)
{
	EoSessionToken *memory = eo_session_tokens_find(k->store->server->serverid, k->pk);
	EoAnswer   *answer;
	const EoRecord *r;
	EoFate		fate;
	int64		retention_s;
	bool		completed;

	if (memory != NULL && strcmp(memory->held, token) == 0)
		return false;			/* it is held */
	answer = eo_settle_read(k->store, k->key, k->pk, "complete", &fate, &retention_s);
	if (fate == EO_FATE_ABORTED)
	{
		/* Announced by an earlier transaction of ours, which did not commit. */
		eo_settle_aborted(k->store, k->key, k->pk, eo_answer_record(answer));
		eo_answer_free(answer);
		answer = eo_settle_read(k->store, k->key, k->pk, "complete", &fate, &retention_s);
	}
	r = eo_answer_record(answer);
	if (!answer->exists || strcmp(r->owner, token) != 0)
		raise_lost(k, answer->exists ? r : NULL);
	completed = r->state == EO_STATE_COMPLETED || fate == EO_FATE_COMMITTED;
	if (completed && r->odd_result)
		eo_error_raise_odd("complete", k->key, k->store->server->name, "result");
	if (completed && !same_text(r->result, result))
		raise_other_result(k);
	if (!completed && r->state == EO_STATE_IN_PROGRESS)
		k->retention_s = retention_in(r);
	eo_answer_free(answer);
	return completed;
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void
raise_other_result(const EoKey *k)
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
decide(EoKey *k, EoTxClaim *claim, const char *result)
{
	EoOutboxRow row = {0};
	EoDatabaseInfo db;

	(void) eo_database_info(MyDatabaseId, &db);
	memcpy(row.origin, db.origin, sizeof(row.origin));
	row.target = k->target;
	row.pk = k->pk;
	strlcpy(row.token, claim->info->token, sizeof(row.token));
	row.retention_s = claim->info->retention_s;
	eo_outbox_add(&row, k->key, k->store->server->name, claim->info->once, claim->guard);
	eo_xact_completed(claim, result);
}

/*
 * A claim from before this transaction, or from another session, by its
 * token.  It gets a slot and a place in the transaction now.
 */
static EoTxClaim *
enter_earlier(EoKey *k, const char *token, const char *verb)
{
	EoSlotInfo	info;
	EoSlotView	view;
	EoTxClaim  *claim;

	token = choose_token(k, token, verb);
	/* An earlier try to complete it may have ended without a word. */
	if (eo_slot_find(k->digest, &view) && eo_slot_state_is_over(view.info.state))
		eo_settle_on_the_spot(k->store, k->key, &view);
	eo_slot_info_init(&info, EO_SLOT_HELD, k->digest, token);
	info.retention_s = retention_of(k, token, verb, true);
	info.lease_ms = k->store->server->lease_ms;
	claim = eo_xact_add(k->store, k->key, k->pk, &k->target, &info);
	claim->unsettled = EO_UNSETTLED_STAYS;
	claim->earlier = true;
	return claim;
}

void
eo_owner_once(EoStore *store, const char *key, const char *result, int64 retention_s,
			  const EoGuard *guard)
{
	EoKey		k;
	EoSlotInfo	info;
	char		token[EO_TOKEN_LEN + 1];
	EoTxClaim  *claim;

	eo_key_find(&k, store, key);
	eo_key_check_size(&k, "result", result != NULL ? strlen(result) : 0,
					  "Store it elsewhere and complete the key with a reference to it.");
	if (k.held != NULL)
		eo_error_raise_duplicate(guard, key, store->server->name,
								 "This transaction holds or has completed it already.");
	eo_store_new_token(token);
	eo_slot_info_init(&info, EO_SLOT_PLANNED, k.digest, token);
	info.once = true;
	info.release_on_abort = true;
	info.retention_s = retention_s >= 0 ? retention_s : store->server->retention_s;
	claim = eo_xact_add(store, key, k.pk, &k.target, &info);
	claim->guard = guard;
	decide(&k, claim, result);
}

static void
complete_now(EoKey *k, const char *token, const char *result)
{
	EoWrite		w = {0};
	EoAnswer   *answer;

	w.result = result;
	w.result_len = result != NULL ? strlen(result) : 0;
	w.owner = choose_token(k, token, "complete");
	w.now_ms = eo_client_now_ms(&k->store->client);
	w.ttl_s = eo_record_ttl_after(w.now_ms, retention_of(k, w.owner, "complete", false));
	answer = write_as_owner(k, EO_COMPLETE, &w, "complete");
	eo_session_tokens_forget_claim(k->store->server->serverid, k->pk, w.owner);
	if (answer->outcome != EO_APPLIED)
		raise_lost(k, answer->exists ? eo_answer_record(answer) : NULL);
	if (answer->replayed && (eo_answer_record(answer)->odd_result ||
							 !same_text(eo_answer_record(answer)->result, result)))
		raise_other_result(k);
	if (k->held != NULL)
		eo_xact_drop(k->held);
	eo_answer_free(answer);
}

/* ----- fail and release ----- */

void
eo_owner_fail(EoStore *store, const char *key, const char *token, const char *error,
			  int64 retry_after_ms, bool terminal, bool immediate)
{
	EoKey		k;
	EoTxClaim  *claim;

	eo_key_find(&k, store, key);
	eo_key_check_size(&k, "error", error != NULL ? strlen(error) : 0,
					  "Keep what helps to find the cause, such as SQLSTATE and message.");
	claim = held_by(&k, token);
	if (claim != NULL && eo_xact_is_completed(claim))
		raise_settled(&k, true);
	if (immediate || (claim == NULL && !eo_xact_in_block()))
	{
		fail_now(&k, claim != NULL ? pstrdup(claim->info->token) : token, error, retry_after_ms, terminal);
		return;
	}
	if (claim == NULL)
		claim = enter_earlier(&k, token, "fail");
	fail_at_end(&k, claim, error, retry_after_ms, terminal);
}

/* The worker writes it when the transaction has ended, in whatever way. */
static void
fail_at_end(EoKey *k, EoTxClaim *claim, const char *error, int64 retry_after_ms, bool terminal)
{
	size_t		len = error != NULL ? strlen(error) : 0;

	if (eo_slot_failed(claim->slot, terminal, retry_after_ms, error, len) == EO_SLOT_OK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("no room for the error of key \"%s\" on server \"%s\"", k->key,
					k->store->server->name),
			 errdetail("It waits for the end of the transaction in shared memory, of which too little is left."),
			 errhint("Give a shorter error, or immediate => true; or raise exactonce.max_claims.")));
}

static void
fail_now(EoKey *k, const char *token, const char *error, int64 retry_after_ms, bool terminal)
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
	w.ttl_s = eo_record_ttl_after(w.now_ms + (terminal ? 0 : retry_after_ms),
								  retention_of(k, w.owner, "fail", false));
	answer = write_as_owner(k, EO_FAIL, &w, "fail");
	eo_session_tokens_forget_claim(k->store->server->serverid, k->pk, w.owner);
	if (answer->outcome != EO_APPLIED)
		raise_lost(k, answer->exists ? eo_answer_record(answer) : NULL);
	if (k->held != NULL)
		eo_xact_drop(k->held);
	eo_answer_free(answer);
}

bool
eo_owner_release(EoStore *store, const char *key, const char *token)
{
	EoKey		k;
	EoTxClaim  *claim;
	EoSessionToken *memory;

	eo_key_find(&k, store, key);
	claim = k.held;
	if (claim != NULL && (token == NULL || strcmp(token, claim->info->token) == 0))
	{
		if (eo_xact_is_completed(claim))
			raise_settled(&k, true);
		if (claim->info->state == EO_SLOT_FAILED)
			return false;
		eo_slot_released(claim->slot);
		return true;
	}
	memory = eo_session_tokens_find(store->server->serverid, k.pk);
	if (token == NULL && memory == NULL)
		return false;
	if (token == NULL)
		token = pstrdup(memory->held);
	if (claim != NULL || !eo_xact_in_block())
		return release_now(&k, token);
	eo_slot_released(enter_earlier(&k, token, "release")->slot);
	return true;
}

static bool
release_now(EoKey *k, const char *token)
{
	EoSessionToken *memory = eo_session_tokens_find(k->store->server->serverid, k->pk);
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		released;

	w.owner = token;
	w.now_ms = eo_client_now_ms(&k->store->client);
	w.ttl_s = eo_record_ttl_after(w.now_ms, memory != NULL && memory->retention_s > 0 ?
								  memory->retention_s : k->store->server->retention_s);
	answer = write_as_owner(k, EO_RELEASE, &w, "release");

	/* Released before, by this very claim: what was asked for is the case. */
	released = answer->outcome == EO_APPLIED &&
		(!answer->replayed || (eo_answer_record(answer)->has_retry &&
							   eo_answer_record(answer)->error == NULL));
	eo_session_tokens_forget_claim(k->store->server->serverid, k->pk, token);
	eo_answer_free(answer);
	return released;
}

/* ----- extend ----- */

int64
eo_owner_extend(EoStore *store, const char *key, const char *token, int64 lease_ms)
{
	EoKey		k;
	EoTxClaim  *claim;
	EoWrite		w = {0};
	EoAnswer   *answer;
	int64		until_ms;

	eo_key_find(&k, store, key);
	claim = held_by(&k, token);
	if (lease_ms < 0)
		lease_ms = store->server->lease_ms;
	w.owner = claim != NULL ? claim->info->token : choose_token(&k, token, "extend");
	w.now_ms = eo_client_now_ms(&store->client);
	w.lease_ms = w.now_ms + lease_ms;
	w.ttl_s = eo_record_ttl_after(w.lease_ms, claim != NULL ? claim->info->retention_s :
								  retention_of(&k, w.owner, "extend", false));
	answer = write_as_owner(&k, EO_EXTEND, &w, "extend");
	if (answer->outcome != EO_APPLIED)
	{
		eo_session_tokens_forget_claim(store->server->serverid, k.pk, w.owner);
		raise_lost(&k, answer->exists ? eo_answer_record(answer) : NULL);
	}
	until_ms = eo_answer_record(answer)->lease_ms;
	if (claim != NULL)
		eo_slot_extended(claim->slot, until_ms, lease_ms, eo_answer_record(answer)->ttl_s);
	eo_answer_free(answer);
	return until_ms;
}

/* ----- helpers ----- */

/* This transaction's claim, if that is what the token means; NULL: it is not. */
static EoTxClaim *
held_by(const EoKey *k, const char *token)
{
	EoTxClaim  *held = k->held;

	if (held == NULL || token == NULL || strcmp(token, held->info->token) == 0)
		return held;
	/* We own the key, so whoever has another token does not. */
	raise_lost(k, NULL);
}

static const char *
choose_token(const EoKey *k, const char *given, const char *verb)
{
	EoSessionToken *memory;

	if (given != NULL)
		return given;
	memory = eo_session_tokens_find(k->store->server->serverid, k->pk);
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
retention_of(const EoKey *k, const char *token, const char *verb, bool must_own)
{
	EoSessionToken *memory = eo_session_tokens_find(k->store->server->serverid, k->pk);
	EoAnswer   *answer;
	int64		retention_s = k->store->server->retention_s;

	if (k->held != NULL && strcmp(k->held->info->token, token) == 0)
		return k->held->info->retention_s;
	if (memory != NULL && strcmp(memory->held, token) == 0 && memory->retention_s > 0)
		return memory->retention_s;
	if (k->retention_s > 0)
		return k->retention_s;
	answer = eo_store_read(k->store, k->pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, verb, k->key, k->store->server->name);
	if (must_own && (!answer->exists || strcmp(eo_answer_record(answer)->owner, token) != 0 ||
					 eo_answer_record(answer)->state != EO_STATE_IN_PROGRESS))
		raise_lost(k, answer->exists ? eo_answer_record(answer) : NULL);
	if (answer->exists && eo_answer_record(answer)->ttl_s != 0)
		retention_s = retention_in(eo_answer_record(answer));
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
raise_lost(const EoKey *k, const EoRecord *record)
{
	eo_error_raise_lost(k->key, k->store->server->name, false,
						k->held != NULL ? "This transaction holds the key by another claim." :
						eo_error_lost_detail(record),
						"Undo what was done under this claim. A longer lease, or idem_extend() in time, keeps it.");
}

static void
raise_settled(const EoKey *k, bool completed)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_NOT_OWNER),
			 errmsg("key \"%s\" on server \"%s\" is already settled by this transaction", k->key,
					k->store->server->name),
			 completed ? errdetail("It was completed.") : errdetail("It was failed or released."),
			 completed ? errhint("A key is settled once; roll back to a savepoint to undo that.") :
			 errhint("A key is settled once; a failure or a release stays, whatever becomes of the transaction.")));
}
