/*-------------------------------------------------------------------------
 *
 * transact.c
 *	  A key completed together with writes of the caller's in DynamoDB.
 *
 * There is one TransactWriteItems.  Its first action makes the record COMPLETED; the
 * other actions are the caller's writes.  DynamoDB carries out all of them or none.
 * So the key is completed if and only if the caller's writes were made, and no lease,
 * seal or worker is needed.
 *
 * The first request is for a key without a record.  If there is one that is free, or
 * past its time, a second request replaces exactly what was seen.  An acquire needs
 * one request for both.  But a late copy of an acquire, which finds that the key has
 * become free again, leaves a lease that ends; a late copy of this would complete the
 * key.
 *
 * Whether the write was applied is found out as for every other write, see answer.c:
 * by a token that is new with each call and becomes the record's owner.  If a reply
 * is lost the same bytes are sent again, with the same ClientRequestToken.  For ten
 * minutes DynamoDB gives such a request the answer of the first one.  After that the
 * record would refuse it, and show our token.
 *
 * A refusal is the record's or the caller's:
 *
 * - If the record refuses, it says what the key is.  Whether a write of the caller's
 *	 would be refused, too, does not matter then: the writes of a duplicate usually
 *	 are.
 * - If only writes of the caller's are refused, and the record, which is read then
 *	 (answer.c), is as it was, that is an error, and nothing was
 *	 written.  But an earlier copy of the request may have been applied, or may still
 *	 arrive when their conditions are true.  In that case the record is buried
 *	 before the error is raised, which also shows whether the copy was applied
 *	 (settle_doubt()).  A copy that replaces a record as it was seen cannot be
 *	 buried, and where other clients delete records nothing stays buried: then the
 *	 outcome is unknown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/service_clocks.h"
#include "commit/session.h"
#include "keys/acquire.h"
#include "keys/key.h"
#include "keys/transact.h"
#include "keys/transact_items.h"
#include "lib/stringinfo.h"
#include "records/action_item.h"
#include "records/life_item.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/table_mode.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "wire/client.h"
#include "wire/json.h"
#include "wire/reply.h"
#include "wire/status.h"

/* After so many lost races in a row the key counts as in progress. */
#define MAX_RACES 5

/* A request can be late for so long, by a signature's time and the clocks of both sides. */
#define LATE_S (20 * 60)

/* An error names so many refused writes, and counts the others. */
#define MAX_TOLD 5

/* A key that is being transacted. */
typedef struct Transacting
{
	EoAcquiring a;
	const EoTransact *ask;
	bool		may_replace;	/* a copy of a request that replaces a record
								 * as it was seen may still arrive */
	bool		copies_refused; /* the record that was met refuses all copies */
} Transacting;

pg_noreturn static void raise_held(const EoKey *k, const char *by, const char *hint);
static bool attempt(Transacting *t);
static bool may_still_be_applied(const Transacting *t, bool answered);
pg_noreturn static void raise_unknown(const EoAcquiring *a);
pg_noreturn static void raise_refused(const EoAcquiring *a, const EoTransact *ask,
									  const EoAnswer *answer);

static void check_tables(const EoKey *k, const char *function, const EoTransactItems *actions);
static void check_records(const EoKey *k, const EoTransactItems *actions);
static bool replace(Transacting *t, EoAnswer **answer);
static bool explain(Transacting *t, const EoRecord *r);
static void take_completed(Transacting *t);
static bool settle_doubt(Transacting *t);
static void check_modes(EoStore *store, const EoTransactItems *actions);
static char *describe_reasons(const EoAnswer *answer, const EoTransactItems *actions);

void
eo_transact(EoStore *store, const EoTransact *ask, EoClaim *claim)
{
	EoAcquire	terms = {.key = ask->key,.lease_ms = -1,.retention_s = -1,
	.payload_sha256 = ask->payload_sha256};
	Transacting t = {.ask = ask};
	const EoKey *k = &t.a.k;
	bool		answered = false;

	eo_acquire_init(&t.a, store, &terms, claim);
	eo_key_check_result(k, ask->result,
						"Store it elsewhere, for example by a write of this transaction.");
	eo_transact_check(k, "idem_transact()", ask->actions);
	if (k->held != NULL)
		raise_held(k, "This transaction holds or has settled it.",
				   "idem_transact() claims the key by itself: leave idem_acquire() out.");
	for (int races = 0; races < MAX_RACES && !answered; races++)
	{
		memset(claim, 0, sizeof(*claim));
		eo_key_need_clock(k, "transact");
		claim->answered_here = eo_acquire_check_slots(&t.a);
		answered = claim->answered_here || attempt(&t);
	}
	if (!answered)
	{
		/* Other runs have won each race, so one of them has the key. */
		memset(claim, 0, sizeof(*claim));
		claim->outcome = EO_CLAIM_IN_PROGRESS;
	}
	if (may_still_be_applied(&t, answered))
		raise_unknown(&t.a);
	if (claim->mine)
		raise_held(k, "This session holds it, by a claim that outlived its transaction.",
				   "Complete it with idem_complete(), or release it first.");
}

