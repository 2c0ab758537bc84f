/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  idem_guard(): a trigger that keeps rows unique across services.
 *
 * The row and its key belong to one transaction: the commit completes the key of
 * the first row, and later rows are duplicates.  A guard is a constraint, so it
 * does the same for every role that inserts: it uses the rights of the table's
 * owner on the server, and ignores the settings of the session.
 *
 * on_duplicate=error is AFTER INSERT: it sees only rows that were stored (which
 * matters with ON CONFLICT), as they were stored, with generated columns.
 *
 * on_duplicate=skip is BEFORE INSERT and leaves a duplicate out.  It is refused on
 * partitions: there it would also leave out, and so lose, a row that an UPDATE
 * moves.
 *
 * at=commit lets the seal claim the keys, all in parallel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "compat.h"
#include "keys/acquire.h"
#include "keys/key.h"
#include "keys/key_form.h"
#include "keys/owner.h"
#include "server/error.h"
#include "server/store.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/trigger.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

EO_COUNTED(eo_idem_guard, EO_FN_IDEM_GUARD);

/* How the trigger is created. */
#define USAGE "CREATE TRIGGER ... AFTER INSERT ON ... FOR EACH ROW EXECUTE FUNCTION idem_guard('column', ..., 'prefix=...', 'on_duplicate=error', 'at=now', 'retention=...', 'server=...'); on_duplicate=skip wants BEFORE INSERT."

/* The arguments that the trigger was created with. */
typedef struct Terms
{
	const char *prefix;
	const char *server;
	bool		skip;
	bool		at_commit;
	int64		retention_s;	/* -1: the server's */
	int			ncolumns;
	AttrNumber *columns;
} Terms;

static HeapTuple new_row(const TriggerData *data);
static bool key_has_changed(TriggerData *data, const Terms *terms);
static void read_terms(TriggerData *data, Terms *terms);
static void check_collation(const TriggerData *data, AttrNumber column);
static bool read_option(Terms *terms, const char *arg);
static bool option_is(const char *arg, const char *name, const char **value);
static void check_firing(TriggerData *data, const Terms *terms);
static char *key_of(TriggerData *data, const Terms *terms, HeapTuple row);
static bool is_key_by_itself(Oid type);
static EoGuard *name_of(TriggerData *data);
static bool claim_now(EoStore *store, const char *key, TriggerData *data, const Terms *terms);

/*
 * idem_guard(column..., [prefix=], [on_duplicate=error|skip], [at=now|commit],
 * [retention=interval], [server=])
 */
static Datum
eo_idem_guard_body(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Terms		terms = {.prefix = "",.server = "exactonce",.retention_s = -1};
	EoStore    *store;
	char	   *key;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("idem_guard() was not called as a trigger"),
				 errhint("CREATE TRIGGER ... AFTER INSERT ON ... FOR EACH ROW EXECUTE FUNCTION idem_guard('column');")));
	eo_preconditions("idem_guard", EO_WRITES | EO_SWITCHED);
	read_terms(data, &terms);
	check_firing(data, &terms);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event) && !key_has_changed(data, &terms))
		return PointerGetDatum(data->tg_newtuple);
	key = key_of(data, &terms, new_row(data));
	store = eo_trigger_open_store(data, terms.server);
	eo_preconditions_worker();
	if (terms.at_commit)
		eo_owner_once(store, key, NULL, terms.retention_s, name_of(data), NULL);
	else if (!claim_now(store, key, data, &terms))
		return PointerGetDatum(NULL);
	return PointerGetDatum(new_row(data));
}

/* The row as it is after the statement. */
static HeapTuple
new_row(const TriggerData *data)
{
	return TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
}

