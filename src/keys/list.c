/*-------------------------------------------------------------------------
 *
 * list.c
 *	  Listing the keys of a table, for operators.
 *
 * The whole table is scanned: what DynamoDB finds by itself is a key, and not a state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commit/scan.h"
#include "keys/list.h"
#include "ledger/clock_sync.h"
#include "records/action_item.h"
#include "records/life_item.h"
#include "records/record.h"
#include "server/error.h"
#include "server/store.h"
#include "wire/client.h"
#include "wire/json.h"
#include "wire/status.h"

/* A listing that goes on. */
typedef struct Listing
{
	EoPages		pages;
	const EoList *ask;
	size_t		skip;			/* bytes of a partition key before the key */
	void		(*emit) (const char *key, const EoRecord *r, void *arg);
	void	   *arg;
} Listing;

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
	if (pk == NULL || eo_life_item_is_pk(pk) || eo_action_item_is_pk(pk) ||
		eo_record_read(layout, item, &r) != EO_OK || !is_listed(l, &r))
		return;
	l->pages.found++;
	l->emit(pk + l->skip, &r, l->arg);
}

void
eo_list_keys(EoStore *store, const EoList *ask,
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
}
