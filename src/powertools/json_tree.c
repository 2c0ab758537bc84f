/*-------------------------------------------------------------------------
 *
 * json_tree.c
 *	  A value of type json as a tree, with everything that its text says.
 *
 * The tokens are PostgreSQL's own: its lexer has checked them.  Its parser is not
 * used, because it gives the names of members only after it has removed the escapes
 * from them, and then it refuses \u0000, unpaired surrogates, and characters that the
 * encoding of the database lacks.  All of these are valid in values of type json.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "powertools/json_tree.h"
#include "utils/memutils.h"

static void parse_value(JsonLexContext * lex, EoJsonNode *node);
pg_noreturn static void refuse(const char *detail);

static void parse_members(JsonLexContext * lex, EoJsonNode *node, JsonTokenType end);
static EoJsonMember *add_member(EoJsonNode *node, size_t *allocated);
static void merge_members(EoJsonNode *object);
static int	compare_names(const void *a, const void *b);
static void parse_string(JsonLexContext * lex, EoJsonNode *node);
static uint32 parse_escape(const char **at, const char *end);
static uint32 parse_code_unit(const char *hex);
static void next_token(JsonLexContext * lex);
static void expect(JsonLexContext * lex, JsonTokenType type);

EoJsonNode *
eo_json_tree_parse(char *text, size_t len)
{
	JsonLexContext *lex = eo_compat_json_lexer(text, len, PG_UTF8);
	EoJsonNode *tree = palloc0(sizeof(EoJsonNode));

	next_token(lex);
	parse_value(lex, tree);
	if (lex->token_type != JSON_TOKEN_END)
		refuse("There is more behind the value.");
	return tree;
}

/* Parse a value whose first token has been read, and read the token behind it. */
static void
parse_value(JsonLexContext * lex, EoJsonNode *node)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	switch (lex->token_type)
	{
		case JSON_TOKEN_NULL:
		case JSON_TOKEN_FALSE:
		case JSON_TOKEN_TRUE:
		case JSON_TOKEN_NUMBER:
			node->kind = lex->token_type == JSON_TOKEN_NUMBER ? EO_JSON_NUMBER : EO_JSON_LITERAL;
			node->len = lex->token_terminator - lex->token_start;
			node->text = pnstrdup(lex->token_start, node->len);
			break;
		case JSON_TOKEN_STRING:
			parse_string(lex, node);
			break;
		case JSON_TOKEN_ARRAY_START:
			node->kind = EO_JSON_ARRAY;
			parse_members(lex, node, JSON_TOKEN_ARRAY_END);
			break;
		case JSON_TOKEN_OBJECT_START:
			node->kind = EO_JSON_OBJECT;
			parse_members(lex, node, JSON_TOKEN_OBJECT_END);
			merge_members(node);
			break;
		default:
			refuse("A value is missing.");
	}
	next_token(lex);
}

/* Parse what is between the brackets or braces, up to the closing one. */
static void
parse_members(JsonLexContext * lex, EoJsonNode *node, JsonTokenType end)
{
	size_t		allocated = 0;

	node->text = lex->token_start;
	next_token(lex);
	while (lex->token_type != end)
	{
		EoJsonMember *member;

		if (node->n > 0)
		{
			expect(lex, JSON_TOKEN_COMMA);
			next_token(lex);
		}
		member = add_member(node, &allocated);
		if (node->kind == EO_JSON_OBJECT)
		{
			expect(lex, JSON_TOKEN_STRING);
			parse_string(lex, &member->name);
			next_token(lex);
			expect(lex, JSON_TOKEN_COLON);
			next_token(lex);
		}
		parse_value(lex, &member->value);
	}
	node->len = lex->token_terminator - node->text;
}

static EoJsonMember *
add_member(EoJsonNode *node, size_t *allocated)
{
	EoJsonMember *member;

	if (node->n == *allocated)
	{
		*allocated = *allocated == 0 ? 4 : *allocated * 2;
		node->members = node->members == NULL ? palloc(*allocated * sizeof(EoJsonMember)) :
			repalloc_huge(node->members, *allocated * sizeof(EoJsonMember));
	}
	member = &node->members[node->n++];
	memset(member, 0, sizeof(*member));
	return member;
}

