/*-------------------------------------------------------------------------
 *
 * action.c
 *	  One-shot actions: the state machine, and what an answer means.
 *
 * An action is consumed by one conditional write, so there is one winner.  What
 * stood in the way comes back with the refusal and is classified in the order of
 * state_of(); never by a later read, which might see something else.
 *
 * With a PIN the order is: pay, look, consume.  An attempt is taken by a write
 * of its own, which returns the hash; only then is the PIN looked at; and only
 * who was right goes on to consume.  As no look comes before its payment, no
 * number of guesses at a time gets more looks than there are attempts, and a
 * call that ends between two of these steps has lost its attempt, not won one.
 *
 * The last attempt leaves the action without any while its PIN is looked at.  To
 * others it is burned from then on; should it be right it is consumed after all.
 * And a consume that left in time may arrive when the action has expired.  Those
 * are the two ways out of what is otherwise final.  close_action() shuts them for who has
 * to know: for cancel, whose answer is relied on, and for the caller whose own
 * earlier call took an attempt and was never answered.
 *
 * Nothing here is tied to the transaction: there are no slots, no worker and no
 * seal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "actions/action.h"
#include "actions/action_store.h"
#include "actions/pin.h"
#include "cluster/target.h"
#include "compat.h"
#include "dynamodb/action_item.h"
#include "dynamodb/call.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "dynamodb/record.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* How long an action can be consumed if nobody says otherwise. */
#define DEFAULT_LIFE_MS INT64CONST(2592000000)	/* 30 days */

/*
 * How long a caller's own earlier call is waited for where it took the last
 * attempt, and the first of the growing pauses.  A PIN takes 50 ms, and a request.
 */
#define OWN_CALL_US 1000000
#define LOOK_AGAIN_US 50000

/* Clocks that are set right while an action is cancelled. */
#define MAX_ROUNDS 3

/* Actions, and bytes of them, that are under way together. */
#define PART 1024
#define PART_BYTES (8 * 1024 * 1024)

StaticAssertDecl(EO_MAX_PIN_ATTEMPTS <= EO_MAX_PIN_TOKENS, "room for each attempt's token");

/* A plan on its way. */
typedef struct Entry
{
	const char *id;
	char		made_id[EO_ACTION_ID_LEN + 1];
	char		token[EO_TOKEN_LEN + 1];
	EoActionWrite write;
	EoAnswer   *answer;
} Entry;

static void check_plan(EoStore *store, EoActionPlan *plan, int n, int position);
static void check_twice(EoActionPlan *plans, int n);
static int	part_of(const EoActionPlan *plans, int n);
static void prepare(EoStore *store, const EoActionPlan *plan, Entry *entry);
static void emit_created(EoStore *store, Entry *entry, EoEmitAction emit, void *arg);
static bool take_attempt(EoStore *store, const char *pk, const EoConsume *ask, char *attempt,
						 EoActionResult *result);
static void look_at_pin(EoStore *store, const EoConsume *ask, const EoActionItem *action,
						EoActionResult *result);
pg_noreturn static void raise_unreadable(const EoAnswer *answer, const char *id);
pg_noreturn static void raise_pepper(const EoStore *store, const char *id);
static EoActionState state_of(const EoActionItem *action, int64 now_ms);
static void explain(const EoAnswer *answer, int64 now_ms, const char *token,
					EoActionResult *result);
static void take_consumed(const EoActionItem *action, bool replayed, EoActionResult *result);
static bool may_open(const EoAnswer *answer, const EoActionResult *result);
static void close_own(EoStore *store, const char *pk, const EoConsume *ask, EoActionVerb verb,
					  EoActionWrite *w, const EoAnswer *answer, EoActionResult *result);
static bool close_action(EoStore *store, const char *pk, const char *id, const char *token,
						 EoActionResult *result);
static void meet_clock(EoStore *store);
static void share_clock(EoStore *store);
pg_noreturn static void raise_failed(const EoAnswer *answer, EoActionVerb verb, const char *id);

/* ----- creating ----- */

