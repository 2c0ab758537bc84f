/*-------------------------------------------------------------------------
 *
 * json.c
 *	  JSON in and out of the wire, and DynamoDB's attribute values.
 *
 * The only file that includes json-c.  json-c accepts more than RFC 8259 and
 * keeps the last of two members with one name, so a linear scan goes before
 * it: the scan refuses what must not be there at all (bytes that are not
 * UTF-8, NUL, lone surrogates) and counts the colons outside strings.
 * Every member of every object has exactly one such colon; if the parsed tree
 * has fewer members than that, a name was repeated.
 *
 * json-c cuts a member's name at a \u0000, so the scan refuses that, too.  A string
 * value may have one, because another client may have stored it in an attribute that
 * nobody here reads; eo_json_string() does not hand such a string out.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/json.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <json-c/printbuf.h>

/* Bytes in a string that are more than themselves, or have to be escaped. */
enum
{
	FIRST_CONTROL = 0,
	LAST_CONTROL = 0x1f,
	DELETE = 0x7f
};

static const bool is_special[256] = {
	[FIRST_CONTROL...LAST_CONTROL] = true,['"'] = true,['\\'] = true,[DELETE] = true
};

/* A word of eight such bytes. */
#define EIGHT(byte) ((byte) * UINT64_C(0x0101010101010101))

static bool are_plain(const char *p);
static bool is_ascii(const char *p, size_t len);
static bool is_utf8(const char *s, size_t len);
static bool scan_text(const char *text, size_t len, size_t *colons, size_t *containers);
static bool scan_string(const char *text, size_t len, size_t *i, bool *has_nul);
static bool scan_escape(const char *text, size_t len, size_t *i, bool *has_nul);
static void put_escape(EoBuf *out, unsigned char c);
static bool put_native(EoBuf *out, struct json_object *attribute);
static void free_text(struct json_object *attribute, void *text);
static size_t count_members(struct json_object *v);
static EoStatus escape_text(const char **text, size_t *len);

/* A document and a value are a json_object under another name. */
static struct json_object *
unwrap(EoJsonValue *v)
{
	return (struct json_object *) v;
}

static struct json_tokener *tokener;

