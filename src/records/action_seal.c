/*-------------------------------------------------------------------------
 *
 * action_seal.c
 *	  How the verbs of a commit are spelled for an action, and what it shows of one.
 *
 * A transaction that consumes an action seals it when it commits, as it seals a key of
 * idem_once(), and the same parts do it: slot, row of the outbox, seal, worker, heir.
 * All that differs is how the item is spelled, which is decided by its partition key
 * (record.c).  A sealed action has the attributes status, owner, bind and origin of a
 * sealed record, so that the recovery scan finds it, too.
 *
 * The item keeps owner and origin of the last seal when that is finished or undone: a
 * late copy of the seal finds its own token, and is refused.  Whoever consumes the action
 * outside of a transaction removes them: a late copy finds it consumed.
 *
 *-------------------------------------------------------------------------
 */
#include "records/action_seal.h"

#include <string.h>

#include "records/action_item.h"
#include "records/expression.h"
#include "records/layout.h"
#include "records/origin.h"

static const EoAttributeName attributes[] = {
	{'k', "pk"}, {'s', "status"}, {'o', "owner"}, {'b', "bind"}, {'g', "origin"},
	{'S', "sealedAt"}, {'T', "sealedTtl"}, {'L', "sealedLeft"},
	{'a', "activeAtMs"}, {'e', "expiresAtMs"}, {'p', "payload"}, {'h', "pinHash"},
	{'q', "pinTokens"}, {'c', "consumedAt"}, {'t', "consumedToken"}, {'r', "consumedReason"},
	{'B', "consumedBy"}, {'x', "canceledAt"}, {'z', "closedAt"}, {'l', "ttl"}, {'\0', NULL}
};

static const EoItemKey item_key = {.name = "pk"};

/* Does the write have an attempt (q), a reason (r), a consumer (B), an origin (g)? */
static const char options[] = "qrBg";

#define N_VARIANTS (1 << (sizeof(options) - 1))

#define OWN_SEAL "#s = :M AND #o = :o"
#define FINISH(more) \
	"SET #c = #S, " more "#l = if_not_exists(#L, :a) + :n REMOVE #s, #b, #S, #T, #L"

static const struct
{
	const char *condition;
	const char *update;
}			verbs[EO_PROBE + 1] =
{
	/*
	 * As the consume that takes effect at once (action_item.c), and nobody
	 * has sealed it.  A late copy, which comes when its transaction is over,
	 * finds its own token.
	 *
	 * The ttl is far away, so that a sealed action is never swept; without
	 * one EO_BURY could not be spelled.  How far away it was is noted for the
	 * finish.  Who consumes it is written now, so that nothing can be refused
	 * after the commit.
	 */
	[EO_SEAL_NEW] = {
		"attribute_exists(#k) AND attribute_not_exists(#s) AND attribute_not_exists(#c)"
		" AND attribute_not_exists(#x) AND attribute_not_exists(#z) AND #a <= :i AND #e > :i"
		" AND (attribute_not_exists(#o) OR #o <> :o)"
		"[q? AND contains(#q, :q)][!q? AND attribute_not_exists(#h)]"
		" AND (attribute_not_exists(#p) OR attribute_type(#p, :S))",
		"SET #s = :M, #o = :o, #b = :b, #g = :g, #S = :i, #T = if_not_exists(#l, :0),"
		" #L = if_not_exists(#l, :l) - :n, #l = :l, #t = :t"
		"[r?, #r = :r][B?, #B = :B]"
	},

	/*
	 * It was consumed at the instant of the seal.  The finish may come long
	 * after that, so the ttl is as far away again as it was: an action that
	 * was deleted at once could not show a lost answer to its finish.  Other
	 * seals have not noted that.
	 */
	[EO_FINISH] = {
		OWN_SEAL "[g? AND #g >= :g AND #g <= :H]",
		FINISH("")
	},
	[EO_FINISH_OTHER] = {
		OWN_SEAL " AND #g = :H",
		FINISH("#g = :g, ")
	},
	[EO_ABORT] = {
		OWN_SEAL "[g? AND #g = :g]",
		"SET #o = :o, #l = #T REMOVE #s, #b, #S, #T, #L, #t, #r, #B"
	},

	/*
	 * The seal may not have arrived.  Then its token is left here, which
	 * refuses it, unless the action is over or another transaction has sealed
	 * it.
	 */
	[EO_BURY] = {
		"(" OWN_SEAL "[g? AND #g = :g])"
		" OR (attribute_exists(#l) AND attribute_not_exists(#s) AND attribute_not_exists(#c))",
		"SET #o = :o, #l = if_not_exists(#T, #l) REMOVE #s, #b, #S, #T, #L, #t, #r, #B"
	}
};

typedef enum From
{
	FROM_WRITE,
	FROM_ACTION,
	FROM_WORDS,
	FROM_DERIVED
} From;

