/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  Claiming a key: one conditional write, and what its answer means.
 *
 * A key is looked for in this order, and the first that knows answers:
 *
 * 1. the transaction at hand (xact.c): held, completed, failed by itself;
 * 2. the claim table (shmem.c): held by another session of this cluster, which
 *	  costs no request; or left by a transaction that has ended, which is seen
 *	  to on the spot;
 * 3. DynamoDB, by the write itself.  What stood in its way comes back with the
 *	  refusal, and decides what the caller is told; never a later read.
 *
 * Before the request leaves, the claim has its slot and its place in the
 * transaction.  If the answer never comes, or is a cancel, the error ends the
 * transaction (or its savepoint), and the claim with it: the worker buries
 * what may have been written.  A token is never used for a second claim.
 *
 * Two clocks: a lease that has been dead for longer than clock_skew may be
 * taken over; a finished record counts as absent EXPIRY_MARGIN after its ttl.
 * The margin is wide because this is the one place where a clock decides that
 * work is done again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/session_tokens.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "compat.h"
#include "dynamodb/client.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "dynamodb/origin.h"
#include "dynamodb/record.h"
#include "dynamodb/status.h"
#include "keys/acquire.h"
#include "keys/key.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

/* Races lost in a row before the caller is told to come back. */
#define MAX_RACES 5

/* Polling for a key to settle: first pause, growth, longest pause. */
#define POLL_FIRST_MS 40
#define POLL_MAX_MS 1000

/* The worker looks at leases on its own at least this often. */
#define WORKER_NAP_MS 5000

/* What one request has led to. */
typedef enum Attempt
{
	ATTEMPT_ANSWERED,			/* the claim is filled in */
	ATTEMPT_RACED,				/* the record changed under us: try again */
	ATTEMPT_NEW_TOKEN,			/* this token is spent: try with another */
	ATTEMPT_GOES_ON				/* there is another request to be made */
} Attempt;

static bool answer_from_transaction(EoAcquiring *a);
static void prepare(EoAcquiring *a);
static bool ask_in_block(const EoAcquire *ask);
static bool is_bound(const EoAcquire *ask);
static void fill_info(EoAcquiring *a, EoSlotInfo *info);
static void fill_write(EoAcquiring *a, EoWrite *w);
static Attempt judge(EoAcquiring *a);
static Attempt replace_expired(EoAcquiring *a);
static void take_acquired(EoAcquiring *a);
static void give_up(EoAcquiring *a);
static Attempt explain_refusal(EoAcquiring *a, const EoRecord *r);
static Attempt explain_committing(EoAcquiring *a, const EoRecord *r, EoFate fate);
static Attempt explain_in_progress(EoAcquiring *a, const EoRecord *r);
static Attempt explain_failed(EoAcquiring *a, const EoRecord *r);
static void check_payload(EoAcquiring *a, const char *fingerprint, const char *state);
static void check_readable(EoAcquiring *a, const EoRecord *r, EoState state);
static void wait_for_settling(EoAcquiring *a, int polls, int64 give_up_us);
static bool wait_for_holder(VirtualTransactionId holder, int64 wait_ms);
static int64 poll_pause_us(int polls);
static char *copy_text(const char *s, size_t len);

void
eo_acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim)
{
	int64		give_up_us = eo_clock_monotonic_us() + ask->wait_ms * 1000;
	EoAcquiring a;
	bool		answered;

	/* One token for the whole call: a poll that comes late is still ours. */
	eo_acquire_init(&a, store, ask, claim);
	for (int polls = 0;; polls++)
	{
		a.races = 0;
		answered = eo_acquire_begin(&a);
		while (!answered)
		{
			eo_answer_run(&a.answer, 1, 1, 0);
			answered = eo_acquire_take(&a);
		}
		if (claim->outcome != EO_CLAIM_IN_PROGRESS || claim->mine ||
			eo_clock_monotonic_us() >= give_up_us)
			return;
		wait_for_settling(&a, polls, give_up_us);
	}
}

