/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  A table that is read from end to end, page by page and at a bounded rate.
 *
 * Pages are consistent reads, and DynamoDB filters them.  The capacity that a page takes is
 * that of all items that were read for it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "records/action_item.h"
#include "records/list.h"
#include "records/record.h"
#include "server/scan.h"
#include "server/store.h"
#include "wire/call.h"
#include "wire/json.h"
#include "utils/memutils.h"

void
eo_scan_rewind(EoScan *scan)
{
	if (scan->start_pk != NULL)
		pfree(scan->start_pk);
	scan->start_pk = NULL;
	scan->items = 0;
	scan->ended = false;
}

/* The reply to a scan has items, if only an empty list of them. */
static bool
believe_page(const EoCall *call, EoJsonValue *item, bool refused)
{
	(void) item;
	return refused || eo_json_get(eo_json_root(call->reply), "Items") != NULL;
}

void
eo_scan_prepare(const EoScan *scan, EoStore *store, EoCall *call)
{
	EoListPage	page = {.table = store->server->table,.prefix = scan->prefix,
	.limit = scan->page_items,.start_pk = scan->start_pk};

	eo_call_init(call, &store->client, EO_SCAN);
	call->believe = believe_page;
	switch (scan->kind)
	{
		case EO_SCAN_SEALED:
			eo_record_scan_put(store->layout, &call->body, store->server->table, scan->states,
							   scan->page_items, scan->start_pk);
			break;
		case EO_SCAN_RECORDS:
			eo_list_put_records(&call->body, store->layout, scan->results, &page);
			break;
		case EO_SCAN_ACTIONS:
			eo_action_item_put_list(scan->actions, &call->body, &page);
			break;
	}
}

EoJsonValue *
eo_scan_take(EoScan *scan, const EoStore *store, const EoCall *call, int64 *units)
{
	EoJsonValue *root = eo_json_root(call->reply);
	const char *end = eo_record_scan_end(store->layout, root);

	*units = Max(1, eo_json_integer(eo_json_get(eo_json_get(root, "ConsumedCapacity"),
												"CapacityUnits")));
	scan->items += eo_json_integer(eo_json_get(root, "ScannedCount"));
	if (scan->start_pk != NULL)
		pfree(scan->start_pk);
	scan->start_pk = end != NULL ? MemoryContextStrdup(scan->context, end) : NULL;
	scan->ended = end == NULL;
	return eo_json_get(root, "Items");
}
