/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  A conditional write as a statement of PartiQL, from the shorthand of expression.h.
 *
 * Parameters of PartiQL have no names: each "?" takes the next one.  So the letters of
 * the values are kept in the order in which they are used, some of them several times.
 * Three letters are special: PARTITION and SORT stand for the key, and SUM for the sum
 * of the two values whose letters follow.
 *
 * Only what the Developer Guide documents is used: SET, REMOVE, "+" and "-", "=", "<>",
 * "<=", AND, OR, IS MISSING, RETURNING ALL NEW *.  Where the shorthand asks what a set
 * contains, or adds to one, the statement is for items that do not have the set.  A write
 * that needs more has no spelling, and is always sent as an UpdateItem.
 *
 * Sources: "PartiQL update statements", "PartiQL insert statements", "PartiQL operators"
 * and "Running batch operations with PartiQL" (Amazon DynamoDB Developer Guide);
 * "BatchStatementError" (API Reference) for the codes.
 *
 *-------------------------------------------------------------------------
 */
#include "records/statement.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "records/expression.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

#define PARTITION '\1'
#define SORT '\2'
#define SUM '+'

/* A statement may have 8192 characters; some more are needed here around it. */
#define MAX_TEXT 8192
#define MAX_PART 2048

#define IF_NOT_EXISTS "if_not_exists("
#define NOT_EXISTS "attribute_not_exists("
#define EXISTS "attribute_exists("
#define OR_NOT_CONTAINED " OR NOT contains(#"

/* The names of a layout and what has been found out while a statement is made. */
typedef struct Making
{
	EoStatement *s;
	const EoAttributeName *names;
	size_t		nvalues;
	char		required[32];	/* letters of attributes that must exist */
	char		absent[4];		/* of those that must not: sets that are begun */
	char		read[32];		/* of those that another attribute is set from */
	char		changed[64];	/* of those that are set or removed */
	char		target;			/* of the one that is being set */
} Making;

static EoStatus expand(EoBuf *out, const char *text, const char *options, unsigned int set);
static EoStatus finish(Making *m);
static void fail(Making *m);
static void note(Making *m, char *letters, size_t size, char letter);
static void put_parameter(Making *m, char letter);
static void put_name(Making *m, char letter);
static void put_key(Making *m, const EoItemKey *key, const char *before, const char *between,
					const char *after);
static void put_changes(Making *m, const char *update);
static const char *put_operand(Making *m, const char *p);
static void put_condition(Making *m, const char *condition);
static void put_presence(Making *m, const char *letters, const char *test);
static void put_members(Making *m, const char *update);
static bool is_plain(const char *name);
static bool read_reply(EoJsonValue *response, EoStatementReply *reply);

EoStatus
eo_statement_make_update(EoStatement *s, const EoAttributeName *names, const EoItemKey *key,
						 const char *options, unsigned int set, const char *condition,
						 const char *update)
{
	Making		m = {.s = s,.names = names};
	EoBuf		where;
	EoBuf		changes;
	EoStatus	status;

	eo_buf_init(&s->text, MAX_TEXT);
	eo_buf_init(&where, MAX_PART);
	eo_buf_init(&changes, MAX_PART);
	status = expand(&where, condition, options, set);
	if (status == EO_OK)
		status = expand(&changes, update, options, set);
	if (status == EO_OK)
	{
		put_changes(&m, eo_buf_str(&changes));
		eo_buf_adds(&s->text, " WHERE ");
		put_key(&m, key, "\\\"", " AND ", "\\\" = ?");
		eo_buf_adds(&s->text, " AND ");
		put_condition(&m, eo_buf_str(&where));
		put_presence(&m, m.required, " IS NOT MISSING");
		put_presence(&m, m.absent, " IS MISSING");
		eo_buf_adds(&s->text, " RETURNING ALL NEW *\",\"ReturnValuesOnConditionCheckFailure\":"
					"\"ALL_OLD\",\"Parameters\":[");

		/*
		 * Whether a SET sees what another SET of the same statement has
		 * changed is not documented.
		 */
		if (strpbrk(m.read, m.changed) != NULL)
			fail(&m);
		status = finish(&m);
	}
	eo_buf_free(&where);
	eo_buf_free(&changes);
	return status;
}

