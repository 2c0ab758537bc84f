/*-------------------------------------------------------------------------
 *
 * life_item.c
 *	  How a life is spelled as an item.
 *
 * The conditions carry the rules of lives: a life is extended, closed and retired
 * only while it is open and at the beat that was seen.  So of two writes that were
 * decided on the same evidence only one is applied, and a copy of any of them that
 * arrives late is refused.
 *
 *-------------------------------------------------------------------------
 */
#include "records/life_item.h"

#include <stdio.h>
#include <string.h>

#include "records/expression.h"

#define KEY_PREFIX "ORIGIN#"

/* The first and the last are named by the layout: the key, and the TTL attribute of the table. */
static const EoAttributeName attributes[] = {
	{'k', NULL}, {'s', "state"}, {'b', "beat"}, {'n', "nonce"}, {'a', "ancestors"},
	{'h', "home"}, {'y', "system_identifier"}, {'d', "database"}, {'l', "timeline"},
	{'r', "retired_by"}, {'c', "created_ms"}, {'u', "updated_ms"}, {'t', "ttl"}, {'e', NULL},
	{'\0', NULL}
};

#define N_ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]) - 1)

static const char *const states[] = {
	[EO_LIFE_OPEN] = "open",
	[EO_LIFE_CLOSED] = "closed",
	[EO_LIFE_RETIRED] = "retired"
};

#define IS_AS_SEEN "#s = :O AND #b = :b"

/*
 * The options: t if the write sets a ttl; E if the table has another TTL attribute, which
 * is set, too; e for both.
 */
static const char options[] = "tEe";

