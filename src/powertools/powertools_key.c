/*-------------------------------------------------------------------------
 *
 * powertools_key.c
 *	  Digests of payloads, as Powertools for AWS Lambda makes them.
 *
 * Each library writes the payload in a form of its own and takes the MD5 of that:
 *
 *	 python		   json.dumps with sorted keys, outside ASCII in escapes; hexadecimal
 *	 typescript	   JSON.stringify of the value with sorted keys; base64
 *	 java		   Jackson's text, and of a scalar its value; hexadecimal
 *	 dotnet		   the text as it is, and of a scalar its value; hexadecimal
 *
 * All but the last read the payload first, so numbers are as the language has read
 * them, and of members with the same name one is left.  What is digested is what
 * the library digests without a path; a path selects the payload that is given here.
 *
 * A payload may have a gigabyte, so everything that goes through a string or sorts members can be
 * interrupted.  All memory is PostgreSQL's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/base64.h"
#include "common/md5.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "powertools/json_number.h"
#include "powertools/json_tree.h"
#include "powertools/lower_case.h"
#include "powertools/powertools_key.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define MD5_HEX_LEN (MD5_DIGEST_LENGTH * 2)
#define MD5_BASE64_LEN 24

/* The greatest name that JavaScript takes for an index is 2^32 - 2. */
#define MAX_INDEX UINT64CONST(4294967294)

/* How a library writes a surrogate that has no partner. */
typedef enum Unpaired
{
	ESCAPED,
	REPLACED,					/* by a question mark */
	REFUSED
} Unpaired;

/* How the library for a runtime writes JSON, and what it digests. */
typedef struct Style
{
	const char *runtime;
	void		(*put) (StringInfo out, const struct Style *style, EoJsonNode *node);
	void		(*put_number) (StringInfo out, const char *text);
	void		(*sort) (EoJsonNode *object);	/* NULL: as in the text */
	const char *comma;
	const char *colon;
	const char *escape;			/* format of a control character */
	bool		is_ascii;		/* all else is escaped */
	Unpaired	unpaired;
	bool		is_base64;		/* the digest; else hexadecimal */
} Style;

/* A member of an object, and what decides about its place in JavaScript. */
typedef struct Place
{
	EoJsonMember member;
	uint64		index;			/* of a name that is no index: MAX_INDEX + 1 */
	uint16	   *lower;			/* the name in lower case */
	size_t		lower_len;
	size_t		position;		/* in the text */
} Place;

static void put_json(StringInfo out, const Style *style, EoJsonNode *node);

/* ----- JSON ----- */

static bool
is_surrogate(pg_wchar c)
{
	return c >= 0xD800 && c <= 0xDFFF;
}

/* Put \uXXXX, twice outside the Basic Multilingual Plane. */
static void
put_escape(StringInfo out, const Style *style, pg_wchar c)
{
	if (c >= 0x10000)
	{
		appendStringInfo(out, style->escape, 0xD800 + ((c - 0x10000) >> 10));
		c = 0xDC00 + ((c - 0x10000) & 0x3FF);
	}
	appendStringInfo(out, style->escape, c);
}

/* A surrogate without a partner has no UTF-8. */
static void
put_unpaired(StringInfo out, const Style *style, pg_wchar c)
{
	switch (style->unpaired)
	{
		case ESCAPED:
			put_escape(out, style, c);
			break;
		case REPLACED:
			appendStringInfoChar(out, '?');
			break;
		case REFUSED:
			ereport(ERROR,
					(errcode(ERRCODE_UNTRANSLATABLE_CHARACTER),
					 errmsg("the payload has a surrogate without its partner"),
					 errdetail("Powertools for AWS Lambda for the runtime %s fails for a string with an unpaired \\u%04x.",
							   style->runtime, c)));
	}
}

/* Returns false if the character has no escape of two characters. */
static bool
put_short_escape(StringInfo out, pg_wchar c)
{
	static const char escaped[] = "\"\\\b\f\n\r\t";
	static const char letters[] = "\"\\bfnrt";
	const char *found = c > 0 && c < 0x80 ? strchr(escaped, (int) c) : NULL;

	if (found == NULL)
		return false;
	appendStringInfoChar(out, '\\');
	appendStringInfoChar(out, letters[found - escaped]);
	return true;
}