/* Did an UPDATE give the row another key?  A row without a key had another one. */
static bool
key_has_changed(TriggerData *data, const Terms *terms)
{
	for (int i = 0; i < terms->ncolumns; i++)
	{
		if (heap_attisnull(data->tg_trigtuple, terms->columns[i],
						   RelationGetDescr(data->tg_relation)))
			return true;
	}
	return strcmp(key_of(data, terms, data->tg_trigtuple),
				  key_of(data, terms, data->tg_newtuple)) != 0;
}

/* ----- arguments of the trigger ----- */

static void
read_terms(TriggerData *data, Terms *terms)
{
	Trigger    *trigger = data->tg_trigger;

	terms->columns = palloc(sizeof(AttrNumber) * Max(1, trigger->tgnargs));
	for (int i = 0; i < trigger->tgnargs; i++)
	{
		const char *arg = trigger->tgargs[i];

		if (strchr(arg, '=') != NULL)
		{
			if (!read_option(terms, arg))
				eo_trigger_refuse(data, psprintf("\"%s\" is no option of idem_guard().", arg), USAGE);
			continue;
		}
		terms->columns[terms->ncolumns] = eo_trigger_column(data, arg, "makes its key of");
		check_collation(data, terms->columns[terms->ncolumns++]);
	}
	if (terms->ncolumns == 0)
		eo_trigger_refuse(data, "No column is named to make the key of.", USAGE);
}

/*
 * Keys are compared byte by byte.  A unique index on the column would take other texts for
 * equal, too, and the guard must not promise what it does not do.
 */
static void
check_collation(const TriggerData *data, AttrNumber column)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(data->tg_relation), column - 1);

	if (!OidIsValid(att->attcollation) || get_collation_isdeterministic(att->attcollation))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("column \"%s\" of table \"%s\" cannot be guarded: its collation \"%s\" is nondeterministic",
					NameStr(att->attname), RelationGetRelationName(data->tg_relation),
					get_collation_name(att->attcollation)),
			 errdetail("Different texts that are equal by the collation would be different keys."),
			 errhint("Guard a generated column that has the text in one form, such as lower(%s COLLATE \"C\").",
					 quote_identifier(NameStr(att->attname)))));
}

static bool
read_option(Terms *terms, const char *arg)
{
	const char *value;

	if (option_is(arg, "prefix", &value))
		terms->prefix = value;
	else if (option_is(arg, "server", &value))
		terms->server = value;
	else if (option_is(arg, "retention", &value))
		terms->retention_s = eo_arg_parse_retention(value);
	else if (option_is(arg, "on_duplicate", &value) &&
			 (strcmp(value, "error") == 0 || strcmp(value, "skip") == 0))
		terms->skip = strcmp(value, "skip") == 0;
	else if (option_is(arg, "at", &value) &&
			 (strcmp(value, "now") == 0 || strcmp(value, "commit") == 0))
		terms->at_commit = strcmp(value, "commit") == 0;
	else
		return false;
	return true;
}

static bool
option_is(const char *arg, const char *name, const char **value)
{
	size_t		len = strlen(name);

	if (strncmp(arg, name, len) != 0 || arg[len] != '=')
		return false;
	*value = arg + len + 1;
	return true;
}

static void
check_firing(TriggerData *data, const Terms *terms)
{
	bool		by_update = TRIGGER_FIRED_BY_UPDATE(data->tg_event);

	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		!(by_update || TRIGGER_FIRED_BY_INSERT(data->tg_event)))
		eo_trigger_refuse(data, "It must be fired by INSERT or UPDATE, for each row.", USAGE);
	if (by_update && terms->skip)
		eo_trigger_refuse(data, "A row that is updated cannot be skipped.", USAGE);
	if (!terms->skip && !TRIGGER_FIRED_AFTER(data->tg_event))
		eo_trigger_refuse(data, "It must be fired AFTER INSERT: before it, a row may still be left out or changed.", USAGE);
	if (!terms->skip)
		return;
	if (!TRIGGER_FIRED_BEFORE(data->tg_event))
		eo_trigger_refuse(data, "A row can only be skipped BEFORE INSERT.", USAGE);
	if (terms->at_commit)
		eo_trigger_refuse(data, "A row cannot be skipped at commit any more.", USAGE);
	if (data->tg_relation->rd_rel->relispartition)
		eo_trigger_refuse(data, "A partition cannot skip rows: one that an UPDATE moves into it would be lost.", USAGE);
	for (int i = 0; i < terms->ncolumns; i++)
	{
		if (TupleDescAttr(RelationGetDescr(data->tg_relation), terms->columns[i] - 1)->attgenerated)
			eo_trigger_refuse(data, "A generated column has no value yet BEFORE INSERT.", USAGE);
	}
}

