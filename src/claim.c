/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Idempotency keys: the state machine, and what an answer means.
 *
 *				 acquire				complete
 *	 (absent) -----------> IN_PROGRESS ----------> COMPLETED --(ttl)--> (absent)
 *				  ^			|	 |	^
 *		   acquire|	  fail, |	 |__| extend; acquire once the lease is dead
 *			if due|	release	v
 *				  +------ FAILED   (without retry_ms: for good)
 *
 * Every arrow is one conditional write, see layout.c.  What is decided here is
 * what to tell the caller, always from the record that came back with the
 * answer, never from a later read.
 *
 * Two clocks: a lease that has been dead for longer than clock_skew may be
 * taken over; a finished record counts as absent EXPIRY_MARGIN after its ttl.
 * The margin is wide because this is the one place where a clock decides that
 * work is done again.
 *
 * Tokens: asked for under "pending" in the session's memory before the request
 * leaves, moved to "held" when the answer says acquired.  If the answer never
 * comes the next call for the key asks again under the same token.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "claim.h"
#include "error.h"
#include "tokens.h"
#include "utils/timestamp.h"

#define EXPIRY_MARGIN_MS 300000

/* Races lost in a row before the caller is told to come back. */
#define MAX_RACES 5

/* Polling for a key to settle: first pause, growth, longest pause. */
#define POLL_FIRST_MS 40
#define POLL_MAX_MS 1000

/* What became of one attempt to acquire. */
typedef enum Attempt
{
	ATTEMPT_ANSWERED,			/* the claim is filled in */
	ATTEMPT_RACED,				/* the record changed under us: try again */
	ATTEMPT_NEW_TOKEN			/* this token is spent: try with another */
} Attempt;

static Attempt acquire_once(EoStore *store, const EoAcquire *ask, const char *pk,
							const char *token, EoClaim *claim);
static void acquire_settled(EoStore *store, const EoAcquire *ask, const char *pk,
							char *token, EoClaim *claim);
static void fill_write(EoStore *store, const EoAcquire *ask, const char *token, EoWrite *w);
static Attempt replace_expired(EoStore *store, const EoAcquire *ask, const char *pk,
							   EoWrite *w, EoAnswer *seen, EoClaim *claim);
static void take_acquired(EoStore *store, const EoAcquire *ask, const char *pk,
						  const EoAnswer *answer, EoClaim *claim);
static Attempt explain_refusal(EoStore *store, const EoAcquire *ask, const char *pk,
							   const char *token, const EoRecord *r, EoClaim *claim);
static Attempt explain_in_progress(EoStore *store, const EoAcquire *ask, const EoRecord *r,
								   EoClaim *claim);
static Attempt explain_failed(EoStore *store, const EoAcquire *ask, const char *token,
							  const EoRecord *r, EoClaim *claim);
static void forget_unless_ours(EoStore *store, const char *pk, const EoRecord *r);
static void forget_token(EoStore *store, const char *pk, const char *token);
static bool is_expired(EoStore *store, const EoRecord *r);
static int64 poll_pause_us(int polls);
static const char *choose_token(EoStore *store, const char *pk, const char *given,
								const char *key, const char *verb);
static int64 retention_of(EoStore *store, const char *pk, const char *token, const char *key,
						  const char *doing);
pg_noreturn static void raise_lost(const EoStore *store, const char *key, const EoAnswer *answer);
static char *copy_text(const char *s, size_t len);

static int64
ttl_after(int64 from_ms, int64 retention_s)
{
	return (from_ms + 999) / 1000 + retention_s;
}

/* ----- acquire ----- */

