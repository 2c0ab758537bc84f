/*-------------------------------------------------------------------------
 *
 * transact.c
 *	  A key completed together with writes of the caller's in DynamoDB.
 *
 * One TransactWriteItems: the record, COMPLETED, under the condition of an
 * acquire, and beside it what the caller wants written.  DynamoDB carries out
 * all of it or nothing, so no lease, no seal and no worker is needed: the key is
 * completed if and only if the caller's writes were made.
 *
 * "Was it applied?" is answered as for every other write, see store.c: by a
 * token that is new with each call and becomes the record's owner.  An answer
 * that is lost is asked for again by the same bytes, ClientRequestToken
 * included, which DynamoDB answers as it did the first time for ten minutes; and
 * if it did not, the record would refuse the second copy and show our token.
 *
 * Two may refuse.  If it is the record, that says what stands in the way, and
 * the caller's conditions do not matter: the writes of a duplicate usually fail
 * theirs.  If it is one of the caller's only, nothing was written, and that is
 * an error.  Unless an earlier copy of the request went astray: then it could
 * still arrive and find the condition true.  So the record is buried first,
 * which is also a look whether that copy has been there (settle_doubt()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/target.h"
#include "commit/session_tokens.h"
#include "dynamodb/action_item.h"
#include "dynamodb/client.h"
#include "dynamodb/json.h"
#include "dynamodb/record.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"
#include "keys/acquire.h"
#include "keys/key.h"
#include "keys/transact.h"
#include "keys/transact_items.h"
#include "lib/stringinfo.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "server/text.h"
#include "utils/builtins.h"

/* Races lost in a row before the caller is told to come back. */
#define MAX_RACES 5

/* Refused writes that are told one by one. */
#define MAX_TOLD 5

static void check_tables(const EoKey *k, const EoTransactItems *actions);
static void check_records(const EoKey *k, const EoTransactItems *actions);
pg_noreturn static void raise_held(const EoKey *k, const char *by, const char *hint);
static void fill_write(const EoAcquiring *a, const EoTransact *ask, EoWrite *w);
static EoAnswer *run(EoAcquiring *a, const EoTransact *ask, EoVerb verb, const EoRecord *seen);
static bool attempt(EoAcquiring *a, const EoTransact *ask);
static void take_completed(EoAcquiring *a, const EoTransact *ask);
static bool settle_doubt(EoAcquiring *a, const EoTransact *ask);
pg_noreturn static void raise_refused(const EoAcquiring *a, const EoTransact *ask,
									  const EoAnswer *answer);
static char *describe_reasons(const EoAnswer *answer, const EoTransactItems *actions);

void
eo_transact(EoStore *store, const EoTransact *ask, EoClaim *claim)
{
	EoAcquire	terms = {.key = ask->key,.lease_ms = -1,.retention_s = -1,
	.payload_sha256 = ask->payload_sha256};
	EoAcquiring a;
	const EoKey *k = &a.k;
	bool		answered = false;

	eo_acquire_init(&a, store, &terms, claim);
	eo_key_check_size(k, "result", ask->result != NULL ? strlen(ask->result) : 0,
					  "Store it elsewhere, for example by a write of this transaction.");
	check_tables(k, ask->actions);
	check_records(k, ask->actions);
	if (k->held != NULL)
		raise_held(k, "This transaction holds or has settled it.",
				   "idem_transact() claims the key by itself: leave idem_acquire() out.");
	for (int races = 0; races < MAX_RACES && !answered; races++)
	{
		memset(claim, 0, sizeof(*claim));
		answered = eo_acquire_look_around(&a) || attempt(&a, ask);
	}
	if (!answered)
	{
		/* Everybody else won: somebody is at work on it. */
		memset(claim, 0, sizeof(*claim));
		claim->outcome = EO_CLAIM_IN_PROGRESS;
	}
	if (claim->mine)
		raise_held(k, "This session holds it, by a claim that outlived its transaction.",
				   "Complete it with idem_complete(), or release it first.");
}

/* ----- before anything is sent ----- */

static bool
is_allowed(const EoServer *server, const char *table)
{
	ListCell   *lc;

	foreach(lc, server->transact_tables)
	{
		if (strcmp(lfirst(lc), table) == 0)
			return true;
	}
	return false;
}

/*
 * The credentials are the server's, and may be good for more than its users are
 * to do with them.
 */
