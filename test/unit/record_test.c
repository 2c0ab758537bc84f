/*
 * record_test.c
 *	  Bodies declare just the placeholders they use and set the state they are
 *	  said to leave, keys stop at the limit, and what is no record is not read
 *	  as one.
 */
#include "bodies.h"
#include "records/record.h"

static const EoLayout *layout;

/* Bits of a variant: the optional parts of a write. */
enum
{
	RUNS = 1, PAYLOAD = 2, RESULT = 4, ERROR = 8, TERMINAL = 16, ORIGIN = 32, NO_ORIGIN = 64,
	FENCE = 128, UPDATED = 256, HOLDER = 512, WRITES = 1024, HANDLER = 2048, PROGRESS = 4096,
	N_VARIANTS = 8192
};

/* What was seen, with the attributes that a variant has. */
static const char *
seen_item(int variant)
{
	static const char *const items[] = {
		"{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"ttl\":{\"N\":\"5\"}}",
		"{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"ttl\":{\"N\":\"5\"},\"fence\":{\"N\":\"3.5\"}}",
		"{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"ttl\":{\"N\":\"5\"},\"updated_ms\":{\"S\":\"a\\\"/\"}}",
		"{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"ttl\":{\"N\":\"5\"},\"fence\":{\"N\":\"3.5\"},\"updated_ms\":{\"S\":\"a\\\"/\"}}"
	};

	return items[variant / FENCE % 4];
}

static void
put_variant(EoBuf *body, EoVerb verb, int variant)
{
	EoJson	   *doc;
	EoRecord	seen;
	EoWrite		w = {.owner = "11111111-2222-4333-8444-555555555555",.now_ms = 1000,.lease_ms = 2000,
	.skew_ms = 10,.kept_from_s = 3,.retention_s = 3600,.bind = "keep",.retry_ms = 1000,.seen = &seen};

	if (eo_json_parse(seen_item(variant), strlen(seen_item(variant)), &doc) != EO_OK ||
		eo_record_read(layout, eo_json_root(doc), &seen) != EO_OK)
		abort();
	w.max_runs = variant & RUNS ? 3 : 0;
	w.payload_sha256 = variant & PAYLOAD ? "ab" : NULL;
	w.result = variant & RESULT ? "{\"x\": \"\\\"\"}" : NULL;
	w.result_len = w.result ? strlen(w.result) : 0;
	w.error = variant & ERROR ? "\"e\"" : NULL;
	w.error_len = w.error ? strlen(w.error) : 0;
	w.terminal = variant & TERMINAL;
	w.origin = variant & ORIGIN ? "o/1/2/3" : variant & NO_ORIGIN ? "" : NULL;
	w.origin_last = w.origin;
	w.holder = variant & HOLDER ? "psql" : NULL;
	w.writes = variant & WRITES ? 7 : 0;
	w.handler = variant & HANDLER ? "app.pay" : NULL;
	w.progress = "{}";
	w.progress_len = 2;
	w.progress_seen = variant & PROGRESS ? 4 : 0;
	/* A seal always says whose it is, and so does what is noted of one. */
	if ((verb >= EO_SEAL && verb <= EO_SEAL_EXPIRED) || verb == EO_NOTE_UNDONE ||
		verb == EO_FINISH_OTHER)
		w.origin = w.origin_last = "o/1/2/3";
	eo_buf_init(body, 100000);
	eo_record_put_write(layout, body, "tab", "IDEMPOTENCY#\"k\"", verb, &w);
	eo_json_free(doc);
}

static void
test_bodies(void)
{
	for (int verb = EO_ACQUIRE; verb <= EO_PROBE; verb++)
	{
		bool		all = true;

		for (int variant = 0; variant < N_VARIANTS; variant++)
		{
			EoBuf		body;

			put_variant(&body, (EoVerb) verb, variant);
			all &= check_body(&body, verb, variant);
		}
		ok(all, "placeholders are declared as used");
	}
}

