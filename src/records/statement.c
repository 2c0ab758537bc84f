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
 * "<=", ">=", AND, OR, IS MISSING, RETURNING ALL NEW *.  Where the shorthand asks what a
 * set contains, or adds to one, the statement is for items that do not have the set.  A
 * write that needs more has no spelling, and is always sent as an UpdateItem.
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

/* The names of a layout, what is being read, and what has been found out on the way. */
typedef struct Making
{
	EoStatement *s;
	const EoAttributeName *names;
	const char *p;				/* the rest of the condition or update */
	size_t		nvalues;
	char		required[32];	/* letters of attributes that must exist */
	char		absent[4];		/* of those that must not: sets that are begun */
	char		read[32];		/* of those that another attribute is set from */
	char		changed[64];	/* of those that are set or removed */
	char		target;			/* of the one that is being set */
} Making;

static void put_update(Making *m, const EoItemKey *key, const char *condition, const char *update);
static void put_insert(Making *m, const EoItemKey *key, const char *update);
static void put_key(Making *m, const EoItemKey *key, const char *before, const char *between,
					const char *after);
static void put_changes(Making *m, const char *update);
static void put_begun_set(Making *m);
static void put_operand(Making *m);
static void put_condition(Making *m, const char *condition);
static void put_presence(Making *m, const char *letters, const char *test);
static void put_member(Making *m, char letter);
static char value_without_item(Making *m);
static bool is_plain(const char *name);
static bool read_reply(EoJsonValue *response, EoStatementReply *reply);

EoStatus
eo_statement_make(EoStatement *s, const EoAttributeName *names, const EoItemKey *key,
				  const char *options, unsigned int set, const char *condition,
				  const char *update)
{
	Making		m = {.s = s,.names = names};
	EoBuf		where;
	EoBuf		changes;
	EoStatus	status;

	s->inserts = condition == NULL;
	eo_buf_init(&s->text, MAX_TEXT);
	eo_buf_init(&where, MAX_PART);
	eo_buf_init(&changes, MAX_PART);
	eo_expression_expand(&where, s->inserts ? "" : condition, options, set);
	eo_expression_expand(&changes, update, options, set);
	status = eo_buf_status(&where);
	if (status == EO_OK)
		status = eo_buf_status(&changes);
	if (status == EO_OK)
	{
		if (s->inserts)
			put_insert(&m, key, eo_buf_str(&changes));
		else
			put_update(&m, key, eo_buf_str(&where), eo_buf_str(&changes));
		status = s->impossible ? EO_OK : eo_buf_status(&s->text);
	}
	/* A write without a spelling keeps no text. */
	if (s->impossible || status != EO_OK)
		eo_buf_free(&s->text);
	eo_buf_free(&where);
	eo_buf_free(&changes);
	return status;
}

/* ----- what both spellings need ----- */

static void
fail(Making *m)
{
	m->s->impossible = true;
}

/* Move past a text, if it comes next. */
static bool
accept(Making *m, const char *text)
{
	size_t		len = strlen(text);

	if (strncmp(m->p, text, len) != 0)
		return false;
	m->p += len;
	return true;
}

/* The same, and append it. */
static bool
copy(Making *m, const char *text)
{
	if (!accept(m, text))
		return false;
	eo_buf_adds(&m->s->text, text);
	return true;
}

/* Move past the sign and its letter, if they come next; returns the letter, or 0. */
static char
accept_letter(Making *m, char sign)
{
	char		letter = m->p[0] == sign ? m->p[1] : '\0';

	if (letter != '\0')
		m->p += 2;
	return letter;
}

