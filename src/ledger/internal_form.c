/*-------------------------------------------------------------------------
 *
 * internal_form.c
 *	  The internal tables as the install script makes them, and what was altered.
 *
 * A table that has another owner, that another role may write, that has triggers, or that
 * a crash would empty, cannot be relied on.  What counts is what is there now: the flags of
 * pg_class, which say that there may have been a rule or a child, are not asked.
 *
 * PostgreSQL's functions for catalogs, by which rows are written, know no index on an
 * expression and none with a condition: with one they would crash the server.  So only our
 * own indexes are allowed.
 *
 * A column that was added and dropped again stays in the table for ever, behind ours.  So
 * rows are formed and read by a descriptor that has our columns only.  PostgreSQL takes a
 * row that ends early, and knows that the rest of it is NULL.  One of ours that was
 * dropped could only be added behind the others, which is refused (hooks.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/tupdesc.h"
#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "ledger/internal_form.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "rewrite/prs2lock.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/syscache.h"

/* A column, and an index, as the install script makes them. */
typedef struct Column
{
	const char *name;
	Oid			type;
	bool		nullable;
} Column;

typedef struct Key
{
	int			ncolumns;
	AttrNumber	columns[4];
	bool		unique;
	const char *undo;			/* how it is made again */
} Key;

static const Column outbox_columns[] = {
	{"system_identifier", INT8OID, false}, {"dboid", OIDOID, false}, {"digest", BYTEAOID, false}, {"token", UUIDOID, false},
	{"server", OIDOID, false}, {"role", OIDOID, false}, {"url", TEXTOID, false}, {"plain_http", BOOLOID, false},
	{"region", TEXTOID, false}, {"dynamodb_table", TEXTOID, false}, {"layout", TEXTOID, false}, {"pk", TEXTOID, false},
	{"retention_s", INT8OID, false}, {"xid", XID8OID, false}, {"created_at", TIMESTAMPTZOID, false},
	{"given_up", BOOLOID, false}, {"life", UUIDOID, false}, {"key_prefix", TEXTOID, false}, {"writes", INT4OID, true},
	{"write_number", INT8OID, true}, {"write_items", TEXTOID, true},
	{"write_body", BYTEAOID, true}, {"trouble", INT2OID, false}, {"attempts", INT4OID, false},
	{"failing_since", TIMESTAMPTZOID, true}, {"reason", TEXTOID, true}, {"reason_item", INT4OID, true}
};

static const Column lives_columns[] = {
	{"id", UUIDOID, false}, {"parent", UUIDOID, true}, {"number", INT8OID, false},
	{"system_identifier", INT8OID, false}, {"dboid", OIDOID, false}, {"run", UUIDOID, true},
	{"timeline", INT8OID, false}, {"xid_floor", XID8OID, false}, {"xid_start", XID8OID, false}, {"beat", INT8OID, false},
	{"started_at", TIMESTAMPTZOID, false}, {"written_by", XID8OID, false}
};

static const Column targets_columns[] = {
	{"url", TEXTOID, false}, {"plain_http", BOOLOID, false}, {"region", TEXTOID, false}, {"dynamodb_table", TEXTOID, false},
	{"layout", TEXTOID, false}, {"first_used", TIMESTAMPTZOID, false}, {"tenant", OIDOID, false}
};

/*
 * The first one is the primary key, if it is unique.  By its token a row of the outbox is found,
 * too, and by the key those for other addresses of its table.
 */
static const Key outbox_indexes[] = {
	{3, {1, 2, 3}, true, "ALTER TABLE " EO_INTERNAL_SCHEMA ".outbox ADD PRIMARY KEY (system_identifier, dboid, digest)"},
	{3, {1, 2, 4}, true, "ALTER TABLE " EO_INTERNAL_SCHEMA ".outbox ADD CONSTRAINT outbox_claim UNIQUE (system_identifier, dboid, token)"},
	{3, {1, 2, 12}, false, "CREATE INDEX outbox_key ON " EO_INTERNAL_SCHEMA ".outbox (system_identifier, dboid, pk COLLATE \"C\")"}
};
static const Key lives_indexes[] = {
	{1, {1}, true, "ALTER TABLE " EO_INTERNAL_SCHEMA ".lives ADD PRIMARY KEY (id)"}
};

static const Key targets_indexes[] = {
	{4, {1, 3, 4, 5}, false, "CREATE INDEX targets_layout ON " EO_INTERNAL_SCHEMA ".targets (url COLLATE \"C\", region COLLATE \"C\", dynamodb_table COLLATE \"C\", layout COLLATE \"C\")"}
};

