/*-------------------------------------------------------------------------
 *
 * operator.c
 *	  What others than the owner do with a key: look at it, list it, redrive it, resolve it.
 *
 * What PostgreSQL knows about a transaction overrules the operator.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "cluster/cache.h"
#include "cluster/databases.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/durability.h"
#include "commit/prepared.h"
#include "commit/scan.h"
#include "commit/session.h"
#include "commit/settle.h"
#include "commit/slot_room.h"
#include "commit/xact.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "keys/give_up.h"
#include "keys/key.h"
#include "keys/operator.h"
#include "ledger/clock_sync.h"
#include "ledger/outbox.h"
#include "ledger/outbox_guard.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "records/action_item.h"
#include "records/life_item.h"
#include "records/origin.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/text.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/json.h"
#include "wire/status.h"

/* Races lost in a row before an operator is told that the key is contended. */
#define MAX_RACES 5

/* How long a row of a key that is to be forgotten is waited for, and between two looks. */
#define ROW_WAIT_US INT64CONST(2000000)
#define ROW_LOOK_US INT64CONST(20000)

pg_noreturn static void raise_contended(const EoKey *k);

/* A listing that goes on. */
typedef struct Listing
{
	EoPages		pages;
	const EoList *ask;
	size_t		skip;			/* bytes of a partition key before the key */
	void		(*emit) (const char *key, const EoRecord *r, void *arg);
	void	   *arg;
} Listing;

static bool forget_whatever(EoKey *k);
static bool forget_seen(EoKey *k, const EoRecord *seen, bool narrow);

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
	EoKey		k;
	EoAnswer   *answer;
	EoFate		fate;
	int64		retention_s;
	bool		exists;

	eo_key_find(&k, store, key, NULL);
	if (k.held == NULL && !RecoveryInProgress())
		eo_key_settle(&k, NULL);
	eo_key_need_clock(&k, "read");
	answer = eo_settle_read(store, key, k.pk, "read", &fate, &retention_s);
	/* A signature that was refused makes the clock a guess again. */
	eo_key_need_clock(&k, "read");
	*r = *eo_store_record(answer);
	r->result = eo_text_copy(r->result);
	r->error = eo_text_copy(r->error);
	r->progress = eo_text_copy(r->progress);
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
	if (exists && r->state != EO_STATE_COMPLETED && r->odd_progress)
		eo_error_raise_odd("read", key, store->server->name, "progress");
	r->owner = r->bind = r->origin_text = r->payload_sha256 = NULL;
	r->item = NULL;
	return overlay(&k, exists, r);
}

static bool
is_listed(const Listing *l, const EoRecord *r)
{
	const EoStore *store = l->pages.store;
	int64		now_ms = eo_client_now_ms(&store->client);

	if (eo_store_is_expired(store, r) ||
		(l->ask->older_than_ms > 0 && r->updated_ms > now_ms - l->ask->older_than_ms))
		return false;
	switch (l->ask->which)
	{
		case EO_LIST_ALL:
			return true;
		case EO_LIST_IN_PROGRESS:
			return r->state == EO_STATE_IN_PROGRESS;
		case EO_LIST_COMMITTING:
			return r->state == EO_STATE_COMMITTING;
		case EO_LIST_COMPLETED:
			return r->state == EO_STATE_COMPLETED;
		case EO_LIST_FAILED:
			return r->state == EO_STATE_FAILED;
		case EO_LIST_STUCK:
			return r->state == EO_STATE_IN_PROGRESS &&
				r->lease_ms < now_ms - store->server->clock_skew_ms;
		case EO_LIST_PARKED:
			return r->state == EO_STATE_FAILED && !r->has_retry;
	}
	return false;
}

