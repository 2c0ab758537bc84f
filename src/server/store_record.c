/*-------------------------------------------------------------------------
 *
 * store_record.c
 *	  The verbs on the records of a server.
 *
 * Records are one kind of item (answer.h): eo_store_record_kind says how to read
 * one, how a write is spelled, and which of its attributes show that it was applied.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "records/list.h"
#include "server/store_record.h"
#include "utils/memutils.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/json.h"
#include "wire/status.h"

/* A write, and the values that shows_record() compares a record with. */
typedef struct Written
{
	EoVerb		verb;
	EoWrite		write;			/* owner, origin and progress are copies; the
								 * rest counts until the write is spelled */
	bool		replaces;		/* the record with this owner and fence, as it
								 * was at seen_ms */
	const char *seen_owner;
	int64		seen_fence;
	int64		seen_ms;

	/* Of a transaction: its token, and the other writes. */
	const char *request_token;
	const char *others;
} Written;

static const char *
copy(const EoAnswer *answer, const char *s)
{
	return s != NULL ? MemoryContextStrdup(answer->context, s) : NULL;
}

static bool
is_finish(EoVerb verb)
{
	return verb == EO_FINISH || verb == EO_FINISH_OTHER;
}

static EoAnswer *
plan(EoStore *store, const char *pk, EoOperation op, EoVerb verb, const EoWrite *w)
{
	EoAnswer   *answer = eo_answer_create(&eo_store_record_kind, store, pk, op);
	Written    *written = answer->written;

	written->verb = verb;
	written->write = *w;
	written->write.owner = copy(answer, w->owner);
	written->write.origin = copy(answer, w->origin);
	written->write.origin_last = copy(answer, w->origin_last);
	written->write.progress = copy(answer, w->progress);
	if (w->seen != NULL)
	{
		written->replaces = true;
		written->seen_owner = copy(answer, w->seen->owner);
		written->seen_fence = w->seen->fence;
		written->seen_ms = w->seen->updated_ms;
	}
	answer->is_probe = verb == EO_PROBE;
	answer->is_narrow = w->narrow;
	answer->call.dated = eo_record_is_dated(verb);
	return answer;
}

EoAnswer *
eo_store_record_plan(EoStore *store, const char *pk, EoVerb verb, const EoWrite *w)
{
	return plan(store, pk, EO_UPDATE_ITEM, verb, w);
}

EoAnswer *
eo_store_record_plan_transaction(EoStore *store, const char *pk, EoVerb verb, const EoWrite *w,
								 const char *request_token, const char *writes, int nwrites)
{
	EoAnswer   *answer = plan(store, pk, EO_TRANSACT, verb, w);
	Written    *written = answer->written;

	written->request_token = copy(answer, request_token);
	written->others = writes;
	answer->call.nactions = 1 + nwrites;
	answer->reads_refusal = is_finish(verb);
	return answer;
}

EoAnswer *
eo_store_record_write(EoStore *store, const char *pk, EoVerb verb, const EoWrite *w)
{
	return eo_answer_run_one(eo_store_record_plan(store, pk, verb, w));
}

EoAnswer *
eo_store_record_read(EoStore *store, const char *pk)
{
	return eo_answer_run_one(eo_answer_create_read(&eo_store_record_kind, store, pk));
}

EoAnswer *
eo_store_record_look(EoStore *store, const char *pk)
{
	EoAnswer   *answer = eo_answer_create_read(&eo_store_record_kind, store, pk);

	answer->may_narrow = true;
	return eo_answer_run_one(answer);
}

/*
 * The reply to a transaction says nothing but the consumed capacity, which is
 * asked for so that the reply can be believed.
 */
static void
put_transaction(const EoAnswer *answer, EoBuf *body)
{
	const EoStore *store = answer->store;
	const Written *w = answer->written;

	eo_buf_addf(body, "{\"ClientRequestToken\":\"%s\",\"ReturnConsumedCapacity\":\"TOTAL\",\"TransactItems\":[",
				w->request_token);
	eo_record_put_transact_item(store->layout, body, store->server->table, answer->pk,
								w->verb, &w->write);
	if (answer->call.nactions > 1)
	{
		eo_buf_addc(body, ',');
		eo_buf_adds(body, w->others);
	}
	eo_buf_adds(body, "]}");
}

static void
put_write(const EoAnswer *answer, EoBuf *body)
{
	const EoStore *store = answer->store;
	const Written *w = answer->written;

	if (answer->call.op == EO_TRANSACT)
	{
		put_transaction(answer, body);
		return;
	}
	eo_record_put_write(store->layout, body, store->server->table, answer->pk, w->verb,
						&w->write);
}

