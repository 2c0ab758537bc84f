/*-------------------------------------------------------------------------
 *
 * mirror.c
 *	  idem_mirror(): a trigger that copies rows to a table of DynamoDB.
 *
 * A row is an item, whose attributes have the names of the columns.  The write is collected,
 * and handed in when the transaction commits (keys/deferred_writes.c).  So the item is written if
 * and only if the row is, and the writes to an item come in the order in which its row was
 * changed.
 *
 * The trigger is a part of the table, like idem_guard(): it uses the rights of the table's
 * owner on the server, and does not depend on settings of the session.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "common/shortest_dec.h"
#include "compat.h"
#include "keys/deferred_writes.h"
#include "keys/writes.h"
#include "lib/stringinfo.h"
#include "nodes/bitmapset.h"
#include "records/attribute.h"
#include "server/store.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/trigger.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

EO_COUNTED(eo_idem_mirror, EO_FN_IDEM_MIRROR);

/* How the trigger is created. */
#define USAGE "CREATE TRIGGER ... AFTER INSERT OR UPDATE OR DELETE ON ... FOR EACH ROW EXECUTE FUNCTION idem_mirror('table', 'key column, ...', 'column, ...', 'server=...')."

/* The arguments that the trigger was created with. */
typedef struct Terms
{
	const char *table;			/* of DynamoDB */
	const char *server;
	Bitmapset  *keys;
	Bitmapset  *columns;		/* those of the key included */
} Terms;

static void read_terms(TriggerData *data, Terms *terms);
static Form_pg_attribute attribute_of(const TriggerData *data, AttrNumber column);
static Bitmapset *read_columns(TriggerData *data, const char *list);
static void check_key(TriggerData *data, const Terms *terms, const EoTableKeys *keys);
static bool has_changed(TriggerData *data, const Bitmapset *columns);
static void read_write(EoStore *store, TriggerData *data, const Terms *terms, HeapTuple row,
					   bool deleted, EoWrites *writes);
static bool is_own(TriggerData *data, HeapTuple row);
static EoRowVersion version_of(TriggerData *data, HeapTuple row);
static void put_attribute(StringInfo out, Oid type, Datum value);
static char *text_of(Oid type, Datum value);
static void put_json(StringInfo out, Jsonb *document);

/* idem_mirror(table, key columns, [columns], [server=]) */
static Datum
eo_idem_mirror_body(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Terms		terms = {.server = "exactonce"};
	bool		inserted;
	bool		deleted;
	bool		own;
	EoStore    *store;
	EoWrites	put;
	EoWrites	leave;
	EoRowChange change = {0};
	HeapTuple	row;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("idem_mirror() was not called as a trigger"),
				 errhint("CREATE TRIGGER ... AFTER INSERT OR UPDATE OR DELETE ON ... FOR EACH ROW EXECUTE FUNCTION idem_mirror('table', 'key column');")));
	read_terms(data, &terms);
	inserted = TRIGGER_FIRED_BY_INSERT(data->tg_event);
	deleted = TRIGGER_FIRED_BY_DELETE(data->tg_event);
	row = inserted || deleted ? data->tg_trigtuple : data->tg_newtuple;
	own = !inserted && is_own(data, data->tg_trigtuple);

	/*
	 * Of the versions that this transaction makes all are told of, so that
	 * the last one is known.
	 */
	if (!inserted && !deleted && !own && !has_changed(data, terms.columns))
		return PointerGetDatum(row);
	eo_preconditions("idem_mirror", EO_WRITES | EO_SWITCHED);
	store = eo_trigger_open_store(data, terms.server);
	eo_preconditions_worker();
	if (!deleted)
	{
		read_write(store, data, &terms, row, false, &put);
		change.put = true;
		change.made = version_of(data, row);
	}
	change.own = own;
	if (!inserted)
		change.ended = version_of(data, data->tg_trigtuple);
	if (deleted || (!inserted && has_changed(data, terms.keys)))
		read_write(store, data, &terms, data->tg_trigtuple, true, &leave);
	else
		leave.n = 0;
	/* A row that gets another key leaves its item. */
	if (leave.n > 0 && !deleted && strcmp(leave.list[0].item, put.list[0].item) == 0)
		leave.n = 0;
	check_key(data, &terms, eo_writes_table_keys(store, terms.table));
	if (leave.n > 0)
	{
		EoRowChange left = change;

		left.put = false;
		left.ends = true;
		eo_deferred_writes_at_commit(store, &leave, &left);
	}
	change.ends = !inserted && leave.n == 0;
	if (!deleted)
		eo_deferred_writes_at_commit(store, &put, &change);
	return PointerGetDatum(row);
}

