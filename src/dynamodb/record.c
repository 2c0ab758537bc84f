/*-------------------------------------------------------------------------
 *
 * record.c
 *	  How a record is spelled in DynamoDB: attributes, states, conditions.
 *
 * A verb is a row of verbs[]: the state it leaves, the condition under which it
 * may happen, and what it changes, in the shorthand of expression.h.  layouts[]
 * says which attribute a "#" letter stands for, values[] which value a ":" letter
 * does, and options_of() which optional parts are kept.  The conditions carry the
 * protocol, so each is argued beside its text.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/record.h"

#include "dynamodb/buf.h"
#include "dynamodb/expression.h"
#include "dynamodb/json.h"
#include "dynamodb/origin.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"

typedef enum Attribute
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
	A_RETENTION,
	A_HOLDER,
	A_TTL,
	N_ATTRIBUTES
} Attribute;

struct EoLayout
{
	const char *name;
	const char *key_prefix;		/* of partition keys, before the server's own */
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
			[A_RETENTION] = {'a', "retention_s"},[A_HOLDER] = {'h', "holder"},
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
 * Room for everything in an item but partition key and result: 113 bytes of
 * attribute names, 21 for each of eight numbers (the largest size of a number),
 * status, bind, token, fingerprint, origin and holder.
 */
#define ITEM_OVERHEAD (113 + 8 * 21 + 11 + 4 + EO_TOKEN_LEN + EO_FINGERPRINT_LEN + EO_ORIGIN_LEN + \
					   EO_MAX_HOLDER_BYTES)

#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/*
 * The options of conditions and updates: does the write have the value of that
 * letter?  "x" is set if the seal that is undone has left no origin.
 */
static const char options[] = "mpvergxNUh";

#define N_VARIANTS (1 << (sizeof(options) - 1))

/* Values that are computed from the write and the record that was seen. */
typedef struct Derived
{
	const char *seen_state;
	EoJsonValue *seen_fence;	/* NULL: the record has none */
	EoJsonValue *seen_updated;
	int64_t		dead_ms;		/* a lease that ended before is dead */
	int64_t		ttl_s;			/* of a write that sets the retention, too */
} Derived;

static unsigned int
options_of(const EoWrite *w, const Derived *derived)
{
	const bool	set[] = {
		w->max_runs > 0,		/* m */
		w->payload_sha256 != NULL,	/* p */
		w->result != NULL,		/* v */
		w->error != NULL,		/* e */
		!w->terminal,			/* r */
		w->origin != NULL && w->origin[0] != '\0',	/* g */
		w->origin != NULL && w->origin[0] == '\0',	/* x: sealed without an
													 * origin */
		derived->seen_fence != NULL,	/* N */
		derived->seen_updated != NULL,	/* U */
		w->holder != NULL		/* h */
	};

	return eo_expression_options(set, sizeof(set) / sizeof(set[0]));
}

/* A record that counts no runs has had none. */
#define RUNS_LEFT "[m? AND (attribute_not_exists(#n) OR #n < :m)]"
#define SAME_PAYLOAD "[p? AND (attribute_not_exists(#p) OR #p = :p)]"

/*
 * The key is free for a new run.  There is no record; or it is failed, due, and
 * not of this very token, because a late copy of this request must not revive a
 * claim that has ended; or it is in progress with a dead lease.  COMMITTING is in
 * none of these: such a record is never taken over, whatever any clock says.
 */
#define IS_FREE "attribute_not_exists(#k)" \
	" OR (#s = :F AND #r <= :i AND #o <> :o" RUNS_LEFT SAME_PAYLOAD ")" \
	" OR (#s = :I AND #l < :d" RUNS_LEFT SAME_PAYLOAD ")"

/*
 * The record that was seen, compared by the values that were read, because another
 * client may write numbers that EoRecord cannot hold.  A comparison with an
 * attribute that is absent is false, so its absence is compared instead.
 */
#define FENCE_AS_SEEN "[N? AND #f = :N][!N? AND attribute_not_exists(#f)]"
#define UPDATED_AS_SEEN "[U? AND #u = :U][!U? AND attribute_not_exists(#u)]"

