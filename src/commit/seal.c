/*-------------------------------------------------------------------------
 *
 * seal.c
 *	  Before PostgreSQL commits: every key the transaction completes is put
 *	  out of anybody else's reach.
 *
 * A key that idem_complete() completes goes from IN_PROGRESS to COMMITTING, if
 * the claim is still ours; one of idem_once() is claimed by the same write that
 * seals it.  All are under way together, parallel_requests at a time, and share
 * one deadline, commit_timeout: statement_timeout is not armed at this point.
 *
 * The transaction goes on only if every key has a definite answer, and that
 * answer is "sealed".  An outcome that is not known is a failure here: the
 * transaction aborts, and the record is released by whoever comes to it.  The
 * other way round, taking it for a success, would commit work under a key that
 * somebody else may have.
 *
 * Slots are marked before the first request leaves, so that a crash in between
 * leaves a trace.  A raised error abandons what is still in flight and closes
 * those connections; the memory of the answers goes with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "commit/seal.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "compat.h"
#include "dynamodb/call.h"
#include "dynamodb/client.h"
#include "dynamodb/clock.h"
#include "dynamodb/origin.h"
#include "dynamodb/record.h"
#include "dynamodb/window.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "utils/memutils.h"

#define RETRY_LATER "Retry the transaction later."

typedef struct Sealing
{
	dlist_head *claims;
	dlist_node *next;			/* to be looked at; NULL: none */
	EoOrigin	origin;
	char		origin_text[EO_ORIGIN_LEN + 1];
	int64		deadline_us;
	int			parallel;
	int			commit_timeout_ms;
	EoWindow	window;
} Sealing;

static void begin_sealing(Sealing *s);
static bool start_next(EoWindow *window, void *arg);
static void take_finished(EoWindow *window, EoCall *call, void *arg);
static void start_claim(Sealing *s, EoTxClaim *claim, EoVerb verb, const EoRecord *seen);
static void judge(Sealing *s, EoAnswer *answer);
static void judge_refused_new(Sealing *s, EoTxClaim *claim, EoAnswer *answer);
static bool settles_here(EoTxClaim *claim, const EoRecord *r);
static void look_around(EoTxClaim *claim);
pg_noreturn static void raise_duplicate(const EoTxClaim *claim);

void
eo_seal(dlist_head *claims)
{
	Sealing		s = {.claims = claims,.window = {.n = 0}};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "exactonce seal",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	begin_sealing(&s);
	eo_window_run(&s.window, s.parallel, start_next, take_finished, &s);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* Start the seal of the next completed claim. */
static bool
start_next(EoWindow *window, void *arg)
{
	Sealing    *s = arg;

	(void) window;
	while (s->next != NULL)
	{
		EoTxClaim  *claim = dlist_container(EoTxClaim, node, s->next);

		s->next = dlist_has_next(s->claims, s->next) ? dlist_next_node(s->claims, s->next) : NULL;
		if (!eo_xact_is_completed(claim))
			continue;
		start_claim(s, claim, claim->info->once ? EO_SEAL_NEW : EO_SEAL, NULL);
		return true;
	}
	return false;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	Sealing    *s = arg;
	EoAnswer   *answer = eo_answer_of_call(call);

	if (eo_answer_take(answer, window, s->deadline_us))
		judge(s, answer);
}

/* Name this commit. */
static void
begin_sealing(Sealing *s)
{
	EoDatabaseInfo db;
	dlist_iter	iter;

	if (!eo_database_info(MyDatabaseId, &db) || db.incarnation == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the exactonce worker of this database has not started"),
				 errhint("See the server's log; exactonce needs a background worker for each database, see max_worker_processes.")));
	memcpy(s->origin.database, db.origin, sizeof(s->origin.database));
	s->origin.incarnation = db.incarnation;
	s->origin.xid = U64FromFullTransactionId(GetTopFullTransactionId());
	s->origin.timeline = eo_compat_timeline();
	s->origin.lsn = GetXLogInsertRecPtr();
	eo_origin_write(&s->origin, s->origin_text);

	s->commit_timeout_ms = 0;
	s->parallel = 1;
	s->next = dlist_is_empty(s->claims) ? NULL : dlist_head_node(s->claims);
	dlist_foreach(iter, s->claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);
		const EoServer *server = c->store->server;

		if (!eo_xact_is_completed(c))
			continue;
		if (s->commit_timeout_ms == 0 || server->commit_timeout_ms < s->commit_timeout_ms)
			s->commit_timeout_ms = server->commit_timeout_ms;
		s->parallel = Max(s->parallel, server->parallel_requests);
		if (c->info->once)
			look_around(c);
	}
	s->parallel = Min(s->parallel, EO_MAX_PARALLEL);
	s->deadline_us = eo_clock_monotonic_us() + (int64) s->commit_timeout_ms * 1000;
}

