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
#include "records/action_item.h"

#include <stdlib.h>
#include <string.h>

#include "records/action_names.h"
#include "records/expression.h"
#include "records/layout.h"
#include "records/origin.h"
#include "records/statement.h"
#include "records/timestamps.h"
#include "records/token.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

#define KEY_PREFIX "ACTION#"

/*
 * Room for everything in an item but partition key, id and payload: 300 bytes of
 * attribute names, 21 for each of ten numbers, four tokens and those of the
 * attempts, the PIN's hash and pepper, and what a consume or cancel adds, or the seal of
 * a transaction.
 */
#define ITEM_OVERHEAD (300 + 10 * 21 + 4 * EO_TOKEN_LEN + EO_MAX_PIN_TOKENS * EO_ATTEMPT_LEN + \
					   EO_PIN_HASH_LEN + 8 + 12 + EO_ORIGIN_LEN + \
					   EO_MAX_REASON_BYTES + EO_MAX_CONSUMER_BYTES)

/*
 * The options of conditions and updates: does the write have the value of that
 * letter?  X: the table is not of the layout native.
 */
static const char options[] = "phjrb" "X";

#define N_VARIANTS (1 << (sizeof(options) - 1))
#define N_VERBS (EO_ACTION_CLOSE + 1)

struct EoActionLayout
{
	const EoLayout *table;
	bool		is_seed;		/* not native */
	char		options[EO_MAX_LAYOUT_BYTES + 1];
	EoActionNames names;
	EoValue		values[EO_VALUE_LETTERS];
	EoExpression made[N_VERBS][N_VARIANTS];
	EoStatement inserts[N_VARIANTS];	/* of EO_ACTION_CREATE */
	EoActionLayout *next;
};

static unsigned int
options_of(const EoActionLayout *layout, const EoActionWrite *w)
{
	const bool	set[] = {
		w->payload != NULL,		/* p */
		w->pin_hash != NULL,	/* h */
		w->pin_pepper != NULL,	/* j */
		w->reason != NULL,		/* r */
		w->consumer != NULL,	/* b */
		layout->is_seed			/* X */
	};

	return eo_expression_options(set, sizeof(set) / sizeof(set[0]));
}

/*
 * In tables that are not native an instant has the form of its attribute, and so there is a
 * "now" for each: they are compared with :A and :E, and set to :C, :X and :D.
 *
 * The action exists, nothing has ended it, and no transaction has sealed it. */
#define NOT_FINAL "attribute_exists(#k)" \
	"[!X? AND attribute_not_exists(#c) AND attribute_not_exists(#u)]" \
	"[X? AND (attribute_not_exists(#c) OR attribute_type(#c, :Z))]" \
	" AND attribute_not_exists(#x) AND attribute_not_exists(#z)"

/* It is not final, and now is within its time. */
#define OPEN NOT_FINAL \
	" AND [!X?#a <= :n][X?(attribute_not_exists(#a) OR attribute_type(#a, :Z) OR #a <= :A)]" \
	" AND #e > [!X?:n][X?:E]"

/* An attempt is left.  Other clients count none, so their action has all of them. */
#define ATTEMPT_LEFT "[!X?#m > :0][X?(attribute_not_exists(#m) OR #m > :0)]"

/*
 * The payload, if there is one, can be handed over.  Other clients may keep it in any type
 * that is JSON.
 */
#define PAYLOAD " AND (attribute_not_exists(#p) OR attribute_type(#p, :S)" \
	"[X? OR attribute_type(#p, :M) OR attribute_type(#p, :L) OR attribute_type(#p, :N)" \
	" OR attribute_type(#p, :B) OR attribute_type(#p, :Z)])"

/*
 * Owner and origin of an earlier seal, which was undone, go: an action that has both and is
 * consumed was consumed by that seal (action_seal.c).
 */
#define CONSUMED \
	"SET #c = [!X?:n][X?:C], #t = :t[r?, #r = :r][b?, #b = :b][!X? REMOVE #o, #g]"