/* ----- arguments of the trigger ----- */

static void
read_terms(TriggerData *data, Terms *terms)
{
	Trigger    *trigger = data->tg_trigger;
	int			n = trigger->tgnargs;

	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event) || !TRIGGER_FIRED_AFTER(data->tg_event))
		eo_trigger_refuse(data, "It must be fired AFTER a change, for each row: before it, the row may still be left out or changed.", USAGE);
	if (n > 0 && strncmp(trigger->tgargs[n - 1], "server=", 7) == 0)
		terms->server = trigger->tgargs[--n] + 7;
	if (n < 2 || n > 3)
		eo_trigger_refuse(data, "Its arguments are a table of DynamoDB, the columns that make the key, and the columns that are copied; by default all are.", USAGE);
	terms->table = trigger->tgargs[0];
	terms->keys = read_columns(data, trigger->tgargs[1]);
	if (bms_is_empty(terms->keys) || bms_num_members(terms->keys) > 2)
		eo_trigger_refuse(data, "The key of an item has one attribute or two.", USAGE);
	terms->columns = bms_union(read_columns(data, n == 3 ? trigger->tgargs[2] : "*"), terms->keys);
}

/* A trigger is not told the values of columns that are computed when they are read. */
static void
check_stored(TriggerData *data, const Bitmapset *columns)
{
	for (int c = -1; (c = bms_next_member(columns, c)) >= 0;)
	{
		Form_pg_attribute att = attribute_of(data, c);

		if (eo_compat_is_virtual(att))
			eo_trigger_refuse(data, psprintf("Column \"%s\" is generated and not stored, so it cannot be copied; name the columns that are.",
											 NameStr(att->attname)), USAGE);
	}
}

static Form_pg_attribute
attribute_of(const TriggerData *data, AttrNumber column)
{
	return TupleDescAttr(RelationGetDescr(data->tg_relation), column - 1);
}

/* Read names with commas between them; "*" stands for all columns. */
static Bitmapset *
read_columns(TriggerData *data, const char *list)
{
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	bool		all = strcmp(list, "*") == 0;
	char	   *rest = pstrdup(list);
	char	   *name;
	Bitmapset  *columns = NULL;

	for (int i = 0; all && i < desc->natts; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			columns = bms_add_member(columns, i + 1);
	}
	while (!all && (name = strsep(&rest, ",")) != NULL)
	{
		name += strspn(name, " ");
		for (size_t len = strlen(name); len > 0 && name[len - 1] == ' '; len--)
			name[len - 1] = '\0';
		columns = bms_add_member(columns, eo_trigger_column(data, name, "copies"));
	}
	check_stored(data, columns);
	return columns;
}

/* Are the columns that make the key those of the table's key? */
static void
check_key(TriggerData *data, const Terms *terms, const EoTableKeys *keys)
{
	int			found = 0;

	for (int c = -1; (c = bms_next_member(terms->keys, c)) >= 0;)
	{
		for (int i = 0; i < keys->n; i++)
			found += namestrcmp(&attribute_of(data, c)->attname, keys->names[i]) == 0;
	}
	if (bms_num_members(terms->keys) != keys->n || found != keys->n)
		eo_trigger_refuse(data, keys->n == 1 ?
						  psprintf("The key of table \"%s\" is \"%s\".", terms->table, keys->names[0]) :
						  psprintf("The key of table \"%s\" is \"%s\" and \"%s\".", terms->table,
								   keys->names[0], keys->names[1]), USAGE);
}

