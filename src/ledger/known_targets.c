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
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_user_mapping.h"
#include "cluster/target.h"
#include "foreign/foreign.h"
#include "ledger/internal.h"
#include "ledger/internal_form.h"
#include "ledger/known_targets.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "server/error.h"
#include "server/options.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
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

/* The extension may have been created anew, with another table, since then. */
static bool
is_last(const EoTarget *target)
{
	return eo_target_same_layout(target, &last) &&
		eo_internal_id(EO_INTERNAL_TARGETS) == last_table;
}

/* A subtransaction that is current can have lost nothing of what it recorded. */
static bool
is_entered(const EoTarget *target)
{
	return FullTransactionIdEquals(entered_xid, GetTopFullTransactionIdIfAny()) &&
		entered_subid == GetCurrentSubTransactionId() && eo_target_same_layout(target, &entered);
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

/* How well a server suits a target. */
typedef struct Fit
{
	int			score;			/* 0: it leads to another table */
	bool		same_place;		/* with the same key_prefix and partition */
	Oid			userid;			/* who its mapping was looked up for; its
								 * owner if the role may not use it */
	bool		by_role;		/* each role has credentials of its own */
} Fit;

static void
compare(const EoServer *s, const EoTarget *target, Fit *fit)
{
	EoTarget	its = *target;
	bool		same_prefix = strcmp(eo_text_to_utf8(s->key_prefix), target->prefix) == 0;

	if (strcmp(s->url, target->url) != 0 || strcmp(s->region, target->region) != 0 ||
		strcmp(s->table, target->table) != 0)
		return;
	fit->score = 1 + (s->serverid == target->serverid) + 2 * same_prefix +
		4 * (s->tenant == target->owner);
	its.tenant = s->place_tenant;
	fit->same_place = same_prefix && s->plain_http == target->plain_http &&
		strlcpy(its.layout, s->layout, sizeof(its.layout)) < sizeof(its.layout) &&
		eo_target_same_place(&its, target);
	fit->userid = s->userid;
	fit->by_role = s->credentials == EO_CREDENTIALS_MAPPING;
}

/* A server as a role sees it, and how well it suits a target. */
typedef struct Candidate
{
	Oid			serverid;
	Oid			userid;
	const EoTarget *target;
	Fit			fit;
} Candidate;

static void
look_at_candidate(void *arg)
{
	Candidate  *c = arg;
	EoServer   *s = eo_options_load(c->serverid, c->userid);

	if (s == NULL)
		return;
	compare(s, c->target, &c->fit);
	MemoryContextDelete(GetMemoryChunkContext(s));
}

/*
 * How well does a server suit a target, as a role sees it?  If its options are not valid
 * it does not, which must not stop the caller.
 */
static Fit
fit_of(Oid serverid, Oid userid, const EoTarget *target)
{
	Candidate	c = {.serverid = serverid,.userid = userid,.target = target};
	ErrorData  *error = eo_error_try(look_at_candidate, &c);

	if (error == NULL)
		return c.fit;
	/* None of these says anything about the options. */
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
		error->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_INSUFFICIENT_RESOURCES)
		ReThrowError(error);
	memset(&c.fit, 0, sizeof(c.fit));
	return c.fit;
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
		int			score = fit_of(lfirst_oid(cell), target->userid, target).score;

		if (score > best_score)
		{
			best = lfirst_oid(cell);
			best_score = score;
		}
	}
	list_free(servers);
	return best;
}

/* ----- identities ----- */

/* The roles that have a user mapping for a server; that of PUBLIC counts as its owner's. */
static List *
mapped_roles(Oid serverid)
{
	Relation	rel = table_open(UserMappingRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	List	   *roles = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_user_mapping mapping = (Form_pg_user_mapping) GETSTRUCT(tuple);

		if (mapping->umserver == serverid && OidIsValid(mapping->umuser))
			roles = lappend_oid(roles, mapping->umuser);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return roles;
}

static void
add_identity(EoIdentityRef *others, int *n, Oid serverid, Oid userid, const EoTarget *target)
{
	if ((serverid == target->serverid && userid == target->userid) || *n == EO_MAX_IDENTITIES)
		return;
	for (int i = 0; i < *n; i++)
	{
		if (others[i].serverid == serverid && others[i].userid == userid)
			return;
	}
	others[(*n)++] = (EoIdentityRef)
	{
		serverid, userid
	};
}

/* own: it is the target's server.  What has committed there its owner may finish anywhere. */
static void
add_identities(EoIdentityRef *others, int *n, Oid serverid, bool own, const EoTarget *target)
{
	ForeignServer *fs = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	Fit			fit;
	ListCell   *cell;

	if (fs == NULL)
		return;
	fit = fit_of(serverid, fs->owner, target);
	if (fit.same_place || own)
		add_identity(others, n, serverid, fs->owner, target);
	if (!fit.same_place || !fit.by_role)
		return;
	foreach(cell, mapped_roles(serverid))
	{
		fit = fit_of(serverid, lfirst_oid(cell), target);
		if (fit.same_place && fit.userid == lfirst_oid(cell))
			add_identity(others, n, serverid, lfirst_oid(cell), target);
	}
}

int
eo_known_target_identities(const EoTarget *target, EoIdentityRef *others)
{
	int			n = 0;
	ListCell   *cell;

	add_identities(others, &n, target->serverid, true, target);
	foreach(cell, eo_options_servers())
	{
		if (lfirst_oid(cell) != target->serverid)
			add_identities(others, &n, lfirst_oid(cell), false, target);
	}
	return n;
}

bool
eo_known_target_trusted(const EoTarget *target, EoIdentityRef *owner)
{
	ListCell   *cell;

	foreach(cell, eo_target_is_trusted(target) ? eo_options_servers() : NIL)
	{
		ForeignServer *fs = GetForeignServerExtended(lfirst_oid(cell), FSV_MISSING_OK);

		if (fs == NULL || !fit_of(fs->serverid, fs->owner, target).same_place)
			continue;
		*owner = (EoIdentityRef)
		{
			fs->serverid, fs->owner
		};
		return true;
	}
	return false;
}