/*
 * The finished record that was seen to be past its ttl, and untouched since: every
 * write changes owner, state or updated_ms.
 */
#define IS_AS_SEEN "#s = :S AND #o = :O AND #t = :T" FENCE_AS_SEEN UPDATED_AS_SEEN

/* The owner's own run, in progress. */
#define IS_OWN_RUN "#s = :I AND #o = :o"

/*
 * The owner's own run, in progress or sealed by this very transaction.  What
 * another transaction has sealed under the same token is left alone.
 */
#define IS_OWN_RUN_OR_SEALED "#o = :o AND (#s = :I" \
	"[g? OR (#s = :M AND #g = :g)]" \
	"[x? OR (#s = :M AND attribute_not_exists(#g))])"

/* A claim notes its retention and who made it. */
#define SET_TERMS ", #a = :a[h?, #h = :h]"
#define REMOVE_TERMS "[!h?, #h]"

/*
 * The record is kept for the retention of its claim from ":w" on.  Whoever has only
 * the token of the claim needs no read for that.  ":a" counts for a record that does
 * not say.
 */
#define SET_TTL "#t = :w + if_not_exists(#a, :a)"

/*
 * The verbs.  In the updates, what may be claimed at once gets a retry_ms of 0, so
 * that no two clocks need to agree on when "now" is.  Attributes that a state does
 * not have are removed, so that no reader meets the result of an earlier run.
 */
