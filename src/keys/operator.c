/*-------------------------------------------------------------------------
 *
 * operator.c
 *	  What others than the owner do with a key: look at it, redrive it, resolve it.
 *
 * What PostgreSQL knows about a transaction overrules the operator.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "cluster/cache.h"
#include "cluster/databases.h"
#include "cluster/doubts.h"
#include "cluster/kept.h"
#include "cluster/life_watch.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/durability.h"
#include "commit/prepared.h"
#include "commit/session_tokens.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "keys/key.h"
#include "keys/operator.h"
#include "compat.h"
#include "ledger/known_targets.h"
#include "ledger/outbox.h"
#include "records/layout.h"
#include "records/origin.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "foreign/foreign.h"
#include "server/options.h"
#include "server/store.h"
#include "server/store_record.h"
#include "miscadmin.h"
#include "server/text.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/status.h"
#include "utils/resowner.h"
#include "utils/uuid.h"

/* Races lost in a row before an operator is told that the key is contended. */
#define MAX_RACES 5

/* How long a row of a key that is to be forgotten is waited for, and between two looks. */
#define ROW_WAIT_US INT64CONST(2000000)
#define ROW_LOOK_US INT64CONST(20000)

static bool overlay(const EoKey *k, bool exists, EoRecord *r);
static bool forget_whatever(EoKey *k);
static bool forget_seen(EoKey *k, const EoRecord *seen);
pg_noreturn static void raise_contended(const EoKey *k);
static void check_named_origin(const EoKey *k, const EoRecord *r, const char *origin);
static void check_durable(const EoKey *k);
static bool dismiss(const EoKey *k, const EoRecord *r, const EoOutboxRow *pending);
static bool give_up(const EoOutboxRow *row, bool record_known);
static void log_unwritten(const EoOutboxRow *row);

/*
 * Show in a record, which exists or not, what this transaction has done with the
 * key.  Returns whether the record exists after that.
 */
static bool
overlay(const EoKey *k, bool exists, EoRecord *r)
{
	const EoTxClaim *held = k->held;
	EoSlotView	view;

	if (held == NULL)
		return exists;
	if (eo_xact_is_completed(held))
	{
		int64		now_ms = eo_client_now_ms(&k->store->client);

		if (!exists)
			memset(r, 0, sizeof(*r));
		r->state = EO_STATE_COMPLETED;
		r->result = eo_text_copy(held->result);
		r->result_len = held->result_len;
		r->error = NULL;
		r->runs = exists && !held->info->once ? r->runs : r->runs + 1;
		r->ttl_s = eo_record_ttl_after(now_ms, eo_record_retention(r, held->info->retention_s));
		return true;
	}
	if (exists && eo_xact_is_given_up(held) && eo_slot_view_read(held->slot, &view))
	{
		r->state = EO_STATE_FAILED;
		r->has_retry = !view.info.terminal;
		r->retry_ms = view.info.retry_after_ms == 0 ? 0 :
			eo_client_now_ms(&k->store->client) + view.info.retry_after_ms;
		if (view.info.state == EO_SLOT_RELEASED && r->runs > 0)
			r->runs--;
		if (view.error_len > 0)
		{
			char	   *error = palloc0(view.error_len + 1);

			if (eo_slot_view_error(held->slot, error, view.error_len))
				r->error = error;
		}
	}
	return exists;
}

bool
eo_operator_get(EoStore *store, const char *key, EoRecord *r)
{
	EoSlotView	view;
	EoKey		k;
	EoAnswer   *answer;
	EoFate		fate;
	int64		retention_s;
	bool		exists;

	eo_key_find(&k, store, key);
	/* If a transaction that is over has left the key to be settled, do so. */
	if (k.held == NULL && !RecoveryInProgress() && eo_prepared_find_slot(k.digest, &view) &&
		eo_slot_state_is_over(view.info.state))
		eo_settle_on_the_spot(store, key, &view);
	eo_key_need_clock(&k, "read");
	answer = eo_settle_read(store, key, k.pk, "read", &fate, &retention_s);
	/* A signature that was refused makes the clock a guess again. */
	eo_key_need_clock(&k, "read");
	*r = *eo_store_record(answer);
	r->result = eo_text_copy(r->result);
	r->error = eo_text_copy(r->error);
	r->holder = eo_text_copy(r->holder);
	exists = answer->exists && !eo_store_is_expired(store, r);
	if (exists && fate == EO_FATE_COMMITTED)
	{
		r->state = EO_STATE_COMPLETED;
		r->ttl_s = eo_record_ttl_after(r->updated_ms, eo_record_retention(r, retention_s));
	}
	eo_answer_free(answer);
	if (exists && r->state == EO_STATE_COMPLETED && r->odd_result)
		eo_error_raise_odd("read", key, store->server->name, "result");
	if (exists && r->state == EO_STATE_FAILED && r->odd_error)
		eo_error_raise_odd("read", key, store->server->name, "error");
	r->owner = r->bind = r->origin_text = r->payload_sha256 = NULL;
	r->item = NULL;
	return overlay(&k, exists, r);
}