static void
take_item(EoJsonValue *item, void *arg)
{
	Listing    *l = arg;
	const EoLayout *layout = l->pages.store->layout;
	const char *pk = eo_record_pk_of(layout, item);
	EoRecord	r;

	/*
	 * Lives and actions may have the same beginning in a layout without an
	 * item_prefix.
	 */
	if (pk == NULL || eo_life_item_is_pk(pk) || eo_action_item_is_pk(pk))
		return;
	if (eo_record_read(layout, item, &r) != EO_OK)
	{
		/* In a table of another layout it may be of another program. */
		l->pages.scan.unreadable += layout->is_native;
		return;
	}
	if (!is_listed(l, &r))
		return;
	l->pages.found++;
	l->emit(pk + l->skip, &r, l->arg);
}

/* The whole table is scanned: what DynamoDB finds by itself is a key, and not a state. */
void
eo_operator_list(EoStore *store, const EoList *ask,
				 void (*emit) (const char *key, const EoRecord *r, void *arg), void *arg)
{
	Listing		l = {.ask = ask,.emit = emit,.arg = arg};
	EoError		error;

	if (!eo_clock_sync_make(store, 0, &error))
		eo_error_raise(&error, "list the keys", NULL, store->server->name);
	l.pages.store = store;
	l.pages.units_per_second = ask->units_per_second;
	l.pages.scan.kind = EO_SCAN_RECORDS;
	l.pages.scan.prefix = eo_store_pk(store, ask->prefix);
	l.pages.scan.results = ask->results;
	l.skip = strlen(eo_store_pk(store, ""));
	eo_scan_read(&l.pages, take_item, &l);
	eo_scan_warn(&l.pages);
}

bool
eo_operator_forget(EoStore *store, const char *key)
{
	EoKey		k;
	uint8		digest[EO_DIGEST_LEN];
	volatile bool forgotten = false;

	eo_key_find(&k, store, key, NULL);
	eo_cache_digest(&k.target, k.pk, digest);

	/*
	 * The cache drops the key before the write and, whatever becomes of that,
	 * after it, because a session may have read the record in between.
	 */
	eo_cache_drop(digest);
	PG_TRY();
	{
		forgotten = forget_whatever(&k);
	}
	PG_FINALLY();
	{
		eo_cache_drop(digest);
	}
	PG_END_TRY();
	eo_session_tokens_forget(store->server, k.pk, NULL);
	return forgotten;
}

/*
 * The rows of the key by whatever address of its table, and of the claim that owns its record
 * (owner; NULL: none), which may be a copy.  In *given_up those of the key that an operator has
 * given up; returns if there are others.
 */
static bool
find_rows(const EoKey *k, const char *owner, List **given_up)
{
	EoOutboxRow other;
	List	   *found = eo_outbox_guard_rows(&k->target, k->pk);
	bool		pending = owner != NULL && eo_outbox_read_claim(owner, &other) && !other.given_up;
	ListCell   *cell;

	*given_up = NIL;
	foreach(cell, found)
	{
		EoOutboxRow *row = lfirst(cell);

		if (row->given_up)
			*given_up = lappend(*given_up, row);
		else
			pending = true;
	}
	list_free(found);
	return pending;
}

/*
 * A key whose record is forgotten while its row is still there could be claimed, and not be
 * completed.  The row goes a moment after the record is COMPLETED, so it is waited for.  It was
 * visible before that, so whoever has read the record COMPLETED finds it here, or it is gone.
 * Returns the rows that an operator has given up: they go with the record.
 */
static List *
await_rows(const EoKey *k, const char *owner)
{
	int64		until_us = eo_clock_monotonic_us() + ROW_WAIT_US;
	List	   *given_up;

	while (find_rows(k, owner, &given_up))
	{
		if (eo_clock_monotonic_us() >= until_us)
			eo_error_raise_committing(k->key, k->store->server->name,
									  "A transaction of this database has completed it, and that is not confirmed yet.",
									  "See exactonce_pending. What can never be confirmed is given up with idem_give_up().");
		eo_database_wake(MyDatabaseId);
		eo_http_wait(eo_clock_monotonic_us() + ROW_LOOK_US, EO_WAIT_RAISE);
	}
	return given_up;
}

