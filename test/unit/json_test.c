/*
 * json_test.c
 *	  What is taken from the wire, and what is refused.
 */
#include "wire/json.h"
#include "unit.h"

static EoStatus
parse_n(const char *text, size_t len)
{
	EoJson	   *doc;
	EoStatus	status;
	char	   *copy = malloc(len + 1);

	/* An exact copy, so that the sanitizer sees a read past the end. */
	memcpy(copy, text, len);
	status = eo_json_parse(copy, len, &doc);
	eo_json_free(doc);
	free(copy);
	return status;
}

static EoStatus
parse(const char *text)
{
	return parse_n(text, strlen(text));
}

static void
refuses(const char *text, const char *what)
{
	ok(parse(text) == EO_INVALID, what);
}

static void
test_refusals(void)
{
	refuses("", "nothing");
	refuses(" ", "white space");
	refuses("[]", "an array at the top");
	refuses("\"x\"", "a string at the top");
	refuses("1", "a number at the top");
	refuses("null", "null at the top");
	refuses("{", "an open object");
	refuses("{\"a\":1", "an object cut short");
	refuses("{\"a\":\"b", "a string cut short");
	refuses("{\"a\":1}x", "text after the end");
	refuses("{\"a\":1}{}", "another object after the end");
	refuses("{'a':1}", "single quotes");
	refuses("{a:1}", "a bare name");
	refuses("{\"a\":1,}", "a comma too many");
	refuses("{\"a\":[1,]}", "a comma too many in an array");
	refuses("{\"a\":NaN}", "NaN");
	refuses("{\"a\":-Infinity}", "Infinity");
	refuses("{\"a\":01}", "a leading zero");
	refuses("{/* */\"a\":1}", "a comment");
	refuses("{\"a\":1}// x", "a comment at the end");
	refuses("{\"a\":\"\x01\"}", "a control character in a string");
	refuses("{\"a\":\"\n\"}", "a line break in a string");
	refuses("{\"a\":\"\\x\"}", "an unknown escape");
	refuses("{\"a\":\"\\u12\"}", "half an escape");
	refuses("{\"a\\u0000\":1}", "an escaped NUL in a name");
	refuses("{\"a\":{\"owner\\u0000x\":{\"S\":\"\\u0000\"}}}", "a name that would be cut to another");
	refuses("{\"a\":\"\\ud800\"}", "half a surrogate pair");
	refuses("{\"a\":\"\\ud800\\u0041\"}", "a surrogate without its other half");
	refuses("{\"a\":\"\\udc00\"}", "the other half alone");
	refuses("{\"a\":\"\xff\"}", "a byte that is not UTF-8");
	refuses("{\"abc\":\"\xff\"}", "the same in the last bytes, which are not looked at by eights");
	refuses("{\"a\":\"\xc3\"}", "a character cut short");
	refuses("{\"a\":\"\xc0\x80\"}", "an overlong NUL");
	refuses("{\"a\":\"\xed\xa0\x80\"}", "a surrogate in UTF-8");
	refuses("{\"a\":\"\xf4\x90\x80\x80\"}", "beyond Unicode");
	refuses("{\"a\":1,\"a\":2}", "a name twice");
	refuses("{\"a\":1,\"\\u0061\":2}", "a name twice, once escaped");
	refuses("{\"x\":{\"owner\":{\"S\":\"1\"},\"b\":1,\"owner\":{\"S\":\"2\"}}}", "a name twice, deeper");
	refuses("{\"x\":[{\"a\":1,\"a\":1}]}", "a name twice, in an array");
	ok(parse_n("{\"a\":\"b\0c\"}", 11) == EO_INVALID, "a NUL byte in a string");
	ok(parse_n("{}\0", 3) == EO_INVALID, "a NUL byte at the end");
}

static void
test_depth(void)
{
	char		text[1000];
	size_t		n = 0;

	n += (size_t) sprintf(text + n, "{\"a\":");
	for (int i = 0; i < EO_JSON_MAX_DEPTH - 2; i++)
		text[n++] = '[';
	for (int i = 0; i < EO_JSON_MAX_DEPTH - 2; i++)
		text[n++] = ']';
	text[n++] = '}';
	ok(parse_n(text, n) == EO_OK, "as deep as allowed");
	n = (size_t) sprintf(text, "{\"a\":");
	for (int i = 0; i < 400; i++)
		text[n++] = '[';
	ok(parse_n(text, n) == EO_INVALID, "deeper");
}

/* An item that is refused by the condition of a transaction, with a value that deep. */
static EoStatus
parse_nested(int levels, const char *open, const char *close)
{
	EoBuf		text;
	EoStatus	status;

	eo_buf_init(&text, 10000);
	eo_buf_adds(&text, "{\"CancellationReasons\":[{\"Item\":{\"a\":");
	for (int i = 0; i < levels; i++)
		eo_buf_adds(&text, open);
	eo_buf_adds(&text, "{\"SS\":[\"x\"]}");
	for (int i = 0; i < levels; i++)
		eo_buf_adds(&text, close);
	eo_buf_adds(&text, "}}]}");
	status = parse_n(text.data, text.len);
	eo_buf_free(&text);
	return status;
}