static bool
put_statement(const EoAnswer *answer, EoBuf *body, bool *inserts)
{
	const EoStore *store = answer->store;
	const Written *w = answer->written;

	*inserts = w->verb == EO_ACQUIRE || w->verb == EO_SEAL_NEW;
	return eo_record_put_statement(store->layout, body, store->server->table, answer->pk,
								   w->verb, &w->write);
}

static void
put_narrow_read(const EoAnswer *answer, EoBuf *body)
{
	eo_list_put_read(body, answer->store->layout, answer->store->server->table, answer->pk);
}

static EoStatus
read_record(const EoStore *store, EoJsonValue *json, void *item)
{
	return eo_record_read(store->layout, json, item);
}

static const char *
new_state_of_record(const EoStore *store, EoJsonValue *json)
{
	return eo_record_read_new_state(store->layout, json);
}

/* An absent text is the same as an empty one. */
static bool
is_same(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

/* Has one of the transactions that a finish is about sealed the record? */
static bool
is_sealed_by(const EoRecord *r, const EoWrite *w)
{
	if (w->origin == NULL || w->origin[0] == '\0')
		return is_same(r->origin_text, w->origin);
	return r->origin_text != NULL && strcmp(r->origin_text, w->origin) >= 0 &&
		strcmp(r->origin_text, w->origin_last) <= 0;
}

/*
 * A record shows a new lease if that ends no earlier than was asked.  It
 * shows a seal only if it names the same transaction: of two transactions that
 * complete under the same token, only one may believe that it has sealed.  It shows that
 * a seal was undone only if it notes that seal, and so refuses a late copy of it.  It shows
 * a finish with so many writes only if it says that those of that transaction were made.  It
 * shows a note only by its text, too: another note of this claim may have got that number.
 */
static bool
shows_record(const void *item, const void *written)
{
	const EoRecord *r = item;
	EoVerb		verb = ((const Written *) written)->verb;
	const EoWrite *w = &((const Written *) written)->write;

	if (r->owner == NULL || !is_same(r->owner, w->owner) || r->state != eo_record_state_after(verb))
		return false;
	if (verb == EO_SEAL || verb == EO_SEAL_NEW || verb == EO_SEAL_EXPIRED)
		return r->origin_text != NULL && is_same(r->origin_text, w->origin);
	if ((verb == EO_UNSEAL || verb == EO_RESUME || verb == EO_NOTE_UNDONE) &&
		w->origin != NULL && w->origin[0] != '\0' && !eo_record_read_undone(r, w->origin))
		return false;
	if (verb == EO_FINISH_OTHER && w->writes > 0)
		return r->writes == w->writes && is_same(r->origin_text, w->origin);
	if (verb == EO_WAIVE || (verb == EO_FINISH && w->writes > 0))
		return r->writes == w->writes && is_sealed_by(r, w);

	/*
	 * Any other claim of that token in progress is not what was sealed and is
	 * resumed.
	 */
	if (verb == EO_RESUME && !is_same(r->origin_text, w->origin))
		return false;
	if (verb == EO_PROGRESS)
		return r->progress_no == w->progress_seen + 1 && is_same(r->progress, w->progress);
	return (verb != EO_EXTEND && verb != EO_RESUME) || r->lease_ms >= w->lease_ms;
}

/*
 * Is the record still the one that the finish of a sealed key is about, or as it was when a
 * transaction (keys/transact.c) was to replace it, or still absent?
 */
static bool
admits_transaction(const void *item, const void *written)
{
	const EoRecord *r = item;
	const Written *w = written;

	if (r == NULL)
		return w->verb == EO_COMPLETE_NEW;
	if (!is_finish(w->verb))
		return w->replaces && r->fence == w->seen_fence && r->updated_ms == w->seen_ms &&
			is_same(r->owner, w->seen_owner);
	return r->state == EO_STATE_COMMITTING && r->owner != NULL &&
		is_same(r->owner, w->write.owner) && r->writes == w->write.writes &&
		(w->verb == EO_FINISH ? is_sealed_by(r, &w->write) :
		 is_same(r->origin_text, w->write.origin_last));
}

const EoItemKind eo_store_record_kind = {
	.item_size = sizeof(EoRecord),
	.written_size = sizeof(Written),
	.unreadable = "The item under this key is not a record of the server's layout",
	.second_look = true,
	.put_write = put_write,
	.put_statement = put_statement,
	.put_narrow_read = put_narrow_read,
	.read = read_record,
	.new_state = new_state_of_record,
	.shows = shows_record,
	.admits = admits_transaction,
};
