/*-------------------------------------------------------------------------
 *
 * seal.c
 *	  Before PostgreSQL commits: seal the keys that the transaction completes.
 *
 * A sealed record is COMMITTING, and no other run can claim its key.  The seal of
 * a key that idem_complete() completes is a write from IN_PROGRESS to COMMITTING,
 * on condition that the claim is still ours.  The seal of a key of idem_once() is
 * its claim at the same time.  The seals of all keys run in parallel,
 * parallel_requests at a time, and share one deadline, commit_timeout, because
 * PostgreSQL does not apply statement_timeout while a transaction commits.
 *
 * If there are more keys than that, which would take several rounds, they are sealed many to
 * a request (bundle.h).  A key that such a request has not sealed, as far as is known, is
 * sealed by a request of its own, in the second half of the time.
 *
 * The transaction may commit only if there is a definite answer for every key, and
 * each answer is "sealed".  An unknown outcome counts as a failure: the transaction
 * aborts, and the record is given back by the worker, or by a session that meets
 * the key.  If it counted as a success, work could be committed under a key that
 * another run holds.
 *
 * Each slot becomes SEALING before its request leaves, so that after a crash it is
 * known that the record may be sealed.  If an error is raised, the requests in
 * flight are ended and their connections closed; the answers are freed with the
 * transaction's memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "cluster/life.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/prepared.h"
#include "commit/seal.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "compat.h"
#include "ledger/clock_sync.h"
#include "ledger/lives.h"
#include "records/action_seal.h"
#include "records/origin.h"
#include "records/window.h"
#include "server/answer.h"
#include "server/bundle.h"
#include "server/error.h"
#include "server/stats.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/text.h"
#include "utils/memutils.h"
#include "wire/call.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "wire/status.h"

#define RETRY_LATER "Retry the transaction later."

typedef struct Sealing
{
	dlist_head *claims;
	dlist_node *next;			/* of claims, not looked at yet; NULL: none */
	EoOrigin	origin;			/* the name of this commit, for slots */
	char		origin_text[EO_ORIGIN_LEN + 1]; /* the same, for records */
	int			nkeys;
	int			timeout_ms;		/* the smallest commit_timeout */
	int64		deadline_us;
	int			parallel;		/* requests at a time */
	bool		bundles;		/* keys may share requests */
	List	   *alone;			/* claims that were in a bundle, and now need
								 * a request of their own */
	EoWindow	window;
} Sealing;

pg_noreturn static void raise_life_is_over(const EoTxClaim *claim);
pg_noreturn static void raise_place_is_barred(const EoTxClaim *claim);
pg_noreturn static void raise_duplicate(const EoTxClaim *claim);
static void start_claim(Sealing *s, EoTxClaim *claim, EoVerb verb, const EoRecord *seen);

static void forget_waits(dlist_head *claims);
static void count_time(dlist_head *claims, int64 us);
static void name_commit(Sealing *s);
static void renew_leases(Sealing *s, EoLife *life);
static void set_limits(Sealing *s);
static void check_slots(EoTxClaim *claim);
static bool start_next(EoWindow *window, void *arg);
static EoAnswer *next_together(EoBundle *bundle);
static void begin_together(EoBundle *bundle);
static void take_together(EoAnswer *answer, void *arg);
static void take_finished(EoWindow *window, EoCall *call, void *arg);
static void need_clock(const Sealing *s, const EoTxClaim *claim);
static void begin_sealing(const Sealing *s, EoTxClaim *claim);
static EoAnswer *plan_seal(const Sealing *s, EoTxClaim *claim, EoVerb verb, const EoRecord *seen);
static void take_answer(Sealing *s, EoAnswer *answer);
static void check_not_repeated(const EoTxClaim *claim, const EoRecord *r);
static bool give_back_aborted(EoTxClaim *claim, const EoRecord *r);
static void take_refused_once(Sealing *s, EoTxClaim *claim, EoAnswer *answer);
static void take_refused_action(Sealing *s, EoTxClaim *claim, EoAnswer *answer);

