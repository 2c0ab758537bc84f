/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  What the owner of a key does with it: complete, fail, release, extend.
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
 * To complete a key in a transaction makes no request.  It inserts the row that is
 * the decision, and the seal does the rest (seal.c): a token that does not own the
 * key is refused at COMMIT.  To fail or release a key
 * changes the state of the claim's slot only.  The worker writes the record when the
 * transaction is over, whether it committed or not: as long as it can commit, no
 * other run may begin.
 *
 * The record is written at once if the caller says "immediate".  A failure or a
 * release is also written at once if the claim is not this transaction's and no
 * transaction block is open.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "commit/completion.h"
#include "commit/lost.h"
#include "commit/prepared.h"
#include "commit/session.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "compat.h"
#include "keys/key.h"
#include "keys/owner.h"
#include "keys/writes.h"
#include "ledger/outbox.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/text.h"
#include "wire/client.h"

/* Each later write of the record pays for it. */
#define MAX_PROGRESS_BYTES 32768

pg_noreturn static void raise_lost(const EoKey *k, const EoRecord *record);
pg_noreturn static void raise_settled(const EoKey *k, bool completed);

static void check_not_repeated(EoKey *k, const char *token, const char *result);
static void decide(EoKey *k, EoTxClaim *claim, const char *result, const EoWrites *writes);
static EoTxClaim *enter_earlier(EoKey *k, const char *token, const char *verb);
static void complete_now(EoKey *k, const char *token, const char *result);
static void check_ended(const EoKey *k, const EoAnswer *answer);
static EoAnswer *end_now(EoKey *k, EoVerb verb, EoWrite *w, const char *doing,
						 int64 retry_after_ms);
static void fail_at_end(EoKey *k, EoTxClaim *claim, const char *error, int64 retry_after_ms,
						bool terminal);
static void fail_now(EoKey *k, const char *token, const char *error, int64 retry_after_ms,
					 bool terminal);
static bool release_now(EoKey *k, const char *token);
static void prepare_note(const EoKey *k, const EoTxClaim *claim, const char *progress, EoWrite *w);
static EoAnswer *take_note(const EoKey *k, EoTxClaim *claim, const EoWrite *w, EoAnswer *answer,
						   int64 *later_ms);
static EoTxClaim *held_by(const EoKey *k, const char *token, const char *verb);
static const char *choose_token(const EoKey *k, const char *given, const char *verb);
static int64 retention_of(const EoKey *k, const char *token);
static void check_owned(const EoKey *k, const char *token, const char *verb);
static void forget_unless_sealed(const EoKey *k, const char *token, const EoAnswer *answer);
static const EoSessionToken *find_remembered(const EoKey *k, const char *token);

/*
 * Write a record as its owner, now.  If an earlier transaction with the same token
 * has sealed the record and was rolled back, that is settled first.  Returns NULL, if
 * may_move is true, when the service has refused the time of the write.
 */
static EoAnswer *
write_as_owner(EoKey *k, EoVerb verb, const EoWrite *w, const char *doing, bool may_move)
{
	EoAnswer   *answer;
	const EoRecord *r;
	EoFate		fate;

	if (k->held == NULL)
		eo_key_settle(k, w->owner);
	answer = eo_store_record_write(k->store, k->pk, verb, w);
	r = eo_store_record(answer);
	if (answer->outcome == EO_NOT_APPLIED && answer->exists &&
		r->state == EO_STATE_COMMITTING && strcmp(r->owner, w->owner) == 0)
	{
		fate = eo_settle_fate(k->store, r, NULL);
		if (fate == EO_FATE_RUNNING || fate == EO_FATE_OTHER_RUNNING)
			eo_error_raise_committing(k->key, k->store->server->name,
									  "Another transaction completes it under the same token.",
									  "Wait for its end.");
		if (fate == EO_FATE_ABORTED && eo_settle_aborted(k->store, k->key, k->pk, r))
		{
			eo_answer_free(answer);
			answer = eo_store_record_write(k->store, k->pk, verb, w);
		}
	}
	if (answer->call.clock_moved && may_move)
	{
		eo_answer_free(answer);
		return NULL;
	}
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, doing, k->key, k->store->server->name);
	return answer;
}

