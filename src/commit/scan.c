/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  A table that is read from end to end, page by page and at a bounded rate.
 *
 * Pages are consistent reads, and DynamoDB filters them.  The capacity that a page takes is
 * that of all items that were read for it.
 *
 * A page may be too long to be read: anybody who writes to the table can put such items there,
 * and a scan must not end at them.  Then it goes on with smaller pages, and if a single item is
 * too long it asks for the key of that item alone, and steps over it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/progress.h"
#include "commit/scan.h"
#include "records/action_item.h"
#include "records/layout.h"
#include "records/life_item.h"
#include "records/list.h"
#include "records/record.h"
#include "server/error.h"
#include "server/store.h"
#include "utils/memutils.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/json.h"
#include "wire/status.h"

/* The read capacity of a page that could not be read, at most: a megabyte, or its items. */
#define PAGE_UNITS 256
#define ITEM_UNITS 100

/* After so many pages the next ones may be longer again: long items come together. */
#define SHORT_PAGES 8

void
eo_scan_rewind(EoScan *scan)
{
	if (scan->start_pk != NULL)
		pfree(scan->start_pk);
	scan->start_pk = NULL;
	scan->items = scan->unreadable = 0;
	scan->steps_over = scan->ended = false;
}

static int
limit_of(const EoScan *scan)
{
	return scan->limit > 0 ? scan->limit : scan->page_items;
}

/* The reply to a scan has items, if only an empty list of them. */
static bool
believe_page(const EoCall *call, EoJsonValue *item, bool refused)
{
	(void) item;
	return refused || eo_json_get(eo_json_root(call->reply), "Items") != NULL;
}

/* Records, actions and lives, without what may be long. */
static void
put_ended(const EoScan *scan, const EoLayout *layout, EoBuf *body, const EoListPage *page)
{
	const char *names[3 * EO_LIST_ENDED_NAMES];
	size_t		n = eo_list_ended_names(layout, names);

	n += eo_life_item_ended_names(names + n);
	if (scan->actions != NULL)
		n += eo_action_item_ended_names(scan->actions, names + n);
	eo_list_put_page(body, &layout->key, names, n, page);
}

void
eo_scan_prepare(const EoScan *scan, EoStore *store, EoCall *call)
{
	const char *const *states = store->layout->states;
	EoListPage	page = {.table = store->server->table,.prefix = scan->prefix,
	.limit = limit_of(scan),.start_pk = scan->start_pk};

	call->believe = believe_page;
	if (scan->steps_over)
	{
		const EoItemKey *key = &store->layout->key;
		const char *names[] = {key->name, key->sort_name};

		page.prefix = NULL;
		eo_list_put_page(&call->body, key, names, lengthof(names), &page);
		return;
	}
	switch (scan->kind)
	{
		case EO_SCAN_SEALED:
			page.prefix = NULL;
			page.states[0] = states[scan->states[0]];
			page.states[1] = states[scan->states[1]];
			eo_list_put_sealed(&call->body, store->layout, &page);
			break;
		case EO_SCAN_RECORDS:
			eo_list_put_records(&call->body, store->layout, scan->results, &page);
			break;
		case EO_SCAN_ACTIONS:
			eo_action_item_put_list(scan->actions, &call->body, &page);
			break;
		case EO_SCAN_ENDED:
			put_ended(scan, store->layout, &call->body, &page);
			break;
	}
}

bool
eo_scan_narrow(EoScan *scan, const EoCall *call, int64 *units)
{
	int			limit = limit_of(scan);

	if (!call->oversized || scan->steps_over)
		return false;
	*units = Min(PAGE_UNITS, limit * ITEM_UNITS);
	scan->steps_over = limit == 1;
	scan->limit = Max(1, limit / 8);
	scan->short_pages = 0;
	return true;
}

EoJsonValue *
eo_scan_take(EoScan *scan, const EoStore *store, const EoCall *call, int64 *units)
{
	EoJsonValue *root = eo_json_root(call->reply);
	const char *end = eo_record_pk_of(store->layout, eo_json_get(root, "LastEvaluatedKey"));
	EoJsonValue *items;

	*units = Max(1, eo_json_integer(eo_json_get(eo_json_get(root, "ConsumedCapacity"),
												"CapacityUnits")));
	scan->items += eo_json_integer(eo_json_get(root, "ScannedCount"));
	if (scan->start_pk != NULL)
		pfree(scan->start_pk);
	scan->start_pk = end != NULL ? MemoryContextStrdup(scan->context, end) : NULL;
	scan->ended = end == NULL;
	items = eo_json_get(root, "Items");
	if (scan->steps_over)
	{
		scan->unreadable += (int64) eo_json_array_length(items);
		scan->steps_over = false;
		return NULL;
	}
	if (scan->limit > 0 && ++scan->short_pages % SHORT_PAGES == 0)
		scan->limit = Min(scan->page_items, 2 * scan->limit);
	return items;
}

/* ----- for a session ----- */

/* Items that a request reads at most. */
#define PAGE_ITEMS 100

void
eo_scan_read(EoPages *pages, void (*take) (EoJsonValue *item, void *arg), void *arg)
{
	MemoryContext page = AllocSetContextCreate(CurrentMemoryContext, "exactonce page",
											   ALLOCSET_DEFAULT_SIZES);

	pages->scan.page_items = PAGE_ITEMS;
	pages->scan.context = CurrentMemoryContext;
	while (!pages->scan.ended)
	{
		MemoryContext old = MemoryContextSwitchTo(page);
		EoCall	   *call = eo_store_new_call(pages->store, EO_SCAN);
		EoJsonValue *items;
		int64		units;

		eo_scan_wait(pages);
		eo_scan_prepare(&pages->scan, pages->store, call);
		eo_store_run_call(pages->store, call);
		if (call->error.status == EO_OK)
			items = eo_scan_take(&pages->scan, pages->store, call, &units);
		else if (eo_scan_narrow(&pages->scan, call, &units))
			items = NULL;
		else
			eo_error_raise(&call->error, psprintf("scan table \"%s\"", pages->store->server->table),
						   NULL, pages->store->server->name);
		eo_scan_pay(pages, units);
		for (size_t i = 0; i < eo_json_array_length(items); i++)
			take(eo_json_array_get(items, i), arg);
		eo_progress_note(pages->scan.items, pages->found);
		MemoryContextSwitchTo(old);
		MemoryContextReset(page);
	}
	MemoryContextDelete(page);
}

void
eo_scan_warn(const EoPages *pages)
{
	if (pages->scan.unreadable == 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("%lld items of table \"%s\" cannot be read, and are not listed",
					(long long) pages->scan.unreadable, pages->store->server->table),
			 errhint("Another program may use this table for other items, or has written items that are too long.")));
}

void
eo_scan_wait(EoPages *pages)
{
	while (eo_clock_monotonic_us() < pages->due_us)
		eo_http_wait(pages->due_us, EO_WAIT_RAISE);
}

void
eo_scan_pay(EoPages *pages, int64 units)
{
	pages->due_us = Max(pages->due_us, eo_clock_monotonic_us()) +
		eo_scan_pause_us(units, pages->units_per_second);
}
