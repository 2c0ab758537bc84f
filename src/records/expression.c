/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  The body of a conditional UpdateItem, from expressions in shorthand.
 *
 * DynamoDB refuses a request that declares a placeholder it does not use, so the
 * declarations are made from a scan of the expressions.
 *
 *-------------------------------------------------------------------------
 */
#include "records/expression.h"

#include "records/attribute.h"
#include "records/timestamps.h"

/* Reserved for the rest of a body, key, table and values, to avoid reallocation. */
#define BODY_ROOM 1024

/* Longest condition or update, and longest text of an expression. */
#define MAX_PART 2048
#define MAX_TEXT 8192

static void put_text(EoExpression *e, const EoAttributeName *names, const char *condition,
					 const char *update);
static void put_names(EoBuf *text, const EoAttributeName *names, const char *condition,
					  const char *update);
static void find_values(EoExpression *e, const char *condition, const char *update);
static void put_table(EoBuf *body, const char *table);
static void put_number(EoBuf *body, int64_t n);

EoStatus
eo_expression_make(EoExpression *e, const EoAttributeName *names, const char *options,
				   unsigned int set, const char *condition, const char *update)
{
	EoBuf		expanded_condition;
	EoBuf		expanded_update;
	EoStatus	status;

	eo_buf_init(&expanded_condition, MAX_PART);
	eo_buf_init(&expanded_update, MAX_PART);
	eo_expression_expand(&expanded_condition, condition, options, set);
	eo_expression_expand(&expanded_update, update, options, set);
	status = eo_buf_status(&expanded_condition);
	if (status == EO_OK)
		status = eo_buf_status(&expanded_update);
	if (status == EO_OK)
	{
		put_text(e, names, eo_buf_str(&expanded_condition), eo_buf_str(&expanded_update));
		status = eo_buf_status(&e->text);
	}
	if (status != EO_OK)
		eo_buf_free(&e->text);
	eo_buf_free(&expanded_condition);
	eo_buf_free(&expanded_update);
	return status;
}

void
eo_expression_expand(EoBuf *out, const char *text, const char *options, unsigned int set)
{
	bool		wanted = true;

	for (const char *p = text; *p != '\0'; p++)
	{
		if (*p == '[')
		{
			bool		negated = p[1] == '!';
			const char *letter = p + (negated ? 2 : 1);
			const char *option = strchr(options, *letter);

			if (*letter == '\0' || option == NULL || letter[1] != '?')
			{
				out->status = EO_INVALID;
				return;
			}
			wanted = ((set >> (option - options)) & 1) != negated;
			p = letter + 1;
		}
		else if (*p == ']')
			wanted = true;
		else if (wanted)
			eo_buf_addc(out, *p);
	}
}

static void
put_text(EoExpression *e, const EoAttributeName *names, const char *condition, const char *update)
{
	eo_buf_init(&e->text, MAX_TEXT);
	eo_buf_adds(&e->text, ",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\",\"ConditionExpression\":\"");
	eo_buf_adds(&e->text, condition);
	eo_buf_adds(&e->text, "\",\"UpdateExpression\":\"");
	eo_buf_adds(&e->text, update);
	eo_buf_adds(&e->text, "\",\"ExpressionAttributeNames\":{");
	put_names(&e->text, names, condition, update);
	eo_buf_adds(&e->text, "},\"ExpressionAttributeValues\":{");
	find_values(e, condition, update);
}

/* Declare the attribute names that the expressions use. */
static void
put_names(EoBuf *text, const EoAttributeName *names, const char *condition, const char *update)
{
	const char *comma = "";

	for (; names->letter != '\0'; names++)
	{
		char		placeholder[] = {'#', names->letter, '\0'};

		if (strstr(condition, placeholder) == NULL && strstr(update, placeholder) == NULL)
			continue;
		eo_buf_addf(text, "%s\"%s\":\"%s\"", comma, placeholder, names->name);
		comma = ",";
	}
}

/* Note the values that the expressions use, each once, and the steady ones first. */
static void
find_values(EoExpression *e, const char *condition, const char *update)
{
	const char *texts[] = {condition, update, condition, update};
	size_t		n = 0;

	e->values[0] = '\0';
	for (int t = 0; t < 4; t++)
	{
		if (t == 2)
			e->nsteady = n;
		for (const char *p = texts[t]; (p = strchr(p, ':')) != NULL; p++)
		{
			bool		is_steady = e->steady != NULL && strchr(e->steady, p[1]) != NULL;

			if (is_steady != (t < 2) || strchr(e->values, p[1]) != NULL)
				continue;
			if (n + 1 == sizeof(e->values))
			{
				e->text.status = EO_TOO_LARGE;
				return;
			}
			e->values[n++] = p[1];
			e->values[n] = '\0';
		}
	}
}

unsigned int
eo_expression_options(const bool *set, size_t n)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < n; i++)
		bits |= (unsigned int) set[i] << i;
	return bits;
}