/* ----- complete ----- */

void
eo_owner_complete(EoStore *store, const char *key, const char *token, const char *result,
				  bool immediate, const EoWrites *writes)
{
	EoKey		k;
	EoTxClaim  *claim;

	eo_key_find(&k, store, key, token);
	eo_key_check_result(&k, result,
						"Store it elsewhere and complete the key with a reference to it.");
	claim = held_by(&k, token, "complete");
	if (claim != NULL && eo_xact_is_completed(claim))
	{
		/* The same call again does nothing. */
		if (!immediate && eo_text_is_same(claim->result, result) &&
			claim->writes_hash == eo_writes_hash(writes))
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
	if (claim == NULL && token != NULL)
		check_not_repeated(&k, token, result);
	if (claim == NULL)
		claim = enter_earlier(&k, token, "complete");
	decide(&k, claim, result, writes);
}

/*
 * A caller that has not got the answer to its COMMIT repeats the transaction, with the
 * token.  If the row of the first one is still there, raise an error here: the work is
 * done.  If it is gone, the seal finds the key completed (seal.c).  Also raises if the
 * claim is lost.
 */
static void
check_not_repeated(EoKey *k, const char *token, const char *result)
{
	EoAnswer   *answer;
	const EoRecord *r;
	EoFate		fate;
	bool		completed;

	if (!eo_outbox_read_claim(token, NULL))
		return;
	answer = eo_settle_read(k->store, k->key, k->pk, "complete", &fate, NULL);
	r = eo_store_record(answer);
	if (!answer->exists || strcmp(r->owner, token) != 0)
		raise_lost(k, answer->exists ? r : NULL);
	completed = r->state == EO_STATE_COMPLETED || fate == EO_FATE_COMMITTED;
	if (completed && r->odd_result)
		eo_error_raise_odd("complete", k->key, k->store->server->name, "result");
	if (completed)
		eo_error_raise_repeated(k->key, k->store->server->name,
								eo_text_is_same(r->result, result));
	eo_answer_free(answer);
}

/*
 * To insert a row for a key that a prepared transaction completes would wait for the end
 * of that, which may be days away.  This is told to sessions that cannot sign as the
 * holder does, too: their wait would tell it.
 */
static void
check_not_prepared(const EoKey *k, const EoTxClaim *claim)
{
	if (eo_prepared_completes(k->digest, claim->earlier ? claim->info->token : NULL))
		eo_error_raise_in_progress(k->key, k->store->server->name,
								   "A prepared transaction of this cluster holds it.",
								   "Retry the transaction after COMMIT PREPARED or ROLLBACK PREPARED; exactonce_claims names it.");
}

/* Take the locks of the writes, and decide. */
static void
decide(EoKey *k, EoTxClaim *claim, const char *result, const EoWrites *writes)
{
	EoOutboxWrites decided;

	check_not_prepared(k, claim);
	if (writes != NULL)
	{
		eo_writes_check_size(writes, result != NULL ? strlen(result) : 0);
		eo_writes_lock(writes);
		eo_writes_decide(writes, &decided);
	}
	claim->writes_hash = eo_writes_hash(writes);
	eo_completion_add(claim, &k->target, writes != NULL ? &decided : NULL, result);
}

/*
 * Enter in this transaction, with a slot, a claim that was made before it or in
 * another session, and is known by its token.
 */
static EoTxClaim *
enter_earlier(EoKey *k, const char *token, const char *verb)
{
	EoSlotInfo	info;
	EoSlotRef	session;
	EoTxClaim  *claim;

	token = choose_token(k, token, verb);
	/* The claim may have been sealed by a transaction that was rolled back. */
	eo_key_settle(k, NULL);
	eo_slot_info_init(&info, EO_SLOT_HELD, k->digest, token);
	info.retention_s = retention_of(k, token);
	info.lease_ms = k->store->server->lease_ms;
	claim = eo_xact_add(k->store, k->key, k->pk, &k->target, &info);
	claim->unsettled = EO_UNSETTLED_STAYS;
	claim->earlier = true;
	claim->of_session = eo_slot_view_find_session(k->digest, token, &session);
	return claim;
}

void
eo_owner_once(EoStore *store, const char *key, const char *result, int64 retention_s,
			  const EoGuard *guard, const EoWrites *writes)
{
	EoKey		k;
	EoSlotInfo	info;
	char		token[EO_TOKEN_LEN + 1];
	EoTxClaim  *claim;

	eo_key_find(&k, store, key, NULL);
	eo_key_check_result(&k, result,
						"Store it elsewhere and complete the key with a reference to it.");
	if (k.held != NULL)
		eo_error_raise_duplicate(guard, key, store->server->name,
								 "This transaction holds or has completed it already.", NULL);
	eo_store_new_token(token);
	eo_slot_info_init(&info, EO_SLOT_PLANNED, k.digest, token);
	info.once = true;
	info.release_on_abort = true;
	info.retention_s = retention_s >= 0 ? retention_s : store->server->retention_s;
	claim = eo_xact_add(store, key, k.pk, &k.target, &info);
	claim->guard = guard;
	decide(&k, claim, result, writes);
}

static void
complete_now(EoKey *k, const char *token, const char *result)
{
	EoWrite		w = {.result = result,.result_len = result != NULL ? strlen(result) : 0};
	EoAnswer   *answer;

	w.owner = choose_token(k, token, "complete");
	answer = end_now(k, EO_COMPLETE, &w, "complete", 0);
	check_ended(k, answer);
	if (answer->replayed && (eo_store_record(answer)->odd_result ||
							 !eo_text_is_same(eo_store_record(answer)->result, result)))
		eo_error_raise_other_result(k->key, k->store->server->name);
	if (k->held != NULL)
		eo_xact_drop(k->held);
	eo_answer_free(answer);
}

/* Raise unless the write has ended the claim. */
static void
check_ended(const EoKey *k, const EoAnswer *answer)
{
	if (answer->outcome != EO_APPLIED)
		raise_lost(k, answer->exists ? eo_store_record(answer) : NULL);
}

/* End the claim now.  The record must not be swept before the key may be retried. */
static EoAnswer *
end_now(EoKey *k, EoVerb verb, EoWrite *w, const char *doing, int64 retry_after_ms)
{
	EoAnswer   *answer;

	eo_key_need_clock(k, doing);
	w->now_ms = eo_client_now_ms(&k->store->client);
	w->retry_ms = retry_after_ms > 0 ? w->now_ms + retry_after_ms : 0;
	eo_record_keep(w, w->now_ms + retry_after_ms, retention_of(k, w->owner));
	answer = write_as_owner(k, verb, w, doing, false);
	forget_unless_sealed(k, w->owner, answer);
	return answer;
}

/* ----- fail and release ----- */

void
eo_owner_fail(EoStore *store, const char *key, const char *token, const char *error,
			  int64 retry_after_ms, bool terminal, bool immediate)
{
	EoKey		k;
	EoTxClaim  *claim;

	eo_key_find(&k, store, key, token);
	eo_key_check_size(&k, "error", error != NULL ? strlen(error) : 0,
					  "Keep what helps to find the cause, such as SQLSTATE and message.");
	claim = held_by(&k, token, "fail");
	if (claim != NULL && eo_xact_is_completed(claim))
		raise_settled(&k, true);
	if (immediate || (claim == NULL && !eo_xact_in_block()))
	{
		fail_now(&k, claim != NULL ? pstrdup(claim->info->token) : token, error,
				 retry_after_ms, terminal);
		return;
	}
	if (claim == NULL)
	{
		token = choose_token(&k, token, "fail");
		check_owned(&k, token, "fail");
		claim = enter_earlier(&k, token, "fail");
	}
	fail_at_end(&k, claim, error, retry_after_ms, terminal);
}

/* Note the failure in the slot; the worker writes it when the transaction is over. */
static void
fail_at_end(EoKey *k, EoTxClaim *claim, const char *error, int64 retry_after_ms, bool terminal)
{
	size_t		len = error != NULL ? strlen(error) : 0;

	if (eo_slot_failed(claim->slot, terminal, retry_after_ms, error, len) == EO_SLOT_OK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("no room for the error of key \"%s\" on server \"%s\"", eo_text_key_shown(k->key),
					k->store->server->name),
			 errdetail("It waits for the end of the transaction in shared memory, of which too little is left."),
			 errhint("Give a shorter error, or immediate => true; or raise exactonce.max_claims.")));
}