bool
eo_operator_forget(EoStore *store, const char *key)
{
	EoKey		k;
	volatile bool forgotten = false;

	eo_key_find(&k, store, key);

	/*
	 * The cache drops the key before the write and, whatever becomes of that,
	 * after it, because a session may have read the record in between.
	 */
	eo_cache_drop(k.digest);
	PG_TRY();
	{
		forgotten = forget_whatever(&k);
	}
	PG_FINALLY();
	{
		eo_cache_drop(k.digest);
	}
	PG_END_TRY();
	eo_session_tokens_forget(store->server, k.pk);
	return forgotten;
}

/* The row of the key, or of the claim that owns its record (NULL: none), by whatever address. */
static bool
find_row(const EoKey *k, const char *owner, EoOutboxRow *row)
{
	return eo_outbox_read(k->digest, row) || (owner != NULL && eo_outbox_read_claim(owner, row));
}

/*
 * A key whose record is forgotten while its row is still there could be claimed, and not be
 * completed.  The row goes a moment after the record is COMPLETED, so it is waited for.  It was
 * visible before that, so whoever has read the record COMPLETED finds it here, or it is gone.
 * Returns the row that an operator has given up, if there is one: it goes with the record.
 */
static bool
await_row(const EoKey *k, const char *owner, EoOutboxRow *row)
{
	int64		until_us = eo_clock_monotonic_us() + ROW_WAIT_US;

	while (find_row(k, owner, row))
	{
		if (row->given_up)
			return memcmp(row->digest, k->digest, EO_DIGEST_LEN) == 0;
		if (eo_clock_monotonic_us() >= until_us)
			eo_error_raise_committing(k->key, k->store->server->name,
									  "A transaction of this database has completed it, and that is not confirmed yet.",
									  "See exactonce_pending. What can never be confirmed is given up with idem_give_up().");
		eo_database_wake(MyDatabaseId);
		eo_http_wait(eo_clock_monotonic_us() + ROW_LOOK_US, EO_WAIT_RAISE);
	}
	return false;
}

/*
 * The table does not exist, so nothing can be settled there.  A claim that waits for that is given
 * up: should the table come back with its record, the record tells what is to be done.  A
 * completion is not: that is what idem_give_up() is for.
 */
static bool
give_up_claim(const EoKey *k)
{
	EoSlotView	view;

	if (!eo_prepared_find_slot(k->digest, &view) || !eo_slot_state_is_over(view.info.state) ||
		eo_settle_rest(&view) == EO_REST_FINISH || view.target.dboid != MyDatabaseId)
		return false;
	eo_slot_free(view.ref);
	ereport(LOG,
			(errmsg("exactonce: the claim of key \"%s\" on server \"%s\" was given up by an operator: its table does not exist",
					eo_text_key_shown(k->key), k->store->server->name)));
	return true;
}

/* Forget the record that is there, and a row that was given up.  Returns if there was one. */
static bool
forget_whatever(EoKey *k)
{
	for (int races = 0; races < MAX_RACES; races++)
	{
		EoAnswer   *seen = eo_store_record_read(k->store, k->pk);
		bool		exists = seen->exists;
		EoOutboxRow row;
		bool		given_up;
		bool		done;

		if (seen->outcome == EO_FAILED_CALL)
		{
			if (seen->error.status == EO_NO_TABLE && give_up_claim(k))
				return true;
			eo_error_raise(&seen->error, "forget", k->key, k->store->server->name);
		}
		if (exists && eo_store_record(seen)->state == EO_STATE_COMMITTING)
			eo_error_raise_committing(k->key, k->store->server->name,
									  "A transaction that completes it has announced its commit.",
									  "Wait until that is settled; see exactonce_pending and exactonce_in_doubt.");
		given_up = await_row(k, exists ? eo_store_record(seen)->owner : NULL, &row);
		done = !exists || forget_seen(k, eo_store_record(seen));
		eo_answer_free(seen);
		if (done)
			return (given_up && eo_outbox_remove(row.digest, row.token)) || exists;
	}
	raise_contended(k);
}

