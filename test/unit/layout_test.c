/*
 * layout_test.c
 *	  Layouts other than native: which texts are one, what their writes show to other
 *	  clients, and how what those write is read.
 */
#include "bodies.h"
#include "records/attribute.h"
#include "records/timestamps.h"
#include "records/layout.h"
#include "records/record.h"

#define TYPESCRIPT "powertools-typescript"
#define ONE_CLOCK "custom;key_attribute=idempotencyKey;status_attribute=status;" \
	"status_words=in_progress=IN_PROGRESS, completed=COMPLETED, failed=FAILED;" \
	"expiry_attribute=expiry;result_attribute=responseData;result_form=native;" \
	"holder_attribute=invocationId"
#define TWO_KEYS "custom;key_attribute=PK;item_prefix=IDEMPOTENCY#;sort_key_attribute=SK;" \
	"status_attribute=State;status_words=in_progress=Pending,completed=Completed,failed=Failed;" \
	"expiry_attribute=TTL;updated_attribute=LastUpdated;instants=iso"
#define STALE "custom;key_attribute=IdempotencyKey;status_attribute=Status;" \
	"status_words=in_progress=IN_PROGRESS, completed=COMPLETED;expiry_attribute=ExpiryTimestamp;" \
	"result_attribute=ResponseData;updated_attribute=Timestamp;instants=iso;stale_after=60000"

static const char *const texts[] = {TYPESCRIPT, ONE_CLOCK, TWO_KEYS, STALE, "powertools-java",
	"powertools-python;sort_key_attribute=sk;partition_value=idempotency#fn", "custom;lease_attribute=until",
"custom;updated_attribute=u;lease_attribute=until;instants=s"};

#define N_TEXTS (sizeof(texts) / sizeof(texts[0]))

static void
put(const char *text, EoBuf *body, EoVerb verb, int variant, const char *item)
{
	EoJson	   *doc;
	EoRecord	seen;
	EoWrite		w = {.owner = "11111111-2222-4333-8444-555555555555",.now_ms = 1000000,
		.lease_ms = 1060000,.skew_ms = 10,.kept_from_s = 1060,.retention_s = 3600,.bind = "keep",
	.retry_ms = variant & 1 ? 1200000 : 0,.seen = &seen};
	const EoLayout *layout = eo_layout_find(text);

	if (layout == NULL || eo_json_parse(item, strlen(item), &doc) != EO_OK)
		abort();
	memset(&seen, 0, sizeof(seen));
	seen.item = eo_json_root(doc);
	w.terminal = variant & 2;
	w.result = variant & 4 ? "{\"x\": [1.50, null, \"\\\"\"]}" : NULL;
	w.result_len = w.result ? strlen(w.result) : 0;
	w.holder = variant & 8 ? "psql" : NULL;
	w.progress = "{}";
	w.progress_len = 2;
	w.origin = w.origin_last = "o/1/2/3";
	w.payload_sha256 = variant & 16 ? "ab" : NULL;
	w.handler = variant & 16 ? "app.pay" : NULL;
	eo_buf_init(body, 100000);
	eo_record_put_write(layout, body, "tab", "fn#k", verb, &w);
	eo_json_free(doc);
}

/* Items as seen, with each attribute of other clients or without. */
static void
test_bodies(void)
{
	static const char *const items[] = {"{\"status\":{\"S\":\"x\"},\"State\":{\"S\":\"x\"},\"Status\":{\"S\":\"x\"}}",
		"{\"status\":{\"S\":\"x\"},\"State\":{\"S\":\"x\"},\"Status\":{\"S\":\"x\"},\"expiration\":{\"N\":\"1\"},"
		"\"expiry\":{\"N\":\"1\"},\"TTL\":{\"N\":\"1\"},\"ExpiryTimestamp\":{\"N\":\"1\"},\"ttl\":{\"N\":\"1\"},"
		"\"in_progress_expiration\":{\"N\":\"1.5\"},\"until\":{\"N\":\"1\"},\"u\":{\"N\":\"1\"},"
		"\"LastUpdated\":{\"S\":\"y\"},\"Timestamp\":{\"S\":\"y\"},\"eo_owner\":{\"S\":\"o\"},"
	"\"eo_fence\":{\"N\":\"1\"},\"eo_updated_ms\":{\"N\":\"1\"}}"};

	for (size_t i = 0; i < N_TEXTS; i++)
	{
		bool		all = true;

		for (int verb = EO_ACQUIRE; verb <= EO_PROBE; verb++)
		{
			for (int variant = 0; variant < 64; variant++)
			{
				EoBuf		body;

				put(texts[i], &body, (EoVerb) verb, variant, items[variant / 32]);
				all &= check_body(&body, verb, variant);
			}
		}
		ok(all, texts[i]);
	}
}

