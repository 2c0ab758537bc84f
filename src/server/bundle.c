/*-------------------------------------------------------------------------
 *
 * bundle.c
 *	  Writes of different records that share a request.
 *
 * A batch of statements must not name a key twice: some engines answer that with an error
 * and have carried out the statements.  So the error of a whole batch never means that
 * nothing was written, and neither does the refusal of one statement: PartiQL spells some
 * conditions more strictly (records/statement.h).  Both are left to a request of the
 * write's own.
 *
 * The reply to an INSERT brings no item that would show which statement it is about.  So
 * an INSERT is believed only if all of the bundle were accepted, and the reply has an answer
 * for each statement, all of which name our table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "records/record.h"
#include "records/statement.h"
#include "records/window.h"
#include "server/answer.h"
#include "server/bundle.h"
#include "server/guc.h"
#include "server/stats.h"
#include "server/store.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/json.h"
#include "wire/status.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* So long no bundle is sent after the service has refused one for good. */
#define REFUSED_US INT64CONST(3600000000)

#define BODY_BEGIN "{\"Statements\":["
#define BODY_END "]}"

static void free_call(void *arg);
static bool believe(const EoCall *call, EoJsonValue *item, bool refused);
static bool believe_reply(const EoBundle *bundle, int i);
static bool is_in_doubt(const EoError *error, const EoStatementReply *reply);
static void take_refusal(EoBundle *bundle, const char *code);

bool
eo_bundle_is_allowed(const EoStore *store)
{
	TimestampTz refused_at;
	int64		since_us;

	if (!store->server->batch_requests || !eo_statement_allows_table(store->server->table))
		return false;
	refused_at = (TimestampTz) pg_atomic_read_u64(&store->stats->bundles_refused);
	if (refused_at == 0)
		return true;
	since_us = GetCurrentTimestamp() - refused_at;
	/* It is in the future if the clock was set back. */
	return since_us < 0 || since_us >= eo_guc_hurried_us(REFUSED_US);
}

EoBundle *
eo_bundle_create(EoStore *store)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "exactonce bundle",
												  ALLOCSET_SMALL_SIZES);
	EoBundle   *bundle = MemoryContextAllocZero(context, sizeof(EoBundle));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));

	bundle->context = context;
	bundle->store = store;
	eo_call_init(&bundle->call, &store->client, EO_BATCH_WRITE);
	bundle->call.arg = bundle;
	bundle->call.believe = believe;
	eo_buf_adds(&bundle->call.body, BODY_BEGIN);
	callback->func = free_call;
	callback->arg = &bundle->call;
	MemoryContextRegisterResetCallback(context, callback);
	return bundle;
}

static void
free_call(void *arg)
{
	eo_call_free(arg);
}

void
eo_bundle_free(EoBundle *bundle)
{
	MemoryContextDelete(bundle->context);
}

static bool
has_key(const EoBundle *bundle, const char *pk)
{
	for (int i = 0; i < bundle->n; i++)
	{
		if (strcmp(eo_answer_pk(bundle->members[i]), pk) == 0)
			return true;
	}
	return false;
}

/* A write on a key, for put_record(). */
typedef struct RecordWrite
{
	EoVerb		verb;
	const EoWrite *w;
} RecordWrite;

static bool
put_record(EoBuf *body, const EoStore *store, const char *pk, const void *arg)
{
	const RecordWrite *record = arg;

	return eo_record_put_statement(store->layout, body, store->server->table, pk, record->verb,
								   record->w);
}

bool
eo_bundle_add(EoBundle *bundle, EoAnswer *answer, EoVerb verb, const EoWrite *w)
{
	RecordWrite record = {.verb = verb,.w = w};

	if (!eo_bundle_add_statement(bundle, answer, verb == EO_ACQUIRE || verb == EO_SEAL_NEW,
								 put_record, &record))
		return false;
	bundle->call.dated |= eo_record_is_dated(verb);
	return true;
}

bool
eo_bundle_add_statement(EoBundle *bundle, EoAnswer *answer, bool inserts, EoPutStatement put,
						const void *arg)
{
	EoBuf	   *body = &bundle->call.body;
	size_t		before = body->len;
	const char *pk = eo_answer_pk(answer);
	bool		spelled;

	if (bundle->full || has_key(bundle, pk))
	{
		bundle->full = true;
		return false;
	}
	if (bundle->n > 0)
		eo_buf_addc(body, ',');
	spelled = put(body, bundle->store, pk, arg);
	if (!spelled || eo_buf_status(body) != EO_OK ||
		body->len + strlen(BODY_END) + 1 > EO_MAX_BATCH_BODY)
	{
		/* One that is too large even alone leaves the room to others. */
		bundle->full = spelled && bundle->n > 0;
		body->len = before;
		body->status = EO_OK;
		return false;
	}
	answer->bundle = bundle;
	bundle->inserts[bundle->n] = inserts;
	bundle->members[bundle->n++] = answer;
	bundle->call.dated |= answer->call.dated;
	bundle->full = bundle->n == EO_MAX_STATEMENTS;
	return true;
}

