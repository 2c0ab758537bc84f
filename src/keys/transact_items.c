/*-------------------------------------------------------------------------
 *
 * transact_items.c
 *	  The caller's writes of idem_transact(): read, checked, and written in
 *	  DynamoDB's own JSON.
 *
 * An action is {"Put": {...}}, {"Update": {...}}, {"Delete": {...}} or
 * {"ConditionCheck": {...}}, with the members that DynamoDB defines (members[]).
 * Any other name is an error.  Otherwise a misspelled "ConditionExpression" would be
 * a write without a condition.
 *
 * An attribute value may be plain JSON or in DynamoDB's typed form, and the two may
 * be mixed at any depth.  A value is in typed form if it is an object with exactly
 * one member, whose name is that of a type and whose value is of the JSON kind which
 * that type has (put_typed()).  Everything else is plain.  So each value that
 * DynamoDB accepts means what it means there.  A plain map that looks like typed form
 * must be written as {"M": {...}}.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "keys/transact_items.h"
#include "keys/write_expressions.h"
#include "lib/stringinfo.h"
#include "records/attribute.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/numeric.h"
#include "wire/call.h"

/* A bound for the recursion: typed scalars are a level more than DynamoDB counts. */
#define MAX_DEPTH 40

/* Operations, as bits. */
#define PUT 1
#define UPDATE 2
#define DELETE 4
#define CHECK 8
#define ALL (PUT | UPDATE | DELETE | CHECK)

static const struct
{
	const char *name;
	int			bit;
}			operations[] =
{
	{"Put", PUT},
	{"Update", UPDATE},
	{"Delete", DELETE},
	{"ConditionCheck", CHECK},
};

typedef enum Kind
{
	KIND_STRING,
	KIND_NAMES,					/* an object of strings */
	KIND_VALUES,				/* an object of attribute values */
	KIND_RETURNS				/* "NONE" or "ALL_OLD" */
} Kind;

static const struct
{
	const char *name;
	Kind		kind;
	int			allowed;		/* in these operations */
	int			required;		/* in these operations */
}			members[] =
{
	{"TableName", KIND_STRING, ALL, ALL},
	{"Item", KIND_VALUES, PUT, PUT},
	{"Key", KIND_VALUES, UPDATE | DELETE | CHECK, UPDATE | DELETE | CHECK},
	{"UpdateExpression", KIND_STRING, UPDATE, UPDATE},
	{"ConditionExpression", KIND_STRING, ALL, CHECK},
	{"ExpressionAttributeNames", KIND_NAMES, ALL, 0},
	{"ExpressionAttributeValues", KIND_VALUES, ALL, 0},

	/*
	 * Accepted, but not sent: nobody would see the items that it asks for,
	 * and they might be too large for the reply.
	 */
	{"ReturnValuesOnConditionCheckFailure", KIND_RETURNS, ALL, 0},
};

static const struct
{
	const char *name;
	enum jbvType kind;			/* the JSON kind of the member's value */
	bool		set;			/* an array of strings only */
}			types[] =
{
	{"S", jbvString, false},
	{"N", jbvString, false},
	{"B", jbvString, false},
	{"BOOL", jbvBool, false},
	{"NULL", jbvBool, false},
	{"SS", jbvArray, true},
	{"NS", jbvArray, true},
	{"BS", jbvArray, true},
	{"L", jbvArray, false},
	{"M", jbvObject, false},
};

/* The text that is being written, and the position in the document. */
typedef struct Writing
{
	StringInfoData out;
	int			position;		/* of the action, from 1 */
	int			depth;			/* of the value in its attribute */
	size_t		size;			/* of names and values so far */
	EoWriteExpressions expressions; /* of the action */
} Writing;

/* Writes the value of a member of an object, or an element of an array. */
typedef void (*PutElement) (Writing *w, JsonbValue *v);