static const struct
{
	const char *condition;
	const char *update;
}			verbs[] =
{
	/* Nothing re-creates an action, not even one that is long over. */
	[EO_ACTION_CREATE] = {
		"attribute_not_exists(#k)",
		"SET [!X?#i = :i, #s = :n][X?#s = :D], #d = :t, #a = :a, #e = :e, #l = :l"
		"[p?, #p = :p][h?, #h = :h, #m = :m][j?, #j = :j]"
	},

	/*
	 * A token pays for one attempt: a copy of the request that arrives late
	 * takes no second one.  No attempt is taken if the pepper has changed,
	 * because then no PIN can be right, or if the hash is not of the length
	 * of those that can be checked.
	 */
	[EO_ACTION_ATTEMPT] = {
		OPEN " AND attribute_type(#h, :S) AND " ATTEMPT_LEFT " AND NOT contains(#q, :t)"
		"[j? AND #j = :j][!j? AND attribute_not_exists(#j)][X? AND size(#h) = :H]",
		"SET #m = [!X?#m][X?if_not_exists(#m, :m)] - :1 ADD #q :T"
	},
	[EO_ACTION_CONSUME] = {
		OPEN " AND attribute_not_exists(#h)" PAYLOAD,
		CONSUMED
	},

	/*
	 * pinAttempts is not looked at: the caller who took the last attempt, and
	 * had the right PIN, may consume.
	 */
	[EO_ACTION_CONSUME_PAID] = {
		OPEN " AND contains(#q, :q)" PAYLOAD,
		CONSUMED
	},

	/*
	 * A pending action can be canceled, too.  One without attempts left
	 * cannot: the caller who took the last attempt may have the right PIN,
	 * and EO_ACTION_CLOSE decides between that caller and this one.
	 */
	[EO_ACTION_CANCEL] = {
		NOT_FINAL " AND #e > [!X?:n][X?:E] AND (attribute_not_exists(#h) OR " ATTEMPT_LEFT ")",
		"SET #x = [!X?:n][X?:X], #y = :t[r?, #w = :r]"
	},
	[EO_ACTION_CLOSE] = {
		NOT_FINAL " AND (#e <= [!X?:n][X?:E] OR #m <= :0)",
		"SET #z = [!X?:n][X?:D]"
	}
};

/* The structs that values are taken from. */
typedef enum From
{
	FROM_WRITE,
	FROM_TYPES,
	FROM_SPELLED
} From;

/* EoActionNames of types, for conditions. */
typedef struct Types
{
	const char *string;
	const char *map;
	const char *list;
	const char *number;
	const char *boolean;
	const char *null;
} Types;

static const Types types = {"S", "M", "L", "N", "BOOL", "NULL"};

/* The values that have a form of their own in a table that is not native. */
typedef struct Spelled
{
	EoInstant	now[EO_N_AA];	/* in the form of that attribute */
	EoInstant	active;
	EoInstant	expires;
	const char *payload;
	size_t		payload_len;
} Spelled;

#define STRING(member) {EO_VALUE_STRING, FROM_WRITE, offsetof(EoActionWrite, member), 0}
#define NUMBER(member) {EO_VALUE_NUMBER, FROM_WRITE, offsetof(EoActionWrite, member), 0}
#define TYPE(member) {EO_VALUE_STRING, FROM_TYPES, offsetof(Types, member), 0}
#define INSTANT(member) ((EoValue) {EO_VALUE_INSTANT, FROM_SPELLED, offsetof(Spelled, member), 0})

static const EoValue values[EO_VALUE_LETTERS] = {
	['n'] = NUMBER(now_ms),
	['t'] = STRING(token),
	['T'] = {EO_VALUE_SET, FROM_WRITE, offsetof(EoActionWrite, token), 0},
	['q'] = STRING(attempt),
	['S'] = TYPE(string),
	['M'] = TYPE(map),
	['L'] = TYPE(list),
	['N'] = TYPE(number),
	['B'] = TYPE(boolean),
	['Z'] = TYPE(null),
	['i'] = STRING(id),
	['a'] = NUMBER(active_ms),
	['e'] = NUMBER(expires_ms),
	['l'] = NUMBER(ttl_s),
	['p'] = STRING(payload),
	['h'] = STRING(pin_hash),
	['j'] = STRING(pin_pepper),
	['m'] = NUMBER(pin_attempts),
	['H'] = NUMBER(pin_hash_len),
	['r'] = STRING(reason),
	['b'] = STRING(consumer)
};

static void fill_seed(EoActionLayout *layout, const EoLayout *table);

/* ----- the spelling of a table ----- */

const EoActionLayout *
eo_action_item_layout(const EoLayout *layout, const char *options_text)
{
	static EoActionLayout *all;
	EoActionLayout *a = all;
	const char *option;
	const char *reason;

	while (a != NULL && (a->table != layout || strcmp(a->options, options_text) != 0))
		a = a->next;
	if (a != NULL)
		return a;
	a = calloc(1, sizeof(EoActionLayout));
	if (a == NULL || !eo_action_names_read(&a->names, options_text, &option, &reason))
	{
		free(a);
		return NULL;
	}
	a->table = layout;
	eo_layout_keep(layout);
	memcpy(a->options, options_text, strlen(options_text) + 1);
	memcpy(a->values, values, sizeof(values));
	if (!layout->is_native)
		fill_seed(a, layout);
	a->next = all;
	all = a;
	return a;
}

