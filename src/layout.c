/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  How a record is spelled in DynamoDB: attributes, states, conditions.
 *
 * An expression is written with one-letter placeholders, "#s" for an
 * attribute and ":o" for a value; attributes[] and put_value() say what they
 * stand for.  DynamoDB refuses a request that declares a placeholder it does
 * not use, so the declarations are made from a scan of the expressions, once
 * for each verb and variant (find_template()).
 *
 * The conditions carry the protocol, so each is argued beside its text.
 *
 *-------------------------------------------------------------------------
 */
#include "layout.h"

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

static const char placeholder[N_ATTRIBUTES] = {
	[A_KEY] = 'k',[A_STATUS] = 's',[A_OWNER] = 'o',[A_BIND] = 'b',
	[A_FENCE] = 'f',[A_LEASE] = 'l',[A_RUNS] = 'n',[A_RESULT] = 'v',
	[A_ERROR] = 'e',[A_PAYLOAD] = 'p',[A_RETRY] = 'r',[A_CREATED] = 'c',
	[A_UPDATED] = 'u',[A_ORIGIN] = 'g',[A_TTL] = 't'
};

struct EoLayout
{
	const char *name;
	const char *key_prefix;		/* before the server's own prefix */
	const char *attributes[N_ATTRIBUTES];
	const char *states[4];		/* by EoState */
};

