/*-------------------------------------------------------------------------
 *
 * internal.c
 *	  The internal tables: finding them, and whether they can be relied on.
 *
 * The tables are in the schema exactonce_internal, and no role but their owner has
 * rights on them.  They are read and written by heap functions, as PostgreSQL does
 * with its catalogs: no code of a user runs in between, and no publication, rule or
 * policy applies.
 *
 * The rows decide which keys are completed, and the worker acts on them with a
 * superuser's rights.  So each use checks that the table is what the install script made
 * (internal_form.c).
 *
 * The result of the check is kept until the table's relcache entry is invalidated.
 * Every GRANT, trigger, rule, policy, index and child table that is made changes a row of
 * the table in a catalog, and so invalidates the entry.  That the check has failed is not
 * kept.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "compat.h"
#include "ledger/internal.h"
#include "ledger/internal_form.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

typedef struct Table
{
	Oid			relid;			/* InvalidOid: not found */
	bool		checked;		/* nothing was altered, and nothing has
								 * changed since */
} Table;

static Table tables[EO_INTERNAL_TABLES];

static bool known;				/* the OIDs were found, and are valid */
static Oid	owner_id;			/* of the extension */
static char version[32];		/* the same: that of its SQL objects */

static void find_tables(void);
static void forget_tables(Datum arg, Oid relid);
static Oid	read_extension(Oid extension);
static void check_version(void);

/* ----- finding ----- */

Oid
eo_internal_id(EoInternalTable table)
{
	if (!known)
		find_tables();
	return tables[table].relid;
}

Oid
eo_internal_look(void)
{
	known = false;
	return eo_internal_id(EO_INTERNAL_OUTBOX);
}

bool
eo_internal_is_known(void)
{
	return known;
}

const char *
eo_internal_version(void)
{
	(void) eo_internal_look();
	return version;
}

/*
 * The version is in pg_extension, whose changes send no invalidation that we could ask for.  A
 * script of an update need not alter the tables.
 */
void
eo_internal_announce(void)
{
	(void) eo_internal_look();
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
	{
		if (OidIsValid(tables[i].relid))
			CacheInvalidateRelcacheByRelid(tables[i].relid);
	}
}

bool
eo_internal_is_part(Oid relid)
{
	return OidIsValid(eo_internal_id(EO_INTERNAL_OUTBOX)) && eo_internal_name(relid) != NULL;
}

bool
eo_internal_is_column(Oid relid, int column)
{
	if (!OidIsValid(eo_internal_id(EO_INTERNAL_OUTBOX)))
		return false;
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
	{
		if (tables[i].relid == relid)
			return column <= eo_internal_form_columns(i);
	}
	return false;
}

const char *
eo_internal_name(Oid relid)
{
	for (int i = 0; OidIsValid(relid) && i < EO_INTERNAL_TABLES; i++)
	{
		if (tables[i].relid == relid)
			return eo_internal_form_name(i);
	}
	return NULL;
}

static void
find_tables(void)
{
	static bool registered = false;
	Oid			extension;
	Oid			schema;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(forget_tables, (Datum) 0);
		registered = true;
	}
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
		tables[i].relid = InvalidOid;
	extension = get_extension_oid("exactonce", true);
	schema = get_namespace_oid(EO_INTERNAL_SCHEMA, true);
	if (!OidIsValid(extension) || !OidIsValid(schema))
		return;
	owner_id = read_extension(extension);
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
	{
		const char *name = eo_internal_form_name(i) + strlen(EO_INTERNAL_SCHEMA ".");
		Oid			relid = get_relname_relid(name, schema);

		/* A table of that name may be another one than the extension's. */
		if (OidIsValid(relid) &&
			getExtensionOfObject(RelationRelationId, relid) == extension)
			tables[i].relid = relid;
	}
	known = OidIsValid(tables[EO_INTERNAL_OUTBOX].relid);
}

