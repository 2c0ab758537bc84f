/*-------------------------------------------------------------------------
 *
 * record.c
 *	  How a record is spelled in DynamoDB: attributes, states, conditions.
 *
 * Expressions are written in the shorthand of expression.h; attributes[] and
 * put_value() say what the letters stand for.  They are made once for each verb
 * and variant (find_expression()).  The conditions carry the protocol, so each is
 * argued beside its text.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/record.h"

#include "dynamodb/buf.h"
#include "dynamodb/expression.h"
#include "dynamodb/json.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"

typedef enum EoAttribute
{
	A_KEY,
	A_STATUS,
	A_OWNER,
	A_BIND,
	A_FENCE,
	A_LEASE,
	A_RUNS,
	A_RESULT,
	A_ERROR,
	A_PAYLOAD,
	A_RETRY,
	A_CREATED,
	A_UPDATED,
	A_ORIGIN,
	A_TTL,
	N_ATTRIBUTES
} EoAttribute;

struct EoLayout
{
	const char *name;
	const char *key_prefix;		/* before the server's own prefix */
	EoAttributeName attributes[N_ATTRIBUTES + 1];
	const char *states[4];		/* by EoState */
};

static const EoLayout layouts[] = {
	{
		"native", "IDEMPOTENCY#",
		{
			[A_KEY] = {'k', "pk"},[A_STATUS] = {'s', "status"},
			[A_OWNER] = {'o', "owner"},[A_BIND] = {'b', "bind"},
			[A_FENCE] = {'f', "fence"},[A_LEASE] = {'l', "lease_ms"},
			[A_RUNS] = {'n', "runs"},[A_RESULT] = {'v', "result"},
			[A_ERROR] = {'e', "error"},[A_PAYLOAD] = {'p', "payload_sha256"},
			[A_RETRY] = {'r', "retry_ms"},[A_CREATED] = {'c', "created_ms"},
			[A_UPDATED] = {'u', "updated_ms"},[A_ORIGIN] = {'g', "origin"},
			[A_TTL] = {'t', "ttl"}
		},
		{
			[EO_STATE_IN_PROGRESS] = "IN_PROGRESS",
			[EO_STATE_COMMITTING] = "COMMITTING",
			[EO_STATE_COMPLETED] = "COMPLETED",
			[EO_STATE_FAILED] = "FAILED"
		}
	}
};

/*
 * Room kept in an item for everything but partition key and result: 96 bytes
 * of attribute names, 21 for each of seven numbers (their largest size),
 * status, bind, token, fingerprint and an origin of up to 128 bytes.
 */
#define ITEM_OVERHEAD (96 + 7 * 21 + 11 + 4 + EO_TOKEN_LEN + EO_FINGERPRINT_LEN + 128)

#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* A write and the layout it is spelled in, for put_value(). */
typedef struct Writing
{
	const EoLayout *layout;
	const EoWrite *w;
} Writing;

static void put_update(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
					   EoVerb verb, const EoWrite *w, const char *returns);
static const EoExpression *find_expression(const EoLayout *layout, EoVerb verb, const EoWrite *w);
static void condition(EoVerb verb, const EoWrite *w, EoBuf *out);
static void update(EoVerb verb, const EoWrite *w, EoBuf *out);
static bool put_value(EoBuf *body, char letter, const void *arg);

const EoLayout *
eo_record_layout(const char *name)
{
	for (size_t i = 0; i < N_LAYOUTS; i++)
	{
		if (strcmp(layouts[i].name, name) == 0)
			return &layouts[i];
	}
	return NULL;
}

const char *
eo_record_key_name(const EoLayout *layout)
{
	return layout->attributes[A_KEY].name;
}

const char *
eo_record_ttl_name(const EoLayout *layout)
{
	return layout->attributes[A_TTL].name;
}

const char *
eo_record_state_name(EoState state)
{
	return layouts[0].states[state];
}

EoStatus
eo_record_make_pk(const EoLayout *layout, const char *prefix, const char *key,
				  char *out, size_t *len)
{
	*len = strlen(layout->key_prefix) + strlen(prefix) + strlen(key);
	if (*len > EO_MAX_KEY_BYTES)
		return EO_TOO_LARGE;
	snprintf(out, EO_MAX_KEY_BYTES + 1, "%s%s%s", layout->key_prefix, prefix, key);
	return EO_OK;
}

size_t
eo_record_max_value(const EoLayout *layout, size_t pk_len)
{
	(void) layout;
	return EO_MAX_ITEM_BYTES - ITEM_OVERHEAD - pk_len;
}

