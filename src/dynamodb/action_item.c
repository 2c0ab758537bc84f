/*-------------------------------------------------------------------------
 *
 * action_item.c
 *	  How an action is spelled in DynamoDB: attributes and conditions.
 *
 * No attribute has the state.  What has ended an action is the instant of it:
 * consumedAt, canceledAt or closedAt, and the conditions allow one of them at
 * most.  Whether another action is pending, active, expired or burned follows from
 * the clock and pinAttempts.  A caller that was told "expired" or "burned" relies
 * on it, but a request still in flight might consume the action: closedAt rules
 * that out.
 *
 * Conditions also check the type of what is read after they were true, so that
 * nothing is consumed which could then not be handed over.
 *
 * An attempt at a PIN is paid for before the PIN is verified, by a write of its
 * own.  It decrements pinAttempts and adds the attempt's token to pinTokens.  By
 * the token the payment is recognized if its answer was lost, and the consume that
 * follows requires it: a caller that has not paid cannot consume, whatever it says
 * about the PIN.
 *
 * A verb is a row of verbs[], as in record.c.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/action_item.h"

#include "dynamodb/buf.h"
#include "dynamodb/expression.h"
#include "dynamodb/json.h"
#include "dynamodb/record.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"

#define KEY_NAME "pk"
#define KEY_PREFIX "ACTION#"

typedef enum Attribute
{
	A_ID,
	A_CREATED,
	A_CREATED_TOKEN,
	A_ACTIVE,
	A_EXPIRES,
	A_PAYLOAD,
	A_PIN_HASH,
	A_PIN_PEPPER,
	A_PIN_ATTEMPTS,
	A_PIN_TOKENS,
	A_CONSUMED,
	A_CONSUMED_TOKEN,
	A_CONSUMED_REASON,
	A_CONSUMED_BY,
	A_CANCELED,
	A_CANCELED_TOKEN,
	A_CANCELED_REASON,
	A_CLOSED,
	A_TTL,
	A_KEY,
	N_ATTRIBUTES
} Attribute;

static const EoItemKey item_key = {.name = KEY_NAME};

static const EoAttributeName attributes[N_ATTRIBUTES + 1] = {
	[A_KEY] = {'k', KEY_NAME},[A_ID] = {'i', "actionId"},
	[A_CREATED] = {'s', "createdAt"},[A_CREATED_TOKEN] = {'d', "createdToken"},
	[A_ACTIVE] = {'a', "activeAtMs"},[A_EXPIRES] = {'e', "expiresAtMs"},
	[A_PAYLOAD] = {'p', "payload"},[A_PIN_HASH] = {'h', "pinHash"},
	[A_PIN_PEPPER] = {'j', "pinPepper"},
	[A_PIN_ATTEMPTS] = {'m', "pinAttempts"},[A_PIN_TOKENS] = {'q', "pinTokens"},
	[A_CONSUMED] = {'c', "consumedAt"},[A_CONSUMED_TOKEN] = {'t', "consumedToken"},
	[A_CONSUMED_REASON] = {'r', "consumedReason"},[A_CONSUMED_BY] = {'b', "consumedBy"},
	[A_CANCELED] = {'x', "canceledAt"},[A_CANCELED_TOKEN] = {'y', "canceledToken"},
	[A_CANCELED_REASON] = {'w', "canceledReason"},[A_CLOSED] = {'z', "closedAt"},
	[A_TTL] = {'l', "ttl"}
};

/*
 * Room for everything in an item but partition key, id and payload: 256 bytes of
 * attribute names, 21 for each of eight numbers, three tokens and those of the
 * attempts, the PIN's hash and pepper, and what a consume or cancel adds.
 */
#define ITEM_OVERHEAD (256 + 8 * 21 + 3 * EO_TOKEN_LEN + EO_MAX_PIN_TOKENS * EO_ATTEMPT_LEN + \
					   EO_PIN_HASH_LEN + 8 + \
					   EO_MAX_REASON_BYTES + EO_MAX_CONSUMER_BYTES)

/*
 * The options of conditions and updates: does the write have the value of that
 * letter?
 */
static const char options[] = "phjrb";

#define N_VARIANTS (1 << (sizeof(options) - 1))