void
eo_claim_acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim)
{
	char	   *pk = eo_store_pk(store, ask->key);
	int64		give_up_us = eo_clock_monotonic_us() + ask->wait_ms * 1000;
	EoToken    *memory = eo_tokens_find(store->server->serverid, pk);
	char		token[EO_TOKEN_LEN + 1];

	/* One token for the whole call: a poll that comes late is still ours. */
	if (memory != NULL && memory->pending[0] != '\0')
		strlcpy(token, memory->pending, sizeof(token));
	else
		eo_token_make(token);
	for (int polls = 0;; polls++)
	{
		int64		now_us;
		int64		until_us;

		acquire_settled(store, ask, pk, token, claim);
		now_us = eo_clock_monotonic_us();
		if (claim->outcome != EO_CLAIM_IN_PROGRESS || claim->mine || now_us >= give_up_us)
			return;

		until_us = now_us + poll_pause_us(polls);
		if (claim->lease_until_ms != 0)
		{
			/* No use in asking long after the lease can be taken over. */
			int64		dead_ms = claim->lease_until_ms + store->server->clock_skew_ms + 1;
			int64		dead_us = now_us + (dead_ms - eo_client_now_ms(&store->client)) * 1000;

			if (dead_us > now_us && dead_us < until_us)
				until_us = dead_us;
		}
		eo_http_wait(Min(until_us, give_up_us), EO_WAIT_RAISE);
	}
}

/* Full jitter around a growing pause. */
static int64
poll_pause_us(int polls)
{
	int64		pause_ms = POLL_FIRST_MS;
	uint16		random = 0;

	for (int i = 0; i < polls && pause_ms < POLL_MAX_MS; i++)
		pause_ms = pause_ms * 3 / 2;
	(void) pg_strong_random(&random, sizeof(random));
	return Min(pause_ms, POLL_MAX_MS) * (500 + (int64) random % 500);
}

/*
 * Ask until there is an answer.  The token is remembered before it is sent,
 * and a spent one replaced.
 */
static void
acquire_settled(EoStore *store, const EoAcquire *ask, const char *pk, char *token,
				EoClaim *claim)
{
	Oid			serverid = store->server->serverid;

	for (int races = 0; races < MAX_RACES; races++)
	{
		strlcpy(eo_tokens_enter(serverid, pk)->pending, token, EO_TOKEN_LEN + 1);
		switch (acquire_once(store, ask, pk, token, claim))
		{
			case ATTEMPT_ANSWERED:
				return;
			case ATTEMPT_NEW_TOKEN:
				eo_token_make(token);
				break;
			case ATTEMPT_RACED:
				break;
		}
	}
	/* Everybody else won: somebody is at work on it. */
	memset(claim, 0, sizeof(*claim));
	claim->outcome = EO_CLAIM_IN_PROGRESS;
	eo_tokens_forget(serverid, pk);
}

static Attempt
acquire_once(EoStore *store, const EoAcquire *ask, const char *pk, const char *token,
			 EoClaim *claim)
{
	EoWrite		w;
	EoAnswer   *answer;
	Attempt		attempt = ATTEMPT_ANSWERED;

	memset(claim, 0, sizeof(*claim));
	fill_write(store, ask, token, &w);
	answer = eo_store_write(store, pk, EO_ACQUIRE, &w);
	switch (answer->outcome)
	{
		case EO_APPLIED:
			take_acquired(store, ask, pk, answer, claim);
			break;
		case EO_NOT_APPLIED:
			if (!answer->exists)
				attempt = ATTEMPT_RACED;
			else if (is_expired(store, &answer->record))
				attempt = replace_expired(store, ask, pk, &w, answer, claim);
			else
				attempt = explain_refusal(store, ask, pk, token, &answer->record, claim);
			break;
		case EO_READ:
		case EO_FAILED_CALL:

			/*
			 * The token stays pending if the write may have been applied, and
			 * is of no use to anybody if it was not.
			 */
			if (answer->error.status != EO_UNKNOWN)
				eo_tokens_enter(store->server->serverid, pk)->pending[0] = '\0';
			eo_raise(&answer->error, "acquire", ask->key, store->server->name);
	}
	eo_answer_free(answer);
	return attempt;
}

static void
fill_write(EoStore *store, const EoAcquire *ask, const char *token, EoWrite *w)
{
	int64		lease_ms = ask->lease_ms >= 0 ? ask->lease_ms : store->server->lease_ms;
	int64		retention_s = ask->retention_s >= 0 ? ask->retention_s : store->server->retention_s;

	memset(w, 0, sizeof(*w));
	w->owner = token;
	w->now_ms = eo_client_now_ms(&store->client);
	w->lease_ms = w->now_ms + lease_ms;
	w->skew_ms = store->server->clock_skew_ms;
	w->ttl_s = ttl_after(w->lease_ms, retention_s);
	w->max_runs = ask->max_runs;
	w->bind = "keep";
	w->payload_sha256 = ask->payload_sha256;
}