/*
 * Is a row of this address about the table of the key?  One of another server, as long as that is
 * there, may be about a table of the same name in another account.
 */
static bool
is_of_table(const EoKey *k, const EoOutboxRow *row)
{
	return memcmp(row->digest, k->digest, EO_DIGEST_LEN) == 0 &&
		(row->target.serverid == k->store->server->serverid ||
		 GetForeignServerExtended(row->target.serverid, FSV_MISSING_OK) == NULL);
}

/* Does the row lead where the key does?  Its digest differs if the server has another owner now. */
static bool
is_of_address(const EoKey *k, const EoOutboxRow *row)
{
	uint8		ours[EO_DIGEST_LEN];
	uint8		its[EO_DIGEST_LEN];

	eo_target_digest_of(&k->target, InvalidOid, k->pk, ours);
	eo_target_digest_of(&row->target, InvalidOid, row->pk, its);
	return row->target.serverid == k->target.serverid && memcmp(ours, its, EO_DIGEST_LEN) == 0;
}

/* Raise if rows that were given up must stay.  The record of the key was read. */
static void
check_of_no_use(const EoKey *k, const List *given_up)
{
	const ListCell *cell;

	foreach(cell, given_up)
	{
		const EoOutboxRow *row = lfirst(cell);
		EoFound		finding;
		char	   *why;

		if (is_of_table(k, row) || eo_give_up_is_of_no_use(row, &finding, &why))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("key \"%s\" on server \"%s\" was completed by another address of table \"%s\"",
						eo_text_key_shown(k->key), k->store->server->name, row->target.table),
				 finding == EO_FOUND_SEALED ?
				 errdetail("An operator has given its confirmation up, and by that address its record is COMMITTING.") :
				 errdetail("An operator has given its confirmation up, and by that address its record could not be read: %s", why),
				 finding == EO_FOUND_SEALED ?
				 errhint("End that by a server that leads there: idem_resolve(key, 'completed').") :
				 errhint("Try it again when that address answers, or alter or drop the servers that lead there.")));
	}
}