void
eo_expression_put_update(const EoExpression *e, EoBuf *body, const char *table,
						 const EoItemKey *key, const char *pk, const char *returns,
						 const EoValue *values, const void *const *structs)
{
	bool		is_all = body->len == 0;

	(void) eo_buf_reserve(body, e->text.len + BODY_ROOM);
	put_table(body, table);
	eo_buf_adds(body, returns);
	eo_buf_add(body, e->text.data, e->text.len);
	for (size_t i = 0; e->values[i] != '\0'; i++)
	{
		char		name[] = {',', '"', ':', e->values[i], '"', ':'};
		size_t		skip = i == 0 ? 1 : 0;

		/* A transaction has it all behind what is its own. */
		if (i == e->nsteady && is_all)
			body->common = body->len;
		eo_buf_add(body, name + skip, sizeof(name) - skip);
		eo_expression_put_value(body, e->values[i], values, structs);
	}
	eo_buf_adds(body, "},\"Key\":");
	eo_expression_put_key(body, key, pk);
	eo_buf_addc(body, '}');
}

void
eo_expression_put_read(EoBuf *body, const char *table, const EoItemKey *key, const char *pk)
{
	put_table(body, table);
	eo_buf_adds(body, ",\"Key\":");
	eo_expression_put_key(body, key, pk);
	eo_buf_adds(body, ",\"ConsistentRead\":true}");
}

static void
put_table(EoBuf *body, const char *table)
{
	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, table, strlen(table));
}

void
eo_expression_put_key(EoBuf *body, const EoItemKey *key, const char *pk)
{
	const char *first = key->partition_value != NULL ? key->partition_value : pk;

	eo_buf_adds(body, "{\"");
	eo_buf_adds(body, key->name);
	eo_buf_adds(body, "\":{\"S\":");
	eo_json_put_string(body, first, strlen(first));
	if (key->sort_name != NULL)
	{
		eo_buf_adds(body, "},\"");
		eo_buf_adds(body, key->sort_name);
		eo_buf_adds(body, "\":{\"S\":");
		eo_json_put_string(body, pk, strlen(pk));
	}
	eo_buf_adds(body, "}}");
}

const char *
eo_expression_pk_of(const EoItemKey *key, EoJsonValue *item)
{
	size_t		len;
	const char *partition = eo_json_attr_s(item, key->name, &len);
	const char *sort;
	const char *expected;

	if (key->sort_name == NULL || partition == NULL)
		return partition;
	sort = eo_json_attr_s(item, key->sort_name, &len);
	expected = key->partition_value != NULL ? key->partition_value : sort;
	return sort != NULL && strcmp(partition, expected) == 0 ? sort : NULL;
}

void
eo_expression_put_sum(EoBuf *body, char a, char b, const EoValue *values,
					  const void *const *structs)
{
	const char	letters[] = {a, b};
	int64_t		sum = 0;

	for (int i = 0; i < 2; i++)
	{
		const EoValue *value = &values[(unsigned char) letters[i]];
		const char *from = structs[value->from];

		if (letters[i] == '0' || letters[i] == '1')
			sum += letters[i] - '0';
		else if (value->type == EO_VALUE_NUMBER && from != NULL)
			sum += *(const int64_t *) (from + value->offset);
		else
			body->status = EO_INVALID;
	}
	put_number(body, sum);
}

void
eo_expression_put_value(EoBuf *body, char letter, const EoValue *values,
						const void *const *structs)
{
	const EoValue *value = &values[(unsigned char) letter];
	const char *from = structs[value->from];
	const char *string;

	if (letter == '0' || letter == '1')
	{
		put_number(body, letter - '0');
		return;
	}
	if (value->type == EO_VALUE_NONE || from == NULL)
	{
		body->status = EO_INVALID;
		return;
	}
	if (value->type == EO_VALUE_NUMBER)
	{
		put_number(body, *(const int64_t *) (from + value->offset));
		return;
	}
	if (value->type == EO_VALUE_AS_READ)
	{
		eo_json_put(body, *(EoJsonValue *const *) (from + value->offset));
		return;
	}
	if (value->type == EO_VALUE_INSTANT)
	{
		const EoInstant *instant = (const EoInstant *) (from + value->offset);

		eo_buf_adds(body, instant->is_string ? "{\"S\":\"" : "{\"N\":\"");
		eo_buf_adds(body, instant->text);
		eo_buf_adds(body, "\"}");
		return;
	}
	string = *(const char *const *) (from + value->offset);
	if (string == NULL)
		body->status = EO_INVALID;
	else if (value->type == EO_VALUE_SIZED)
		eo_expression_put_string(body, string, *(const size_t *) (from + value->length));
	else if (value->type == EO_VALUE_JSON)
	{
		size_t		size;
		EoStatus	status = eo_attribute_put(body, string,
											  *(const size_t *) (from + value->length), &size);

		if (status != EO_OK)
			body->status = status;
	}
	else if (value->type == EO_VALUE_STRING)
		eo_expression_put_string(body, string, strlen(string));
	else
	{
		eo_buf_adds(body, "{\"SS\":[");
		eo_json_put_string(body, string, strlen(string));
		eo_buf_adds(body, "]}");
	}
}

void
eo_expression_put_string(EoBuf *body, const char *s, size_t len)
{
	eo_buf_adds(body, "{\"S\":");
	eo_json_put_string(body, s, len);
	eo_buf_addc(body, '}');
}

static void
put_number(EoBuf *body, int64_t n)
{
	char		digits[24];
	char	   *p = digits + sizeof(digits);
	uint64_t	rest = n < 0 ? -(uint64_t) n : (uint64_t) n;

	do
		*--p = (char) ('0' + rest % 10);
	while ((rest /= 10) > 0);
	if (n < 0)
		*--p = '-';
	eo_buf_adds(body, "{\"N\":\"");
	eo_buf_add(body, p, (size_t) (digits + sizeof(digits) - p));
	eo_buf_adds(body, "\"}");
}