typedef struct Words
{
	const char *committing;
	const char *string;
	int64_t		far_s;
} Words;

/* Values that the write does not have as such. */
typedef struct Derived
{
	int64_t		now_s;
} Derived;

static const Words words = {"COMMITTING", "S", EO_FAR_S};

static const EoValue values[EO_VALUE_LETTERS] = {
	['M'] = {EO_VALUE_STRING, FROM_WORDS, offsetof(Words, committing), 0},
	['S'] = {EO_VALUE_STRING, FROM_WORDS, offsetof(Words, string), 0},
	['l'] = {EO_VALUE_NUMBER, FROM_WORDS, offsetof(Words, far_s), 0},
	['o'] = {EO_VALUE_STRING, FROM_WRITE, offsetof(EoWrite, owner), 0},
	['b'] = {EO_VALUE_STRING, FROM_WRITE, offsetof(EoWrite, bind), 0},
	['g'] = {EO_VALUE_STRING, FROM_WRITE, offsetof(EoWrite, origin), 0},
	['H'] = {EO_VALUE_STRING, FROM_WRITE, offsetof(EoWrite, origin_last), 0},
	['i'] = {EO_VALUE_NUMBER, FROM_WRITE, offsetof(EoWrite, now_ms), 0},
	['a'] = {EO_VALUE_NUMBER, FROM_WRITE, offsetof(EoWrite, retention_s), 0},
	['n'] = {EO_VALUE_NUMBER, FROM_DERIVED, offsetof(Derived, now_s), 0},
	['t'] = {EO_VALUE_STRING, FROM_ACTION, offsetof(EoActionSeal, token), 0},
	['q'] = {EO_VALUE_STRING, FROM_ACTION, offsetof(EoActionSeal, attempt), 0},
	['r'] = {EO_VALUE_STRING, FROM_ACTION, offsetof(EoActionSeal, reason), 0},
	['B'] = {EO_VALUE_STRING, FROM_ACTION, offsetof(EoActionSeal, consumer), 0}
};

void
eo_action_seal_put(EoBuf *body, const char *table, const char *pk, EoVerb verb, const EoWrite *w)
{
	static EoExpression made[EO_PROBE + 1][N_VARIANTS];
	static const EoActionSeal nothing;
	const EoActionSeal *action = w->action != NULL ? w->action : &nothing;
	const bool	set[] = {
		action->attempt != NULL,	/* q */
		action->reason != NULL, /* r */
		action->consumer != NULL,	/* B */
		w->origin != NULL && w->origin[0] != '\0'	/* g */
	};
	const Derived derived = {.now_s = (w->now_ms + 999) / 1000};
	const void *structs[] = {[FROM_WRITE] = w,[FROM_ACTION] = action,[FROM_WORDS] = &words,
	[FROM_DERIVED] = &derived};
	unsigned int options_set = eo_expression_options(set, sizeof(set) / sizeof(set[0]));
	EoExpression *e = &made[verb][options_set];
	EoStatus	status = EO_OK;

	if (verbs[verb].condition == NULL)
		status = EO_INVALID;
	else if (e->text.len == 0)
		status = eo_expression_make(e, attributes, options, options_set, verbs[verb].condition,
									verbs[verb].update);
	if (status == EO_OK)
		eo_expression_put_update(e, body, table, &item_key, pk, ",\"ReturnValues\":\"ALL_NEW\"",
								 values, structs);
	else
		body->status = status;
}

bool
eo_action_seal_is_item(EoJsonValue *item)
{
	const char *pk = eo_expression_pk_of(&item_key, item);

	return pk != NULL && eo_action_item_is_pk(pk);
}

EoStatus
eo_action_seal_read(EoJsonValue *item, EoRecord *record)
{
	size_t		len;
	const char *status = eo_json_attr_s(item, "status", &len);

	memset(record, 0, sizeof(*record));
	record->item = item;
	if (status != NULL && strcmp(status, words.committing) != 0)
		return EO_INVALID;
	record->state = status != NULL ? EO_STATE_COMMITTING :
		eo_json_get(item, "consumedAt") != NULL ? EO_STATE_COMPLETED : EO_STATE_FAILED;
	record->owner = eo_json_attr_s(item, "owner", &len);
	if (record->owner == NULL)
		record->owner = "";
	record->bind = eo_json_attr_s(item, "bind", &len);
	record->origin_text = eo_json_attr_s(item, "origin", &len);
	record->has_origin = eo_origin_read(record->origin_text, &record->origin);
	record->has_retry = true;
	return EO_OK;
}

const char *
eo_action_seal_refusal(EoJsonValue *item)
{
	return eo_json_get(item, "canceledAt") != NULL ? "It was canceled in the meantime." :
		"It has expired in the meantime, or was closed.";
}