/* Does the body have the text? */
static bool
has(const char *text, EoVerb verb, int variant, const char *part)
{
	EoBuf		body;
	bool		found;

	put(text, &body, verb, variant, "{\"status\":{\"S\":\"x\"}}");
	found = strstr(eo_buf_str(&body), part) != NULL;
	if (!found)
		printf("# not in %s\n", eo_buf_str(&body));
	eo_buf_free(&body);
	return found;
}

static void
test_shown(void)
{
	ok(has(TYPESCRIPT, EO_ACQUIRE, 0, "\":W\":{\"S\":\"INPROGRESS\"}") &&
	   has(TYPESCRIPT, EO_ACQUIRE, 0, "#E = :t, #Z = :t, #L = :L") &&
	   has(TYPESCRIPT, EO_ACQUIRE, 0, "\":L\":{\"N\":\"1060000\"}"), "a claim shows both ends");
	ok(has(TYPESCRIPT, EO_SEAL, 0, "\":W\":{\"S\":\"INPROGRESS\"}") &&
	   has(TYPESCRIPT, EO_SEAL, 0, "\":z\":{\"N\":\"4102444800\"}") &&
	   has(TYPESCRIPT, EO_SEAL, 0, "\":L\":{\"N\":\"4102444800000\"}"), "a seal shows ends far ahead");
	ok(has(TYPESCRIPT, EO_FINISH, 0, "\":W\":{\"S\":\"COMPLETED\"}"), "a completed one shows that");
	ok(has(TYPESCRIPT, EO_COMPLETE, 4, "\":v\":{\"M\":{\"x\":{\"L\":[{\"N\":\"1.50\"},{\"NULL\":true},{\"S\":\"\\\"\"}]}}}"),
	   "a result in DynamoDB's own types");
	ok(has("powertools-java", EO_COMPLETE, 4, "\":v\":{\"S\":\"{\\\"x\\\""), "or as text");
	ok(has(TYPESCRIPT, EO_FAIL, 0, "\":W\":{\"S\":\"INPROGRESS\"}") &&
	   has(TYPESCRIPT, EO_FAIL, 0, "\":L\":{\"N\":\"0\"}") &&
	   has(TYPESCRIPT, EO_FAIL, 1, "\":L\":{\"N\":\"1200000\"}"), "a failed one shows a run until the next try");
	ok(has(ONE_CLOCK, EO_ACQUIRE, 0, "\":z\":{\"N\":\"1060\"}") &&
	   has(ONE_CLOCK, EO_FAIL, 0, "\":z\":{\"N\":\"999\"}") &&
	   has(ONE_CLOCK, EO_FAIL, 1, "\":z\":{\"N\":\"1200\"}") &&
	   has(ONE_CLOCK, EO_FAIL, 2, "\":z\":{\"N\":\"4660\"}"), "one clock shows the end of the lease");
	ok(has(ONE_CLOCK, EO_ACQUIRE, 8, "\"#h\":\"invocationId\""), "the holder is theirs");
	ok(has(TWO_KEYS, EO_ACQUIRE, 0, "{\"PK\":{\"S\":\"fn#k\"},\"SK\":{\"S\":\"fn#k\"}}") &&
	   has(TWO_KEYS, EO_ACQUIRE, 0, "\":y\":{\"S\":\"1970-01-01T00:16:40.000Z\"}"), "a sort key, and an ISO instant");
	ok(has(STALE, EO_ACQUIRE, 0, "\":y\":{\"S\":\"1970-01-01T00:16:40.000Z\"}") &&
	   has(STALE, EO_FAIL, 1, "\":y\":{\"S\":\"1970-01-01T00:19:00.000Z\"}") &&
	   has(STALE, EO_RELEASE, 0, "\":y\":{\"S\":\"1970-01-01T00:00:00.000Z\"}") &&
	   has(STALE, EO_SEAL, 0, "\":y\":{\"S\":\"2099-12-31T23:59:00.000Z\"}"),
	   "what goes stale is as old as it has to be");
	ok(has(STALE, EO_FINISH, 0, "#s = :M AND #o = :o AND #g >= :g AND #g <= :H AND attribute_not_exists(#w) AND #S = #B AND #E = #Z AND #U = #Y"),
	   "nothing is written to what another client has changed");
}

