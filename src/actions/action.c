/*-------------------------------------------------------------------------
 *
 * action.c
 *	  One-shot actions: the state machine, and what an answer means.
 *
 * One conditional write consumes an action, so exactly one caller wins.  A
 * refused write brings the item that refused it, and explain() classifies that
 * item in the order of state_of().  A later read is never used for this: it might
 * see another state.
 *
 * With a PIN the order is: pay, check, consume.
 * 1. A write of its own takes an attempt and returns the hash of the PIN.
 * 2. The guess is checked against the hash.
 * 3. Only if the guess was right, the action is consumed.
 * No check comes before its payment, so any number of parallel guesses gets no
 * more checks than there are attempts.  A call that ends between two of these
 * steps has lost its attempt and won nothing.
 *
 * Two kinds of request can still consume an action that others see as over:
 * - The last attempt leaves the action without attempts while its PIN is checked.
 *	 Others see it as burned, and it is consumed if that guess was right.
 * - A consume that was sent in time may arrive after the action has expired.
 * close_action() excludes both, for the two callers that must know: a cancel,
 * whose answer is relied on, and a caller whose own earlier call took an attempt
 * and was never answered.
 *
 * All of this takes effect at once, whatever becomes of the transaction.  An action that is
 * to be consumed by the commit is planned here, and the rest is that of a claim at commit
 * (action_commit.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "actions/action.h"
#include "actions/action_commit.h"
#include "actions/action_store.h"
#include "actions/pin.h"
#include "commit/scan.h"
#include "compat.h"
#include "records/action_item.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/text.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/json.h"

/*
 * A caller's own earlier call, if it took the last attempt, gets this long to
 * end, and the first of the growing pauses between looks at it.  Checking a PIN
 * takes 50 ms, and then there is a request.
 */
#define OWN_CALL_US 1000000
#define LOOK_AGAIN_US 50000

/* How often a cancel is tried while corrections of the clock get in its way. */
#define MAX_ROUNDS 3

static void consume(EoStore *store, const char *pk, const EoConsume *ask, char *attempt,
					EoActionResult *result);
static void plan(EoStore *store, const char *pk, const EoConsume *ask, const char *attempt,
				 EoActionResult *result);
static void judge(const EoAnswer *answer, EoActionItem *action, EoActionResult *result);
static void count_as_consumed(EoActionItem *action);
static void init_result(EoActionResult *result, const char *id);
static bool take_attempt(EoStore *store, const char *pk, const EoConsume *ask, char *attempt,
						 EoActionResult *result);
static void check_pin(EoStore *store, const EoConsume *ask, const EoActionItem *action,
					  EoActionResult *result);
static void check_hash(const EoStore *store, const char *id, const EoActionItem *action);
pg_noreturn static void raise_hash(const EoStore *store, const char *id);
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

/* ----- consuming ----- */

void
eo_action_consume(EoStore *store, const EoConsume *ask, EoActionResult *result)
{
	char	   *pk = eo_action_store_pk(store, ask->id);
	char		attempt[EO_ATTEMPT_LEN + 1] = "";

	init_result(result, ask->id);
	if (pk == NULL)
		return;					/* too long for any action */
	eo_action_store_need_clock(store, pk, "consume", ask->id);

	/*
	 * Again if a transaction had left it sealed, which was rolled back.  An
	 * attempt that was paid, perhaps the last one, is good for that, too.
	 */
	for (int round = 0; round == 0 || (result->again && round < MAX_ROUNDS); round++)
	{
		init_result(result, ask->id);
		if (eo_action_commit_knows(store, pk, ask, result))
			return;
		init_result(result, ask->id);
		consume(store, pk, ask, attempt, result);
	}
}

