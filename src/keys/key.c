/*-------------------------------------------------------------------------
 *
 * key.c
 *	  A key, the names under which it is known, and waiting for it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/target.h"
#include "commit/prepared.h"
#include "commit/session.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "keys/key.h"
#include "ledger/clock_sync.h"
#include "records/attribute.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/text.h"
#include "storage/proc.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/status.h"

/* The first pause between two polls, and the longest. */
#define POLL_FIRST_MS 40
#define POLL_MAX_MS 1000

/* A lock that is waited for, with a time limit of our own. */
typedef struct Wait
{
	VirtualTransactionId holder;
	int64		wait_ms;
} Wait;

static void
find(EoKey *k, EoStore *store, const char *key, char *pk, const char *token)
{
	memset(k, 0, sizeof(*k));
	k->store = store;
	k->key = key;
	k->pk = pk;
	eo_target_of(store, &k->target);
	eo_target_digest(&k->target, k->pk, k->digest);
	k->held = eo_xact_find(k->digest);
	if (k->held != NULL && (token == NULL || strcmp(token, k->held->info->token) != 0))
		eo_store_check_account(store, k->held->store, key);
}

void
eo_key_find(EoKey *k, EoStore *store, const char *key, const char *token)
{
	find(k, store, key, eo_store_pk(store, key), token);
}

void
eo_key_find_action(EoKey *k, EoStore *store, char *pk)
{
	find(k, store, eo_text_from_utf8(pk), pk, NULL);
}

void
eo_key_need_clock(const EoKey *k, const char *doing)
{
	EoError		error;

	if (!eo_clock_sync_make(k->store, 0, &error))
		eo_error_raise(&error, doing, k->key, k->store->server->name);
}

void
eo_key_settle(const EoKey *k, const char *token)
{
	EoSlotView	view;

	if (eo_prepared_find_slot(k->digest, &view) && eo_slot_state_is_over(view.info.state) &&
		(token == NULL || strcmp(view.info.token, token) == 0))
		eo_settle_on_the_spot(k->store, k->key, &view);
}

EoAnswer *
eo_key_read(const EoKey *k, const char *doing)
{
	EoAnswer   *answer = eo_store_record_read(k->store, k->pk);

	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, doing, k->key, k->store->server->name);
	return answer;
}

bool
eo_key_owns(const EoKey *k, const EoTxClaim *claim)
{
	const EoServer *server = k->store->server;
	const EoSessionToken *remembered;

	if (claim->store->server->userid == server->userid)
		return true;
	remembered = eo_session_tokens_find(server, k->pk);
	return remembered != NULL && strcmp(remembered->token, claim->info->token) == 0;
}

/* The length of the progress in the record, as far as is known; it stays there until the finish. */
static size_t
progress_len(const EoKey *k)
{
	const EoSessionToken *remembered = eo_session_tokens_find(k->store->server, k->pk);

	if (k->held != NULL)
		return k->held->progress != NULL ? strlen(k->held->progress) : 0;
	return remembered != NULL ? remembered->progress_len : 0;
}

void
eo_key_check_size(const EoKey *k, const char *what, size_t len, const char *hint)
{
	size_t		max = eo_record_key_room(k->store->layout, strlen(k->pk)) - progress_len(k);

	if (len <= max)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("%s of key \"%s\" on server \"%s\" is too large", what, eo_text_key_shown(k->key),
					k->store->server->name),
			 errdetail("As text it has %zu bytes; with this key there is room for %zu.", len, max),
			 errhint("%s", hint)));
}

void
eo_key_check_result(const EoKey *k, const char *result, const char *hint)
{
	size_t		size;
	EoStatus	status = eo_record_key_result_size(k->store->layout, result,
												   result != NULL ? strlen(result) : 0, &size);

	if (status == EO_NO_MEMORY)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	if (status != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("result of key \"%s\" on server \"%s\" cannot be kept in DynamoDB's own types",
						eo_text_key_shown(k->key), k->store->server->name),
				 errdetail("They have numbers of at most %d digits, objects without empty names, and %d levels.",
						   EO_ATTRIBUTE_MAX_DIGITS, EO_ATTRIBUTE_MAX_DEPTH),
				 errhint("Put the value into a string, or use a layout with the result_form text.")));
	eo_key_check_size(k, "result", size, hint);
}

void
eo_key_see_progress(const EoKey *k, EoTxClaim *held, const char *token, const EoRecord *r)
{
	EoSessionToken *remembered = eo_session_tokens_find(k->store->server, k->pk);

	if (held != NULL)
	{
		char	   *before = held->progress;

		held->progress = r->progress == NULL ? NULL :
			MemoryContextStrdup(GetMemoryChunkContext(held), r->progress);
		held->progress_no = r->progress_no;
		if (before != NULL)
			pfree(before);
	}
	if (remembered != NULL && strcmp(remembered->token, token) == 0)
	{
		remembered->progress_len = r->progress_len;
		remembered->progress_no = r->progress_no;
	}
}

static void
wait_for_lock(void *arg)
{
	const Wait *wait = arg;
	int			users_limit = LockTimeout;

	PG_TRY();
	{
		LockTimeout = (int) Max(1, Min(wait->wait_ms, INT_MAX));
		(void) VirtualXactLock(wait->holder, true);
	}
	PG_FINALLY();
	{
		LockTimeout = users_limit;
	}
	PG_END_TRY();
}

/* PostgreSQL ends such a wait with an error, by which a subtransaction is rolled back. */
static void
lock_within(VirtualTransactionId holder, int64 wait_ms)
{
	Wait		wait = {holder, wait_ms};
	ErrorData  *error = eo_error_try(wait_for_lock, &wait);

	if (error != NULL && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		ReThrowError(error);
}

void
eo_key_wait_for_holder(VirtualTransactionId holder, int64 give_up_us)
{
	int64		wait_ms = (give_up_us - eo_clock_monotonic_us() + 999) / 1000;

	/* If the user's own limit is not longer, its error is for the user. */
	if (LockTimeout > 0 && LockTimeout <= wait_ms)
		(void) VirtualXactLock(holder, true);
	else
		lock_within(holder, wait_ms);
}

/* A pause that grows with each poll, half of it random. */
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

void
eo_key_wait_for_poll(const EoStore *store, int polls, int64 lease_until_ms, int64 give_up_us)
{
	int64		now_us = eo_clock_monotonic_us();
	int64		until_us = now_us + poll_pause_us(polls);

	if (lease_until_ms != 0)
	{
		/* Do not sleep long after the lease can be taken over. */
		int64		dead_ms = lease_until_ms + store->server->clock_skew_ms + 1;
		int64		dead_us = now_us + (dead_ms - eo_client_now_ms(&store->client)) * 1000;

		if (dead_us > now_us && dead_us < until_us)
			until_us = dead_us;
	}
	eo_http_wait(Min(until_us, give_up_us), EO_WAIT_RAISE);
}
