/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  The identity of this database in the records that it seals.
 *
 * Our row of the table has the system identifier of this cluster and the OID of this
 * database.  Other rows came with a copy: by CREATE DATABASE ... TEMPLATE, by logical
 * replication or by pg_upgrade.  They belong to other databases, and are ignored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "commit/identity.h"
#include "commit/internal.h"
#include "compat.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

/* Columns of the table, as the install script makes them. */
typedef enum IdentityColumn
{
	C_SYSTEM = 1,
	C_DATABASE,
	C_ORIGIN,
	C_INCARNATION,
	C_SINCE,
	IDENTITY_COLUMNS = C_SINCE
} IdentityColumn;

static void insert_identity(Relation rel, EoIdentity *identity);
static void update_incarnation(Relation rel, HeapTuple tuple, int64 incarnation);

void
eo_identity_enter(bool new_incarnation, EoIdentity *identity)
{
	Relation	rel = eo_internal_open(EO_INTERNAL_IDENTITY, RowExclusiveLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleDesc	desc = RelationGetDescr(rel);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;

	ScanKeyInit(&keys[0], C_SYSTEM, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum((int64) GetSystemIdentifier()));
	ScanKeyInit(&keys[1], C_DATABASE, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	/* There is no index: the table has a handful of rows. */
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		since = heap_getattr(tuple, C_SINCE, desc, &isnull);

		if (n++ > 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("table exactonce_internal.identity has two rows for this database"),
					 errhint("Create the extension anew, or restore the table.")));
		memcpy(identity->origin, DatumGetUUIDP(heap_getattr(tuple, C_ORIGIN, desc, &isnull))->data,
			   sizeof(identity->origin));
		identity->incarnation = DatumGetInt64(heap_getattr(tuple, C_INCARNATION, desc, &isnull));
		identity->horizon = U64FromFullTransactionId(DatumGetFullTransactionId(since));
		if (new_incarnation)
			update_incarnation(rel, tuple, ++identity->incarnation);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	if (n == 0)
		insert_identity(rel, identity);
	table_close(rel, NoLock);
}

static void
update_incarnation(Relation rel, HeapTuple tuple, int64 incarnation)
{
	Datum		values[IDENTITY_COLUMNS] = {0};
	bool		nulls[IDENTITY_COLUMNS] = {false};
	bool		replace[IDENTITY_COLUMNS] = {false};
	HeapTuple	updated;

	values[C_INCARNATION - 1] = Int64GetDatum(incarnation);
	replace[C_INCARNATION - 1] = true;
	updated = heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls, replace);
	CatalogTupleUpdate(rel, &tuple->t_self, updated);
	heap_freetuple(updated);
}

static void
insert_identity(Relation rel, EoIdentity *identity)
{
	Datum		values[IDENTITY_COLUMNS];
	bool		nulls[IDENTITY_COLUMNS] = {false};
	HeapTuple	tuple;
	pg_uuid_t  *origin = DatumGetUUIDP(DirectFunctionCall1(gen_random_uuid, (Datum) 0));

	memcpy(identity->origin, origin->data, sizeof(identity->origin));
	identity->incarnation = 1;
	identity->horizon = U64FromFullTransactionId(GetTopFullTransactionId());
	values[C_SYSTEM - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[C_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[C_ORIGIN - 1] = UUIDPGetDatum(origin);
	values[C_INCARNATION - 1] = Int64GetDatum(identity->incarnation);
	values[C_SINCE - 1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
}