/* ----- the key ----- */

/*
 * A single column of text, uuid or an integer type is the key by itself, so that
 * other services need no digest for it; everything else becomes a key as
 * idem_key() makes it.
 */
static char *
key_of(TriggerData *data, const Terms *terms, HeapTuple row)
{
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	StringInfoData parts;

	initStringInfo(&parts);
	for (int i = 0; i < terms->ncolumns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, terms->columns[i] - 1);
		Oid			type = getBaseType(att->atttypid);
		bool		isnull;
		Datum		value = heap_getattr(row, terms->columns[i], desc, &isnull);

		if (eo_key_form_is_null(att->atttypid, value, isnull))
			eo_trigger_refuse_null(data, terms->columns[i], "Rows that need no guard are for the trigger's WHEN condition.");
		if (terms->ncolumns == 1 && is_key_by_itself(type))
		{
			Oid			output;
			bool		varlena;

			getTypeOutputInfo(type, &output, &varlena);
			return eo_arg_check_key(psprintf("%s%s", terms->prefix,
											 OidOutputFunctionCall(output, value)));
		}
		eo_key_form_append(&parts, att->atttypid, value, false);
	}
	return psprintf("%s%s", terms->prefix, eo_key_form_digest(&parts));
}

static bool
is_key_by_itself(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == UUIDOID ||
		type == INT2OID || type == INT4OID || type == INT8OID;
}

/* ----- claiming ----- */

/* Allocated for the transaction, because the seal may need it for its error. */
static EoGuard *
name_of(TriggerData *data)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	EoGuard    *guard = palloc(sizeof(EoGuard));

	guard->schema = get_namespace_name(RelationGetNamespace(data->tg_relation));
	guard->table = pstrdup(RelationGetRelationName(data->tg_relation));
	guard->name = pstrdup(data->tg_trigger->tgname);
	MemoryContextSwitchTo(old);
	return guard;
}

/* Claim and complete the key.  False: the row is a duplicate to be left out. */
static bool
claim_now(EoStore *store, const char *key, TriggerData *data, const Terms *terms)
{
	EoAcquire	ask = {
		.key = key,
		.lease_ms = -1,
		.retention_s = terms->retention_s,
		.settled_within = true
	};
	EoClaim		claim;
	EoKey		k;

	/*
	 * Look for a claim of this transaction before making one.  A key that is
	 * in progress is a duplicate only if this transaction holds it; a claim
	 * that the session has kept from before is another run.
	 */
	eo_key_find(&k, store, key, NULL);
	eo_acquire(store, &ask, &claim);
	eo_call_stats_claim(&claim);
	if (claim.outcome == EO_CLAIM_ACQUIRED)
	{
		eo_owner_complete(store, key, NULL, NULL, false, NULL);
		return true;
	}
	if (claim.outcome == EO_CLAIM_COMPLETED ||
		(claim.outcome == EO_CLAIM_IN_PROGRESS && k.held != NULL))
	{
		if (terms->skip)
			return false;
		eo_error_raise_duplicate(name_of(data), key, store->server->name,
								 k.held != NULL ? "This transaction holds it, or has completed it." :
								 "It is completed already.", NULL);
	}
	eo_acquire_raise(store, key, &claim);
}