/* attempt is the token of the attempt that an earlier round has paid, or empty. */
static void
consume(EoStore *store, const char *pk, const EoConsume *ask, char *attempt,
		EoActionResult *result)
{
	EoActionWrite w = {.token = ask->token,.reason = ask->reason,.consumer = ask->consumer};
	EoAnswer   *answer;

	if (ask->pin != NULL && attempt[0] == '\0' && !take_attempt(store, pk, ask, attempt, result))
		return;
	if (ask->at_commit)
	{
		plan(store, pk, ask, attempt, result);
		return;
	}
	w.attempt = attempt;
	answer = eo_action_store_write(store, pk, attempt[0] != '\0' ? EO_ACTION_CONSUME_PAID :
								   EO_ACTION_CONSUME, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_action_store_raise(answer, EO_ACTION_CONSUME, ask->id);

	/*
	 * Consumed under this token, but at another instant: by an earlier call.
	 * That the write was refused does not tell: the request may have arrived
	 * twice.
	 */
	if (answer->outcome == EO_APPLIED)
	{
		const EoActionItem *action = eo_action_store_item(answer);

		take_consumed(action, !eo_action_item_shows_now(eo_action_store_layout(store), action,
														w.now_ms), result);
	}
	else
		explain(answer, w.now_ms, w.token, result);
	if (attempt[0] == '\0')
		close_own(store, pk, ask, EO_ACTION_CONSUME, &w, answer, result);
	eo_answer_free(answer);
}

/*
 * Have the transaction consume the action, if it can be consumed now.  An attempt that was
 * paid may have been the last one.
 */
static void
plan(EoStore *store, const char *pk, const EoConsume *ask, const char *attempt,
	 EoActionResult *result)
{
	EoAnswer   *answer = eo_action_store_read(store, pk);
	int64		now_ms = eo_client_now_ms(&store->client);
	EoActionItem *action = eo_action_store_item(answer);
	bool		paid = attempt[0] != '\0';
	EoActionState state;

	if (answer->outcome == EO_FAILED_CALL)
		eo_action_store_raise(answer, EO_ACTION_CONSUME, ask->id);
	if (answer->exists && paid && eo_action_item_shows(action, EO_ACTION_ATTEMPT, attempt))
		action->pin_attempts++;
	state = answer->exists ? state_of(action, now_ms) : EO_ACTION_IS_EXPIRED;
	if (state == EO_ACTION_IS_ACTIVE && paid == (action->pin_hash != NULL))
		eo_action_commit_plan(store, pk, ask, attempt, action, result);
	else
		explain(answer, now_ms, ask->token, result);
	eo_answer_free(answer);
}

/* No such action, until something else is found out. */
static void
init_result(EoActionResult *result, const char *id)
{
	memset(result, 0, sizeof(*result));
	result->id = id;
	result->attempts_left = -1;
	result->outcome = EO_ACTION_NOT_FOUND;
}

/*
 * Pay for an attempt and check the PIN.  True: go on to consume; attempt is the
 * token of the attempt, empty if the action has no PIN.  False: the result is
 * filled in.
 */
static bool
take_attempt(EoStore *store, const char *pk, const EoConsume *ask, char *attempt,
			 EoActionResult *result)
{
	EoActionWrite w = {.token = attempt,.pin_pepper = eo_pin_pepper_digest(store),
		.pin_attempts = store->server->pin_attempts,.pin_hash_len = eo_pin_hash_len(store)
	};
	EoAnswer   *answer;
	bool		goes_on = false;

	/*
	 * Each attempt has a token of its own: under the caller's token, a second
	 * guess would count as a retry of the first one.  The caller's token is
	 * appended for close_own().
	 */
	eo_store_new_token(attempt);
	snprintf(attempt + EO_TOKEN_LEN, EO_ATTEMPT_LEN + 1 - EO_TOKEN_LEN, "/%s", ask->token);
	answer = eo_action_store_write(store, pk, EO_ACTION_ATTEMPT, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_action_store_raise(answer, EO_ACTION_ATTEMPT, ask->id);
	if (answer->outcome == EO_APPLIED)
	{
		check_pin(store, ask, eo_action_store_item(answer), result);
		goes_on = result->outcome == EO_ACTION_CONSUMED;
	}
	else if (!answer->exists ||
			 state_of(eo_action_store_item(answer), w.now_ms) != EO_ACTION_IS_ACTIVE)
	{
		explain(answer, w.now_ms, ask->token, result);
		close_own(store, pk, ask, EO_ACTION_ATTEMPT, &w, answer, result);
	}
	else if (eo_action_store_item(answer)->pin_hash != NULL)
	{
		check_hash(store, ask->id, eo_action_store_item(answer));
		raise_pepper(store, ask->id);
	}
	else
	{
		attempt[0] = '\0';
		goes_on = true;
	}
	eo_answer_free(answer);
	return goes_on;
}

static void
check_pin(EoStore *store, const EoConsume *ask, const EoActionItem *action,
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
	raise_hash(store, ask->id);
}

/*
 * Raise if the hash of a PIN is not of the length of those that can be checked here, so that no
 * PIN would be right.  In a native table whoever guesses finds that out.
 */
static void
check_hash(const EoStore *store, const char *id, const EoActionItem *action)
{
	if (!store->layout->is_native && strlen(action->pin_hash) != eo_pin_hash_len(store))
		raise_hash(store, id);
}

static void
raise_hash(const EoStore *store, const char *id)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_REFUSED),
			 errmsg("could not check the PIN of action \"%s\" on server \"%s\": its hash cannot be read",
					eo_text_key_shown(id), store->server->name),
			 store->layout->is_native || store->server->pin_sha256 ?
			 errhint("Another program has written pinHash; docs/actions.md says what it has to be.") :
			 errhint("Another program has written pinHash. If that is SHA-256 in hexadecimal digits, give the server the option action_pin_hash 'sha256'; see docs/interop.md.")));
}