static EoRecord
read_as(const char *text, const char *item, EoJson **doc)
{
	EoRecord	r;

	if (eo_json_parse(item, strlen(item), doc) != EO_OK)
		abort();
	if (eo_record_read(eo_layout_find(text), eo_json_root(*doc), &r) != EO_OK)
		r.owner = NULL;
	return r;
}

#define OURS "\"eo_owner\":{\"S\":\"o\"},\"eo_status\":{\"S\":\"COMMITTING\"},\"eo_lease_ms\":{\"N\":\"7\"}"

static void
test_read(void)
{
	EoJson	   *doc;
	EoRecord	r;

	r = read_as(TYPESCRIPT, "{\"status\":{\"S\":\"INPROGRESS\"},\"expiration\":{\"N\":\"9\"},"
				"\"in_progress_expiration\":{\"N\":\"8000\"}}", &doc);
	ok(r.is_foreign && r.state == EO_STATE_IN_PROGRESS && r.lease_ms == 8000 && r.owner[0] == '\0',
	   "their run ends with their lease");
	eo_json_free(doc);
	r = read_as(TYPESCRIPT, "{\"status\":{\"S\":\"INPROGRESS\"},\"expiration\":{\"N\":\"9\"}}", &doc);
	ok(r.lease_ms == 9000, "or with the record");
	eo_json_free(doc);
	r = read_as(TYPESCRIPT, "{\"status\":{\"S\":\"INPROGRESS\"}}", &doc);
	ok(r.lease_ms == EO_FAR_S * 1000, "or never");
	eo_json_free(doc);
	r = read_as(TYPESCRIPT, "{\"status\":{\"S\":\"COMPLETED\"},\"expiration\":{\"N\":\"9\"},\"data\":{\"N\":\"1\"}," OURS "}", &doc);
	ok(r.is_foreign && r.state == EO_STATE_COMPLETED && r.ttl_s == 9, "they have completed a record of ours");
	is_string(r.result, "1", "with their result");
	eo_json_free(doc);
	r = read_as(TYPESCRIPT, "{\"status\":{\"S\":\"INPROGRESS\"},\"expiration\":{\"N\":\"9\"},\"eo_shown_status\":{\"S\":\"INPROGRESS\"},"
				"\"eo_shown_expiry\":{\"N\":\"9\"}," OURS "}", &doc);
	ok(!r.is_foreign && r.state == EO_STATE_COMMITTING && strcmp(r.owner, "o") == 0, "a record of ours");
	eo_json_free(doc);
	r = read_as(STALE, "{\"Status\":{\"S\":\"IN_PROGRESS\"},\"ExpiryTimestamp\":{\"N\":\"9000\"},"
				"\"Timestamp\":{\"S\":\"1970-01-01T00:16:40.5+00:00\"}}", &doc);
	ok(r.is_foreign && r.lease_ms == 1060500, "their run goes stale");
	eo_json_free(doc);
	r = read_as(ONE_CLOCK, "{\"status\":{\"S\":\"FAILED\"},\"expiry\":{\"N\":\"9\"}}", &doc);
	ok(r.state == EO_STATE_FAILED && r.has_retry && r.retry_ms == 0, "their failed run leaves the key free");
	eo_json_free(doc);
	r = read_as(ONE_CLOCK ";failed=after_expiry", "{\"status\":{\"S\":\"FAILED\"},\"expiry\":{\"N\":\"9\"}}", &doc);
	ok(r.state == EO_STATE_FAILED && r.has_retry && r.retry_ms == 9000, "or bars it for a while");
	eo_json_free(doc);
	r = read_as(ONE_CLOCK ";failed=final", "{\"status\":{\"S\":\"FAILED\"},\"expiry\":{\"N\":\"9\"}}", &doc);
	ok(r.state == EO_STATE_FAILED && !r.has_retry && r.ttl_s == 9, "or for good");
	eo_json_free(doc);
	r = read_as(ONE_CLOCK, "{\"status\":{\"S\":\"BROKEN\"},\"expiry\":{\"N\":\"9\"}}", &doc);
	ok(r.owner == NULL, "a word that the layout does not have is no record");
	eo_json_free(doc);
}