/* The state that a body sets is the one that is said to be left. */
static void
test_states(void)
{
	for (int verb = EO_ACQUIRE; verb < EO_PROBE; verb++)
	{
		EoBuf		body;
		const char *set;
		char		value[100];

		put_variant(&body, (EoVerb) verb, 0);
		set = strstr(eo_buf_str(&body), "SET #s = :");
		if (verb == EO_EXTEND || verb == EO_PROGRESS || verb == EO_NOTE_UNDONE)
			ok(set == NULL && eo_record_state_after((EoVerb) verb) ==
			   (verb == EO_NOTE_UNDONE ? EO_STATE_COMMITTING : EO_STATE_IN_PROGRESS), "the state stays");
		else if (set != NULL)
		{
			snprintf(value, sizeof(value), "\":%c\":{\"S\":\"%s\"}", set[10],
					 eo_record_state_name(eo_record_state_after((EoVerb) verb)));
			ok(strstr(set, value) != NULL, value);
		}
		else
			ok(false, "a state is set");
		eo_buf_free(&body);
	}
}

/* Does the body of this variant have the text? */
static bool
has(EoVerb verb, int variant, const char *text)
{
	EoBuf		body;
	bool		found;

	put_variant(&body, verb, variant);
	found = strstr(eo_buf_str(&body), text) != NULL;
	eo_buf_free(&body);
	return found;
}

