/*-------------------------------------------------------------------------
 *
 * life_store.c
 *	  The verbs on lives in the table of a server.
 *
 * Lives are one kind of item (answer.h).  A refused write of a life is followed by a
 * read if the refusal brought no item, because what the item says decides whether
 * the life goes on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "server/life_store.h"
#include "utils/memutils.h"
#include "wire/buf.h"

typedef struct Written
{
	EoLifeVerb	verb;
	EoLifeWrite write;			/* its strings are copies */
} Written;

static void
put_write_of_life(const EoAnswer *answer, EoBuf *body)
{
	const EoStore *store = answer->store;
	const Written *w = answer->written;

	eo_life_item_put_write(store->layout, body, store->server->table, answer->pk,
						   w->verb, &w->write);
}

static EoStatus
read_life(const EoStore *store, EoJsonValue *json, void *item)
{
	(void) store;
	return eo_life_item_read(json, item);
}

static bool
shows_life(const void *item, const void *written)
{
	const Written *w = written;

	return eo_life_item_shows(item, w->verb, &w->write);
}

static const EoItemKind life_kind = {
	.item_size = sizeof(EoLifeItem),
	.written_size = sizeof(Written),
	.unreadable = "The item that says whether a database's life goes on cannot be read",
	.second_look = true,
	.put_write = put_write_of_life,
	.read = read_life,
	.shows = shows_life,
};

EoLifeItem *
eo_life_store_item(const EoAnswer *answer)
{
	Assert(answer->kind == &life_kind);
	return answer->item;
}

/* The partition key of a life's item; it always fits, because a prefix is short. */
static char *
make_pk(const EoStore *store, const char *prefix, const char *life)
{
	char		pk[EO_MAX_KEY_BYTES + 1];
	size_t		len;

	if (eo_life_item_make_pk(prefix, life, pk, &len) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key_prefix of server \"%s\" is too long", store->server->name),
				 errhint("Partition keys have at most %d bytes.", EO_MAX_KEY_BYTES)));
	return pstrdup(pk);
}

EoAnswer *
eo_life_store_prepare_write(EoStore *store, const char *prefix, EoLifeVerb verb,
							const EoLifeWrite *w)
{
	char	   *pk = make_pk(store, prefix, w->life);
	EoAnswer   *answer = eo_answer_create(&life_kind, store, pk, EO_UPDATE_ITEM);
	Written    *written = answer->written;
	EoLifeWrite *own = &written->write;
	const char **strings[] = {&own->life, &own->nonce, &own->ancestors, &own->home,
	&own->system_identifier, &own->by, &own->seen_by};

	written->verb = verb;
	*own = *w;
	for (size_t i = 0; i < lengthof(strings); i++)
	{
		if (*strings[i] != NULL)
			*strings[i] = MemoryContextStrdup(answer->context, *strings[i]);
	}
	pfree(pk);
	return answer;
}

EoAnswer *
eo_life_store_prepare_read(EoStore *store, const char *prefix, const char *life)
{
	char	   *pk = make_pk(store, prefix, life);
	EoAnswer   *answer = eo_answer_create_read(&life_kind, store, pk);

	pfree(pk);
	return answer;
}
