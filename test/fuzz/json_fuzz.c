/*
 * json_fuzz.c
 *	  Any bytes as a reply: parsed or refused, and what is parsed is walked.
 *	  What is written of a string found in it must be read back the same, and what
 *	  is made of an attribute is JSON.
 */
#include "wire/json.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* UTF-8 without a NUL byte, by the values of its characters. */
static bool
is_utf8(const char *s, size_t len)
{
	static const uint32_t least[] = {1, 0x80, 0x800, 0x10000};

	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];
		int			more = c < 0x80 ? 0 : (c & 0xe0) == 0xc0 ? 1 : (c & 0xf0) == 0xe0 ? 2 :
		(c & 0xf8) == 0xf0 ? 3 : -1;
		uint32_t	value = more == 0 ? c : c & (0x3fu >> more);

		if (more < 0)
			return false;
		for (int k = 0; k < more; k++)
		{
			if (++i == len || ((unsigned char) s[i] & 0xc0) != 0x80)
				return false;
			value = value << 6 | ((unsigned char) s[i] & 0x3f);
		}
		if (value < least[more] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
			return false;
	}
	return true;
}

/* The text that is made of an attribute of a type other than S can be parsed. */
static void
check_native(EoJsonValue *item, const char *name)
{
	const char *text;
	size_t		len;
	EoBuf		out;
	EoJson	   *again;

	if (eo_json_attr_s(item, name, &len) != NULL ||
		eo_json_text(eo_json_get(item, name), &text, &len) != EO_OK || text == NULL)
		return;
	eo_buf_init(&out, len + 100);
	eo_buf_adds(&out, "{\"x\":");
	eo_buf_adds(&out, text);
	eo_buf_adds(&out, "}");
	if (strlen(text) != len || eo_json_parse(out.data, out.len, &again) != EO_OK)
		abort();
	eo_json_free(again);
	eo_buf_free(&out);
}

static void
walk(EoJsonValue *v, int depth)
{
	size_t		len;
	const char *s = eo_json_string(v, &len);
	int64_t		n;
	static const char *const names[] = {"Item", "Attributes", "S", "a", "L"};

	if (depth > EO_JSON_MAX_DEPTH)
		abort();
	if (s != NULL)
	{
		EoBuf		out;
		EoJson	   *again;

		if (!is_utf8(s, len))
			abort();
		eo_buf_init(&out, 6 * len + 100);
		eo_buf_adds(&out, "{\"x\":{\"S\":");
		eo_json_put_string(&out, s, len);
		eo_buf_adds(&out, "}}");
		if (eo_json_parse(out.data, out.len, &again) != EO_OK ||
			strcmp(eo_json_attr_s(eo_json_root(again), "x", &len), s) != 0)
			abort();
		eo_json_free(again);
		eo_buf_free(&out);
	}
	(void) eo_json_attr_n(v, "N", &n);
	for (size_t i = 0; i < eo_json_array_length(v); i++)
		walk(eo_json_array_get(v, i), depth + 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		EoJsonValue *member = eo_json_get(v, names[i]);

		check_native(v, names[i]);
		if (member != NULL)
			walk(member, depth + 1);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	EoJson	   *doc;

	if (eo_json_parse((const char *) data, size, &doc) == EO_OK)
		walk(eo_json_root(doc), 0);
	eo_json_free(doc);
	return 0;
}