static const EoLayout layouts[] = {
	{
		"native", "IDEMPOTENCY#",
		{
			[A_KEY] = "pk",[A_STATUS] = "status",[A_OWNER] = "owner",
			[A_BIND] = "bind",[A_FENCE] = "fence",[A_LEASE] = "lease_ms",
			[A_RUNS] = "runs",[A_RESULT] = "result",[A_ERROR] = "error",
			[A_PAYLOAD] = "payload_sha256",[A_RETRY] = "retry_ms",
			[A_CREATED] = "created_ms",[A_UPDATED] = "updated_ms",
			[A_ORIGIN] = "origin",[A_TTL] = "ttl"
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
#define MAX_LETTERS 32

/* 9999-12-31 23:59:59 UTC, epoch seconds. */
#define MAX_INSTANT_S INT64_C(253402300799)

/* What a body has beside its template: key, table and values, as a rule. */
#define BODY_ROOM 1024

typedef struct Template
{
	EoBuf		text;			/* from the key to the values */
	char		letters[MAX_LETTERS];	/* the values, in order */
} Template;

static void put_update(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
					   EoVerb verb, const EoWrite *w, const char *returns);
static const Template *find_template(const EoLayout *layout, EoVerb verb, const EoWrite *w);
static void condition(EoVerb verb, const EoWrite *w, EoBuf *out);
static void update(EoVerb verb, const EoWrite *w, EoBuf *out);
static void find_letters(char *letters, const char *cond, const char *upd);
static void put_names(const EoLayout *layout, EoBuf *body, const char *cond, const char *upd);
static void put_values(const EoLayout *layout, EoBuf *body, const char *letters,
					   const EoWrite *w);
static bool put_value(const EoLayout *layout, EoBuf *body, char letter, const EoWrite *w);

const EoLayout *
eo_layout_find(const char *name)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
	{
		if (strcmp(layouts[i].name, name) == 0)
			return &layouts[i];
	}
	return NULL;
}

const char *
eo_layout_key_name(const EoLayout *layout)
{
	return layout->attributes[A_KEY];
}

const char *
eo_layout_ttl_name(const EoLayout *layout)
{
	return layout->attributes[A_TTL];
}

const char *
eo_state_name(EoState state)
{
	return layouts[0].states[state];
}

EoStatus
eo_layout_pk(const EoLayout *layout, const char *prefix, const char *key,
			 char *out, size_t *len)
{
	*len = strlen(layout->key_prefix) + strlen(prefix) + strlen(key);
	if (*len > EO_MAX_KEY_BYTES)
		return EO_TOO_LARGE;
	snprintf(out, EO_MAX_KEY_BYTES + 1, "%s%s%s", layout->key_prefix, prefix, key);
	return EO_OK;
}

size_t
eo_layout_max_value(const EoLayout *layout, size_t pk_len)
{
	(void) layout;
	return EO_MAX_ITEM_BYTES - ITEM_OVERHEAD - pk_len;
}

EoState
eo_layout_state_after(EoVerb verb)
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
eo_layout_is_pk(const EoLayout *layout, const char *pk)
{
	return strncmp(pk, layout->key_prefix, strlen(layout->key_prefix)) == 0;
}

void
eo_layout_put_write(const EoLayout *layout, EoBuf *body, const char *table,
					const char *pk, EoVerb verb, const EoWrite *w)
{
	put_update(layout, body, table, pk, verb, w, ",\"ReturnValues\":\"ALL_NEW\"");
}

void
eo_layout_put_action(const EoLayout *layout, EoBuf *body, const char *table,
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
	const Template *t = find_template(layout, verb, w);

	if (t == NULL)
	{
		body->status = EO_NO_MEMORY;
		return;
	}
	(void) eo_buf_reserve(body, t->text.len + BODY_ROOM);
	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, table, strlen(table));
	eo_buf_adds(body, ",\"Key\":{\"");
	eo_buf_adds(body, layout->attributes[A_KEY]);
	eo_buf_adds(body, "\":{\"S\":");
	eo_json_put_string(body, pk, strlen(pk));
	eo_buf_adds(body, "}}");
	eo_buf_adds(body, returns);
	eo_buf_add(body, t->text.data, t->text.len);
	put_values(layout, body, t->letters, w);
	eo_buf_adds(body, "}}");
}

/*
 * The part of a body between key and values is the same for all writes of a
 * verb and its variants: written once and kept.
 */
static const Template *
find_template(const EoLayout *layout, EoVerb verb, const EoWrite *w)
{
	static Template templates[N_LAYOUTS][EO_PROBE + 1][64];
	int			variant;
	Template   *t;
	EoBuf		cond;
	EoBuf		upd;

	variant = (w->max_runs > 0 ? 1 : 0) | (w->payload_sha256 != NULL ? 2 : 0) |
		(w->result != NULL || w->error != NULL ? 4 : 0) | (w->terminal ? 8 : 0) |
		(w->origin != NULL ? 16 : 0) | (w->origin != NULL && w->origin[0] == '\0' ? 32 : 0);
	t = &templates[layout - layouts][verb][variant];
	if (t->text.len > 0)
		return t;
	eo_buf_init(&cond, 2048);
	eo_buf_init(&upd, 2048);
	eo_buf_init(&t->text, 8192);
	condition(verb, w, &cond);
	update(verb, w, &upd);
	eo_buf_adds(&t->text, ",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\",\"ConditionExpression\":\"");
	eo_buf_adds(&t->text, eo_buf_str(&cond));
	eo_buf_adds(&t->text, "\",\"UpdateExpression\":\"");
	eo_buf_adds(&t->text, eo_buf_str(&upd));
	eo_buf_adds(&t->text, "\",\"ExpressionAttributeNames\":{");
	put_names(layout, &t->text, eo_buf_str(&cond), eo_buf_str(&upd));
	eo_buf_adds(&t->text, "},\"ExpressionAttributeValues\":{");
	find_letters(t->letters, eo_buf_str(&cond), eo_buf_str(&upd));
	if (eo_buf_status(&cond) != EO_OK || eo_buf_status(&upd) != EO_OK ||
		eo_buf_status(&t->text) != EO_OK)
		eo_buf_free(&t->text);
	eo_buf_free(&cond);
	eo_buf_free(&upd);
	return t->text.len > 0 ? t : NULL;
}

void
eo_layout_put_read(const EoLayout *layout, EoBuf *body, const char *table, const char *pk)
{
	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, table, strlen(table));
	eo_buf_addf(body, ",\"Key\":{\"%s\":{\"S\":", layout->attributes[A_KEY]);
	eo_json_put_string(body, pk, strlen(pk));
	eo_buf_adds(body, "}},\"ConsistentRead\":true}");
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
 * that no two clocks need agree on when "now" is.  Attributes that a state does not have are removed, so
 * that no reader meets a result of an earlier run.
 */
static void
update(EoVerb verb, const EoWrite *w, EoBuf *out)
{
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
						w->payload_sha256 != NULL ? ", #p = :p" : "");
			break;
		case EO_REPLACE:
			eo_buf_addf(out, "SET #s = :I, #o = :o, #b = :b, #f = #f + :1,"
						" #l = :l, #n = :1, #c = :i, #u = :i, #t = :t%s"
						" REMOVE #v, #e, #r, #g%s",
						w->payload_sha256 != NULL ? ", #p = :p" : "",
						w->payload_sha256 != NULL ? "" : ", #p");
			break;
		case EO_COMPLETE:
			eo_buf_addf(out, "SET #s = :C, #u = :i, #t = :t%s REMOVE #l, #r, #e%s",
						w->result != NULL ? ", #v = :v" : "",
						w->result != NULL ? "" : ", #v");
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
						w->result != NULL ? ", #v = :v" : "",
						w->result != NULL ? "" : ", #v");
			break;
		case EO_SEAL_NEW:
			eo_buf_addf(out, "SET #s = :M, #o = :o, #b = :b, #g = :g,"
						" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1,"
						" #c = if_not_exists(#c, :i), #u = :i%s REMOVE #t, #l, #e, #r%s",
						w->result != NULL ? ", #v = :v" : "",
						w->result != NULL ? "" : ", #v");
			break;
		case EO_SEAL_EXPIRED:
			eo_buf_addf(out, "SET #s = :M, #o = :o, #b = :b, #g = :g,"
						" #f = #f + :1, #n = :1, #c = :i, #u = :i%s REMOVE #t, #l, #e, #r, #p%s",
						w->result != NULL ? ", #v = :v" : "",
						w->result != NULL ? "" : ", #v");
			break;
		case EO_COMPLETE_NEW:
			eo_buf_addf(out, "SET #s = :C, #o = :o, #b = :b,"
						" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1,"
						" #c = if_not_exists(#c, :i), #u = :i, #t = :t%s%s REMOVE #l, #e, #r, #g%s",
						w->result != NULL ? ", #v = :v" : "",
						w->payload_sha256 != NULL ? ", #p = :p" : "",
						w->result != NULL ? "" : ", #v");
			break;
		case EO_COMPLETE_EXPIRED:
			eo_buf_addf(out, "SET #s = :C, #o = :o, #b = :b,"
						" #f = #f + :1, #n = :1, #c = :i, #u = :i, #t = :t%s%s"
						" REMOVE #l, #e, #r, #g%s%s",
						w->result != NULL ? ", #v = :v" : "",
						w->payload_sha256 != NULL ? ", #p = :p" : "",
						w->result != NULL ? "" : ", #v",
						w->payload_sha256 != NULL ? "" : ", #p");
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

