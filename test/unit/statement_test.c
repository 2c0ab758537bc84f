/*
 * statement_test.c
 *	  Statements have a parameter for each question mark, what has no spelling gets
 *	  none, and a reply is read only if it has an answer for each statement.
 */
#include "records/layout.h"
#include "records/record.h"
#include "records/statement.h"
#include "unit.h"

static const EoAttributeName names[] = {
	{'k', "pk"}, {'s', "status"}, {'o', "owner"}, {'n', "runs"}, {'a', "keep"}, {'q', "a\"b"}, {0, NULL}
};
static const EoItemKey key = {.name = "pk"};
static const EoItemKey two = {.name = "pk",.sort_name = "sk",.partition_value = "P"};

typedef struct Values
{
	const char *a;
	int64_t		n;
} Values;

static const EoValue values[EO_VALUE_LETTERS] = {
	['a'] = {EO_VALUE_STRING, 0, offsetof(Values, a), 0},
	['t'] = {EO_VALUE_SET, 0, offsetof(Values, a), 0},
	['n'] = {EO_VALUE_NUMBER, 0, offsetof(Values, n), 0}
};

/* The statement, "" if it has no spelling. */
static const char *
put(bool inserts, const EoItemKey *k, const char *condition, const char *update)
{
	static EoBuf body;
	static const Values v = {"A", 7};
	const void *structs[] = {&v};
	EoStatement s = {0};
	EoStatus	status = eo_statement_make(&s, names, k, "x", 1, inserts ? NULL : condition, update);

	eo_buf_free(&body);
	eo_buf_init(&body, 10000);
	if (status != EO_OK)
		return "failed";
	if (!s.impossible)
		eo_statement_put(&s, &body, "t", k, "K", values, structs);
	eo_buf_free(&s.text);
	return eo_buf_status(&body) == EO_OK ? eo_buf_str(&body) : "no value";
}

#define UPDATE "{\"Statement\":\"UPDATE \\\"t\\\""
#define RETURNING " RETURNING ALL NEW *\",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\",\"Parameters\":"

static void
test_updates(void)
{
	is_string(put(false, &key, "#s = :a AND (#o = :n OR attribute_not_exists(#o))",
				  "SET #s = :n, #n = :n + if_not_exists(#a, :a)[x?, #a = :a][!x?, #a = :n] REMOVE #o, #q"),
			  "", "an attribute is not set from one that changes, nor named with a quote in it");
	is_string(put(false, &key, "#s = :a AND (#o = :n OR attribute_not_exists(#o))",
				  "SET #s = :n, #n = :n + if_not_exists(#a, :a) REMOVE[x? #o]"),
			  UPDATE " SET \\\"status\\\" = ? SET \\\"runs\\\" = ? + \\\"keep\\\" REMOVE \\\"owner\\\""
			  " WHERE \\\"pk\\\" = ? AND \\\"status\\\" = ? AND (\\\"owner\\\" = ? OR \\\"owner\\\" IS MISSING)"
			  " AND \\\"keep\\\" IS NOT MISSING" RETURNING
			  "[{\"N\":\"7\"},{\"N\":\"7\"},{\"S\":\"K\"},{\"S\":\"A\"},{\"N\":\"7\"}]}",
			  "an update");
	is_string(put(false, &two, "#n <= :n", "SET #n = if_not_exists(#n, :n) - :1"),
			  UPDATE " SET \\\"runs\\\" = \\\"runs\\\" - ? WHERE \\\"pk\\\" = ? AND \\\"sk\\\" = ? AND"
			  " \\\"runs\\\" <= ? AND \\\"runs\\\" IS NOT MISSING" RETURNING
			  "[{\"N\":\"1\"},{\"S\":\"P\"},{\"S\":\"K\"},{\"N\":\"7\"}]}", "a key of two parts");
	is_string(put(false, &key, "#s = :a OR #o = :a", "SET #s = :n"), "", "an OR beside the key");
	is_string(put(false, &key, "#o = :a AND (attribute_not_exists(#s) OR NOT contains(#s, :a))", "SET #o = :a REMOVE #n ADD #s :t"),
			  UPDATE " SET \\\"owner\\\" = ? REMOVE \\\"runs\\\" SET \\\"status\\\" = ? WHERE \\\"pk\\\" = ?"
			  " AND \\\"owner\\\" = ? AND (\\\"status\\\" IS MISSING) AND \\\"status\\\" IS MISSING" RETURNING
			  "[{\"S\":\"A\"},{\"SS\":[\"A\"]},{\"S\":\"K\"},{\"S\":\"A\"}]}", "a set that is begun");
	is_string(put(false, &key, "attribute_exists(#k)", "ADD #s"), "", "an ADD of nothing");
	is_string(put(false, &key, "attribute_exists(#k)", "SET #s = list_append(#s, :a)"), "", "a function");
	is_string(put(false, &key, "attribute_exists(#z)", "SET #s = :a"), "", "an attribute without a name");
	is_string(put(false, &key, "attribute_exists(#k)", "SET #s = :z"), "no value", "a letter without a value");
}