static void
fill_seed(EoActionLayout *layout, const EoLayout *table)
{
	layout->is_seed = true;
	layout->names.attributes[EO_AA_KEY].name = EO_ACTION_SEED_KEY;
	layout->names.attributes[EO_AA_TTL].name = table->expiry;
	layout->values['A'] = INSTANT(now[EO_AA_ACTIVE]);
	layout->values['E'] = INSTANT(now[EO_AA_EXPIRES]);
	layout->values['C'] = INSTANT(now[EO_AA_CONSUMED]);
	layout->values['X'] = INSTANT(now[EO_AA_CANCELED]);
	layout->values['D'] = INSTANT(now[EO_AA_CLOSED]);
	layout->values['a'] = INSTANT(active);
	layout->values['e'] = INSTANT(expires);
	if (table->native_result)
		layout->values['p'] = (EoValue)
	{
		EO_VALUE_JSON, FROM_SPELLED, offsetof(Spelled, payload), offsetof(Spelled, payload_len)
	};
}

/* ----- requests ----- */

EoStatus
eo_action_item_make_pk(const EoActionLayout *layout, const char *prefix, const char *id,
					   char *out, size_t *len)
{
	const char *first = layout->is_seed ? "" : KEY_PREFIX;

	*len = strlen(first) + strlen(prefix) + strlen(id);
	if (*len > EO_MAX_KEY_BYTES)
		return EO_TOO_LARGE;
	snprintf(out, EO_MAX_KEY_BYTES + 1, "%s%s%s", first, prefix, id);
	return EO_OK;
}

bool
eo_action_item_is_pk(const char *pk)
{
	return strncmp(pk, KEY_PREFIX, strlen(KEY_PREFIX)) == 0;
}

size_t
eo_action_item_max_payload(size_t pk_len, size_t id_len)
{
	return EO_MAX_ITEM_BYTES - ITEM_OVERHEAD - pk_len - id_len;
}

/* Whole seconds are compared with whole seconds. */
static int64_t
shown_now(EoInstantForm form, int64_t now_ms)
{
	return form == EO_INSTANT_S ? now_ms - now_ms % 1000 : now_ms;
}

/* Spell the instants and the payload as the layout has them. */
static void
spell(const EoActionLayout *layout, const EoActionWrite *w, Spelled *spelled)
{
	const EoInstantForm *forms = layout->names.forms;

	if (!layout->is_seed)
		return;
	for (int a = 0; a < EO_N_AA; a++)
		eo_timestamps_make(&spelled->now[a], forms[a], shown_now(forms[a], w->now_ms));
	eo_timestamps_make(&spelled->active, forms[EO_AA_ACTIVE], w->active_ms);
	eo_timestamps_make(&spelled->expires, forms[EO_AA_EXPIRES], w->expires_ms);
	spelled->payload = w->payload;
	spelled->payload_len = w->payload != NULL ? strlen(w->payload) : 0;
}

/*
 * An expression is made once for each verb and each set of options; that is all that
 * changes in the layout.
 */
void
eo_action_item_put_write(const EoActionLayout *layout, EoBuf *body, const char *table,
						 const char *pk, EoActionVerb verb, const EoActionWrite *w)
{
	unsigned int set = options_of(layout, w);
	EoExpression *e = (EoExpression *) &layout->made[verb][set];
	EoStatus	status = EO_OK;
	Spelled		spelled;
	const void *structs[] = {[FROM_WRITE] = w,[FROM_TYPES] = &types,[FROM_SPELLED] = &spelled};

	spell(layout, w, &spelled);
	if (e->text.len == 0)
		status = eo_expression_make(e, layout->names.attributes, options, set,
									verbs[verb].condition, verbs[verb].update);
	if (status == EO_OK)
		eo_expression_put_update(e, body, table, &layout->table->key, pk,
								 ",\"ReturnValues\":\"ALL_NEW\"", layout->values, structs);
	else
		body->status = status;
}

/* An INSERT is refused if there is an item, which is the condition of EO_ACTION_CREATE. */
bool
eo_action_item_put_create(const EoActionLayout *layout, EoBuf *body, const char *table,
						  const char *pk, const EoActionWrite *w)
{
	unsigned int set = options_of(layout, w);
	EoStatement *s = (EoStatement *) &layout->inserts[set];
	EoStatus	status = EO_OK;
	Spelled		spelled;
	const void *structs[] = {[FROM_WRITE] = w,[FROM_TYPES] = &types,[FROM_SPELLED] = &spelled};

	spell(layout, w, &spelled);
	if (s->text.len == 0 && !s->impossible)
		status = eo_statement_make(s, layout->names.attributes, &layout->table->key, options, set,
								   NULL, verbs[EO_ACTION_CREATE].update);
	if (status != EO_OK)
		body->status = status;
	else if (s->impossible)
		return false;
	else
		eo_statement_put(s, body, table, &layout->table->key, pk, layout->values, structs);
	return true;
}