typedef struct Form
{
	const char *name;			/* with its schema */
	const Column *columns;
	int			ncolumns;
	const Key  *indexes;
	int			nindexes;
} Form;

static const Form forms[EO_INTERNAL_TABLES] = {
	[EO_INTERNAL_OUTBOX] = {EO_INTERNAL_SCHEMA ".outbox", outbox_columns, lengthof(outbox_columns),
	outbox_indexes, lengthof(outbox_indexes)},
	[EO_INTERNAL_LIVES] = {EO_INTERNAL_SCHEMA ".lives", lives_columns, lengthof(lives_columns),
	lives_indexes, lengthof(lives_indexes)},
	[EO_INTERNAL_TARGETS] = {EO_INTERNAL_SCHEMA ".targets", targets_columns, lengthof(targets_columns),
	targets_indexes, lengthof(targets_indexes)}
};

static TupleDesc descs[EO_INTERNAL_TABLES]; /* of our columns; NULL: not made
											 * yet */

static char *find_other_column(Relation rel, const Form *form, char **undo);
static char *find_right(Relation rel, const Form *form, Oid owner, char **undo);
static char *find_addition(Relation rel, const Form *form, char **undo);
static char *find_other_index(Relation rel, const Form *form, char **undo);

const char *
eo_internal_form_name(EoInternalTable table)
{
	return forms[table].name;
}

int
eo_internal_form_columns(EoInternalTable table)
{
	return forms[table].ncolumns;
}

TupleDesc
eo_internal_form_desc(EoInternalTable table)
{
	const Form *form = &forms[table];
	List	   *names = NIL;
	List	   *types = NIL;
	List	   *typmods = NIL;
	List	   *collations = NIL;
	MemoryContext old;

	if (descs[table] != NULL)
		return descs[table];
	for (int i = 0; i < form->ncolumns; i++)
	{
		names = lappend(names, makeString(unconstify(char *, form->columns[i].name)));
		types = lappend_oid(types, form->columns[i].type);
		typmods = lappend_int(typmods, -1);
		collations = lappend_oid(collations, InvalidOid);
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	descs[table] = BuildDescFromLists(names, types, typmods, collations);
	MemoryContextSwitchTo(old);
	return descs[table];
}

char *
eo_internal_form_altered(Relation rel, EoInternalTable table, Oid owner, char **undo)
{
	const Form *form = &forms[table];
	char	   *detail;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relam != HEAP_TABLE_AM_OID)
	{
		*undo = psprintf("ALTER TABLE %s SET ACCESS METHOD heap", form->name);
		return pstrdup("It is not an ordinary table of the access method heap.");
	}
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
	{
		*undo = psprintf("ALTER TABLE %s SET LOGGED", form->name);
		return pstrdup("It is unlogged: a crash would empty it.");
	}
	if (rel->rd_rel->relowner != owner)
	{
		*undo = psprintf("ALTER TABLE %s OWNER TO %s", form->name,
						 quote_identifier(GetUserNameFromId(owner, false)));
		return pstrdup("Its owner is not the owner of the extension.");
	}
	if ((detail = find_other_column(rel, form, undo)) != NULL ||
		(detail = find_right(rel, form, owner, undo)) != NULL ||
		(detail = find_addition(rel, form, undo)) != NULL)
		return detail;
	return find_other_index(rel, form, undo);
}

/* Our columns come first, in their order. */
static char *
find_other_column(Relation rel, const Form *form, char **undo)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < Max(desc->natts, form->ncolumns); i++)
	{
		const Column *ours = i < form->ncolumns ? &form->columns[i] : NULL;
		Form_pg_attribute att = i < desc->natts ? TupleDescAttr(desc, i) : NULL;

		if (ours == NULL && att->attisdropped)
			continue;
		if (ours == NULL)
		{
			*undo = psprintf("ALTER TABLE %s DROP COLUMN %s", form->name,
							 quote_identifier(NameStr(att->attname)));
			return psprintf("It has other columns than the extension made: %s.",
							quote_identifier(NameStr(att->attname)));
		}
		if (att == NULL || att->attisdropped || strcmp(NameStr(att->attname), ours->name) != 0)
		{
			*undo = psprintf("have column %d named %s, as it was", i + 1, ours->name);
			return psprintf("It has other columns than the extension made: %s is missing.", ours->name);
		}
		if (att->atttypid != ours->type)
		{
			*undo = psprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s", form->name, ours->name,
							 format_type_be(ours->type));
			return psprintf("Its column %s has another type than the extension made.", ours->name);
		}
		if (att->attnotnull == ours->nullable || att->attgenerated != '\0')
		{
			*undo = psprintf("ALTER TABLE %s ALTER COLUMN %s %s", form->name, ours->name,
							 att->attgenerated != '\0' ? "DROP EXPRESSION" :
							 ours->nullable ? "DROP NOT NULL" : "SET NOT NULL");
			return psprintf("Its column %s is not as the extension made it.", ours->name);
		}
	}
	return NULL;
}