static const struct
{
	const char *condition;
	const char *update;
}			verbs[] =
{
	[EO_LIFE_CREATE] = {
		"attribute_not_exists(#k)",
		"SET #s = :O, #b = :w, #n = :n, #a = :a, #h = :h, #y = :y, #d = :d, #l = :l,"
		" #c = :i, #u = :i"
	},
	[EO_LIFE_BEAT] = {
		IS_AS_SEEN,
		"SET #b = :w, #n = :n, #u = :i"
	},
	[EO_LIFE_CLOSE] = {
		IS_AS_SEEN,
		"SET #s = :C, #n = :n, #u = :i, #t = :t[E?, #e = :t]"
	},

	/*
	 * The item stays: whoever was retired, or meets one of its records, must
	 * find out by whom.
	 */
	[EO_LIFE_RETIRE] = {
		IS_AS_SEEN,
		"SET #s = :R, #r = :r, #u = :i[t?, #t = :t][e?, #e = :t]"
	},
	[EO_LIFE_SCANNED] = {
		"#s = :R AND #r = :p",
		"SET #t = :t, #u = :i[E?, #e = :t]"
	},

	/*
	 * An operator knows that the heir of before is gone.  A ttl of that heir
	 * would say that nothing of the life is left, and the new heir has not
	 * looked yet.
	 */
	[EO_LIFE_INHERIT] = {
		"#s = :R AND #r = :p",
		"SET #r = :r, #u = :i REMOVE #t[E?, #e]"
	},
	[EO_LIFE_RETIRE_ABSENT] = {
		"attribute_not_exists(#k)",
		"SET #s = :R, #r = :r, #b = :0, #c = :i, #u = :i[t?, #t = :t][e?, #e = :t]"
	}
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* The structs that values are taken from. */
typedef enum From
{
	FROM_WRITE,
	FROM_STATES
} From;

#define STRING(member) {EO_VALUE_STRING, FROM_WRITE, offsetof(EoLifeWrite, member), 0}
#define NUMBER(member) {EO_VALUE_NUMBER, FROM_WRITE, offsetof(EoLifeWrite, member), 0}
#define STATE(state) {EO_VALUE_STRING, FROM_STATES, (state) * sizeof(states[0]), 0}

static const EoValue values[EO_VALUE_LETTERS] = {
	['O'] = STATE(EO_LIFE_OPEN),
	['C'] = STATE(EO_LIFE_CLOSED),
	['R'] = STATE(EO_LIFE_RETIRED),
	['b'] = NUMBER(seen_beat),
	['w'] = NUMBER(beat),
	['n'] = STRING(nonce),
	['a'] = STRING(ancestors),
	['h'] = STRING(home),
	['y'] = STRING(system_identifier),
	['d'] = NUMBER(database),
	['l'] = NUMBER(timeline),
	['r'] = STRING(by),
	['p'] = STRING(seen_by),
	['i'] = NUMBER(now_ms),
	['t'] = NUMBER(ttl_s)
};

EoStatus
eo_life_item_make_pk(const char *prefix, const char *life, char *out, size_t *len)
{
	*len = strlen(KEY_PREFIX) + strlen(prefix) + strlen(life);
	if (*len > EO_MAX_KEY_BYTES)
		return EO_TOO_LARGE;
	snprintf(out, EO_MAX_KEY_BYTES + 1, "%s%s%s", KEY_PREFIX, prefix, life);
	return EO_OK;
}

bool
eo_life_item_is_pk(const char *pk)
{
	return strncmp(pk, KEY_PREFIX, strlen(KEY_PREFIX)) == 0;
}

void
eo_life_item_put_write(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
					   EoLifeVerb verb, const EoLifeWrite *w)
{
	static EoExpression made[N_VERBS][2];
	const bool	other_ttl = strcmp(layout->expiry, "ttl") != 0;
	const bool	set[] = {w->ttl_s > 0, other_ttl, w->ttl_s > 0 && other_ttl};
	EoExpression other = {.values = ""};
	EoExpression *e = layout->is_native ? &made[verb][set[0]] : &other;
	EoAttributeName names[N_ATTRIBUTES + 1];
	EoStatus	status = EO_OK;
	const void *structs[] = {[FROM_WRITE] = w,[FROM_STATES] = states};

	if (e->text.len == 0)
	{
		memcpy(names, attributes, sizeof(attributes));
		names[0].name = layout->key.name;
		names[N_ATTRIBUTES - 1].name = layout->expiry;
		status = eo_expression_make(e, names, options, eo_expression_options(set, 3),
									verbs[verb].condition, verbs[verb].update);
	}
	if (status == EO_OK)
		eo_expression_put_update(e, body, table, &layout->key, pk,
								 ",\"ReturnValues\":\"ALL_NEW\"", values, structs);
	else
		body->status = status;
	eo_buf_free(&other.text);
}

size_t
eo_life_item_ended_names(const char **names)
{
	names[0] = "state";
	names[1] = "beat";
	names[2] = "retired_by";
	names[3] = "ttl";
	return 4;
}

EoStatus
eo_life_item_read(EoJsonValue *item, EoLifeItem *life)
{
	size_t		len;
	const char *state = eo_json_attr_s(item, "state", &len);
	size_t		s = 0;

	memset(life, 0, sizeof(*life));
	while (s < sizeof(states) / sizeof(states[0]) &&
		   (state == NULL || strcmp(states[s], state) != 0))
		s++;
	if (s == sizeof(states) / sizeof(states[0]) ||
		!eo_json_attr_n(item, "beat", &life->beat) || life->beat < 0)
		return EO_INVALID;
	life->state = (EoLifeState) s;
	life->nonce = eo_json_attr_s(item, "nonce", &len);
	life->ancestors = eo_json_attr_s(item, "ancestors", &len);
	life->home = eo_json_attr_s(item, "home", &len);
	life->retired_by = eo_json_attr_s(item, "retired_by", &len);
	life->has_ttl = eo_json_get(item, "ttl") != NULL;
	if (!eo_json_attr_n(item, "ttl", &life->ttl_s))
		life->ttl_s = 0;
	return life->state == EO_LIFE_RETIRED && life->retired_by == NULL ? EO_INVALID : EO_OK;
}

static bool
equals(const char *stored, const char *written)
{
	return stored != NULL && written != NULL && strcmp(stored, written) == 0;
}

bool
eo_life_item_shows(const EoLifeItem *life, EoLifeVerb verb, const EoLifeWrite *w)
{
	switch (verb)
	{
		case EO_LIFE_CREATE:
		case EO_LIFE_BEAT:
			return life->state == EO_LIFE_OPEN && equals(life->nonce, w->nonce);
		case EO_LIFE_CLOSE:
			return life->state == EO_LIFE_CLOSED && equals(life->nonce, w->nonce);
		case EO_LIFE_RETIRE:
		case EO_LIFE_INHERIT:
		case EO_LIFE_RETIRE_ABSENT:
			return life->state == EO_LIFE_RETIRED && equals(life->retired_by, w->by);
		case EO_LIFE_SCANNED:
			return life->has_ttl && equals(life->retired_by, w->seen_by);
	}
	return false;
}