static void
test_variants(void)
{
	ok(has(EO_ACQUIRE, RUNS, " AND (attribute_not_exists(#n) OR #n < :m)") && !has(EO_ACQUIRE, 0, "#n < :m"),
	   "a limit of runs");
	ok(has(EO_RELEASE, 0, "#n = if_not_exists(#n, :1) - :1") && !has(EO_RELEASE, 0, "#i"), "a run that is not counted");
	ok(has(EO_SPARE, 0, "#n = if_not_exists(#n, :1) - :1, #i = if_not_exists(#i, :0) + :1"), "because the machine has failed");
	ok(has(EO_ACQUIRE, PAYLOAD, "SET #s = :I") && has(EO_ACQUIRE, PAYLOAD, "#p = :p)") &&
	   !has(EO_ACQUIRE, 0, "#p"), "a fingerprint is compared");
	ok(has(EO_ACQUIRE, HANDLER, "#t = :t, #a = :a, #j = :j REMOVE") &&
	   has(EO_ACQUIRE, HANDLER, "#o <> :o AND (attribute_not_exists(#j) OR #j = :j)) OR (#s = :I") &&
	   has(EO_ACQUIRE, HANDLER, "#l < :d AND (attribute_not_exists(#j) OR #j = :j))\"") &&
	   !has(EO_ACQUIRE, 0, "#j"), "so is the handler");
	ok(has(EO_REPLACE, 0, " REMOVE #v, #e, #r, #w, #d, #i, #g, #h, #p, #j, #m, #q\"") &&
	   has(EO_REPLACE, PAYLOAD, " REMOVE #v, #e, #r, #w, #d, #i, #g, #h, #j, #m, #q\"") &&
	   has(EO_REPLACE, PAYLOAD | HANDLER, " REMOVE #v, #e, #r, #w, #d, #i, #g, #h, #m, #q\""),
	   "those of an expired record are dropped");
	for (int verb = EO_COMPLETE; verb <= EO_NOTE_UNDONE; verb++)
		ok(has((EoVerb) verb, HANDLER, "#j") == (verb == EO_SEAL_NEW || verb == EO_SEAL_EXPIRED),
		   "and no write of the owner touches the handler");
	ok(has(EO_COMPLETE, RESULT, "#v = :v REMOVE #l, #r, #e, #g, #w, #m, #q\"") &&
	   has(EO_COMPLETE, ERROR, "(#a, :a) REMOVE #l, #r, #e, #g, #w, #v, #m, #q\""),
	   "a result is set or removed, whether there is an error or not");
	ok(has(EO_FAIL, ERROR, ", #e = :e, #r = :r REMOVE #l, #v, #i\"") &&
	   has(EO_FAIL, RESULT, ", #r = :r REMOVE #l, #v, #i, #e\"") &&
	   has(EO_FAIL, TERMINAL, "(#a, :a) REMOVE #l, #v, #i, #e, #r\""), "so is an error, and the instant of the next try");
	ok(has(EO_ABORT, ORIGIN, "(#s = :I OR (#s = :M AND #g = :g))\"") && has(EO_ABORT, 0, "(#s = :I)\"") &&
	   has(EO_ABORT, NO_ORIGIN, "(#s = :I OR (#s = :M AND attribute_not_exists(#g)))\""), "whose seal is undone");
	ok(has(EO_ACQUIRE, HOLDER, "#t = :t, #a = :a, #h = :h REMOVE #v, #e, #r, #d, #g\"") &&
	   has(EO_ACQUIRE, 0, "#t = :t, #a = :a REMOVE #v, #e, #r, #d, #g, #h\"") &&
	   has(EO_ACQUIRE, 0, "\":t\":{\"N\":\"3603\"}"), "a claim notes its retention, and who made it");
	ok(has(EO_SEAL, WRITES, ", #w = :q REMOVE") && has(EO_SEAL_NEW, WRITES, ", #w = :q REMOVE") &&
	   has(EO_SEAL_EXPIRED, WRITES, ", #w = :q REMOVE") &&
	   has(EO_FINISH, WRITES, "AND #w = :q\"") && has(EO_WAIVE, 0, "REMOVE #l, #w, #m, #q\""),
	   "a seal says how many writes the finish makes, and only that finish ends it");
	ok(has(EO_SEAL, 0, ", #w\"") && has(EO_SEAL_NEW, 0, ", #w\"") && has(EO_SEAL_EXPIRED, 0, ", #w, #m, #q\"") &&
	   has(EO_FINISH, 0, "AND #o = :o AND attribute_not_exists(#w)\"") &&
	   has(EO_FINISH, ORIGIN, "AND #o = :o AND #g >= :g AND #g <= :H AND attribute_not_exists(#w)\"") &&
	   has(EO_FINISH_OTHER, ORIGIN, "AND #o = :o AND #g = :H AND attribute_not_exists(#w)\"") &&
	   has(EO_WAIVE, ORIGIN, "AND #s = :M AND #g = :g\"") &&
	   has(EO_COMPLETE_NEW, 0, "#g, #w"), "and there is no number if it makes none");
	ok(has(EO_SEAL_NEW, HOLDER, "#a = :a, #h = :h") && has(EO_SEAL_EXPIRED, HOLDER, "#a = :a, #h = :h") &&
	   has(EO_COMPLETE_NEW, HOLDER, "#a = :a, #h = :h") &&
	   has(EO_COMPLETE_FREE, HOLDER, "#a = :a, #h = :h") &&
	   has(EO_COMPLETE_EXPIRED, HOLDER, "#a = :a, #h = :h"), "so does every other verb that makes one");
	for (int verb = EO_COMPLETE; verb <= EO_RESUME; verb++)
	{
		if (verb >= EO_SEAL && verb <= EO_SEAL_EXPIRED)
			continue;
		ok(has((EoVerb) verb, HOLDER, "#t = :w + if_not_exists(#a, :a)") &&
		   has((EoVerb) verb, HOLDER, "\":w\":{\"N\":\"3\"}") && !has((EoVerb) verb, HOLDER, "#h"),
		   "the owner's writes keep the record for that retention");
	}
	ok(has(EO_UNSEAL, ORIGIN, "#g = :g REMOVE #v, #w ADD #d :G\"") && !has(EO_UNSEAL, 0, "#d") &&
	   has(EO_UNSEAL, ORIGIN, "\":G\":{\"SS\":[\"o/1/2/3\"]}") && has(EO_RESUME, ORIGIN, "#w ADD #d :G\"") &&
	   has(EO_SEAL, 0, " AND (attribute_not_exists(#d) OR NOT contains(#d, :g))\""),
	   "and which cannot be repeated");
	ok(has(EO_RESUME, ORIGIN, "#o = :o AND #s = :M AND #g = :g\"") &&
	   has(EO_RESUME, ORIGIN, "SET #s = :I, #l = :l, #u = :i, "), "a claim that goes on has a new lease");
}

