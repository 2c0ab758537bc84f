/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  Claiming a key: one conditional write, and what its answer means.
 *
 * A key is looked up in four places, and the first that knows it answers:
 *
 * 1. The claims of this transaction (xact.h), where the key may be held, completed,
 *	  failed or released.
 * 2. The claim table (slots.h).  If another session of this cluster holds the key,
 *	  the answer costs no request.  If a transaction that is over has left the key
 *	  to be settled, it is settled now.
 * 3. The cache of completed keys (cache.h), if the server uses it.
 * 4. DynamoDB, by the write that claims the key.  A refusal brings the record that
 *	  refused, and only that record decides what the caller is told, never a later
 *	  read.
 *
 * The claim is entered in the transaction, with its slot, before its request leaves.
 * If the outcome of the request stays unknown, or the wait for it is cancelled, an
 * error ends the transaction or its savepoint.  The claim ends with that, and the
 * worker buries what may have been written.  No two claims have the same token.
 *
 * Two clocks decide.  A lease is dead, and may be taken over, clock_skew after its
 * end.  A finished record counts as absent some minutes after its ttl
 * (eo_store_is_expired()); that margin is wide, because there a clock alone decides
 * that work is done again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/cache.h"
#include "cluster/databases.h"
#include "cluster/life_watch.h"
#include "cluster/service_clocks.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "commit/prepared.h"
#include "commit/session.h"
#include "commit/settle.h"
#include "commit/slot_room.h"
#include "common/hashfn.h"
#include "compat.h"
#include "keys/acquire.h"
#include "ledger/outbox.h"
#include "server/error.h"
#include "server/store_record.h"
#include "server/text.h"
#include "utils/timestamp.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/status.h"

/* After so many lost races in a row the key counts as in progress. */
#define MAX_RACES 5

/* The worker wakes at least this often without being woken (NAP_US in worker.c). */
#define WORKER_NAP_MS 5000

/* The consequence of an answer. */
typedef enum Attempt
{
	ATTEMPT_ANSWERED,			/* the claim is filled in */
	ATTEMPT_RACED,				/* the record has changed since: begin again */
	ATTEMPT_NEW_TOKEN,			/* the same, but under a new token: acquire
								 * refuses a record that failed under its own */
	ATTEMPT_GOES_ON				/* another request is ready to be run */
} Attempt;

static bool answer_from_transaction(EoAcquiring *a);
static bool answer_from_cache(EoAcquiring *a);
static void prepare(EoAcquiring *a);
static Attempt take_answer(EoAcquiring *a);
static Attempt explain_refusal(EoAcquiring *a, const EoRecord *r);
static void check_request(const EoAcquiring *a, const char *fingerprint, const char *handler,
						  const char *state);
static uint64 hash_of_handler(const char *handler);

static void put_acquired(EoClaim *claim, const EoTxClaim *held);
static Attempt replace_expired(EoAcquiring *a);
static bool counts_as_in_block(const EoAcquire *ask);
static void fill_info(EoAcquiring *a, EoSlotInfo *info);
static void fill_write(EoAcquiring *a, EoWrite *w);
static void take_acquired(EoAcquiring *a, const EoRecord *r);
static void drop_refused(EoAcquiring *a);
static bool match_remembered(const EoAcquiring *a, const EoRecord *r, EoState state);
static bool is_left_behind(const EoAcquiring *a, const EoRecord *r);
static Attempt explain_committing(EoAcquiring *a, const EoRecord *r, EoFate fate);
static Attempt explain_in_progress(EoAcquiring *a, const EoRecord *r);
static Attempt explain_failed(EoAcquiring *a, const EoRecord *r);
static void check_kept(const EoAcquiring *a, const EoRecord *r);
static void check_readable(EoAcquiring *a, const EoRecord *r, EoState state);
static const char *show_instant(int64 ms);