static void
fail_now(EoKey *k, const char *token, const char *error, int64 retry_after_ms, bool terminal)
{
	EoWrite		w = {
		.error = error,
		.error_len = error != NULL ? strlen(error) : 0,
		.terminal = terminal
	};
	EoAnswer   *answer;

	w.owner = choose_token(k, token, "fail");
	answer = end_now(k, EO_FAIL, &w, "fail", retry_after_ms);
	check_ended(k, answer);
	if (k->held != NULL)
		eo_xact_drop(k->held);
	eo_answer_free(answer);
}

bool
eo_owner_release(EoStore *store, const char *key, const char *token, bool spared)
{
	EoKey		k;
	EoTxClaim  *claim;
	EoSessionToken *remembered;

	eo_key_find(&k, store, key, token);
	claim = k.held;
	if (claim != NULL && (token == NULL ? eo_key_owns(&k, claim) :
						  strcmp(token, claim->info->token) == 0))
	{
		if (eo_xact_is_completed(claim))
			raise_settled(&k, true);
		if (claim->info->state == EO_SLOT_FAILED)
			return false;
		eo_slot_released(claim->slot, spared);
		return true;
	}
	remembered = eo_session_tokens_find(store->server, k.pk);
	if (token == NULL && remembered == NULL)
		return false;
	if (token == NULL)
		token = pstrdup(remembered->token);
	if (claim != NULL || !eo_xact_in_block())
		return release_now(&k, token);
	check_owned(&k, token, "release");
	eo_slot_released(enter_earlier(&k, token, "release")->slot, spared);
	return true;
}