void
eo_acquire_init(EoAcquiring *a, EoStore *store, const EoAcquire *ask, EoClaim *claim)
{
	memset(a, 0, sizeof(*a));
	eo_key_find(&a->k, store, ask->key);
	a->ask = ask;
	a->claim = claim;
	eo_store_new_token(a->token);
}

bool
eo_acquire_begin(EoAcquiring *a)
{
	memset(a->claim, 0, sizeof(*a->claim));
	a->local = false;
	if (a->races >= MAX_RACES)
	{
		/* Everybody else won: somebody is at work on it. */
		a->claim->outcome = EO_CLAIM_IN_PROGRESS;
		return true;
	}
	if (answer_from_transaction(a) || eo_acquire_look_around(a))
		return true;
	prepare(a);
	return false;
}

bool
eo_acquire_take(EoAcquiring *a)
{
	EoAnswer   *answer = a->answer;
	Attempt		attempt = judge(a);

	eo_answer_free(answer);
	switch (attempt)
	{
		case ATTEMPT_ANSWERED:
			return true;
		case ATTEMPT_GOES_ON:
			return false;
		case ATTEMPT_NEW_TOKEN:
			eo_store_new_token(a->token);
			break;
		case ATTEMPT_RACED:
			break;
	}
	a->races++;
	return eo_acquire_begin(a);
}

/* ----- what is known without a request ----- */

static void
put_acquired(EoClaim *claim, const EoTxClaim *held)
{
	const EoSlotInfo *info = held->info;

	claim->outcome = EO_CLAIM_ACQUIRED;
	strlcpy(claim->token, info->token, sizeof(claim->token));
	claim->fence = info->fence;
	claim->runs = info->runs;
	claim->lease_until_ms = info->lease_until_ms;
	claim->expires_at_ms = info->ttl_s * 1000;
	claim->mine = true;
}

static bool
answer_from_transaction(EoAcquiring *a)
{
	EoTxClaim  *held = eo_xact_find(a->k.digest);
	EoClaim    *claim = a->claim;
	const EoSlotInfo *info;

	if (held == NULL)
		return false;
	info = held->info;
	check_payload(a, info->fingerprint, "held by this transaction");
	put_acquired(claim, held);
	claim->token[0] = '\0';
	claim->mine = false;
	if (eo_xact_is_completed(held))
	{
		claim->outcome = EO_CLAIM_COMPLETED;
		claim->result = copy_text(held->result, held->result_len);
		claim->lease_until_ms = 0;
		claim->replayed = true;
	}
	else if (info->state == EO_SLOT_FAILED)
	{
		claim->outcome = info->terminal ? EO_CLAIM_FAILED : EO_CLAIM_RETRY_LATER;
		claim->lease_until_ms = 0;
		if (!info->terminal)
			claim->retry_at_ms = eo_client_now_ms(&a->k.store->client) + info->retry_after_ms;
	}
	else if (info->state == EO_SLOT_RELEASED && !held->earlier)
	{
		/* The release has not been written yet: it is taken back. */
		eo_slot_reclaimed(held->slot);
		put_acquired(claim, held);
	}
	else
	{
		claim->outcome = EO_CLAIM_IN_PROGRESS;
		claim->mine = true;
	}
	return true;
}

bool
eo_acquire_look_around(EoAcquiring *a)
{
	EoSlotView	view;
	EoClaim    *claim = a->claim;

	if (!eo_slot_find(a->k.digest, &view))
		return false;
	if (eo_slot_state_is_over(view.info.state))
	{
		eo_settle_on_the_spot(a->k.store, a->ask->key, &view);
		return false;
	}
	/* Past max_hold the lease runs out here as it does for others. */
	if (view.info.state != EO_SLOT_SEALING && view.info.lease_until_ms > 0 &&
		view.info.lease_until_ms < eo_client_now_ms(&a->k.store->client) - a->k.store->server->clock_skew_ms)
		return false;
	check_payload(a, view.info.fingerprint, eo_record_state_name(EO_STATE_IN_PROGRESS));
	claim->outcome = EO_CLAIM_IN_PROGRESS;
	claim->fence = view.info.fence;
	claim->runs = view.info.runs;
	/* A sealed claim has no end but that of its transaction. */
	if (view.info.state != EO_SLOT_SEALING)
	{
		claim->lease_until_ms = view.info.lease_until_ms;
		claim->expires_at_ms = view.info.ttl_s * 1000;
	}
	a->local = true;
	a->holder = view.info.vxid;
	return true;
}

