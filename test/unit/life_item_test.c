/*
 * life_item_test.c
 *	  Bodies declare just the placeholders they use, and only a life of which nothing is
 *	  left gets a time at which its item may go.
 */
#include "bodies.h"
#include "records/layout.h"
#include "records/life_item.h"
#include "records/list.h"

/* What the write does to the item. */
static void
get_update(const char *layout, EoLifeVerb verb, int64_t ttl_s, char *update, size_t size)
{
	EoLifeWrite w = {.life = "l",.nonce = "1",.ancestors = "",.home = "t",.system_identifier = "2",
	.by = "b",.seen_by = "p",.now_ms = 1000,.ttl_s = ttl_s};
	EoBuf		body;
	EoJson	   *doc;
	size_t		len;

	eo_buf_init(&body, 100000);
	eo_life_item_put_write(eo_layout_find(layout), &body, "tab", "ORIGIN#l", verb, &w);
	if (eo_buf_status(&body) != EO_OK || eo_json_parse(body.data, body.len, &doc) != EO_OK)
		abort();
	snprintf(update, size, "%s",
			 eo_json_string(eo_json_get(eo_json_root(doc), "UpdateExpression"), &len));
	eo_json_free(doc);
	ok(check_body(&body, verb, ttl_s > 0), "placeholders are declared as used");
}

static bool
sets_ttl(EoLifeVerb verb, int64_t ttl_s)
{
	char		update[500];

	get_update("native", verb, ttl_s, update, sizeof(update));
	return strstr(update, "#t = :t") != NULL;
}

/* A delete compares what was read, and what was not there. */
static void
check_delete(void)
{
	static const char item[] = "{\"pk\":{\"S\":\"ORIGIN#l\"},\"state\":{\"S\":\"closed\"},"
	"\"beat\":{\"N\":\"5\"},\"nonce\":{\"S\":\"1\"},\"ttl\":{\"N\":\"7\"}}";
	const char *names[EO_LIST_ENDED_NAMES];
	size_t		n = eo_life_item_ended_names(names);
	EoBuf		body;
	EoJson	   *doc;

	eo_buf_init(&body, 100000);
	if (eo_json_parse(item, strlen(item), &doc) != EO_OK)
		abort();
	eo_list_put_delete(&body, &eo_layout_find("native")->key, "tab", "ORIGIN#l",
					   eo_json_root(doc), names, n);
	ok(strcmp(eo_buf_str(&body), "{\"TableName\":\"tab\",\"Key\":{\"pk\":{\"S\":\"ORIGIN#l\"}},"
			  "\"ReturnConsumedCapacity\":\"TOTAL\",\"ConditionExpression\":"
			  "\"#a0 = :a0 AND #a1 = :a1 AND attribute_not_exists(#a2) AND #a3 = :a3\","
			  "\"ExpressionAttributeNames\":{\"#a0\":\"state\",\"#a1\":\"beat\",\"#a2\":\"retired_by\",\"#a3\":\"ttl\"},"
			  "\"ExpressionAttributeValues\":{\":a0\":{\"S\":\"closed\"},\":a1\":{\"N\":\"5\"},\":a3\":{\"N\":\"7\"}}}") == 0,
	   "a delete is conditional on what was read");
	eo_json_free(doc);
	eo_buf_free(&body);
}

int
main(void)
{
	char		update[500];

	ok(!sets_ttl(EO_LIFE_CREATE, 5) && !sets_ttl(EO_LIFE_BEAT, 5), "an open life stays");
	ok(sets_ttl(EO_LIFE_CLOSE, 5) && sets_ttl(EO_LIFE_SCANNED, 5), "one that has left nothing goes");
	ok(sets_ttl(EO_LIFE_RETIRE, 5) && sets_ttl(EO_LIFE_RETIRE_ABSENT, 5),
	   "so does one that was retired, if that is known");
	ok(!sets_ttl(EO_LIFE_RETIRE, 0) && !sets_ttl(EO_LIFE_RETIRE_ABSENT, 0), "else it stays");
	get_update("native", EO_LIFE_INHERIT, 5, update, sizeof(update));
	ok(strstr(update, "#t = :t") == NULL && strstr(update, "REMOVE #t") != NULL,
	   "one that is inherited stays, even if the heir of before let it go");
	get_update("powertools-python", EO_LIFE_INHERIT, 5, update, sizeof(update));
	ok(strstr(update, "REMOVE #t, #e") != NULL, "also where the table has another time to live");
	check_delete();
	return done();
}
