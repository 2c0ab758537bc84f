/*-------------------------------------------------------------------------
 *
 * bundle.c
 *	  Writes of different items that share a request.
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

#include "server/bundle.h"
#include "server/call_log.h"
#include "server/guc.h"
#include "server/stats.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "wire/buf.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/json.h"
#include "wire/reply.h"
#include "wire/status.h"

/* So long no bundle is sent after the service has refused one for good. */
#define REFUSED_US INT64CONST(3600000000)

#define BODY_BEGIN "{\"Statements\":["
#define BODY_END "]}"

static void free_call(void *arg);
static bool believe(const EoCall *call, EoJsonValue *item, bool refused);
static bool believe_reply(const EoBundle *bundle, int i);
static void settle(EoBundle *bundle);
static void settle_member(EoBundle *bundle, int i, bool all_inserted);
static bool is_in_doubt(const EoError *error, const EoStatementReply *reply);
static void take_refusal(EoBundle *bundle, const char *code);

static bool
is_allowed(const EoStore *store)
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

static EoBundle *
create(EoStore *store, const EoBundleOwner *owner, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "exactonce bundle",
												  ALLOCSET_SMALL_SIZES);
	EoBundle   *bundle = MemoryContextAllocZero(context, sizeof(EoBundle));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));

	bundle->context = context;
	bundle->store = store;
	bundle->owner = owner;
	bundle->arg = arg;
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

static bool
has_key(const EoBundle *bundle, const char *pk)
{
	for (int i = 0; i < bundle->n; i++)
	{
		if (strcmp(bundle->members[i]->pk, pk) == 0)
			return true;
	}
	return false;
}

/* Make a write a member.  Returns false if it has no room, or no spelling as a statement. */
static bool
add(EoBundle *bundle, EoAnswer *answer)
{
	EoBuf	   *body = &bundle->call.body;
	size_t		before = body->len;
	bool	   *inserts = &bundle->inserts[bundle->n];
	bool		spelled;

	/* A transaction has a request of its own. */
	if (answer->call.op != EO_UPDATE_ITEM)
		return false;
	bundle->full = has_key(bundle, answer->pk);
	if (bundle->full)
		return false;
	if (bundle->n > 0)
		eo_buf_addc(body, ',');
	spelled = answer->kind->put_statement(answer, body, inserts);
	if (!spelled || eo_buf_status(body) != EO_OK ||
		body->len + strlen(BODY_END) + 1 > EO_MAX_BATCH_BODY)
	{
		/* One that is too large even alone leaves the room to others. */
		bundle->full = spelled && bundle->n > 0;
		body->len = before;
		body->status = EO_OK;
		return false;
	}
	bundle->members[bundle->n++] = answer;
	bundle->call.dated |= answer->call.dated;
	bundle->full = bundle->n == EO_MAX_STATEMENTS;
	return true;
}

/* Nothing is sent for a write that was planned. */
static void
hand_back(const EoBundle *bundle, EoAnswer *answer)
{
	answer->outcome = EO_FAILED_CALL;
	answer->error.status = EO_NOT_ASKED;
	bundle->owner->take(answer, bundle->arg);
}

static void
start(EoBundle *bundle, EoWindow *window)
{
	int64		now_us = eo_clock_monotonic_us();
	int64		deadline_us = bundle->deadline_us;

	if (bundle->owner->sending != NULL)
		bundle->owner->sending(bundle);
	if (deadline_us == 0)
		deadline_us = eo_client_deadline_us(&bundle->store->client);
	eo_buf_adds(&bundle->call.body, BODY_END);
	if (!eo_window_add(window, &bundle->call, now_us + (deadline_us - now_us) / 2))
		(void) eo_bundle_take(&bundle->call);
}

bool
eo_bundle_start_next(EoStore *store, const EoBundleOwner *owner, void *arg, EoWindow *window,
					 int64 deadline_us)
{
	EoBundle   *bundle;
	EoAnswer   *answer;

	if (!is_allowed(store))
		return false;
	bundle = create(store, owner, arg);
	bundle->deadline_us = deadline_us;
	while (!bundle->full && (answer = owner->next(bundle)) != NULL)
	{
		if (!add(bundle, answer))
			hand_back(bundle, answer);
	}
	if (bundle->n > 1)
	{
		start(bundle, window);
		return true;
	}
	if (bundle->n == 1)
		hand_back(bundle, bundle->members[0]);
	MemoryContextDelete(bundle->context);
	return true;
}

bool
eo_bundle_take(EoCall *call)
{
	EoBundle   *bundle = call->arg;

	if (call->op != EO_BATCH_WRITE)
		return false;
	settle(bundle);
	if (bundle->owner->ended != NULL)
		bundle->owner->ended(bundle);
	for (int i = 0; i < bundle->n; i++)
		bundle->owner->take(bundle->members[i], bundle->arg);
	MemoryContextDelete(bundle->context);
	return true;
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

/* The request has ended: set the outcome of each member. */
static void
settle(EoBundle *bundle)
{
	const EoError *error = &bundle->call.error;
	bool		all_inserted = true;
	int			ninvalid = 0;

	eo_call_log(bundle->store->server->name, &bundle->call);
	/* The items that were read from a reply that was not believed are freed. */
	if (error->status != EO_OK)
		memset(bundle->replies, 0, sizeof(bundle->replies));
	for (int i = 0; i < bundle->n; i++)
		all_inserted &= !bundle->inserts[i] || bundle->replies[i].status == EO_OK;
	for (int i = 0; i < bundle->n; i++)
	{
		settle_member(bundle, i, all_inserted);
		ninvalid += bundle->replies[i].status == EO_REFUSED;
	}

	/*
	 * The service knows the operation, but does not understand our
	 * statements.
	 */
	if (ninvalid == bundle->n)
		take_refusal(bundle, bundle->replies[0].code);
	if (error->status == EO_REFUSED || strcmp(error->code, "AccessDeniedException") == 0)
		take_refusal(bundle, error->code);
}

static void
settle_member(EoBundle *bundle, int i, bool all_inserted)
{
	const EoCall *call = &bundle->call;
	const EoStatementReply *reply = &bundle->replies[i];
	EoAnswer   *member = bundle->members[i];
	bool		shown = reply->item != NULL && eo_answer_is_own(member);
	bool		applied = call->error.status == EO_OK &&
	(shown || (reply->status == EO_OK && all_inserted));

	member->outcome = applied ? EO_APPLIED : EO_FAILED_CALL;
	member->exists = applied && reply->item != NULL;
	member->error = call->error;
	member->call.clock_moved = call->clock_moved;
	/* A request whose time was refused has written nothing. */
	member->call.in_doubt = !applied && is_in_doubt(&call->error, reply) &&
		(call->in_doubt || !call->clock_moved);
	bundle->nrefused += reply->status == EO_CONDITION_FAILED;
	if (reply->status == EO_DENIED)
		take_refusal(bundle, reply->code);
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

	if (!is_allowed(bundle->store))
		return;
	pg_atomic_write_u64(&bundle->store->stats->bundles_refused, (uint64) GetCurrentTimestamp());
	ereport(LOG,
			(errmsg("exactonce: server \"%s\" does not accept several keys in a request; each is written by itself for an hour",
					server->name),
			 errdetail_internal("%s", eo_reply_code_told(code, bundle->store->client.tenant != 0)),
			 errhint("Allow dynamodb:PartiQLInsert and dynamodb:PartiQLUpdate on the table, or set the server's option batch_requests to off."),
			 errhidestmt(true)));
}