void
eo_action_create(EoStore *store, EoActionPlan *plans, int n, EoEmitAction emit, void *arg)
{
	MemoryContext part = AllocSetContextCreate(CurrentMemoryContext, "exactonce actions",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;

	meet_clock(store);
	for (int i = 0; i < n; i++)
		check_plan(store, &plans[i], n, i + 1);
	check_twice(plans, n);
	old = MemoryContextSwitchTo(part);
	for (int first = 0; first < n;)
	{
		int			count = part_of(plans + first, n - first);
		Entry	   *entries = palloc0(sizeof(Entry) * count);
		EoAnswer  **answers = palloc(sizeof(EoAnswer *) * count);

		for (int i = 0; i < count; i++)
		{
			/* A PIN takes its time. */
			CHECK_FOR_INTERRUPTS();
			prepare(store, &plans[first + i], &entries[i]);
			answers[i] = entries[i].answer;
		}
		eo_answer_run(answers, count, store->server->parallel_requests, 0);
		share_clock(store);
		for (int i = 0; i < count; i++)
			emit_created(store, &entries[i], emit, arg);
		MemoryContextReset(part);
		first += count;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(part);
}

/* In a batch, which one it is. */
static const char *
where(int n, int position)
{
	return n > 1 ? psprintf("It is number %d of the actions. ", position) : "";
}

static void
check_plan(EoStore *store, EoActionPlan *plan, int n, int position)
{
	int64		now_ms = eo_client_now_ms(&store->client);
	size_t		id_len = plan->id != NULL ? strlen(eo_text_to_utf8(plan->id)) : EO_ACTION_ID_LEN;
	char	   *pk = plan->id != NULL ? eo_action_store_pk(store, plan->id) : NULL;
	size_t		payload_len = plan->payload != NULL ? strlen(plan->payload) : 0;
	size_t		max_payload;

	if (plan->id != NULL && pk == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("action id for server \"%s\" is too long", store->server->name),
				 errdetail("%sIt has %zu bytes; with its prefix DynamoDB allows %d.",
						   where(n, position), id_len, EO_MAX_KEY_BYTES),
				 errhint("Leave the id out to get one of %d characters.", EO_ACTION_ID_LEN)));
	max_payload = eo_action_item_max_payload(pk != NULL ? strlen(pk) : EO_MAX_KEY_BYTES, id_len);
	if (payload_len > max_payload)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("payload of an action on server \"%s\" is too large", store->server->name),
				 errdetail("%sIt has %zu bytes; there is room for %zu.",
						   where(n, position), payload_len, max_payload),
				 errhint("Store it elsewhere, and a reference to it in the action.")));
	if (plan->expires_ms == 0)
		plan->expires_ms = Min(Max(now_ms, plan->active_ms) + DEFAULT_LIFE_MS, EO_MAX_INSTANT_MS);
	if (plan->expires_ms <= now_ms || plan->expires_ms <= plan->active_ms)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("expires_at must be later than %s",
						plan->expires_ms <= now_ms ? "now" : "active_at"),
				 n > 1 ? errdetail("It is number %d of the actions.", position) : 0,
				 errhint("Nobody could ever consume the action.")));
}

static int
compare_ids(const void *a, const void *b)
{
	return strcmp((*(EoActionPlan *const *) a)->id, (*(EoActionPlan *const *) b)->id);
}