static unsigned int
options_of(const EoActionWrite *w)
{
	const bool	set[] = {
		w->payload != NULL,		/* p */
		w->pin_hash != NULL,	/* h */
		w->pin_pepper != NULL,	/* j */
		w->reason != NULL,		/* r */
		w->consumer != NULL		/* b */
	};

	return eo_expression_options(set, sizeof(set) / sizeof(set[0]));
}

/* The action exists, and nothing has ended it. */
#define NOT_FINAL "attribute_exists(#k) AND attribute_not_exists(#c) AND attribute_not_exists(#x)" \
	" AND attribute_not_exists(#z)"

/* It is not final, and now is within its time. */
#define OPEN NOT_FINAL " AND #a <= :n AND #e > :n"

/* The payload, if there is one, can be handed over. */
#define PAYLOAD " AND (attribute_not_exists(#p) OR attribute_type(#p, :S))"

static const struct
{
	const char *condition;
	const char *update;
}			verbs[] =
{
	/* Nothing re-creates an action, not even one that is long over. */
	[EO_ACTION_CREATE] = {
		"attribute_not_exists(#k)",
		"SET #i = :i, #s = :n, #d = :t, #a = :a, #e = :e, #l = :l"
		"[p?, #p = :p][h?, #h = :h, #m = :m][j?, #j = :j]"
	},

	/*
	 * A token pays for one attempt: a copy of the request that arrives late
	 * takes no second one.  No attempt is taken if the pepper has changed,
	 * because then no PIN can be right.
	 */
	[EO_ACTION_ATTEMPT] = {
		OPEN " AND attribute_type(#h, :S) AND #m > :0 AND NOT contains(#q, :t)"
		"[j? AND #j = :j][!j? AND attribute_not_exists(#j)]",
		"SET #m = #m - :1 ADD #q :T"
	},
	[EO_ACTION_CONSUME] = {
		OPEN " AND attribute_not_exists(#h)" PAYLOAD,
		"SET #c = :n, #t = :t[r?, #r = :r][b?, #b = :b]"
	},

	/*
	 * pinAttempts is not looked at: the caller who took the last attempt, and
	 * had the right PIN, may consume.
	 */
	[EO_ACTION_CONSUME_PAID] = {
		OPEN " AND contains(#q, :q)" PAYLOAD,
		"SET #c = :n, #t = :t[r?, #r = :r][b?, #b = :b]"
	},

	/*
	 * A pending action can be canceled, too.  One without attempts left
	 * cannot: the caller who took the last attempt may have the right PIN,
	 * and EO_ACTION_CLOSE decides between that caller and this one.
	 */
	[EO_ACTION_CANCEL] = {
		NOT_FINAL " AND #e > :n AND (attribute_not_exists(#h) OR #m > :0)",
		"SET #x = :n, #y = :t[r?, #w = :r]"
	},
	[EO_ACTION_CLOSE] = {
		NOT_FINAL " AND (#e <= :n OR #m <= :0)",
		"SET #z = :n"
	}
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* The structs that values are taken from. */
typedef enum From
{
	FROM_WRITE,
	FROM_TYPES
} From;

/* Names of types, for conditions. */
static const struct
{
	const char *string;
}			types = {"S"};

#define STRING(member) {EO_VALUE_STRING, FROM_WRITE, offsetof(EoActionWrite, member), 0}
#define NUMBER(member) {EO_VALUE_NUMBER, FROM_WRITE, offsetof(EoActionWrite, member), 0}

static const EoValue values[EO_VALUE_LETTERS] = {
	['n'] = NUMBER(now_ms),
	['t'] = STRING(token),
	['T'] = {EO_VALUE_SET, FROM_WRITE, offsetof(EoActionWrite, token), 0},
	['q'] = STRING(attempt),
	['S'] = {EO_VALUE_STRING, FROM_TYPES, 0, 0},
	['i'] = STRING(id),
	['a'] = NUMBER(active_ms),
	['e'] = NUMBER(expires_ms),
	['l'] = NUMBER(ttl_s),
	['p'] = STRING(payload),
	['h'] = STRING(pin_hash),
	['j'] = STRING(pin_pepper),
	['m'] = NUMBER(pin_attempts),
	['r'] = STRING(reason),
	['b'] = STRING(consumer)
};

EoStatus
eo_action_item_make_pk(const char *prefix, const char *id, char *out, size_t *len)
{
	*len = strlen(KEY_PREFIX) + strlen(prefix) + strlen(id);
	if (*len > EO_MAX_KEY_BYTES)
		return EO_TOO_LARGE;
	snprintf(out, EO_MAX_KEY_BYTES + 1, "%s%s%s", KEY_PREFIX, prefix, id);
	return EO_OK;
}

bool
eo_action_item_is_pk(const char *pk)
{
	return strncmp(pk, KEY_PREFIX, strlen(KEY_PREFIX)) == 0;
}

const char *
eo_action_item_pk_of(EoJsonValue *item)
{
	size_t		len;

	return eo_json_attr_s(item, KEY_NAME, &len);
}

size_t
eo_action_item_max_payload(size_t pk_len, size_t id_len)
{
	return EO_MAX_ITEM_BYTES - ITEM_OVERHEAD - pk_len - id_len;
}

/* An expression is made once for each verb and each set of options. */
void
eo_action_item_put_write(EoBuf *body, const char *table, const char *pk, EoActionVerb verb,
						 const EoActionWrite *w)
{
	static EoExpression made[N_VERBS][N_VARIANTS];
	unsigned int set = options_of(w);
	EoExpression *e = &made[verb][set];
	EoStatus	status = EO_OK;
	const void *structs[] = {[FROM_WRITE] = w,[FROM_TYPES] = &types};

	if (e->text.len == 0)
		status = eo_expression_make(e, attributes, options, set,
									verbs[verb].condition, verbs[verb].update);
	if (status == EO_OK)
		eo_expression_put_update(e, body, table, &item_key, pk, ",\"ReturnValues\":\"ALL_NEW\"",
								 values, structs);
	else
		body->status = status;
}

void
eo_action_item_put_read(EoBuf *body, const char *table, const char *pk)
{
	eo_expression_put_read(body, table, &item_key, pk);
}

void
eo_action_item_put_list(EoBuf *body, const EoListPage *page)
{
	static const Attribute shown[] = {A_KEY, A_CREATED, A_ACTIVE, A_EXPIRES, A_PIN_HASH,
		A_PIN_ATTEMPTS, A_CONSUMED, A_CONSUMED_REASON, A_CONSUMED_BY, A_CANCELED,
	A_CANCELED_REASON, A_CLOSED};
	const char *names[sizeof(shown) / sizeof(shown[0])];

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		names[i] = attributes[shown[i]].name;
	eo_list_put_page(body, &item_key, names, sizeof(shown) / sizeof(shown[0]), page);
}

/* ----- reading ----- */

static EoJsonValue *
attribute_of(EoJsonValue *item, Attribute a)
{
	return eo_json_get(item, attributes[a].name);
}

/*
 * Read a number; 0 if there is none.  Other writers may leave absurd numbers: they
 * are rounded down and limited to the range from 0 to max.  Sets *ok to false if
 * the attribute is there and not a number.
 */
static int64_t
read_number(EoJsonValue *item, Attribute a, int64_t max, bool *ok)
{
	int64_t		n;
	size_t		len;
	const char *digits;
	double		d;

	if (attribute_of(item, a) == NULL)
		return 0;
	if (!eo_json_attr_n(item, attributes[a].name, &n))
	{
		digits = eo_json_string(eo_json_get(attribute_of(item, a), "N"), &len);
		if (digits == NULL)
		{
			*ok = false;
			return 0;
		}
		d = strtod(digits, NULL);
		n = d >= (double) max ? max : d > 0 ? (int64_t) d : 0;
	}
	return n < 0 ? 0 : n > max ? max : n;
}

/*
 * Read a string; NULL if there is none.  Sets *ok to false if the attribute is
 * there and not a string.
 */
static const char *
read_string(EoJsonValue *item, Attribute a, bool *ok)
{
	size_t		len;
	const char *s = eo_json_attr_s(item, attributes[a].name, &len);

	if (s == NULL && attribute_of(item, a) != NULL)
		*ok = false;
	return s;
}

EoStatus
eo_action_item_read(EoJsonValue *item, EoActionItem *action)
{
	bool		ok = true;
	bool		whatever = true;
	size_t		len;

	memset(action, 0, sizeof(*action));
	/* Attributes that a condition needs, or that are handed over. */
	action->active_ms = read_number(item, A_ACTIVE, EO_MAX_INSTANT_MS, &ok);
	action->expires_ms = read_number(item, A_EXPIRES, EO_MAX_INSTANT_MS, &ok);
	action->consumed_ms = read_number(item, A_CONSUMED, EO_MAX_INSTANT_MS, &ok);
	action->canceled_ms = read_number(item, A_CANCELED, EO_MAX_INSTANT_MS, &ok);
	action->closed_ms = read_number(item, A_CLOSED, EO_MAX_INSTANT_MS, &ok);
	action->payload = read_string(item, A_PAYLOAD, &ok);
	action->pin_hash = read_string(item, A_PIN_HASH, &ok);
	action->pin_attempts = read_number(item, A_PIN_ATTEMPTS, INT32_MAX, &ok);
	/* Attributes that are shown, if they can be read. */
	action->pin_pepper = read_string(item, A_PIN_PEPPER, &whatever);
	action->pin_tokens = eo_json_get(attribute_of(item, A_PIN_TOKENS), "SS");
	action->created_ms = read_number(item, A_CREATED, EO_MAX_INSTANT_MS, &whatever);
	action->created_token = read_string(item, A_CREATED_TOKEN, &whatever);
	action->consumed_token = read_string(item, A_CONSUMED_TOKEN, &whatever);
	action->consumed_reason = read_string(item, A_CONSUMED_REASON, &whatever);
	if (eo_json_attr_text(item, attributes[A_CONSUMED_BY].name,
						  &action->consumed_by, &len) != EO_OK)
		action->consumed_by = NULL;
	action->canceled_token = read_string(item, A_CANCELED_TOKEN, &whatever);
	action->canceled_reason = read_string(item, A_CANCELED_REASON, &whatever);

	/* Without them, every condition that compares them is false. */
	if (attribute_of(item, A_ACTIVE) == NULL || attribute_of(item, A_EXPIRES) == NULL)
		ok = false;

	/*
	 * Conditions ask whether these attributes exist, EoActionItem whether
	 * they are 0.  So an instant of 0 cannot be read.
	 */
	if ((attribute_of(item, A_CONSUMED) != NULL && action->consumed_ms == 0) ||
		(attribute_of(item, A_CANCELED) != NULL && action->canceled_ms == 0) ||
		(attribute_of(item, A_CLOSED) != NULL && action->closed_ms == 0))
		ok = false;
	return ok ? EO_OK : EO_INVALID;
}

static bool
equals(const char *stored, const char *token)
{
	return stored != NULL && strcmp(stored, token) == 0;
}

static bool
is_member(EoJsonValue *set, const char *token)
{
	for (size_t i = 0; i < eo_json_array_length(set); i++)
	{
		size_t		len;

		if (equals(eo_json_string(eo_json_array_get(set, i), &len), token))
			return true;
	}
	return false;
}

bool
eo_action_item_paid_by(const EoActionItem *action, const char *token)
{
	for (size_t i = 0; i < eo_json_array_length(action->pin_tokens); i++)
	{
		size_t		len;
		const char *member = eo_json_string(eo_json_array_get(action->pin_tokens, i), &len);
		const char *slash = member != NULL ? strchr(member, '/') : NULL;

		if (slash != NULL && strcmp(slash + 1, token) == 0)
			return true;
	}
	return false;
}

bool
eo_action_item_shows(const EoActionItem *action, EoActionVerb verb, const char *token)
{
	switch (verb)
	{
		case EO_ACTION_CREATE:
			return equals(action->created_token, token);
		case EO_ACTION_ATTEMPT:
			return is_member(action->pin_tokens, token);
		case EO_ACTION_CONSUME:
		case EO_ACTION_CONSUME_PAID:
			return equals(action->consumed_token, token);
		case EO_ACTION_CANCEL:
			return equals(action->canceled_token, token);
		case EO_ACTION_CLOSE:
			/* Closing has the same result, whoever did it. */
			return action->closed_ms > 0;
	}
	return false;
}
