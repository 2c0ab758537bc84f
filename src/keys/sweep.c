/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  Deleting what is past its ttl, where DynamoDB does not.
 *
 * Tables with multi-region strong consistency have no time to live, and neither have some
 * other engines.  Three kinds of items are deleted, each by a write of its own that is
 * conditional on what was read: records that are completed or failed, actions that have
 * ended, and lives that are over.  All of them must have been past their ttl for an hour at
 * least.  A ttl is an hour after the latest write at the earliest, and a request is at most
 * 15 minutes late.  So nothing is deleted that has to refuse a late request.  (An action that is
 * given back has the ttl of before; what may arrive late is refused if it is gone, too.)
 *
 * The record of a key that begins anew has a fence above the service's clock.  So fences
 * grow over a deletion as long as the old one was below the clock, also that of a
 * client that is slow; a record with another fence stays.  So does one with a row in the
 * outbox, and so does such an action: the worker could not tell an item that was deleted from
 * one that was lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/progress.h"
#include "commit/scan.h"
#include "keys/sweep.h"
#include "ledger/clock_sync.h"
#include "ledger/outbox.h"
#include "records/action_item.h"
#include "records/action_seal.h"
#include "records/life_item.h"
#include "records/list.h"
#include "records/record.h"
#include "server/error.h"
#include "server/store.h"
#include "server/text.h"
#include "wire/call.h"
#include "wire/client.h"
#include "wire/json.h"
#include "wire/status.h"

/* A sweep that goes on. */
typedef struct Sweep
{
	EoPages		pages;
	int64		margin_ms;

	/* The beginnings of the partition keys of this server. */
	const char *records_begin;
	char		actions_begin[EO_MAX_KEY_BYTES + 1];
	char		lives_begin[EO_MAX_KEY_BYTES + 1];
} Sweep;

static void begin(Sweep *s, EoStore *store);
static void take_item(EoJsonValue *item, void *arg);
static bool is_old_life(const Sweep *s, const char *pk, EoJsonValue *item);
static bool is_old_action(const Sweep *s, const char *pk, EoJsonValue *item);
static bool is_old_record(const Sweep *s, const char *pk, EoJsonValue *item);
static void delete(Sweep *s, EoCall *call);

int64
eo_sweep(EoStore *store, int64 margin_ms, int units_per_second)
{
	Sweep	   *s = palloc0(sizeof(Sweep));

	s->margin_ms = margin_ms;
	s->pages.store = store;
	s->pages.units_per_second = units_per_second;
	s->pages.scan.kind = EO_SCAN_ENDED;
	begin(s, store);
	eo_scan_read(&s->pages, take_item, s);
	return s->pages.found;
}

static void
begin(Sweep *s, EoStore *store)
{
	const EoServer *server = store->server;
	const char *prefix = eo_text_to_utf8(server->key_prefix);
	const char *options = store->layout->is_native ? "" : server->actions;
	size_t		len;
	bool		done;

	s->records_begin = eo_store_pk(store, "");
	done = eo_life_item_make_pk(prefix, "", s->lives_begin, &len) == EO_OK;
	if (done && options != NULL)
	{
		const EoActionLayout *actions = eo_action_item_layout(store->layout, options);

		s->pages.scan.actions = actions;
		done = actions != NULL &&
			eo_action_item_make_pk(actions, prefix, "", s->actions_begin, &len) == EO_OK;
	}
	if (!done)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
}

static bool
begins_with(const char *pk, const char *begin)
{
	return strncmp(pk, begin, strlen(begin)) == 0;
}

/* In tables of other layouts an action has a key like any other, and no owner. */
static bool
is_action(const Sweep *s, const char *pk, EoJsonValue *item)
{
	const EoLayout *layout = s->pages.store->layout;

	if (layout->is_native)
		return eo_action_item_is_pk(pk);
	return s->pages.scan.actions != NULL &&
		eo_json_get(item, layout->attributes[EO_A_OWNER].name) == NULL;
}