/* Of two with one id, chance would decide which is made. */
static void
check_twice(EoActionPlan *plans, int n)
{
	EoActionPlan **named = palloc_extended(sizeof(EoActionPlan *) * Max(1, n), MCXT_ALLOC_HUGE);
	int			nnamed = 0;

	for (int i = 0; i < n; i++)
	{
		if (plans[i].id != NULL)
			named[nnamed++] = &plans[i];
	}
	qsort(named, nnamed, sizeof(EoActionPlan *), compare_ids);
	for (int i = 1; i < nnamed; i++)
	{
		if (compare_ids(&named[i - 1], &named[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("action \"%s\" is given twice", named[i]->id),
					 errdetail("It is number %d and number %d of the actions.",
							   (int) (Min(named[i - 1], named[i]) - plans) + 1,
							   (int) (Max(named[i - 1], named[i]) - plans) + 1)));
	}
	pfree(named);
}

static int
part_of(const EoActionPlan *plans, int n)
{
	size_t		bytes = 0;
	int			i = 0;

	while (i < n && i < PART && bytes < PART_BYTES)
	{
		bytes += plans[i].payload != NULL ? strlen(plans[i].payload) : 0;
		i++;
	}
	return i;
}

static void
prepare(EoStore *store, const EoActionPlan *plan, Entry *entry)
{
	EoActionWrite *w = &entry->write;

	entry->id = plan->id;
	if (entry->id == NULL)
	{
		eo_action_make_id(entry->made_id);
		entry->id = entry->made_id;
	}
	eo_store_new_token(entry->token);
	w->token = entry->token;
	w->now_ms = eo_client_now_ms(&store->client);
	w->id = eo_text_to_utf8(entry->id);
	w->active_ms = plan->active_ms;
	w->expires_ms = plan->expires_ms;
	w->ttl_s = eo_record_ttl_after(plan->expires_ms, store->server->retention_s);
	w->payload = plan->payload;
	if (plan->pin != NULL)
	{
		w->pin_hash = eo_pin_hash(store, w->id, plan->pin);
		w->pin_pepper = eo_pin_pepper(store);
	}
	w->pin_attempts = store->server->pin_attempts;
	entry->answer = eo_action_store_prepare_write(store, eo_action_store_pk(store, entry->id),
												  EO_ACTION_CREATE, w);
}

static void
emit_created(EoStore *store, Entry *entry, EoEmitAction emit, void *arg)
{
	EoAnswer   *answer = entry->answer;
	EoActionResult result = {.id = entry->id,.attempts_left = -1};

	/* One that was refused for its time is tried again by the right one. */
	if (answer->call.clock_moved && !answer->call.in_doubt)
		answer = eo_action_store_write(store, eo_action_store_pk(store, entry->id),
									   EO_ACTION_CREATE, &entry->write);
	if (answer->outcome == EO_FAILED_CALL)
		raise_failed(answer, EO_ACTION_CREATE, entry->id);
	result.outcome = answer->outcome == EO_APPLIED ? EO_ACTION_CREATED : EO_ACTION_ALREADY_EXISTS;
	if (answer->outcome == EO_APPLIED)
	{
		result.created_ms = entry->write.now_ms;
		result.active_ms = entry->write.active_ms;
		result.expires_ms = entry->write.expires_ms;
	}
	emit(arg, &result);
}

/* ----- consuming ----- */

void
eo_action_consume(EoStore *store, const EoConsume *ask, EoActionResult *result)
{
	char	   *pk = eo_action_store_pk(store, ask->id);
	char		attempt[EO_ATTEMPT_LEN + 1];
	EoActionWrite w = {.token = ask->token,.reason = ask->reason,.consumer = ask->consumer};
	EoAnswer   *answer;

	memset(result, 0, sizeof(*result));
	result->id = ask->id;
	result->attempts_left = -1;
	result->outcome = EO_ACTION_NOT_FOUND;
	/* There can be no such action. */
	if (pk == NULL)
		return;
	meet_clock(store);
	attempt[0] = '\0';
	if (ask->pin != NULL && !take_attempt(store, pk, ask, attempt, result))
		return;
	w.attempt = attempt;
	answer = eo_action_store_write(store, pk, attempt[0] != '\0' ? EO_ACTION_CONSUME_PAID :
								   EO_ACTION_CONSUME, &w);
	if (answer->outcome == EO_FAILED_CALL)
		raise_failed(answer, EO_ACTION_CONSUME, ask->id);
	share_clock(store);

	/* Under this token at another instant: by an earlier call. */
	if (answer->outcome == EO_APPLIED)
	{
		const EoActionItem *action = eo_action_store_item(answer);

		take_consumed(action, action->consumed_ms != w.now_ms, result);
	}
	else
		explain(answer, w.now_ms, w.token, result);
	if (attempt[0] == '\0')
		close_own(store, pk, ask, EO_ACTION_CONSUME, &w, answer, result);
	eo_answer_free(answer);
}

/*
 * Pay, and look.  True: go on to consume; attempt is empty if no PIN is asked
 * for.  False: the result is filled in.
 */
static bool
take_attempt(EoStore *store, const char *pk, const EoConsume *ask, char *attempt,
			 EoActionResult *result)
{
	EoActionWrite w = {.token = attempt,.pin_pepper = eo_pin_pepper(store)};
	EoAnswer   *answer;
	bool		goes_on = false;

	/*
	 * A token of its own: under the caller's a second guess would count as
	 * the first one's repetition.  The caller's is beside it, see
	 * close_own().
	 */
	eo_store_new_token(attempt);
	snprintf(attempt + EO_TOKEN_LEN, EO_ATTEMPT_LEN + 1 - EO_TOKEN_LEN, "/%s", ask->token);
	answer = eo_action_store_write(store, pk, EO_ACTION_ATTEMPT, &w);
	if (answer->outcome == EO_FAILED_CALL)
		raise_failed(answer, EO_ACTION_ATTEMPT, ask->id);
	if (answer->outcome == EO_APPLIED)
	{
		look_at_pin(store, ask, eo_action_store_item(answer), result);
		goes_on = result->outcome == EO_ACTION_CONSUMED;
	}
	else if (!answer->exists || state_of(eo_action_store_item(answer), w.now_ms) != EO_ACTION_IS_ACTIVE)
	{
		explain(answer, w.now_ms, ask->token, result);
		close_own(store, pk, ask, EO_ACTION_ATTEMPT, &w, answer, result);
	}
	else if (eo_action_store_item(answer)->pin_hash != NULL)
		raise_pepper(store, ask->id);
	else
	{
		attempt[0] = '\0';
		goes_on = true;
	}
	eo_answer_free(answer);
	return goes_on;
}

static void
look_at_pin(EoStore *store, const EoConsume *ask, const EoActionItem *action,
			EoActionResult *result)
{
	switch (eo_pin_check(store, eo_text_to_utf8(ask->id), ask->pin,
						 action->pin_hash != NULL ? action->pin_hash : ""))
	{
		case EO_PIN_RIGHT:
			result->outcome = EO_ACTION_CONSUMED;
			return;
		case EO_PIN_WRONG:
			result->outcome = EO_ACTION_INVALID_PIN;
			result->attempts_left = (int) action->pin_attempts;
			return;
		case EO_PIN_UNREADABLE:
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_EO_REFUSED),
			 errmsg("could not check the PIN of action \"%s\" on server \"%s\": its hash cannot be read",
					ask->id, store->server->name),
			 errhint("Another program has written pinHash; docs/actions.md says what it has to be.")));
}