/*
 * A finished record past its time, not swept yet: replace exactly that.  The
 * only acquire that takes two requests.
 */
static Attempt
replace_expired(EoStore *store, const EoAcquire *ask, const char *pk, EoWrite *w,
				EoAnswer *seen, EoClaim *claim)
{
	EoAnswer   *answer;
	Attempt		attempt = ATTEMPT_ANSWERED;

	w->seen = &seen->record;
	answer = eo_store_write(store, pk, EO_REPLACE, w);
	if (answer->outcome == EO_APPLIED)
		take_acquired(store, ask, pk, answer, claim);
	else if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "acquire", ask->key, store->server->name);
	else
		attempt = ATTEMPT_RACED;
	eo_answer_free(answer);
	return attempt;
}

static void
take_acquired(EoStore *store, const EoAcquire *ask, const char *pk, const EoAnswer *answer,
			  EoClaim *claim)
{
	const EoRecord *r = &answer->record;
	EoToken    *memory;

	/* Found in place under a token asked for before: the payload may differ. */
	if (ask->payload_sha256 != NULL && r->payload_sha256 != NULL &&
		strcmp(ask->payload_sha256, r->payload_sha256) != 0)
		explain_refusal(store, ask, pk, r->owner, r, claim);

	memory = eo_tokens_enter(store->server->serverid, pk);
	strlcpy(memory->held, r->owner, sizeof(memory->held));
	memory->pending[0] = '\0';
	memory->retention_s = r->ttl_s - (r->lease_ms + 999) / 1000;

	claim->outcome = EO_CLAIM_ACQUIRED;
	strlcpy(claim->token, r->owner, sizeof(claim->token));
	claim->fence = r->fence;
	claim->runs = r->runs;
	claim->lease_until_ms = r->lease_ms;
	claim->expires_at_ms = r->ttl_s * 1000;
	claim->mine = true;
}

/*
 * Somebody else's record, or our own from before: say what it means.
 */
static Attempt
explain_refusal(EoStore *store, const EoAcquire *ask, const char *pk, const char *token,
				const EoRecord *r, EoClaim *claim)
{
	EoToken    *memory = eo_tokens_find(store->server->serverid, pk);

	claim->mine = memory != NULL && strcmp(memory->held, r->owner) == 0;
	forget_unless_ours(store, pk, r);
	if (ask->payload_sha256 != NULL && r->payload_sha256 != NULL &&
		strcmp(ask->payload_sha256, r->payload_sha256) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_EO_PAYLOAD_MISMATCH),
				 errmsg("key \"%s\" on server \"%s\" was used with another payload",
						ask->key, store->server->name),
				 errdetail("The key is %s.", eo_state_name(r->state)),
				 errhint("The same key must mean the same request: derive it from the payload with idem_key(...), or look for two callers that share it.")));

	claim->fence = r->fence;
	claim->runs = r->runs;
	claim->expires_at_ms = r->ttl_s * 1000;
	claim->replayed = true;
	switch (r->state)
	{
		case EO_STATE_COMPLETED:
			claim->outcome = EO_CLAIM_COMPLETED;
			claim->result = copy_text(r->result, r->result_len);
			return ATTEMPT_ANSWERED;
		case EO_STATE_COMMITTING:
			claim->outcome = EO_CLAIM_IN_PROGRESS;
			claim->replayed = false;
			return ATTEMPT_ANSWERED;
		case EO_STATE_IN_PROGRESS:
			claim->replayed = false;
			return explain_in_progress(store, ask, r, claim);
		case EO_STATE_FAILED:
			break;
	}
	return explain_failed(store, ask, token, r, claim);
}

static Attempt
explain_in_progress(EoStore *store, const EoAcquire *ask, const EoRecord *r, EoClaim *claim)
{
	int64		dead_ms = eo_client_now_ms(&store->client) - store->server->clock_skew_ms;

	claim->outcome = EO_CLAIM_IN_PROGRESS;
	claim->lease_until_ms = r->lease_ms;
	if (r->lease_ms >= dead_ms)
		return ATTEMPT_ANSWERED;
	if (ask->max_runs == 0 || r->runs < ask->max_runs)
		return ATTEMPT_RACED;	/* it died between the write and now */

	/* The last run it was allowed died without a word. */
	claim->outcome = EO_CLAIM_FAILED;
	claim->mine = false;
	claim->replayed = true;
	claim->error = psprintf("{\"message\": \"run %lld of %lld ended without a result\"}",
							(long long) r->runs, (long long) ask->max_runs);
	return ATTEMPT_ANSWERED;
}

