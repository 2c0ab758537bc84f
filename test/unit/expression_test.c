/*
 * expression_test.c
 *	  Optional parts, and values by their letters.
 */
#include "bodies.h"
#include "records/expression.h"

typedef struct Values
{
	const char *string;
	size_t		length;
	int64_t		number;
} Values;

static const EoAttributeName names[] = {{'a', "first"}, {'b', "second"}, {'\0', NULL}};

static const EoValue values[EO_VALUE_LETTERS] = {
	['s'] = {EO_VALUE_STRING, 0, offsetof(Values, string), 0},
	['z'] = {EO_VALUE_SIZED, 0, offsetof(Values, string), offsetof(Values, length)},
	['t'] = {EO_VALUE_SET, 0, offsetof(Values, string), 0},
	['n'] = {EO_VALUE_NUMBER, 0, offsetof(Values, number), 0},
	['o'] = {EO_VALUE_NUMBER, 1, offsetof(Values, number), 0}
};

/* The body of these expressions; NULL if it cannot be made. */
static const char *
body_of(const char *condition, const char *update, unsigned int set, const Values *first,
		const Values *second)
{
	static const EoItemKey key = {.name = "k"};

	static EoBuf body;
	const void *structs[] = {first, second};
	EoExpression e = {.values = ""};

	eo_buf_free(&body);
	eo_buf_init(&body, 10000);
	if (eo_expression_make(&e, names, "xy", set, condition, update) != EO_OK)
		return e.text.len == 0 ? NULL : "a failure leaves a text";
	eo_expression_put_update(&e, &body, "t", &key, "p", "", values, structs);
	eo_buf_free(&e.text);
	if (eo_buf_status(&body) == EO_OK)
		ok(declares_as_used(&body), "placeholders are declared as used");
	return eo_buf_status(&body) == EO_OK ? eo_buf_str(&body) : NULL;
}

#define HEAD "{\"TableName\":\"t\",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\","
#define TAIL ",\"Key\":{\"k\":{\"S\":\"p\"}}}"

static void
test_options(void)
{
	static const Values v = {"\"", 1, -9223372036854775807 - 1};
	static const char condition[] = "#a = :n[x? AND #b = :s][!x? AND #b = :1]";
	static const char update[] = "SET #a = :0[y?, #b = :t]";

	is_string(body_of(condition, update, 0, &v, NULL),
			  HEAD "\"ConditionExpression\":\"#a = :n AND #b = :1\",\"UpdateExpression\":\"SET #a = :0\","
			  "\"ExpressionAttributeNames\":{\"#a\":\"first\",\"#b\":\"second\"},"
			  "\"ExpressionAttributeValues\":{\":n\":{\"N\":\"-9223372036854775808\"},\":1\":{\"N\":\"1\"},\":0\":{\"N\":\"0\"}}" TAIL,
			  "no option");
	is_string(body_of(condition, update, 3, &v, NULL),
			  HEAD "\"ConditionExpression\":\"#a = :n AND #b = :s\",\"UpdateExpression\":\"SET #a = :0, #b = :t\","
			  "\"ExpressionAttributeNames\":{\"#a\":\"first\",\"#b\":\"second\"},"
			  "\"ExpressionAttributeValues\":{\":n\":{\"N\":\"-9223372036854775808\"},\":s\":{\"S\":\"\\\"\"},"
			  "\":0\":{\"N\":\"0\"},\":t\":{\"SS\":[\"\\\"\"]}}" TAIL,
			  "both options");
}

static void
test_errors(void)
{
	static const Values v = {"abc", 2, 1};
	static const Values empty = {NULL, 0, 1};
	char		too_long[5000];

	ok(strstr(body_of("#a = :z", "SET #a = :o", 0, &v, &v), ":z\":{\"S\":\"ab\"}") != NULL, "a string with a length");
	ok(body_of("#a = :s", "SET #a = :n", 0, &empty, NULL) == NULL, "a string that is missing");
	ok(body_of("#a = :o", "SET #a = :n", 0, &v, NULL) == NULL, "a struct that is missing");
	ok(body_of("#a = :q", "SET #a = :n", 0, &v, NULL) == NULL, "a value that is not in the table");
	ok(body_of("#a = :n[q?]", "SET #a = :n", 0, &v, NULL) == NULL, "an option that does not exist");
	ok(body_of("#a = :n[x]", "SET #a = :n", 0, &v, NULL) == NULL, "an option without its mark");
	ok(body_of("#a = :n", "SET #a = :n[", 0, &v, NULL) == NULL, "an option cut short");
	ok(body_of("#a = :n", "SET #a = :n[!", 0, &v, NULL) == NULL, "the opposite of one cut short");
	memset(too_long, ' ', sizeof(too_long));
	too_long[sizeof(too_long) - 1] = '\0';
	ok(body_of(too_long, "SET #a = :n", 0, &v, NULL) == NULL, "a condition that is too long");
}

int
main(void)
{
	test_options();
	test_errors();
	return done();
}