static void read_action(Writing *w, JsonbValue *v, EoTransactItem *action);
static void put_member(Writing *w, int member, JsonbValue *v, EoTransactItem *action);
static void check_required(const Writing *w, int bit, int seen);
static bool is_object(const JsonbValue *v);
static bool only_member(const JsonbValue *v, JsonbValue *name, JsonbValue *value);
static const char *type_of(const JsonbValue *v);
static void put_string(Writing *w, JsonbValue *v);
static void put_name(Writing *w, JsonbValue *v);
static void put_value(Writing *w, JsonbValue *v);
static void put_object(Writing *w, JsonbContainer *c, PutElement put);
static bool put_typed(Writing *w, JsonbValue *v);
pg_noreturn static void refuse(const Writing *w, const char *detail, const char *hint);

void
eo_transact_items_read(Jsonb *writes, EoTransactItems *actions)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	EoTransactItem *action;
	Writing		w = {0};

	memset(actions, 0, sizeof(*actions));
	if (!JB_ROOT_IS_ARRAY(writes) || JB_ROOT_IS_SCALAR(writes) || JB_ROOT_COUNT(writes) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("writes must be an array of one action or more"),
				 errhint("For example: [{\"Put\": {\"TableName\": \"orders\", \"Item\": {\"id\": \"7\"}}}]. Without writes, idem_once() completes a key.")));
	if (JB_ROOT_COUNT(writes) > EO_MAX_ACTIONS - 1)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many writes for one transaction of DynamoDB"),
				 errdetail("There are %d; beside the key's record there is room for %d.",
						   (int) JB_ROOT_COUNT(writes), EO_MAX_ACTIONS - 1)));
	actions->actions = palloc0(sizeof(EoTransactItem) * JB_ROOT_COUNT(writes));
	initStringInfo(&w.out);
	it = JsonbIteratorInit(&writes->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (actions->n > 0)
			appendStringInfoChar(&w.out, ',');
		w.position = ++actions->n;
		w.size = 0;
		memset(&w.expressions, 0, sizeof(w.expressions));
		action = &actions->actions[actions->n - 1];
		action->start = w.out.len;
		read_action(&w, &v, action);
		action->len = w.out.len - action->start;
		action->size = w.size;
	}
	actions->source = w.out.data;
	actions->text = eo_text_to_utf8(w.out.data);
}