/* An open action with a PIN, and still no attempt to be had. */
static void
raise_pepper(const EoStore *store, const char *id)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_REFUSED),
			 errmsg("could not check the PIN of action \"%s\" on server \"%s\": it was hashed with another pin_pepper",
					id, store->server->name),
			 errdetail("No attempt was taken."),
			 errhint("Give the user mapping the pin_pepper that it had when the action was created, or none if it had none.")));
}

/* What refused us is not what we read. */
static void
raise_unreadable(const EoAnswer *answer, const char *id)
{
	EoError		error = answer->error;

	error.status = EO_INVALID;
	error.code[0] = '\0';
	strlcpy(error.message, "The item under this id is not an action", sizeof(error.message));
	eo_error_raise_action(&error, "read", id, answer->store->server->name, NULL);
}

/* ----- what an item means ----- */

/*
 * The order in which an action's state is told.  What has happened comes before
 * what a clock says, and of the former no two can be.
 */
static EoActionState
state_of(const EoActionItem *action, int64 now_ms)
{
	if (action->consumed_ms > 0)
		return EO_ACTION_IS_CONSUMED;
	if (action->canceled_ms > 0)
		return EO_ACTION_IS_CANCELED;
	if (action->pin_hash != NULL && action->pin_attempts == 0)
		return EO_ACTION_IS_BURNED;
	if (action->closed_ms > 0 || action->expires_ms <= now_ms)
		return EO_ACTION_IS_EXPIRED;
	if (action->active_ms > now_ms)
		return EO_ACTION_IS_PENDING;
	return EO_ACTION_IS_ACTIVE;
}

/*
 * A refused write: what stood in its way.  now_ms is what its condition compared
 * with.  token, NULL if there is none: who has consumed under it is told so again.
 */