static void
put_characters(StringInfo out, const Style *style, const EoJsonNode *node, bool escapes)
{
	const char *end = node->text + node->len;
	int			len;

	for (const char *s = node->text; s < end; s += len)
	{
		pg_wchar	c = utf8_to_unicode((const unsigned char *) s);

		CHECK_FOR_INTERRUPTS();
		len = pg_utf_mblen((const unsigned char *) s);
		if (escapes && put_short_escape(out, c))
			continue;
		if (escapes && (c < ' ' || (style->is_ascii && c > '~')))
			put_escape(out, style, c);
		else if (is_surrogate(c))
			put_unpaired(out, style, c);
		else
			appendBinaryStringInfo(out, s, len);
	}
}

static void
put_string(StringInfo out, const Style *style, const EoJsonNode *node)
{
	appendStringInfoChar(out, '"');
	put_characters(out, style, node, true);
	appendStringInfoChar(out, '"');
}

static void
put_members(StringInfo out, const Style *style, EoJsonNode *node)
{
	bool		is_object = node->kind == EO_JSON_OBJECT;

	if (is_object && style->sort != NULL)
		style->sort(node);
	appendStringInfoChar(out, is_object ? '{' : '[');
	for (size_t i = 0; i < node->n; i++)
	{
		if (i > 0)
			appendStringInfoString(out, style->comma);
		if (is_object)
		{
			put_string(out, style, &node->members[i].name);
			appendStringInfoString(out, style->colon);
		}
		put_json(out, style, &node->members[i].value);
	}
	appendStringInfoChar(out, is_object ? '}' : ']');
}

/* Put a value as JSON.  The members of objects are sorted in place. */
static void
put_json(StringInfo out, const Style *style, EoJsonNode *node)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	switch (node->kind)
	{
		case EO_JSON_LITERAL:
			appendStringInfoString(out, node->text);
			break;
		case EO_JSON_NUMBER:
			style->put_number(out, node->text);
			break;
		case EO_JSON_STRING:
			put_string(out, style, node);
			break;
		case EO_JSON_ARRAY:
		case EO_JSON_OBJECT:
			put_members(out, style, node);
			break;
	}
}

/* ----- Java and .NET ----- */

/* Jackson's text of a container, else the value. */
static void
put_java(StringInfo out, const Style *style, EoJsonNode *node)
{
	if (node->kind == EO_JSON_STRING)
		put_characters(out, style, node, false);
	else if (node->kind == EO_JSON_NUMBER)
		eo_json_number_java(out, node->text);
	else
		put_json(out, style, node);
}

/* Jackson writes an infinite number as a string. */
static void
put_number_of_jackson(StringInfo out, const char *text)
{
	int			start = out->len;

	eo_json_number_java(out, text);
	if (out->data[out->len - 1] == 'y')
	{
		char	   *infinite = pstrdup(out->data + start);

		out->len = start;
		appendStringInfo(out, "\"%s\"", infinite);
		pfree(infinite);
	}
}

/* The text of a container or number as it is, else the value. */
static void
put_dotnet(StringInfo out, const Style *style, EoJsonNode *node)
{
	switch (node->kind)
	{
		case EO_JSON_LITERAL:
			if (node->text[0] != 'n')
				appendStringInfoString(out, node->text[0] == 't' ? "True" : "False");
			break;
		case EO_JSON_STRING:
			put_characters(out, style, node, false);
			break;
		case EO_JSON_NUMBER:
		case EO_JSON_ARRAY:
		case EO_JSON_OBJECT:
			appendBinaryStringInfo(out, node->text, (int) node->len);
			break;
	}
}

/* ----- order of members ----- */

/* qsort comparator of members, no two of which have the same name */
static int
compare_members(const void *a, const void *b)
{
	const EoJsonMember *x = a;
	const EoJsonMember *y = b;

	CHECK_FOR_INTERRUPTS();
	return eo_json_tree_compare(&x->name, &y->name);
}

static void
sort_by_code_points(EoJsonNode *object)
{
	if (object->n > 1)
		qsort(object->members, object->n, sizeof(EoJsonMember), compare_members);
}

