/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  A table is read from end to end for a session, at a bounded rate.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/progress.h"
#include "commit/pages.h"
#include "server/error.h"
#include "server/scan.h"
#include "server/store.h"
#include "wire/call.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/json.h"
#include "wire/status.h"
#include "utils/memutils.h"

/* Items that a request reads at most. */
#define PAGE_ITEMS 100

static void
free_call(void *call)
{
	eo_call_free(call);
}

void
eo_pages_read(EoPages *pages, void (*take) (EoJsonValue *item, void *arg), void *arg)
{
	MemoryContext page = AllocSetContextCreate(CurrentMemoryContext, "exactonce page",
											   ALLOCSET_DEFAULT_SIZES);

	pages->scan.page_items = PAGE_ITEMS;
	pages->scan.context = CurrentMemoryContext;
	while (!pages->scan.ended)
	{
		MemoryContext old = MemoryContextSwitchTo(page);
		MemoryContextCallback *callback = palloc0(sizeof(*callback));
		EoCall	   *call = palloc0(sizeof(EoCall));
		EoJsonValue *items;
		int64		units;

		eo_pages_wait(pages);
		eo_scan_prepare(&pages->scan, pages->store, call);
		callback->func = free_call;
		callback->arg = call;
		MemoryContextRegisterResetCallback(page, callback);
		eo_store_run_call(pages->store, call);
		if (call->error.status != EO_OK)
			eo_error_raise(&call->error, psprintf("scan table \"%s\"", pages->store->server->table),
						   NULL, pages->store->server->name);
		items = eo_scan_take(&pages->scan, pages->store, call, &units);
		eo_pages_pay(pages, units);
		for (size_t i = 0; i < eo_json_array_length(items); i++)
			take(eo_json_array_get(items, i), arg);
		eo_progress_note(pages->scan.items, pages->found);
		MemoryContextSwitchTo(old);
		MemoryContextReset(page);
	}
	MemoryContextDelete(page);
}

void
eo_pages_wait(EoPages *pages)
{
	while (eo_clock_monotonic_us() < pages->due_us)
		eo_http_wait(pages->due_us, EO_WAIT_RAISE);
}

void
eo_pages_pay(EoPages *pages, int64 units)
{
	pages->due_us = Max(pages->due_us, eo_clock_monotonic_us()) +
		eo_scan_pause_us(units, pages->units_per_second);
}