void
eo_seal(dlist_head *claims)
{
	Sealing		s = {.claims = claims,.window = {.n = 0}};
	int64		started_us = eo_clock_monotonic_us();
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "exactonce seal",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	set_limits(&s);
	name_commit(&s);
	forget_waits(claims);
	eo_window_run(&s.window, s.parallel, start_next, take_finished, &s);
	count_time(claims, eo_clock_monotonic_us() - started_us);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* A wait for the credentials of a server was part of the call that waited, not of the commit. */
static void
forget_waits(dlist_head *claims)
{
	dlist_iter	iter;

	dlist_foreach(iter, claims)
		dlist_container(EoTxClaim, node, iter.cur)->store->client.waited_us = 0;
}

/* Count the seal once for each server, as far as their claims follow each other. */
static void
count_time(dlist_head *claims, int64 us)
{
	const EoStats *last = NULL;
	dlist_iter	iter;

	dlist_foreach(iter, claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->info->state != EO_SLOT_SEALING || c->store->stats == last)
			continue;
		eo_stats_add_time(c->store->stats, EO_MEASURE_SEAL, us);
		last = c->store->stats;
	}
}

/* Fill in the origin: which transaction of which database commits. */
static void
name_commit(Sealing *s)
{
	EoLife		life;

	do
		renew_leases(s, &life);
	while (!eo_life_is_current(MyDatabaseId, life.id));
	memcpy(s->origin.life, life.id, sizeof(s->origin.life));
	s->origin.xid = U64FromFullTransactionId(GetTopFullTransactionId());
	s->origin.timeline = eo_compat_timeline();
	s->origin.lsn = GetXLogInsertRecPtr();
	eo_origin_write(&s->origin, s->origin_text);
}

/*
 * See that the current life has a young lease in each table in which it seals.  The
 * rows of the outbox must name that life, because its heir is to finish them.
 */
static void
renew_leases(Sealing *s, EoLife *life)
{
	EoStore    *last = NULL;
	bool		renewed = false;
	dlist_iter	iter;

	memset(life, 0, sizeof(*life));
	dlist_foreach(iter, s->claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);
		EoTarget	target;

		if (!eo_xact_is_completed(c))
			continue;
		if (c->store != last)
		{
			eo_target_of(c->store, &target);
			renewed = eo_lives_renew(c->store, &target, c->row_life, c->key, s->deadline_us);
			last = c->store;
		}
		if (!eo_life_current(MyDatabaseId, life) ||
			memcmp(c->row_life, life->id, EO_UUID_LEN) != 0)
			raise_life_is_over(c);
		if (!renewed)
			raise_place_is_barred(c);
	}
}

static void
raise_life_is_over(const EoTxClaim *claim)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_UNAVAILABLE),
			 errmsg("cannot commit key \"%s\" on server \"%s\": the life of this database under which it was completed is over",
					eo_text_key_shown(claim->key), claim->store->server->name),
			 errdetail("Another server has taken over from this one, or its item in the table was removed."),
			 errhint("The transaction was rolled back. Retry it; see exactonce_lives.")));
}

static void
raise_place_is_barred(const EoTxClaim *claim)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_UNAVAILABLE),
			 errmsg("cannot commit key \"%s\" on server \"%s\": the lease of this database in its table was lost",
					eo_text_key_shown(claim->key), claim->store->server->name),
			 errdetail("The item of its life in the table was retired, changed or removed."),
			 errhint("The transaction was rolled back. Find out who writes the ORIGIN items of that table; see exactonce_lives.")));
}

/*
 * Set the deadline and the number of parallel requests: of the servers involved,
 * the smallest commit_timeout and the largest parallel_requests.
 */
static void
set_limits(Sealing *s)
{
	dlist_iter	iter;

	s->parallel = 1;
	s->next = dlist_is_empty(s->claims) ? NULL : dlist_head_node(s->claims);
	dlist_foreach(iter, s->claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);
		const EoServer *server = c->store->server;

		if (!eo_xact_is_completed(c))
			continue;
		s->nkeys++;
		if (s->timeout_ms == 0 || server->commit_timeout_ms < s->timeout_ms)
			s->timeout_ms = server->commit_timeout_ms;
		s->parallel = Max(s->parallel, server->parallel_requests);
		if (c->info->once)
			check_slots(c);
	}
	s->parallel = Min(s->parallel, EO_MAX_PARALLEL);
	s->bundles = s->nkeys > s->parallel;
	/* The time for check_slots() is not part of commit_timeout. */
	s->deadline_us = eo_clock_monotonic_us() + (int64) s->timeout_ms * 1000;
}

/*
 * Look up a key of idem_once() in the claim table.  If another session of this
 * cluster holds it raise ID001, without a request.  If an ended transaction has
 * left something to be settled, settle it, so that the seal can succeed.
 */