void
eo_acquire(EoStore *store, const EoAcquire *ask, EoClaim *claim)
{
	int64		give_up_us = eo_clock_monotonic_us() + ask->wait_ms * 1000;
	EoAcquiring a;
	bool		answered;

	/*
	 * All polls of this call have one token: if a copy of an earlier poll
	 * arrives late and claims the key, the claim is this call's.
	 */
	eo_acquire_init(&a, store, ask, claim);
	for (int polls = 0;; polls++)
	{
		a.races = 0;
		a.clock_moved = false;
		answered = eo_acquire_begin(&a);
		while (!answered)
		{
			(void) eo_answer_run_one(a.answer);
			answered = eo_acquire_take(&a);
		}
		if (claim->outcome != EO_CLAIM_IN_PROGRESS || claim->mine ||
			eo_clock_monotonic_us() >= give_up_us)
			return;
		if (a.local)
			eo_key_wait_for_holder(a.holder, give_up_us);
		else
			eo_key_wait_for_poll(store, polls, claim->lease_until_ms, give_up_us);
	}
}

void
eo_acquire_init(EoAcquiring *a, EoStore *store, const EoAcquire *ask, EoClaim *claim)
{
	memset(a, 0, sizeof(*a));
	eo_key_find(&a->k, store, ask->key, NULL);
	a->ask = ask;
	a->claim = claim;
	eo_store_new_token(a->token);
	if (!eo_cache_is_used(store))
		return;
	eo_cache_digest(&a->k.target, a->k.pk, a->cache_digest);
	a->cache_mark = eo_cache_mark(store, a->cache_digest);
}

bool
eo_acquire_begin(EoAcquiring *a)
{
	memset(a->claim, 0, sizeof(*a->claim));
	a->local = false;
	if (a->races >= MAX_RACES)
	{
		/* Other runs have won each race, so one of them has the key. */
		a->claim->outcome = EO_CLAIM_IN_PROGRESS;
		return true;
	}
	eo_key_need_clock(&a->k, "acquire");
	a->claim->answered_here = answer_from_transaction(a) || eo_acquire_check_slots(a);
	if (a->claim->answered_here || answer_from_cache(a))
		return true;
	prepare(a);
	return false;
}

