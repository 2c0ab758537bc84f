/*-------------------------------------------------------------------------
 *
 * action_store.c
 *	  The verbs on actions of a server.
 *
 * Actions are one kind of item (answer.h): action_kind says how to read one, and
 * which of its attributes show that a write was applied.
 *
 * The conditions of an action compare with an instant that is part of the
 * request, so each call is marked as dated: when the clock turns out to be wrong
 * the call ends with clock_moved instead of being signed anew with the old
 * instant, and the write is made again here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "actions/action_store.h"
#include "cluster/service_clocks.h"
#include "ledger/clock_sync.h"
#include "records/action_item.h"
#include "records/layout.h"
#include "records/life_item.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/text.h"
#include "utils/memutils.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/client.h"
#include "wire/json.h"
#include "wire/status.h"

static void put_write(const EoAnswer *answer, EoBuf *body);
static bool put_statement(const EoAnswer *answer, EoBuf *body, bool *inserts);
static EoStatus read_action(const EoStore *store, EoJsonValue *json, void *item);
static const char *new_state_of_action(const EoStore *store, EoJsonValue *json);
static bool shows_action(const void *item, const void *written);

/* A write, and the values that shows_action() compares an item with. */
typedef struct Written
{
	EoActionVerb verb;
	EoActionWrite write;		/* token is a copy; the rest counts until the
								 * write is spelled */
} Written;

static const EoItemKind action_kind = {
	.item_size = sizeof(EoActionItem),
	.written_size = sizeof(Written),
	.unreadable = "The item under this id is not an action",
	.second_look = false,
	.put_write = put_write,
	.put_statement = put_statement,
	.read = read_action,
	.new_state = new_state_of_action,
	.shows = shows_action,
};

const EoActionLayout *
eo_action_store_layout(const EoStore *store)
{
	const EoActionLayout *layout;

	if (!store->layout->is_native && store->server->actions == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("server \"%s\" has no actions", store->server->name),
				 errdetail("Actions are kept in tables of the layout native, or with the option action_layout, and this server has the layout %s.",
						   store->layout->name),
				 errhint("Give the function another server.")));
	layout = eo_action_item_layout(store->layout, store->layout->is_native ? "" :
								   store->server->actions);
	if (layout == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	return layout;
}

char *
eo_action_store_pk(const EoStore *store, const char *id)
{
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;

	if (eo_action_item_make_pk(eo_action_store_layout(store),
							   eo_text_to_utf8(store->server->key_prefix), eo_text_to_utf8(id),
							   pk, &len) != EO_OK)
		return NULL;
	if (!store->layout->is_native && eo_life_item_is_pk(pk))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("action id for server \"%s\" begins like the keys of other items",
						store->server->name),
				 errdetail("ORIGIN# is the beginning of other items in the table."),
				 errhint("Use another id.")));
	return pstrdup(pk);
}

EoActionItem *
eo_action_store_item(const EoAnswer *answer)
{
	Assert(answer->kind == &action_kind);
	return answer->item;
}

EoAnswer *
eo_action_store_plan(EoStore *store, const char *pk, EoActionVerb verb,
					 const EoActionWrite *w)
{
	EoAnswer   *answer = eo_answer_create(&action_kind, store, pk, EO_UPDATE_ITEM);
	Written    *written = answer->written;

	written->verb = verb;
	written->write = *w;
	written->write.token = MemoryContextStrdup(answer->context, w->token);
	answer->call.dated = true;
	return answer;
}

static void
put_write(const EoAnswer *answer, EoBuf *body)
{
	const EoStore *store = answer->store;
	const Written *w = answer->written;

	eo_action_item_put_write(eo_action_store_layout(store), body, store->server->table,
							 answer->pk, w->verb, &w->write);
}

static bool
put_statement(const EoAnswer *answer, EoBuf *body, bool *inserts)
{
	const EoStore *store = answer->store;
	const Written *w = answer->written;

	*inserts = true;
	return w->verb == EO_ACTION_CREATE &&
		eo_action_item_put_create(eo_action_store_layout(store), body, store->server->table,
								  answer->pk, &w->write);
}

/*
 * The service's time, by which a write is conditional.  It is an estimate, which a correction may
 * set back.  But no two writes of a session have the same instant: the one in a consumed
 * action tells which of two calls with one token has consumed it.
 */
