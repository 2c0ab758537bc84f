/*
 * record_test.c
 *	  Bodies declare just the placeholders they use, keys stop at the limit,
 *	  and what is no record is not read as one.
 */
#include "bodies.h"
#include "dynamodb/record.h"

static const EoLayout *layout;

static void
test_bodies(void)
{
	EoRecord	seen = {.state = EO_STATE_COMPLETED,.owner = "o",.fence = 3,.updated_ms = 4,.ttl_s = 5};
	EoWrite		w = {.owner = "11111111-2222-4333-8444-555555555555",.now_ms = 1000,.lease_ms = 2000,
	.skew_ms = 10,.ttl_s = 3,.bind = "keep",.retry_ms = 1000,.seen = &seen};

	for (int verb = EO_ACQUIRE; verb <= EO_PROBE; verb++)
	{
		for (int variant = 0; variant < 32; variant++)
		{
			EoBuf		body;
			bool		declared;

			w.max_runs = variant & 1 ? 3 : 0;
			w.payload_sha256 = variant & 2 ? "ab" : NULL;
			w.result = w.error = variant & 4 ? "{\"x\": \"\\\"\"}" : NULL;
			w.result_len = w.error_len = w.result ? strlen(w.result) : 0;
			w.terminal = variant & 8;
			/* A seal always says whose it is. */
			w.origin = variant & 16 || (verb >= EO_SEAL && verb <= EO_SEAL_EXPIRED) ? "o/1/2/3/4" : NULL;
			eo_buf_init(&body, 100000);
			eo_record_put_write(layout, &body, "tab", "IDEMPOTENCY#\"k\"", (EoVerb) verb, &w);
			declared = declares_as_used(&body);
			if (!declared)
				printf("# verb %d variant %d: %s\n", verb, variant, eo_buf_str(&body));
			if (variant == 15 || !declared)
				ok(declared, "placeholders are declared as used");
			eo_buf_free(&body);
		}
	}
}

static void
test_keys(void)
{
	char		key[EO_MAX_KEY_BYTES + 10];
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;

	memset(key, 'k', sizeof(key));
	key[EO_MAX_KEY_BYTES - 12 - 4] = '\0';
	ok(eo_record_make_pk(layout, "app/", key, pk, &len) == EO_OK && len == EO_MAX_KEY_BYTES &&
	   strlen(pk) == EO_MAX_KEY_BYTES, "the longest key");
	ok(strncmp(pk, "IDEMPOTENCY#app/k", 17) == 0, "is made of prefix and key");
	ok(eo_record_make_pk(layout, "app/x", key, pk, &len) == EO_TOO_LARGE && len == EO_MAX_KEY_BYTES + 1,
	   "one more byte is too long");
	ok(eo_record_max_value(layout, 20) > 409000 && eo_record_max_value(layout, 20) < EO_MAX_ITEM_BYTES,
	   "room for a result");
	ok(eo_record_layout("modern") == NULL, "no other layout");
}

/* A write is the same beside others as by itself, but brings nothing back. */
static void
test_actions(void)
{
	EoWrite		w = {.owner = "o",.now_ms = 1000,.ttl_s = 3,.bind = "keep",.result = "1",.result_len = 1};
	EoBuf		alone;
	EoBuf		beside;
	char	   *returns;
	static const char what[] = ",\"ReturnValues\":\"ALL_NEW\"";

	eo_buf_init(&alone, 10000);
	eo_buf_init(&beside, 10000);
	eo_record_put_write(layout, &alone, "tab", "IDEMPOTENCY#k", EO_COMPLETE_NEW, &w);
	eo_record_put_transact_item(layout, &beside, "tab", "IDEMPOTENCY#k", EO_COMPLETE_NEW, &w);
	returns = strstr(alone.data, what);
	ok(returns != NULL, "a write asks for what it leaves");
	memmove(returns, returns + strlen(what), strlen(returns + strlen(what)) + 1);
	ok(strncmp(beside.data, "{\"Update\":", 10) == 0 && strncmp(beside.data + 10, alone.data, strlen(alone.data)) == 0 &&
	   strcmp(beside.data + 10 + strlen(alone.data), "}") == 0, "an action does not, and is the same");
	eo_buf_free(&alone);
	eo_buf_free(&beside);
	ok(eo_record_is_pk(layout, "IDEMPOTENCY#a") && !eo_record_is_pk(layout, "idempotency#a"),
	   "the keys of records");
}

static EoStatus
reads(const char *item)
{
	EoJson	   *doc;
	EoRecord	r;
	EoStatus	status;

	if (eo_json_parse(item, strlen(item), &doc) != EO_OK)
		return EO_CRYPTO;
	status = eo_record_read(layout, eo_json_root(doc), &r);
	eo_json_free(doc);
	return status;
}

/* Numbers that nobody sensible writes do no harm. */
static void
test_absurd(void)
{
	const char *item;
	EoJson	   *doc;
	EoRecord	r;

	item = "{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"ttl\":{\"N\":\"9223372036854775807\"},"
		"\"updated_ms\":{\"N\":\"-5\"},\"retry_ms\":{\"N\":\"9223372036854775807\"},\"runs\":{\"N\":\"4294967296\"}}";
	ok(eo_json_parse(item, strlen(item), &doc) == EO_OK &&
	   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK, "an absurd record is read");
	ok(r.ttl_s > 0 && r.ttl_s * 1000 + 300000 > r.ttl_s, "its ttl is far away and can be reckoned with");
	ok(r.updated_ms == 0 && r.retry_ms > 0 && r.runs == INT32_MAX, "its other numbers, too");
	eo_json_free(doc);
}

static void
test_records(void)
{
	ok(reads("{\"pk\":{\"S\":\"k\"},\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"}}") == EO_OK,
	   "the least of a record");
	ok(reads("{\"status\":{\"S\":\"IN_PROGRESS\"},\"owner\":{\"S\":\"o\"},\"lease_ms\":{\"N\":\"1\"}}") == EO_OK,
	   "in progress");
	ok(reads("{\"status\":{\"S\":\"IN_PROGRESS\"},\"owner\":{\"S\":\"o\"}}") == EO_INVALID,
	   "in progress without a lease is none");
	ok(reads("{\"status\":{\"S\":\"IN_PROGRESS\"},\"owner\":{\"S\":\"o\"},\"lease_ms\":{\"S\":\"1\"}}") == EO_INVALID,
	   "nor with a lease that is no number");
	ok(reads("{\"status\":{\"S\":\"Completed\"},\"owner\":{\"S\":\"o\"}}") == EO_INVALID, "another state is none");
	ok(reads("{\"status\":{\"S\":\"COMPLETED\"}}") == EO_INVALID, "without an owner is none");
	ok(reads("{}") == EO_INVALID, "nothing is none");
}

int
main(void)
{
	layout = eo_record_layout("native");
	ok(layout != NULL, "the native layout");
	test_bodies();
	test_keys();
	test_actions();
	test_records();
	test_absurd();
	return done();
}