static void
raise_contended(const EoKey *k)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_IN_PROGRESS),
			 errmsg("could not forget key \"%s\" on server \"%s\": others keep changing it",
					eo_text_key_shown(k->key), k->store->server->name),
			 errdetail("It was changed %d times between a look at it and the write that resets it.",
					   MAX_RACES),
			 errhint("Call idem_forget() again, or first end what claims the key.")));
}

/* False: it is another one by now. */
static bool
forget_seen(EoKey *k, const EoRecord *seen)
{
	char		token[EO_TOKEN_LEN + 1];
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		applied;
	const char *server = k->store->server->name;

	eo_store_new_token(token);
	w.owner = token;
	w.seen = seen;
	eo_key_need_clock(k, "forget");
	w.now_ms = eo_client_now_ms(&k->store->client);
	eo_record_keep(&w, w.now_ms, k->store->server->retention_s);
	answer = eo_store_record_write(k->store, k->pk, EO_FORGET, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, "forget", k->key, server);
	applied = answer->outcome == EO_APPLIED;
	eo_answer_free(answer);
	if (applied)
		eo_kept_remove(seen->owner);
	return applied;
}

/*
 * Another database has sealed the record, and may be about to commit.  Only an
 * operator who names that database may overrule it.
 */
static void
check_named_origin(const EoKey *k, const EoRecord *r, const char *origin)
{
	const char *theirs = r->origin_text != NULL ? r->origin_text : "";
	size_t		len = strcspn(theirs, "/");
	EoOrigin	named;

	if (origin != NULL && strlen(origin) == len && strncmp(origin, theirs, len) == 0)
		return;
	/* If the record does not say which database it was, none can be named. */
	if (!eo_origin_read(theirs, &named))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("key \"%s\" on server \"%s\" is being committed under another life", eo_text_key_shown(k->key),
					k->store->server->name),
			 errdetail("Its origin is \"%.*s\".", (int) len, theirs),
			 errhint("Resolve it where that life goes on. Only if its server is gone for good, name it here: idem_resolve(..., origin => '%.*s').",
					 (int) len, theirs)));
}

/*
 * The transaction has committed here, and the operator says so, too.  That a failover
 * cannot lose the commit is not the operator's to say.
 */
static void
check_durable(const EoKey *k)
{
	XLogRecPtr	lsn = GetFlushRecPtr(NULL);

	if (eo_durability_has(lsn))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("key \"%s\" on server \"%s\" was completed by a transaction that a failover might lose",
					eo_text_key_shown(k->key), k->store->server->name),
			 eo_durability_standbys_have(lsn, NULL) ? errdetail("The named replication slots have not confirmed its commit.") :
			 errdetail("The standbys of synchronous_standby_names have not confirmed its commit."),
			 errhint("The worker says so in DynamoDB when they have; see idem_check().")));
}

/* Was the finish of a row applied, with its writes?  Then its answer was lost. */
static bool
is_finished(const EoRecord *r, const EoOutboxRow *row)
{
	return row->writes.n > 0 && r->state == EO_STATE_COMPLETED && r->writes == row->writes.n &&
		strcmp(r->owner, row->token) == 0;
}

/*
 * The record is not COMMITTING, so there is no commit to decide.  Forget what this
 * database still has about the key: a doubt, and a row of the outbox (pending, or
 * NULL) that can never be finished, because the record does not bear its token any
 * more.  The row was read before the record.  So the record had been sealed under its
 * token before it was read, and another program has changed or deleted it since.
 */
static bool
dismiss(const EoKey *k, const EoRecord *r, const EoOutboxRow *pending)
{
	eo_doubt_end(&k->target, k->pk, r != NULL ? r->owner : NULL);
	if (pending == NULL)
		return false;
	if (r != NULL && is_finished(r, pending))
		return eo_outbox_remove(pending->digest, pending->token);
	if (r != NULL && strcmp(r->owner, pending->token) == 0 &&
		(pending->writes.n == 0 || r->state != EO_STATE_COMPLETED))
		return false;
	return give_up(pending, true);
}