/* ----- rights ----- */

/*
 * Does the access control list in this column give rights to a role that is not the
 * owner?  Then *who is the role.  tuple is released; it may be NULL.
 */
static bool
has_foreign_acl(int cacheid, HeapTuple tuple, AttrNumber column, Oid owner, const char **who)
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

		for (int i = 0; i < ACL_NUM(acl) && !found; i++)
		{
			Oid			role = items[i].ai_grantee;
			char	   *name = role != ACL_ID_PUBLIC ? GetUserNameFromId(role, true) : NULL;

			found = role != owner && ACLITEM_GET_PRIVS(items[i]) != 0;
			*who = name != NULL ? quote_identifier(name) : "PUBLIC";
		}
	}
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return found;
}

/* Rights on columns, those of the system included, are kept apart from the table's. */
static char *
find_column_right(Relation rel, const Form *form, Oid owner, char **undo)
{
	Oid			relid = RelationGetRelid(rel);
	int			natts = RelationGetNumberOfAttributes(rel);
	const char *who;

	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i <= natts; i++)
	{
		HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(i));

		if (HeapTupleIsValid(tuple) && ((Form_pg_attribute) GETSTRUCT(tuple))->attisdropped)
			ReleaseSysCache(tuple);
		else if (has_foreign_acl(ATTNUM, tuple, Anum_pg_attribute_attacl, owner, &who))
		{
			*undo = psprintf("REVOKE ALL (%s) ON %s FROM %s",
							 quote_identifier(get_attname(relid, i, false)), form->name, who);
			return pstrdup("Another role has been granted rights on a column of it.");
		}
	}
	return NULL;
}

static char *
find_right(Relation rel, const Form *form, Oid owner, char **undo)
{
	const char *who;

	if (has_foreign_acl(RELOID,
						SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(rel))),
						Anum_pg_class_relacl, owner, &who))
	{
		*undo = psprintf("REVOKE ALL ON %s FROM %s", form->name, who);
		return pstrdup("Another role has been granted rights on it.");
	}
	if (has_foreign_acl(NAMESPACEOID,
						SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(RelationGetNamespace(rel))),
						Anum_pg_namespace_nspacl, owner, &who))
	{
		*undo = psprintf("REVOKE ALL ON SCHEMA " EO_INTERNAL_SCHEMA " FROM %s", who);
		return pstrdup("Another role has been granted rights on its schema.");
	}
	return find_column_right(rel, form, owner, undo);
}

/* ----- triggers, rules, policies, children ----- */

/* An object as SQL names it. */
static char *
identity_of(Oid class_id, Oid object_id)
{
	ObjectAddress address;

	ObjectAddressSet(address, class_id, object_id);
	return getObjectIdentity(&address, false);
}

/* The command that drops a trigger.  One of a foreign key goes with that. */
static char *
drop_of_trigger(const Trigger *trigger)
{
	HeapTuple	tuple = !trigger->tgisinternal ? NULL :
	SearchSysCache1(CONSTROID, ObjectIdGetDatum(trigger->tgconstraint));
	Form_pg_constraint constraint;
	char	   *command;

	if (!HeapTupleIsValid(tuple))
		return psprintf("DROP TRIGGER %s", identity_of(TriggerRelationId, trigger->tgoid));
	constraint = (Form_pg_constraint) GETSTRUCT(tuple);
	command = psprintf("ALTER TABLE %s DROP CONSTRAINT %s",
					   identity_of(RelationRelationId, constraint->conrelid),
					   quote_identifier(NameStr(constraint->conname)));
	ReleaseSysCache(tuple);
	return command;
}