static int64
next_instant(const EoStore *store)
{
	static int64 last_ms;
	int64		now_ms = eo_client_now_ms(&store->client);

	if (now_ms <= last_ms && now_ms > last_ms - 1000)
		now_ms = last_ms + 1;
	last_ms = now_ms;
	return now_ms;
}

EoAnswer *
eo_action_store_write(EoStore *store, const char *pk, EoActionVerb verb, EoActionWrite *w)
{
	EoAnswer   *answer;

	for (int round = 0;; round++)
	{
		w->now_ms = next_instant(store);
		answer = eo_answer_run_one(eo_action_store_plan(store, pk, verb, w));
		eo_service_clock_share(&store->client);

		/*
		 * Not if an earlier attempt may have been applied: the answer has to
		 * say so.
		 */
		if (!answer->call.clock_moved || answer->call.in_doubt || round > 0)
			return answer;
		if (!eo_clock_sync_make_by(store, &action_kind, pk, 0, &answer->error))
			return answer;
		eo_answer_free(answer);
	}
}

EoAnswer *
eo_action_store_read(EoStore *store, const char *pk)
{
	return eo_answer_run_one(eo_answer_create_read(&action_kind, store, pk));
}

static EoStatus
read_action(const EoStore *store, EoJsonValue *json, void *item)
{
	return eo_action_store_read_item(store, json, item);
}

EoStatus
eo_action_store_read_item(const EoStore *store, EoJsonValue *json, EoActionItem *item)
{
	EoStatus	status = eo_action_item_read(eo_action_store_layout(store), json, item);

	if (item->pin_attempts == EO_PIN_ATTEMPTS_ALL)
		item->pin_attempts = store->server->pin_attempts;
	return status;
}

/* Tables of other layouts have none of our states. */
static const char *
new_state_of_action(const EoStore *store, EoJsonValue *json)
{
	return store->layout->is_native ? eo_record_read_new_state(store->layout, json) : NULL;
}

static bool
shows_action(const void *item, const void *written)
{
	const Written *w = written;

	return eo_action_item_shows(item, w->verb, w->write.token);
}

/* ----- clock ----- */

void
eo_action_store_need_clock(EoStore *store, const char *pk, const char *doing, const char *id)
{
	EoError		error;

	if (!eo_clock_sync_make_by(store, &action_kind, pk, 0, &error))
		eo_error_raise_action(&error, doing, id, store->server->name, NULL);
}

/* ----- errors ----- */

#define CONSUME_UNKNOWN \
	"Call again with the same token: that finds out, and consumes nothing twice. Without a token, action_get() shows what has become of the action."

/* How a failed write is reported. */
typedef struct Failure
{
	const char *doing;
	const char *unknown;		/* the hint if the outcome is EO_UNKNOWN */
} Failure;

static const Failure failures[] = {

	[EO_ACTION_CREATE] = {"create",
	"Whether it was made can be seen by action_get(). An id that was made for you is lost with the answer, and its action does no harm."},
	[EO_ACTION_ATTEMPT] = {"take an attempt at",
	"The action was not consumed. The attempt may have been used; action_get() shows how many are left."},
	[EO_ACTION_CONSUME] = {"consume", CONSUME_UNKNOWN},
	[EO_ACTION_CONSUME_PAID] = {"consume", CONSUME_UNKNOWN},
	[EO_ACTION_CANCEL] = {"cancel",
	"Call action_cancel() again: it tells how the action has ended."},
	[EO_ACTION_CLOSE] = {"consume",
	"The action is over, unless a request that is still on its way consumes it. Call again, with the same token, to find out."},
};

StaticAssertDecl(lengthof(failures) == EO_ACTION_CLOSE + 1, "a row for each EoActionVerb");

void
eo_action_store_raise(const EoAnswer *answer, EoActionVerb verb, const char *id)
{
	eo_error_raise_action(&answer->error, failures[verb].doing, id, answer->store->server->name,
						  failures[verb].unknown);
}

void
eo_action_store_raise_unreadable(const EoAnswer *answer, const char *id)
{
	EoError		error = answer->error;

	eo_answer_say_unreadable(answer, &error);
	eo_error_raise_action(&error, "read", id, answer->store->server->name, NULL);
}