/* ----- asking DynamoDB ----- */

/*
 * The claim gets its slot and its place in the transaction, then its request.
 */
static void
prepare(EoAcquiring *a)
{
	EoSlotInfo	info;

	fill_info(a, &info);
	a->held = eo_xact_add(a->k.store, a->ask->key, a->k.pk, &a->k.target, &info);
	a->held->unsettled = a->ask->keep ? EO_UNSETTLED_STAYS :
		ask_in_block(a->ask) ? EO_UNSETTLED_FAILS : EO_UNSETTLED_WARNS;
	a->replacing = a->in_doubt = false;
	fill_write(a, &a->write);
	a->answer = eo_store_prepare_write(a->k.store, a->k.pk, EO_ACQUIRE, &a->write);
}

static Attempt
judge(EoAcquiring *a)
{
	EoAnswer   *answer = a->answer;

	switch (answer->outcome)
	{
		case EO_APPLIED:
			take_acquired(a);
			return ATTEMPT_ANSWERED;
		case EO_NOT_APPLIED:
			a->in_doubt |= answer->call.in_doubt;
			if (!a->replacing && answer->exists && eo_store_is_expired(a->k.store, eo_answer_record(answer)))
				return replace_expired(a);
			give_up(a);
			return a->replacing || !answer->exists ? ATTEMPT_RACED :
				explain_refusal(a, eo_answer_record(answer));
		case EO_READ:
		case EO_FAILED_CALL:
			break;
	}
	/* It may be ours: then it stays where the abort finds it. */
	if (answer->error.status != EO_UNKNOWN && !a->in_doubt)
		eo_xact_drop(a->held);
	eo_error_raise(&answer->error, "acquire", a->ask->key, a->k.store->server->name);
}

/*
 * A finished record past its time, not swept yet: replace exactly that.  The
 * only acquire that takes two requests.
 */
static Attempt
replace_expired(EoAcquiring *a)
{
	a->replacing = true;
	a->write.seen = eo_answer_record(a->answer);
	a->answer = eo_store_prepare_write(a->k.store, a->k.pk, EO_REPLACE, &a->write);
	return ATTEMPT_GOES_ON;
}

/*
 * A statement of its own keeps its claim, for another to complete it; but not
 * if it settles it itself.
 */
static bool
ask_in_block(const EoAcquire *ask)
{
	return ask->settled_within || eo_xact_in_block();
}

/* Is the claim over with the transaction, come what may? */
static bool
is_bound(const EoAcquire *ask)
{
	return ask_in_block(ask) && !ask->keep && !ask->hold;
}

static void
fill_info(EoAcquiring *a, EoSlotInfo *info)
{
	const EoAcquire *ask = a->ask;
	const EoServer *server = a->k.store->server;

	eo_slot_info_init(info, EO_SLOT_ASKING, a->k.digest, a->token);
	info->bound = is_bound(ask);
	info->release_on_abort = !ask->hold;
	if (ask->payload_sha256 != NULL)
		strlcpy(info->fingerprint, ask->payload_sha256, sizeof(info->fingerprint));
	info->lease_ms = ask->lease_ms >= 0 ? ask->lease_ms : server->lease_ms;
	info->retention_s = ask->retention_s >= 0 ? ask->retention_s : server->retention_s;
	info->max_hold_ms = server->max_hold_ms;
	/* Extended while the transaction lasts, long before its end. */
	info->due_us = info->since_us + info->lease_ms * 1000 / 3;
}