EoStatus
eo_statement_make_insert(EoStatement *s, const EoAttributeName *names, const EoItemKey *key,
						 const char *options, unsigned int set, const char *update)
{
	Making		m = {.s = s,.names = names};
	EoBuf		changes;
	EoStatus	status;

	s->inserts = true;
	eo_buf_init(&s->text, MAX_TEXT);
	eo_buf_init(&changes, MAX_PART);
	status = expand(&changes, update, options, set);
	if (status == EO_OK)
	{
		eo_buf_adds(&s->text, " VALUE {");
		put_key(&m, key, "'", ", ", "': ?");
		put_members(&m, eo_buf_str(&changes));
		eo_buf_adds(&s->text, "}\",\"Parameters\":[");
		status = finish(&m);
	}
	eo_buf_free(&changes);
	return status;
}

static EoStatus
expand(EoBuf *out, const char *text, const char *options, unsigned int set)
{
	eo_expression_expand(out, text, options, set);
	return eo_buf_status(out);
}

/* A write without a spelling keeps no text. */
static EoStatus
finish(Making *m)
{
	EoStatus	status = eo_buf_status(&m->s->text);

	if (m->s->impossible || status != EO_OK)
		eo_buf_free(&m->s->text);
	return m->s->impossible ? EO_OK : status;
}

static void
fail(Making *m)
{
	m->s->impossible = true;
}

/* Add a letter to a list of letters, once. */
static void
note(Making *m, char *letters, size_t size, char letter)
{
	size_t		n = strlen(letters);

	if (strchr(letters, letter) != NULL)
		return;
	if (n + 1 == size)
	{
		fail(m);
		return;
	}
	letters[n] = letter;
	letters[n + 1] = '\0';
}

static void
put_parameter(Making *m, char letter)
{
	if (m->nvalues + 1 == sizeof(m->s->values))
	{
		fail(m);
		return;
	}
	m->s->values[m->nvalues++] = letter;
	m->s->values[m->nvalues] = '\0';
}

/* The attribute's name; NULL, and the statement is impossible, if it cannot be named. */
static const char *
name_of(Making *m, char letter)
{
	for (const EoAttributeName *n = m->names; n->letter != '\0'; n++)
	{
		if (n->letter == letter && n->name != NULL && is_plain(n->name))
			return n->name;
	}
	fail(m);
	return NULL;
}

/* Append a name in double quotes, as they are written in a string of JSON. */
static void
put_name(Making *m, char letter)
{
	const char *name = name_of(m, letter);

	if (name != NULL)
		eo_buf_addf(&m->s->text, "\\\"%s\\\"", name);
}

/* Append the attributes of the key, each between before and after. */
static void
put_key(Making *m, const EoItemKey *key, const char *before, const char *between,
		const char *after)
{
	eo_buf_addf(&m->s->text, "%s%s%s", before, key->name, after);
	put_parameter(m, PARTITION);
	if (key->sort_name != NULL)
	{
		eo_buf_addf(&m->s->text, "%s%s%s%s", between, before, key->sort_name, after);
		put_parameter(m, SORT);
	}
	if (!is_plain(key->name) || (key->sort_name != NULL && !is_plain(key->sort_name)))
		fail(m);
}

static bool
starts_with(const char *p, const char *word)
{
	return strncmp(p, word, strlen(word)) == 0;
}

static const char *
skip(const char *p, const char *characters)
{
	return p + strspn(p, characters);
}

/*
 * Append a SET for what an update adds to a set, "#d :G", which must not be there.  Returns
 * what follows, NULL if it is something else.
 */
static const char *
put_begun_set(Making *m, const char *p)
{
	char		letter = p[0] == '#' ? p[1] : '\0';

	if (letter == '\0' || p[2] != ' ' || p[3] != ':' || p[4] == '\0')
	{
		fail(m);
		return NULL;
	}
	note(m, m->changed, sizeof(m->changed), letter);
	note(m, m->absent, sizeof(m->absent), letter);
	eo_buf_adds(&m->s->text, " SET ");
	put_name(m, letter);
	eo_buf_adds(&m->s->text, " = ?");
	put_parameter(m, p[4]);
	return p + 5;
}

