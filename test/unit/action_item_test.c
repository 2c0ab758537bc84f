/*
 * action_item_test.c
 *	  Bodies declare just the placeholders they use, ids stop at the limit, and
 *	  what is no action is not read as one.
 */
#include "bodies.h"
#include "records/action_item.h"
#include "records/action_names.h"
#include "records/layout.h"
#include "records/record.h"

#define SEED "custom;key_attribute=actionId"

static const EoActionLayout *layout;

static void
test_bodies(void)
{
	EoActionWrite w = {.token = "11111111-2222-4333-8444-555555555555",.attempt = "a",.now_ms = 1000,
	.id = "\"i\"",.active_ms = 0,.expires_ms = 2000,.ttl_s = 3,.pin_attempts = 3};

	for (int verb = EO_ACTION_CREATE; verb <= EO_ACTION_CLOSE; verb++)
	{
		bool		all = true;

		for (int variant = 0; variant < 32; variant++)
		{
			EoBuf		body;

			w.payload = variant & 1 ? "{\"x\": \"\\\"\"}" : NULL;
			w.pin_hash = variant & 2 ? "scrypt$" : NULL;
			w.pin_pepper = variant & 4 ? "01234567" : NULL;
			w.reason = variant & 8 ? "\n" : NULL;
			w.consumer = variant & 16 ? "{}" : NULL;
			eo_buf_init(&body, 100000);
			eo_action_item_put_write(layout, &body, "tab", "ACTION#\"i\"", (EoActionVerb) verb, &w);
			all &= check_body(&body, verb, variant);
		}
		ok(all, "placeholders are declared as used");
	}
}

static void
test_ids(void)
{
	char		id[EO_MAX_KEY_BYTES + 10];
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;

	memset(id, 'i', sizeof(id));
	id[EO_MAX_KEY_BYTES - 7 - 4] = '\0';
	ok(eo_action_item_make_pk(layout, "app/", id, pk, &len) == EO_OK && len == EO_MAX_KEY_BYTES &&
	   strlen(pk) == EO_MAX_KEY_BYTES, "the longest id");
	ok(strncmp(pk, "ACTION#app/i", 12) == 0, "is made of prefix and id");
	ok(eo_action_item_make_pk(layout, "app/x", id, pk, &len) == EO_TOO_LARGE, "one more byte is too long");
	ok(eo_action_item_is_pk(pk) && !eo_action_item_is_pk("IDEMPOTENCY#x"), "and told from a key");
	ok(eo_action_item_max_payload(2048, 2041) > 380000, "room for a payload");
}

/* Kept until the next: the action's strings are borrowed from it. */
static EoJson *doc;

static EoStatus
reads(const char *item, EoActionItem *action)
{
	eo_json_free(doc);
	if (eo_json_parse(item, strlen(item), &doc) != EO_OK)
		abort();
	return eo_action_item_read(layout, eo_json_root(doc), action);
}