static void
take_item(EoJsonValue *item, void *arg)
{
	Sweep	   *s = arg;
	EoStore    *store = s->pages.store;
	const EoLayout *layout = store->layout;
	const char *pk = eo_record_pk_of(layout, item);
	const char *names[EO_LIST_ENDED_NAMES];
	size_t		n = 0;
	EoCall	   *call;
	EoError		error;

	if (pk == NULL)
		return;
	if (!eo_clock_sync_make(store, 0, &error))
		eo_error_raise(&error, "sweep the table", NULL, store->server->name);
	if (eo_life_item_is_pk(pk))
	{
		if (is_old_life(s, pk, item))
			n = eo_life_item_ended_names(names);
	}
	else if (is_action(s, pk, item))
	{
		if (is_old_action(s, pk, item))
			n = eo_action_item_ended_names(s->pages.scan.actions, names);
	}
	else if (is_old_record(s, pk, item))
		n = eo_list_ended_names(layout, names);
	if (n == 0)
		return;
	call = eo_store_new_call(store, EO_DELETE_ITEM);
	eo_list_put_delete(&call->body, &layout->key, store->server->table, pk, item, names, n);
	delete(s, call);
}

/* Has the item been past its ttl for long enough?  One without a ttl has not. */
static bool
is_past(const Sweep *s, int64 ttl_s)
{
	int64		now_ms = eo_client_now_ms(&s->pages.store->client);

	return ttl_s > 0 && ttl_s < (now_ms - s->margin_ms) / 1000;
}

/* A life gets a ttl when nothing is left of it. */
static bool
is_old_life(const Sweep *s, const char *pk, EoJsonValue *item)
{
	EoLifeItem	life;

	return begins_with(pk, s->lives_begin) && eo_life_item_read(item, &life) == EO_OK &&
		life.state != EO_LIFE_OPEN && is_past(s, life.ttl_s);
}

/* Does a transaction that has consumed the action wait for its finish? */
static bool
has_row(EoJsonValue *item)
{
	EoRecord	r;

	return eo_action_seal_read(item, &r) == EO_OK && eo_outbox_read_claim(r.owner, NULL);
}

/*
 * A transaction may still consume an action that is sealed.  In tables of other layouts other
 * clients make actions, too, without a token: those are not ours to delete.
 */
static bool
is_old_action(const Sweep *s, const char *pk, EoJsonValue *item)
{
	const EoStore *store = s->pages.store;
	EoActionItem action;

	if (!begins_with(pk, s->actions_begin) ||
		eo_action_item_read(s->pages.scan.actions, item, &action) != EO_OK ||
		(!store->layout->is_native && action.created_token == NULL) ||
		action.sealed_ms > 0 || !is_past(s, action.ttl_s) ||
		(store->layout->is_native && has_row(item)))
		return false;
	return action.consumed_ms > 0 || action.canceled_ms > 0 || action.closed_ms > 0 ||
		action.expires_ms <= eo_client_now_ms(&store->client);
}

static bool
is_old_record(const Sweep *s, const char *pk, EoJsonValue *item)
{
	const EoStore *store = s->pages.store;
	EoRecord	r;

	return begins_with(pk, s->records_begin) &&
		eo_record_read(store->layout, item, &r) == EO_OK && !r.is_foreign && r.odd_number == NULL &&
		(r.state == EO_STATE_COMPLETED || r.state == EO_STATE_FAILED) &&
		is_past(s, r.ttl_s) && r.fence < eo_store_dead_before_ms(store) &&
		!eo_outbox_read_claim(r.owner, NULL);
}

/*
 * Two sweeps may delete at once: a refusal says that the item has changed or is gone, and does
 * not count.  So is the delete itself refused if its answer was lost and it was sent again.
 */
static void
delete(Sweep *s, EoCall *call)
{
	EoStore    *store = s->pages.store;
	EoJsonValue *taken;

	eo_scan_wait(&s->pages);
	eo_store_run_call(store, call);
	if (call->error.status != EO_OK && call->error.status != EO_CONDITION_FAILED)
		eo_error_raise(&call->error, psprintf("sweep table \"%s\"", store->server->table), NULL,
					   store->server->name);
	taken = eo_json_get(eo_json_root(call->reply), "ConsumedCapacity");
	eo_scan_pay(&s->pages, Max(1, eo_json_integer(eo_json_get(taken, "CapacityUnits"))));
	if (call->error.status != EO_OK)
		return;
	s->pages.found++;
	eo_progress_note(s->pages.scan.items, s->pages.found);
}
