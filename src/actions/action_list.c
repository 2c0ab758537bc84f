/*-------------------------------------------------------------------------
 *
 * action_list.c
 *	  Listing the actions of a table, for operators.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "actions/action.h"
#include "actions/action_store.h"
#include "commit/pages.h"
#include "records/action_item.h"
#include "server/store.h"
#include "wire/client.h"
#include "wire/json.h"
#include "wire/status.h"

/* A listing that goes on. */
typedef struct Listing
{
	EoPages		pages;
	const EoActionList *ask;
	size_t		skip;			/* bytes of a partition key before the id */
	void		(*emit) (const char *id, const EoActionView *view, void *arg);
	void	   *arg;
} Listing;

static void
take_item(EoJsonValue *item, void *arg)
{
	Listing    *l = arg;
	int64		now_ms = eo_client_now_ms(&l->pages.store->client);
	const EoActionLayout *layout = l->pages.scan.actions;
	const char *pk = eo_action_item_pk_of(layout, item);
	EoActionItem action;
	EoActionView view;

	if (pk == NULL || eo_action_item_read(layout, item, &action) != EO_OK ||
		(l->ask->older_than_ms > 0 && action.created_ms > now_ms - l->ask->older_than_ms))
		return;
	eo_action_look(&action, now_ms, &view);
	if (!l->ask->any_state && view.state != l->ask->state)
		return;
	l->pages.found++;
	l->emit(pk + l->skip, &view, l->arg);
}

void
eo_action_list(EoStore *store, const EoActionList *ask,
			   void (*emit) (const char *id, const EoActionView *view, void *arg), void *arg)
{
	Listing		l = {.ask = ask,.emit = emit,.arg = arg};
	char	   *first = eo_action_store_pk(store, "");

	l.pages.scan.prefix = eo_action_store_pk(store, ask->prefix);
	/* No id is that long. */
	if (l.pages.scan.prefix == NULL)
		return;
	eo_action_store_need_clock(store, first, "list the actions", NULL);
	l.pages.store = store;
	l.pages.units_per_second = ask->units_per_second;
	l.pages.scan.kind = EO_SCAN_ACTIONS;
	l.pages.scan.actions = eo_action_store_layout(store);
	l.skip = strlen(first);
	eo_pages_read(&l.pages, take_item, &l);
}