EoState
eo_record_state_after(EoVerb verb)
{
	switch (verb)
	{
		case EO_ACQUIRE:
		case EO_REPLACE:
		case EO_EXTEND:
			return EO_STATE_IN_PROGRESS;
		case EO_UNSEAL:
			return EO_STATE_IN_PROGRESS;
		case EO_COMPLETE:
		case EO_FINISH:
		case EO_COMPLETE_NEW:
		case EO_COMPLETE_EXPIRED:
			return EO_STATE_COMPLETED;
		case EO_SEAL:
		case EO_SEAL_NEW:
		case EO_SEAL_EXPIRED:
			return EO_STATE_COMMITTING;
		case EO_FAIL:
		case EO_RELEASE:
		case EO_ABORT:
		case EO_BURY:
		case EO_FORGET:
		case EO_PROBE:
			break;
	}
	return EO_STATE_FAILED;
}

bool
eo_record_is_pk(const EoLayout *layout, const char *pk)
{
	return strncmp(pk, layout->key_prefix, strlen(layout->key_prefix)) == 0;
}

void
eo_record_put_write(const EoLayout *layout, EoBuf *body, const char *table,
					const char *pk, EoVerb verb, const EoWrite *w)
{
	put_update(layout, body, table, pk, verb, w, ",\"ReturnValues\":\"ALL_NEW\"");
}

void
eo_record_put_transact_item(const EoLayout *layout, EoBuf *body, const char *table,
							const char *pk, EoVerb verb, const EoWrite *w)
{
	eo_buf_adds(body, "{\"Update\":");
	put_update(layout, body, table, pk, verb, w, "");
	eo_buf_addc(body, '}');
}

static void
put_update(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
		   EoVerb verb, const EoWrite *w, const char *returns)
{
	const EoExpression *e = find_expression(layout, verb, w);
	Writing		writing = {layout, w};

	if (e == NULL)
		body->status = EO_NO_MEMORY;
	else
		eo_expression_put_update(e, body, table, layout->attributes[A_KEY].name, pk, returns,
								 put_value, &writing);
}

static const EoExpression *
find_expression(const EoLayout *layout, EoVerb verb, const EoWrite *w)
{
	static EoExpression made[N_LAYOUTS][EO_PROBE + 1][64];
	int			variant;
	EoExpression *e;
	EoBuf		cond;
	EoBuf		upd;
	bool		ok;

	variant = (w->max_runs > 0 ? 1 : 0) | (w->payload_sha256 != NULL ? 2 : 0) |
		(w->result != NULL || w->error != NULL ? 4 : 0) | (w->terminal ? 8 : 0) |
		(w->origin != NULL ? 16 : 0) | (w->origin != NULL && w->origin[0] == '\0' ? 32 : 0);
	e = &made[layout - layouts][verb][variant];
	if (e->text.len > 0)
		return e;
	eo_buf_init(&cond, 2048);
	eo_buf_init(&upd, 2048);
	condition(verb, w, &cond);
	update(verb, w, &upd);
	ok = eo_buf_status(&cond) == EO_OK && eo_buf_status(&upd) == EO_OK &&
		eo_expression_make(e, layout->attributes, eo_buf_str(&cond), eo_buf_str(&upd));
	eo_buf_free(&cond);
	eo_buf_free(&upd);
	return ok ? e : NULL;
}

void
eo_record_put_read(const EoLayout *layout, EoBuf *body, const char *table, const char *pk)
{
	eo_expression_put_read(body, table, layout->attributes[A_KEY].name, pk);
}

/*
 * When may this write happen?
 */
