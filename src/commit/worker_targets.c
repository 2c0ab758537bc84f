/*-------------------------------------------------------------------------
 *
 * worker_targets.c
 *	  The targets that a worker writes to, and whether they answer.
 *
 * A target is a table as one role reaches it, see target.h.  While a target is
 * failing, one request is sent to it after each pause; the first definite answer
 * ends that.  The store of a target is built from the catalogs, and built anew when
 * they have changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/target.h"
#include "commit/worker_targets.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "dynamodb/status.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/options.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"

/* A target that refuses requests is tried again after this. */
#define PAUSE_REFUSED_US INT64CONST(5000000)

static struct
{
	MemoryContext context;
	HTAB	   *table;			/* EoWorkerTarget by target */
	uint64		catalog;		/* version of the catalogs: counts changes of
								 * servers and mappings */
}			targets;

static void build_store(EoWorkerTarget *t);

/* A server or a mapping has changed: every store is to be built anew. */
static void
catalog_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	targets.catalog++;
}

void
eo_worker_targets_init(MemoryContext context)
{
	HASHCTL		ctl = {.keysize = sizeof(EoTarget),.entrysize = sizeof(EoWorkerTarget)};

	ctl.hcxt = targets.context = context;
	targets.table = hash_create("exactonce targets", 16, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	targets.catalog = 1;
	eo_options_on_change(catalog_changed);
}

EoWorkerTarget *
eo_worker_target_of(const EoTarget *target)
{
	bool		found;
	EoWorkerTarget *t = hash_search(targets.table, target, HASH_ENTER, &found);

	if (!found)
	{
		memset((char *) t + sizeof(EoTarget), 0, sizeof(EoWorkerTarget) - sizeof(EoTarget));
		t->target = *target;
	}
	return t;
}

/*
 * Reading the catalogs needs a transaction.  Each target has its own, because an
 * error ends it.  The targets are collected before, because the end of a transaction
 * also ends the scan of a hash table.
 */
void
eo_worker_targets_build(void)
{
	HASH_SEQ_STATUS scan;
	EoWorkerTarget *t;
	EoWorkerTarget **todo;
	int			n = 0;

	AcceptInvalidationMessages();
	todo = palloc(sizeof(EoWorkerTarget *) * Max(1, hash_get_num_entries(targets.table)));
	hash_seq_init(&scan, targets.table);
	while ((t = hash_seq_search(&scan)) != NULL)
	{
		if (t->in_flight == 0 && t->built != targets.catalog && t->jobs > 0)
			todo[n++] = t;
	}
	for (int i = 0; i < n; i++)
		build_store(todo[i]);
	pfree(todo);
}

static void
build_store(EoWorkerTarget *t)
{
	if (t->store != NULL)
		MemoryContextDelete(t->context);
	t->store = NULL;
	t->gone = false;
	t->pause_until_us = 0;
	t->built = targets.catalog;
	StartTransactionCommand();
	MemoryContextSwitchTo(targets.context);
	PG_TRY();
	{
		t->store = eo_target_store(&t->target);
		if (t->store != NULL)
			t->context = GetMemoryChunkContext(t->store);
		t->gone = t->store == NULL;
		t->failing |= t->gone;
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		/* For example, a user mapping has half of its credentials. */
		MemoryContextSwitchTo(targets.context);
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		t->store = NULL;
		t->failing = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(targets.context);
}

bool
eo_worker_target_may_send(const EoWorkerTarget *t)
{
	if (t->store == NULL || eo_clock_monotonic_us() < t->pause_until_us)
		return false;
	return t->in_flight < (t->failing ? 1 : t->store->server->parallel_requests);
}

void
eo_worker_target_answered(EoWorkerTarget *t)
{
	if (t->failing)
		ereport(LOG,
				(errmsg("exactonce: table \"%s\" of server \"%s\" can be written again",
						t->target.table, t->store->server->name)));
	if (t->failing)
		eo_database_set_failure(MyDatabaseId, NULL);
	t->failing = false;
	t->complained = false;
	t->pause_until_us = 0;
	eo_target_share_clock(t->store, &t->target);
}

void
eo_worker_target_failed(EoWorkerTarget *t, const EoError *error)
{
	bool		refused = error->status == EO_DENIED || error->status == EO_NO_TABLE ||
	error->status == EO_REFUSED || error->status == EO_NO_CREDENTIALS;

	t->pause_until_us = eo_clock_monotonic_us() +
		(refused ? PAUSE_REFUSED_US : EO_WORKER_TARGET_PAUSE_US);
	t->failing = true;
	eo_database_set_failure(MyDatabaseId, error);
	if (!t->complained)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce: table \"%s\" of server \"%s\" cannot be written; keys of ended transactions wait",
						t->target.table, t->store->server->name),
				 errdetail_internal("%s", eo_error_facts(error)),
				 errhint("It is tried again every few seconds; see exactonce_pending.")));
	t->complained = true;
}

int64
eo_worker_targets_due_us(void)
{
	int64		due_us = INT64_MAX;
	HASH_SEQ_STATUS scan;
	EoWorkerTarget *t;

	hash_seq_init(&scan, targets.table);
	while ((t = hash_seq_search(&scan)) != NULL)
	{
		if (t->jobs > 0 && t->in_flight == 0 && t->pause_until_us > 0)
			due_us = Min(due_us, t->pause_until_us);
	}
	return due_us;
}