/* A note follows the one that was seen, and is kept until the key is completed or begun anew. */
static void
test_progress(void)
{
	static const EoVerb removing[] = {EO_REPLACE, EO_COMPLETE, EO_SEAL_EXPIRED, EO_FINISH,
		EO_FINISH_OTHER, EO_WAIVE, EO_COMPLETE_NEW,
	EO_COMPLETE_FREE, EO_COMPLETE_EXPIRED, EO_FORGET, EO_FORGET_ODD};

	ok(has(EO_PROGRESS, 0, "#s = :I AND #o = :o AND #l <= :l AND attribute_not_exists(#q)\"") &&
	   !has(EO_PROGRESS, 0, ":A"), "the first note");
	ok(has(EO_PROGRESS, PROGRESS, "#s = :I AND #o = :o AND #l <= :l AND #q = :A\"") &&
	   has(EO_PROGRESS, PROGRESS, "\":A\":{\"N\":\"4\"}"), "a later one");
	ok(has(EO_PROGRESS, 0, "SET #m = :P, #q = if_not_exists(#q, :0) + :1, ") &&
	   has(EO_PROGRESS, 0, "\":P\":{\"S\":\"{}\"}"), "has the next number");
	for (int verb = EO_ACQUIRE; verb < EO_PROBE; verb++)
	{
		bool		removes = false;

		for (size_t i = 0; i < sizeof(removing) / sizeof(removing[0]); i++)
			removes |= removing[i] == (EoVerb) verb;
		ok(verb == EO_PROGRESS || has((EoVerb) verb, 0, ", #m, #q") == removes, "who removes progress");
		ok(verb == EO_PROGRESS || removes || !has((EoVerb) verb, PROGRESS, "#m"), "and who leaves it");
	}
}

/* A write on what was seen compares what it has, and the absence of what it has not. */
static void
test_seen(void)
{
	static const EoVerb verbs[] =
	{EO_REPLACE, EO_SEAL_EXPIRED, EO_COMPLETE_EXPIRED, EO_COMPLETE_FREE, EO_FORGET};

	for (int i = 0; i < 5; i++)
	{
		EoVerb		verb = verbs[i];

		ok(has(verb, FENCE, " AND #f = :N") && has(verb, FENCE, "\":N\":{\"N\":\"3.5\"}"),
		   "the fence that was seen");
		ok(has(verb, 0, " AND attribute_not_exists(#f)") && !has(verb, 0, ":N"),
		   "or that there was none");
		if (verb == EO_FORGET)
			continue;
		ok(has(verb, UPDATED, " AND #u = :U") &&
		   has(verb, UPDATED, "\":U\":{\"S\":\"a\\\"/\"}"), "the last change that was seen");
		ok(has(verb, 0, " AND attribute_not_exists(#u)") && !has(verb, 0, ":U"),
		   "or that there was none");
		ok(has(verb, 0, "#f = if_not_exists(#f, :i) + :1"), "a fence begins where there was none");
	}
}

/* A late copy of a completion is refused as soon as there is a record, or another one. */
static void
test_completions(void)
{
	ok(has(EO_COMPLETE_NEW, 0, "\"ConditionExpression\":\"attribute_not_exists(#k)\""),
	   "a completion of a key without a record");
	ok(has(EO_COMPLETE_FREE, UPDATED, "\"ConditionExpression\":\"#s = :S AND #o = :O AND attribute_not_exists(#f) "
		   "AND #u = :U AND ((#s = :F AND #r <= :i AND #o <> :o) OR (#s = :I AND #l < :d))\""),
	   "a completion of a free key, as it was seen");
}