static void
put_names(const EoLayout *layout, EoBuf *body, const char *cond, const char *upd)
{
	const char *texts[] = {cond, upd};
	uint32_t	used = 0;
	const char *comma = "";

	for (int t = 0; t < 2; t++)
	{
		for (const char *p = texts[t]; (p = strchr(p, '#')) != NULL; p++)
			used |= (uint32_t) 1 << (p[1] - 'a');
	}
	for (int a = 0; a < N_ATTRIBUTES; a++)
	{
		if ((used & ((uint32_t) 1 << (placeholder[a] - 'a'))) == 0)
			continue;
		eo_buf_adds(body, comma);
		eo_buf_adds(body, "\"#");
		eo_buf_addc(body, placeholder[a]);
		eo_buf_adds(body, "\":\"");
		eo_buf_adds(body, layout->attributes[a]);
		eo_buf_addc(body, '"');
		comma = ",";
	}
}

/* The value placeholders that the expressions use, each once. */
static void
find_letters(char *letters, const char *cond, const char *upd)
{
	const char *texts[] = {cond, upd};
	size_t		n = 0;

	letters[0] = '\0';
	for (int t = 0; t < 2; t++)
	{
		for (const char *p = texts[t]; (p = strchr(p, ':')) != NULL; p++)
		{
			if (strchr(letters, p[1]) == NULL && n + 1 < MAX_LETTERS)
			{
				letters[n++] = p[1];
				letters[n] = '\0';
			}
		}
	}
}

static void
put_values(const EoLayout *layout, EoBuf *body, const char *letters, const EoWrite *w)
{
	for (const char *p = letters; *p != '\0'; p++)
	{
		char		name[] = {',', '"', ':', *p, '"', ':'};
		size_t		skip = p == letters ? 1 : 0;

		eo_buf_add(body, name + skip, sizeof(name) - skip);
		if (!put_value(layout, body, *p, w))
			body->status = EO_INVALID;
	}
}

static void
put_s(EoBuf *body, const char *s, size_t len)
{
	eo_buf_adds(body, "{\"S\":");
	eo_json_put_string(body, s, len);
	eo_buf_addc(body, '}');
}

static void
put_n(EoBuf *body, int64_t n)
{
	char		digits[24];
	char	   *p = digits + sizeof(digits);
	uint64_t	rest = n < 0 ? -(uint64_t) n : (uint64_t) n;

	do
		*--p = (char) ('0' + rest % 10);
	while ((rest /= 10) > 0);
	if (n < 0)
		*--p = '-';
	eo_buf_adds(body, "{\"N\":\"");
	eo_buf_add(body, p, (size_t) (digits + sizeof(digits) - p));
	eo_buf_adds(body, "\"}");
}

