/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  One conditional write or consistent read of an item, and its outcome.
 *
 * This file answers one question: was a write applied, although its reply may
 * have been lost?
 *
 * - The service accepted it, and the reply bears our key, our token and the
 *	 state that was written: applied.
 * - The service refused it, and the item that refused it shows this very write
 *	 (EoItemKind.shows): applied, by an attempt whose reply was lost.
 * - The service refused it, and the item shows anything else: not applied.  This
 *	 is definite even after a lost reply, because a token is never used for two
 *	 writes.
 * - The refusal brings no item.  Some engines return none, and an item can be
 *	 gone.  A record is then read once, consistently (the second look).  An
 *	 action is not: its refusals are never explained by a later read, so no item
 *	 means no action.  For that an engine must return items with refusals, as
 *	 DynamoDB has since June 2023.
 * - A transaction is refused by another action than the record's, or its reasons are
 *	 not understood.  An earlier request may have been applied all the same, and what
 *	 the service says of its other actions is no word about the record.  So it is read,
 *	 too.  If the record admits the write, the transaction has failed; if not, the
 *	 record tells what became of it, as after a refusal.
 * - A transaction is refused as a whole, because one of its tables is gone, say.  If
 *	 the caller sends it again and again (reads_refusal), the same is done.
 * - Everything else is EO_UNKNOWN.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "records/expression.h"
#include "server/answer.h"
#include "server/call_log.h"
#include "server/stats.h"
#include "utils/memutils.h"

static void free_call(void *arg);
static void put_read(EoAnswer *answer);
static bool narrow_down(EoAnswer *answer);
static bool start_read(EoAnswer *answer, EoWindow *window, int64 deadline_us);
static void init_call(EoAnswer *answer, EoOperation op);
static bool believe_write(const EoCall *call, EoJsonValue *item, bool refused);
static bool believe_transaction(const EoCall *call, EoJsonValue *item, bool refused);
static bool believe_read(const EoCall *call, EoJsonValue *item, bool refused);
static void settle(EoAnswer *answer);
static void settle_refusal(EoAnswer *answer);
static void settle_second_look(EoAnswer *answer);
static void unreadable(EoAnswer *answer);

/*
 * The call's buffers are malloc'd, because they pass through libcurl and
 * json-c; the context's callback ties them to PostgreSQL's error handling.
 */
EoAnswer *
eo_answer_create(const EoItemKind *kind, EoStore *store, const char *pk, EoOperation op)
{
	/*
	 * PostgreSQL keeps some contexts of this size, so that most need no
	 * malloc().
	 */
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "exactonce answer",
												  ALLOCSET_DEFAULT_SIZES);
	EoAnswer   *answer = MemoryContextAllocZero(context, sizeof(EoAnswer));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));

	answer->context = context;
	answer->store = store;
	answer->kind = kind;
	answer->item = MemoryContextAllocZero(context, kind->item_size);
	answer->written = MemoryContextAllocZero(context, kind->written_size);
	answer->pk = MemoryContextStrdup(context, pk);
	init_call(answer, op);
	callback->func = free_call;
	callback->arg = answer;
	MemoryContextRegisterResetCallback(context, callback);
	return answer;
}

EoAnswer *
eo_answer_create_read(const EoItemKind *kind, EoStore *store, const char *pk)
{
	EoAnswer   *answer = eo_answer_create(kind, store, pk, EO_GET_ITEM);

	put_read(answer);
	return answer;
}

static void
put_read(EoAnswer *answer)
{
	const EoStore *store = answer->store;

	if (answer->is_narrow)
		answer->kind->put_narrow_read(answer, &answer->call.body);
	else
		eo_expression_put_read(&answer->call.body, store->server->table, &store->layout->key,
							   answer->pk);
}

static void
free_call(void *arg)
{
	EoAnswer   *answer = arg;

	eo_call_free(&answer->call);
	eo_json_free(answer->cancellation);
}

static void
init_call(EoAnswer *answer, EoOperation op)
{
	eo_call_init(&answer->call, &answer->store->client, op);
	answer->call.arg = answer;
	answer->call.believe = op == EO_UPDATE_ITEM ? believe_write :
		op == EO_TRANSACT ? believe_transaction : believe_read;
}

void
eo_answer_free(EoAnswer *answer)
{
	MemoryContextDelete(answer->context);
}

/* ----- running ----- */

/* Answers that run together. */
typedef struct Group
{
	EoAnswer  **answers;
	int			n;
	int			next;			/* the first that has not been started */
	int64		deadline_us;	/* 0: request_timeout from the start of each */
} Group;

static bool
start_next(EoWindow *window, void *arg)
{
	Group	   *group = arg;

	if (group->next == group->n)
		return false;
	(void) eo_answer_start(group->answers[group->next++], window, group->deadline_us);
	return true;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	const Group *group = arg;

	(void) eo_answer_take(eo_answer_of_call(call), window, group->deadline_us);
}