/*
 * Take a row of the outbox from the worker.  If it is not known what the record says,
 * the row must stay: should the record turn up, COMMITTING, the row alone tells that
 * its transaction committed.  Returns false if the row is not there any more.
 */
static bool
give_up(const EoOutboxRow *row, bool record_known)
{
	bool		taken = record_known ? eo_outbox_remove(row->digest, row->token) :
	eo_outbox_give_up(row->digest, row->token);

	if (!taken)
		return false;
	ereport(LOG,
			(errmsg("exactonce: a completion in table \"%s\" was given up by an operator",
					row->target.table)));
	log_unwritten(row);
	return true;
}

/*
 * Only writes that DynamoDB has refused are given up, or for which there was no other answer for
 * minutes.  Others are about to be made.
 */
static void
check_refused(const EoKey *k, const EoOutboxRow *row)
{
	if (row->writes.n == 0 || row->trouble == EO_TROUBLE_LASTS ||
		row->trouble == EO_TROUBLE_REFUSED || row->given_up)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the writes of key \"%s\" on server \"%s\" have not been refused",
					eo_text_key_shown(k->key), k->store->server->name),
			 errdetail("Its transaction has committed, and %d writes are to be made.", row->writes.n),
			 errhint("Leave that to the worker. If DynamoDB refuses them for good, exactonce_pending shows the reason.")));
}

/* Say which writes of a row are not made: their tables and keys. */
static void
log_unwritten(const EoOutboxRow *row)
{
	const char *line = row->writes.items;

	while (row->writes.n > 0 && *line != '\0')
	{
		size_t		len = strcspn(line, "\n");
		char	   *item = pnstrdup(line, len);
		char	   *key = strchr(item, ' ');

		*key++ = '\0';
		ereport(LOG,
				(errmsg("exactonce: a write to table \"%s\" was given up by an operator: the item %s",
						item, eo_text_key_shown(key))));
		line += len + (line[len] == '\n');
	}
}

/*
 * The record is COMPLETED by an operator, so its row (NULL: there is none) has nothing left to
 * tell.  If it has writes these are given up.  A row for another address is left to the worker,
 * whom the record at that one tells.
 */
static void
remove_resolved(const EoKey *k, const EoRecord *r, const EoOutboxRow *row)
{
	if (row != NULL && strcmp(row->token, r->owner) == 0)
	{
		if (eo_outbox_remove(k->digest, row->token))
			log_unwritten(row);
	}
	else if (r->writes > 0)
		ereport(LOG,
				(errmsg("exactonce: %lld writes of key \"%s\" on server \"%s\" are not known here, and are not made",
						(long long) r->writes, eo_text_key_shown(k->key), k->store->server->name)));
}