/* The array index that a name is, or MAX_INDEX + 1: decimal, without leading zeros. */
static uint64
index_of(const EoJsonNode *name)
{
	uint64		index;

	if (name->len == 0 || name->len > 10 || strspn(name->text, "0123456789") != name->len ||
		(name->text[0] == '0' && name->len > 1))
		return MAX_INDEX + 1;
	index = strtou64(name->text, NULL, 10);
	return Min(index, MAX_INDEX + 1);
}

/* qsort comparator of places */
static int
compare_places(const void *a, const void *b)
{
	const Place *x = a;
	const Place *y = b;
	size_t		common = Min(x->lower_len, y->lower_len);

	CHECK_FOR_INTERRUPTS();
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	for (size_t i = 0; i < common; i++)
	{
		if (x->lower[i] != y->lower[i])
			return x->lower[i] < y->lower[i] ? -1 : 1;
	}
	if (x->lower_len != y->lower_len)
		return x->lower_len < y->lower_len ? -1 : 1;
	return x->position < y->position ? -1 : 1;
}

/*
 * The library sorts names in lower case, by UTF-16 code units, and assigns the members
 * to a new object in that order.  Names that differ in their case only stay in the
 * order that they had.  Every object of JavaScript has names that are array indexes
 * first.  An assignment to __proto__ makes no member.
 */
static void
sort_as_javascript(EoJsonNode *object)
{
	Place	   *places;
	size_t		n = 0;

	if (object->n == 0)
		return;
	places = palloc_extended(object->n * sizeof(Place), MCXT_ALLOC_HUGE);
	for (size_t i = 0; i < object->n; i++)
	{
		const EoJsonNode *name = &object->members[i].name;
		Place	   *place = &places[n];

		if (strcmp(name->text, "__proto__") == 0 && name->len == strlen("__proto__"))
			continue;
		place->member = object->members[i];
		place->index = index_of(name);
		place->lower = eo_lower_case(name->text, name->len, &place->lower_len);
		place->position = i;
		n++;
	}
	qsort(places, n, sizeof(Place), compare_places);
	for (size_t i = 0; i < n; i++)
	{
		object->members[i] = places[i].member;
		pfree(places[i].lower);
	}
	object->n = n;
	pfree(places);
}

/* ----- the digest ----- */

static char *
digest(const StringInfo text, bool is_base64)
{
	uint8		md5[MD5_DIGEST_LENGTH];
	char	   *result = palloc0(Max(MD5_HEX_LEN, MD5_BASE64_LEN) + 1);
	const char *why = NULL;

	if (!pg_md5_binary(text->data, text->len, md5, &why))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute MD5 of a payload"),
				 errdetail("%s", why)));
	if (!is_base64)
		hex_encode((const char *) md5, sizeof(md5), result);
	else if (pg_b64_encode((const void *) md5, sizeof(md5), result, MD5_BASE64_LEN) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not encode the MD5 of a payload")));
	return result;
}

static const Style styles[] = {
	{
		"python", put_json, eo_json_number_python, sort_by_code_points,
		", ", ": ", "\\u%04x", true, ESCAPED, false
	},
	{
		"typescript", put_json, eo_json_number_javascript, sort_as_javascript,
		",", ":", "\\u%04x", false, ESCAPED, true
	},
	{
		"java", put_java, put_number_of_jackson, NULL,
		",", ":", "\\u%04X", false, REPLACED, false
	},
	{
		"dotnet", put_dotnet, NULL, NULL,
		NULL, NULL, NULL, false, REFUSED, false
	},
};

static const Style *
find_style(const char *runtime)
{
	for (size_t i = 0; i < lengthof(styles); i++)
	{
		if (strcmp(runtime, styles[i].runtime) == 0)
			return &styles[i];
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid runtime \"%s\"", runtime),
			 errhint("The runtimes of Powertools for AWS Lambda are python, typescript, java and dotnet.")));
}

char *
eo_powertools_key_digest(const char *runtime, const char *payload, size_t len)
{
	const Style *style = find_style(runtime);
	char	   *utf8 = eo_text_bytes_to_utf8(payload, &len);
	EoJsonNode *tree = eo_json_tree_parse(utf8, len);
	StringInfoData text;

	initStringInfo(&text);
	style->put(&text, style, tree);
	return digest(&text, style->is_base64);
}