static void
put_cstring(EoBuf *body, const char *s)
{
	put_s(body, s, strlen(s));
}

/* Capital letters: states, and what was seen.  False: no such letter. */
static bool
put_value(const EoLayout *layout, EoBuf *body, char letter, const EoWrite *w)
{
	switch (letter)
	{
		case 'I':
			put_cstring(body, layout->states[EO_STATE_IN_PROGRESS]);
			return true;
		case 'M':
			put_cstring(body, layout->states[EO_STATE_COMMITTING]);
			return true;
		case 'C':
			put_cstring(body, layout->states[EO_STATE_COMPLETED]);
			return true;
		case 'F':
			put_cstring(body, layout->states[EO_STATE_FAILED]);
			return true;
		case 'S':
			put_cstring(body, layout->states[w->seen->state]);
			return true;
		case 'O':
			put_cstring(body, w->seen->owner);
			return true;
		case 'N':
			put_n(body, w->seen->fence);
			return true;
		case 'U':
			put_n(body, w->seen->updated_ms);
			return true;
		case 'T':
			put_n(body, w->seen->ttl_s);
			return true;
		case 'o':
			put_cstring(body, w->owner);
			return true;
		case 'b':
			put_cstring(body, w->bind);
			return true;
		case 'g':
			put_cstring(body, w->origin);
			return true;
		case 'i':
			put_n(body, w->now_ms);
			return true;
		case 'd':
			put_n(body, w->now_ms - w->skew_ms);
			return true;
		case 'l':
			put_n(body, w->lease_ms);
			return true;
		case 't':
			put_n(body, w->ttl_s);
			return true;
		case 'm':
			put_n(body, w->max_runs);
			return true;
		case 'r':
			put_n(body, w->retry_ms);
			return true;
		case '0':
			put_n(body, 0);
			return true;
		case '1':
			put_n(body, 1);
			return true;
		case 'p':
			put_cstring(body, w->payload_sha256);
			return true;
		case 'v':
			put_s(body, w->result, w->result_len);
			return true;
		case 'e':
			put_s(body, w->error, w->error_len);
			return true;
	}
	return false;
}

const char *
eo_layout_item_pk(const EoLayout *layout, EoJsonValue *item)
{
	size_t		len;

	return eo_json_attr_s(item, layout->attributes[A_KEY], &len);
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
eo_layout_read(const EoLayout *layout, EoJsonValue *item, EoRecord *record)
{
	const char *const *a = layout->attributes;
	size_t		len;
	const char *status = eo_json_attr_s(item, a[A_STATUS], &len);
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
	record->owner = eo_json_attr_s(item, a[A_OWNER], &len);
	record->bind = eo_json_attr_s(item, a[A_BIND], &len);
	record->origin = eo_json_attr_s(item, a[A_ORIGIN], &len);
	record->payload_sha256 = eo_json_attr_s(item, a[A_PAYLOAD], &len);
	record->result = eo_json_attr_s(item, a[A_RESULT], &record->result_len);
	record->error = eo_json_attr_s(item, a[A_ERROR], &record->error_len);
	record->has_retry = eo_json_attr_n(item, a[A_RETRY], &record->retry_ms);
	/* Absent numbers stay 0, which no record has. */
	(void) eo_json_attr_n(item, a[A_FENCE], &record->fence);
	(void) eo_json_attr_n(item, a[A_RUNS], &record->runs);
	(void) eo_json_attr_n(item, a[A_LEASE], &record->lease_ms);
	(void) eo_json_attr_n(item, a[A_CREATED], &record->created_ms);
	(void) eo_json_attr_n(item, a[A_UPDATED], &record->updated_ms);
	(void) eo_json_attr_n(item, a[A_TTL], &record->ttl_s);

	/*
	 * What others write may be absurd, and is made harmless here: instants
	 * end with the year 9999, and none is before 1970.  For ttl that errs
	 * towards keeping the record.
	 */
	clamp(&record->retry_ms, MAX_INSTANT_S * 1000);
	clamp(&record->lease_ms, MAX_INSTANT_S * 1000);
	clamp(&record->created_ms, MAX_INSTANT_S * 1000);
	clamp(&record->updated_ms, MAX_INSTANT_S * 1000);
	clamp(&record->ttl_s, MAX_INSTANT_S);
	clamp(&record->runs, INT32_MAX);
	if (record->owner == NULL)
		return EO_INVALID;
	if (record->state == EO_STATE_IN_PROGRESS && record->lease_ms == 0)
		return EO_INVALID;
	return EO_OK;
}