char *
eo_transact_item_key_string(const EoTransactItem *action, const char *name)
{
	JsonbValue	v;
	JsonbValue	type;
	JsonbValue	value;

	if (getKeyJsonValueFromContainer(action->key, name, (int) strlen(name), &v) == NULL)
		return NULL;
	if (v.type == jbvString)
		value = v;
	else if (!only_member(&v, &type, &value) || value.type != jbvString ||
			 type.val.string.len != 1 || type.val.string.val[0] != 'S')
		return NULL;
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* Raise 22023 for the action at this position.  hint may be NULL. */
static void
refuse(const Writing *w, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("write %d is not one that DynamoDB knows", w->position),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static bool
is_name(const JsonbValue *v, const char *name)
{
	return v->val.string.len == (int) strlen(name) &&
		memcmp(v->val.string.val, name, v->val.string.len) == 0;
}

static void
read_action(Writing *w, JsonbValue *v, EoTransactItem *action)
{
	static const char *const form = "A write is {\"Put\": {...}}, {\"Update\": {...}}, {\"Delete\": {...}} or {\"ConditionCheck\": {...}}.";
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	name;
	JsonbValue	body;
	int			bit = 0;
	int			seen = 0;
	int			member = 0;
	const char *why;

	if (!only_member(v, &name, &body) || !is_object(&body))
		refuse(w, "It is not an object with one member, whose value is an object.", form);
	for (int i = 0; i < (int) lengthof(operations); i++)
	{
		if (!is_name(&name, operations[i].name))
			continue;
		action->operation = operations[i].name;
		bit = operations[i].bit;
	}
	if (bit == 0)
		refuse(w, psprintf("There is no operation \"%.*s\".", name.val.string.len,
						   name.val.string.val), form);
	action->writes = bit != CHECK;
	action->conditional = bit == CHECK;
	appendStringInfo(&w->out, "{\"%s\":{", action->operation);
	it = JsonbIteratorInit(body.val.binary.data);
	while ((token = JsonbIteratorNext(&it, &body, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			for (member = 0; member < (int) lengthof(members); member++)
			{
				if ((members[member].allowed & bit) != 0 && is_name(&body, members[member].name))
					break;
			}
			if (member == (int) lengthof(members))
				refuse(w, psprintf("%s has no member \"%.*s\".", action->operation,
								   body.val.string.len, body.val.string.val),
					   "The names are DynamoDB's, in its spelling.");
			seen |= 1 << member;
		}
		else if (token == WJB_VALUE)
			put_member(w, member, &body, action);
	}
	check_required(w, bit, seen);
	why = eo_write_expressions_check(&w->expressions);
	if (why != NULL)
		refuse(w, why, NULL);
	appendStringInfoString(&w->out, "}}");
}

/* Check that the members which the operation requires were seen. */
static void
check_required(const Writing *w, int bit, int seen)
{
	for (int i = 0; i < (int) lengthof(members); i++)
	{
		if ((members[i].required & bit) != 0 && (seen & (1 << i)) == 0)
			refuse(w, psprintf("It has no %s.", members[i].name), NULL);
	}
}

/* Note the placeholders that a member of an action defines. */
static void
note_placeholders(Writing *w, JsonbContainer *c)
{
	JsonbIterator *it = JsonbIteratorInit(c);
	JsonbIteratorToken token;
	EoPlaceholder *p = NULL;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			p = palloc0(sizeof(EoPlaceholder));
			p->name = pnstrdup(v.val.string.val, v.val.string.len);
			w->expressions.placeholders = lappend(w->expressions.placeholders, p);
		}
		else if (token == WJB_VALUE)
			p->stands_for = p->name[0] == ':' ? type_of(&v) :
				v.type == jbvString ? pnstrdup(v.val.string.val, v.val.string.len) : "";
	}
}

/* Note the attributes of a Key, and check what each has to be in any table. */
static void
note_key(Writing *w, JsonbContainer *c)
{
	JsonbIterator *it = JsonbIteratorInit(c);
	JsonbIteratorToken token;
	char	   *name = NULL;
	JsonbValue	v;
	JsonbValue	type;
	JsonbValue	value;

	if (JsonContainerSize(c) > 2)
		refuse(w, "Its Key has more than two attributes.", NULL);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			name = pnstrdup(v.val.string.val, v.val.string.len);
			w->expressions.keys = lappend(w->expressions.keys, name);
		}
		if (token != WJB_VALUE)
			continue;
		if (strlen(type_of(&v)) != 1 || strchr("SNB", *type_of(&v)) == NULL)
			refuse(w, psprintf("Attribute \"%s\" is a part of the key, and must be a string, a number or binary.",
							   name), NULL);
		value = v;
		if (v.type == jbvString || only_member(&v, &type, &value))
		{
			if (value.val.string.len == 0)
				refuse(w, psprintf("Attribute \"%s\" is a part of the key, and must not be empty.",
								   name), NULL);
		}
	}
}