static void
fill_write(EoAcquiring *a, EoWrite *w)
{
	const EoAcquire *ask = a->ask;
	int64		lease_ms = ask->lease_ms >= 0 ? ask->lease_ms : a->k.store->server->lease_ms;
	int64		retention_s = ask->retention_s >= 0 ? ask->retention_s : a->k.store->server->retention_s;

	memset(w, 0, sizeof(*w));
	w->owner = a->token;
	w->now_ms = eo_client_now_ms(&a->k.store->client);
	w->lease_ms = w->now_ms + lease_ms;
	w->skew_ms = a->k.store->server->clock_skew_ms;
	w->ttl_s = eo_record_ttl_after(w->lease_ms, retention_s);
	w->max_runs = ask->max_runs;
	w->bind = ask->hold ? "hold" : is_bound(ask) ? "tx" : "keep";
	w->payload_sha256 = ask->payload_sha256;
}

static void
take_acquired(EoAcquiring *a)
{
	EoTxClaim  *held = a->held;
	const EoRecord *r = eo_answer_record(a->answer);

	eo_slot_acquired(held->slot, r->fence, r->runs, r->lease_ms, r->ttl_s);
	if (r->lease_ms - eo_client_now_ms(&a->k.store->client) < 3 * WORKER_NAP_MS)
		eo_database_wake(MyDatabaseId);
	eo_target_share_clock(a->k.store, &a->k.target);

	/* What may outlive the transaction, the session remembers. */
	if (held->unsettled != EO_UNSETTLED_FAILS)
	{
		EoSessionToken *memory = eo_session_tokens_enter(a->k.store->server->serverid, a->k.pk);

		strlcpy(memory->held, held->info->token, sizeof(memory->held));
		memory->retention_s = held->info->retention_s;
	}
	put_acquired(a->claim, held);
}

/*
 * Refused.  But if an earlier copy of the request went astray it may still
 * arrive: then the worker is to bury what it writes, and that token is spent.
 */
static void
give_up(EoAcquiring *a)
{
	if (!a->in_doubt)
	{
		eo_xact_drop(a->held);
		return;
	}
	eo_xact_abandon(a->held);
	eo_store_new_token(a->token);
}

bool
eo_acquire_explain(EoAcquiring *a, const EoRecord *r)
{
	return explain_refusal(a, r) == ATTEMPT_ANSWERED;
}

/*
 * Somebody else's record, or our own from before: say what it means.
 */
static Attempt
explain_refusal(EoAcquiring *a, const EoRecord *r)
{
	Oid			serverid = a->k.store->server->serverid;
	EoSessionToken *memory = eo_session_tokens_find(serverid, a->k.pk);
	EoClaim    *claim = a->claim;
	EoFate		fate = EO_FATE_ELSEWHERE;
	int64		retention_s = 0;
	EoState		state = r->state;

	/* PostgreSQL knows it before DynamoDB is told. */
	if (state == EO_STATE_COMMITTING)
		fate = eo_settle_fate(r, a->k.pk, &retention_s);
	if (fate == EO_FATE_COMMITTED)
		state = EO_STATE_COMPLETED;

	claim->mine = memory != NULL && strcmp(memory->held, r->owner) == 0;
	/* What is held is worth keeping only as long as the record says so. */
	if (memory != NULL && (!claim->mine || (state != EO_STATE_IN_PROGRESS &&
											state != EO_STATE_COMMITTING)))
		eo_session_tokens_forget(serverid, a->k.pk);

	/*
	 * No row: its transaction was rolled back, or was finished in the very
	 * moment.  The write that gives it back is refused in the second case.
	 */
	if (fate == EO_FATE_ABORTED)
	{
		eo_settle_aborted(a->k.store, a->ask->key, a->k.pk, r);
		return ATTEMPT_RACED;
	}
	check_payload(a, r->payload_sha256, eo_record_state_name(state));
	check_readable(a, r, state);

	claim->fence = r->fence;
	claim->runs = r->runs;
	claim->expires_at_ms = r->ttl_s * 1000;
	if (fate == EO_FATE_COMMITTED)
		claim->expires_at_ms = eo_record_ttl_after(r->updated_ms, retention_s) * 1000;
	switch (state)
	{
		case EO_STATE_COMPLETED:
			eo_settle_check_visible(r, a->ask->key, a->k.store->server->name);
			claim->outcome = EO_CLAIM_COMPLETED;
			claim->result = copy_text(r->result, r->result_len);
			claim->mine = false;
			claim->replayed = true;
			return ATTEMPT_ANSWERED;
		case EO_STATE_COMMITTING:
			return explain_committing(a, r, fate);
		case EO_STATE_IN_PROGRESS:
			return explain_in_progress(a, r);
		case EO_STATE_FAILED:
			break;
	}
	return explain_failed(a, r);
}