bool
eo_bundle_start(EoBundle *bundle, EoWindow *window, int64 deadline_us)
{
	int64		now_us = eo_clock_monotonic_us();

	Assert(bundle->n > 1);
	if (deadline_us == 0)
		deadline_us = eo_client_deadline_us(&bundle->store->client);
	eo_buf_adds(&bundle->call.body, BODY_END);
	return eo_window_add(window, &bundle->call, now_us + (deadline_us - now_us) / 2);
}

EoBundle *
eo_bundle_of_call(EoCall *call)
{
	Assert(call->op == EO_BATCH_WRITE);
	return call->arg;
}

/* ----- the reply ----- */

/*
 * One answer that cannot be ours makes the whole reply that of another request.  item is
 * NULL, because the reply of a batch has several.
 */
static bool
believe(const EoCall *call, EoJsonValue *item, bool refused)
{
	EoBundle   *bundle = call->arg;

	(void) item;
	if (refused || !eo_statement_read(eo_json_root(call->reply), bundle->replies, bundle->n))
		return false;
	for (int i = 0; i < bundle->n; i++)
	{
		if (!believe_reply(bundle, i))
			return false;
	}
	return true;
}

static bool
believe_reply(const EoBundle *bundle, int i)
{
	EoAnswer   *member = bundle->members[i];
	const EoStatementReply *reply = &bundle->replies[i];

	if (reply->table != NULL && strcmp(reply->table, bundle->store->server->table) != 0)
		return false;
	if (reply->item != NULL && !eo_answer_read_item(member, reply->item))
		return false;
	if (reply->status != EO_OK)
		return true;
	return reply->item != NULL ? eo_answer_is_own(member) : bundle->inserts[i];
}

void
eo_bundle_take(EoBundle *bundle)
{
	const EoError *error = &bundle->call.error;
	bool		answered = error->status == EO_OK;
	bool		all_inserted = true;
	int			ninvalid = 0;

	/* The items that were read from a reply that was not believed are freed. */
	if (!answered)
		memset(bundle->replies, 0, sizeof(bundle->replies));

	for (int i = 0; i < bundle->n; i++)
		all_inserted &= !bundle->inserts[i] || bundle->replies[i].status == EO_OK;
	eo_store_log_call(bundle->store, &bundle->call);
	for (int i = 0; i < bundle->n; i++)
	{
		EoAnswer   *member = bundle->members[i];
		const EoStatementReply *reply = &bundle->replies[i];
		bool		shown = reply->item != NULL && eo_answer_is_own(member);
		bool		applied = answered &&
		(shown || (reply->status == EO_OK && all_inserted));

		member->outcome = applied ? EO_APPLIED : EO_FAILED_CALL;
		member->exists = applied && reply->item != NULL;
		member->error = *error;
		/* A request whose time was refused has written nothing. */
		member->call.in_doubt = !applied && is_in_doubt(error, reply) &&
			(bundle->call.in_doubt || !bundle->call.clock_moved);
		if (reply->status == EO_CONDITION_FAILED)
			bundle->nrefused++;
		if (reply->status == EO_DENIED)
			take_refusal(bundle, reply->code);
		ninvalid += reply->status == EO_REFUSED;
	}

	/*
	 * The service knows the operation, but does not understand our
	 * statements.
	 */
	if (bundle->n > 0 && ninvalid == bundle->n)
		take_refusal(bundle, bundle->replies[0].code);
	if (error->status == EO_REFUSED || strcmp(error->code, "AccessDeniedException") == 0)
		take_refusal(bundle, error->code);
}

/* May a statement that is not known to be applied have been carried out, or be yet? */
static bool
is_in_doubt(const EoError *error, const EoStatementReply *reply)
{
	switch (error->status)
	{
		case EO_OK:
			return reply->status == EO_UNKNOWN || reply->status == EO_OK;
		case EO_NO_MEMORY:
		case EO_TOO_LARGE:
		case EO_INVALID:
		case EO_CRYPTO:
		case EO_NO_CREDENTIALS:
		case EO_CREDENTIALS_AWAY:
		case EO_UNREACHABLE:
		case EO_NOT_ASKED:
			return false;		/* nothing was sent */
		default:
			return true;
	}
}

/*
 * The service does not allow or does not know such requests.  All processes do without
 * them for a while, and the first that notices says so.
 */
static void
take_refusal(EoBundle *bundle, const char *code)
{
	const EoServer *server = bundle->store->server;

	if (!eo_bundle_is_allowed(bundle->store))
		return;
	pg_atomic_write_u64(&bundle->store->stats->bundles_refused, (uint64) GetCurrentTimestamp());
	ereport(LOG,
			(errmsg("exactonce: server \"%s\" does not accept several keys in a request; each is written by itself for an hour",
					server->name),
			 errdetail_internal("%s", code),
			 errhint("Allow dynamodb:PartiQLInsert and dynamodb:PartiQLUpdate on the table, or set the server's option batch_requests to off."),
			 errhidestmt(true)));
}
