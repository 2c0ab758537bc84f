/*
 * life_item_test.c
 *	  Bodies declare just the placeholders they use, and only a life of which nothing is
 *	  left gets a time at which its item may go.
 */
#include "bodies.h"
#include "records/layout.h"
#include "records/life_item.h"

/* What the write does to the item. */
static void
get_update(EoLifeVerb verb, int64_t ttl_s, char *update, size_t size)
{
	EoLifeWrite w = {.life = "l",.nonce = "1",.ancestors = "",.home = "t",.system_identifier = "2",
	.by = "b",.seen_by = "p",.now_ms = 1000,.ttl_s = ttl_s};
	EoBuf		body;
	EoJson	   *doc;
	size_t		len;

	eo_buf_init(&body, 100000);
	eo_life_item_put_write(eo_layout_find("native"), &body, "tab", "ORIGIN#l", verb, &w);
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

	get_update(verb, ttl_s, update, sizeof(update));
	return strstr(update, "#t = :t") != NULL;
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
	get_update(EO_LIFE_INHERIT, 5, update, sizeof(update));
	ok(strstr(update, "#t = :t") == NULL && strstr(update, "REMOVE #t") != NULL,
	   "one that is inherited stays, even if the heir of before let it go");
	return done();
}