static bool
release_now(EoKey *k, const char *token)
{
	EoWrite		w = {.owner = token};
	EoAnswer   *answer = end_now(k, EO_RELEASE, &w, "release", 0);
	bool		released;

	/*
	 * If this claim has released the key before, the answer is replayed, and
	 * that counts.  If it has failed the key, that does not count: then there
	 * is an error, or no retry.
	 */
	released = answer->outcome == EO_APPLIED &&
		(!answer->replayed || (eo_store_record(answer)->has_retry &&
							   eo_store_record(answer)->error == NULL));
	eo_answer_free(answer);
	return released;
}

/* ----- extend ----- */

int64
eo_owner_extend(EoStore *store, const char *key, const char *token, int64 lease_ms,
				const char *progress)
{
	EoKey		k;
	EoTxClaim  *claim;
	EoWrite		w = {0};
	EoAnswer   *answer = NULL;
	EoSlotRef	session;
	int64		retention_s;
	int64		later_ms = 0;
	int64		until_ms;

	eo_key_find(&k, store, key, token);
	claim = held_by(&k, token, "extend");
	if (lease_ms < 0)
		lease_ms = store->server->lease_ms;
	w.owner = claim != NULL ? claim->info->token : choose_token(&k, token, "extend");
	if (progress != NULL)
		prepare_note(&k, claim, progress, &w);
	retention_s = retention_of(&k, w.owner);
	for (int tries = 0; answer == NULL; tries++)
	{
		eo_key_need_clock(&k, "extend");
		w.now_ms = eo_client_now_ms(&store->client);
		w.lease_ms = Max(w.now_ms + lease_ms, later_ms);
		eo_record_keep(&w, w.lease_ms, retention_s);
		answer = write_as_owner(&k, progress != NULL ? EO_PROGRESS : EO_EXTEND, &w, "extend",
								tries == 0);
		if (answer != NULL && progress != NULL)
			answer = take_note(&k, claim, &w, answer, &later_ms);
	}
	if (answer->outcome != EO_APPLIED)
	{
		forget_unless_sealed(&k, w.owner, answer);
		raise_lost(&k, answer->exists ? eo_store_record(answer) : NULL);
	}
	until_ms = eo_store_record(answer)->lease_ms;
	if (claim != NULL)
		eo_slot_extended(claim->slot, until_ms, lease_ms, eo_store_record(answer)->ttl_s);
	if (eo_slot_view_find_session(k.digest, w.owner, &session))
		eo_slot_extended(session, until_ms, lease_ms, eo_store_record(answer)->ttl_s);
	eo_answer_free(answer);
	return until_ms;
}