static void
test_keys(void)
{
	char		key[EO_MAX_KEY_BYTES + 10];
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;

	memset(key, 'k', sizeof(key));
	key[EO_MAX_KEY_BYTES - 12 - 4] = '\0';
	ok(eo_record_key_make(layout, "app/", key, pk, &len) == EO_OK && len == EO_MAX_KEY_BYTES &&
	   strlen(pk) == EO_MAX_KEY_BYTES, "the longest key");
	ok(strncmp(pk, "IDEMPOTENCY#app/k", 17) == 0, "is made of prefix and key");
	ok(eo_record_key_make(layout, "app/x", key, pk, &len) == EO_TOO_LARGE && len == EO_MAX_KEY_BYTES + 1,
	   "one more byte is too long");
	ok(eo_record_key_room(layout, 20) > 408500 &&
	   eo_record_key_room(layout, 20) < EO_MAX_ITEM_BYTES,
	   "room for a result");
	ok(eo_layout_find("modern") == NULL, "no other layout");
}

/* A write is the same beside others as by itself, but brings nothing back. */
static void
test_actions(void)
{
	EoWrite		w = {.owner = "o",.now_ms = 1000,.kept_from_s = 3,.bind = "keep",
	.result = "1",.result_len = 1};
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
	ok(strncmp(beside.data, "{\"Update\":", 10) == 0 &&
	   strncmp(beside.data + 10, alone.data, strlen(alone.data)) == 0 &&
	   strcmp(beside.data + 10 + strlen(alone.data), "}") == 0, "an action does not, and is the same");
	eo_buf_free(&alone);
	eo_buf_free(&beside);
	ok(eo_record_key_matches(layout, "IDEMPOTENCY#a") && !eo_record_key_matches(layout, "idempotency#a"),
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
	is_string(r.odd_number, "updated_ms", "a negative number is told to be odd");
	eo_json_free(doc);
	item = "{\"status\":{\"S\":\"FAILED\"},\"owner\":{\"S\":\"o\"},\"fence\":{\"N\":\"9223372036854775808\"},"
		"\"retry_ms\":{\"S\":\"1\"}}";
	ok(eo_json_parse(item, strlen(item), &doc) == EO_OK &&
	   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK && r.fence == 0 && !r.has_retry,
	   "numbers of too many digits, and strings, are none");
	is_string(r.odd_number, "fence", "and the first of them is told");
	eo_json_free(doc);
}

/* What others have put into the place of a result is JSON, or is told to be odd. */
static void
test_foreign(void)
{
	const char *item;
	EoJson	   *doc;
	EoRecord	r;

	item = "{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"result\":{\"M\":{\"a\":{\"N\":\"1\"}}},"
		"\"error\":{\"B\":\"AA==\"},\"payload_sha256\":{\"B\":\"AA==\"},\"handler\":{\"N\":\"1\"}}";
	ok(eo_json_parse(item, strlen(item), &doc) == EO_OK &&
	   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK, "a record of another client is read");
	is_string(r.result, "{\"a\":1}", "its result is JSON");
	ok(r.result_len == 7 && !r.odd_result, "of that length");
	ok(r.error == NULL && r.odd_error, "a binary error is odd");
	ok(r.payload_sha256 == NULL && r.odd_payload_sha256, "so is a binary fingerprint");
	ok(r.handler == NULL && r.odd_handler, "and a handler that is a number");
	eo_json_free(doc);
	item = "{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"}}";
	ok(eo_json_parse(item, strlen(item), &doc) == EO_OK &&
	   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK &&
	   r.result == NULL && r.error == NULL && r.progress == NULL && r.progress_no == 0 &&
	   !r.odd_result && !r.odd_error && !r.odd_progress && !r.odd_payload_sha256 &&
	   !r.odd_handler, "nothing is odd where nothing is");
	eo_json_free(doc);
	item = "{\"status\":{\"S\":\"FAILED\"},\"owner\":{\"S\":\"o\"},\"progress\":{\"M\":{\"a\":{\"N\":\"1\"}}},"
		"\"progress_no\":{\"N\":\"3\"}}";
	ok(eo_json_parse(item, strlen(item), &doc) == EO_OK &&
	   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK && r.progress_no == 3, "progress is read");
	is_string(r.progress, "{\"a\":1}", "as JSON");
	eo_json_free(doc);
	item = "{\"status\":{\"S\":\"FAILED\"},\"owner\":{\"S\":\"o\"},\"progress\":{\"B\":\"AA==\"}}";
	ok(eo_json_parse(item, strlen(item), &doc) == EO_OK &&
	   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK &&
	   r.progress == NULL && r.odd_progress,
	   "or is odd");
	eo_json_free(doc);
	item = "{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"progress\":{\"S\":\"{}\"}}";
	ok(eo_json_parse(item, strlen(item), &doc) == EO_OK &&
	   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK &&
	   r.progress == NULL && !r.odd_progress,
	   "a completed key has none");
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

