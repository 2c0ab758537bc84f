/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  The body of a conditional UpdateItem, from expressions in shorthand.
 *
 * DynamoDB refuses a request that declares a placeholder it does not use, so
 * the declarations are made from a scan of the expressions.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/expression.h"

#include "dynamodb/buf.h"
#include "dynamodb/json.h"
#include "dynamodb/status.h"

/* What a body has beside its template: key, table and values, as a rule. */
#define BODY_ROOM 1024

#define MAX_TEMPLATE 8192

static void put_names(EoBuf *text, const EoAttributeName *names, const char *condition,
					  const char *update);
static void find_values(char *letters, const char *condition, const char *update);
static void put_values(const EoExpression *e, EoBuf *body, EoPutValue put_value, const void *arg);

bool
eo_expression_make(EoExpression *e, const EoAttributeName *names, const char *condition,
				   const char *update)
{
	eo_buf_init(&e->text, MAX_TEMPLATE);
	eo_buf_adds(&e->text, ",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\",\"ConditionExpression\":\"");
	eo_buf_adds(&e->text, condition);
	eo_buf_adds(&e->text, "\",\"UpdateExpression\":\"");
	eo_buf_adds(&e->text, update);
	eo_buf_adds(&e->text, "\",\"ExpressionAttributeNames\":{");
	put_names(&e->text, names, condition, update);
	eo_buf_adds(&e->text, "},\"ExpressionAttributeValues\":{");
	find_values(e->values, condition, update);
	if (eo_buf_status(&e->text) == EO_OK)
		return true;
	eo_buf_free(&e->text);
	return false;
}

static void
put_names(EoBuf *text, const EoAttributeName *names, const char *condition, const char *update)
{
	const char *texts[] = {condition, update};
	uint32_t	used = 0;
	const char *comma = "";

	for (int t = 0; t < 2; t++)
	{
		for (const char *p = texts[t]; (p = strchr(p, '#')) != NULL; p++)
			used |= (uint32_t) 1 << (p[1] - 'a');
	}
	for (; names->letter != '\0'; names++)
	{
		if ((used & ((uint32_t) 1 << (names->letter - 'a'))) == 0)
			continue;
		eo_buf_addf(text, "%s\"#%c\":\"%s\"", comma, names->letter, names->name);
		comma = ",";
	}
}

/* The value placeholders that the expressions use, each once. */
static void
find_values(char *letters, const char *condition, const char *update)
{
	const char *texts[] = {condition, update};
	size_t		n = 0;

	letters[0] = '\0';
	for (int t = 0; t < 2; t++)
	{
		for (const char *p = texts[t]; (p = strchr(p, ':')) != NULL; p++)
		{
			if (strchr(letters, p[1]) == NULL && n + 1 < EO_MAX_LETTERS)
			{
				letters[n++] = p[1];
				letters[n] = '\0';
			}
		}
	}
}

static void
put_table_and_key(EoBuf *body, const char *table, const char *key_name, const char *pk)
{
	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, table, strlen(table));
	eo_buf_adds(body, ",\"Key\":{\"");
	eo_buf_adds(body, key_name);
	eo_buf_adds(body, "\":{\"S\":");
	eo_json_put_string(body, pk, strlen(pk));
	eo_buf_adds(body, "}}");
}

void
eo_expression_put_update(const EoExpression *e, EoBuf *body, const char *table,
						 const char *key_name, const char *pk, const char *returns,
						 EoPutValue put_value, const void *arg)
{
	(void) eo_buf_reserve(body, e->text.len + BODY_ROOM);
	put_table_and_key(body, table, key_name, pk);
	eo_buf_adds(body, returns);
	eo_buf_add(body, e->text.data, e->text.len);
	put_values(e, body, put_value, arg);
	eo_buf_adds(body, "}}");
}

void
eo_expression_put_read(EoBuf *body, const char *table, const char *key_name, const char *pk)
{
	put_table_and_key(body, table, key_name, pk);
	eo_buf_adds(body, ",\"ConsistentRead\":true}");
}

static void
put_values(const EoExpression *e, EoBuf *body, EoPutValue put_value, const void *arg)
{
	for (const char *p = e->values; *p != '\0'; p++)
	{
		char		name[] = {',', '"', ':', *p, '"', ':'};
		size_t		skip = p == e->values ? 1 : 0;

		eo_buf_add(body, name + skip, sizeof(name) - skip);
		if (!put_value(body, *p, arg))
			body->status = EO_INVALID;
	}
}

void
eo_expression_put_s(EoBuf *body, const char *s, size_t len)
{
	eo_buf_adds(body, "{\"S\":");
	eo_json_put_string(body, s, len);
	eo_buf_addc(body, '}');
}

void
eo_expression_put_string(EoBuf *body, const char *s)
{
	eo_expression_put_s(body, s, strlen(s));
}

void
eo_expression_put_n(EoBuf *body, int64_t n)
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