/* Write a member of an action; note its table and key. */
static void
put_member(Writing *w, int member, JsonbValue *v, EoTransactItem *action)
{
	const char *name = members[member].name;
	Kind		kind = members[member].kind;

	if (kind == KIND_STRING || kind == KIND_RETURNS ? v->type != jbvString :
		!is_object(v) || JsonContainerSize(v->val.binary.data) == 0)
		refuse(w, psprintf(kind == KIND_STRING || kind == KIND_RETURNS ?
						   "%s is not a string." : "%s is not an object with a member.", name), NULL);
	if (kind == KIND_RETURNS)
	{
		if (!is_name(v, "NONE") && !is_name(v, "ALL_OLD"))
			refuse(w, psprintf("%s is neither NONE nor ALL_OLD.", name), NULL);
		return;
	}
	if (w->out.data[w->out.len - 1] != '{')
		appendStringInfoChar(&w->out, ',');
	appendStringInfo(&w->out, "\"%s\":", name);
	switch (kind)
	{
		case KIND_STRING:
			put_string(w, v);
			if (strcmp(name, "TableName") == 0)
				action->table = pnstrdup(v->val.string.val, v->val.string.len);
			action->conditional |= strcmp(name, "ConditionExpression") == 0;
			if (strcmp(name, "ConditionExpression") == 0)
				w->expressions.condition = pnstrdup(v->val.string.val, v->val.string.len);
			if (strcmp(name, "UpdateExpression") == 0)
				w->expressions.update = pnstrdup(v->val.string.val, v->val.string.len);
			break;
		case KIND_NAMES:
			put_object(w, v->val.binary.data, put_name);
			note_placeholders(w, v->val.binary.data);
			break;
		case KIND_VALUES:
			put_object(w, v->val.binary.data, put_value);
			if (strcmp(name, "Item") == 0 || strcmp(name, "Key") == 0)
				action->key = v->val.binary.data;
			if (strcmp(name, "Key") == 0)
				note_key(w, v->val.binary.data);
			if (strcmp(name, "ExpressionAttributeValues") == 0)
				note_placeholders(w, v->val.binary.data);
			break;
		case KIND_RETURNS:
			break;
	}
}

/* ----- values ----- */

static bool
is_object(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data);
}

static bool
is_array(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsArray(v->val.binary.data);
}

/* Is this an object with exactly one member?  Returns its name and value. */
static bool
only_member(const JsonbValue *v, JsonbValue *name, JsonbValue *value)
{
	JsonbIterator *it;

	if (!is_object(v) || JsonContainerSize(v->val.binary.data) != 1)
		return false;
	it = JsonbIteratorInit(v->val.binary.data);
	(void) JsonbIteratorNext(&it, name, true);
	(void) JsonbIteratorNext(&it, name, true);
	(void) JsonbIteratorNext(&it, value, true);
	return true;
}

static void
put_string(Writing *w, JsonbValue *v)
{
	char	   *s = pnstrdup(v->val.string.val, v->val.string.len);

	escape_json(&w->out, s);
	pfree(s);
}

/* As long as DynamoDB counts it. */
static size_t
utf8_len(const JsonbValue *v)
{
	size_t		len = v->val.string.len;

	(void) eo_text_bytes_to_utf8(pnstrdup(v->val.string.val, len), &len);
	return len;
}

/* A number, or the base64 of binary data, in typed form: DynamoDB refuses others. */
static void
check_scalar(const Writing *w, char type, const JsonbValue *v)
{
	size_t		len = v->val.string.len;
	const char *s = pnstrdup(v->val.string.val, len);

	if (type == 'N' && !eo_attribute_is_number(s, len))
		refuse(w, psprintf("\"%s\" is no number of DynamoDB.", s),
			   "They have up to 38 digits, and are between 1E-130 and 9.99E+125.");
	if (type == 'B' && eo_attribute_base64_len(s, len) < 0)
		refuse(w, psprintf("\"%s\" is not base64.", s), NULL);
}

/* A set's element.  As text a number or binary data is longer than what is counted. */
static void
put_sized(Writing *w, JsonbValue *v)
{
	put_string(w, v);
	w->size += utf8_len(v);
}

static void
put_sized_number(Writing *w, JsonbValue *v)
{
	check_scalar(w, 'N', v);
	put_sized(w, v);
}

static void
put_sized_binary(Writing *w, JsonbValue *v)
{
	check_scalar(w, 'B', v);
	put_sized(w, v);
}

static void
put_name(Writing *w, JsonbValue *v)
{
	if (v->type != jbvString)
		refuse(w, "ExpressionAttributeNames has a value that is not a string.", NULL);
	put_string(w, v);
}