static void
check_slots(EoTxClaim *claim)
{
	EoSlotView	view;

	if (!eo_prepared_find_slot(claim->info->digest, &view))
		return;
	if (eo_slot_state_is_over(view.info.state))
	{
		eo_settle_on_the_spot(claim->store, claim->key, &view);
		return;
	}
	/* If a prepared transaction has given the claim up, the record decides. */
	if (eo_slot_is_prepared(&view.info) && view.info.state != EO_SLOT_SEALING)
		return;
	/* A session that cannot sign as the holder does learns nothing here. */
	if (!eo_store_is_trusted(claim->store, view.info.credentials_hash))
		return;
	/* The lease has run out, so others may have completed the key. */
	if (eo_slot_view_lease_is_dead(&view, eo_store_dead_before_ms(claim->store)))
		return;
	eo_error_raise_in_progress(claim->key, claim->store->server->name,
							   eo_slot_is_prepared(&view.info) ?
							   "A prepared transaction of this cluster holds it." :
							   psprintf("Process %d of this cluster holds it.", view.info.pid),
							   RETRY_LATER);
}

/* Go on to the claim after the next one. */
static void
pass(Sealing *s)
{
	s->next = dlist_has_next(s->claims, s->next) ? dlist_next_node(s->claims, s->next) : NULL;
}

/* The next completed claim; NULL: there is none. */
static EoTxClaim *
next_claim(Sealing *s)
{
	while (s->next != NULL)
	{
		EoTxClaim  *claim = dlist_container(EoTxClaim, node, s->next);

		if (eo_xact_is_completed(claim))
			return claim;
		pass(s);
	}
	return NULL;
}

static EoVerb
verb_of(const EoTxClaim *claim)
{
	return claim->info->once ? EO_SEAL_NEW : EO_SEAL;
}

/* Start the seal of the next completed claim, or of several of them. */
static bool
start_next(EoWindow *window, void *arg)
{
	static const EoBundleOwner owner = {
		.next = next_together,.sending = begin_together,.take = take_together
	};
	Sealing    *s = arg;
	EoTxClaim  *claim;

	if (s->alone != NIL)
	{
		claim = linitial(s->alone);
		s->alone = list_delete_first(s->alone);
		start_claim(s, claim, verb_of(claim), NULL);
		return true;
	}
	claim = next_claim(s);
	if (claim == NULL)
		return false;
	if (s->bundles)
	{
		need_clock(s, claim);
		if (eo_bundle_start_next(claim->store, &owner, s, window, s->deadline_us))
			return true;
	}
	pass(s);
	start_claim(s, claim, verb_of(claim), NULL);
	return true;
}

/* The claims of a server can share a request. */
static EoAnswer *
next_together(EoBundle *bundle)
{
	Sealing    *s = bundle->arg;
	EoTxClaim  *claim = next_claim(s);

	if (claim == NULL || claim->store != bundle->store)
		return NULL;
	pass(s);
	return plan_seal(s, claim, verb_of(claim), NULL);
}

static void
begin_together(EoBundle *bundle)
{
	for (int i = 0; i < bundle->n; i++)
		begin_sealing(bundle->arg, bundle->members[i]->user);
}

/* A key that is not known to be sealed is asked for by itself. */
static void
take_together(EoAnswer *answer, void *arg)
{
	Sealing    *s = arg;
	EoTxClaim  *claim = answer->user;

	if (answer->outcome != EO_APPLIED)
	{
		claim->in_doubt |= answer->call.in_doubt;

		/*
		 * If another seal fails the commit now, nothing is left to be buried.
		 */
		if (claim->info->once && !claim->in_doubt)
			eo_slot_seal_refused(claim->slot);
		s->alone = lappend(s->alone, claim);
	}
	eo_answer_free(answer);
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	Sealing    *s = arg;
	EoAnswer   *answer;

	if (eo_bundle_take(call))
		return;
	answer = eo_answer_of_call(call);
	if (eo_answer_take(answer, window, s->deadline_us))
		take_answer(s, answer);
}

/* Make sure that the service's clock is known, until the deadline of the commit. */
static void
need_clock(const Sealing *s, const EoTxClaim *claim)
{
	EoError		error;

	if (!eo_clock_sync_make(claim->store, s->deadline_us, &error))
		eo_error_raise_commit(&error, claim->key, claim->store->server->name, s->nkeys,
							  s->timeout_ms);
}