static void
explain(const EoAnswer *answer, int64 now_ms, const char *token, EoActionResult *result)
{
	const EoActionItem *action = eo_action_store_item(answer);

	if (!answer->exists)
	{
		result->outcome = EO_ACTION_NOT_FOUND;
		return;
	}
	switch (state_of(action, now_ms))
	{
		case EO_ACTION_IS_CONSUMED:
			if (token != NULL && eo_action_item_shows(action, EO_ACTION_CONSUME, token))
			{
				take_consumed(action, true, result);
				return;
			}
			result->outcome = EO_ACTION_ALREADY_USED;
			result->consumed_ms = action->consumed_ms;
			return;
		case EO_ACTION_IS_CANCELED:
			result->outcome = EO_ACTION_CANCELED;
			return;
		case EO_ACTION_IS_BURNED:
			result->outcome = EO_ACTION_BURNED;
			return;
		case EO_ACTION_IS_EXPIRED:
			result->outcome = EO_ACTION_EXPIRED;
			return;
		case EO_ACTION_IS_PENDING:
			result->outcome = EO_ACTION_NOT_ACTIVE;
			result->active_ms = action->active_ms;
			return;
		case EO_ACTION_IS_ACTIVE:
			/* Nothing but a PIN is in the way of who has given none. */
			if (action->pin_hash == NULL)
				raise_unreadable(answer, result->id);
			result->outcome = EO_ACTION_INVALID_PIN;
			result->attempts_left = (int) action->pin_attempts;
			return;
	}
}

static void
take_consumed(const EoActionItem *action, bool replayed, EoActionResult *result)
{
	result->outcome = EO_ACTION_CONSUMED;
	result->payload = eo_text_copy(action->payload);
	result->consumed_ms = action->consumed_ms;
	result->replayed = replayed;
}

/* ----- cancelling, looking ----- */

void
eo_action_cancel(EoStore *store, const char *id, const char *reason, EoActionResult *result)
{
	char	   *pk = eo_action_store_pk(store, id);
	char		token[EO_TOKEN_LEN + 1];
	EoActionWrite w = {.token = token,.reason = reason};
	bool		settled = pk == NULL;

	memset(result, 0, sizeof(*result));
	result->id = id;
	result->attempts_left = -1;
	result->outcome = EO_ACTION_NOT_FOUND;
	meet_clock(store);
	eo_store_new_token(token);
	/* Again, if a clock was set right between finding it over and closing it. */
	for (int round = 0; round < MAX_ROUNDS && !settled; round++)
	{
		EoAnswer   *answer = eo_action_store_write(store, pk, EO_ACTION_CANCEL, &w);

		if (answer->outcome == EO_FAILED_CALL)
			raise_failed(answer, EO_ACTION_CANCEL, id);
		share_clock(store);
		if (answer->outcome == EO_APPLIED)
			result->outcome = EO_ACTION_CANCELED;
		else
		{
			explain(answer, w.now_ms, NULL, result);
			result->replayed = result->outcome == EO_ACTION_CANCELED;
		}
		settled = !may_open(answer, result) || close_action(store, pk, id, NULL, result);
		eo_answer_free(answer);
	}
}

/* ----- making sure ----- */

/* It is told to be over, and could still be consumed by what is on its way. */
static bool
may_open(const EoAnswer *answer, const EoActionResult *result)
{
	return (result->outcome == EO_ACTION_BURNED || result->outcome == EO_ACTION_EXPIRED) &&
		eo_action_store_item(answer)->closed_ms == 0;
}

/*
 * A caller whose own token has paid for an attempt: another call of his may be
 * looking at the PIN at this moment (a second click), or has ended without an
 * answer, and its consume may still arrive.  The former is given a moment, in
 * which the write that was refused is tried again.
 */
static void
close_own(EoStore *store, const char *pk, const EoConsume *ask, EoActionVerb verb,
		  EoActionWrite *w, const EoAnswer *answer, EoActionResult *result)
{
	int64		until_us = eo_clock_monotonic_us() + OWN_CALL_US;
	int64		pause_us = LOOK_AGAIN_US;
	const EoActionItem *action = eo_action_store_item(answer);
	bool		open = may_open(answer, result) && eo_action_item_paid_by(action, ask->token);

	while (open && eo_clock_monotonic_us() < until_us)
	{
		EoAnswer   *again;

		eo_http_wait(eo_clock_monotonic_us() + pause_us, EO_WAIT_RAISE);
		pause_us *= 2;
		again = eo_action_store_write(store, pk, verb, w);
		if (again->outcome == EO_FAILED_CALL)
			raise_failed(again, verb, ask->id);
		explain(again, w->now_ms, ask->token, result);
		open = may_open(again, result);
		eo_answer_free(again);
	}
	if (open)
		(void) close_action(store, pk, ask->id, ask->token, result);
}