static void
condition(EoVerb verb, const EoWrite *w, EoBuf *out)
{
	const char *runs = w->max_runs > 0 ? " AND #n < :m" : "";
	const char *payload = "";
	const char *sealed = "";

	if (w->payload_sha256 != NULL)
		payload = " AND (attribute_not_exists(#p) OR #p = :p)";
	if (w->origin != NULL)
		sealed = w->origin[0] != '\0' ? " OR (#s = :M AND #g = :g)" :
			" OR (#s = :M AND attribute_not_exists(#g))";
	switch (verb)
	{
		case EO_SEAL_NEW:
		case EO_COMPLETE_NEW:
		case EO_ACQUIRE:

			/*
			 * Nothing there; or failed, due, and not by this very token (a
			 * late copy of this request must not revive a claim that has
			 * ended); or in progress with a dead lease.  COMMITTING is in
			 * none of them: it is never taken over, whatever any clock says.
			 */
			eo_buf_addf(out, "attribute_not_exists(#k)"
						" OR (#s = :F AND #r <= :i AND #o <> :o%s%s)"
						" OR (#s = :I AND #l < :d%s%s)",
						runs, payload, runs, payload);
			break;
		case EO_SEAL_EXPIRED:
		case EO_COMPLETE_EXPIRED:
		case EO_REPLACE:

			/*
			 * The record that was seen to be past its time, and untouched
			 * since: every write changes owner, state or updated_ms.
			 */
			eo_buf_adds(out, "#s = :S AND #o = :O AND #f = :N AND #u = :U AND #t = :T");
			break;
		case EO_COMPLETE:
		case EO_RELEASE:
		case EO_EXTEND:

			/*
			 * The owner's own run, in progress.  A lease is never shortened:
			 * a heartbeat that comes late must not undo a later one.
			 */
			eo_buf_adds(out, "#s = :I AND #o = :o");
			if (verb == EO_EXTEND)
				eo_buf_adds(out, " AND #l <= :l");
			break;
		case EO_FAIL:

			/*
			 * The owner may still say why after the claim was released under
			 * its token, as long as nobody has taken it since.
			 */
			eo_buf_adds(out, "#o = :o AND (#s = :I OR #s = :F)");
			break;
		case EO_SEAL:

			/*
			 * The owner's own run, in progress.  A record that bears the
			 * origin of this very transaction was unsealed after it: then
			 * this is a late copy, which must not seal it again.
			 */
			eo_buf_adds(out, "#s = :I AND #o = :o AND (attribute_not_exists(#g) OR #g <> :g)");
			break;
		case EO_FINISH:
			eo_buf_adds(out, "#s = :M AND #o = :o");
			break;
		case EO_BURY:

			/*
			 * A first write whose outcome nobody knows.  If it has not been
			 * carried out there may be nothing at all: then a record under
			 * this token is left, which it can never get past.
			 */
			eo_buf_addf(out, "attribute_not_exists(#k) OR (#o = :o AND (#s = :I%s))", sealed);
			break;
		case EO_ABORT:
		case EO_UNSEAL:

			/*
			 * What this transaction sealed, and nothing that another one has
			 * sealed under the same token.
			 */
			eo_buf_addf(out, "#o = :o AND (#s = :I%s)", sealed);
			break;
		case EO_FORGET:

			/*
			 * Exactly the claim that was seen, in the state it was in: a copy
			 * of this request that arrives late must not undo what a later
			 * run has done.
			 */
			eo_buf_adds(out, "#s = :S AND #o = :O AND #f = :N");
			break;
		case EO_PROBE:
			eo_buf_adds(out, "attribute_exists(#k) AND attribute_not_exists(#k)");
			break;
	}
}

/*
 * What does it change?  What may be claimed at once has a retry_ms of 0, so
 * that no two clocks need agree on when "now" is.  Attributes that a state does
 * not have are removed, so that no reader meets a result of an earlier run.
 */