/*
 * From here on the record may be sealed.  A slot whose seal has not been started keeps its
 * state, so that an abort does no more than it must.
 *
 * The lease that is looked at before the commit is that of the slot's place.  A seal that is sent
 * again may find that the store has a place of the life after the one which it names, and that
 * lease is of no use.  A life that is over never comes back: while it is current the place is its
 * own, unless it is barred there, and then the last callback finds no lease.
 */
static void
begin_sealing(const Sealing *s, EoTxClaim *claim)
{
	if (claim->info->state == EO_SLOT_SEALING)
		return;
	if (!eo_life_is_current(MyDatabaseId, s->origin.life))
		raise_life_is_over(claim);
	eo_slot_sealing(claim->slot, &s->origin, claim->store->place);
}

/* Send one seal.  seen: the expired record that EO_SEAL_EXPIRED replaces. */
static void
start_claim(Sealing *s, EoTxClaim *claim, EoVerb verb, const EoRecord *seen)
{
	EoAnswer   *answer;

	need_clock(s, claim);
	begin_sealing(s, claim);
	answer = plan_seal(s, claim, verb, seen);
	if (!eo_answer_start(answer, &s->window, s->deadline_us))
		take_answer(s, answer);
}

static EoAnswer *
plan_seal(const Sealing *s, EoTxClaim *claim, EoVerb verb, const EoRecord *seen)
{
	EoWrite		w = {0};
	EoAnswer   *answer;

	w.owner = claim->info->token;
	w.origin = s->origin_text;
	w.bind = claim->info->release_on_abort ? "tx" : claim->of_session ? "session" :
		claim->earlier ? "keep" : "hold";
	w.now_ms = eo_client_now_ms(&claim->store->client);
	w.retention_s = claim->info->retention_s;
	w.holder = eo_text_holder();
	w.skew_ms = claim->store->server->clock_skew_ms;
	w.action = claim->action;
	w.result = claim->result;
	w.result_len = claim->result_len;
	w.writes = claim->writes;
	w.seen = seen;
	answer = eo_store_record_plan(claim->store, claim->pk, verb, &w);
	answer->user = claim;
	return answer;
}

/* The claim is sealed, or another request is started for it, or this raises. */
static void
take_answer(Sealing *s, EoAnswer *answer)
{
	EoTxClaim  *claim = answer->user;
	const char *server = claim->store->server->name;
	const EoRecord *r = answer->exists ? eo_store_record(answer) : NULL;

	switch (answer->outcome)
	{
		case EO_APPLIED:
			break;
		case EO_READ:
		case EO_FAILED_CALL:
			claim->in_doubt |= answer->call.in_doubt;

			/*
			 * The condition compared with a wrong clock: write it anew, until
			 * the deadline.
			 */
			if (answer->call.clock_moved)
			{
				start_claim(s, claim, EO_SEAL_NEW, NULL);
				break;
			}

			/*
			 * Nothing was written, and no copy is under way: there is nothing
			 * to bury, or to note as undone.
			 */
			if ((claim->info->once || !claim->info->release_on_abort) &&
				!claim->in_doubt && answer->error.status != EO_UNKNOWN)
				eo_slot_seal_refused(claim->slot);
			eo_error_raise_commit(&answer->error, claim->key, server, s->nkeys, s->timeout_ms);
		case EO_NOT_APPLIED:

			/*
			 * Another copy of it may still arrive, also when the seal is sent
			 * again.
			 */
			claim->in_doubt |= answer->call.in_doubt;
			if (claim->action != NULL)
			{
				take_refused_action(s, claim, answer);
				break;
			}
			if (claim->info->once)
			{
				take_refused_once(s, claim, answer);
				break;
			}
			if (r != NULL)
				check_not_repeated(claim, r);
			if (r != NULL && give_back_aborted(claim, r))
			{
				start_claim(s, claim, EO_SEAL, NULL);
				break;
			}
			eo_error_raise_lost(claim->key, server, true,
								eo_error_lost_detail(r),
								"The transaction was rolled back. Acquire the key again and retry.");
	}
	eo_answer_free(answer);
}

/*
 * A caller that has not got the answer to its COMMIT repeats the transaction, with the
 * token.  If the first one has committed its work is done, and this transaction must
 * not do it once more.
 */
static void
check_not_repeated(const EoTxClaim *claim, const EoRecord *r)
{
	if (r->state != EO_STATE_COMPLETED || strcmp(r->owner, claim->info->token) != 0)
		return;
	eo_error_raise_repeated(claim->key, claim->store->server->name,
							eo_text_is_same(r->result, claim->result));
}