/* ----- the row ----- */

/* Has an UPDATE changed one of these columns? */
static bool
has_changed(TriggerData *data, const Bitmapset *columns)
{
	TupleDesc	desc = RelationGetDescr(data->tg_relation);

	for (int c = -1; (c = bms_next_member(columns, c)) >= 0;)
	{
		Form_pg_attribute att = attribute_of(data, c);
		bool		was_null;
		bool		is_null;
		Datum		was = heap_getattr(data->tg_trigtuple, c, desc, &was_null);
		Datum		is = heap_getattr(data->tg_newtuple, c, desc, &is_null);

		if (was_null != is_null ||
			(!is_null && !datum_image_eq(was, is, att->attbyval, att->attlen)))
			return true;
	}
	return false;
}

/* Read the write of a row: of its item, or if it is deleted of the key. */
static void
read_write(EoStore *store, TriggerData *data, const Terms *terms, HeapTuple row, bool deleted,
		   EoWrites *writes)
{
	const Bitmapset *columns = deleted ? terms->keys : terms->columns;
	const char *comma = "";
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "[{\"%s\": {\"TableName\": ", deleted ? "Delete" : "Put");
	escape_json(&out, terms->table);
	appendStringInfo(&out, ", \"%s\": {", deleted ? "Key" : "Item");
	for (int c = -1; (c = bms_next_member(columns, c)) >= 0;)
	{
		Form_pg_attribute att = attribute_of(data, c);
		bool		isnull;
		Datum		value = heap_getattr(row, c, RelationGetDescr(data->tg_relation), &isnull);

		if (isnull && bms_is_member(c, terms->keys))
			eo_trigger_refuse_null(data, c, "Rows that are not to be copied are for the trigger's WHEN condition.");
		if (isnull)
			continue;
		appendStringInfoString(&out, comma);
		escape_json(&out, NameStr(att->attname));
		appendStringInfoString(&out, ": ");
		put_attribute(&out, getBaseType(att->atttypid), value);
		comma = ", ";
	}
	appendStringInfoString(&out, "}}}]");
	eo_writes_read(store, "idem_mirror()",
				   DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(out.data))),
				   writes);
}

/* Rows of other table access methods, and of foreign tables, have no versions to name. */
static bool
has_versions(TriggerData *data)
{
	return data->tg_relation->rd_tableam == GetHeapamTableAmRoutine();
}

/* Was this version made by the transaction? */
static bool
is_own(TriggerData *data, HeapTuple row)
{
	return !has_versions(data) ||
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data));
}

static EoRowVersion
version_of(TriggerData *data, HeapTuple row)
{
	EoRowVersion version = {0};

	if (!has_versions(data))
		return version;
	version.storage = data->tg_relation->rd_rel->relfilenode;
	version.tid = row->t_self;
	return version;
}

static void
put_typed(StringInfo out, const char *type, const char *text)
{
	appendStringInfo(out, "{\"%s\": ", type);
	escape_json(out, text);
	appendStringInfoChar(out, '}');
}

/* DynamoDB has no numbers that are not finite: they are texts. */
static void
put_number(StringInfo out, const char *text)
{
	bool		finite = strspn(text, "+-.0123456789eE") == strlen(text);

	if (finite && !eo_attribute_is_number(text, strlen(text)))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("number %s cannot be copied to DynamoDB", text),
				 errdetail("DynamoDB has numbers of up to %d digits, between 1E-130 and 9.99E+125.",
						   EO_ATTRIBUTE_MAX_DIGITS),
				 errhint("Leave the column out, or round it.")));
	put_typed(out, finite ? "N" : "S", text);
}

/* Without the line breaks that PostgreSQL adds. */
static char *
base64_of(Datum bytes)
{
	char	   *encoded = TextDatumGetCString(DirectFunctionCall2(binary_encode, bytes,
																  CStringGetTextDatum("base64")));
	char	   *to = encoded;

	for (const char *from = encoded; *from != '\0'; from++)
	{
		if (*from != '\n')
			*to++ = *from;
	}
	*to = '\0';
	return encoded;
}