/* Append a SET or REMOVE for each attribute that an update changes. */
static void
put_changes(Making *m, const char *update)
{
	bool		removes = false;

	for (const char *p = skip(update, ", "); *p != '\0'; p = skip(p, ", "))
	{
		if (starts_with(p, "SET "))
		{
			p += strlen("SET ");
			removes = false;
			continue;
		}
		if (starts_with(p, "REMOVE "))
		{
			p += strlen("REMOVE ");
			removes = true;
			continue;
		}
		if (starts_with(p, "ADD "))
		{
			p = put_begun_set(m, p + strlen("ADD "));
			if (p == NULL)
				return;
			continue;
		}
		if (*p != '#' || p[1] == '\0')
		{
			fail(m);
			return;
		}
		m->target = p[1];
		note(m, m->changed, sizeof(m->changed), p[1]);
		eo_buf_adds(&m->s->text, removes ? " REMOVE " : " SET ");
		put_name(m, p[1]);
		p += 2;
		if (removes)
			continue;
		if (!starts_with(p, " = "))
		{
			fail(m);
			return;
		}
		eo_buf_adds(&m->s->text, " = ");
		p = put_operand(m, p + strlen(" = "));
		while (p != NULL && (starts_with(p, " + ") || starts_with(p, " - ")))
		{
			eo_buf_add(&m->s->text, p, 3);
			p = put_operand(m, p + 3);
		}
		if (p == NULL)
			return;
	}
}

/* Append a value or an attribute; returns what follows it, NULL if it is neither. */
static const char *
put_operand(Making *m, const char *p)
{
	if (p[0] == ':' && p[1] != '\0')
	{
		eo_buf_addc(&m->s->text, '?');
		put_parameter(m, p[1]);
		return p + 2;
	}
	if (starts_with(p, IF_NOT_EXISTS "#"))
	{
		char		letter = p[strlen(IF_NOT_EXISTS "#")];
		const char *end = strchr(p, ')');

		if (end != NULL)
		{
			put_name(m, letter);
			note(m, m->required, sizeof(m->required), letter);
			if (letter != m->target)
				note(m, m->read, sizeof(m->read), letter);
			return end + 1;
		}
	}
	fail(m);
	return NULL;
}

/*
 * Append a condition.  It follows the key with an AND, so an OR that is in no
 * parentheses has no spelling.  What a set must not contain is left out, which
 * leaves that the set must not be there.
 */
static void
put_condition(Making *m, const char *condition)
{
	int			depth = 0;

	for (const char *p = condition; *p != '\0';)
	{
		const char *function = starts_with(p, NOT_EXISTS "#") ? NOT_EXISTS :
		starts_with(p, EXISTS "#") ? EXISTS : NULL;

		if (starts_with(p, OR_NOT_CONTAINED))
		{
			const char *end = strchr(p, ')');

			p = end != NULL ? end + 1 : p + strlen(p);
			continue;
		}
		if (function != NULL)
		{
			p += strlen(function);
			put_name(m, p[1]);
			eo_buf_adds(&m->s->text, function[strlen("attribute_")] == 'n' ?
						" IS MISSING" : " IS NOT MISSING");
			p += p[1] != '\0' ? 2 : 1;
			if (*p == ')')
				p++;
			else
				fail(m);
		}
		else if ((*p == '#' || *p == ':') && p[1] != '\0')
		{
			if (*p == '#')
				put_name(m, p[1]);
			else
			{
				eo_buf_addc(&m->s->text, '?');
				put_parameter(m, p[1]);
			}
			p += 2;
		}
		else
		{
			depth += (*p == '(') - (*p == ')');
			if (depth == 0 && starts_with(p, " OR "))
				fail(m);
			eo_buf_addc(&m->s->text, *p++);
		}
	}
}

/* Append the same test of each attribute. */
static void
put_presence(Making *m, const char *letters, const char *test)
{
	for (; *letters != '\0'; letters++)
	{
		eo_buf_adds(&m->s->text, " AND ");
		put_name(m, *letters);
		eo_buf_adds(&m->s->text, test);
	}
}

/* The value that an operand has where there is no item; 0 if it has none. */
static char
value_without_item(const char **p)
{
	const char *end = strchr(*p, ')');
	char		letter = '\0';

	if ((*p)[0] == ':')
	{
		letter = (*p)[1];
		*p += letter != '\0' ? 2 : 1;
	}
	else if (starts_with(*p, IF_NOT_EXISTS "#") && end != NULL && end - *p > 2 && end[-2] == ':')
	{
		letter = end[-1];
		*p = end + 1;
	}
	return letter;
}