/*
 * The action is active and has a PIN, and the attempt was refused all the same:
 * the pepper is the only condition left.
 */
static void
raise_pepper(const EoStore *store, const char *id)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_REFUSED),
			 errmsg("could not check the PIN of action \"%s\" on server \"%s\": it was hashed with another pin_pepper",
					eo_text_key_shown(id), store->server->name),
			 errdetail("No attempt was taken."),
			 errhint("Give the user mapping the pin_pepper that it had when the action was created, or none if it had none.")));
}

/* ----- what an item means ----- */

/*
 * The state of an action.  What has happened counts before what a clock says.
 * The conditions of the writes allow only one of consumed and canceled.
 */
static EoActionState
state_of(const EoActionItem *action, int64 now_ms)
{
	if (action->consumed_ms > 0)
		return EO_ACTION_IS_CONSUMED;
	if (action->sealed_ms > 0)
		return EO_ACTION_IS_COMMITTING;
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
 * Classify the item that refused a write.  now_ms is the instant that the write's
 * condition compared with.  A caller that has consumed the action under this
 * token (NULL: none) gets its answer again.
 */
static void
explain(const EoAnswer *answer, int64 now_ms, const char *token, EoActionResult *result)
{
	EoActionItem *action = eo_action_store_item(answer);

	result->again = false;
	if (!answer->exists)
	{
		result->outcome = EO_ACTION_NOT_FOUND;
		return;
	}
	if (state_of(action, now_ms) == EO_ACTION_IS_COMMITTING)
		judge(answer, action, result);
	switch (state_of(action, now_ms))
	{
		case EO_ACTION_IS_COMMITTING:
			result->outcome = EO_ACTION_IN_PROGRESS;
			return;
		case EO_ACTION_IS_CONSUMED:
			if (token != NULL && eo_action_item_shows(action, EO_ACTION_CONSUME, token))
			{
				eo_action_commit_check_visible(answer->store, result->id, action);
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

			/*
			 * Only a missing PIN can refuse the consume of an active action.
			 * If the item has no PIN, it cannot be read as an action: report
			 * it, never guess.
			 */
			if (action->pin_hash == NULL)
				eo_action_store_raise_unreadable(answer, result->id);
			check_hash(answer->store, result->id, action);
			result->outcome = EO_ACTION_INVALID_PIN;
			result->attempts_left = (int) action->pin_attempts;
			return;
	}
}

/*
 * The action is sealed.  If its transaction is known to have committed it counts as consumed;
 * if it was rolled back, the action is given back, and the caller may begin again.  So it may
 * if nothing is known: then the worker may have finished the action since it was read.
 */
static void
judge(const EoAnswer *answer, EoActionItem *action, EoActionResult *result)
{
	switch (eo_action_commit_fate(answer->store, result->id, answer->pk, action, true))
	{
		case EO_FATE_COMMITTED:
			count_as_consumed(action);
			break;
		case EO_FATE_ABORTED:
		case EO_FATE_UNKNOWN:
			result->again = true;
			break;
		default:
			break;
	}
}

static void
count_as_consumed(EoActionItem *action)
{
	action->consumed_ms = action->sealed_ms;
	action->sealed_ms = 0;
}

static void
take_consumed(const EoActionItem *action, bool replayed, EoActionResult *result)
{
	result->outcome = EO_ACTION_CONSUMED;
	result->payload = eo_text_copy(action->payload);
	result->consumed_ms = action->consumed_ms;
	result->replayed = replayed;
}

/* ----- cancelling ----- */

void
eo_action_cancel(EoStore *store, const char *id, const char *reason, EoActionResult *result)
{
	char	   *pk = eo_action_store_pk(store, id);
	char		token[EO_TOKEN_LEN + 1];
	EoActionWrite w = {.token = token,.reason = reason};
	bool		settled = pk == NULL;

	init_result(result, id);
	if (!settled)
		eo_action_store_need_clock(store, pk, "cancel", id);
	eo_store_new_token(token);

	/*
	 * Start over if a correction of the clock, between the cancel and
	 * close_action(), made an action that was over open again.
	 */
	for (int round = 0; round < MAX_ROUNDS && !settled; round++)
	{
		EoAnswer   *answer = eo_action_store_write(store, pk, EO_ACTION_CANCEL, &w);

		if (answer->outcome == EO_FAILED_CALL)
			eo_action_store_raise(answer, EO_ACTION_CANCEL, id);
		if (answer->outcome == EO_APPLIED)
			result->outcome = EO_ACTION_CANCELED;
		else
		{
			explain(answer, w.now_ms, NULL, result);
			result->replayed = result->outcome == EO_ACTION_CANCELED;
		}
		settled = !result->again &&
			(!may_open(answer, result) || close_action(store, pk, id, NULL, result));
		eo_answer_free(answer);
	}
}

/* ----- closing ----- */

/*
 * The caller will be told "burned" or "expired", but a request in flight may
 * still consume the action: it has to be closed first.
 */
static bool
may_open(const EoAnswer *answer, const EoActionResult *result)
{
	return (result->outcome == EO_ACTION_BURNED || result->outcome == EO_ACTION_EXPIRED) &&
		eo_action_store_item(answer)->closed_ms == 0;
}

/*
 * Close an action for a caller whose own token has paid for an attempt.  Another
 * call of the same caller may be checking the PIN now (a second click), or may
 * have ended without an answer while its consume is in flight.  First wait for
 * it, retrying the write that was refused; then close the action.
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
			eo_action_store_raise(again, verb, ask->id);
		explain(again, w->now_ms, ask->token, result);
		open = may_open(again, result);
		eo_answer_free(again);
	}
	if (open)
		(void) close_action(store, pk, ask->id, ask->token, result);
}

/*
 * Close an action that is over, by a conditional write: after it, no request in
 * flight can consume the action.  If such a request was first, the result says
 * what it did.  False: by the clock as it is known now the action is not over,
 * and nothing was done.
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
		eo_action_store_raise(answer, EO_ACTION_CLOSE, id);
	state = state_of(eo_action_store_item(answer), w.now_ms);
	over = state != EO_ACTION_IS_ACTIVE && state != EO_ACTION_IS_PENDING;
	if (answer->outcome == EO_NOT_APPLIED && over)
		explain(answer, w.now_ms, token, result);
	eo_answer_free(answer);
	return over;
}

/* ----- reading ----- */

/* Fill in a view of an item as it is at an instant; its strings are palloc'd. */
static void
look(const EoActionItem *action, int64 now_ms, EoActionView *view)
{
	view->state = state_of(action, now_ms);
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

bool
eo_action_get(EoStore *store, const char *id, EoActionView *view)
{
	char	   *pk = eo_action_store_pk(store, id);
	EoAnswer   *answer;
	EoActionItem *action;
	EoFate		fate;
	bool		exists;

	memset(view, 0, sizeof(*view));
	if (pk == NULL)
		return false;
	eo_action_store_need_clock(store, pk, "read", id);

	/*
	 * If there is no row, the worker may have finished the action since it
	 * was read, and removed the row.  The second read shows that.
	 */
	for (int looks = 0;; looks++)
	{
		answer = eo_action_store_read(store, pk);
		if (answer->outcome == EO_FAILED_CALL)
			eo_error_raise_action(&answer->error, "read", id, store->server->name, NULL);
		action = eo_action_store_item(answer);
		exists = answer->exists;
		fate = EO_FATE_ELSEWHERE;
		if (exists && action->sealed_ms > 0)
			fate = eo_action_commit_fate(store, id, pk, action, false);
		if ((fate != EO_FATE_ABORTED && fate != EO_FATE_UNKNOWN) || looks > 0)
			break;
		eo_answer_free(answer);
	}
	/* A signature that was refused makes the clock a guess again. */
	eo_action_store_need_clock(store, pk, "read", id);
	if (fate == EO_FATE_COMMITTED)
		count_as_consumed(action);
	else if (fate == EO_FATE_ABORTED)
		action->sealed_ms = 0;
	if (exists)
		look(action, eo_client_now_ms(&store->client), view);
	eo_answer_free(answer);
	return exists;
}

/* ----- listing ----- */

/* A listing that goes on. */
typedef struct Listing
{
	EoPages		pages;
	const EoActionList *ask;
	size_t		skip;			/* bytes of a partition key before the id */
	void		(*emit) (const char *id, const EoActionView *view, void *arg);
	void	   *arg;
} Listing;

static void
take_item(EoJsonValue *item, void *arg)
{
	Listing    *l = arg;
	int64		now_ms = eo_client_now_ms(&l->pages.store->client);
	const char *pk = eo_record_pk_of(l->pages.store->layout, item);
	EoActionItem action;
	EoActionView view;

	if (pk == NULL || eo_action_store_read_item(l->pages.store, item, &action) != EO_OK ||
		(l->ask->older_than_ms > 0 && action.created_ms > now_ms - l->ask->older_than_ms))
		return;
	look(&action, now_ms, &view);
	if (!l->ask->any_state && view.state != l->ask->state)
		return;
	l->pages.found++;
	l->emit(pk + l->skip, &view, l->arg);
}

void
eo_action_list(EoStore *store, const EoActionList *ask,
			   void (*emit) (const char *id, const EoActionView *view, void *arg), void *arg)
{
	Listing		l = {.ask = ask,.emit = emit,.arg = arg};
	char	   *first = eo_action_store_pk(store, "");

	l.pages.scan.prefix = eo_action_store_pk(store, ask->prefix);
	/* No id is that long. */
	if (l.pages.scan.prefix == NULL)
		return;
	eo_action_store_need_clock(store, first, "list the actions", NULL);
	l.pages.store = store;
	l.pages.units_per_second = ask->units_per_second;
	l.pages.scan.kind = EO_SCAN_ACTIONS;
	l.pages.scan.actions = eo_action_store_layout(store);
	l.skip = strlen(first);
	eo_scan_read(&l.pages, take_item, &l);
	eo_scan_warn(&l.pages);
}