static void
test_nested(void)
{
	ok(parse_nested(32, "{\"L\":[", "]}") == EO_OK, "32 lists, as deep as DynamoDB goes");
	ok(parse_nested(32, "{\"M\":{\"m\":", "}}") == EO_OK, "32 maps");
	ok(parse_nested(40, "{\"L\":[", "]}") == EO_INVALID, "deeper");
}

/* A list of that many values. */
static EoStatus
parse_list(int n, const char *value)
{
	EoBuf		text;
	EoStatus	status;

	eo_buf_init(&text, 10000000);
	eo_buf_adds(&text, "{\"Item\":{\"a\":{\"L\":[");
	for (int i = 0; i < n; i++)
	{
		eo_buf_adds(&text, i > 0 ? "," : "");
		eo_buf_adds(&text, value);
	}
	eo_buf_adds(&text, "]}}}");
	status = parse_n(text.data, text.len);
	eo_buf_free(&text);
	return status;
}

static void
test_many(void)
{
	ok(parse_list(99990, "{\"N\":\"1\"}") == EO_OK, "a megabyte of numbers");
	ok(parse_list(200000, "\"{[\"") == EO_OK, "brackets in strings do not count");
	ok(parse_list(60000, "{\"M\":{}}") == EO_TOO_LARGE, "half a megabyte of empty maps");
	ok(parse_list(60000, "{\"L\":[]}") == EO_TOO_LARGE, "or lists");
}

/* A string with a NUL is in nobody's way, and nobody gets it. */
static void
test_nul(void)
{
	const char *text = "{\"a\":{\"S\":\"x\\u0000y\"},\"b\":{\"S\":\"\\u0000\"},\"c\":{\"S\":\"z\"}}";
	EoJson	   *doc;
	EoJsonValue *item;
	size_t		len = 7;

	ok(eo_json_parse(text, strlen(text), &doc) == EO_OK, "an escaped NUL is parsed");
	item = eo_json_root(doc);
	ok(eo_json_attr_s(item, "a", &len) == NULL && len == 0, "but is in no string");
	ok(eo_json_attr_s(item, "b", &len) == NULL && eo_json_get(item, "b") != NULL, "nor alone");
	is_string(eo_json_attr_s(item, "c", &len), "z", "another string can be read");
	eo_json_free(doc);
}

/* The JSON of an attribute; NULL: it has none. */
static const char *
json_of(const char *attribute)
{
	static char copy[1000];
	EoBuf		text;
	EoJson	   *doc;
	const char *json;
	const char *again;
	size_t		len;
	size_t		len_again;
	EoStatus	status;

	eo_buf_init(&text, 10000);
	eo_buf_addf(&text, "{\"x\":%s}", attribute);
	if (eo_json_parse(text.data, text.len, &doc) != EO_OK)
		abort();
	status = eo_json_text(eo_json_get(eo_json_root(doc), "x"), &json, &len);
	if (status == EO_OK && (json == NULL || strlen(json) != len ||
							eo_json_text(eo_json_get(eo_json_root(doc), "x"), &again,
										 &len_again) != EO_OK ||
							again != json || len_again != len))
		abort();
	if (status == EO_OK)
		snprintf(copy, sizeof(copy), "%s", json);
	eo_json_free(doc);
	eo_buf_free(&text);
	return status == EO_OK ? copy : NULL;
}