/*
 * This decides between us and whatever is on its way.  False: it is not over by
 * the clock that is known now, and nothing was done.
 */
static bool
close_action(EoStore *store, const char *pk, const char *id, const char *token,
			 EoActionResult *result)
{
	char		own[EO_TOKEN_LEN + 1];
	EoActionWrite w = {.token = own};
	EoAnswer   *answer;
	EoActionState state;
	bool		over;

	eo_store_new_token(own);
	answer = eo_action_store_write(store, pk, EO_ACTION_CLOSE, &w);
	if (answer->outcome == EO_FAILED_CALL)
		raise_failed(answer, EO_ACTION_CLOSE, id);
	state = state_of(eo_action_store_item(answer), w.now_ms);
	over = state != EO_ACTION_IS_ACTIVE && state != EO_ACTION_IS_PENDING;
	if (answer->outcome == EO_NOT_APPLIED && over)
		explain(answer, w.now_ms, token, result);
	eo_answer_free(answer);
	return over;
}

/* ----- looking ----- */

bool
eo_action_get(EoStore *store, const char *id, EoActionView *view)
{
	char	   *pk = eo_action_store_pk(store, id);
	EoAnswer   *answer;
	const EoActionItem *action;
	bool		exists;

	memset(view, 0, sizeof(*view));
	if (pk == NULL)
		return false;
	meet_clock(store);
	answer = eo_action_store_read(store, pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise_action(&answer->error, "read", id, store->server->name, NULL);
	share_clock(store);
	action = eo_action_store_item(answer);
	exists = answer->exists;
	if (exists)
	{
		view->state = state_of(action, eo_client_now_ms(&store->client));
		view->has_pin = action->pin_hash != NULL;
		view->attempts_left = (int) action->pin_attempts;
		view->created_ms = action->created_ms;
		view->active_ms = action->active_ms;
		view->expires_ms = action->expires_ms;
		view->consumed_ms = action->consumed_ms;
		view->canceled_ms = action->canceled_ms;
		view->reason = eo_text_copy(action->consumed_ms > 0 ? action->consumed_reason :
									action->canceled_reason);
		view->consumer = eo_text_copy(action->consumed_by);
	}
	eo_answer_free(answer);
	return exists;
}

/* ----- clock, errors ----- */

/*
 * A session that has heard nothing yet takes the clock that others of this
 * cluster have found, as for keys; and the other way round.
 */
static void
meet_clock(EoStore *store)
{
	EoTarget	target;

	eo_target_of(store, &target);
	eo_target_meet_clock(store, &target);
}

static void
share_clock(EoStore *store)
{
	EoTarget	target;

	eo_target_of(store, &target);
	eo_target_share_clock(store, &target);
}

/* What to do if nobody knows whether it was applied. */
static void
raise_failed(const EoAnswer *answer, EoActionVerb verb, const char *id)
{
	const char *doing = "consume";
	const char *hint = "Call again with the same token: that finds out, and consumes nothing twice. Without a token, action_get() shows what has become of the action.";

	switch (verb)
	{
		case EO_ACTION_CREATE:
			doing = "create";
			hint = "Whether it was made can be seen by action_get(). An id that was made for you is lost with the answer, and its action does no harm.";
			break;
		case EO_ACTION_ATTEMPT:
			doing = "take an attempt at";
			hint = "The action was not consumed. The attempt may have been used; action_get() shows how many are left.";
			break;
		case EO_ACTION_CANCEL:
			doing = "cancel";
			hint = "Call action_cancel() again: it tells how the action has ended.";
			break;
		case EO_ACTION_CLOSE:
			hint = "The action is over, unless a request that is still on its way consumes it. Call again, with the same token, to find out.";
			break;
		case EO_ACTION_CONSUME:
		case EO_ACTION_CONSUME_PAID:
			break;
	}
	eo_error_raise_action(&answer->error, doing, id, answer->store->server->name, hint);
}