static void
test_texts(void)
{
	static const struct
	{
		const char *text;
		const char *option;
	}			wrong[] =
	{
		{"modern", "layout"}, {"powertools", "layout"}, {"", "layout"},
		{"custom;key_attribute=", "key_attribute"}, {"custom;key_attribute=a\"b", "key_attribute"},
		{"custom;key_attribute=eo_key", "key_attribute"}, {"custom;key_attribute=beat", "key_attribute"},
		{"custom;expiry_attribute=state", "expiry_attribute"},
		{"custom;lease_attribute=ttl", "lease_attribute"},
		{"custom;status_words=completed=C", "status_words"},
		{"custom;status_words=in_progress=C,completed=C", "status_words"},
		{"custom;status_words=in_progress=I,completed=C,lost=L", "status_words"},
		{"powertools-java;status_words=in_progress=I,completed=C,failed=F", "status_words"},
		{"custom;result_form=json", "result_form"}, {"custom;instants=us", "instants"},
		{"custom;partition_value=p", "partition_value"}, {"custom;stale_after=60000", "stale_after"},
		{"custom;updated_attribute=u;stale_after=1", "stale_after"},
		{"custom;updated_attribute=u;lease_attribute=l;stale_after=60000", "stale_after"},
		{"custom;failed=never", "failed"}, {"powertools-java;failed=retry", "failed"},
		{"custom;status_words=in_progress=I,completed=C;failed=final", "failed"}
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		EoLayout	layout;
		const char *option = "none";
		const char *reason;

		ok(!eo_layout_read(&layout, wrong[i].text, &option, &reason), wrong[i].text);
		is_string(option, wrong[i].option, "because of that option");
	}
	ok(eo_layout_find(ONE_CLOCK) == eo_layout_find(ONE_CLOCK), "a layout is made once");
}

/* The addresses and numbers that a thousand layouts have had. */
static void
test_many(void)
{
	static uint64_t numbers[1000];
	const EoLayout *kept = eo_layout_find(ONE_CLOCK);
	int			again = 0;

	eo_layout_keep(kept);
	for (int i = 0; i < 1000; i++)
	{
		char		text[100];

		snprintf(text, sizeof(text), "custom;holder_attribute=h%d", i);
		numbers[i] = eo_layout_find(text)->number;
	}
	for (int i = 0; i < 1000; i++)
	{
		char		text[100];

		snprintf(text, sizeof(text), "custom;holder_attribute=h%d", 999 - i);
		again += eo_layout_find(text)->number == numbers[999 - i];
	}
	ok(again > 0 && again < 100, "of very many layouts the last ones are remembered");
	ok(eo_layout_find(ONE_CLOCK) == kept, "and one that is kept");
	eo_layout_release(kept);
}

static bool
stores(const char *json, const char *value)
{
	EoBuf		out;
	size_t		size;
	EoStatus	status;
	bool		same;

	eo_buf_init(&out, 10000);
	status = eo_attribute_put(&out, json, strlen(json), &size);
	same = status == EO_OK && value != NULL ? strcmp(eo_buf_str(&out), value) == 0 :
		status != EO_OK && value == NULL;
	eo_buf_free(&out);
	return same;
}