/* Fill in a note, to follow the one that was seen last under this token. */
static void
prepare_note(const EoKey *k, const EoTxClaim *claim, const char *progress, EoWrite *w)
{
	const EoSessionToken *remembered = find_remembered(k, w->owner);

	w->progress = progress;
	w->progress_len = strlen(progress);
	if (w->progress_len > MAX_PROGRESS_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("progress of key \"%s\" on server \"%s\" is too large",
						eo_text_key_shown(k->key), k->store->server->name),
				 errdetail("As text it has %zu bytes; there may be %d.", w->progress_len,
						   MAX_PROGRESS_BYTES),
				 errhint("Keep what the next run needs to find what was done, such as ids.")));
	/* The result was given the room that there was. */
	if (claim != NULL && (eo_xact_is_completed(claim) || eo_xact_is_given_up(claim)))
		raise_settled(k, eo_xact_is_completed(claim));
	if (claim != NULL)
		w->progress_seen = claim->progress_no;
	else if (remembered != NULL)
		w->progress_seen = remembered->progress_no;
	else
	{
		/* Another session has made the claim, and told its caller. */
		EoAnswer   *answer = eo_key_read(k, "extend");

		w->progress_seen = answer->exists ? eo_store_record(answer)->progress_no : 0;
		eo_answer_free(answer);
	}
}

/*
 * Keep what the record of the claim has now, and raise if that is a note that was not seen.
 * Returns the answer; or NULL if nothing but a later lease has refused the note, which
 * is to be sent again with that.  (A refusal shows a lease, but not the note.)
 */
static EoAnswer *
take_note(const EoKey *k, EoTxClaim *claim, const EoWrite *w, EoAnswer *answer, int64 *later_ms)
{
	const EoRecord *r = eo_store_record(answer);

	if (!answer->exists || r->state != EO_STATE_IN_PROGRESS || strcmp(r->owner, w->owner) != 0)
		return answer;
	if (answer->outcome != EO_APPLIED && r->progress_no == w->progress_seen &&
		r->lease_ms > w->lease_ms)
	{
		*later_ms = r->lease_ms;
		eo_answer_free(answer);
		return NULL;
	}
	eo_key_see_progress(k, claim, w->owner, r);
	if (answer->outcome != EO_APPLIED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("key \"%s\" on server \"%s\" has progress that was not seen",
						eo_text_key_shown(k->key), k->store->server->name),
				 errdetail("Note %lld was written by another session with this token, or by a call whose outcome was not known.",
						   (long long) r->progress_no),
				 errhint("Read it with idem_get(), and note what it says, too.")));
	return answer;
}

/* ----- helpers ----- */

/*
 * The claim of this transaction, if there is one; NULL: there is none.  Its token, or
 * NULL if the current role has acquired it, shows that the caller owns it.  Raises ID002
 * for another token, and ID008 if another role has acquired it.
 */