EoAnswer *
eo_answer_run_one(EoAnswer *answer)
{
	return eo_answer_run_until(answer, 0);
}

EoAnswer *
eo_answer_run_until(EoAnswer *answer, int64 deadline_us)
{
	Group		group = {.answers = &answer,.n = 1,.deadline_us = deadline_us};
	EoWindow	window = {.n = 0};

	eo_window_run(&window, 1, start_next, take_finished, &group);
	return answer;
}

void
eo_answer_run(EoAnswer **answers, int n, int parallel)
{
	Group		group = {.answers = answers,.n = n};
	EoWindow	window = {.n = 0};

	eo_window_run(&window, parallel, start_next, take_finished, &group);
}

bool
eo_answer_start(EoAnswer *answer, EoWindow *window, int64 deadline_us)
{
	eo_answer_spell(answer);
	if (eo_window_add(window, &answer->call, deadline_us))
		return true;
	return !eo_answer_take(answer, window, deadline_us);
}

void
eo_answer_spell(EoAnswer *answer)
{
	if (answer->call.body.len == 0)
		answer->kind->put_write(answer, &answer->call.body);
}

bool
eo_answer_take(EoAnswer *answer, EoWindow *window, int64 deadline_us)
{
	eo_call_log(answer->store->server->name, &answer->call);
	if (narrow_down(answer))
		return start_read(answer, window, deadline_us);
	if (answer->read_again)
		settle_second_look(answer);
	else
		settle(answer);
	if (!answer->read_again)
	{
		if (answer->outcome == EO_FAILED_CALL && answer->error.status == EO_UNKNOWN)
			eo_stats_add(answer->store->stats, EO_COUNT_UNKNOWN, 1);
		return true;
	}
	answer->doubted = answer->call.in_doubt;
	/* The caller tells the reasons. */
	answer->reasons = answer->call.reasons;
	answer->cancellation = answer->call.reply;
	answer->call.reply = NULL;
	return start_read(answer, window, deadline_us);
}

/*
 * The item is too long to be read: is a narrow read to show it?  After a write that was refused
 * that is the second look.
 */
static bool
narrow_down(EoAnswer *answer)
{
	const EoCall *call = &answer->call;
	bool		is_read = call->op == EO_GET_ITEM;

	if (!call->oversized || !answer->may_narrow || answer->is_probe ||
		answer->kind->put_narrow_read == NULL ||
		(is_read ? answer->is_narrow : call->error.status != EO_CONDITION_FAILED))
		return false;
	answer->is_narrow = true;
	if (!is_read)
	{
		answer->error = call->error;
		answer->read_again = true;
		answer->doubted = call->in_doubt;
	}
	return true;
}

static bool
start_read(EoAnswer *answer, EoWindow *window, int64 deadline_us)
{
	eo_call_free(&answer->call);
	init_call(answer, EO_GET_ITEM);
	put_read(answer);
	if (eo_window_add(window, &answer->call, deadline_us))
		return false;
	/* The read has ended already. */
	return eo_answer_take(answer, window, deadline_us);
}

EoAnswer *
eo_answer_of_call(EoCall *call)
{
	return call->arg;
}

/* ----- which replies are believed ----- */

/*
 * A reply is believed if it bears the key that was sent and, after a write was
 * accepted, our token in the state that was written.  Any other reply was meant
 * for another request or was forged on the way.  The item is read here, once.
 */
static bool
believe_write(const EoCall *call, EoJsonValue *item, bool refused)
{
	EoAnswer   *answer = call->arg;

	if (item == NULL)
		return refused;
	/* The reply to a narrow write has our token, and no key. */
	if (answer->is_narrow && !refused)
	{
		answer->readable = answer->kind->read(answer->store, item, answer->item) == EO_OK;
		return eo_answer_is_own(answer);
	}
	return believe_read(call, item, refused) &&
		(refused || answer->is_probe || eo_answer_is_own(answer));
}

/*
 * The reply to an accepted transaction brings no item.  It is believed if the
 * capacity that it reports (put_transaction() in store_record.c asks for that) names
 * our table.
 */
static bool
believe_transaction(const EoCall *call, EoJsonValue *item, bool refused)
{
	const EoAnswer *answer = call->arg;
	EoJsonValue *capacity = eo_json_get(eo_json_root(call->reply), "ConsumedCapacity");

	if (refused)
		return believe_read(call, item, refused);
	for (size_t i = 0; i < eo_json_array_length(capacity); i++)
	{
		size_t		len;
		const char *table = eo_json_string(eo_json_get(eo_json_array_get(capacity, i), "TableName"),
										   &len);

		if (table != NULL && strcmp(table, answer->store->server->table) == 0)
			return true;
	}
	return false;
}