/* Append a value in typed form. */
static void
put_attribute(StringInfo out, Oid type, Datum value)
{
	char		spelled[MAXDATELEN + 1];
	int			utc = 0;

	switch (type)
	{
		case BOOLOID:
			appendStringInfo(out, "{\"BOOL\": %s}", DatumGetBool(value) ? "true" : "false");
			return;
		case FLOAT4OID:
			float_to_shortest_decimal_buf(DatumGetFloat4(value), spelled);
			put_number(out, spelled);
			return;
		case FLOAT8OID:
			double_to_shortest_decimal_buf(DatumGetFloat8(value), spelled);
			put_number(out, spelled);
			return;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			JsonEncodeDateTime(spelled, value, type, &utc);
			put_typed(out, "S", spelled);
			return;
		case BYTEAOID:
			put_typed(out, "B", base64_of(value));
			return;
		case JSONOID:
			value = DirectFunctionCall1(jsonb_in,
										CStringGetDatum(TextDatumGetCString(value)));
			/* FALLTHROUGH */
		case JSONBOID:
			put_json(out, DatumGetJsonbP(value));
			return;
		default:
			break;
	}
	if (type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID)
		put_number(out, text_of(type, value));
	else
		put_typed(out, "S", text_of(type, value));
}

/* Is the text of a value of this type the same under all settings? */
static bool
has_fixed_text(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == BPCHAROID || type == UUIDOID ||
		type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID ||
		type_is_enum(type);
}

/* The text of a value, which must not depend on the settings of the session. */
static char *
text_of(Oid type, Datum value)
{
	static const char *const settings[][2] = {
		{"bytea_output", "hex"}, {"datestyle", "ISO, MDY"}, {"extra_float_digits", "1"},
		{"intervalstyle", "postgres"}, {"lc_monetary", "C"}, {"quote_all_identifiers", "off"},
		{"search_path", "pg_catalog"}, {"timezone", "UTC"}
	};
	Oid			output;
	bool		varlena;
	char	   *text;
	int			level;

	getTypeOutputInfo(type, &output, &varlena);
	if (has_fixed_text(type))
		return OidOutputFunctionCall(output, value);
	/* After an error the abort of the (sub)transaction restores the settings. */
	level = NewGUCNestLevel();
	for (int i = 0; i < (int) lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	text = OidOutputFunctionCall(output, value);
	AtEOXact_GUC(true, level);
	return text;
}

static void
put_scalar(StringInfo out, const JsonbValue *v)
{
	if (v->type == jbvNull)
		appendStringInfoString(out, "null");
	else if (v->type == jbvBool)
		appendStringInfoString(out, v->val.boolean ? "true" : "false");
	else if (v->type == jbvNumeric)
		put_number(out, DatumGetCString(DirectFunctionCall1(numeric_out,
															NumericGetDatum(v->val.numeric))));
	else
		escape_json(out, pnstrdup(v->val.string.val, v->val.string.len));
}

/* Every object is written as a map, so that none passes for a value in typed form. */
static void
put_json(StringInfo out, Jsonb *document)
{
	JsonbIterator *it = JsonbIteratorInit(&document->root);
	JsonbIteratorToken token;
	JsonbValue	v;
	const char *between = "";

	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		bool		begins = token == WJB_BEGIN_ARRAY || token == WJB_BEGIN_OBJECT;
		bool		ends = token == WJB_END_ARRAY || token == WJB_END_OBJECT;

		/* jsonb keeps a scalar as the element of an array. */
		if ((begins || ends) && JB_ROOT_IS_SCALAR(document))
			continue;
		if (!ends)
			appendStringInfoString(out, between);
		if (begins)
			appendStringInfoString(out, token == WJB_BEGIN_OBJECT ? "{\"M\": {" : "{\"L\": [");
		else if (ends)
			appendStringInfoString(out, token == WJB_END_OBJECT ? "}}" : "]}");
		else
			put_scalar(out, &v);
		between = begins ? "" : token == WJB_KEY ? ": " : ", ";
	}
}