static Attempt
explain_failed(EoStore *store, const EoAcquire *ask, const char *token, const EoRecord *r,
			   EoClaim *claim)
{
	bool		out_of_runs = ask->max_runs > 0 && r->runs >= ask->max_runs;

	claim->mine = false;
	if (r->has_retry && !out_of_runs)
	{
		if (r->retry_ms <= eo_client_now_ms(&store->client))
			return strcmp(r->owner, token) == 0 ? ATTEMPT_NEW_TOKEN : ATTEMPT_RACED;
		claim->outcome = EO_CLAIM_RETRY_LATER;
		claim->retry_at_ms = r->retry_ms;
	}
	else
		claim->outcome = EO_CLAIM_FAILED;
	claim->error = copy_text(r->error, r->error_len);
	return ATTEMPT_ANSWERED;
}

/*
 * A definite refusal means that the pending token owns nothing; and what is
 * held is worth keeping only as long as the record says so.
 */
static void
forget_unless_ours(EoStore *store, const char *pk, const EoRecord *r)
{
	EoToken    *memory = eo_tokens_find(store->server->serverid, pk);

	if (memory == NULL)
		return;
	if (strcmp(memory->held, r->owner) == 0 && r->state == EO_STATE_IN_PROGRESS)
		memory->pending[0] = '\0';
	else
		eo_tokens_forget(store->server->serverid, pk);
}

static bool
is_expired(EoStore *store, const EoRecord *r)
{
	if (r->state != EO_STATE_COMPLETED && r->state != EO_STATE_FAILED)
		return false;
	return r->ttl_s != 0 &&
		r->ttl_s * 1000 + EXPIRY_MARGIN_MS < eo_client_now_ms(&store->client);
}

/* ----- what an owner does ----- */

void
eo_claim_complete(EoStore *store, const char *key, const char *token, const char *result)
{
	char	   *pk = eo_store_pk(store, key);
	size_t		max = eo_layout_max_value(store->layout, strlen(pk));
	EoWrite		w = {0};
	EoAnswer   *answer;
	int64		retention_s;

	w.result = result;
	w.result_len = result != NULL ? strlen(result) : 0;
	if (w.result_len > max)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("result of key \"%s\" on server \"%s\" is too large", key, store->server->name),
				 errdetail("As text it has %zu bytes; with this key there is room for %zu.",
						   w.result_len, max),
				 errhint("Store it elsewhere and complete the key with a reference to it.")));
	w.owner = choose_token(store, pk, token, key, "complete");
	retention_s = retention_of(store, pk, w.owner, key, "complete");
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = ttl_after(w.now_ms, retention_s);

	answer = eo_store_write(store, pk, EO_COMPLETE, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "complete", key, store->server->name);
	if (answer->outcome != EO_APPLIED)
	{
		forget_token(store, pk, w.owner);
		raise_lost(store, key, answer);
	}
	if (answer->replayed &&
		(answer->record.result_len != w.result_len ||
		 (w.result_len > 0 && memcmp(answer->record.result, result, w.result_len) != 0)))
		ereport(ERROR,
				(errcode(ERRCODE_EO_NOT_OWNER),
				 errmsg("key \"%s\" on server \"%s\" is already completed", key, store->server->name),
				 errdetail("This claim completed it before, with another result."),
				 errhint("The first result stays; idem_get() shows it.")));
	forget_token(store, pk, w.owner);
	eo_answer_free(answer);
}