/* Append what an update sets, as the members of a new item. */
static void
put_members(Making *m, const char *update)
{
	const char *p = update;

	if (!starts_with(p, "SET "))
	{
		fail(m);
		return;
	}
	p += strlen("SET ");
	while (*p == '#' && p[1] != '\0')
	{
		const char *name = name_of(m, p[1]);
		char		value;

		p += 2;
		if (name == NULL || !starts_with(p, " = "))
			break;
		eo_buf_addf(&m->s->text, ", '%s': ?", name);
		p += strlen(" = ");
		value = value_without_item(&p);
		if (starts_with(p, " + "))
		{
			p += strlen(" + ");
			put_parameter(m, SUM);
			put_parameter(m, value);
			value = value_without_item(&p);
		}
		if (value == '\0')
			break;
		put_parameter(m, value);
		p = skip(p, ", ");
	}
	/* Nothing is removed from an item that does not exist. */
	if (*p != '\0' && !starts_with(p, "REMOVE "))
		fail(m);
}

/* Can the name stand in quotes? */
static bool
is_plain(const char *name)
{
	for (const char *p = name; *p != '\0'; p++)
	{
		if (!isalnum((unsigned char) *p) && strchr("_.-", *p) == NULL)
			return false;
	}
	return *name != '\0';
}

bool
eo_statement_allows_table(const char *table)
{
	return is_plain(table);
}

void
eo_statement_put(const EoStatement *s, EoBuf *body, const char *table, const EoItemKey *key,
				 const char *pk, const EoValue *values, const void *const *structs)
{
	const char *partition = key->partition_value != NULL ? key->partition_value : pk;

	eo_buf_adds(body, s->inserts ? "{\"Statement\":\"INSERT INTO \\\"" :
				"{\"Statement\":\"UPDATE \\\"");
	eo_buf_adds(body, table);
	eo_buf_adds(body, "\\\"");
	eo_buf_add(body, s->text.data, s->text.len);
	for (const char *letter = s->values; *letter != '\0'; letter++)
	{
		if (letter != s->values)
			eo_buf_addc(body, ',');
		switch (*letter)
		{
			case PARTITION:
				eo_expression_put_string(body, partition, strlen(partition));
				break;
			case SORT:
				eo_expression_put_string(body, pk, strlen(pk));
				break;
			case SUM:
				eo_expression_put_sum(body, letter[1], letter[2], values, structs);
				letter += 2;
				break;
			default:
				eo_expression_put_value(body, *letter, values, structs);
		}
	}
	eo_buf_adds(body, "]}");
}

/* ----- answers ----- */

typedef struct Meaning
{
	const char *code;
	EoStatus	status;
} Meaning;

/* Any other code says nothing about the outcome. */
static const Meaning codes[] = {
	{"ConditionalCheckFailed", EO_CONDITION_FAILED},
	{"DuplicateItem", EO_CONDITION_FAILED},
	{"ProvisionedThroughputExceeded", EO_THROTTLED},
	{"ThrottlingError", EO_THROTTLED},
	{"RequestLimitExceeded", EO_THROTTLED},
	{"TransactionConflict", EO_CONFLICT},
	{"AccessDenied", EO_DENIED},
	{"ResourceNotFound", EO_NO_TABLE},
	{"ValidationError", EO_REFUSED},
	{"ItemCollectionSizeLimitExceeded", EO_REFUSED},
};

bool
eo_statement_read(EoJsonValue *root, EoStatementReply *replies, size_t n)
{
	EoJsonValue *responses = eo_json_get(root, "Responses");

	if (eo_json_array_length(responses) != n)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		if (!read_reply(eo_json_array_get(responses, i), &replies[i]))
			return false;
	}
	return true;
}

/* An answer has an error with a code, or an item, or neither; but it names its table then. */
static bool
read_reply(EoJsonValue *response, EoStatementReply *reply)
{
	EoJsonValue *error = eo_json_get(response, "Error");
	size_t		len;

	memset(reply, 0, sizeof(*reply));
	reply->table = eo_json_string(eo_json_get(response, "TableName"), &len);
	if (error == NULL)
	{
		reply->item = eo_json_get(response, "Item");
		return reply->item != NULL || reply->table != NULL;
	}
	reply->code = eo_json_string(eo_json_get(error, "Code"), &len);
	if (reply->code == NULL)
		return false;
	reply->item = eo_json_get(error, "Item");
	reply->status = EO_UNKNOWN;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
	{
		if (strcmp(reply->code, codes[i].code) == 0)
			reply->status = codes[i].status;
	}
	return true;
}