bool
eo_acquire_take(EoAcquiring *a)
{
	EoAnswer   *answer = a->answer;
	Attempt		attempt = take_answer(a);

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

/* Returns false if this transaction has no claim on the key. */
static bool
answer_from_transaction(EoAcquiring *a)
{
	EoTxClaim  *held = eo_xact_find(a->k.digest);
	EoClaim    *claim = a->claim;
	const EoSlotInfo *info;

	if (held == NULL)
		return false;
	info = held->info;
	check_request(a, info->fingerprint, held->handler, "held by this transaction");
	put_acquired(claim, held);
	claim->token[0] = '\0';
	claim->mine = false;
	if (eo_xact_is_completed(held))
	{
		claim->outcome = EO_CLAIM_COMPLETED;
		claim->result = eo_text_copy(held->result);
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
	else if (info->state == EO_SLOT_RELEASED && !held->earlier && eo_key_owns(&a->k, held))
	{
		/* The release has not been written: the claim is held again. */
		eo_xact_reclaimed(held);
		put_acquired(claim, held);
	}
	else
	{
		claim->outcome = EO_CLAIM_IN_PROGRESS;
		claim->mine = true;
	}
	return true;
}

/* Fill in the outcome "acquired". */
static void
put_acquired(EoClaim *claim, const EoTxClaim *held)
{
	const EoSlotInfo *info = held->info;

	claim->outcome = EO_CLAIM_ACQUIRED;
	memcpy(claim->token, info->token, sizeof(claim->token));
	claim->fence = info->fence;
	claim->runs = info->runs;
	claim->lease_until_ms = info->lease_until_ms;
	claim->expires_at_ms = info->ttl_s * 1000;
	claim->progress = eo_text_copy(held->progress);
	claim->mine = true;
}

bool
eo_acquire_check_slots(EoAcquiring *a)
{
	EoSlotView	view;
	EoClaim    *claim = a->claim;

	if (!eo_prepared_find_slot(a->k.digest, &view))
		return false;
	if (eo_slot_state_is_over(view.info.state))
	{
		eo_settle_on_the_spot(a->k.store, a->ask->key, &view);
		return false;
	}

	/* A session that cannot sign as the holder does learns nothing here. */
	if (!eo_store_is_trusted(a->k.store, view.info.credentials_hash))
		return false;

	/* Then this session may take the key over, as others may. */
	if (eo_slot_view_lease_is_dead(&view, eo_store_dead_before_ms(a->k.store)))
		return false;
	check_request(a, view.info.fingerprint, NULL, eo_record_state_name(EO_STATE_IN_PROGRESS));

	/* The error for another handler names it, which the record does. */
	if (a->ask->handler != NULL && view.info.handler_hash != 0 &&
		view.info.handler_hash != hash_of_handler(a->ask->handler))
		return false;
	claim->outcome = EO_CLAIM_IN_PROGRESS;
	claim->fence = view.info.fence;
	claim->runs = view.info.runs;
	/* A sealed claim ends with its transaction, and not with its lease. */
	if (view.info.state != EO_SLOT_SEALING)
	{
		claim->lease_until_ms = view.info.lease_until_ms;
		claim->expires_at_ms = view.info.ttl_s * 1000;
	}
	/* For the end of a session nobody can wait as for that of a transaction. */
	a->local = view.info.state != EO_SLOT_SESSION;
	a->holder = view.info.vxid;
	return true;
}

/* Answers from the cache of results; false if the key is not in it. */
static bool
answer_from_cache(EoAcquiring *a)
{
	EoRecord	r;

	if (!eo_cache_find(a->k.store, a->cache_digest, &r))
		return false;
	a->claim->answered_from_cache = true;
	return explain_refusal(a, &r) == ATTEMPT_ANSWERED;
}

/* ----- asking DynamoDB ----- */

/* Enter the claim in the transaction, with its slot; then prepare its request. */
static void
prepare(EoAcquiring *a)
{
	EoSlotInfo	info;

	if (a->ask->session)
		eo_session_claim_expect();
	fill_info(a, &info);
	a->held = eo_xact_add(a->k.store, a->ask->key, a->k.pk, &a->k.target, &info);
	if (a->ask->handler != NULL)
		a->held->handler = MemoryContextStrdup(GetMemoryChunkContext(a->held), a->ask->handler);
	a->held->unsettled = a->ask->keep ? EO_UNSETTLED_STAYS :
		counts_as_in_block(a->ask) ? EO_UNSETTLED_FAILS : EO_UNSETTLED_WARNS;
	a->replacing = a->in_doubt = false;
	fill_write(a, &a->write);
	a->answer = eo_store_record_plan(a->k.store, a->k.pk, EO_ACQUIRE, &a->write);
}

bool
eo_acquire_take_bundled(EoAcquiring *a)
{
	const EoWrite *w = &a->write;

	if (a->answer->outcome != EO_APPLIED)
	{
		a->in_doubt |= a->answer->call.in_doubt;
		if (!a->in_doubt)
		{
			/* Nothing was claimed, and nothing will be: begin again. */
			eo_answer_free(a->answer);
			a->answer = NULL;
			eo_acquire_forget(a);
			return false;
		}

		/*
		 * The same token, so that a copy of the bundle is recognised; but the
		 * lease counts from now, and by the clock as it is known now.
		 */
		eo_key_need_clock(&a->k, "acquire");
		fill_write(a, &a->write);
		eo_answer_free(a->answer);
		a->answer = eo_store_record_plan(a->k.store, a->k.pk, EO_ACQUIRE, &a->write);
		return false;
	}
	/* The answer to an INSERT has no record.  It is the one that was written. */
	if (!a->answer->exists)
	{
		EoRecord	inserted = {
			.fence = w->now_ms + 1,.runs = 1,.lease_ms = w->lease_ms,
			.ttl_s = w->kept_from_s + w->retention_s
		};

		take_acquired(a, &inserted);
	}
	else
		take_acquired(a, eo_store_record(a->answer));
	eo_answer_free(a->answer);
	return true;
}

void
eo_acquire_forget(EoAcquiring *a)
{
	eo_xact_drop(a->held);
	a->held = NULL;
}

/* Take the answer of a request.  Raises if the call failed. */
static Attempt
take_answer(EoAcquiring *a)
{
	EoAnswer   *answer = a->answer;

	switch (answer->outcome)
	{
		case EO_APPLIED:
			take_acquired(a, eo_store_record(answer));
			return ATTEMPT_ANSWERED;
		case EO_NOT_APPLIED:
			a->in_doubt |= answer->call.in_doubt;
			eo_key_need_clock(&a->k, "acquire");
			if (!a->replacing && answer->exists &&
				eo_store_is_replaceable(a->k.store, eo_store_record(answer)))
				return replace_expired(a);
			drop_refused(a);
			return a->replacing || !answer->exists ? ATTEMPT_RACED :
				explain_refusal(a, eo_store_record(answer));
		case EO_READ:
		case EO_FAILED_CALL:
			break;
	}
	if (answer->call.clock_moved && !a->clock_moved)
	{
		/* The condition and the lease were wrong by minutes: write them anew. */
		a->clock_moved = true;
		a->in_doubt |= answer->call.in_doubt;
		drop_refused(a);
		return ATTEMPT_RACED;
	}

	/*
	 * If the outcome is unknown the key may be claimed: the claim stays in
	 * the transaction, and the abort has the worker bury the record.
	 */
	if (answer->error.status != EO_UNKNOWN && !a->in_doubt && !answer->call.in_doubt)
		eo_xact_drop(a->held);
	eo_error_raise(&answer->error, "acquire", a->ask->key, a->k.store->server->name);
}

/*
 * A finished record is past its ttl and has not been swept: replace exactly this
 * record.  No other acquire takes two requests.
 */
static Attempt
replace_expired(EoAcquiring *a)
{
	a->replacing = true;
	a->write.seen = eo_store_record(a->answer);
	a->answer = eo_store_record_plan(a->k.store, a->k.pk, EO_REPLACE, &a->write);
	/* The record that was seen ends with its answer. */
	eo_answer_spell(a->answer);
	return ATTEMPT_GOES_ON;
}

/*
 * Does the claim count as one that was made in a transaction block?  Outside a block
 * a claim outlives its statement, so that a later one can complete it.  A statement
 * that settles the key itself needs no such claim.
 */
static bool
counts_as_in_block(const EoAcquire *ask)
{
	return ask->settled_within || eo_xact_in_block();
}

static void
fill_info(EoAcquiring *a, EoSlotInfo *info)
{
	const EoAcquire *ask = a->ask;
	const EoServer *server = a->k.store->server;

	eo_slot_info_init(info, EO_SLOT_ASKING, a->k.digest, a->token);
	/* Does the claim end with the transaction in every case? */
	info->bound = counts_as_in_block(ask) && !ask->keep && !ask->hold;
	info->session = ask->session;
	info->release_on_abort = !ask->hold;
	if (ask->payload_sha256 != NULL)
		strlcpy(info->fingerprint, ask->payload_sha256, sizeof(info->fingerprint));
	if (ask->handler != NULL)
		info->handler_hash = hash_of_handler(ask->handler);
	info->lease_ms = ask->lease_ms >= 0 ? ask->lease_ms : server->lease_ms;
	info->retention_s = ask->retention_s >= 0 ? ask->retention_s : server->retention_s;
	info->max_hold_ms = server->max_hold_ms;
	/* The first heartbeat is due when a third of the lease is over. */
	info->due_us = info->since_us + info->lease_ms * 1000 / 3;
}

static void
fill_write(EoAcquiring *a, EoWrite *w)
{
	const EoAcquire *ask = a->ask;
	const EoSlotInfo *info = a->held->info;

	memset(w, 0, sizeof(*w));
	w->owner = a->token;
	w->now_ms = eo_client_now_ms(&a->k.store->client);
	w->lease_ms = w->now_ms + info->lease_ms;
	w->skew_ms = a->k.store->server->clock_skew_ms;
	eo_record_keep(w, w->lease_ms, info->retention_s);
	w->holder = eo_text_holder();
	w->max_runs = ask->max_runs;
	w->bind = ask->session ? "session" : ask->hold ? "hold" : info->bound ? "tx" : "keep";
	w->payload_sha256 = ask->payload_sha256;
	w->handler = ask->handler;
	eo_origin_write(&info->origin, a->origin);
	w->origin = a->origin;
}

/* The key is claimed: note that in the slot, and wake the worker if need be. */
static void
take_acquired(EoAcquiring *a, const EoRecord *r)
{
	EoTxClaim  *held = a->held;

	eo_slot_acquired(held->slot, r->fence, r->runs, r->lease_ms, r->ttl_s);
	held->spared = r->spared;
	check_kept(a, r);
	eo_lost_watch(held, a->ask->on_lost);
	/* The first heartbeat may be due before the worker wakes by itself. */
	if (r->lease_ms - eo_client_now_ms(&a->k.store->client) < 3 * WORKER_NAP_MS)
		eo_database_wake(MyDatabaseId);
	eo_service_clock_share(&a->k.store->client);

	/* The session remembers the token of a claim that may outlive this. */
	if (held->unsettled != EO_UNSETTLED_FAILS)
	{
		EoSessionToken *remembered = eo_session_tokens_enter(a->k.store->server, a->k.pk);

		memcpy(remembered->token, held->info->token, sizeof(remembered->token));
		remembered->retention_s = held->info->retention_s;
	}
	eo_key_see_progress(&a->k, held, held->info->token, r);
	put_acquired(a->claim, held);
}

/*
 * The request was refused: remove the claim.  If an earlier copy of the request may
 * still arrive, the worker buries what that writes, and its token is not used again.
 */
static void
drop_refused(EoAcquiring *a)
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
 * The record is that of another run, or of a claim that this session had before.
 * Fill in what it means, or find that the key can be asked for again.
 */
static Attempt
explain_refusal(EoAcquiring *a, const EoRecord *r)
{
	EoClaim    *claim = a->claim;
	EoFate		fate = EO_FATE_ELSEWHERE;
	int64		retention_s = 0;
	EoState		state = r->state;

	/* PostgreSQL may know of a commit that the record does not show yet. */
	if (state == EO_STATE_COMMITTING)
		fate = eo_settle_fate(a->k.store, r, &retention_s);
	if (fate == EO_FATE_COMMITTED)
		state = EO_STATE_COMPLETED;
	claim->mine = match_remembered(a, r, state);

	/*
	 * Its transaction was rolled back, or ended with its life; or the worker
	 * has settled the record since, and then the write that gives it back is
	 * refused.
	 */
	if ((fate == EO_FATE_ABORTED || is_left_behind(a, r)) &&
		eo_settle_aborted(a->k.store, a->ask->key, a->k.pk, r))
		return ATTEMPT_RACED;
	check_request(a, r->payload_sha256, r->handler, eo_record_state_name(state));
	check_readable(a, r, state);

	claim->fence = r->fence;
	claim->runs = r->runs;
	claim->progress = eo_text_copy(r->progress);
	claim->expires_at_ms = r->ttl_s * 1000;
	if (fate == EO_FATE_COMMITTED)
		claim->expires_at_ms = 1000 *
			eo_record_ttl_after(r->updated_ms, eo_record_retention(r, retention_s));
	switch (state)
	{
		case EO_STATE_COMPLETED:
			eo_settle_check_visible(r, a->ask->key, a->k.store->server->name);
			claim->outcome = EO_CLAIM_COMPLETED;
			claim->result = eo_text_copy(r->result);
			claim->mine = false;
			claim->replayed = true;
			if (!claim->answered_from_cache)
				eo_cache_put(a->k.store, a->cache_digest, r, a->cache_mark);
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
 * Is the record's claim the one whose token this role remembers in this session?  The token is
 * forgotten if the claim is another one, or if the record shows that it is over.
 */
static bool
match_remembered(const EoAcquiring *a, const EoRecord *r, EoState state)
{
	const EoServer *server = a->k.store->server;
	EoSessionToken *remembered = eo_session_tokens_find(server, a->k.pk);
	bool		same = remembered != NULL && strcmp(remembered->token, r->owner) == 0;

	if (remembered != NULL && (!same || (state != EO_STATE_IN_PROGRESS &&
										 state != EO_STATE_COMMITTING)))
		eo_session_tokens_forget(server, a->k.pk, NULL);
	return same;
}

/* Has the claim ended with its life, which the worker knows to be over? */
static bool
is_left_behind(const EoAcquiring *a, const EoRecord *r)
{
	EoLifeWatch watch;

	return r->state == EO_STATE_IN_PROGRESS && r->has_origin &&
		eo_life_watch_find(&a->k.target, r->origin.life, &watch) && watch == EO_WATCH_OVER &&
		eo_settle_is_left(r, a->k.digest);
}

/* Is the record still sealed by this claim?  Raises if it cannot be read. */
static bool
is_still_sealed(const EoAcquiring *a, const char *owner)
{
	EoAnswer   *answer = eo_key_read(&a->k, "acquire");
	const EoRecord *now = eo_store_record(answer);
	bool		still;

	still = answer->exists && now->state == EO_STATE_COMMITTING && strcmp(now->owner, owner) == 0;
	eo_answer_free(answer);
	return still;
}

/*
 * The record is sealed, and its transaction is not known to have committed or
 * aborted.  If that cannot be told here, note the doubt; but the worker may have
 * finished the record since it was read, and removed the row.
 */
static Attempt
explain_committing(EoAcquiring *a, const EoRecord *r, EoFate fate)
{
	a->claim->outcome = EO_CLAIM_IN_PROGRESS;
	if (fate == EO_FATE_UNKNOWN && !is_still_sealed(a, r->owner))
		return ATTEMPT_RACED;
	if (fate == EO_FATE_UNKNOWN)
	{
		EoSlotInfo	doubt;

		fill_info(a, &doubt);
		doubt.pid = 0;
		strlcpy(doubt.token, r->owner, sizeof(doubt.token));
		(void) eo_origin_read(r->origin_text, &doubt.origin);
		eo_slot_room_note_doubt(&a->k.target, a->k.pk, &doubt);
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("key \"%s\" on server \"%s\" is in doubt", eo_text_key_shown(a->ask->key),
						a->k.store->server->name),
				 errdetail("Its record names a commit of this database of which there is no trace that can be relied on."),
				 errhint("Find out whether its work was done, and say so with idem_resolve().")));
	}
	return ATTEMPT_ANSWERED;
}

/* A run holds the key; or its lease is dead, and no other run is allowed. */
static Attempt
explain_in_progress(EoAcquiring *a, const EoRecord *r)
{
	int64		max_runs = a->ask->max_runs;
	EoClaim    *claim = a->claim;

	claim->outcome = EO_CLAIM_IN_PROGRESS;
	claim->lease_until_ms = r->lease_ms;
	if (r->lease_ms >= eo_store_dead_before_ms(a->k.store))
		return ATTEMPT_ANSWERED;
	if (max_runs == 0 || r->runs < max_runs)
		return ATTEMPT_RACED;	/* the lease has died since the write */

	/* The last run that max_runs allows died without a result. */
	claim->outcome = EO_CLAIM_FAILED;
	claim->out_of_runs = true;
	claim->mine = false;
	claim->replayed = true;
	claim->error = psprintf("{\"message\": \"run %lld of %lld ended without a result\"}",
							(long long) r->runs, (long long) max_runs);
	return ATTEMPT_ANSWERED;
}

/* The last run failed: for good, or until retry_ms. */
static Attempt
explain_failed(EoAcquiring *a, const EoRecord *r)
{
	bool		out_of_runs = a->ask->max_runs > 0 && r->runs >= a->ask->max_runs;
	EoClaim    *claim = a->claim;

	claim->mine = false;
	claim->replayed = true;
	if (r->has_retry && !out_of_runs)
	{
		/* It has become due since the write, or failed under our token. */
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
	claim->error = eo_text_copy(r->error);
	return ATTEMPT_ANSWERED;
}

/*
 * Raise ID003 if the key was claimed with another payload, or for another handler: a
 * request must not get the result of a different one.  Each is NULL, or the fingerprint
 * empty, if the key was claimed without.
 */
static void
check_request(const EoAcquiring *a, const char *fingerprint, const char *handler,
			  const char *state)
{
	const EoAcquire *ask = a->ask;
	const char *server = a->k.store->server->name;

	if (ask->payload_sha256 != NULL && fingerprint != NULL && fingerprint[0] != '\0' &&
		strcmp(ask->payload_sha256, fingerprint) != 0)
		eo_error_raise_other_payload(ask->key, server, state);
	if (ask->handler != NULL && handler != NULL && strcmp(ask->handler, handler) != 0)
		eo_error_raise_other_handler(ask->key, server, handler, ask->handler, state);
}

/* As a slot keeps it: never 0. */
static uint64
hash_of_handler(const char *handler)
{
	return hash_bytes_extended((const unsigned char *) handler, (int) strlen(handler), 0) | 1;
}

/*
 * Raise if the record has a number or progress that cannot be read.  A claim that has been made
 * of such a record is given back by the error.
 */
static void
check_kept(const EoAcquiring *a, const EoRecord *r)
{
	if (r->odd_number != NULL)
		eo_error_raise_odd_number("acquire", a->ask->key, a->k.store->server->name, r->odd_number);
	if (r->odd_progress)
		eo_error_raise_odd("acquire", a->ask->key, a->k.store->server->name, "progress");
}

/* Raise if the record has what the caller is to be told in a form that cannot be read. */
static void
check_readable(EoAcquiring *a, const EoRecord *r, EoState state)
{
	const char *odd = a->ask->payload_sha256 != NULL && r->odd_payload_sha256 ? "payload_sha256" :
	a->ask->handler != NULL && r->odd_handler ? "handler" :
	state == EO_STATE_COMPLETED && r->odd_result ? "result" :
	state == EO_STATE_FAILED && r->odd_error ? "error" : NULL;

	check_kept(a, r);
	if (odd != NULL)
		eo_error_raise_odd("acquire", a->ask->key, a->k.store->server->name, odd);
}

/* ----- the error of a key that was not acquired ----- */

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
					 errmsg("key \"%s\" on server \"%s\" failed and may not be retried yet", eo_text_key_shown(key), server),
					 errdetail("It may be retried at %s, after %lld runs.",
							   show_instant(claim->retry_at_ms),
							   (long long) claim->runs),
					 errhint("Come back then. idem_get() shows what went wrong.")));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_EO_FAILED),
					 claim->out_of_runs ?
					 errmsg("key \"%s\" on server \"%s\" has no runs left", eo_text_key_shown(key), server) :
					 errmsg("key \"%s\" on server \"%s\" failed for good", eo_text_key_shown(key), server),
					 errdetail_plural("It ran %lld time.", "It ran %lld times.",
									  (unsigned long) claim->runs, (long long) claim->runs),
					 errhint("idem_get() shows what went wrong; an operator can redrive it with idem_forget().")));
	}
}

static const char *
show_instant(int64 ms)
{
	return timestamptz_to_str(time_t_to_timestamptz((pg_time_t) (ms / 1000)));
}