void
eo_action_item_put_list(const EoActionLayout *layout, EoBuf *body, const EoListPage *page)
{
	static const EoActionAttribute shown[] = {EO_AA_KEY, EO_AA_CREATED, EO_AA_ACTIVE,
		EO_AA_EXPIRES, EO_AA_PIN_HASH, EO_AA_PIN_ATTEMPTS, EO_AA_CONSUMED, EO_AA_CONSUMED_REASON,
		EO_AA_CONSUMED_BY, EO_AA_CANCELED, EO_AA_CANCELED_REASON, EO_AA_CLOSED, EO_AA_STATUS,
	EO_AA_SEALED};
	const char *names[sizeof(shown) / sizeof(shown[0])];

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		names[i] = layout->names.attributes[shown[i]].name;
	eo_list_put_page(body, &layout->table->key, names, sizeof(shown) / sizeof(shown[0]), page);
}

size_t
eo_action_item_ended_names(const EoActionLayout *layout, const char **names)
{
	static const EoActionAttribute ended[] = {EO_AA_CREATED_TOKEN, EO_AA_TTL, EO_AA_ACTIVE,
		EO_AA_EXPIRES, EO_AA_PIN_HASH, EO_AA_PIN_ATTEMPTS, EO_AA_CONSUMED, EO_AA_CANCELED,
	EO_AA_CLOSED, EO_AA_STATUS, EO_AA_SEALED};
	const size_t n = sizeof(ended) / sizeof(ended[0]);

	for (size_t i = 0; i < n; i++)
		names[i] = layout->names.attributes[ended[i]].name;
	return n;
}

/* ----- reading ----- */

static EoJsonValue *
attribute_of(EoJsonValue *item, EoActionAttribute a)
{
	return eo_json_get(item, eo_action_names[a].name);
}

/*
 * Read a number; 0 if there is none.  Other writers may leave absurd numbers: they
 * are rounded down and limited to the range from 0 to max.  Sets *ok to false if
 * the attribute is there and not a number.
 */