static char *
find_addition(Relation rel, const Form *form, char **undo)
{
	Oid			relid = RelationGetRelid(rel);
	List	   *children;

	if (rel->trigdesc != NULL)
	{
		*undo = drop_of_trigger(&rel->trigdesc->triggers[0]);
		return pstrdup("It has triggers.");
	}
	if (rel->rd_rules != NULL)
	{
		*undo = psprintf("DROP RULE %s",
						 identity_of(RewriteRelationId, rel->rd_rules->rules[0]->ruleId));
		return pstrdup("It has rules.");
	}
	if (rel->rd_rel->relrowsecurity || rel->rd_rel->relforcerowsecurity)
	{
		*undo = psprintf("ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY",
						 form->name);
		return pstrdup("It has row security.");
	}
	children = find_inheritance_children(relid, NoLock);
	if (children != NIL)
	{
		*undo = psprintf("ALTER TABLE %s NO INHERIT %s",
						 identity_of(RelationRelationId, linitial_oid(children)), form->name);
		return pstrdup("It takes part in inheritance.");
	}
	if (rel->rd_rel->relispartition || has_superclass(relid))
	{
		*undo = psprintf("detach %s from its parent with ALTER TABLE ... NO INHERIT or DETACH PARTITION",
						 form->name);
		return pstrdup("It takes part in inheritance.");
	}
	return NULL;
}

/* ----- indexes ----- */

static bool
is_btree(Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(indexid));
	bool		is = HeapTupleIsValid(tuple) &&
	((Form_pg_class) GETSTRUCT(tuple))->relam == BTREE_AM_OID;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return is;
}

/*
 * Is it one of ours, by its columns?  It may be a second one, or not be valid yet, as beside
 * REINDEX CONCURRENTLY.
 */
static bool
is_own_index(Oid indexid, const Form *of, const Key *own)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index index;
	bool		is_own;

	/* The index was dropped CONCURRENTLY. */
	if (!HeapTupleIsValid(tuple))
		return true;
	index = (Form_pg_index) GETSTRUCT(tuple);
	is_own = index->indnatts == own->ncolumns && index->indnkeyatts == own->ncolumns &&
		index->indimmediate && !index->indisexclusion &&
		heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
		is_btree(indexid);

	for (int i = 0; is_own && i < own->ncolumns; i++)
	{
		Oid			type = of->columns[own->columns[i] - 1].type;
		bool		isnull;
		Datum		classes = SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indclass, &isnull);
		Datum		collations = SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indcollation,
												 &isnull);

		/* A collation of the system may change, and then rows are missed. */
		is_own = index->indkey.values[i] == own->columns[i] &&
			((oidvector *) DatumGetPointer(collations))->values[i] ==
			(type == TEXTOID ? C_COLLATION_OID : InvalidOid) &&
			((oidvector *) DatumGetPointer(classes))->values[i] ==
			GetDefaultOpClass(type, BTREE_AM_OID);
	}
	ReleaseSysCache(tuple);
	return is_own;
}

static char *
drop_of_index(Oid indexid, const Form *form)
{
	Oid			constraint = get_index_constraint(indexid);

	if (OidIsValid(constraint))
		return psprintf("ALTER TABLE %s DROP CONSTRAINT %s", form->name,
						quote_identifier(get_constraint_name(constraint)));
	return psprintf("DROP INDEX %s", identity_of(RelationRelationId, indexid));
}

static char *
find_other_index(Relation rel, const Form *form, char **undo)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Oid			indexid = lfirst_oid(cell);
		bool		is_own = false;

		for (int i = 0; i < form->nindexes && !is_own; i++)
			is_own = is_own_index(indexid, form, &form->indexes[i]);
		if (is_own)
			continue;
		*undo = drop_of_index(indexid, form);
		return psprintf("It has an index that the extension did not make: %s.",
						identity_of(RelationRelationId, indexid));
	}
	return NULL;
}

/* Is there such an index, and is it in use? */
static bool
has_index(Relation rel, const Form *form, const Key *own)
{
	List	   *indexes = RelationGetIndexList(rel);
	bool		found = false;
	ListCell   *cell;

	foreach(cell, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		found |= index->indisvalid && (index->indisunique || !own->unique) &&
			is_own_index(lfirst_oid(cell), form, own);
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	return found;
}

char *
eo_internal_form_lacks_key(Relation rel, EoInternalTable table, char **undo)
{
	const Form *form = &forms[table];

	list_free(RelationGetIndexList(rel));	/* sets rd_pkindex */
	if (form->indexes[0].unique && !(OidIsValid(rel->rd_pkindex) &&
									 is_own_index(rel->rd_pkindex, form, &form->indexes[0])))
	{
		*undo = pstrdup(form->indexes[0].undo);
		return pstrdup("It has no valid primary key of the columns that the extension made it of.");
	}
	for (int i = form->indexes[0].unique; i < form->nindexes; i++)
	{
		const Key  *own = &form->indexes[i];

		if (has_index(rel, form, own))
			continue;
		*undo = pstrdup(own->undo);
		return psprintf("It has no valid %sindex by %s.", own->unique ? "unique " : "",
						form->columns[own->columns[own->ncolumns - 1] - 1].name);
	}
	return NULL;
}