EoStatus
eo_json_parse(const char *text, size_t len, EoJson **doc)
{
	struct json_object *root;
	enum json_tokener_error error;
	size_t		colons = 0;
	size_t		containers = 0;
	bool		is_plain;
	EoStatus	status;

	*doc = NULL;
	if (len > INT32_MAX - 1)
		return EO_TOO_LARGE;
	is_plain = is_ascii(text, len);
	if ((!is_plain && !is_utf8(text, len)) || !scan_text(text, len, &colons, &containers))
		return EO_INVALID;
	if (containers > EO_JSON_MAX_CONTAINERS)
		return EO_TOO_LARGE;
	if (tokener == NULL)
		tokener = json_tokener_new_ex(EO_JSON_MAX_DEPTH);
	if (tokener == NULL)
		return EO_NO_MEMORY;
	status = is_plain ? EO_OK : escape_text(&text, &len);
	if (status != EO_OK)
		return status;
	json_tokener_reset(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	root = json_tokener_parse_ex(tokener, text, (int) len);
	error = json_tokener_get_error(tokener);
	if (error == json_tokener_continue && root == NULL)
	{
		/* A number at the end of the text is complete when the NUL is seen. */
		root = json_tokener_parse_ex(tokener, "", 1);
		error = json_tokener_get_error(tokener);
	}
	if (error != json_tokener_success || !json_object_is_type(root, json_type_object) ||
		count_members(root) != colons)
	{
		json_object_put(root);
		return EO_INVALID;
	}

	/* Only white space may follow. */
	for (size_t i = json_tokener_get_parse_end(tokener); i < len; i++)
	{
		if (strchr(" \t\r\n", text[i]) == NULL)
		{
			json_object_put(root);
			return EO_INVALID;
		}
	}
	*doc = (EoJson *) root;
	return EO_OK;
}

void
eo_json_free(EoJson *doc)
{
	json_object_put((struct json_object *) doc);
}

EoJsonValue *
eo_json_root(const EoJson *doc)
{
	return (EoJsonValue *) doc;
}

EoJsonValue *
eo_json_get(EoJsonValue *v, const char *name)
{
	struct json_object *member = NULL;

	/* To compare the one name of an attribute takes less than to hash it. */
	if (json_object_is_type(unwrap(v), json_type_object) &&
		json_object_object_length(unwrap(v)) == 1)
	{
		struct json_object_iterator it = json_object_iter_begin(unwrap(v));

		return strcmp(json_object_iter_peek_name(&it), name) == 0 ?
			(EoJsonValue *) json_object_iter_peek_value(&it) : NULL;
	}
	(void) json_object_object_get_ex(unwrap(v), name, &member);
	return (EoJsonValue *) member;
}

void
eo_json_get_all(EoJsonValue *v, const char *const *names, int n, EoJsonValue **members)
{
	struct json_object_iterator it;
	struct json_object_iterator end;

	memset(members, 0, (size_t) n * sizeof(*members));
	if (!json_object_is_type(unwrap(v), json_type_object))
		return;
	it = json_object_iter_begin(unwrap(v));
	end = json_object_iter_end(unwrap(v));
	for (; !json_object_iter_equal(&it, &end); json_object_iter_next(&it))
	{
		const char *name = json_object_iter_peek_name(&it);

		for (int i = 0; i < n; i++)
		{
			if (names[i][0] != name[0] || strcmp(names[i], name) != 0)
				continue;
			members[i] = (EoJsonValue *) json_object_iter_peek_value(&it);
			break;
		}
	}
}

size_t
eo_json_array_length(EoJsonValue *v)
{
	if (!json_object_is_type(unwrap(v), json_type_array))
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

static bool
is_numeric(EoJsonValue *v)
{
	return json_object_is_type(unwrap(v), json_type_int) ||
		json_object_is_type(unwrap(v), json_type_double);
}

int64_t
eo_json_integer(EoJsonValue *v)
{
	return is_numeric(v) ? json_object_get_int64(unwrap(v)) : 0;
}

double
eo_json_number(EoJsonValue *v)
{
	return is_numeric(v) ? json_object_get_double(unwrap(v)) : 0;
}

const char *
eo_json_string(EoJsonValue *v, size_t *len)
{
	const char *s;
	size_t		n;

	*len = 0;
	if (!json_object_is_type(unwrap(v), json_type_string))
		return NULL;
	s = json_object_get_string(unwrap(v));
	n = (size_t) json_object_get_string_len(unwrap(v));
	if (memchr(s, '\0', n) != NULL)
		return NULL;
	*len = n;
	return s;
}

bool
eo_json_string_is(EoJsonValue *v, const char *text)
{
	size_t		len;
	const char *s = eo_json_string(v, &len);

	return s != NULL && strcmp(s, text) == 0;
}

const char *
eo_json_attr_s(EoJsonValue *item, const char *name, size_t *len)
{
	return eo_json_s(eo_json_get(item, name), len);
}

const char *
eo_json_s(EoJsonValue *attribute, size_t *len)
{
	return eo_json_string(eo_json_get(attribute, "S"), len);
}

bool
eo_json_attr_n(EoJsonValue *item, const char *name, int64_t *value)
{
	return eo_json_n(eo_json_get(item, name), value);
}

bool
eo_json_n(EoJsonValue *attribute, int64_t *value)
{
	size_t		len;
	const char *s = eo_json_string(eo_json_get(attribute, "N"), &len);
	char	   *end;
	long long	n;

	if (s == NULL || !isdigit((unsigned char) s[s[0] == '-']))
		return false;
	errno = 0;
	n = strtoll(s, &end, 10);
	if (errno != 0 || *end != '\0')
		return false;
	*value = n;
	return true;
}

/*
 * A text that is made here belongs to the attribute, as json-c's user data: it is
 * freed with the document.
 */
EoStatus
eo_json_text(EoJsonValue *value, const char **text, size_t *len)
{
	struct json_object *attribute = unwrap(value);
	EoBuf		out;
	bool		has_form;

	*text = eo_json_s(value, len);
	if (attribute == NULL || *text != NULL)
		return EO_OK;
	/* Of other types of JSON the user data is json-c's own. */
	if (!json_object_is_type(attribute, json_type_object))
		return EO_INVALID;
	*text = json_object_get_userdata(attribute);
	if (*text != NULL)
	{
		*len = strlen(*text);
		return EO_OK;
	}
	eo_buf_init(&out, (size_t) INT32_MAX - 1);
	has_form = put_native(&out, attribute);
	if (!has_form || eo_buf_status(&out) != EO_OK)
	{
		EoStatus	status = has_form ? eo_buf_status(&out) : EO_INVALID;

		eo_buf_free(&out);
		return status;
	}
	json_object_set_userdata(attribute, out.data, free_text);
	*text = out.data;
	*len = out.len;
	return EO_OK;
}

static void
free_text(struct json_object *attribute, void *text)
{
	(void) attribute;
	free(text);
}

#define DIGITS "0123456789"

/* RFC 8259, section 6: DynamoDB's numbers are the same, but are sent as strings. */
static bool
is_number(const char *s)
{
	size_t		n;

	s += *s == '-';
	n = strspn(s, DIGITS);
	if (n == 0 || (n > 1 && *s == '0'))
		return false;
	s += n;
	if (*s == '.')
	{
		n = strspn(++s, DIGITS);
		s += n;
	}
	if (n > 0 && (*s == 'e' || *s == 'E'))
	{
		s++;
		s += *s == '+' || *s == '-';
		n = strspn(s, DIGITS);
		s += n;
	}
	return n > 0 && *s == '\0';
}

/* Append a string, or a number, that DynamoDB sends as a string. */
static bool
put_scalar(EoBuf *out, struct json_object *v, bool number)
{
	size_t		len;
	const char *s = eo_json_string((EoJsonValue *) v, &len);

	if (s == NULL || (number && !is_number(s)))
		return false;
	if (number)
		eo_buf_add(out, s, len);
	else
		eo_json_put_string(out, s, len);
	return true;
}

/* Append a list, of attribute values, or a set, whose type is that of its elements. */
static bool
put_elements(EoBuf *out, struct json_object *list, const char *type)
{
	if (!json_object_is_type(list, json_type_array))
		return false;
	eo_buf_addc(out, '[');
	for (size_t i = 0; i < json_object_array_length(list); i++)
	{
		struct json_object *element = json_object_array_get_idx(list, i);

		if (i > 0)
			eo_buf_addc(out, ',');
		if (strcmp(type, "L") == 0 ? !put_native(out, element) :
			!put_scalar(out, element, strcmp(type, "NS") == 0))
			return false;
	}
	eo_buf_addc(out, ']');
	return true;
}

static bool
put_map(EoBuf *out, struct json_object *map)
{
	struct json_object_iterator it;
	struct json_object_iterator end;
	const char *comma = "";

	if (!json_object_is_type(map, json_type_object))
		return false;
	it = json_object_iter_begin(map);
	end = json_object_iter_end(map);
	eo_buf_addc(out, '{');
	for (; !json_object_iter_equal(&it, &end); json_object_iter_next(&it))
	{
		const char *name = json_object_iter_peek_name(&it);

		eo_buf_adds(out, comma);
		eo_json_put_string(out, name, strlen(name));
		eo_buf_addc(out, ':');
		if (!put_native(out, json_object_iter_peek_value(&it)))
			return false;
		comma = ",";
	}
	eo_buf_addc(out, '}');
	return true;
}

/*
 * Append the value of an attribute, an object whose one member is named by the type,
 * as JSON.  False: it has no form in JSON.  The recursion is as deep as the document.
 */
static bool
put_native(EoBuf *out, struct json_object *attribute)
{
	struct json_object_iterator it;
	const char *type;
	struct json_object *v;

	if (!json_object_is_type(attribute, json_type_object) ||
		json_object_object_length(attribute) != 1)
		return false;
	it = json_object_iter_begin(attribute);
	type = json_object_iter_peek_name(&it);
	v = json_object_iter_peek_value(&it);
	if (strcmp(type, "S") == 0 || strcmp(type, "N") == 0)
		return put_scalar(out, v, *type == 'N');
	if (strcmp(type, "M") == 0)
		return put_map(out, v);
	if (strcmp(type, "L") == 0 || strcmp(type, "SS") == 0 || strcmp(type, "NS") == 0)
		return put_elements(out, v, type);
	if (!json_object_is_type(v, json_type_boolean))
		return false;
	if (strcmp(type, "BOOL") == 0)
		eo_buf_adds(out, json_object_get_boolean(v) ? "true" : "false");
	else if (strcmp(type, "NULL") == 0 && json_object_get_boolean(v))
		eo_buf_adds(out, "null");
	else
		return false;
	return true;
}

void
eo_json_put(EoBuf *out, EoJsonValue *v)
{
	size_t		len = 0;
	const char *text = json_object_to_json_string_length(unwrap(v), JSON_C_TO_STRING_PLAIN |
														 JSON_C_TO_STRING_NOSLASHESCAPE, &len);

	if (v == NULL || text == NULL)
		out->status = v == NULL ? EO_INVALID : EO_NO_MEMORY;
	else
		eo_buf_add(out, text, len);
}

/*
 * Are eight bytes ASCII, and none of them special?  If none has the top bit, each of these
 * sums and differences sets it where the first of the bytes that are looked for is.
 */
static bool
are_plain(const char *p)
{
	uint64_t	eight;

	memcpy(&eight, p, sizeof(eight));
	return ((eight | (eight - EIGHT(' ')) | (eight + EIGHT(1)) |
			 ((eight ^ EIGHT('"')) - EIGHT(1)) | ((eight ^ EIGHT('\\')) - EIGHT(1))) &
			EIGHT(0x80)) == 0;
}

void
eo_json_put_string(EoBuf *out, const char *s, size_t len)
{
	size_t		plain = 0;		/* where the text without escapes begins */
	size_t		i = 0;

	eo_buf_addc(out, '"');
	while (i + 8 <= len && are_plain(s + i))
		i += 8;
	for (; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];

		if (!is_special[c])
			continue;
		eo_buf_add(out, s + plain, i - plain);
		put_escape(out, c);
		plain = i + 1;
	}
	eo_buf_add(out, s + plain, len - plain);
	eo_buf_addc(out, '"');
}

static void
put_escape(EoBuf *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char		escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

	if (c == '"' || c == '\\')
	{
		escape[1] = (char) c;
		eo_buf_add(out, escape, 2);
	}
	else
		eo_buf_add(out, escape, sizeof(escape));
}

/* Are there only bytes from 0x01 to 0x7f, as in most texts?  Looks at eight at a time. */
static bool
is_ascii(const char *p, size_t len)
{
	const char *end = p + len;
	uint64_t	eight;

	for (; end - p >= (ptrdiff_t) sizeof(eight); p += sizeof(eight))
	{
		memcpy(&eight, p, sizeof(eight));

		/*
		 * Without top bits, 0 is the only byte that gets one by the
		 * subtraction.
		 */
		if (((eight | (eight - EIGHT(1))) & EIGHT(0x80)) != 0)
			return false;
	}
	while (p < end && *p != '\0' && ((unsigned char) *p & 0x80) == 0)
		p++;
	return p == end;
}

/* UTF-8 as RFC 3629, section 4, defines it, without a NUL byte. */
static bool
is_utf8(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *) s;
	const unsigned char *end = p + len;

	while (p < end)
	{
		unsigned char c = *p++;
		int			more = c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 :
		c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;

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

/*
 * Refuse what json-c would accept, and count the colons, and the beginnings of objects and arrays,
 * outside strings.  The text is UTF-8.
 */
static bool
scan_text(const char *text, size_t len, size_t *colons, size_t *containers)
{
	bool		has_nul = false;	/* the latest string has a \u0000 */

	for (size_t i = 0; i < len; i++)
	{
		switch (text[i])
		{
			case '"':
				if (!scan_string(text, len, &i, &has_nul))
					return false;
				break;
			case ':':
				if (has_nul)
					return false;
				(*colons)++;
				break;
			case '{':
			case '[':
				(*containers)++;
				break;
			case '/':
			case '\'':
			case 'N':
			case 'I':
				return false;	/* comments, single quotes, NaN, Infinity */
			default:
				break;
		}
	}
	return true;
}

/* text[*i] begins a string; moves *i to its end. */
static bool
scan_string(const char *text, size_t len, size_t *i, bool *has_nul)
{
	*has_nul = false;
	for (size_t at = *i + 1; at < len; at++)
	{
		unsigned char c = (unsigned char) text[at];

		if (!is_special[c])
			continue;
		*i = at;
		if (c == '"')
			return true;
		if (c < 0x20 || (c == '\\' && !scan_escape(text, len, i, has_nul)))
			return false;
		at = *i;
	}
	return false;
}

/* The value of four hexadecimal digits; -1 if there are not four. */
static int
hex4(const char *text, size_t len, size_t at)
{
	char		digits[5] = "";

	if (at + 4 > len)
		return -1;
	memcpy(digits, text + at, 4);
	return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int) strtol(digits, NULL, 16) : -1;
}

/*
 * text[*i] is a backslash in a string; moves *i to the escape's last byte.  Sets
 * *has_nul if it is \u0000.
 */
static bool
scan_escape(const char *text, size_t len, size_t *i, bool *has_nul)
{
	int			unit;
	int			low;

	if (*i + 1 >= len || strchr("\"\\/bfnrtu", text[*i + 1]) == NULL)
		return false;
	(*i)++;
	if (text[*i] != 'u')
		return true;
	unit = hex4(text, len, *i + 1);
	if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
		return false;
	*has_nul |= unit == 0;
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
 * json-c 0.17 and 0.18, when strict, take the bytes of UTF-8 for control
 * characters and refuse them.  So replace every character outside ASCII by its \u
 * escape, which means the same.  The text has been scanned and is UTF-8.
 */
static EoStatus
escape_text(const char **text, size_t *len)
{
	static EoBuf escaped;
	const unsigned char *p = (const unsigned char *) *text;
	const unsigned char *end = p + *len;

	if (escaped.max == 0)
		eo_buf_init(&escaped, (size_t) INT32_MAX - 1);
	eo_buf_reset(&escaped);
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

/* The members of all objects in a value. */
static size_t
count_members(struct json_object *v)
{
	size_t		n = 0;
	struct json_object_iterator it;
	struct json_object_iterator end;

	switch (json_object_get_type(v))
	{
		case json_type_object:
			it = json_object_iter_begin(v);
			end = json_object_iter_end(v);
			for (; !json_object_iter_equal(&it, &end); json_object_iter_next(&it))
				n += 1 + count_members(json_object_iter_peek_value(&it));
			break;
		case json_type_array:
			for (size_t i = 0; i < json_object_array_length(v); i++)
				n += count_members(json_object_array_get_idx(v, i));
			break;
		default:
			break;
	}
	return n;
}