bool
eo_operator_resolve(EoKey *k, bool completed, const char *origin)
{
	EoStore    *store = k->store;
	const char *key = k->key;
	EoOutboxRow pending;
	bool		has_row;
	EoAnswer   *answer;
	EoAnswer   *written;
	const EoRecord *r;
	EoWrite		w = {0};
	int64		retention_s = store->server->retention_s;
	EoVerb		verb = completed ? EO_FINISH : EO_ABORT;
	EoFate		fate;
	bool		resolved;

	has_row = eo_outbox_read(k->digest, &pending);
	answer = eo_store_record_read(store, k->pk);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, "resolve", key, store->server->name);
	r = eo_store_record(answer);
	if (!answer->exists || r->state != EO_STATE_COMMITTING)
	{
		resolved = dismiss(k, answer->exists ? r : NULL, completed && has_row ? &pending : NULL);
		eo_answer_free(answer);
		return resolved;
	}
	fate = eo_settle_fate(store, r, &retention_s);

	/*
	 * The claim may have been completed by another address, or under a life
	 * that is not over.
	 */
	has_row = eo_outbox_read_claim(r->owner, &pending);
	if (!completed && (has_row || fate == EO_FATE_COMMITTED))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("key \"%s\" on server \"%s\" was completed by a transaction that has committed",
						eo_text_key_shown(key), store->server->name),
				 errhint("The worker is about to say so in DynamoDB; idem_forget() redrives the key after that.")));
	switch (fate)
	{
		case EO_FATE_RUNNING:
		case EO_FATE_OTHER_RUNNING:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("the transaction that completes key \"%s\" on server \"%s\" is still going on",
							eo_text_key_shown(key), store->server->name),
					 errhint("Wait for it, or end its session. If it is prepared, see exactonce_claims, use COMMIT PREPARED or ROLLBACK PREPARED.")));
			break;
		case EO_FATE_COMMITTED:
		case EO_FATE_OTHER_COMMITTED:
			check_durable(k);
			if (has_row)
				check_refused(k, &pending);
			break;
		case EO_FATE_ABORTED:
			if (completed)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("the transaction that was to complete key \"%s\" on server \"%s\" was rolled back",
								eo_text_key_shown(key), store->server->name),
						 errhint("Resolve it as failed.")));
			break;
		case EO_FATE_ELSEWHERE:
			check_named_origin(k, r, origin);
			break;
		case EO_FATE_UNKNOWN:
			break;
	}
	if (completed && r->writes > 0)
		verb = EO_WAIVE;
	w.owner = r->owner;
	w.origin = r->origin_text != NULL ? r->origin_text : "";
	eo_key_need_clock(k, "resolve");
	w.now_ms = eo_client_now_ms(&store->client);
	eo_record_keep(&w, w.now_ms, retention_s);
	written = eo_store_record_write(store, k->pk, verb, &w);
	if (written->outcome == EO_FAILED_CALL)
		eo_error_raise(&written->error, "resolve", key, store->server->name);
	resolved = written->outcome == EO_APPLIED;
	if (resolved)
	{
		ereport(LOG,
				(errmsg("exactonce: key \"%s\" on server \"%s\" was resolved as %s by an operator",
						eo_text_key_shown(key), store->server->name, completed ? "completed" : "failed")));
		if (completed)
			remove_resolved(k, r, has_row ? &pending : NULL);
		eo_doubt_end(&k->target, k->pk, r->owner);
	}
	eo_answer_free(written);
	eo_answer_free(answer);
	return resolved;
}

/* ----- to give a completion up ----- */

/* The record of a row that is to be given up. */
typedef enum Finding
{
	FOUND_FINISHED,				/* COMPLETED by the row's transaction */
	FOUND_SEALED,				/* the row's transaction has sealed it */
	FOUND_OTHER,				/* it shows neither, or is not there: the row
								 * is of no use any more */
	FOUND_NO_TABLE,				/* it is gone with its table */
	FOUND_UNREACHABLE			/* it could not be read */
} Finding;

static Finding
finding_of(const EoAnswer *answer, const EoOutboxRow *row)
{
	const EoRecord *r = eo_store_record(answer);

	if (answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID)
		return answer->error.status == EO_NO_TABLE ? FOUND_NO_TABLE : FOUND_UNREACHABLE;
	if (answer->outcome == EO_FAILED_CALL || !answer->exists || r->owner == NULL ||
		strcmp(r->owner, row->token) != 0)
		return FOUND_OTHER;
	if (r->state == EO_STATE_COMPLETED)
		return FOUND_FINISHED;
	return r->state == EO_STATE_COMMITTING ? FOUND_SEALED : FOUND_OTHER;
}

/* The key of a row as the functions take it. */
static const char *
key_of(const EoOutboxRow *row)
{
	const EoLayout *layout = eo_layout_find(row->target.layout);
	const char *beginnings[] = {layout != NULL ? layout->item_prefix : "", row->target.prefix};
	const char *key = row->pk;
	bool		exact;

	for (int i = 0; i < (int) lengthof(beginnings); i++)
	{
		if (strncmp(key, beginnings[i], strlen(beginnings[i])) == 0)
			key += strlen(beginnings[i]);
	}
	return eo_text_from_utf8_or_escape(key, &exact);
}