static void
put_object(Writing *w, JsonbContainer *c, PutElement put)
{
	JsonbIterator *it = JsonbIteratorInit(c);
	JsonbIteratorToken token;
	JsonbValue	v;
	const char *comma = "";

	appendStringInfoChar(&w->out, '{');
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			appendStringInfoString(&w->out, comma);
			put_string(w, &v);
			if (v.val.string.len == 0)
				refuse(w, "A member has no name.", NULL);
			w->size += utf8_len(&v) + 1;
			appendStringInfoChar(&w->out, ':');
			comma = ",";
		}
		else if (token == WJB_VALUE)
			put(w, &v);
	}
	appendStringInfoChar(&w->out, '}');
}

static void
put_array(Writing *w, JsonbContainer *c, PutElement put)
{
	JsonbIterator *it = JsonbIteratorInit(c);
	JsonbIteratorToken token;
	JsonbValue	v;
	const char *comma = "";

	appendStringInfoChar(&w->out, '[');
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		appendStringInfoString(&w->out, comma);
		w->size++;
		put(w, &v);
		comma = ",";
	}
	appendStringInfoChar(&w->out, ']');
}

static void
refuse_depth(const Writing *w)
{
	refuse(w, psprintf("A value is nested more than %d levels deep.", EO_ATTRIBUTE_MAX_DEPTH),
		   NULL);
}

/* Write an attribute value in typed form. */
static void
put_value(Writing *w, JsonbValue *v)
{
	Datum		number;

	switch (v->type)
	{
		case jbvNull:
			appendStringInfoString(&w->out, "{\"NULL\":true}");
			w->size++;
			return;
		case jbvBool:
			appendStringInfo(&w->out, "{\"BOOL\":%s}", v->val.boolean ? "true" : "false");
			w->size++;
			return;
		case jbvNumeric:
			number = DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric));
			if (!eo_attribute_is_number(DatumGetCString(number),
										strlen(DatumGetCString(number))))
				refuse(w, psprintf("%s is no number of DynamoDB.", DatumGetCString(number)),
					   "They have up to 38 digits, and are between 1E-130 and 9.99E+125.");
			appendStringInfo(&w->out, "{\"N\":\"%s\"}", DatumGetCString(number));
			w->size += (strlen(DatumGetCString(number)) + 1) / 2 + 1;
			return;
		case jbvString:
			appendStringInfoString(&w->out, "{\"S\":");
			put_string(w, v);
			w->size += utf8_len(v);
			break;
		default:
			/* For the recursion; a scalar in typed form is no level. */
			if (++w->depth > MAX_DEPTH)
				refuse_depth(w);
			if (!put_typed(w, v))
			{
				if (w->depth > EO_ATTRIBUTE_MAX_DEPTH)
					refuse_depth(w);
				appendStringInfo(&w->out, "{\"%s\":", is_array(v) ? "L" : "M");
				w->size += 3;
				if (is_array(v))
					put_array(w, v->val.binary.data, put_value);
				else
					put_object(w, v->val.binary.data, put_value);
				appendStringInfoChar(&w->out, '}');
			}
			w->depth--;
			return;
	}
	appendStringInfoChar(&w->out, '}');
}

static bool
is_array_of_strings(const JsonbValue *v)
{
	JsonbContainer *c = v->val.binary.data;

	if (!is_array(v))
		return false;
	for (uint32 i = 0; i < JsonContainerSize(c); i++)
	{
		if (getIthJsonbValueFromContainer(c, i)->type != jbvString)
			return false;
	}
	return true;
}

/* The index in types[] of a value in typed form, and what is in it; -1: it is plain. */
static int
find_type(const JsonbValue *v, JsonbValue *value)
{
	JsonbValue	name;
	int			t = 0;

	if (!only_member(v, &name, value))
		return -1;
	while (t < (int) lengthof(types) && !is_name(&name, types[t].name))
		t++;
	if (t == (int) lengthof(types))
		return -1;
	if (types[t].set ? !is_array_of_strings(value) :
		types[t].kind == jbvArray ? !is_array(value) :
		types[t].kind == jbvObject ? !is_object(value) :
		value->type != types[t].kind)
		return -1;
	return t;
}