static void
test_read(void)
{
	static const char *const decisive[] = {"consumedAt", "canceledAt", "closedAt", "payload", "pinHash", "pinAttempts", NULL};
	EoActionItem a;

	ok(reads("{\"actionId\":{\"S\":\"i\"},\"activeAtMs\":{\"N\":\"0\"},\"expiresAtMs\":{\"N\":\"5\"}}", &a) == EO_OK &&
	   a.active_ms == 0 && a.expires_ms == 5 && a.pin_hash == NULL && a.consumed_ms == 0, "the least there is");
	ok(reads("{\"actionId\":{\"S\":\"i\"},\"activeAtMs\":{\"N\":\"0\"}}", &a) == EO_INVALID, "no end");
	ok(reads("{\"actionId\":{\"S\":\"i\"},\"expiresAtMs\":{\"N\":\"5\"}}", &a) == EO_INVALID, "no beginning");
	ok(reads("{\"actionId\":{\"S\":\"i\"},\"activeAtMs\":{\"S\":\"0\"},\"expiresAtMs\":{\"N\":\"5\"}}", &a) == EO_INVALID,
	   "a beginning that is no number");
	ok(reads("{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"S\":\"COMPLETED\"}}", &a) == EO_INVALID, "a record of a key");
	ok(reads("{\"activeAtMs\":{\"N\":\"-7\"},\"expiresAtMs\":{\"N\":\"99999999999999999999\"},"
			 "\"pinAttempts\":{\"N\":\"2.9\"},\"createdAt\":{\"S\":\"long ago\"}}", &a) == EO_OK &&
	   a.active_ms == 0 && a.expires_ms == EO_MAX_INSTANT_MS && a.pin_attempts == 2 &&
	   a.created_ms == 0,
	   "numbers that are absurd are made harmless");
	ok(reads("{\"activeAtMs\":{\"N\":\"0\"},\"expiresAtMs\":{\"N\":\"5\"},\"consumedAt\":{\"N\":\"3\"},"
			 "\"consumedBy\":{\"M\":{\"ip\":{\"S\":\"::1\"}}}}", &a) == EO_OK && a.consumed_by != NULL &&
	   strcmp(a.consumed_by, "{\"ip\":\"::1\"}") == 0, "a consumer in other types is JSON");
	ok(reads("{\"activeAtMs\":{\"N\":\"0\"},\"expiresAtMs\":{\"N\":\"5\"},\"consumedAt\":{\"N\":\"3\"},"
			 "\"consumedBy\":{\"B\":\"AA==\"}}", &a) == EO_OK && a.consumed_by == NULL,
	   "what cannot be read of what is said beside it is left out");
	for (int i = 0; decisive[i] != NULL; i++)
	{
		char		item[200];

		snprintf(item, sizeof(item), "{\"activeAtMs\":{\"N\":\"0\"},\"expiresAtMs\":{\"N\":\"5\"},\"%s\":{\"B\":\"eA==\"}}", decisive[i]);
		ok(reads(item, &a) == EO_INVALID, decisive[i]);
	}
}

static void
test_shows(void)
{
	EoActionItem a;

	(void) reads("{\"actionId\":{\"S\":\"i\"},\"activeAtMs\":{\"N\":\"0\"},\"expiresAtMs\":{\"N\":\"5\"},"
				 "\"consumedAt\":{\"N\":\"3\"},\"createdToken\":{\"S\":\"c\"},\"pinTokens\":{\"SS\":[\"p/me\",\"q\"]},\"consumedToken\":{\"S\":\"t\"},"
				 "\"canceledToken\":{\"S\":\"x\"}}", &a);
	ok(eo_action_item_shows(&a, EO_ACTION_CREATE, "c") &&
	   !eo_action_item_shows(&a, EO_ACTION_CREATE, "t"), "who created");
	ok(eo_action_item_shows(&a, EO_ACTION_ATTEMPT, "q") &&
	   !eo_action_item_shows(&a, EO_ACTION_ATTEMPT, "pq"), "who paid");
	ok(eo_action_item_paid_by(&a, "me") && !eo_action_item_paid_by(&a, "q") &&
	   !eo_action_item_paid_by(&a, "e"), "for whom");
	ok(eo_action_item_shows(&a, EO_ACTION_CONSUME, "t") &&
	   eo_action_item_shows(&a, EO_ACTION_CONSUME_PAID, "t") &&
	   !eo_action_item_shows(&a, EO_ACTION_CONSUME, "q"), "who consumed");
	ok(eo_action_item_shows(&a, EO_ACTION_CANCEL, "x") &&
	   !eo_action_item_shows(&a, EO_ACTION_CANCEL, ""), "who canceled");
	ok(!eo_action_item_shows(&a, EO_ACTION_CLOSE, "x"), "nobody closed it");
	(void) reads("{\"actionId\":{\"S\":\"i\"},\"activeAtMs\":{\"N\":\"0\"},\"expiresAtMs\":{\"N\":\"5\"},\"pinTokens\":{\"S\":\"p\"}}", &a);
	ok(!eo_action_item_shows(&a, EO_ACTION_ATTEMPT, "p") &&
	   !eo_action_item_shows(&a, EO_ACTION_CREATE, "c"), "nobody did anything");
}