static void
test_inserts(void)
{
	is_string(put(true, &two, NULL, "SET #s = :a, #n = if_not_exists(#n, :n) + :1[x?, #a = :n] REMOVE #o"),
			  "{\"Statement\":\"INSERT INTO \\\"t\\\" VALUE {'pk': ?, 'sk': ?, 'status': ?, 'runs': ?, 'keep': ?}\","
			  "\"Parameters\":[{\"S\":\"P\"},{\"S\":\"K\"},{\"S\":\"A\"},{\"N\":\"8\"},{\"N\":\"7\"}]}", "an insert");
	is_string(put(true, &key, NULL, "SET #s = #o"), "", "the value of an attribute");
	is_string(put(true, &key, NULL, "SET #s = if_not_exists(#s, #o)"), "", "the same, if another does not exist");
	is_string(put(true, &key, NULL, "SET #n = :n - :1"), "", "a difference");
	is_string(put(true, &key, NULL, "REMOVE #n"), "", "nothing to insert");
}

static void
test_names(void)
{
	ok(eo_statement_allows_table("My_table-1.x") && !eo_statement_allows_table("a\"b") &&
	   !eo_statement_allows_table("arn:aws:dynamodb") && !eo_statement_allows_table(""), "names of tables");
}

/* The verbs that must never be a statement: they write where there is no record. */
static void
test_verbs(void)
{
	const EoLayout *layout = eo_layout_find("native");
	EoBuf		body;
	EoWrite		w = {.owner = "o",.bind = "tx",.origin = "g"};

	eo_buf_init(&body, 10000);
	ok(!eo_record_put_statement(layout, &body, "t", "K", EO_BURY, &w) && body.len == 0,
	   "a verb without a statement");
	ok(eo_record_put_statement(layout, &body, "t", "K", EO_COMPLETE_NEW, &w) &&
	   strstr(body.data, "INSERT INTO") != NULL, "a verb for a key without a record");
	eo_buf_free(&body);
}

static bool
reads(const char *text, EoStatementReply *replies, size_t n)
{
	static EoJson *doc;

	eo_json_free(doc);
	doc = NULL;
	return eo_json_parse(text, strlen(text), &doc) == EO_OK &&
		eo_statement_read(eo_json_root(doc), replies, n);
}

static void
test_replies(void)
{
	EoStatementReply r[3];

	ok(reads("{\"Responses\":[{\"TableName\":\"t\"},{\"Item\":{\"pk\":{\"S\":\"K\"}},\"TableName\":\"t\"},"
			 "{\"Error\":{\"Code\":\"ConditionalCheckFailed\",\"Message\":\"\",\"Item\":{}},\"TableName\":\"t\"}]}", r, 3),
	   "a reply");
	ok(r[0].status == EO_OK && r[0].item == NULL && strcmp(r[0].table, "t") == 0, "accepted without an item");
	ok(r[1].status == EO_OK && r[1].item != NULL, "accepted with an item");
	ok(r[2].status == EO_CONDITION_FAILED && r[2].item != NULL, "refused with an item");
	ok(reads("{\"Responses\":[{\"Error\":{\"Code\":\"DuplicateItem\"}},{\"Error\":{\"Code\":\"ThrottlingError\"}},"
			 "{\"Error\":{\"Code\":\"What\"}}]}", r, 3) && r[0].status == EO_CONDITION_FAILED &&
	   r[0].item == NULL && r[1].status == EO_THROTTLED && r[2].status == EO_UNKNOWN, "codes");
	ok(!reads("{\"Responses\":[{\"TableName\":\"t\"}]}", r, 2), "an answer is missing");
	ok(!reads("{\"Responses\":[{\"TableName\":\"t\"},{\"TableName\":\"t\"}]}", r, 1), "an answer too many");
	ok(!reads("{\"Responses\":[{}]}", r, 1) && !reads("{\"Responses\":[null]}", r, 1) &&
	   !reads("{\"Responses\":[{\"Error\":{\"Message\":\"\"},\"TableName\":\"t\"}]}", r, 1) &&
	   !reads("{\"Responses\":[{\"Error\":\"no\",\"TableName\":\"t\"}]}", r, 1) &&
	   !reads("{\"Responses\":{}}", r, 1) && !reads("{}", r, 1), "what is no answer");
}

int
main(void)
{
	test_updates();
	test_inserts();
	test_names();
	test_verbs();
	test_replies();
	return done();
}