static void
update(EoVerb verb, const EoWrite *w, EoBuf *out)
{
	const char *set_result = w->result != NULL ? ", #v = :v" : "";
	const char *drop_result = w->result != NULL ? "" : ", #v";
	const char *set_payload = w->payload_sha256 != NULL ? ", #p = :p" : "";
	const char *drop_payload = w->payload_sha256 != NULL ? "" : ", #p";

	switch (verb)
	{
		case EO_ACQUIRE:

			/*
			 * fence starts at the clock, so that it grows even if the record
			 * was deleted in between.
			 */
			eo_buf_addf(out, "SET #s = :I, #o = :o, #b = :b, #f = if_not_exists(#f, :i) + :1,"
						" #l = :l, #n = if_not_exists(#n, :0) + :1,"
						" #c = if_not_exists(#c, :i), #u = :i, #t = :t%s"
						" REMOVE #v, #e, #r, #g",
						set_payload);
			break;
		case EO_REPLACE:
			eo_buf_addf(out, "SET #s = :I, #o = :o, #b = :b, #f = #f + :1,"
						" #l = :l, #n = :1, #c = :i, #u = :i, #t = :t%s"
						" REMOVE #v, #e, #r, #g%s",
						set_payload, drop_payload);
			break;
		case EO_COMPLETE:
			eo_buf_addf(out, "SET #s = :C, #u = :i, #t = :t%s REMOVE #l, #r, #e%s",
						set_result, drop_result);
			break;
		case EO_FAIL:
			eo_buf_addf(out, "SET #s = :F, #u = :i, #t = :t%s%s REMOVE #l, #v%s%s",
						w->error != NULL ? ", #e = :e" : "",
						w->terminal ? "" : ", #r = :r",
						w->error != NULL ? "" : ", #e",
						w->terminal ? ", #r" : "");
			break;
		case EO_RELEASE:
			/* Given back, not tried: the run does not count. */
			eo_buf_adds(out, "SET #s = :F, #u = :i, #t = :t, #r = :0, #n = #n - :1"
						" REMOVE #l, #v, #e");
			break;
		case EO_EXTEND:
			eo_buf_adds(out, "SET #l = :l, #u = :i, #t = :t");
			break;
		case EO_SEAL:

			/*
			 * The result goes in now, so that nothing can be too large or too
			 * late once PostgreSQL has committed.  No ttl: a record in this
			 * state is never swept.  The lease stays, for EO_UNSEAL.
			 */
			eo_buf_addf(out, "SET #s = :M, #g = :g, #b = :b, #u = :i%s REMOVE #t, #e, #r%s",
						set_result, drop_result);
			break;
		case EO_SEAL_NEW:
			eo_buf_addf(out, "SET #s = :M, #o = :o, #b = :b, #g = :g,"
						" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1,"
						" #c = if_not_exists(#c, :i), #u = :i%s REMOVE #t, #l, #e, #r%s",
						set_result, drop_result);
			break;
		case EO_SEAL_EXPIRED:
			eo_buf_addf(out, "SET #s = :M, #o = :o, #b = :b, #g = :g,"
						" #f = #f + :1, #n = :1, #c = :i, #u = :i%s REMOVE #t, #l, #e, #r, #p%s",
						set_result, drop_result);
			break;
		case EO_COMPLETE_NEW:
			eo_buf_addf(out, "SET #s = :C, #o = :o, #b = :b,"
						" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1,"
						" #c = if_not_exists(#c, :i), #u = :i, #t = :t%s%s REMOVE #l, #e, #r, #g%s",
						set_result, set_payload, drop_result);
			break;
		case EO_COMPLETE_EXPIRED:
			eo_buf_addf(out, "SET #s = :C, #o = :o, #b = :b,"
						" #f = #f + :1, #n = :1, #c = :i, #u = :i, #t = :t%s%s"
						" REMOVE #l, #e, #r, #g%s%s",
						set_result, set_payload, drop_result, drop_payload);
			break;
		case EO_FINISH:
			eo_buf_adds(out, "SET #s = :C, #u = :i, #t = :t REMOVE #l");
			break;
		case EO_ABORT:

			/*
			 * The run counts: a key whose work always fails is parked in the
			 * end.
			 */
			eo_buf_adds(out, "SET #s = :F, #u = :i, #t = :t, #r = :0 REMOVE #l, #v, #e");
			break;
		case EO_BURY:
			eo_buf_adds(out, "SET #s = :F, #o = :o, #u = :i, #t = :t, #r = :0,"
						" #f = if_not_exists(#f, :i), #n = if_not_exists(#n, :1) - :1,"
						" #c = if_not_exists(#c, :i), #b = if_not_exists(#b, :b)"
						" REMOVE #l, #v, #e");
			break;
		case EO_UNSEAL:
			eo_buf_addf(out, "SET #s = :I, #l = if_not_exists(#l, :i), #u = :i, #t = :t%s"
						" REMOVE #v",
						w->origin != NULL ? ", #g = :g" : "");
			break;
		case EO_FORGET:
			/* A new owner, so that nobody's late write finds its own token. */
			eo_buf_adds(out, "SET #s = :F, #o = :o, #u = :i, #t = :t, #r = :0, #n = :0"
						" REMOVE #l, #v, #e, #p");
			break;
		case EO_PROBE:
			eo_buf_adds(out, "SET #u = :i");
			break;
	}
}