/* The request of a verb has all of these parts. */
static bool
writes(EoActionVerb verb, const char *const *parts)
{
	EoActionWrite w = {.token = "t",.attempt = "a",.now_ms = 12345,.id = "i",.active_ms = 20000,
	.expires_ms = 30500,.ttl_s = 3,.pin_attempts = 3,.payload = "{\"n\": 1}"};
	EoBuf		body;
	bool		all = true;

	eo_buf_init(&body, 100000);
	eo_action_item_put_write(layout, &body, "tab", "i", verb, &w);
	for (; *parts != NULL; parts++)
		all &= strstr(eo_buf_str(&body), *parts) != NULL;
	if (!all)
		printf("# %s\n", eo_buf_str(&body));
	eo_buf_free(&body);
	return all;
}

#define OTHER_NAMES ";action_active=activeAt iso;action_expires=expiresAt iso;action_consumed=usedAt s"

/* The tables of clients that have the id alone as the key. */
static void
test_seed(void)
{
	static const char *const created[] = {"\"Key\":{\"actionId\":{\"S\":\"i\"}}", "\"#l\":\"ttl\"", "\"#a\":\"activeAtMs\"", "\"#e\":\"expiresAtMs\"", "\":a\":{\"N\":\"20000\"}", "\":e\":{\"N\":\"30500\"}", "\":D\":{\"S\":\"1970-01-01T00:00:12.345Z\"}", "\":p\":{\"S\":", NULL};
	static const char *const consumed[] = {"\"#c\":\"consumedAt\"", "\":A\":{\"N\":\"12345\"}", "\":E\":{\"N\":\"12345\"}", "\":C\":{\"S\":\"1970-01-01T00:00:12.345Z\"}", "attribute_type(#c, :Z)", "attribute_not_exists(#x)", NULL};
	static const char *const canceled[] = {"\"#x\":\"canceledAt\"", "\":X\":{\"S\":\"1970-01-01T00:00:12.345Z\"}", NULL};
	static const char *const created_other[] = {"\"#l\":\"sweepAt\"", "\"#a\":\"activeAt\"", "\":a\":{\"S\":\"1970-01-01T00:00:20.000Z\"}", "\":e\":{\"S\":\"1970-01-01T00:00:30.500Z\"}", "\":p\":{\"M\":{\"n\":{\"N\":\"1\"}}}", NULL};
	static const char *const consumed_other[] = {"\"#c\":\"usedAt\"", "\":C\":{\"N\":\"12\"}", "\":E\":{\"S\":\"1970-01-01T00:00:12.345Z\"}", NULL};
	static const char *const created_s[] = {"\":a\":{\"N\":\"20\"}", "\":e\":{\"N\":\"31\"}", NULL};
	EoActionItem a;

	layout = eo_action_item_layout(eo_layout_find(SEED), "");
	ok(layout == eo_action_item_layout(eo_layout_find(SEED), ""), "a spelling is made once");
	test_bodies();
	ok(writes(EO_ACTION_CREATE, created), "what is written has the names and forms of the table");
	ok(writes(EO_ACTION_CONSUME, consumed), "and so has what it is compared with");
	ok(writes(EO_ACTION_CANCEL, canceled), "and what cancels");
	ok(reads("{\"activeAtMs\":{\"N\":\"7\"},\"expiresAtMs\":{\"N\":\"9000\"},\"pinHash\":{\"S\":\"h\"}}", &a) == EO_OK &&
	   a.active_ms == 7 && a.expires_ms == 9000 && a.consumed_ms == 0 &&
	   a.pin_attempts == EO_PIN_ATTEMPTS_ALL, "their action");
	ok(reads("{\"expiresAtMs\":{\"N\":\"9000\"},\"canceledAt\":{\"N\":\"8000\"}}", &a) == EO_OK && a.canceled_ms == 8000,
	   "an instant that nothing is compared with is read in any form");
	ok(reads("{\"expiresAtMs\":{\"S\":\"1970-01-01T00:00:09Z\"}}", &a) == EO_INVALID, "others are not");
	layout = eo_action_item_layout(eo_layout_find(SEED ";expiry_attribute=sweepAt;result_form=native"), OTHER_NAMES);
	test_bodies();
	ok(writes(EO_ACTION_CREATE, created_other), "other names and forms");
	ok(writes(EO_ACTION_CONSUME, consumed_other), "of each instant");
	ok(reads("{\"activeAt\":{\"NULL\":true},\"expiresAt\":{\"S\":\"1970-01-01T00:00:09Z\"},"
			 "\"usedAt\":{\"NULL\":true},\"payload\":{\"M\":{\"n\":{\"N\":\"1\"}}}}", &a) == EO_OK &&
	   a.active_ms == 0 && a.expires_ms == 9000 && a.consumed_ms == 0, "their action, with NULL for none");
	is_string(a.payload, "{\"n\":1}", "with its payload");
	ok(reads("{\"expiresAt\":{\"S\":\"1970-01-01T00:00:09Z\"},\"usedAt\":{\"N\":\"8\"}}", &a) == EO_OK &&
	   a.consumed_ms == 8000 && a.consumed_token == NULL, "that they have consumed");
	ok(eo_action_item_shows_now(layout, &a, 8999) && !eo_action_item_shows_now(layout, &a, 9000),
	   "in the second of this write, or not");
	ok(reads("{\"activeAt\":{\"N\":\"1\"},\"expiresAt\":{\"S\":\"1970-01-01T00:00:09Z\"}}", &a) == EO_INVALID &&
	   reads("{\"expiresAt\":{\"N\":\"9\"}}", &a) == EO_INVALID && reads("{\"status\":{\"S\":\"COMPLETED\"}}", &a) == EO_INVALID,
	   "another form cannot be compared, and a record is no action");
	layout = eo_action_item_layout(eo_layout_find(SEED), ";action_active=a s;action_expires=e s");
	ok(writes(EO_ACTION_CREATE, created_s), "seconds are whole");
}