/* The type of a value, plain or in typed form. */
static const char *
type_of(const JsonbValue *v)
{
	JsonbValue	value;
	int			t = find_type(v, &value);

	if (t >= 0)
		return types[t].name;
	switch (v->type)
	{
		case jbvNull:
			return "NULL";
		case jbvBool:
			return "BOOL";
		case jbvNumeric:
			return "N";
		case jbvString:
			return "S";
		default:
			return is_array(v) ? "L" : "M";
	}
}

/* An element of a set as it is compared with the others: numbers and bytes by their value. */
static char *
canonical_element(char type, const JsonbValue *v)
{
	char	   *text = pnstrdup(v->val.string.val, v->val.string.len);

	if (type == 'N')
		return numeric_normalize(DatumGetNumeric(DirectFunctionCall3(numeric_in,
																	 CStringGetDatum(text),
																	 ObjectIdGetDatum(InvalidOid),
																	 Int32GetDatum(-1))));
	if (type == 'B')
		return DatumGetCString(DirectFunctionCall1(byteaout,
												   DirectFunctionCall2(binary_decode,
																	   CStringGetTextDatum(text),
																	   CStringGetTextDatum("base64"))));
	return text;
}

static int
compare_elements(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* A set must have an element, and none twice. */
static void
check_set(const Writing *w, const char *type, JsonbContainer *c)
{
	uint32		n = JsonContainerSize(c);
	char	  **elements = palloc(sizeof(char *) * Max(n, 1));

	if (n == 0)
		refuse(w, psprintf("A set of type %s is empty.", type), NULL);
	for (uint32 i = 0; i < n; i++)
		elements[i] = canonical_element(*type, getIthJsonbValueFromContainer(c, i));
	qsort(elements, n, sizeof(char *), compare_elements);
	for (uint32 i = 1; i < n; i++)
	{
		if (strcmp(elements[i - 1], elements[i]) == 0)
			refuse(w, psprintf("A set of type %s has the same element twice.", type),
				   *type == 'S' ? NULL : "Numbers are compared by their value, and binary data by its bytes.");
	}
}

/* Write a value in typed form.  Returns false, and writes nothing, if it is plain. */
static bool
put_typed(Writing *w, JsonbValue *v)
{
	JsonbValue	value;
	int			t = find_type(v, &value);

	if (t < 0)
		return false;
	if (types[t].kind == jbvBool && !value.val.boolean && strcmp(types[t].name, "NULL") == 0)
		refuse(w, "{\"NULL\": false} is no value.", "Leave the attribute out, or write null.");
	if (!types[t].set && (types[t].kind == jbvArray || types[t].kind == jbvObject) &&
		w->depth > EO_ATTRIBUTE_MAX_DEPTH)
		refuse_depth(w);
	if (types[t].kind == jbvString)
		check_scalar(w, types[t].name[0], &value);
	appendStringInfo(&w->out, "{\"%s\":", types[t].name);
	w->size += types[t].kind == jbvBool ? 1 : types[t].kind == jbvString ? 0 : 3;
	if (types[t].set)
	{
		put_array(w, value.val.binary.data, types[t].name[0] == 'N' ? put_sized_number :
				  types[t].name[0] == 'B' ? put_sized_binary : put_sized);
		check_set(w, types[t].name, value.val.binary.data);
	}
	else if (types[t].kind == jbvArray)
		put_array(w, value.val.binary.data, put_value);
	else if (types[t].kind == jbvObject)
		put_object(w, value.val.binary.data, put_value);
	else if (types[t].kind == jbvBool)
		appendStringInfoString(&w->out, value.val.boolean ? "true" : "false");
	else
	{
		size_t		len = utf8_len(&value);

		put_string(w, &value);
		w->size += strcmp(types[t].name, "N") == 0 ? (len + 1) / 2 + 1 :
			strcmp(types[t].name, "B") == 0 ? len / 4 * 3 : len;
	}
	appendStringInfoChar(&w->out, '}');
	return true;
}