/* Capital letters: states, and what was seen.  False: no such letter. */
static bool
put_value(EoBuf *body, char letter, const void *arg)
{
	const EoLayout *layout = ((const Writing *) arg)->layout;
	const EoWrite *w = ((const Writing *) arg)->w;

	switch (letter)
	{
		case 'I':
			eo_expression_put_string(body, layout->states[EO_STATE_IN_PROGRESS]);
			return true;
		case 'M':
			eo_expression_put_string(body, layout->states[EO_STATE_COMMITTING]);
			return true;
		case 'C':
			eo_expression_put_string(body, layout->states[EO_STATE_COMPLETED]);
			return true;
		case 'F':
			eo_expression_put_string(body, layout->states[EO_STATE_FAILED]);
			return true;
		case 'S':
			eo_expression_put_string(body, layout->states[w->seen->state]);
			return true;
		case 'O':
			eo_expression_put_string(body, w->seen->owner);
			return true;
		case 'N':
			eo_expression_put_n(body, w->seen->fence);
			return true;
		case 'U':
			eo_expression_put_n(body, w->seen->updated_ms);
			return true;
		case 'T':
			eo_expression_put_n(body, w->seen->ttl_s);
			return true;
		case 'o':
			eo_expression_put_string(body, w->owner);
			return true;
		case 'b':
			eo_expression_put_string(body, w->bind);
			return true;
		case 'g':
			eo_expression_put_string(body, w->origin);
			return true;
		case 'i':
			eo_expression_put_n(body, w->now_ms);
			return true;
		case 'd':
			eo_expression_put_n(body, w->now_ms - w->skew_ms);
			return true;
		case 'l':
			eo_expression_put_n(body, w->lease_ms);
			return true;
		case 't':
			eo_expression_put_n(body, w->ttl_s);
			return true;
		case 'm':
			eo_expression_put_n(body, w->max_runs);
			return true;
		case 'r':
			eo_expression_put_n(body, w->retry_ms);
			return true;
		case '0':
			eo_expression_put_n(body, 0);
			return true;
		case '1':
			eo_expression_put_n(body, 1);
			return true;
		case 'p':
			eo_expression_put_string(body, w->payload_sha256);
			return true;
		case 'v':
			eo_expression_put_s(body, w->result, w->result_len);
			return true;
		case 'e':
			eo_expression_put_s(body, w->error, w->error_len);
			return true;
	}
	return false;
}

const char *
eo_record_pk_of(const EoLayout *layout, EoJsonValue *item)
{
	size_t		len;

	return eo_json_attr_s(item, layout->attributes[A_KEY].name, &len);
}

static void
clamp(int64_t *value, int64_t max)
{
	if (*value < 0)
		*value = 0;
	else if (*value > max)
		*value = max;
}

EoStatus
eo_record_read(const EoLayout *layout, EoJsonValue *item, EoRecord *record)
{
	const EoAttributeName *a = layout->attributes;
	size_t		len;
	const char *status = eo_json_attr_s(item, a[A_STATUS].name, &len);
	int			state = -1;

	memset(record, 0, sizeof(*record));
	for (int i = 0; status != NULL && i < 4; i++)
	{
		if (strcmp(status, layout->states[i]) == 0)
			state = i;
	}
	if (state < 0)
		return EO_INVALID;
	record->state = (EoState) state;
	record->owner = eo_json_attr_s(item, a[A_OWNER].name, &len);
	record->bind = eo_json_attr_s(item, a[A_BIND].name, &len);
	record->origin = eo_json_attr_s(item, a[A_ORIGIN].name, &len);
	record->payload_sha256 = eo_json_attr_s(item, a[A_PAYLOAD].name, &len);
	record->result = eo_json_attr_s(item, a[A_RESULT].name, &record->result_len);
	record->error = eo_json_attr_s(item, a[A_ERROR].name, &record->error_len);
	record->has_retry = eo_json_attr_n(item, a[A_RETRY].name, &record->retry_ms);
	/* Absent numbers stay 0, which no record has. */
	(void) eo_json_attr_n(item, a[A_FENCE].name, &record->fence);
	(void) eo_json_attr_n(item, a[A_RUNS].name, &record->runs);
	(void) eo_json_attr_n(item, a[A_LEASE].name, &record->lease_ms);
	(void) eo_json_attr_n(item, a[A_CREATED].name, &record->created_ms);
	(void) eo_json_attr_n(item, a[A_UPDATED].name, &record->updated_ms);
	(void) eo_json_attr_n(item, a[A_TTL].name, &record->ttl_s);

	/*
	 * What others write may be absurd, and is made harmless here: instants
	 * end with the year 9999, and none is before 1970.  For ttl that errs
	 * towards keeping the record.
	 */
	clamp(&record->retry_ms, EO_MAX_INSTANT_MS);
	clamp(&record->lease_ms, EO_MAX_INSTANT_MS);
	clamp(&record->created_ms, EO_MAX_INSTANT_MS);
	clamp(&record->updated_ms, EO_MAX_INSTANT_MS);
	clamp(&record->ttl_s, EO_MAX_INSTANT_MS / 1000);
	clamp(&record->runs, INT32_MAX);
	if (record->owner == NULL)
		return EO_INVALID;
	if (record->state == EO_STATE_IN_PROGRESS && record->lease_ms == 0)
		return EO_INVALID;
	return EO_OK;
}