static void
check_tables(const EoKey *k, const EoTransactItems *actions)
{
	const EoServer *server = k->store->server;

	if (server->transact_tables == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("server \"%s\" has no option \"transact_tables\"", server->name),
				 errdetail("It names the tables that idem_transact() may write to."),
				 errhint("Its owner can add it: ALTER SERVER %s OPTIONS (ADD transact_tables 'orders, payments');",
						 quote_identifier(server->name))));
	for (int i = 0; i < actions->n; i++)
	{
		if (!is_allowed(server, actions->actions[i].table))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for DynamoDB table \"%s\"", actions->actions[i].table),
					 errdetail("Write %d names it, and the option transact_tables of server \"%s\" does not.",
							   i + 1, server->name),
					 errhint("Its owner can allow it with ALTER SERVER.")));
	}
}

static bool
is_record(const EoStore *store, const char *pk)
{
	return eo_record_is_pk(store->layout, pk) || eo_action_item_is_pk(pk);
}

/*
 * Where the records' own table is among those, the records are not: they keep
 * their promises only if nobody else writes them.
 */
static void
check_records(const EoKey *k, const EoTransactItems *actions)
{
	const char *name = eo_record_key_name(k->store->layout);

	for (int i = 0; i < actions->n; i++)
	{
		const EoTransactItem *action = &actions->actions[i];
		char	   *pk;

		if (strcmp(action->table, k->store->server->table) != 0)
			continue;
		pk = eo_transact_item_key_string(action, name);
		if (pk != NULL)
			pk = eo_text_to_utf8(pk);
		if (pk != NULL && is_record(k->store, pk) &&
			(action->writes || strcmp(pk, k->pk) == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("write %d is about the record of a key or an action", i + 1),
					 errdetail("Records are written by the functions of this extension only, and the key's own is part of the transaction already."),
					 errhint("Look at its %s. A ConditionCheck may be about another record.", name)));
	}
}

static void
raise_held(const EoKey *k, const char *by, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_NOT_OWNER),
			 errmsg("key \"%s\" on server \"%s\" is claimed already", k->key, k->store->server->name),
			 errdetail("%s", by),
			 errhint("%s", hint)));
}

/* ----- asking DynamoDB ----- */

static void
fill_write(const EoAcquiring *a, const EoTransact *ask, EoWrite *w)
{
	memset(w, 0, sizeof(*w));
	w->owner = a->token;
	w->now_ms = eo_client_now_ms(&a->k.store->client);
	w->skew_ms = a->k.store->server->clock_skew_ms;
	w->ttl_s = eo_record_ttl_after(w->now_ms, a->k.store->server->retention_s);
	w->bind = "keep";
	w->payload_sha256 = ask->payload_sha256;
	w->result = ask->result;
	w->result_len = ask->result != NULL ? strlen(ask->result) : 0;
}

/*
 * The owner's token is that of the call; the request's is that of these bytes.
 */
static EoAnswer *
run(EoAcquiring *a, const EoTransact *ask, EoVerb verb, const EoRecord *seen)
{
	char		request_token[EO_TOKEN_LEN + 1];
	EoAnswer   *answer;

	fill_write(a, ask, &a->write);
	a->write.seen = seen;
	eo_store_new_token(request_token);
	answer = eo_store_prepare_transaction(a->k.store, a->k.pk, verb, &a->write, request_token,
										  ask->actions->text, ask->actions->n);
	eo_answer_run(&answer, 1, 1, 0);
	a->in_doubt |= answer->call.in_doubt;
	return answer;
}

/* False: the record has changed meanwhile. */
static bool
attempt(EoAcquiring *a, const EoTransact *ask)
{
	EoAnswer   *answer = run(a, ask, EO_COMPLETE_NEW, NULL);
	EoAnswer   *first = answer;
	bool		answered = false;

	/* A finished record past its time: replace exactly that. */
	a->replacing = answer->outcome == EO_NOT_APPLIED && answer->exists &&
		eo_store_is_expired(a->k.store, eo_answer_record(answer));
	if (a->replacing)
		answer = run(a, ask, EO_COMPLETE_EXPIRED, eo_answer_record(first));
	switch (answer->outcome)
	{
		case EO_APPLIED:
			take_completed(a, ask);
			answered = true;
			break;
		case EO_NOT_APPLIED:
			answered = answer->exists && !a->replacing && eo_acquire_explain(a, eo_answer_record(answer));
			break;
		case EO_READ:
		case EO_FAILED_CALL:
			if (answer->error.status != EO_CANCELLED || !settle_doubt(a, ask))
				raise_refused(a, ask, answer);
			take_completed(a, ask);
			answered = true;
			break;
	}
	if (first != answer)
		eo_answer_free(first);
	eo_answer_free(answer);
	return answered;
}

/*
 * fence and run are DynamoDB's, and a transaction brings back nothing.
 */
static void
take_completed(EoAcquiring *a, const EoTransact *ask)
{
	EoClaim    *claim = a->claim;

	claim->outcome = EO_CLAIM_COMPLETED;
	claim->result = ask->result != NULL ? pstrdup(ask->result) : NULL;
	claim->expires_at_ms = a->write.ttl_s * 1000;
	eo_session_tokens_forget(a->k.store->server->serverid, a->k.pk);
	eo_target_share_clock(a->k.store, &a->k.target);
}

