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
 * superuser's rights.  So each use checks that the table is still what the install
 * script made.  A table that has another owner, that another role may write, that
 * has triggers, or that a crash would empty, is refused.
 *
 * The result of the check is kept until the table's relcache entry is invalidated.
 * Every GRANT, trigger, rule, policy and child table changes the table's row in
 * pg_class or those of its columns in pg_attribute, and so invalidates the entry.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "commit/internal.h"
#include "compat.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#define SCHEMA "exactonce_internal"

typedef struct Table
{
	const char *name;
	int			ncolumns;
	Oid			relid;			/* InvalidOid: not found */
	bool		checked;		/* nothing was altered, and nothing has
								 * changed since */
} Table;

static Table tables[EO_INTERNAL_TABLES] = {
	[EO_INTERNAL_OUTBOX] = {"outbox", 27, InvalidOid, false},
	[EO_INTERNAL_LIVES] = {"lives", 12, InvalidOid, false},
	[EO_INTERNAL_TARGETS] = {"targets", 6, InvalidOid, false}
};

static bool known;				/* the OIDs were found, and are valid */
static Oid	owner_id;			/* of the extension */
static char version[32];		/* the same: that of its SQL objects */

static void find_tables(void);
static void forget_tables(Datum arg, Oid relid);
static Oid	read_extension(Oid extension);
static void check_version(void);
static const char *altered(Relation rel, const Table *table);
static bool has_foreign_acl(int cacheid, HeapTuple tuple, AttrNumber column);
static bool has_column_acl(Relation rel);

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
	if (!OidIsValid(eo_internal_id(EO_INTERNAL_OUTBOX)))
		return false;
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
	{
		if (tables[i].relid == relid)
			return true;
	}
	return false;
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
	schema = get_namespace_oid(SCHEMA, true);
	if (!OidIsValid(extension) || !OidIsValid(schema))
		return;
	owner_id = read_extension(extension);
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
	{
		Oid			relid = get_relname_relid(tables[i].name, schema);

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
	const char *detail;
	Relation	rel;

	if (!OidIsValid(eo_internal_id(which)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s.%s does not exist", SCHEMA, table->name),
				 errhint("It belongs to the extension: CREATE EXTENSION exactonce.")));
	/* Locking also accepts invalidations, so checked is read after that. */
	rel = table_open(table->relid, mode);
	if (table->checked)
		return rel;
	check_version();
	detail = altered(rel, table);
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s.%s was altered and cannot be relied on", SCHEMA, table->name),
				 errdetail("%s", detail),
				 errhint("Undo that. The table decides which keys are completed, and nothing may come between.")));
	table->checked = true;
	return rel;
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

/* How the table differs from what the install script made; NULL: it does not. */
static const char *
altered(Relation rel, const Table *table)
{
	Form_pg_class form = rel->rd_rel;

	if (form->relkind != RELKIND_RELATION || RelationGetNumberOfAttributes(rel) != table->ncolumns)
		return "It has other columns than the extension made.";
	if (form->relpersistence != RELPERSISTENCE_PERMANENT)
		return "It is unlogged: a crash would empty it.";
	if (form->relowner != owner_id)
		return "Its owner is not the owner of the extension.";
	if (has_foreign_acl(RELOID,
						SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(rel))),
						Anum_pg_class_relacl))
		return "Another role has been granted rights on it.";
	if (has_column_acl(rel))
		return "Another role has been granted rights on a column of it.";
	if (has_foreign_acl(NAMESPACEOID,
						SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(form->relnamespace)),
						Anum_pg_namespace_nspacl))
		return "Another role has been granted rights on its schema.";
	if (form->relhastriggers && rel->trigdesc != NULL)
		return "It has triggers.";
	if (form->relhasrules)
		return "It has rules.";
	if (form->relrowsecurity || form->relforcerowsecurity)
		return "It has row security.";
	if (form->relispartition || form->relhassubclass || has_superclass(RelationGetRelid(rel)))
		return "It takes part in inheritance.";
	return NULL;
}

/* Rights on columns, those of the system included, are kept apart from the table's. */
static bool
has_column_acl(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	int			natts = RelationGetNumberOfAttributes(rel);
	bool		found = false;

	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i <= natts; i++)
	{
		HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(i));

		found |= has_foreign_acl(ATTNUM, tuple, Anum_pg_attribute_attacl);
	}
	return found;
}

/*
 * Does the access control list in this column give rights to a role that is not the
 * owner?  tuple is released; it may be NULL.
 */
static bool
has_foreign_acl(int cacheid, HeapTuple tuple, AttrNumber column)
{
	bool		found = false;
	bool		isnull = true;
	Datum		datum = (Datum) 0;

	if (HeapTupleIsValid(tuple))
		datum = SysCacheGetAttr(cacheid, tuple, column, &isnull);
	if (!isnull)
	{
		Acl		   *acl = DatumGetAclPCopy(datum);
		AclItem    *items = ACL_DAT(acl);

		for (int i = 0; i < ACL_NUM(acl); i++)
			found |= items[i].ai_grantee != owner_id && ACLITEM_GET_PRIVS(items[i]) != 0;
	}
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return found;
}