/* Read the record of a row, if there is a server for it.  *why says why it could not be read. */
static Finding
look_at_record(const EoOutboxRow *row, char **why)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	EoStore    *volatile store = NULL;
	EoAnswer   *answer;
	Finding		finding;

	/*
	 * A row that no server can have made leads nowhere: no request is sent
	 * for it.
	 */
	*why = pstrdup("Its server does not exist.");
	if (!eo_known_target_exists(&row->target))
		return FOUND_UNREACHABLE;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		store = eo_target_store(&row->target);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		/*
		 * Options or credentials are of no use.  Any other error is the
		 * caller's.
		 */
		eo_error_roll_back(context);
		edata = CopyErrorData();
		FlushErrorState();
		if (ERRCODE_TO_CATEGORY(edata->sqlerrcode) != ERRCODE_FDW_ERROR &&
			edata->sqlerrcode != ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION &&
			edata->sqlerrcode != ERRCODE_INVALID_PARAMETER_VALUE)
			ReThrowError(edata);
		*why = psprintf("%s.", edata->message);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (store == NULL)
		return FOUND_UNREACHABLE;
	answer = eo_store_record_read(store, row->pk);
	finding = finding_of(answer, row);
	if (answer->outcome == EO_FAILED_CALL)
		*why = eo_error_reason(&answer->error);
	eo_answer_free(answer);
	return finding;
}

/*
 * May the row be given up?  Not if the worker may still finish it: it has not failed on it, or
 * for less than minutes.  A row that it does not touch, because the life under which it
 * committed is not over here, has its time only while its record is sealed.
 */
static void
check_hopeless(const EoOutboxRow *row, Finding finding, const char *key, const char *why)
{
	EoLifeWatch watch;
	bool		elsewhere = eo_life_watch_find(&row->target, row->life, &watch) &&
	watch != EO_WATCH_OVER;
	bool		server_is_gone = GetForeignServerExtended(row->target.serverid,
														  FSV_MISSING_OK) == NULL;

	if (finding == FOUND_FINISHED || finding == FOUND_OTHER || finding == FOUND_NO_TABLE ||
		row->trouble == EO_TROUBLE_LASTS || row->trouble == EO_TROUBLE_REFUSED)
		return;
	if (finding == FOUND_UNREACHABLE && (elsewhere || server_is_gone))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the completion of key \"%s\" in table \"%s\" can still be written",
					eo_text_key_shown(key), row->target.table),
			 finding == FOUND_SEALED ?
			 errdetail("Its record is COMMITTING, by the transaction that committed.") :
			 errdetail_internal("%s", why),
			 elsewhere ? errhint("The life under which it committed is not over: see exactonce_lives and idem_take_over().") :
			 row->trouble == EO_TROUBLE_NONE ?
			 errhint("Leave it to the worker; idem_check() says what keeps it from doing so.") :
			 errhint("The worker tries it again, and has failed for less than three minutes.")));
}

/* Tell the operator what was given up, and what others see from now on. */
static void
tell_given_up(const EoOutboxRow *row, Finding finding, const char *key, const char *why)
{
	if (finding == FOUND_FINISHED)
		ereport(NOTICE,
				(errmsg("key \"%s\" in table \"%s\" is COMPLETED: its completion was removed from exactonce_pending, and nothing is given up",
						eo_text_key_shown(key), row->target.table)));
	else
		ereport(NOTICE,
				(errmsg("the completion of key \"%s\" in table \"%s\" was given up",
						eo_text_key_shown(key), row->target.table),
				 row->writes.n > 0 ?
				 errdetail("%d writes are not made, unless a request for them is still under way; the server's log names their items.",
						   row->writes.n) : 0,
				 finding == FOUND_SEALED ?
				 errhint("Its record stays COMMITTING, and others wait for it: end that with idem_resolve(key, 'completed').") :
				 finding == FOUND_OTHER ?
				 errhint("Its record is left as it is.") :
				 errhint("Its record could not be read (%s). If it can be again and is COMMITTING, others wait for it: end that with idem_resolve(key, 'completed').",
						 why)));
}

bool
eo_operator_give_up(const pg_uuid_t *id)
{
	EoOutboxRow row;
	Finding		finding;
	char	   *why;
	const char *key;
	bool		taken;

	if (!eo_outbox_read_by_id(id, &row) || row.given_up)
		return false;
	eo_options_check_usage(row.target.serverid);
	key = key_of(&row);
	finding = look_at_record(&row, &why);
	check_hopeless(&row, finding, key, why);

	/*
	 * A record that may still be sealed needs the row as evidence of the
	 * commit.
	 */
	taken = finding == FOUND_FINISHED ? eo_outbox_remove(row.digest, row.token) :
		give_up(&row, finding == FOUND_OTHER);
	if (taken)
		tell_given_up(&row, finding, key, why);
	return taken;
}