/*
 * A write of the caller's was refused, and an earlier copy of the request may
 * have been applied, or may arrive yet.  Where there is no record, one under our
 * token is left, which that copy cannot get past.  True: it has been applied.
 */
static bool
settle_doubt(EoAcquiring *a, const EoTransact *ask)
{
	EoWrite		w;
	EoAnswer   *answer;
	bool		applied;

	if (!a->in_doubt)
		return false;
	fill_write(a, ask, &w);
	w.payload_sha256 = w.result = NULL;
	w.result_len = 0;
	answer = eo_store_write(a->k.store, a->k.pk, EO_BURY, &w);
	if (answer->outcome == EO_FAILED_CALL)
	{
		answer->error.status = EO_UNKNOWN;
		raise_refused(a, ask, answer);
	}
	applied = answer->outcome == EO_NOT_APPLIED && answer->exists &&
		eo_answer_record(answer)->state == EO_STATE_COMPLETED &&
		strcmp(eo_answer_record(answer)->owner, a->token) == 0;
	eo_answer_free(answer);
	return applied;
}

/* ----- what was refused ----- */

static void
raise_refused(const EoAcquiring *a, const EoTransact *ask, const EoAnswer *answer)
{
	const char *server = a->k.store->server->name;
	const EoError *error = &answer->error;

	if (strcmp(error->code, "IdempotentParameterMismatchException") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("a request token for key \"%s\" on server \"%s\" was used twice", ask->key, server),
				 errdetail_internal("%s", eo_error_facts(error))));
	if (error->status == EO_CANCELLED)
		ereport(ERROR,
				(errcode(ERRCODE_EO_REFUSED),
				 errmsg("could not transact key \"%s\" on server \"%s\": a write was refused", ask->key, server),
				 errdetail_internal("%s", describe_reasons(answer, ask->actions)),
				 errhint("Nothing was written, and the key can be used again.")));
	if (error->status == EO_TOO_LARGE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("writes for key \"%s\" on server \"%s\" are too large", ask->key, server),
				 errdetail("DynamoDB takes 4 MB of items in a transaction, and 400 KB in an item.")));
	if (error->status == EO_DENIED || error->status == EO_NO_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_EO_REFUSED),
				 errmsg("could not transact key \"%s\" on server \"%s\": %s", ask->key, server,
						error->status == EO_DENIED ? "DynamoDB denied access" : "there is no such table"),
				 errdetail_internal("%s", eo_error_facts(error)),
				 error->status == EO_DENIED ?
				 errhint("Check the credentials of the user mapping and their policy: dynamodb:UpdateItem on the server's table; PutItem, UpdateItem, DeleteItem and ConditionCheckItem on those that are written to.") :
				 errhint("It is the server's table, or one that the writes name.")));
	eo_error_raise(error, "transact", ask->key, server);
}

/* A reason's code as it can be printed; NULL: that action was not refused. */
static char *
reason_code(EoJsonValue *reason)
{
	size_t		len;
	const char *code = eo_json_string(eo_json_get(reason, "Code"), &len);
	char	   *copy;

	if (code == NULL || strcmp(code, "None") == 0)
		return NULL;
	copy = pnstrdup(code, Min(len, EO_CODE_LEN));
	for (char *p = copy; *p != '\0'; p++)
	{
		if (*p <= ' ' || *p > '~')
			*p = '?';
	}
	return copy;
}

/*
 * Position, operation, table and code.  Nothing of the items, and no text of the
 * service, which may quote them.
 */
static char *
describe_reasons(const EoAnswer *answer, const EoTransactItems *actions)
{
	EoJsonValue *reasons = answer->call.reasons;
	StringInfoData s;
	int			told = 0;
	int			more = 0;

	initStringInfo(&s);
	for (int i = 0; i <= actions->n; i++)
	{
		char	   *code = reason_code(eo_json_array_get(reasons, i));

		if (code == NULL)
			continue;
		if (told++ >= MAX_TOLD)
			more++;
		else if (i == 0)
			appendStringInfo(&s, "The key's record: %s. ", code);
		else
			appendStringInfo(&s, "Write %d, %s of table \"%s\": %s. ", i,
							 actions->actions[i - 1].operation, actions->actions[i - 1].table, code);
	}
	if (more > 0)
		appendStringInfo(&s, "And %d more. ", more);
	if (answer->error.request_id[0] != '\0')
		appendStringInfo(&s, "Request id %s.", answer->error.request_id);
	while (s.len > 0 && s.data[s.len - 1] == ' ')
		s.data[--s.len] = '\0';
	return s.data;
}