static bool
believe_read(const EoCall *call, EoJsonValue *item, bool refused)
{
	EoAnswer   *answer = call->arg;

	if (item == NULL)
	{
		answer->readable = false;
		/* The reply to a write is not one that says: there is no item. */
		return refused || eo_json_get(eo_json_root(call->reply), "Attributes") == NULL;
	}
	return eo_answer_read_item(answer, item);
}

bool
eo_answer_read_item(EoAnswer *answer, EoJsonValue *item)
{
	const char *pk = eo_expression_pk_of(&answer->store->layout->key, item);

	answer->readable = answer->kind->read(answer->store, item, answer->item) == EO_OK;
	return pk != NULL && strcmp(pk, answer->pk) == 0;
}

bool
eo_answer_is_own(const EoAnswer *answer)
{
	return answer->readable && answer->kind->shows(answer->item, answer->written);
}

/* ----- what a reply means ----- */

static void
settle(EoAnswer *answer)
{
	EoCall	   *call = &answer->call;

	answer->error = call->error;
	switch (call->error.status)
	{
		case EO_OK:
			answer->outcome = call->op == EO_GET_ITEM ? EO_READ : EO_APPLIED;
			answer->exists = call->item != NULL;
			if (answer->exists && !answer->readable)
				unreadable(answer);
			break;
		case EO_CONDITION_FAILED:
			settle_refusal(answer);
			break;
		case EO_NO_TABLE:
		case EO_DENIED:
		case EO_TOO_LARGE:
		case EO_REFUSED:
			answer->read_again = answer->reads_refusal;
			answer->outcome = EO_FAILED_CALL;
			break;
		case EO_CANCELLED:
			answer->read_again = true;
			answer->outcome = EO_FAILED_CALL;
			break;
		default:
			answer->read_again = call->error.puzzling;
			answer->outcome = EO_FAILED_CALL;
			break;
	}
}

static void
settle_refusal(EoAnswer *answer)
{
	EoCall	   *call = &answer->call;

	answer->outcome = EO_NOT_APPLIED;
	answer->exists = call->item != NULL;
	if (call->oversized)
	{
		answer->outcome = EO_FAILED_CALL;
		answer->error.status = EO_INVALID;
		return;
	}
	if (!answer->exists)
	{
		answer->read_again = answer->kind->second_look && !answer->is_probe;
		return;
	}
	if (!answer->readable)
	{
		unreadable(answer);
		return;
	}
	if (eo_answer_is_own(answer))
	{
		answer->outcome = EO_APPLIED;
		if (call->in_doubt)
			eo_stats_add(answer->store->stats, EO_COUNT_OWN_WRITES, 1);

		/*
		 * If no attempt of this call can have done it, an earlier call did:
		 * its caller repeats itself.
		 */
		answer->replayed = !call->in_doubt;
	}
}

/* The read that followed a refusal without an item, or of a whole transaction, has ended. */
static void
settle_second_look(EoAnswer *answer)
{
	EoCall	   *call = &answer->call;
	bool		as_a_whole = answer->error.status != EO_CONDITION_FAILED;

	answer->read_again = false;
	call->in_doubt = answer->doubted;
	if (call->error.status != EO_OK)
	{
		/* The write was refused, but by which item is not known. */
		answer->unexplained = as_a_whole;
		answer->error = call->error;
		if (answer->doubted)
			answer->error.status = EO_UNKNOWN;
		answer->outcome = EO_FAILED_CALL;
		return;
	}
	if (as_a_whole && (call->item == NULL || answer->readable) &&
		answer->kind->admits(call->item != NULL ? answer->item : NULL, answer->written))
	{
		/* Then what was refused are the other writes. */
		answer->exists = call->item != NULL;
		return;
	}
	call->error.status = answer->error.status = EO_CONDITION_FAILED;
	answer->outcome = EO_NOT_APPLIED;
	if (call->item == NULL)
	{
		answer->exists = false;
		return;
	}
	settle_refusal(answer);
}

void
eo_answer_say_unreadable(const EoAnswer *answer, EoError *error)
{
	const EoItemKind *kind = answer->kind;
	const char *state = kind->new_state != NULL && answer->call.item != NULL ?
	kind->new_state(answer->store, answer->call.item) : NULL;

	error->status = EO_INVALID;
	error->code[0] = '\0';
	if (state != NULL)
		snprintf(error->message, sizeof(error->message),
				 "Its status %s is not known to this version, which leaves it as it is", state);
	else
		strlcpy(error->message, kind->unreadable, sizeof(error->message));
}

static void
unreadable(EoAnswer *answer)
{
	answer->outcome = EO_FAILED_CALL;
	answer->exists = false;
	eo_answer_say_unreadable(answer, &answer->error);
}