/* ----- before anything is sent ----- */

void
eo_transact_check(const EoKey *k, const char *function, const EoTransactItems *actions)
{
	check_tables(k, function, actions);
	check_records(k, actions);
}

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
 * Check that the server's option transact_tables allows each table.  The server's
 * credentials may allow more than its users are meant to do.
 */
static void
check_tables(const EoKey *k, const char *function, const EoTransactItems *actions)
{
	const EoServer *server = k->store->server;

	if (server->transact_tables == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("server \"%s\" has no option \"transact_tables\"", server->name),
				 errdetail("It names the tables that %s may write to.", function),
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

/* Is this the partition key of a key's record, an action or a life? */
static bool
is_record(const EoStore *store, const char *pk)
{
	return eo_record_key_matches(store->layout, pk) || eo_action_item_is_pk(pk) ||
		eo_life_item_is_pk(pk);
}

/*
 * Check that no write is about a record, also if the table of the records is among
 * the allowed ones: what records promise holds only if no other write changes them.
 */
static void
check_records(const EoKey *k, const EoTransactItems *actions)
{
	const EoItemKey *key = &k->store->layout->key;
	const char *name = key->sort_name != NULL ? key->sort_name : key->name;

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
			 errmsg("key \"%s\" on server \"%s\" is claimed already", eo_text_key_shown(k->key), k->store->server->name),
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
	eo_record_keep(w, w->now_ms, a->k.store->server->retention_s);
	w->holder = eo_text_holder();
	w->bind = "keep";
	w->payload_sha256 = ask->payload_sha256;
	w->result = ask->result;
	w->result_len = ask->result != NULL ? strlen(ask->result) : 0;
}

/*
 * Send the transaction.  The record's owner is the token of the call.  The request
 * has a token of its own, because DynamoDB refuses other bytes under the same one.
 */
static EoAnswer *
run(Transacting *t, EoVerb verb, const EoRecord *seen)
{
	EoAcquiring *a = &t->a;
	const EoTransactItems *actions = t->ask->actions;
	char		request_token[EO_TOKEN_LEN + 1];
	EoAnswer   *answer;

	fill_write(a, t->ask, &a->write);
	a->write.seen = seen;
	eo_store_new_token(request_token);
	answer = eo_store_record_plan_transaction(a->k.store, a->k.pk, verb, &a->write, request_token,
											  actions->text, actions->n);
	(void) eo_answer_run_one(answer);
	a->in_doubt |= answer->call.in_doubt;
	t->may_replace |= answer->call.in_doubt && seen != NULL;
	return answer;
}

/* Try to complete the key.  Returns false if the record has changed meanwhile. */
static bool
attempt(Transacting *t)
{
	EoAcquiring *a = &t->a;
	EoAnswer   *answer = run(t, EO_COMPLETE_NEW, NULL);
	bool		answered = false;

	a->replacing = answer->outcome == EO_NOT_APPLIED && answer->exists && replace(t, &answer);
	switch (answer->outcome)
	{
		case EO_APPLIED:
			take_completed(t);
			answered = true;
			break;
		case EO_NOT_APPLIED:
			answered = answer->exists && !a->replacing && explain(t, eo_store_record(answer));
			break;
		case EO_READ:
		case EO_FAILED_CALL:
			if (answer->call.clock_moved && !a->clock_moved)
			{
				a->clock_moved = true;	/* the instants are written anew */
				break;
			}

			/*
			 * A copy of an earlier run of the loop may arrive, whatever this
			 * one met.
			 */
			if (a->in_doubt && answer->error.status != EO_CANCELLED)
				answer->error.status = EO_UNKNOWN;
			if (answer->error.status != EO_CANCELLED || !settle_doubt(t))
				raise_refused(a, t->ask, answer);
			take_completed(t);
			answered = true;
			break;
	}
	eo_answer_free(answer);
	return answered;
}

/*
 * There is a record.  If the key is free or expired all the same, replace exactly this
 * record; then *answer is that request's.  Returns true if an expired record was to be
 * replaced: its refusal says that it has changed.  The refusal for a free one says what
 * the key is, or that this run has other terms than the run before.
 */
static bool
replace(Transacting *t, EoAnswer **answer)
{
	const EoStore *store = t->a.k.store;
	EoAnswer   *first = *answer;
	const EoRecord *seen = eo_store_record(first);
	bool		expired = eo_store_is_replaceable(store, seen);

	if (expired || eo_store_is_free(store, seen))
	{
		*answer = run(t, expired ? EO_COMPLETE_EXPIRED : EO_COMPLETE_FREE, seen);
		eo_answer_free(first);
	}
	return expired;
}

/*
 * There is a record that is not ours.  Does it refuse every copy of a request that may still
 * arrive?  A record of our own layout refuses the copies of a first request for as long as
 * requests can be late, because nobody deletes it before its time; but that may be near, or
 * past.  Clients of other layouts delete the records of runs that fail.  What a record means
 * for a copy that replaces one as it was seen is not looked into.
 */
static bool
refuses_copies(const Transacting *t, const EoRecord *r)
{
	const EoStore *store = t->a.k.store;

	if (r->ttl_s != 0 && r->ttl_s < eo_client_now_ms(&store->client) / 1000 + LATE_S)
		return false;
	return !t->may_replace && (store->layout->is_native || r->state == EO_STATE_COMPLETED);
}

/*
 * A record has refused the request.  Returns false if the key can be asked for again.  What
 * the record says of another run is not told if a copy of ours may be applied after it.
 */
static bool
explain(Transacting *t, const EoRecord *r)
{
	EoAcquiring *a = &t->a;

	t->copies_refused = refuses_copies(t, r);
	if (a->in_doubt && !t->copies_refused &&
		(r->owner == NULL || strcmp(r->owner, a->token) != 0) &&
		(r->state == EO_STATE_IN_PROGRESS || r->state == EO_STATE_FAILED))
		raise_unknown(a);
	return eo_acquire_explain(a, r);
}

/*
 * Another run has the key, but an earlier copy of the request may be applied when that
 * gives it back.  Nobody can bury the copy, since the record is another's.  So the
 * caller must not be told that nothing was done.  A key may be in progress in this
 * cluster before it has a record.
 */
static bool
may_still_be_applied(const Transacting *t, bool answered)
{
	const EoClaim *claim = t->a.claim;
	bool		has_record = answered && !claim->answered_here;

	return t->a.in_doubt &&
		(claim->outcome == EO_CLAIM_IN_PROGRESS || claim->outcome == EO_CLAIM_RETRY_LATER ||
		 claim->outcome == EO_CLAIM_FAILED) &&
		(!has_record || !t->copies_refused);
}

static void
raise_unknown(const EoAcquiring *a)
{
	EoError		error = {.status = EO_UNKNOWN};

	eo_error_raise(&error, "transact", a->ask->key, a->k.store->server->name);
}

/* The key is completed.  fence and runs stay 0: a transaction returns no item. */
static void
take_completed(Transacting *t)
{
	EoAcquiring *a = &t->a;
	EoClaim    *claim = a->claim;

	claim->outcome = EO_CLAIM_COMPLETED;
	claim->result = t->ask->result != NULL ? pstrdup(t->ask->result) : NULL;
	claim->expires_at_ms = (a->write.kept_from_s + a->write.retention_s) * 1000;
	eo_session_tokens_forget(a->k.store->server, a->k.pk, NULL);
	eo_service_clock_share(&a->k.store->client);
}

/*
 * A write of the caller's was refused.  If an earlier copy of the request may have
 * been applied, or may still arrive, bury the record: if there is none, one is left
 * under our token, which refuses that copy.  Returns true if the copy was applied.
 */
static bool
settle_doubt(Transacting *t)
{
	EoAcquiring *a = &t->a;
	EoWrite		w;
	EoAnswer   *answer;
	const EoRecord *r;
	bool		exists;
	bool		applied;

	if (!a->in_doubt)
		return false;
	fill_write(a, t->ask, &w);
	w.payload_sha256 = w.result = NULL;
	w.result_len = 0;
	answer = eo_store_record_write(a->k.store, a->k.pk, EO_BURY, &w);
	r = eo_store_record(answer);
	exists = answer->outcome == EO_APPLIED ||
		(answer->outcome == EO_NOT_APPLIED && answer->exists);
	applied = exists && r->state == EO_STATE_COMPLETED && strcmp(r->owner, a->token) == 0;
	if (!applied && (!exists || !refuses_copies(t, r)))
	{
		answer->error.status = EO_UNKNOWN;
		raise_refused(a, t->ask, answer);
	}
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
				 errmsg("a request token for key \"%s\" on server \"%s\" was used twice", eo_text_key_shown(ask->key), server),
				 errdetail_internal("%s", eo_error_facts(error))));
	if (error->status == EO_CANCELLED)
		ereport(ERROR,
				(errcode(ERRCODE_EO_REFUSED),
				 errmsg("could not transact key \"%s\" on server \"%s\": a write was refused", eo_text_key_shown(ask->key), server),
				 errdetail_internal("%s", describe_reasons(answer, ask->actions)),
				 errhint("Nothing was written, and the key can be used again.")));
	if (error->status == EO_TOO_LARGE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("writes for key \"%s\" on server \"%s\" are too large", eo_text_key_shown(ask->key), server),
				 errdetail("DynamoDB takes 4 MB of items in a transaction, and 400 KB in an item.")));
	if (error->status == EO_REFUSED)
		check_modes(a->k.store, ask->actions);
	if (error->status == EO_DENIED || error->status == EO_NO_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_EO_REFUSED),
				 errmsg("could not transact key \"%s\" on server \"%s\": %s", eo_text_key_shown(ask->key), server,
						error->status == EO_DENIED ? "DynamoDB denied access" : "there is no such table"),
				 errdetail_internal("%s", eo_error_facts(error)),
				 error->status == EO_DENIED ?
				 errhint("Check the credentials of the user mapping and their policy: dynamodb:UpdateItem on the server's table; PutItem, UpdateItem, DeleteItem and ConditionCheckItem on those that are written to.") :
				 errhint("It is the server's table, or one that the writes name.")));
	eo_error_raise(error, "transact", ask->key, server);
}