/*
 * A transaction that completes it has announced its commit, and is not known
 * to have committed.
 */
static Attempt
explain_committing(EoAcquiring *a, const EoRecord *r, EoFate fate)
{
	a->claim->outcome = EO_CLAIM_IN_PROGRESS;
	if (fate == EO_FATE_UNKNOWN)
	{
		EoSlotInfo	doubt;

		fill_info(a, &doubt);
		doubt.pid = 0;
		strlcpy(doubt.token, r->owner, sizeof(doubt.token));
		(void) eo_origin_read(r->origin, &doubt.origin);
		eo_slot_note_doubt(&a->k.target, a->k.pk, &doubt);
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("key \"%s\" on server \"%s\" is in doubt", a->ask->key,
						a->k.store->server->name),
				 errdetail("Its record names a commit of this database of which there is no trace that can be relied on."),
				 errhint("Find out whether its work was done, and say so with idem_resolve().")));
	}
	return ATTEMPT_ANSWERED;
}

static Attempt
explain_in_progress(EoAcquiring *a, const EoRecord *r)
{
	int64		max_runs = a->ask->max_runs;
	int64		dead_ms = eo_client_now_ms(&a->k.store->client) - a->k.store->server->clock_skew_ms;
	EoClaim    *claim = a->claim;

	claim->outcome = EO_CLAIM_IN_PROGRESS;
	claim->lease_until_ms = r->lease_ms;
	if (r->lease_ms >= dead_ms)
		return ATTEMPT_ANSWERED;
	if (max_runs == 0 || r->runs < max_runs)
		return ATTEMPT_RACED;	/* it died between the write and now */

	/* The last run it was allowed died without a word. */
	claim->outcome = EO_CLAIM_FAILED;
	claim->out_of_runs = true;
	claim->mine = false;
	claim->replayed = true;
	claim->error = psprintf("{\"message\": \"run %lld of %lld ended without a result\"}",
							(long long) r->runs, (long long) max_runs);
	return ATTEMPT_ANSWERED;
}

static Attempt
explain_failed(EoAcquiring *a, const EoRecord *r)
{
	bool		out_of_runs = a->ask->max_runs > 0 && r->runs >= a->ask->max_runs;
	EoClaim    *claim = a->claim;

	claim->mine = false;
	claim->replayed = true;
	if (r->has_retry && !out_of_runs)
	{
		if (r->retry_ms <= eo_client_now_ms(&a->k.store->client))
			return strcmp(r->owner, a->token) == 0 ? ATTEMPT_NEW_TOKEN : ATTEMPT_RACED;
		claim->outcome = EO_CLAIM_RETRY_LATER;
		claim->retry_at_ms = r->retry_ms;
	}
	else
	{
		claim->outcome = EO_CLAIM_FAILED;
		claim->out_of_runs = r->has_retry;
	}
	claim->error = copy_text(r->error, r->error_len);
	return ATTEMPT_ANSWERED;
}

/*
 * A request that differs must not get the result of another.  fingerprint may be
 * NULL or empty: then the key was claimed without a payload.
 */
static void
check_payload(EoAcquiring *a, const char *fingerprint, const char *state)
{
	if (a->ask->payload_sha256 == NULL || fingerprint == NULL || fingerprint[0] == '\0' ||
		strcmp(a->ask->payload_sha256, fingerprint) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_EO_PAYLOAD_MISMATCH),
			 errmsg("key \"%s\" on server \"%s\" was used with another payload",
					a->ask->key, a->k.store->server->name),
			 errdetail("The key is %s.", state),
			 errhint("The same key must mean the same request: derive it from the payload with idem_key(...), or look for two callers that share it.")));
}