static EoTxClaim *
held_by(const EoKey *k, const char *token, const char *verb)
{
	EoTxClaim  *held = k->held;

	if (held == NULL || (token != NULL && strcmp(token, held->info->token) == 0))
		return held;
	if (token == NULL)
	{
		if (eo_key_owns(k, held))
			return held;
		ereport(ERROR,
				(errcode(ERRCODE_EO_NOT_OWNER),
				 errmsg("cannot %s key \"%s\" on server \"%s\": another role owns it",
						verb, eo_text_key_shown(k->key), k->store->server->name),
				 errdetail("This transaction holds the key by a claim that another role has acquired."),
				 errhint("Settle it as the role that acquired it, or pass the token that idem_acquire() returned.")));
	}
	/* This transaction owns the key, so the run of another token does not. */
	raise_lost(k, NULL);
}

/* The token to write with: the given one, or that which the session remembers. */
static const char *
choose_token(const EoKey *k, const char *given, const char *verb)
{
	EoSessionToken *remembered;

	if (given != NULL)
		return given;
	remembered = eo_session_tokens_find(k->store->server, k->pk);
	if (remembered == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_EO_NOT_OWNER),
				 errmsg("cannot %s key \"%s\" on server \"%s\": this session does not own it",
						verb, eo_text_key_shown(k->key), k->store->server->name),
				 errhint("Acquire it first; or, from another session or behind a connection pooler, pass the token that idem_acquire() returned.")));
	return pstrdup(remembered->token);
}

/*
 * The retention that this claim was acquired with, if this session knows it; else the
 * server's.  A retention in the record takes precedence over it in every write.
 */
static int64
retention_of(const EoKey *k, const char *token)
{
	const EoSessionToken *remembered = find_remembered(k, token);

	if (k->held != NULL && strcmp(k->held->info->token, token) == 0)
		return k->held->info->retention_s;
	if (remembered != NULL && remembered->retention_s > 0)
		return remembered->retention_s;
	return k->store->server->retention_s;
}

/*
 * Raise ID002 if the record shows that the token does not hold the key any more.  A
 * claim that this session has made is not looked up.
 */
static void
check_owned(const EoKey *k, const char *token, const char *verb)
{
	EoAnswer   *answer;
	const EoRecord *r;

	if (find_remembered(k, token) != NULL)
		return;
	answer = eo_key_read(k, verb);
	r = eo_store_record(answer);
	if (!answer->exists || strcmp(r->owner, token) != 0 || r->state != EO_STATE_IN_PROGRESS)
		raise_lost(k, answer->exists ? r : NULL);
	eo_answer_free(answer);
}

/* The claim of that token is over. */
static void
forget_claim(const EoKey *k, const char *token)
{
	eo_session_tokens_forget(k->store->server, k->pk, token);
	(void) eo_slot_session_over(k->digest, token);
	eo_lost_forget(k->digest);
}

/*
 * The write of an owner has ended.  The claim is over, unless another transaction has sealed
 * the record under its token, and may roll that back.
 */
static void
forget_unless_sealed(const EoKey *k, const char *token, const EoAnswer *answer)
{
	const EoRecord *r = eo_store_record(answer);

	if (answer->outcome == EO_APPLIED || !answer->exists || r->state != EO_STATE_COMMITTING ||
		strcmp(r->owner, token) != 0)
		forget_claim(k, token);
}

/* The claim of that token as this session remembers it; NULL: it does not. */
static const EoSessionToken *
find_remembered(const EoKey *k, const char *token)
{
	EoSessionToken *remembered = eo_session_tokens_find(k->store->server, k->pk);

	return remembered != NULL && strcmp(remembered->token, token) == 0 ? remembered : NULL;
}

/* Raise ID002.  record is the one that refused the owner's write; NULL: none. */
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
			 errmsg("key \"%s\" on server \"%s\" is already settled by this transaction", eo_text_key_shown(k->key),
					k->store->server->name),
			 completed ? errdetail("It was completed.") : errdetail("It was failed or released."),
			 completed ? errhint("A key is settled once; roll back to a savepoint to undo that.") :
			 errhint("A key is settled once; a failure or a release stays, whatever becomes of the transaction.")));
}