/*
 * If the record was left COMMITTING by an earlier transaction of this database that
 * was rolled back, give it back.  Returns true if so: then the seal can be sent
 * again.
 */
static bool
give_back_aborted(EoTxClaim *claim, const EoRecord *r)
{

	if (r->state != EO_STATE_COMMITTING ||
		eo_settle_fate(claim->store, r, NULL) != EO_FATE_ABORTED)
		return false;
	return eo_settle_aborted(claim->store, claim->key, claim->pk, r);
}

/*
 * The seal of an idem_once() was refused.  The record that refused it says what
 * the key is: start another request, or raise.
 */
static void
take_refused_once(Sealing *s, EoTxClaim *claim, EoAnswer *answer)
{
	const EoRecord *r = eo_store_record(answer);
	const char *server = claim->store->server->name;

	need_clock(s, claim);

	/*
	 * If no copy of the request can arrive any more there is nothing to undo:
	 * the claim is PLANNED again, and an abort frees its slot.  Otherwise the
	 * slot stays SEALING, and an abort has the worker bury the record.
	 */
	if (!claim->in_doubt)
		eo_slot_seal_refused(claim->slot);
	if (answer->exists && eo_store_is_replaceable(claim->store, r))
	{
		start_claim(s, claim, EO_SEAL_EXPIRED, r);
		return;
	}
	if (answer->exists && r->state == EO_STATE_COMPLETED)
		raise_duplicate(claim);
	if (answer->exists && r->state == EO_STATE_COMMITTING)
	{
		if (eo_settle_fate(claim->store, r, NULL) == EO_FATE_COMMITTED)
			raise_duplicate(claim);
		if (give_back_aborted(claim, r))
		{
			start_claim(s, claim, EO_SEAL_NEW, NULL);
			return;
		}
	}
	if (answer->exists && r->state == EO_STATE_FAILED &&
		(!r->has_retry || r->retry_ms > eo_client_now_ms(&claim->store->client)))
		ereport(ERROR,
				(errcode(ERRCODE_EO_FAILED),
				 errmsg("key \"%s\" on server \"%s\" failed and may not be retried", eo_text_key_shown(claim->key), server),
				 errhint("idem_get() shows what went wrong and when it may be retried; an operator can redrive it with idem_forget().")));
	eo_error_raise_in_progress(claim->key, server,
							   "Another run has claimed it and has not settled it.", RETRY_LATER);
}

/*
 * The seal of an action was refused: it was consumed, sealed, canceled or closed since the
 * call, or has expired.  See take_refused_once() about the slot.
 */
static void
take_refused_action(Sealing *s, EoTxClaim *claim, EoAnswer *answer)
{
	const EoRecord *r = eo_store_record(answer);
	const char *server = claim->store->server->name;
	bool		consumed;

	need_clock(s, claim);
	if (!claim->in_doubt)
		eo_slot_seal_refused(claim->slot);
	if (answer->exists && give_back_aborted(claim, r))
	{
		start_claim(s, claim, EO_SEAL_NEW, NULL);
		return;
	}
	consumed = answer->exists && (r->state == EO_STATE_COMPLETED ||
								  (r->state == EO_STATE_COMMITTING &&
								   eo_settle_fate(claim->store, r,
												  NULL) == EO_FATE_COMMITTED));
	if (answer->exists && r->state == EO_STATE_COMMITTING && !consumed)
		eo_error_raise_action_in_progress(claim->key, server, NULL, RETRY_LATER);
	if (consumed)
		eo_error_raise_action_consumed(claim->key, server, "The transaction was rolled back.", NULL);
	ereport(ERROR,
			(errcode(ERRCODE_EO_CLAIM_LOST),
			 errmsg("action \"%s\" on server \"%s\" cannot be consumed any more",
					eo_text_key_shown(claim->key), server),
			 errdetail("%s The transaction was rolled back.",
					   answer->exists ? eo_action_seal_refusal(r->item) : "Its item is gone."),
			 errhint("action_get() shows its state.")));
}

static void
raise_duplicate(const EoTxClaim *claim)
{
	eo_stats_add(claim->store->stats, EO_COUNT_DUPLICATES_SERVICE, 1);
	eo_error_raise_duplicate(claim->guard, claim->key, claim->store->server->name,
							 "The key is completed already. The transaction was rolled back.", NULL);
}