static void
test_attributes(void)
{
	char		deep[100] = "";

	ok(stores(" {} ", "{\"M\":{}}") && stores("[]", "{\"L\":[]}") && stores("\"\"", "{\"S\":\"\"}"), "empty values");
	ok(stores("[true, false, null]", "{\"L\":[{\"BOOL\":true},{\"BOOL\":false},{\"NULL\":true}]}"), "words");
	ok(stores("{\"a\": {\"b c\": -1.5}, \"d\": \"\\u00e9,\"}",
			  "{\"M\":{\"a\":{\"M\":{\"b c\":{\"N\":\"-1.5\"}}},\"d\":{\"S\":\"\\u00e9,\"}}}"), "nested values");
	ok(stores("12345678901234567890123456789012345678", "{\"N\":\"12345678901234567890123456789012345678\"}") &&
	   stores("123456789012345678901234567890123456789", NULL), "38 digits");
	ok(stores("0.00", "{\"N\":\"0.00\"}") && stores("1e125", "{\"N\":\"1e125\"}") && stores("1e126", NULL) &&
	   stores("1e-130", "{\"N\":\"1e-130\"}") && stores("0.1e-130", NULL) &&
	   stores("100000000000000000000000000000000000000000", "{\"N\":\"100000000000000000000000000000000000000000\"}"),
	   "the range of numbers");
	ok(stores("{\"\": 1}", NULL), "a member without a name");
	ok(stores("", NULL) && stores("[1", NULL) && stores("x", NULL) && stores("1 2", NULL) &&
	   stores("{\"a\"}", NULL),
	   "what is no JSON");
	memset(deep, '[', 33);
	memset(deep + 33, ']', 33);
	ok(stores(deep, NULL), "too deep");
}

static bool
is_instant(const char *item, EoInstantForm form, int64_t ms)
{
	EoJson	   *doc;
	int64_t		read = -1;

	if (eo_json_parse(item, strlen(item), &doc) != EO_OK)
		abort();
	if (!eo_timestamps_read(eo_json_root(doc), "i", form, &read))
		read = -1;
	eo_json_free(doc);
	return read == ms;
}

static void
test_instants(void)
{
	ok(is_instant("{\"i\":{\"N\":\"12\"}}", EO_INSTANT_S, 12000) &&
	   is_instant("{\"i\":{\"N\":\"12.3456\"}}", EO_INSTANT_S, 12346) &&
	   is_instant("{\"i\":{\"N\":\"12.5\"}}", EO_INSTANT_MS, 13), "numbers");
	ok(is_instant("{\"i\":{\"S\":\"2026-11-22T01:02:03.4Z\"}}", EO_INSTANT_ISO, INT64_C(1795309323400)) &&
	   is_instant("{\"i\":{\"S\":\"2026-11-22T03:02:03+02:00\"}}", EO_INSTANT_MS, INT64_C(1795309323000)) &&
	   is_instant("{\"i\":{\"S\":\"2026-11-22 01:02:03\"}}", EO_INSTANT_ISO, INT64_C(1795309323000)), "ISO 8601");
	ok(is_instant("{\"i\":{\"N\":\"-1\"}}", EO_INSTANT_S, -1) && is_instant("{\"i\":{\"N\":\"1E+2\"}}", EO_INSTANT_S, -1) &&
	   is_instant("{\"i\":{\"S\":\"yesterday\"}}", EO_INSTANT_ISO, -1) && is_instant("{}", EO_INSTANT_S, -1) &&
	   is_instant("{\"i\":{\"S\":\"2026-13-22T01:02:03Z\"}}", EO_INSTANT_ISO, -1), "what is no instant");
	ok(is_instant("{\"i\":{\"N\":\"99999999999999999999\"}}", EO_INSTANT_S, EO_MAX_INSTANT_MS), "an instant that is too late");
}

int
main(void)
{
	test_texts();
	test_bodies();
	test_shown();
	test_read();
	test_attributes();
	test_instants();
	test_many();
	return done();
}
