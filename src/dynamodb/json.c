/*-------------------------------------------------------------------------
 *
 * json.c
 *	  JSON in and out of the wire, and DynamoDB's attribute values.
 *
 * The only file that includes json-c.  json-c accepts more than RFC 8259 and
 * keeps the last of two members with one name, so a linear scan goes before
 * it: the scan refuses what must not be there at all (bytes that are not
 * UTF-8, NUL, \u0000, lone surrogates) and counts the colons outside strings.
 * Every member of every object has exactly one such colon; if the parsed tree
 * has fewer members than that, a name was repeated.
 *
 *-------------------------------------------------------------------------
 */
#include <json-c/json.h>

#include "dynamodb/buf.h"
#include "dynamodb/status.h"

#include "dynamodb/json.h"

struct EoJson
{
	struct json_object *root;
};

static bool scan_text(const char *text, size_t len, size_t *colons);
static bool scan_escape(const char *text, size_t len, size_t *i);
static size_t count_members(struct json_object *v);
static EoStatus escape_text(const char **text, size_t *len);

/* An EoJsonValue is json-c's object under another name. */
static struct json_object *
unwrap(EoJsonValue *v)
{
	return (struct json_object *) v;
}

EoStatus
eo_json_parse(const char *text, size_t len, EoJson **doc)
{
	static struct json_tokener *tokener;
	struct json_object *root;
	enum json_tokener_error error;
	size_t		colons = 0;
	EoStatus	status;

	*doc = NULL;
	if (len > INT32_MAX - 1)
		return EO_TOO_LARGE;
	if (!scan_text(text, len, &colons))
		return EO_INVALID;
	if (tokener == NULL)
		tokener = json_tokener_new_ex(EO_JSON_MAX_DEPTH);
	if (tokener == NULL)
		return EO_NO_MEMORY;
	status = escape_text(&text, &len);
	if (status != EO_OK)
		return status;
	json_tokener_reset(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	root = json_tokener_parse_ex(tokener, text, (int) len);
	error = json_tokener_get_error(tokener);
	if (error == json_tokener_continue && root == NULL)
	{
		/* A number at the very end is complete only when the text is. */
		root = json_tokener_parse_ex(tokener, "", 1);
		error = json_tokener_get_error(tokener);
	}
	if (error != json_tokener_success || !json_object_is_type(root, json_type_object) ||
		count_members(root) != colons)
	{
		json_object_put(root);
		if (error == json_tokener_error_depth)
			return EO_TOO_LARGE;
		return EO_INVALID;
	}

	/* Only white space may follow; the scan has seen it to be text. */
	for (size_t i = json_tokener_get_parse_end(tokener); i < len; i++)
	{
		if (strchr(" \t\r\n", text[i]) == NULL)
		{
			json_object_put(root);
			return EO_INVALID;
		}
	}
	*doc = malloc(sizeof(EoJson));
	if (*doc == NULL)
	{
		json_object_put(root);
		return EO_NO_MEMORY;
	}
	(*doc)->root = root;
	return EO_OK;
}

void
eo_json_free(EoJson *doc)
{
	if (doc == NULL)
		return;
	json_object_put(doc->root);
	free(doc);
}

EoJsonValue *
eo_json_root(const EoJson *doc)
{
	return doc != NULL ? (EoJsonValue *) doc->root : NULL;
}

EoJsonValue *
eo_json_get(EoJsonValue *v, const char *name)
{
	struct json_object *member = NULL;

	if (v == NULL || !json_object_is_type(unwrap(v), json_type_object) ||
		!json_object_object_get_ex(unwrap(v), name, &member))
		return NULL;
	return (EoJsonValue *) member;
}

size_t
eo_json_array_length(EoJsonValue *v)
{
	if (v == NULL || !json_object_is_type(unwrap(v), json_type_array))
		return 0;
	return json_object_array_length(unwrap(v));
}

EoJsonValue *
eo_json_array_get(EoJsonValue *v, size_t i)
{
	if (i >= eo_json_array_length(v))
		return NULL;
	return (EoJsonValue *) json_object_array_get_idx(unwrap(v), i);
}

const char *
eo_json_string(EoJsonValue *v, size_t *len)
{
	*len = 0;
	if (v == NULL || !json_object_is_type(unwrap(v), json_type_string))
		return NULL;
	*len = (size_t) json_object_get_string_len(unwrap(v));
	return json_object_get_string(unwrap(v));
}

const char *
eo_json_attr_s(EoJsonValue *item, const char *name, size_t *len)
{
	return eo_json_string(eo_json_get(eo_json_get(item, name), "S"), len);
}

bool
eo_json_attr_n(EoJsonValue *item, const char *name, int64_t *value)
{
	size_t		len;
	const char *s = eo_json_string(eo_json_get(eo_json_get(item, name), "N"), &len);
	size_t		i = 0;
	bool		negative = false;
	uint64_t	n = 0;
	const uint64_t limit = (uint64_t) INT64_MAX;

	if (s == NULL)
		return false;
	if (s[0] == '-')
	{
		negative = true;
		i = 1;
	}
	if (i == len)
		return false;
	for (; i < len; i++)
	{
		unsigned int digit = (unsigned int) (s[i] - '0');

		if (digit > 9 || n > (limit + negative - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*value = negative ? (int64_t) (0 - n) : (int64_t) n;
	return true;
}

void
eo_json_put(EoBuf *out, EoJsonValue *v)
{
	size_t		len = 0;
	const char *text = json_object_to_json_string_length(unwrap(v), JSON_C_TO_STRING_PLAIN |
														 JSON_C_TO_STRING_NOSLASHESCAPE, &len);

	if (text == NULL)
		out->status = EO_NO_MEMORY;
	else
		eo_buf_add(out, text, len);
}

void
eo_json_put_string(EoBuf *out, const char *s, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	size_t		plain = 0;		/* start of what needs no escape */

	eo_buf_addc(out, '"');
	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];
		char		escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
			continue;
		eo_buf_add(out, s + plain, i - plain);
		plain = i + 1;
		if (c == '"' || c == '\\')
		{
			escape[1] = (char) c;
			eo_buf_add(out, escape, 2);
		}
		else
			eo_buf_add(out, escape, sizeof(escape));
	}
	eo_buf_add(out, s + plain, len - plain);
	eo_buf_addc(out, '"');
}

/*
 * RFC 3629, section 4.
 */
bool
eo_json_utf8_valid(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *) s;
	const unsigned char *end = p + len;

	while (p < end)
	{
		unsigned char c = *p++;
		int			more = c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;

		if (c == 0 || more < 0 || end - p < more)
			return false;
		if ((c == 0xe0 && *p < 0xa0) || (c == 0xed && *p > 0x9f) ||
			(c == 0xf0 && *p < 0x90) || (c == 0xf4 && *p > 0x8f))
			return false;
		for (; more > 0; more--)
		{
			if ((*p++ & 0xc0) != 0x80)
				return false;
		}
	}
	return true;
}

static bool
scan_text(const char *text, size_t len, size_t *colons)
{
	bool		in_string = false;

	if (!eo_json_utf8_valid(text, len))
		return false;
	for (size_t i = 0; i < len; i++)
	{
		char		c = text[i];

		if (c == '"')
			in_string = !in_string;
		else if (in_string)
		{
			if ((unsigned char) c < 0x20)
				return false;
			if (c == '\\' && !scan_escape(text, len, &i))
				return false;
		}
		else if (c == ':')
			(*colons)++;
		else if (strchr("/'NI", c) != NULL)
			return false;		/* comments, other quotes, NaN, Infinity */
	}
	return !in_string;
}

/* Value of four hexadecimal digits; -1 if they are not. */
static int
hex4(const char *text, size_t len, size_t at)
{
	int			value = 0;

	if (at + 4 > len)
		return -1;
	for (size_t i = at; i < at + 4; i++)
	{
		char		c = text[i];
		int			digit = -1;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			digit = c - 'A' + 10;
		if (digit < 0)
			return -1;
		value = value * 16 + digit;
	}
	return value;
}

/* text[*i] is a backslash in a string; moves *i to the escape's last byte. */
static bool
scan_escape(const char *text, size_t len, size_t *i)
{
	int			unit;
	int			low;

	if (*i + 1 >= len || strchr("\"\\/bfnrtu", text[*i + 1]) == NULL)
		return false;
	(*i)++;
	if (text[*i] != 'u')
		return true;
	unit = hex4(text, len, *i + 1);
	if (unit <= 0 || (unit >= 0xdc00 && unit <= 0xdfff))
		return false;
	*i += 4;
	if (unit < 0xd800 || unit > 0xdbff)
		return true;
	if (*i + 2 >= len || text[*i + 1] != '\\' || text[*i + 2] != 'u')
		return false;
	low = hex4(text, len, *i + 3);
	*i += 6;
	return low >= 0xdc00 && low <= 0xdfff;
}

/*
 * Strict json-c of some versions (0.17 and 0.18) takes the bytes of UTF-8 for
 * control characters and refuses them.  So they are escaped before; that is
 * the same text.  It has been scanned.
 */
static EoStatus
escape_text(const char **text, size_t *len)
{
	static EoBuf escaped;
	const unsigned char *p = (const unsigned char *) *text;
	const unsigned char *end = p + *len;

	while (p < end && *p < 0x80)
		p++;
	if (p == end)
		return EO_OK;
	if (escaped.max == 0)
		eo_buf_init(&escaped, (size_t) INT32_MAX - 1);
	eo_buf_reset(&escaped);
	eo_buf_add(&escaped, *text, (size_t) (p - (const unsigned char *) *text));
	while (p < end)
	{
		unsigned int c = *p++;
		int			more = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;

		if (more == 0)
		{
			eo_buf_addc(&escaped, (char) c);
			continue;
		}
		c &= 0x3fu >> more;
		for (; more > 0; more--)
			c = c << 6 | (*p++ & 0x3fu);
		if (c >= 0x10000)
			eo_buf_addf(&escaped, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
		else
			eo_buf_addf(&escaped, "\\u%04x", c);
	}
	*text = escaped.data;
	*len = escaped.len;
	return eo_buf_status(&escaped);
}

static size_t
count_members(struct json_object *v)
{
	size_t		n = 0;

	if (json_object_is_type(v, json_type_object))
	{
		struct json_object_iterator it = json_object_iter_begin(v);
		struct json_object_iterator end = json_object_iter_end(v);

		for (; !json_object_iter_equal(&it, &end); json_object_iter_next(&it))
			n += 1 + count_members(json_object_iter_peek_value(&it));
	}
	else if (json_object_is_type(v, json_type_array))
	{
		for (size_t i = 0; i < json_object_array_length(v); i++)
			n += count_members(json_object_array_get_idx(v, i));
	}
	return n;
}