void
eo_claim_fail(EoStore *store, const char *key, const char *token, const char *error,
			  int64 retry_after_ms, bool terminal)
{
	char	   *pk = eo_store_pk(store, key);
	size_t		max = eo_layout_max_value(store->layout, strlen(pk));
	EoWrite		w = {0};
	EoAnswer   *answer;
	int64		retention_s;

	w.error = error;
	w.error_len = error != NULL ? strlen(error) : 0;
	if (w.error_len > max)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("error of key \"%s\" on server \"%s\" is too large", key, store->server->name),
				 errdetail("As text it has %zu bytes; with this key there is room for %zu.",
						   w.error_len, max),
				 errhint("Keep what helps to find the cause, such as SQLSTATE and message.")));
	w.owner = choose_token(store, pk, token, key, "fail");
	retention_s = retention_of(store, pk, w.owner, key, "fail");
	w.now_ms = eo_client_now_ms(&store->client);
	w.terminal = terminal;
	w.retry_ms = w.now_ms + retry_after_ms;

	/* Until it may be retried it must not be swept. */
	w.ttl_s = ttl_after(terminal ? w.now_ms : w.retry_ms, retention_s);
	answer = eo_store_write(store, pk, EO_FAIL, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "fail", key, store->server->name);
	forget_token(store, pk, w.owner);
	if (answer->outcome != EO_APPLIED)
		raise_lost(store, key, answer);
	eo_answer_free(answer);
}

bool
eo_claim_release(EoStore *store, const char *key, const char *token)
{
	char	   *pk = eo_store_pk(store, key);
	EoToken    *memory = eo_tokens_find(store->server->serverid, pk);
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		released;

	if (token == NULL && (memory == NULL || memory->held[0] == '\0'))
		return false;
	w.owner = token != NULL ? token : pstrdup(memory->held);
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = ttl_after(w.now_ms, memory != NULL && memory->retention_s > 0 ?
						memory->retention_s : store->server->retention_s);
	answer = eo_store_write(store, pk, EO_RELEASE, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "release", key, store->server->name);

	/* Released before, by this very claim: what was asked for is the case. */
	released = answer->outcome == EO_APPLIED &&
		(!answer->replayed || (answer->record.has_retry && answer->record.error == NULL));
	forget_token(store, pk, w.owner);
	eo_answer_free(answer);
	return released;
}

int64
eo_claim_extend(EoStore *store, const char *key, const char *token, int64 lease_ms)
{
	char	   *pk = eo_store_pk(store, key);
	EoWrite		w = {0};
	EoAnswer   *answer;
	int64		retention_s;
	int64		until_ms;

	w.owner = choose_token(store, pk, token, key, "extend");
	retention_s = retention_of(store, pk, w.owner, key, "extend");
	w.now_ms = eo_client_now_ms(&store->client);
	w.lease_ms = w.now_ms + (lease_ms >= 0 ? lease_ms : store->server->lease_ms);
	w.ttl_s = ttl_after(w.lease_ms, retention_s);
	answer = eo_store_write(store, pk, EO_EXTEND, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "extend", key, store->server->name);
	if (answer->outcome != EO_APPLIED)
	{
		forget_token(store, pk, w.owner);
		raise_lost(store, key, answer);
	}
	until_ms = answer->record.lease_ms;
	eo_answer_free(answer);
	return until_ms;
}

/* ----- what others do ----- */

bool
eo_claim_get(EoStore *store, const char *key, EoAnswer **answer)
{
	char	   *pk = eo_store_pk(store, key);

	*answer = eo_store_read(store, pk);
	if ((*answer)->outcome == EO_FAILED_CALL)
		eo_raise(&(*answer)->error, "read", key, store->server->name);
	return (*answer)->exists && !is_expired(store, &(*answer)->record);
}

bool
eo_claim_forget(EoStore *store, const char *key)
{
	char	   *pk = eo_store_pk(store, key);
	char		token[EO_TOKEN_LEN + 1];
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		forgotten;

	eo_token_make(token);
	w.owner = token;
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = ttl_after(w.now_ms, store->server->retention_s);
	answer = eo_store_write(store, pk, EO_FORGET, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, "forget", key, store->server->name);
	forgotten = answer->outcome == EO_APPLIED;
	if (!forgotten && answer->exists)
		ereport(ERROR,
				(errcode(ERRCODE_EO_IN_PROGRESS),
				 errmsg("key \"%s\" on server \"%s\" is being committed", key, store->server->name),
				 errhint("A transaction that completes it has announced its commit. Wait until that is settled.")));
	eo_tokens_forget(store->server->serverid, pk);
	eo_answer_free(answer);
	return forgotten;
}