static void
test_native(void)
{
	static const struct
	{
		const char *attribute;
		const char *json;
	}			all[] = {
		{"{\"S\":\"{\\\"a\\\": 1}\"}", "{\"a\": 1}"},
		{"{\"S\":\"\"}", ""},
		{"{\"N\":\"-12.50E+3\"}", "-12.50E+3"},
		{"{\"N\":\"0.00000000000000000000000000000000000001\"}", "0.00000000000000000000000000000000000001"},
		{"{\"BOOL\":false}", "false"},
		{"{\"BOOL\":true}", "true"},
		{"{\"NULL\":true}", "null"},
		{"{\"L\":[]}", "[]"},
		{"{\"M\":{}}", "{}"},
		{"{\"SS\":[\"a\",\"\\\"\\n\\u00e9\"]}", "[\"a\",\"\\\"\\u000a\xc3\xa9\"]"},
		{"{\"NS\":[\"1\",\"-2.5\"]}", "[1,-2.5]"},
		{"{\"M\":{\"\\\"b/\":{\"L\":[{\"N\":\"7\"},{\"S\":\"7\"}]},\"N\":{\"NULL\":true}}}",
		"{\"\\\"b/\":[7,\"7\"],\"N\":null}"}
	};
	static const char *const none[] = {
		"{\"B\":\"AA==\"}", "{\"BS\":[\"AA==\"]}", "{\"M\":{\"a\":{\"B\":\"AA==\"}}}", "{\"L\":[{\"S\":\"\"},{\"BS\":[]}]}",
		"{\"S\":\"\\u0000\"}", "{\"SS\":[\"\\u0000\"]}", "{\"S\":1}", "{\"N\":1}", "{\"BOOL\":\"true\"}", "{\"NULL\":false}",
		"{\"L\":{}}", "{\"M\":[]}", "{\"L\":[1]}", "{\"L\":[null]}", "{\"SS\":[1]}", "{\"X\":true}", "{}", "[]", "\"S\"", "1", "1.5",
		"{\"N\":\"1\",\"BOOL\":true}", "{\"N\":\"\"}", "{\"N\":\"-\"}", "{\"N\":\"01\"}", "{\"N\":\"1.\"}", "{\"N\":\".5\"}",
		"{\"N\":\"1e\"}", "{\"N\":\"1e+\"}", "{\"N\":\"+1\"}", "{\"N\":\"NaN\"}", "{\"N\":\"0x1\"}", "{\"N\":\"1 \"}", "{\"NS\":[\"x\"]}"
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		is_string(json_of(all[i].attribute), all[i].json, all[i].attribute);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		ok(json_of(none[i]) == NULL, none[i]);
}

static void
test_values(void)
{
	const char *text;
	EoJson	   *doc;
	EoJsonValue *item;
	EoJsonValue *list;
	int64_t		n = 7;
	size_t		len;

	text = " {\"Item\":{\"s\":{\"S\":\"\\u00e9 \\ud83d\\ude00 a:b \\\"q\\\"\"},\"n\":{\"N\":\"-42\"},"
		"\"big\":{\"N\":\"9223372036854775807\"},\"bigger\":{\"N\":\"9223372036854775808\"},"
		"\"e\":{\"N\":\"1E2\"},\"d\":{\"N\":\"1.5\"},\"empty\":{\"N\":\"\"},\"minus\":{\"N\":\"-\"},\"b\":{\"BOOL\":true}},"
		"\"L\":[1,{\"x\":null},\"y\"],\"num\":12.5} \n";
	ok(eo_json_parse(text, strlen(text), &doc) == EO_OK, "a reply is parsed");
	item = eo_json_get(eo_json_root(doc), "Item");
	is_string(eo_json_attr_s(item, "s", &len), "\xc3\xa9 \xf0\x9f\x98\x80 a:b \"q\"", "a string, unescaped");
	ok(len == 15, "its length in bytes");
	ok(eo_json_attr_n(item, "n", &n) && n == -42, "a number");
	ok(eo_json_attr_n(item, "big", &n) && n == INT64_MAX, "the largest");
	ok(!eo_json_attr_n(item, "bigger", &n), "one too large");
	ok(!eo_json_attr_n(item, "e", &n), "an exponent");
	ok(!eo_json_attr_n(item, "d", &n), "a fraction");
	ok(!eo_json_attr_n(item, "empty", &n), "no digits");
	ok(!eo_json_attr_n(item, "minus", &n), "only a sign");
	ok(!eo_json_attr_n(item, "s", &n), "a string is no number");
	ok(eo_json_attr_s(item, "n", &len) == NULL, "a number is no string");
	ok(eo_json_attr_s(item, "absent", &len) == NULL && len == 0, "an absent attribute");
	ok(n == INT64_MAX, "a refused number changes nothing");
	list = eo_json_get(eo_json_root(doc), "L");
	ok(eo_json_array_length(list) == 3 && eo_json_array_length(item) == 0, "arrays");
	is_string(eo_json_string(eo_json_array_get(list, 2), &len), "y", "an element");
	ok(eo_json_array_get(list, 3) == NULL, "past the end");
	ok(eo_json_get(NULL, "x") == NULL && eo_json_get(list, "x") == NULL, "members of what is no object");
	eo_json_free(doc);
	eo_json_free(NULL);
}

static void
test_strings(void)
{
	EoBuf		out;
	char		all[256];
	EoJson	   *doc;
	EoBuf		text;
	size_t		len;
	const char *back;

	eo_buf_init(&out, 10000);
	eo_json_put_string(&out, "a\"\\/\n\t\x1f\x7f\xc3\xa9", 10);
	is_string(eo_buf_str(&out), "\"a\\\"\\\\/\\u000a\\u0009\\u001f\\u007f\xc3\xa9\"", "escapes");
	eo_buf_free(&out);

	/* every byte below 0x80 comes back */
	for (int i = 1; i < 128; i++)
		all[i - 1] = (char) i;
	eo_buf_init(&text, 10000);
	eo_buf_adds(&text, "{\"x\":{\"S\":");
	eo_json_put_string(&text, all, 127);
	eo_buf_adds(&text, "}}");
	ok(eo_json_parse(text.data, text.len, &doc) == EO_OK, "what is written can be read");
	back = eo_json_attr_s(eo_json_root(doc), "x", &len);
	ok(back != NULL && len == 127 && memcmp(back, all, 127) == 0, "and is the same");
	eo_json_free(doc);
	eo_buf_free(&text);
}

int
main(void)
{
	test_refusals();
	test_depth();
	test_nested();
	test_many();
	test_nul();
	test_native();
	test_values();
	test_strings();
	ok(parse("{}") == EO_OK && parse("\t{ \"a\" : [ ] }\r\n") == EO_OK, "white space is free");
	return done();
}
