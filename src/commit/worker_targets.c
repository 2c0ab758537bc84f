/*-------------------------------------------------------------------------
 *
 * worker_targets.c
 *	  The tables a worker writes to, and how they have been of late.
 *
 * A place is a table as one role reaches it.  While it fails it is tried with
 * one request after a pause; the first answer opens it again.  Its store comes
 * from the catalogs, and is built anew whenever they change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/target.h"
#include "commit/worker_targets.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "dynamodb/status.h"
#include "server/error.h"
#include "server/options.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"

/* A place that refuses is asked again after this. */
#define PAUSE_REFUSED_US INT64CONST(5000000)

static struct
{
	MemoryContext context;
	HTAB	   *table;
	uint64		catalog;		/* counts changes of servers and mappings */
}			places;

static void build_place(EoWorkerTarget *place);

/* Any change to a server or a mapping: look at all of them again. */
static void
catalog_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	places.catalog++;
}

void
eo_worker_targets_init(MemoryContext context)
{
	HASHCTL		ctl = {.keysize = sizeof(EoTarget),.entrysize = sizeof(EoWorkerTarget)};

	ctl.hcxt = places.context = context;
	places.table = hash_create("exactonce places", 16, &ctl,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	places.catalog = 1;
	eo_options_on_change(catalog_changed);
}

EoWorkerTarget *
eo_worker_target_of(const EoTarget *target)
{
	bool		found;
	EoWorkerTarget *place = hash_search(places.table, target, HASH_ENTER, &found);

	if (!found)
	{
		memset((char *) place + sizeof(EoTarget), 0, sizeof(EoWorkerTarget) - sizeof(EoTarget));
		place->target = *target;
	}
	return place;
}

/*
 * Credentials and options come from the catalogs: in a transaction, one for
 * each place, because an error ends it.  (And not within a scan of the table
 * of places: the end of a transaction ends those.)
 */
void
eo_worker_targets_build(void)
{
	HASH_SEQ_STATUS scan;
	EoWorkerTarget *place;
	EoWorkerTarget **todo;
	int			n = 0;

	AcceptInvalidationMessages();
	todo = palloc(sizeof(EoWorkerTarget *) * Max(1, hash_get_num_entries(places.table)));
	hash_seq_init(&scan, places.table);
	while ((place = hash_seq_search(&scan)) != NULL)
	{
		if (place->in_flight == 0 && place->built != places.catalog && place->jobs > 0)
			todo[n++] = place;
	}
	for (int i = 0; i < n; i++)
		build_place(todo[i]);
	pfree(todo);
}

static void
build_place(EoWorkerTarget *place)
{
	if (place->store != NULL)
		MemoryContextDelete(place->context);
	place->store = NULL;
	place->gone = false;
	place->pause_until_us = 0;
	place->built = places.catalog;
	StartTransactionCommand();
	MemoryContextSwitchTo(places.context);
	PG_TRY();
	{
		place->store = eo_target_store(&place->target);
		if (place->store != NULL)
			place->context = GetMemoryChunkContext(place->store);
		place->gone = place->store == NULL;
		place->failing |= place->gone;
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		/* A mapping with half its credentials, and the like. */
		MemoryContextSwitchTo(places.context);
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		place->store = NULL;
		place->failing = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(places.context);
}

bool
eo_worker_target_may_send(const EoWorkerTarget *place)
{
	if (place->store == NULL || eo_clock_monotonic_us() < place->pause_until_us)
		return false;
	/* One that failed is tried with one request. */
	return place->in_flight < (place->failing ? 1 : place->store->server->parallel_requests);
}

void
eo_worker_target_answered(EoWorkerTarget *place)
{
	if (place->failing)
		ereport(LOG,
				(errmsg("exactonce: table \"%s\" of server \"%s\" can be written again",
						place->target.table, place->store->server->name)));
	place->failing = false;
	place->complained = false;
	place->pause_until_us = 0;
	eo_target_share_clock(place->store, &place->target);
}

void
eo_worker_target_failed(EoWorkerTarget *place, const EoError *error)
{
	place->pause_until_us = eo_clock_monotonic_us() +
		(error->status == EO_DENIED || error->status == EO_NO_TABLE || error->status == EO_REFUSED ||
		 error->status == EO_NO_CREDENTIALS ? PAUSE_REFUSED_US : EO_WORKER_TARGET_PAUSE_US);
	place->failing = true;
	if (!place->complained)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce: table \"%s\" of server \"%s\" cannot be written; keys of ended transactions wait",
						place->target.table, place->store->server->name),
				 errdetail_internal("%s", eo_error_facts(error)),
				 errhint("It is tried again every few seconds; see exactonce_pending.")));
	place->complained = true;
}

int64
eo_worker_targets_due_us(void)
{
	int64		due_us = INT64_MAX;
	HASH_SEQ_STATUS scan;
	EoWorkerTarget *place;

	hash_seq_init(&scan, places.table);
	while ((place = hash_seq_search(&scan)) != NULL)
	{
		if (place->jobs > 0 && place->in_flight == 0 && place->pause_until_us > 0)
			due_us = Min(due_us, place->pause_until_us);
	}
	return due_us;
}