/* What a newer version has written: attributes are ignored, and a state is named. */
static void
test_newer(void)
{
	static const struct
	{
		const char *item;
		const char *state;
	}			cases[] =
	{
		{"{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"S\":\"PARKED\"},\"owner\":{\"S\":\"o\"}}", "PARKED"},
		{"{\"pk\":{\"S\":\"ACTION#k\"},\"status\":{\"S\":\"ON_HOLD\"}}", "ON_HOLD"},
		{"{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"}}", ""},
		/* Items of other programs. */
		{"{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"S\":\"PARKED\"}}", ""},
		{"{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"S\":\"Done\"},\"owner\":{\"S\":\"o\"}}", ""},
		{"{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"S\":\"\"},\"owner\":{\"S\":\"o\"}}", ""},
		{"{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"S\":\"ABCDEFGHIJKLMNOPQRSTUVWXYZ_ABCDEF\"},"
		"\"owner\":{\"S\":\"o\"}}", ""},
		{"{\"pk\":{\"S\":\"IDEMPOTENCY#k\"},\"status\":{\"N\":\"1\"},\"owner\":{\"S\":\"o\"}}", ""}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		EoJson	   *doc;
		const char *state;

		ok(eo_json_parse(cases[i].item, strlen(cases[i].item), &doc) == EO_OK, "it is JSON");
		state = eo_record_read_new_state(layout, eo_json_root(doc));
		is_string(state != NULL ? state : "", cases[i].state, "the state that is not known");
		ok(state == NULL || reads(cases[i].item) == EO_INVALID, "cannot be read");
		eo_json_free(doc);
	}
	ok(reads("{\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"o\"},\"v\":{\"N\":\"2\"},\"more\":{\"M\":{}}}") == EO_OK,
	   "attributes that are not known are ignored");
}

/* The origin is kept as it stands, and parsed if that is possible. */
static void
test_origin(void)
{
	static const struct
	{
		const char *item;
		const char *text;
		bool		readable;
	}			cases[] =
	{
		{"{\"status\":{\"S\":\"FAILED\"},\"owner\":{\"S\":\"o\"}}", "", false},
		{"{\"status\":{\"S\":\"FAILED\"},\"owner\":{\"S\":\"o\"},\"origin\":{\"S\":\"odd\"}}", "odd", false},
		{"{\"status\":{\"S\":\"FAILED\"},\"owner\":{\"S\":\"o\"},"
			"\"origin\":{\"S\":\"00ff10a9-8b7c-4d5e-8f01-23456789abcd/1/2/4F\"}}",
		"00ff10a9-8b7c-4d5e-8f01-23456789abcd/1/2/4F", true}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		EoJson	   *doc;
		EoRecord	r;

		ok(eo_json_parse(cases[i].item, strlen(cases[i].item), &doc) == EO_OK &&
		   eo_record_read(layout, eo_json_root(doc), &r) == EO_OK, "a record is read");
		is_string(r.origin_text != NULL ? r.origin_text : "", cases[i].text, "with its origin");
		ok(r.has_origin == cases[i].readable && r.origin.lsn == (cases[i].readable ? 0x4F : 0),
		   "which is parsed, if it can be");
		eo_json_free(doc);
	}
}

int
main(void)
{
	layout = eo_layout_find("native");
	ok(layout != NULL, "the native layout");
	test_bodies();
	test_states();
	test_variants();
	test_progress();
	test_seen();
	test_completions();
	test_keys();
	test_actions();
	test_records();
	test_foreign();
	test_absurd();
	test_newer();
	test_origin();
	return done();
}