static void
test_layouts(void)
{
	static const struct
	{
		const char *text;
		const char *actions;
		const char *option;
	}			wrong[] =
	{
		{"custom", "", "action_layout"}, {SEED ";sort_key_attribute=sk", "", "action_layout"},
		{SEED ";item_prefix=a#", "", "action_layout"}, {SEED ";expiry_attribute=expiresAtMs", "", "expiry_attribute"},
		{SEED ";lease_attribute=activeAt", ";action_active=activeAt", "lease_attribute"},
		{SEED ";result_attribute=payload", "", "result_attribute"},
		{SEED, ";action_active=activeAt us", "action_active"}, {SEED, ";action_active=", "action_active"},
		{SEED, ";action_expires=eo_e", "action_expires"}, {SEED, ";action_consumed=pinHash iso", "action_consumed"},
		{SEED, ";action_active=same;action_expires=same", "action_active"}, {SEED, ";action_payload=p", "action_layout"}
	};
	const char *option;
	const char *reason;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		const EoLayout *table = eo_layout_find(wrong[i].text);

		ok(!eo_action_names_check(table, wrong[i].actions, &option, &reason), wrong[i].text);
		is_string(option, wrong[i].option, "because of that option");
	}
	ok(eo_action_names_check(eo_layout_find(SEED), OTHER_NAMES, &option, &reason) &&
	   eo_action_names_check(eo_layout_find("powertools-java;key_attribute=actionId"), "", &option, &reason),
	   "tables that can have actions");
	ok(!eo_action_names_check(eo_layout_find("native"), "", &option, &reason), "a native one has its own");
}

int
main(void)
{
	layout = eo_action_item_layout(eo_layout_find("native"), "");
	test_bodies();
	test_ids();
	test_read();
	test_shows();
	test_seed();
	test_layouts();
	eo_json_free(doc);
	return done();
}