/* Returns if there was one. */
static bool
remove_rows(const List *given_up)
{
	bool		any = false;
	const ListCell *cell;

	foreach(cell, given_up)
	{
		const EoOutboxRow *row = lfirst(cell);

		any |= eo_outbox_remove(row->digest, row->token);
	}
	return any;
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

	if (!eo_prepared_find_slot(k->digest, &view) || !eo_settle_leads_to(k->store, &view) ||
		!eo_slot_state_is_over(view.info.state) ||
		view.info.state == EO_SLOT_TO_FINISH || view.target.dboid != MyDatabaseId)
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
		EoAnswer   *seen = eo_store_record_look(k->store, k->pk);
		bool		exists = seen->exists;
		List	   *given_up;
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
		given_up = await_rows(k, exists ? eo_store_record(seen)->owner : NULL);
		check_of_no_use(k, given_up);
		done = !exists || forget_seen(k, eo_store_record(seen), seen->is_narrow);
		eo_answer_free(seen);
		if (done)
			return remove_rows(given_up) || exists;
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

/* narrow: the record is too long to be read as a whole.  False: it is another one by now. */
static bool
forget_seen(EoKey *k, const EoRecord *seen, bool narrow)
{
	char		token[EO_TOKEN_LEN + 1];
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		applied;
	const char *server = k->store->server->name;

	eo_store_new_token(token);
	w.owner = token;
	w.seen = seen;
	w.narrow = narrow;
	eo_key_need_clock(k, "forget");
	w.now_ms = eo_client_now_ms(&k->store->client);
	eo_record_keep(&w, w.now_ms, k->store->server->retention_s);
	answer = eo_store_record_write(k->store, k->pk,
								   seen->odd_number != NULL ? EO_FORGET_ODD : EO_FORGET, &w);
	if (answer->outcome == EO_FAILED_CALL && !(narrow && answer->call.oversized))
		eo_error_raise(&answer->error, "forget", k->key, server);
	applied = answer->outcome == EO_APPLIED;
	eo_answer_free(answer);
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
			 errhint("Resolve it where that life goes on. Only if its server is gone for good, name it here: origin => '%.*s'.",
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

/*
 * Was the finish of a row applied, with its writes?  Then its answer was lost.  The worker finds
 * that out by itself if there are no writes, unless the row was given up.
 */
static bool
is_finished(const EoRecord *r, const EoOutboxRow *row)
{
	return (row->writes.n > 0 || row->given_up) && r->state == EO_STATE_COMPLETED &&
		r->writes == row->writes.n && strcmp(r->owner, row->token) == 0 &&
		(row->writes.n == 0 || eo_origin_is_of(&r->origin, row->life, row->xid));
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
	eo_slot_room_end_doubt(&k->target, k->pk, r != NULL ? r->owner : NULL);
	if (pending == NULL)
		return false;
	if (r != NULL && is_finished(r, pending))
		return eo_outbox_remove(pending->digest, pending->token);
	if (r != NULL && strcmp(r->owner, pending->token) == 0 &&
		(pending->writes.n == 0 || r->state != EO_STATE_COMPLETED))
		return false;
	return eo_give_up_row(pending, true);
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

/*
 * The record is COMPLETED by an operator, so its row (NULL: there is none) has nothing left to
 * tell.  If it has writes these are given up.  A row for another address is left to the worker,
 * whom the record at that one tells; but one that was given up nobody else would remove.
 */
static void
remove_resolved(const EoKey *k, const EoRecord *r, const EoOutboxRow *row)
{
	EoFound		finding;
	char	   *why;

	if (row != NULL && strcmp(row->token, r->owner) == 0)
	{
		if (eo_outbox_remove(is_of_address(k, row) ? row->digest : k->digest, row->token))
			eo_give_up_log_unwritten(row);
		else if (row->given_up && eo_give_up_is_of_no_use(row, &finding, &why))
			(void) eo_outbox_remove(row->digest, row->token);
	}
	else if (r->writes > 0)
		ereport(LOG,
				(errmsg("exactonce: %lld writes of key \"%s\" on server \"%s\" are not known here, and are not made",
						(long long) r->writes, eo_text_key_shown(k->key), k->store->server->name)));
}

/*
 * How the transaction ended, as far as this database may say so.  What is decided here may be
 * decided the other way by an heir of our life (eo_settle_may_decide()); then the heir says it.
 */
static EoFate
find_fate(const EoKey *k, const EoRecord *r, int64 *retention_s)
{
	EoFate		fate = eo_settle_fate(k->store, r, retention_s);

	if (fate == EO_FATE_ELSEWHERE || fate == EO_FATE_RUNNING || fate == EO_FATE_OTHER_RUNNING ||
		eo_settle_may_decide(k->store, k->key, r->origin.life))
		return fate;
	return EO_FATE_ELSEWHERE;
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

	has_row = eo_outbox_read(k->digest, &pending) && is_of_table(k, &pending);
	answer = eo_key_read(k, "resolve");
	r = eo_store_record(answer);
	if (!answer->exists || r->state != EO_STATE_COMMITTING)
	{
		resolved = dismiss(k, answer->exists ? r : NULL, completed && has_row ? &pending : NULL);
		eo_answer_free(answer);
		return resolved;
	}
	fate = find_fate(k, r, &retention_s);

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
				 eo_action_item_is_pk(k->pk) ? errhint("The worker is about to say so in DynamoDB.") :
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
	w.origin = w.origin_last = r->origin_text != NULL ? r->origin_text : "";
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
		eo_slot_room_end_doubt(&k->target, k->pk, r->owner);
	}
	eo_answer_free(written);
	eo_answer_free(answer);
	return resolved;
}