/* Move past the next closing parenthesis. */
static void
skip_arguments(Making *m)
{
	m->p += strcspn(m->p, ")");
	if (!accept(m, ")"))
		fail(m);
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

static void
put_value(Making *m, char letter)
{
	eo_buf_addc(&m->s->text, '?');
	put_parameter(m, letter);
}

/* The attribute's name; if it cannot be named the statement is impossible. */
static const char *
name_of(Making *m, char letter)
{
	for (const EoAttributeName *n = m->names; n->letter != '\0'; n++)
	{
		if (n->letter == letter && n->name != NULL && is_plain(n->name))
			return n->name;
	}
	fail(m);
	return "";
}

/* Append a name in double quotes, as they are written in a string of JSON. */
static void
put_name(Making *m, char letter)
{
	eo_buf_addf(&m->s->text, "\\\"%s\\\"", name_of(m, letter));
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

/* ----- UPDATE ----- */

static void
put_update(Making *m, const EoItemKey *key, const char *condition, const char *update)
{
	EoBuf	   *text = &m->s->text;

	put_changes(m, update);
	eo_buf_adds(text, " WHERE ");
	put_key(m, key, "\\\"", " AND ", "\\\" = ?");
	eo_buf_adds(text, " AND ");
	put_condition(m, condition);
	put_presence(m, m->required, " IS NOT MISSING");
	put_presence(m, m->absent, " IS MISSING");
	eo_buf_adds(text, " RETURNING ALL NEW *\",\"ReturnValuesOnConditionCheckFailure\":"
				"\"ALL_OLD\",\"Parameters\":[");

	/*
	 * Whether a SET sees what another SET of the same statement has changed
	 * is not documented.
	 */
	if (strpbrk(m->read, m->changed) != NULL)
		fail(m);
}

/* Append a SET or REMOVE for each attribute that an update changes. */
static void
put_changes(Making *m, const char *update)
{
	bool		removes = false;

	for (m->p = update + strspn(update, ", "); *m->p != '\0'; m->p += strspn(m->p, ", "))
	{
		if (accept(m, "SET "))
			removes = false;
		else if (accept(m, "REMOVE "))
			removes = true;
		else if (accept(m, "ADD "))
			put_begun_set(m);
		else
		{
			m->target = accept_letter(m, '#');
			note(m, m->changed, sizeof(m->changed), m->target);
			eo_buf_adds(&m->s->text, removes ? " REMOVE " : " SET ");
			put_name(m, m->target);
			if (!removes && !copy(m, " = "))
				fail(m);
			if (!removes)
				put_operand(m);
			while (!removes && (copy(m, " + ") || copy(m, " - ")))
				put_operand(m);
		}
		if (m->s->impossible)
			return;
	}
}

/* Append a SET for what an update adds to a set, "#d :G", which must not be there. */
static void
put_begun_set(Making *m)
{
	char		letter = accept_letter(m, '#');
	char		value = accept(m, " ") ? accept_letter(m, ':') : '\0';

	if (letter == '\0' || value == '\0')
	{
		fail(m);
		return;
	}
	note(m, m->changed, sizeof(m->changed), letter);
	note(m, m->absent, sizeof(m->absent), letter);
	eo_buf_adds(&m->s->text, " SET ");
	put_name(m, letter);
	eo_buf_adds(&m->s->text, " = ");
	put_value(m, value);
}

/* Append a value, or an attribute that must exist. */
static void
put_operand(Making *m)
{
	char		letter = accept_letter(m, ':');

	if (letter != '\0')
	{
		put_value(m, letter);
		return;
	}
	letter = accept(m, IF_NOT_EXISTS) ? accept_letter(m, '#') : '\0';
	put_name(m, letter);
	skip_arguments(m);
	note(m, m->required, sizeof(m->required), letter);
	if (letter != m->target)
		note(m, m->read, sizeof(m->read), letter);
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
	char		letter;
	bool		absent;

	for (m->p = condition; *m->p != '\0';)
	{
		if (accept(m, OR_NOT_CONTAINED))
			skip_arguments(m);
		else if ((absent = accept(m, NOT_EXISTS)) || accept(m, EXISTS))
		{
			put_name(m, accept_letter(m, '#'));
			eo_buf_adds(&m->s->text, absent ? " IS MISSING" : " IS NOT MISSING");
			if (!accept(m, ")"))
				fail(m);
		}
		else if ((letter = accept_letter(m, '#')) != '\0')
			put_name(m, letter);
		else if ((letter = accept_letter(m, ':')) != '\0')
			put_value(m, letter);
		else
		{
			depth += (*m->p == '(') - (*m->p == ')');
			if (depth == 0 && strncmp(m->p, " OR ", 4) == 0)
				fail(m);
			eo_buf_addc(&m->s->text, *m->p++);
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

/* ----- INSERT ----- */

/* Append what an update sets, as the members of a new item. */
static void
put_insert(Making *m, const EoItemKey *key, const char *update)
{
	char		letter;

	eo_buf_adds(&m->s->text, " VALUE {");
	put_key(m, key, "'", ", ", "': ?");
	m->p = update;
	if (!accept(m, "SET "))
		fail(m);
	for (; (letter = accept_letter(m, '#')) != '\0'; m->p += strspn(m->p, ", "))
		put_member(m, letter);
	/* Nothing is removed from an item that does not exist. */
	if (*m->p != '\0' && !accept(m, "REMOVE "))
		fail(m);
	eo_buf_adds(&m->s->text, "}\",\"Parameters\":[");
}

static void
put_member(Making *m, char letter)
{
	char		value;

	eo_buf_addf(&m->s->text, ", '%s': ?", name_of(m, letter));
	if (!accept(m, " = "))
		fail(m);
	value = value_without_item(m);
	if (accept(m, " + "))
	{
		put_parameter(m, SUM);
		put_parameter(m, value);
		value = value_without_item(m);
	}
	put_parameter(m, value);
}

/* The value that an operand has where there is no item. */
static char
value_without_item(Making *m)
{
	char		letter;

	if (accept(m, IF_NOT_EXISTS))
	{
		if (accept_letter(m, '#') == '\0' || !accept(m, ", "))
			fail(m);
		letter = accept_letter(m, ':');
		skip_arguments(m);
	}
	else
		letter = accept_letter(m, ':');
	if (letter == '\0')
		fail(m);
	return letter;
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