/* Of members with the same name keep the last value, in the place of the first. */
static void
merge_members(EoJsonNode *object)
{
	EoJsonMember **by_name;
	size_t		kept = 0;

	if (object->n < 2)
		return;
	by_name = palloc_extended(object->n * sizeof(EoJsonMember *), MCXT_ALLOC_HUGE);
	for (size_t i = 0; i < object->n; i++)
		by_name[i] = &object->members[i];
	qsort(by_name, object->n, sizeof(EoJsonMember *), compare_names);

	/* compare_names() has put those with one name in their order in the text. */
	for (size_t i = 0; i < object->n;)
	{
		EoJsonMember *first = by_name[i];

		for (i++; i < object->n && eo_json_tree_compare(&first->name, &by_name[i]->name) == 0; i++)
		{
			first->value = by_name[i]->value;
			by_name[i]->name.text = NULL;
		}
	}
	for (size_t i = 0; i < object->n; i++)
	{
		if (object->members[i].name.text != NULL)
			object->members[kept++] = object->members[i];
	}
	object->n = kept;
	pfree(by_name);
}

/* qsort comparator of pointers to members of one object */
static int
compare_names(const void *a, const void *b)
{
	const EoJsonMember *x = *(EoJsonMember *const *) a;
	const EoJsonMember *y = *(EoJsonMember *const *) b;
	int			order = eo_json_tree_compare(&x->name, &y->name);

	CHECK_FOR_INTERRUPTS();
	return order != 0 ? order : x < y ? -1 : 1;
}

int
eo_json_tree_compare(const EoJsonNode *a, const EoJsonNode *b)
{
	int			order = memcmp(a->text, b->text, Min(a->len, b->len));

	return order != 0 ? order : a->len < b->len ? -1 : a->len > b->len;
}

/* The string of the current token without quotes and escapes. */
static void
parse_string(JsonLexContext * lex, EoJsonNode *node)
{
	const char *at = lex->token_start + 1;
	const char *end = lex->token_terminator - 1;
	char	   *text = palloc(end - at + 1);
	char	   *to = text;

	node->kind = EO_JSON_STRING;
	node->text = text;
	while (at < end)
	{
		CHECK_FOR_INTERRUPTS();
		if (*at != '\\')
			*to++ = *at++;
		else
		{
			/* No escape is shorter than its character. */
			unicode_to_utf8(parse_escape(&at, end), (unsigned char *) to);
			to += pg_utf_mblen((unsigned char *) to);
		}
	}
	*to = '\0';
	node->len = to - text;
}

/*
 * The code point of the escape at *at, which is moved behind it.  Two escapes of
 * surrogates that make a pair are one.
 */
static uint32
parse_escape(const char **at, const char *end)
{
	const char *escape = *at;
	uint32		unit;
	uint32		low;

	*at += 2;
	switch (escape[1])
	{
		case 'b':
			return '\b';
		case 'f':
			return '\f';
		case 'n':
			return '\n';
		case 'r':
			return '\r';
		case 't':
			return '\t';
		case 'u':
			break;
		default:
			return (unsigned char) escape[1];
	}
	unit = parse_code_unit(escape + 2);
	*at += 4;
	if (!is_utf16_surrogate_first(unit) || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
		return unit;
	low = parse_code_unit(*at + 2);
	if (!is_utf16_surrogate_second(low))
		return unit;
	*at += 6;
	return surrogate_pair_to_codepoint(unit, low);
}

/* The lexer has checked that there are four hexadecimal digits. */
static uint32
parse_code_unit(const char *hex)
{
	char		digits[5];

	memcpy(digits, hex, 4);
	digits[4] = '\0';
	return (uint32) strtoul(digits, NULL, 16);
}

static void
next_token(JsonLexContext * lex)
{
	JsonParseErrorType error = json_lex(lex);

	if (error != JSON_SUCCESS)
		refuse(json_errdetail(error, lex));
}

static void
expect(JsonLexContext * lex, JsonTokenType type)
{
	if (lex->token_type != type)
		refuse("A comma, a colon, a name or an end is missing.");
}

static void
refuse(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("the value is not valid JSON"),
			 errdetail("%s", detail)));
}