static const struct
{
	EoState		after;			/* the state it leaves */
	const char *condition;
	const char *update;
}			verbs[] =
{
	/*
	 * fence starts at the clock, so that it grows even if the record was
	 * deleted in between.
	 */
	[EO_ACQUIRE] = {
		EO_STATE_IN_PROGRESS,
		IS_FREE,
		"SET #s = :I, #o = :o, #b = :b, #f = if_not_exists(#f, :i) + :1,"
		" #l = :l, #n = if_not_exists(#n, :0) + :1,"
		" #c = if_not_exists(#c, :i), #u = :i, #t = :t" SET_TERMS "[p?, #p = :p][g?, #g = :g]"
		" REMOVE #v, #e, #r[!g?, #g]" REMOVE_TERMS
	},
	[EO_REPLACE] = {
		EO_STATE_IN_PROGRESS,
		IS_AS_SEEN,
		"SET #s = :I, #o = :o, #b = :b, #f = if_not_exists(#f, :i) + :1,"
		" #l = :l, #n = :1, #c = :i, #u = :i, #t = :t" SET_TERMS "[p?, #p = :p][g?, #g = :g]"
		" REMOVE #v, #e, #r[!g?, #g]" REMOVE_TERMS "[!p?, #p]"
	},
	[EO_COMPLETE] = {
		EO_STATE_COMPLETED,
		IS_OWN_RUN,
		"SET #s = :C, #u = :i, " SET_TTL "[v?, #v = :v] REMOVE #l, #r, #e[!v?, #v]"
	},

	/*
	 * The owner may still say why it failed after the claim was released
	 * under its token, as long as nobody has claimed the key since.
	 */
	[EO_FAIL] = {
		EO_STATE_FAILED,
		"#o = :o AND (#s = :I OR #s = :F)",
		"SET #s = :F, #u = :i, " SET_TTL "[e?, #e = :e][r?, #r = :r]"
		" REMOVE #l, #v[!e?, #e][!r?, #r]"
	},

	/*
	 * The key is given back without having been tried: the run does not
	 * count.
	 */
	[EO_RELEASE] = {
		EO_STATE_FAILED,
		IS_OWN_RUN,
		"SET #s = :F, #u = :i, " SET_TTL ", #r = :0, #n = if_not_exists(#n, :1) - :1"
		" REMOVE #l, #v, #e"
	},

	/*
	 * A lease is never shortened: a heartbeat that arrives late must not undo
	 * a later one.
	 */
	[EO_EXTEND] = {
		EO_STATE_IN_PROGRESS,
		IS_OWN_RUN " AND #l <= :l",
		"SET #l = :l, #u = :i, " SET_TTL
	},

	/*
	 * A record that bears the origin of this very transaction was unsealed
	 * after the transaction had ended.  Then this request is a late copy, and
	 * must not seal the record again.
	 *
	 * The result goes in now, so that nothing can be too large or too late
	 * once PostgreSQL has committed.  There is no ttl: a record in this state
	 * is never swept.  The lease stays, for EO_UNSEAL.
	 */
	[EO_SEAL] = {
		EO_STATE_COMMITTING,
		IS_OWN_RUN " AND (attribute_not_exists(#g) OR #g <> :g)",
		"SET #s = :M, #g = :g, #b = :b, #u = :i[v?, #v = :v] REMOVE #t, #e, #r[!v?, #v]"
	},
	[EO_SEAL_NEW] = {
		EO_STATE_COMMITTING,
		IS_FREE,
		"SET #s = :M, #o = :o, #b = :b, #g = :g,"
		" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1,"
		" #c = if_not_exists(#c, :i), #u = :i" SET_TERMS "[v?, #v = :v]"
		" REMOVE #t, #l, #e, #r" REMOVE_TERMS "[!v?, #v]"
	},
	[EO_SEAL_EXPIRED] = {
		EO_STATE_COMMITTING,
		IS_AS_SEEN,
		"SET #s = :M, #o = :o, #b = :b, #g = :g,"
		" #f = if_not_exists(#f, :i) + :1, #n = :1, #c = :i, #u = :i" SET_TERMS "[v?, #v = :v]"
		" REMOVE #t, #l, #e, #r, #p" REMOVE_TERMS "[!v?, #v]"
	},
	[EO_FINISH] = {
		EO_STATE_COMPLETED,
		"#s = :M AND #o = :o",
		"SET #s = :C, #u = :i, " SET_TTL " REMOVE #l"
	},
	/* The run counts, so that a key whose work always fails reaches max_runs. */
	[EO_ABORT] = {
		EO_STATE_FAILED,
		IS_OWN_RUN_OR_SEALED,
		"SET #s = :F, #u = :i, " SET_TTL ", #r = :0 REMOVE #l, #v, #e"
	},

	/*
	 * For a first write whose outcome nobody knows.  If it has not been
	 * applied there may be no record at all.  Then one under its token is
	 * left here, which that write can never get past: its condition refuses a
	 * failed record of its own token.
	 */
	[EO_BURY] = {
		EO_STATE_FAILED,
		"attribute_not_exists(#k) OR (" IS_OWN_RUN_OR_SEALED ")",
		"SET #s = :F, #o = :o, #u = :i, " SET_TTL ", #r = :0,"
		" #f = if_not_exists(#f, :i), #n = if_not_exists(#n, :1) - :1,"
		" #c = if_not_exists(#c, :i), #b = if_not_exists(#b, :b)"
		" REMOVE #l, #v, #e"
	},

	/*
	 * The origin is left in the record, even if the seal has never arrived,
	 * so that EO_SEAL refuses a late copy of it.
	 */
	[EO_UNSEAL] = {
		EO_STATE_IN_PROGRESS,
		IS_OWN_RUN_OR_SEALED,
		"SET #s = :I, #l = if_not_exists(#l, :i), #u = :i, " SET_TTL "[g?, #g = :g]"
		" REMOVE #v"
	},
	[EO_COMPLETE_NEW] = {
		EO_STATE_COMPLETED,
		IS_FREE,
		"SET #s = :C, #o = :o, #b = :b,"
		" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1,"
		" #c = if_not_exists(#c, :i), #u = :i, #t = :t" SET_TERMS "[v?, #v = :v][p?, #p = :p]"
		" REMOVE #l, #e, #r, #g" REMOVE_TERMS "[!v?, #v]"
	},
	[EO_COMPLETE_EXPIRED] = {
		EO_STATE_COMPLETED,
		IS_AS_SEEN,
		"SET #s = :C, #o = :o, #b = :b,"
		" #f = if_not_exists(#f, :i) + :1, #n = :1, #c = :i, #u = :i, #t = :t" SET_TERMS
		"[v?, #v = :v][p?, #p = :p] REMOVE #l, #e, #r, #g" REMOVE_TERMS "[!v?, #v][!p?, #p]"
	},

	/*
	 * Exactly the claim that was seen, in the state it was in: a copy of this
	 * request that arrives late must not undo what a later run has done.  A
	 * new owner is set, so that no late write of the old one finds its own
	 * token.
	 */
	[EO_FORGET] = {
		EO_STATE_FAILED,
		"#s = :S AND #o = :O" FENCE_AS_SEEN,
		"SET #s = :F, #o = :o, #u = :i, #t = :t, #r = :0, #n = :0"
		" REMOVE #l, #v, #e, #p"
	},
	/* The condition cannot be true, so nothing is ever written. */
	[EO_PROBE] = {
		EO_STATE_FAILED,
		"attribute_exists(#k) AND attribute_not_exists(#k)",
		"SET #u = :i"
	}
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* The structs that values are taken from. */
typedef enum From
{
	FROM_LAYOUT,
	FROM_WRITE,
	FROM_SEEN,
	FROM_DERIVED
} From;

#define STATE(state) {EO_VALUE_STRING, FROM_LAYOUT, offsetof(EoLayout, states[state]), 0}
#define STRING(from, type, member) {EO_VALUE_STRING, from, offsetof(type, member), 0}
#define NUMBER(from, type, member) {EO_VALUE_NUMBER, from, offsetof(type, member), 0}
#define AS_READ(from, type, member) {EO_VALUE_AS_READ, from, offsetof(type, member), 0}
#define SIZED(from, type, member) \
	{EO_VALUE_SIZED, from, offsetof(type, member), offsetof(type, member##_len)}

/* The values by their letters.  Capital letters are states and what was seen. */
static const EoValue values[EO_VALUE_LETTERS] = {
	['I'] = STATE(EO_STATE_IN_PROGRESS),
	['M'] = STATE(EO_STATE_COMMITTING),
	['C'] = STATE(EO_STATE_COMPLETED),
	['F'] = STATE(EO_STATE_FAILED),
	['S'] = STRING(FROM_DERIVED, Derived, seen_state),
	['O'] = STRING(FROM_SEEN, EoRecord, owner),
	['N'] = AS_READ(FROM_DERIVED, Derived, seen_fence),
	['U'] = AS_READ(FROM_DERIVED, Derived, seen_updated),
	['T'] = NUMBER(FROM_SEEN, EoRecord, ttl_s),
	['o'] = STRING(FROM_WRITE, EoWrite, owner),
	['b'] = STRING(FROM_WRITE, EoWrite, bind),
	['g'] = STRING(FROM_WRITE, EoWrite, origin),
	['p'] = STRING(FROM_WRITE, EoWrite, payload_sha256),
	['v'] = SIZED(FROM_WRITE, EoWrite, result),
	['e'] = SIZED(FROM_WRITE, EoWrite, error),
	['i'] = NUMBER(FROM_WRITE, EoWrite, now_ms),
	['l'] = NUMBER(FROM_WRITE, EoWrite, lease_ms),
	['t'] = NUMBER(FROM_DERIVED, Derived, ttl_s),
	['w'] = NUMBER(FROM_WRITE, EoWrite, kept_from_s),
	['a'] = NUMBER(FROM_WRITE, EoWrite, retention_s),
	['h'] = STRING(FROM_WRITE, EoWrite, holder),
	['m'] = NUMBER(FROM_WRITE, EoWrite, max_runs),
	['r'] = NUMBER(FROM_WRITE, EoWrite, retry_ms),
	['d'] = NUMBER(FROM_DERIVED, Derived, dead_ms)
};

static void put_update(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
					   EoVerb verb, const EoWrite *w, const char *returns);
static bool read_json(EoJsonValue *item, const char *name, const char **text, size_t *len);
static void clamp(int64_t *value, int64_t max);

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
	return verbs[verb].after;
}

bool
eo_record_is_dated(EoVerb verb)
{
	switch (verb)
	{
		case EO_ACQUIRE:
		case EO_REPLACE:
		case EO_EXTEND:
		case EO_SEAL_NEW:
		case EO_SEAL_EXPIRED:
		case EO_COMPLETE_NEW:
		case EO_COMPLETE_EXPIRED:
			return true;
		default:
			return false;
	}
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

/* The expression of a verb with a set of options, which is made once. */
static EoStatus
find_expression(const EoLayout *layout, EoVerb verb, unsigned int set, EoExpression **found)
{
	static EoExpression *made[N_LAYOUTS][N_VERBS][N_VARIANTS];
	EoExpression **e = &made[layout - layouts][verb][set];

	if (*e == NULL)
		*e = calloc(1, sizeof(EoExpression));
	*found = *e;
	if (*e == NULL)
		return EO_NO_MEMORY;
	if ((*e)->text.len > 0)
		return EO_OK;
	return eo_expression_make(*e, layout->attributes, options, set,
							  verbs[verb].condition, verbs[verb].update);
}

static void
put_update(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
		   EoVerb verb, const EoWrite *w, const char *returns)
{
	const EoAttributeName *a = layout->attributes;
	const EoRecord *seen = w->seen;
	EoExpression *e;
	EoStatus	status;
	Derived		derived = {
		.dead_ms = w->now_ms - w->skew_ms,
		.ttl_s = w->kept_from_s + w->retention_s
	};
	const void *structs[] = {
		[FROM_LAYOUT] = layout,[FROM_WRITE] = w,[FROM_SEEN] = seen,[FROM_DERIVED] = &derived
	};

	if (seen != NULL)
	{
		derived.seen_state = layout->states[seen->state];
		derived.seen_fence = eo_json_get(seen->item, a[A_FENCE].name);
		derived.seen_updated = eo_json_get(seen->item, a[A_UPDATED].name);
	}
	status = find_expression(layout, verb, options_of(w, &derived), &e);
	if (status == EO_OK)
		eo_expression_put_update(e, body, table, a[A_KEY].name, pk, returns, values, structs);
	else
		body->status = status;
}

void
eo_record_put_read(const EoLayout *layout, EoBuf *body, const char *table, const char *pk)
{
	eo_expression_put_read(body, table, layout->attributes[A_KEY].name, pk);
}

void
eo_record_put_scan(const EoLayout *layout, EoBuf *body, const char *table, int limit,
				   const char *start_pk)
{
	static const Attribute shown[] = {A_KEY, A_STATUS, A_OWNER, A_BIND, A_ORIGIN, A_LEASE,
	A_RETENTION};
	const EoAttributeName *a = layout->attributes;
	char		number[16];

	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, table, strlen(table));
	snprintf(number, sizeof(number), "%d", limit);
	eo_buf_adds(body, ",\"ConsistentRead\":true,\"ReturnConsumedCapacity\":\"TOTAL\",\"Limit\":");
	eo_buf_adds(body, number);
	eo_buf_adds(body, ",\"FilterExpression\":\"attribute_exists(#g) AND (#s = :I OR #s = :M)\""
				",\"ProjectionExpression\":\"");
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
	{
		eo_buf_adds(body, i > 0 ? ",#" : "#");
		eo_buf_addc(body, a[shown[i]].letter);
	}
	eo_buf_adds(body, "\",\"ExpressionAttributeNames\":{");
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
	{
		eo_buf_adds(body, i > 0 ? ",\"#" : "\"#");
		eo_buf_addc(body, a[shown[i]].letter);
		eo_buf_adds(body, "\":");
		eo_json_put_string(body, a[shown[i]].name, strlen(a[shown[i]].name));
	}
	eo_buf_adds(body, "},\"ExpressionAttributeValues\":{\":I\":{\"S\":\"");
	eo_buf_adds(body, layout->states[EO_STATE_IN_PROGRESS]);
	eo_buf_adds(body, "\"},\":M\":{\"S\":\"");
	eo_buf_adds(body, layout->states[EO_STATE_COMMITTING]);
	eo_buf_adds(body, "\"}}");
	if (start_pk != NULL)
	{
		eo_buf_adds(body, ",\"ExclusiveStartKey\":{");
		eo_json_put_string(body, a[A_KEY].name, strlen(a[A_KEY].name));
		eo_buf_adds(body, ":{\"S\":");
		eo_json_put_string(body, start_pk, strlen(start_pk));
		eo_buf_adds(body, "}}");
	}
	eo_buf_addc(body, '}');
}

const char *
eo_record_scan_end(const EoLayout *layout, EoJsonValue *reply)
{
	size_t		len;

	return eo_json_attr_s(eo_json_get(reply, "LastEvaluatedKey"),
						  layout->attributes[A_KEY].name, &len);
}

const char *
eo_record_pk_of(const EoLayout *layout, EoJsonValue *item)
{
	size_t		len;

	return eo_json_attr_s(item, layout->attributes[A_KEY].name, &len);
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
	record->item = item;
	record->owner = eo_json_attr_s(item, a[A_OWNER].name, &len);
	record->bind = eo_json_attr_s(item, a[A_BIND].name, &len);
	record->origin_text = eo_json_attr_s(item, a[A_ORIGIN].name, &len);
	record->has_origin = eo_origin_read(record->origin_text, &record->origin);
	record->holder = eo_json_attr_s(item, a[A_HOLDER].name, &len);
	record->payload_sha256 = eo_json_attr_s(item, a[A_PAYLOAD].name, &len);
	record->odd_payload_sha256 = record->payload_sha256 == NULL &&
		eo_json_get(item, a[A_PAYLOAD].name) != NULL;
	record->odd_result = !read_json(item, a[A_RESULT].name, &record->result, &record->result_len);
	record->odd_error = !read_json(item, a[A_ERROR].name, &record->error, &record->error_len);
	record->has_retry = eo_json_attr_n(item, a[A_RETRY].name, &record->retry_ms);
	/* A number that is absent stays 0. */
	(void) eo_json_attr_n(item, a[A_FENCE].name, &record->fence);
	(void) eo_json_attr_n(item, a[A_RUNS].name, &record->runs);
	(void) eo_json_attr_n(item, a[A_LEASE].name, &record->lease_ms);
	(void) eo_json_attr_n(item, a[A_CREATED].name, &record->created_ms);
	(void) eo_json_attr_n(item, a[A_UPDATED].name, &record->updated_ms);
	(void) eo_json_attr_n(item, a[A_RETENTION].name, &record->retention_s);
	(void) eo_json_attr_n(item, a[A_TTL].name, &record->ttl_s);

	/*
	 * Other writers may leave absurd numbers, with which arithmetic would
	 * overflow.  So instants are limited to the years 1970 to 9999.  For ttl
	 * this errs on the side of keeping the record: a very late one stays
	 * late, and a negative one counts as none.
	 */
	clamp(&record->retry_ms, EO_MAX_INSTANT_MS);
	clamp(&record->lease_ms, EO_MAX_INSTANT_MS);
	clamp(&record->created_ms, EO_MAX_INSTANT_MS);
	clamp(&record->updated_ms, EO_MAX_INSTANT_MS);
	clamp(&record->ttl_s, EO_MAX_INSTANT_MS / 1000);
	clamp(&record->retention_s, EO_MAX_INSTANT_MS / 1000);
	clamp(&record->runs, INT32_MAX);
	if (record->owner == NULL)
		return EO_INVALID;
	if (record->state == EO_STATE_IN_PROGRESS && record->lease_ms == 0)
		return EO_INVALID;
	return EO_OK;
}

/* False: there is such an attribute, and it cannot be read as JSON. */
static bool
read_json(EoJsonValue *item, const char *name, const char **text, size_t *len)
{
	return eo_json_attr_text(item, name, text, len) == EO_OK;
}

static void
clamp(int64_t *value, int64_t max)
{
	if (*value < 0)
		*value = 0;
	else if (*value > max)
		*value = max;
}
