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
 * that type has (find_type()).  Everything else is plain.  So each value that
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

/* Writes the value of a member of an object. */
typedef void (*PutMember) (Writing *w, JsonbValue *v);

static void put_value(Writing *w, JsonbValue *v);
pg_noreturn static void refuse(const Writing *w, const char *detail, const char *hint);

static void read_action(Writing *w, JsonbValue *v, EoTransactItem *action);
static int	find_member(const Writing *w, const char *operation, int bit, const JsonbValue *name);
static void check_required(const Writing *w, int bit, int seen);
static char *copy_of(const JsonbValue *v);
static void put_member(Writing *w, int member, JsonbValue *v, EoTransactItem *action);
static bool is_object(const JsonbValue *v);
static bool only_member(const JsonbValue *v, JsonbValue *name, JsonbValue *value);
static void put_string(Writing *w, JsonbValue *v);
static void put_name(Writing *w, JsonbValue *v);
static void put_object(Writing *w, JsonbContainer *c, PutMember put);
static void put_set(Writing *w, const char *type, JsonbContainer *c);
static int	find_type(const JsonbValue *v, JsonbValue *value);
static char *canonical_element(char type, const JsonbValue *v);
static int	compare_elements(const void *a, const void *b);

void
eo_transact_items_read(Jsonb *writes, EoTransactItems *actions)
{
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
	actions->n = JB_ROOT_COUNT(writes);
	for (int i = 0; i < actions->n; i++)
	{
		EoTransactItem *action = &actions->actions[i];

		if (i > 0)
			appendStringInfoChar(&w.out, ',');
		w.position = i + 1;
		w.size = 0;
		memset(&w.expressions, 0, sizeof(w.expressions));
		action->start = w.out.len;
		read_action(&w, getIthJsonbValueFromContainer(&writes->root, i), action);
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

	if (getKeyJsonValueFromContainer(action->key, name, (int) strlen(name), &v) == NULL)
		return NULL;
	return eo_transact_item_string(&v, 'S');
}

char *
eo_transact_item_string(const JsonbValue *v, char type)
{
	JsonbValue	name;
	JsonbValue	value = *v;

	if ((v->type != jbvString || type != 'S') &&
		(!only_member(v, &name, &value) || value.type != jbvString ||
		 name.val.string.len != 1 || name.val.string.val[0] != type))
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
	JsonbValue	name;
	JsonbValue	body;
	int			bit = 0;
	int			seen = 0;
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
	while (eo_transact_item_next_member(&it, &name, &body))
	{
		int			member = find_member(w, action->operation, bit, &name);

		seen |= 1 << member;
		put_member(w, member, &body, action);
	}
	check_required(w, bit, seen);
	why = eo_write_expressions_check(&w->expressions);
	if (why != NULL)
		refuse(w, why, NULL);
	appendStringInfoString(&w->out, "}}");
}

/* The index in members[] of a member of an operation. */
static int
find_member(const Writing *w, const char *operation, int bit, const JsonbValue *name)
{
	for (int i = 0; i < (int) lengthof(members); i++)
	{
		if ((members[i].allowed & bit) != 0 && is_name(name, members[i].name))
			return i;
	}
	refuse(w, psprintf("%s has no member \"%.*s\".", operation, name->val.string.len,
					   name->val.string.val), "The names are DynamoDB's, in its spelling.");
}

bool
eo_transact_item_next_member(JsonbIterator **it, JsonbValue *name, JsonbValue *value)
{
	JsonbIteratorToken token;

	do
		token = JsonbIteratorNext(it, name, true);
	while (token != WJB_KEY && token != WJB_DONE);
	if (token == WJB_DONE)
		return false;
	(void) JsonbIteratorNext(it, value, true);
	return true;
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
	JsonbValue	name;
	JsonbValue	v;
	JsonbValue	value;

	while (eo_transact_item_next_member(&it, &name, &v))
	{
		EoPlaceholder *p = palloc0(sizeof(EoPlaceholder));

		p->name = copy_of(&name);
		p->stands_for = p->name[0] == ':' ? types[find_type(&v, &value)].name :
			v.type == jbvString ? copy_of(&v) : "";
		w->expressions.placeholders = lappend(w->expressions.placeholders, p);
	}
}

static char *
copy_of(const JsonbValue *v)
{
	return pnstrdup(v->val.string.val, v->val.string.len);
}

/* Note the attributes of a Key, and check what each has to be in any table. */
static void
note_key(Writing *w, JsonbContainer *c)
{
	JsonbIterator *it = JsonbIteratorInit(c);
	JsonbValue	name;
	JsonbValue	v;
	JsonbValue	value;

	if (JsonContainerSize(c) > 2)
		refuse(w, "Its Key has more than two attributes.", NULL);
	while (eo_transact_item_next_member(&it, &name, &v))
	{
		char	   *key = copy_of(&name);

		w->expressions.keys = lappend(w->expressions.keys, key);
		if (types[find_type(&v, &value)].kind != jbvString)
			refuse(w, psprintf("Attribute \"%s\" is a part of the key, and must be a string, a number or binary.",
							   key), NULL);
		if (value.val.string.len == 0)
			refuse(w, psprintf("Attribute \"%s\" is a part of the key, and must not be empty.",
							   key), NULL);
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
				action->table = copy_of(v);
			action->conditional |= strcmp(name, "ConditionExpression") == 0;
			if (strcmp(name, "ConditionExpression") == 0)
				w->expressions.condition = copy_of(v);
			if (strcmp(name, "UpdateExpression") == 0)
				w->expressions.update = copy_of(v);
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
	return eo_transact_item_next_member(&it, name, value);
}

static void
put_string(Writing *w, JsonbValue *v)
{
	char	   *s = copy_of(v);

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

/* Is the text of a number, or of binary data, one that DynamoDB knows? */
static void
check_scalar(const Writing *w, char type, const JsonbValue *v, const char *quote)
{
	const char *s = copy_of(v);
	size_t		len = v->val.string.len;

	if (type == 'N' && !eo_attribute_is_number(s, len))
		refuse(w, psprintf("%s%s%s is no number of DynamoDB.", quote, s, quote),
			   "They have up to 38 digits, and are between 1E-130 and 9.99E+125.");
	if (type == 'B' && eo_attribute_base64_len(s, len) < 0)
		refuse(w, psprintf("\"%s\" is not base64.", s), NULL);
}

static void
put_name(Writing *w, JsonbValue *v)
{
	if (v->type != jbvString)
		refuse(w, "ExpressionAttributeNames has a value that is not a string.", NULL);
	put_string(w, v);
}

static void
put_object(Writing *w, JsonbContainer *c, PutMember put)
{
	JsonbIterator *it = JsonbIteratorInit(c);
	JsonbValue	name;
	JsonbValue	v;
	const char *comma = "";

	appendStringInfoChar(&w->out, '{');
	while (eo_transact_item_next_member(&it, &name, &v))
	{
		appendStringInfoString(&w->out, comma);
		put_string(w, &name);
		if (name.val.string.len == 0)
			refuse(w, "A member has no name.", NULL);
		w->size += utf8_len(&name) + 1;
		appendStringInfoChar(&w->out, ':');
		put(w, &v);
		comma = ",";
	}
	appendStringInfoChar(&w->out, '}');
}

static void
put_array(Writing *w, JsonbContainer *c)
{
	appendStringInfoChar(&w->out, '[');
	for (uint32 i = 0; i < JsonContainerSize(c); i++)
	{
		if (i > 0)
			appendStringInfoChar(&w->out, ',');
		w->size++;
		put_value(w, getIthJsonbValueFromContainer(c, i));
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
	JsonbValue	value;
	int			t = find_type(v, &value);
	const char *name = types[t].name;
	enum jbvType kind = types[t].kind;
	size_t		len;

	/* For the recursion; a scalar in typed form is no level. */
	if (v->type == jbvBinary && ++w->depth > MAX_DEPTH)
		refuse_depth(w);
	if (!types[t].set && (kind == jbvArray || kind == jbvObject) &&
		w->depth > EO_ATTRIBUTE_MAX_DEPTH)
		refuse_depth(w);
	appendStringInfo(&w->out, "{\"%s\":", name);
	w->size += kind == jbvBool ? 1 : kind == jbvString ? 0 : 3;
	if (types[t].set)
		put_set(w, name, value.val.binary.data);
	else if (kind == jbvArray)
		put_array(w, value.val.binary.data);
	else if (kind == jbvObject)
		put_object(w, value.val.binary.data, put_value);
	else if (kind == jbvBool)
	{
		if (!value.val.boolean && strcmp(name, "NULL") == 0)
			refuse(w, "{\"NULL\": false} is no value.", "Leave the attribute out, or write null.");
		appendStringInfoString(&w->out, value.val.boolean ? "true" : "false");
	}
	else
	{
		check_scalar(w, *name, &value, v->type == jbvNumeric ? "" : "\"");
		put_string(w, &value);
		len = utf8_len(&value);
		w->size += *name == 'N' ? (len + 1) / 2 + 1 : *name == 'B' ? len / 4 * 3 : len;
	}
	appendStringInfoChar(&w->out, '}');
	if (v->type == jbvBinary)
		w->depth--;
}

/*
 * Write a set, which must have an element, and none twice.  As text a number or binary data is
 * longer than what DynamoDB counts.
 */
static void
put_set(Writing *w, const char *type, JsonbContainer *c)
{
	uint32		n = JsonContainerSize(c);
	char	  **elements = palloc(sizeof(char *) * Max(n, 1));

	if (n == 0)
		refuse(w, psprintf("A set of type %s is empty.", type), NULL);
	appendStringInfoChar(&w->out, '[');
	for (uint32 i = 0; i < n; i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(c, i);

		if (i > 0)
			appendStringInfoChar(&w->out, ',');
		check_scalar(w, *type, v, "\"");
		put_string(w, v);
		w->size += utf8_len(v) + 1;
		elements[i] = canonical_element(*type, v);
	}
	appendStringInfoChar(&w->out, ']');
	qsort(elements, n, sizeof(char *), compare_elements);
	for (uint32 i = 1; i < n; i++)
	{
		if (strcmp(elements[i - 1], elements[i]) == 0)
			refuse(w, psprintf("A set of type %s has the same element twice.", type),
				   *type == 'S' ? NULL : "Numbers are compared by their value, and binary data by its bytes.");
	}
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

/*
 * The index in types[] of the type of a value, plain or in typed form, and the value as typed
 * form has it.
 */
static int
find_type(const JsonbValue *v, JsonbValue *value)
{
	JsonbValue	name;
	Datum		number;
	const char *plain;
	int			t = 0;

	if (only_member(v, &name, value))
	{
		while (t < (int) lengthof(types) && !is_name(&name, types[t].name))
			t++;
		if (t < (int) lengthof(types) &&
			(types[t].set ? is_array_of_strings(value) :
			 types[t].kind == jbvArray ? is_array(value) :
			 types[t].kind == jbvObject ? is_object(value) :
			 value->type == types[t].kind))
			return t;
	}
	*value = *v;
	switch (v->type)
	{
		case jbvNull:
			plain = "NULL";
			value->type = jbvBool;
			value->val.boolean = true;
			break;
		case jbvBool:
			plain = "BOOL";
			break;
		case jbvNumeric:
			plain = "N";
			number = DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric));
			value->type = jbvString;
			value->val.string.val = DatumGetCString(number);
			value->val.string.len = (int) strlen(value->val.string.val);
			break;
		case jbvString:
			plain = "S";
			break;
		default:
			plain = is_array(v) ? "L" : "M";
			break;
	}
	for (t = 0; strcmp(types[t].name, plain) != 0;)
		t++;
	return t;
}

/* An element of a set as it is compared with the others: numbers and bytes by their value. */
static char *
canonical_element(char type, const JsonbValue *v)
{
	char	   *text = copy_of(v);

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