/* A key of idem_once() that this cluster knows of need not be asked about. */
static void
look_around(EoTxClaim *claim)
{
	EoSlotView	view;

	if (!eo_slot_find(claim->info->digest, &view))
		return;
	if (eo_slot_state_is_over(view.info.state))
	{
		eo_settle_on_the_spot(claim->store, claim->key, &view);
		return;
	}
	eo_error_raise_in_progress(claim->key, claim->store->server->name,
							   psprintf("Process %d of this cluster holds it.", view.info.pid),
							   RETRY_LATER);
}

static void
start_claim(Sealing *s, EoTxClaim *claim, EoVerb verb, const EoRecord *seen)
{
	EoWrite		w = {0};
	EoAnswer   *answer;

	/*
	 * From here on it may be sealed; a claim that was not sent is not
	 * touched.
	 */
	if (claim->info->state != EO_SLOT_SEALING)
		eo_slot_sealing(claim->slot, &s->origin);
	w.owner = claim->info->token;
	w.origin = s->origin_text;
	w.bind = claim->info->release_on_abort ? "tx" : claim->earlier ? "keep" : "hold";
	w.now_ms = eo_client_now_ms(&claim->store->client);
	w.skew_ms = claim->store->server->clock_skew_ms;
	w.result = claim->result;
	w.result_len = claim->result_len;
	w.seen = seen;
	answer = eo_store_prepare_write(claim->store, claim->pk, verb, &w);
	answer->user = claim;
	if (!eo_answer_start(answer, &s->window, s->deadline_us))
		judge(s, answer);
}

static void
judge(Sealing *s, EoAnswer *answer)
{
	EoTxClaim  *claim = answer->user;
	const char *server = claim->store->server->name;

	switch (answer->outcome)
	{
		case EO_APPLIED:
			break;
		case EO_READ:
		case EO_FAILED_CALL:
			eo_error_raise(&answer->error, "commit", claim->key, server);
		case EO_NOT_APPLIED:
			if (claim->info->once)
			{
				judge_refused_new(s, claim, answer);
				break;
			}
			if (answer->exists && settles_here(claim, eo_answer_record(answer)))
			{
				start_claim(s, claim, EO_SEAL, NULL);
				break;
			}
			eo_error_raise_lost(claim->key, server, true,
								eo_error_lost_detail(answer->exists ? eo_answer_record(answer) : NULL),
								"The transaction was rolled back. Acquire the key again and retry.");
	}
	eo_answer_free(answer);
}

/*
 * A record that an ended transaction of this database left COMMITTING is in
 * nobody's hands: true, it has been given back, and can be asked for again.
 */
static bool
settles_here(EoTxClaim *claim, const EoRecord *r)
{
	int64		retention_s;

	if (r->state != EO_STATE_COMMITTING ||
		eo_settle_fate(r, claim->info->digest, &retention_s) != EO_FATE_ABORTED)
		return false;
	eo_settle_aborted(claim->store, claim->key, claim->pk, r);
	return true;
}

/* The record that refused a claim at commit says what the key is. */
static void
judge_refused_new(Sealing *s, EoTxClaim *claim, EoAnswer *answer)
{
	const EoRecord *r = eo_answer_record(answer);
	const char *server = claim->store->server->name;
	int64		now_ms = eo_client_now_ms(&claim->store->client);
	int64		retention_s;

	/*
	 * It was refused, and no copy of it is under way: there is nothing to
	 * undo.
	 */
	claim->in_doubt |= answer->call.in_doubt;
	if (!claim->in_doubt)
		eo_slot_seal_refused(claim->slot);
	if (answer->exists && eo_store_is_expired(claim->store, r))
	{
		start_claim(s, claim, EO_SEAL_EXPIRED, r);
		return;
	}
	if (answer->exists && r->state == EO_STATE_COMPLETED)
		raise_duplicate(claim);
	if (answer->exists && r->state == EO_STATE_COMMITTING)
	{
		if (eo_settle_fate(r, claim->info->digest, &retention_s) == EO_FATE_COMMITTED)
			raise_duplicate(claim);
		if (settles_here(claim, r))
		{
			start_claim(s, claim, EO_SEAL_NEW, NULL);
			return;
		}
	}
	if (answer->exists && r->state == EO_STATE_FAILED &&
		(!r->has_retry || r->retry_ms > now_ms))
		ereport(ERROR,
				(errcode(ERRCODE_EO_FAILED),
				 errmsg("key \"%s\" on server \"%s\" failed and may not be retried", claim->key, server),
				 errhint("idem_get() shows what went wrong and when it may be retried; an operator can redrive it with idem_forget().")));
	eo_error_raise_in_progress(claim->key, server,
							   "Another run has claimed it and has not settled it.", RETRY_LATER);
}

static void
raise_duplicate(const EoTxClaim *claim)
{
	eo_error_raise_duplicate(claim->guard, claim->key, claim->store->server->name,
							 "The key is completed already. The transaction was rolled back.");
}
