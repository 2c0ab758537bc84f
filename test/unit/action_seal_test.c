/*
 * action_seal_test.c
 *	  Actions that a transaction consumes: what is written under which condition, and
 *	  what is read of them.
 */
#include "records/action_item.h"
#include "records/action_seal.h"
#include "records/layout.h"
#include "records/record.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "unit.h"

static const EoActionSeal full = {"t", "a/t", "r", "{}"};

static EoBuf body;

static const char *
body_of(EoVerb verb, const EoActionSeal *action, const char *origin)
{
	EoWrite		w = {.owner = "o",.bind = "tx",.origin = origin,.origin_last = origin,.now_ms = 7,
	.action = action};

	eo_buf_free(&body);
	eo_buf_init(&body, 100000);
	eo_record_put_write(eo_layout_find("native"), &body, "tab", "ACTION#i", verb, &w);
	return eo_buf_status(&body) == EO_OK ? eo_buf_str(&body) : "";
}

static void
test_writes(void)
{
	static const EoActionSeal bare = {.token = "t"};
	const char *text = body_of(EO_SEAL_NEW, &full, "g");

	ok(strstr(text, "attribute_not_exists(#s)") != NULL && strstr(text, "contains(#q, :q)") != NULL &&
	   strstr(text, "#r = :r, #B = :B") != NULL, "a seal after a right PIN");
	text = body_of(EO_SEAL_NEW, &bare, "g");
	ok(strstr(text, "attribute_not_exists(#h)") != NULL && strstr(text, ":q") == NULL &&
	   strstr(text, ":r") == NULL && strstr(text, ":B") == NULL, "and without one");
	ok(strstr(text, "4102444800") != NULL, "its ttl is far away");
	ok(strstr(body_of(EO_FINISH, NULL, "g"), "AND #o = :o AND #g >= :g AND #g <= :H\"") != NULL,
	   "a finish needs the token and the transaction that sealed");
	ok(strstr(body_of(EO_ABORT, NULL, "g"), "#s = :M AND #o = :o AND #g = :g") != NULL, "given back");
	ok(strstr(body_of(EO_BURY, NULL, "g"), "attribute_not_exists(#s)") != NULL, "buried");
	ok(body_of(EO_ACQUIRE, NULL, NULL)[0] == '\0' && body_of(EO_UNSEAL, NULL, "g")[0] == '\0' &&
	   body_of(EO_SEAL_NEW, NULL, "g")[0] == '\0', "nothing else can be written");
}

/* Kept until the next: the record's strings are borrowed from it. */
static EoJson *doc;

static EoStatus
reads(const char *item, EoRecord *record)
{
	eo_json_free(doc);
	if (eo_json_parse(item, strlen(item), &doc) != EO_OK)
		abort();
	return eo_record_read(eo_layout_find("native"), eo_json_root(doc), record);
}

#define ITEM(more) "{\"pk\":{\"S\":\"ACTION#i\"}" more "}"

static void
test_reading(void)
{
	EoRecord	r;

	ok(reads(ITEM(""), &r) == EO_OK && r.state == EO_STATE_FAILED && r.owner[0] == '\0', "never sealed");
	ok(reads(ITEM(",\"consumedAt\":{\"N\":\"1\"}"), &r) == EO_OK && r.state == EO_STATE_COMPLETED, "consumed");
	ok(reads(ITEM(",\"status\":{\"S\":\"COMMITTING\"},\"owner\":{\"S\":\"o\"}"), &r) == EO_OK &&
	   r.state == EO_STATE_COMMITTING && strcmp(r.owner, "o") == 0 && !r.has_origin, "sealed");
	ok(reads(ITEM(",\"status\":{\"S\":\"new\"}"), &r) == EO_INVALID, "a status of others");
	ok(reads(ITEM(",\"canceledAt\":{\"N\":\"1\"}"), &r) == EO_OK &&
	   strstr(eo_action_seal_refusal(r.item), "canceled") != NULL, "canceled");
}

int
main(void)
{
	test_writes();
	test_reading();
	eo_buf_free(&body);
	eo_json_free(doc);
	return done();
}