/* A relcache entry was invalidated; InvalidOid: all were. */
static void
forget_tables(Datum arg, Oid relid)
{
	(void) arg;
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
	{
		if (relid != InvalidOid && relid != tables[i].relid)
			continue;
		tables[i].checked = false;
		known = false;
	}
}

/* Returns its owner, and sets version. */
static Oid
read_extension(Oid extension)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	Oid			owner = InvalidOid;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, Anum_pg_extension_extversion,
										 RelationGetDescr(rel), &isnull);

		owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
		text_to_cstring_buffer(DatumGetTextPP(value), version, sizeof(version));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return owner;
}

/* ----- opening ----- */

Relation
eo_internal_open(EoInternalTable which, LOCKMODE mode)
{
	Table	   *table = &tables[which];
	char	   *detail;
	char	   *undo;
	Relation	rel = NULL;

	/* The table may be dropped while its lock is waited for. */
	if (OidIsValid(eo_internal_id(which)))
		rel = try_relation_open(table->relid, mode);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s does not exist", eo_internal_form_name(which)),
				 errhint("It belongs to the extension: CREATE EXTENSION exactonce.")));
	/* Locking also accepts invalidations, so checked is read after that. */
	if (table->checked)
		return rel;
	check_version();
	detail = eo_internal_form_altered(rel, which, owner_id, &undo);
	/* DROP EXTENSION drops the primary key first, and then asks for rows. */
	if (detail == NULL)
	{
		detail = eo_internal_form_lacks_key(rel, which, &undo);
		if (detail != NULL && mode == AccessShareLock)
			return rel;
	}
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s was altered and cannot be relied on", eo_internal_form_name(which)),
				 errdetail_internal("%s", detail),
				 errhint("Undo that: %s. The table decides which keys are completed, and nothing may come between.",
						 undo)));
	table->checked = true;
	return rel;
}

const char *
eo_internal_look_over(const char **advice, Oid *locked)
{
	*locked = InvalidOid;
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
	{
		const Table *table = &tables[i];
		Relation	rel = NULL;
		char	   *detail;
		char	   *undo;

		if (OidIsValid(eo_internal_id(i)) &&
			!ConditionalLockRelationOid(table->relid, AccessShareLock))
		{
			*locked = table->relid;
			*advice = NULL;
			return psprintf("%s is locked", eo_internal_form_name(i));
		}
		if (OidIsValid(eo_internal_id(i)))
			rel = try_relation_open(table->relid, NoLock);
		*advice = "It belongs to the extension, and was moved, renamed or dropped. Undo that.";
		if (rel == NULL)
			return psprintf("%s does not exist", eo_internal_form_name(i));
		detail = eo_internal_form_altered(rel, i, owner_id, &undo);
		if (detail == NULL)
			detail = eo_internal_form_lacks_key(rel, i, &undo);

		/*
		 * The lock is kept: whoever opens the table next does not wait for
		 * it.
		 */
		relation_close(rel, NoLock);
		if (detail == NULL)
			continue;
		*advice = psprintf("Undo that: %s. Nothing is claimed, completed or finished until then.", undo);
		return psprintf("%s cannot be relied on: %s", eo_internal_form_name(i), detail);
	}
	return NULL;
}

/*
 * The library is loaded when the server starts, and the SQL objects are of the last CREATE or
 * ALTER EXTENSION.  So after an update either may be the newer one, until both are the same.
 */
static void
check_version(void)
{
	if (strcmp(version, EO_VERSION) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the library of exactonce is version %s, and the extension in this database is version %s",
					EO_VERSION, version),
			 errdetail("Nothing is claimed, completed or finished in this database until they are the same. Nothing is lost meanwhile."),
			 errhint("If the library is the newer one: ALTER EXTENSION exactonce UPDATE. If the extension is: install the package of its version on the server, and restart PostgreSQL.")));
}

void
eo_internal_check(void)
{
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
		table_close(eo_internal_open(i, AccessShareLock), AccessShareLock);
}