/*
 * Raise 0A000 if one of the tables has no transactions, which the service says in words only.
 * It is not asked before: that would be a request more for each session.
 */
static void
check_modes(EoStore *store, const EoTransactItems *actions)
{
	const char *before = store->server->table;

	(void) eo_table_mode_ask(store, before);
	for (int i = 0; i < actions->n; i++)
	{
		if (strcmp(actions->actions[i].table, before) != 0)
			(void) eo_table_mode_ask(store, actions->actions[i].table);
		before = actions->actions[i].table;
	}
}

/* The code of a reason, made printable; NULL: that action was not refused. */
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
 * Describe the refused actions by position, operation, table and code.  The items
 * are not shown, and neither are the texts of the service, which may quote them.
 */
static char *
describe_reasons(const EoAnswer *answer, const EoTransactItems *actions)
{
	EoJsonValue *reasons = answer->reasons;
	bool		in_place = eo_json_array_length(reasons) == (size_t) actions->n + 1;
	StringInfoData s;
	int			told = 0;
	int			more = 0;

	initStringInfo(&s);
	for (int i = 0; i <= actions->n; i++)
	{
		const char *code = reason_code(eo_json_array_get(reasons, i));
		const EoTransactItem *action = i > 0 ? &actions->actions[i - 1] : NULL;

		if (code == NULL)
			continue;
		code = eo_reply_code_told(code, answer->call.client->tenant != 0);
		if (told++ >= MAX_TOLD)
			more++;
		else if (!in_place)
			appendStringInfo(&s, "One of the writes, or the key's record: %s. ", code);
		else if (action == NULL)
			appendStringInfo(&s, "The key's record: %s. ", code);
		else
			appendStringInfo(&s, "Write %d, %s of table \"%s\": %s. ", i,
							 action->operation, action->table, code);
	}
	if (more > 0)
		appendStringInfo(&s, "And %d more. ", more);
	if (answer->error.request_id[0] != '\0')
		appendStringInfo(&s, "Request id %s.", answer->error.request_id);
	while (s.len > 0 && s.data[s.len - 1] == ' ')
		s.data[--s.len] = '\0';
	return s.data;
}