/* Raise if the record has what the caller is to be told in a form that cannot be read. */
static void
check_readable(EoAcquiring *a, const EoRecord *r, EoState state)
{
	const char *odd = a->ask->payload_sha256 != NULL && r->odd_payload_sha256 ? "payload_sha256" :
	state == EO_STATE_COMPLETED && r->odd_result ? "result" :
	state == EO_STATE_FAILED && r->odd_error ? "error" : NULL;

	if (odd != NULL)
		eo_error_raise_odd("acquire", a->ask->key, a->k.store->server->name, odd);
}

/* ----- waiting ----- */

static void
wait_for_settling(EoAcquiring *a, int polls, int64 give_up_us)
{
	int64		now_us = eo_clock_monotonic_us();
	int64		until_us;

	if (a->local)
	{
		(void) wait_for_holder(a->holder, (give_up_us - now_us + 999) / 1000);
		return;
	}
	until_us = now_us + poll_pause_us(polls);
	if (a->claim->lease_until_ms != 0)
	{
		/* No use in asking long after the lease can be taken over. */
		int64		dead_ms = a->claim->lease_until_ms + a->k.store->server->clock_skew_ms + 1;
		int64		dead_us = now_us + (dead_ms - eo_client_now_ms(&a->k.store->client)) * 1000;

		if (dead_us > now_us && dead_us < until_us)
			until_us = dead_us;
	}
	eo_http_wait(Min(until_us, give_up_us), EO_WAIT_RAISE);
}

/*
 * Wait for the end of a transaction of this cluster as PostgreSQL waits for
 * any lock, so that its deadlock detector sees it.  Its time limit is an
 * error, and undoing that takes a subtransaction.  False: time is up.
 */
static bool
wait_for_holder(VirtualTransactionId holder, int64 wait_ms)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	int			users_limit = LockTimeout;
	ErrorData  *volatile error = NULL;

	/* The user's own limit comes first: then its error is the user's. */
	if (users_limit > 0 && users_limit <= wait_ms)
		return VirtualXactLock(holder, true);

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		LockTimeout = (int) Max(1, Min(wait_ms, INT_MAX));
		(void) VirtualXactLock(holder, true);
		LockTimeout = users_limit;
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		LockTimeout = users_limit;
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	/* Outside our own level, which nobody above knows of. */
	if (error != NULL && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		ReThrowError(error);
	return error == NULL;
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

/* ----- for who needs the key ----- */

static const char *
show_instant(int64 ms)
{
	return timestamptz_to_str(time_t_to_timestamptz((pg_time_t) (ms / 1000)));
}

void
eo_acquire_raise(const EoStore *store, const char *key, const EoClaim *claim)
{
	const char *server = store->server->name;

	switch (claim->outcome)
	{
		case EO_CLAIM_IN_PROGRESS:
			eo_error_raise_in_progress(key, server, claim->lease_until_ms == 0 ? NULL :
									   psprintf("Its lease ends at %s.", show_instant(claim->lease_until_ms)),
									   "Come back later, or give idem_acquire a wait => interval.");
			break;
		case EO_CLAIM_RETRY_LATER:
			ereport(ERROR,
					(errcode(ERRCODE_EO_FAILED),
					 errmsg("key \"%s\" on server \"%s\" failed and may not be retried yet", key, server),
					 errdetail("It may be retried at %s, after %lld runs.",
							   show_instant(claim->retry_at_ms),
							   (long long) claim->runs),
					 errhint("Come back then. idem_get() shows what went wrong.")));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_EO_FAILED),
					 claim->out_of_runs ?
					 errmsg("key \"%s\" on server \"%s\" has no runs left", key, server) :
					 errmsg("key \"%s\" on server \"%s\" failed for good", key, server),
					 errdetail_plural("It ran %lld time.", "It ran %lld times.",
									  (unsigned long) claim->runs, (long long) claim->runs),
					 errhint("idem_get() shows what went wrong; an operator can redrive it with idem_forget().")));
	}
}

static char *
copy_text(const char *s, size_t len)
{
	return s != NULL ? pnstrdup(s, len) : NULL;
}