void
eo_claim_raise(const EoStore *store, const char *key, const EoClaim *claim)
{
	const char *server = store->server->name;

	switch (claim->outcome)
	{
		case EO_CLAIM_IN_PROGRESS:
			ereport(ERROR,
					(errcode(ERRCODE_EO_IN_PROGRESS),
					 errmsg("key \"%s\" on server \"%s\" is in progress", key, server),
					 claim->lease_until_ms != 0 ?
					 errdetail("Its lease ends at %s.",
							   timestamptz_to_str(time_t_to_timestamptz((pg_time_t) (claim->lease_until_ms / 1000)))) : 0,
					 errhint("Come back later, or give idem_acquire a wait => interval.")));
			break;
		case EO_CLAIM_RETRY_LATER:
			ereport(ERROR,
					(errcode(ERRCODE_EO_FAILED),
					 errmsg("key \"%s\" on server \"%s\" failed and may not be retried yet", key, server),
					 errdetail("It may be retried at %s, after %lld runs.",
							   timestamptz_to_str(time_t_to_timestamptz((pg_time_t) (claim->retry_at_ms / 1000))),
							   (long long) claim->runs),
					 errhint("Come back then. idem_get() shows what went wrong.")));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_EO_FAILED),
					 errmsg("key \"%s\" on server \"%s\" failed for good", key, server),
					 errdetail("It ran %lld times.", (long long) claim->runs),
					 errhint("idem_get() shows what went wrong; an operator can redrive it with idem_forget().")));
	}
}

/* ----- helpers ----- */

static const char *
choose_token(EoStore *store, const char *pk, const char *given, const char *key,
			 const char *verb)
{
	EoToken    *memory;

	if (given != NULL)
		return given;
	memory = eo_tokens_find(store->server->serverid, pk);
	if (memory == NULL || memory->held[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_EO_NOT_OWNER),
				 errmsg("cannot %s key \"%s\" on server \"%s\": this session does not own it",
						verb, key, store->server->name),
				 errhint("Acquire it first; or, from another session or behind a connection pooler, pass the token that idem_acquire() returned.")));
	return pstrdup(memory->held);
}

/*
 * The retention this claim was acquired with.  A session that acquired it
 * remembers; for a token from elsewhere it is read off the record, where ttl
 * is the lease's end plus retention.
 */
static int64
retention_of(EoStore *store, const char *pk, const char *token, const char *key,
			 const char *doing)
{
	EoToken    *memory = eo_tokens_find(store->server->serverid, pk);
	EoAnswer   *answer;
	int64		retention_s = store->server->retention_s;

	if (memory != NULL && strcmp(memory->held, token) == 0 && memory->retention_s > 0)
		return memory->retention_s;
	answer = eo_store_read(store, pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_raise(&answer->error, doing, key, store->server->name);
	if (answer->exists && answer->record.ttl_s != 0)
	{
		const EoRecord *r = &answer->record;
		int64		from_ms = r->state == EO_STATE_IN_PROGRESS ? r->lease_ms : r->updated_ms;

		retention_s = r->ttl_s - (from_ms + 999) / 1000;
		retention_s = Max(EO_MIN_RETENTION_S, Min(retention_s, EO_MAX_RETENTION_S));
	}
	eo_answer_free(answer);
	return retention_s;
}

/*
 * The claim of this token is over.  A call may well be about another claim on
 * the key than the one this session holds.
 */
static void
forget_token(EoStore *store, const char *pk, const char *token)
{
	EoToken    *memory = eo_tokens_find(store->server->serverid, pk);

	if (memory != NULL && strcmp(memory->held, token) == 0)
		eo_tokens_forget(store->server->serverid, pk);
}

/* The record that refused an owner's write shows why he is none. */
static void
raise_lost(const EoStore *store, const char *key, const EoAnswer *answer)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_CLAIM_LOST),
			 errmsg("the claim on key \"%s\" on server \"%s\" was lost", key, store->server->name),
			 !answer->exists ? errdetail("There is no record of the key any more.") :
			 errdetail("The key is %s, by another run or after this one was ended.",
					   eo_state_name(answer->record.state)),
			 errhint("Undo what was done under this claim. A longer lease, or idem_extend() in time, keeps it.")));
}

static char *
copy_text(const char *s, size_t len)
{
	return s != NULL ? pnstrdup(s, len) : NULL;
}