static int64_t
read_number(EoJsonValue *item, EoActionAttribute a, int64_t max, bool *ok)
{
	int64_t		n;
	size_t		len;
	const char *digits;
	double		d;

	if (attribute_of(item, a) == NULL)
		return 0;
	if (!eo_json_attr_n(item, eo_action_names[a].name, &n))
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
read_string(EoJsonValue *item, EoActionAttribute a, bool *ok)
{
	size_t		len;
	const char *s = eo_json_attr_s(item, eo_action_names[a].name, &len);

	if (s == NULL && attribute_of(item, a) != NULL)
		*ok = false;
	return s;
}

/*
 * Read an instant; 0 if there is none.  Sets *ok to false if the attribute is there
 * and cannot be read, or is not of the form with which the conditions compare it.
 */
static int64_t
read_instant(const EoActionLayout *layout, EoJsonValue *item, EoActionAttribute a, bool *ok)
{
	const char *name = layout->names.attributes[a].name;
	EoInstantForm form = layout->names.forms[a];
	EoJsonValue *attribute = eo_json_get(item, name);
	int64_t		ms = 0;

	if (!layout->is_seed)
		return read_number(item, a, EO_MAX_INSTANT_MS, ok);
	if (attribute == NULL || eo_json_get(attribute, "NULL") != NULL)
		return 0;
	if (((a == EO_AA_ACTIVE || a == EO_AA_EXPIRES) &&
		 eo_json_get(attribute, form == EO_INSTANT_ISO ? "S" : "N") == NULL) ||
		!eo_timestamps_read(item, name, form, &ms))
		*ok = false;
	return ms;
}

/* Read the payload as JSON; NULL if there is none. */
static const char *
read_payload(const EoActionLayout *layout, EoJsonValue *item, bool *ok)
{
	const char *text;
	size_t		len;

	if (!layout->is_seed)
		return read_string(item, EO_AA_PAYLOAD, ok);
	if (eo_json_text(attribute_of(item, EO_AA_PAYLOAD), &text, &len) != EO_OK)
	{
		*ok = false;
		return NULL;
	}
	return text;
}

/* When it was sealed; 0: it is not. */
static int64_t
read_sealed(EoJsonValue *item, bool *ok)
{
	const char *status = read_string(item, EO_AA_STATUS, ok);
	int64_t		sealed_ms = read_number(item, EO_AA_SEALED, EO_MAX_INSTANT_MS, ok);

	if (status == NULL)
		return 0;
	if (strcmp(status, "COMMITTING") != 0 || sealed_ms == 0)
		*ok = false;
	return sealed_ms;
}

/* Does the item say of an instant that it has come, whatever form that has? */
static bool
has_instant(const EoActionLayout *layout, EoJsonValue *item, EoActionAttribute a)
{
	EoJsonValue *attribute = eo_json_get(item, layout->names.attributes[a].name);

	return attribute != NULL && !(layout->is_seed && eo_json_get(attribute, "NULL") != NULL);
}

EoStatus
eo_action_item_read(const EoActionLayout *layout, EoJsonValue *item, EoActionItem *action)
{
	bool		ok = true;
	bool		whatever = true;
	size_t		len;

	memset(action, 0, sizeof(*action));
	action->item = item;
	/* Attributes that a condition needs, or that are handed over. */
	action->active_ms = read_instant(layout, item, EO_AA_ACTIVE, &ok);
	action->expires_ms = read_instant(layout, item, EO_AA_EXPIRES, &ok);
	action->consumed_ms = read_instant(layout, item, EO_AA_CONSUMED, &ok);
	action->canceled_ms = read_instant(layout, item, EO_AA_CANCELED, &ok);
	action->closed_ms = read_instant(layout, item, EO_AA_CLOSED, &ok);
	action->sealed_ms = layout->is_seed ? 0 : read_sealed(item, &ok);
	action->payload = read_payload(layout, item, &ok);
	action->pin_hash = read_string(item, EO_AA_PIN_HASH, &ok);
	action->pin_attempts = read_number(item, EO_AA_PIN_ATTEMPTS, INT32_MAX, &ok);
	if (layout->is_seed && attribute_of(item, EO_AA_PIN_ATTEMPTS) == NULL)
		action->pin_attempts = EO_PIN_ATTEMPTS_ALL;
	/* Attributes that are shown, if they can be read. */
	action->pin_pepper = read_string(item, EO_AA_PIN_PEPPER, &whatever);
	action->pin_tokens = eo_json_get(attribute_of(item, EO_AA_PIN_TOKENS), "SS");
	action->created_ms = read_instant(layout, item, EO_AA_CREATED, &whatever);
	action->created_token = read_string(item, EO_AA_CREATED_TOKEN, &whatever);
	action->consumed_token = read_string(item, EO_AA_CONSUMED_TOKEN, &whatever);
	action->consumed_reason = read_string(item, EO_AA_CONSUMED_REASON, &whatever);
	if (eo_json_text(attribute_of(item, EO_AA_CONSUMED_BY), &action->consumed_by, &len) != EO_OK)
		action->consumed_by = NULL;
	action->canceled_token = read_string(item, EO_AA_CANCELED_TOKEN, &whatever);
	action->canceled_reason = read_string(item, EO_AA_CANCELED_REASON, &whatever);
	if (!eo_json_attr_n(item, layout->names.attributes[EO_AA_TTL].name, &action->ttl_s))
		action->ttl_s = 0;

	/* Without them, every condition that compares them is false. */
	if ((!layout->is_seed && attribute_of(item, EO_AA_ACTIVE) == NULL) ||
		!has_instant(layout, item, EO_AA_EXPIRES))
		ok = false;

	/*
	 * Conditions ask whether these attributes exist, EoActionItem whether
	 * they are 0.  So an instant of 0 cannot be read.
	 */
	if ((has_instant(layout, item, EO_AA_CONSUMED) && action->consumed_ms == 0) ||
		(eo_json_get(item, layout->names.attributes[EO_AA_CANCELED].name) != NULL &&
		 action->canceled_ms == 0) ||
		(attribute_of(item, EO_AA_CLOSED) != NULL && action->closed_ms == 0))
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
			return action->consumed_ms > 0 && equals(action->consumed_token, token);
		case EO_ACTION_CANCEL:
			return equals(action->canceled_token, token);
		case EO_ACTION_CLOSE:
			/* Closing has the same result, whoever did it. */
			return action->closed_ms > 0;
	}
	return false;
}

bool
eo_action_item_shows_now(const EoActionLayout *layout, const EoActionItem *action, int64_t now_ms)
{
	return action->consumed_ms == (layout->is_seed ?
								   shown_now(layout->names.forms[EO_AA_CONSUMED], now_ms) : now_ms);
}
