/*-------------------------------------------------------------------------
 *
 * known_targets.c
 *	  The DynamoDB tables that servers of this database have, or have had.
 *
 * A row of the outbox says where its record is, and the worker sends signed requests
 * there.  It does so only for a target that is recorded here.  A target is recorded
 * when a server is first used, from the options of that server.  So for a row that a
 * user made up no request is sent.
 *
 * Rows are never removed.  Two transactions that use a target for the first time at
 * the same time may both record it, so that neither waits for the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "cluster/target.h"
#include "commit/internal.h"
#include "commit/internal_form.h"
#include "commit/known_targets.h"
#include "nodes/pg_list.h"
#include "server/error.h"
#include "server/options.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* Columns of the table, as the install script makes them. */
typedef enum TargetColumn
{
	C_URL = 1,
	C_PLAIN_HTTP,
	C_REGION,
	C_TABLE,
	C_LAYOUT,
	C_FIRST_USED,
	TARGET_COLUMNS = C_FIRST_USED
} TargetColumn;

/* The last committed target that was found: a session uses few. */
static EoTarget last;
static Oid	last_table;			/* where it was found */

/*
 * The target that this transaction recorded last.  The snapshot of the running
 * command does not show the row.
 */
static EoTarget entered;
static FullTransactionId entered_xid;
static SubTransactionId entered_subid;

static bool
is_same(const EoTarget *a, const EoTarget *b)
{
	return eo_target_same_table(a, b) && a->plain_http == b->plain_http &&
		strcmp(a->layout, b->layout) == 0;
}

/* The extension may have been created anew, with another table, since then. */
static bool
is_last(const EoTarget *target)
{
	return is_same(target, &last) && eo_internal_id(EO_INTERNAL_TARGETS) == last_table;
}

/* A subtransaction that is current can have lost nothing of what it recorded. */
static bool
is_entered(const EoTarget *target)
{
	return FullTransactionIdEquals(entered_xid, GetTopFullTransactionIdIfAny()) &&
		entered_subid == GetCurrentSubTransactionId() && is_same(target, &entered);
}

/* Is there a row for this target, of this transaction or one that has committed? */
static bool
find_row(Relation rel, const EoTarget *target)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	struct
	{
		AttrNumber	column;
		const char *value;
	}			texts[] = {{C_URL, target->url}, {C_REGION, target->region},
	{C_TABLE, target->table}, {C_LAYOUT, target->layout}};
	ScanKeyData keys[5];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;
	bool		committed = false;

	for (int i = 0; i < (int) lengthof(texts); i++)
	{
		ScanKeyInit(&keys[i], texts[i].column, BTEqualStrategyNumber, F_TEXTEQ,
					CStringGetTextDatum(texts[i].value));
		keys[i].sk_collation = C_COLLATION_OID;
	}
	ScanKeyInit(&keys[4], C_PLAIN_HTTP, BTEqualStrategyNumber, F_BOOLEQ,
				BoolGetDatum(target->plain_http));
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 5, keys);
	while (!committed && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		found = true;
		committed = !TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	/* A row of this transaction may still be rolled back. */
	if (committed)
	{
		last = *target;
		last_table = RelationGetRelid(rel);
	}
	return found;
}

void
eo_known_target_enter(const EoTarget *target)
{
	Datum		values[TARGET_COLUMNS];
	bool		nulls[TARGET_COLUMNS] = {false};
	Relation	rel;
	HeapTuple	tuple;

	if (is_last(target) || is_entered(target))
		return;
	rel = eo_internal_open(EO_INTERNAL_TARGETS, RowExclusiveLock);
	if (!find_row(rel, target))
	{
		values[C_URL - 1] = CStringGetTextDatum(target->url);
		values[C_PLAIN_HTTP - 1] = BoolGetDatum(target->plain_http);
		values[C_REGION - 1] = CStringGetTextDatum(target->region);
		values[C_TABLE - 1] = CStringGetTextDatum(target->table);
		values[C_LAYOUT - 1] = CStringGetTextDatum(target->layout);
		values[C_FIRST_USED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
		tuple = heap_form_tuple(eo_internal_form_desc(EO_INTERNAL_TARGETS), values, nulls);
		CatalogTupleInsert(rel, tuple);
		heap_freetuple(tuple);
		entered = *target;
		entered_xid = GetTopFullTransactionIdIfAny();
		entered_subid = GetCurrentSubTransactionId();
	}
	table_close(rel, NoLock);
}

bool
eo_known_target_exists(const EoTarget *target)
{
	Relation	rel;
	bool		found;

	if (is_last(target))
		return true;
	rel = eo_internal_open(EO_INTERNAL_TARGETS, AccessShareLock);
	found = find_row(rel, target);
	table_close(rel, AccessShareLock);
	return found;
}

/* ----- servers ----- */

/*
 * How well does a server suit a target?  0: it leads to another table, or its
 * options are not valid, which must not stop the caller.
 */
static int
suits(Oid serverid, const EoTarget *target)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile int score = 0;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		EoServer   *s = eo_options_load(serverid, target->userid);

		if (s != NULL && strcmp(s->url, target->url) == 0 &&
			strcmp(s->region, target->region) == 0 && strcmp(s->table, target->table) == 0)
			score = 1 + (serverid == target->serverid) +
				2 * (strcmp(eo_text_to_utf8(s->key_prefix), target->prefix) == 0);
		if (s != NULL)
			MemoryContextDelete(GetMemoryChunkContext(s));
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		eo_error_roll_back(context);
		/* None of these says anything about the options. */
		if (geterrcode() == ERRCODE_QUERY_CANCELED || geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE ||
			geterrcode() == ERRCODE_T_R_DEADLOCK_DETECTED ||
			ERRCODE_TO_CATEGORY(geterrcode()) == ERRCODE_INSUFFICIENT_RESOURCES)
			PG_RE_THROW();
		FlushErrorState();
		score = 0;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return score;
}

Oid
eo_known_target_server(const EoTarget *target)
{
	List	   *servers = eo_options_servers();
	Oid			best = InvalidOid;
	int			best_score = 0;
	ListCell   *cell;

	foreach(cell, servers)
	{
		int			score = suits(lfirst_oid(cell), target);

		if (score > best_score)
		{
			best = lfirst_oid(cell);
			best_score = score;
		}
	}
	list_free(servers);
	return best;
}
