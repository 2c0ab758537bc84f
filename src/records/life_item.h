/*-------------------------------------------------------------------------
 *
 * life_item.h
 *	  How a life is spelled as an item.
 *
 * A life is the identity under which a database seals records, see
 * cluster/life.h.  It has an item in each table that it uses, which says whether the
 * life is going on and shows by its beat that somebody is behind it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_LIFE_ITEM_H
#define EO_RECORDS_LIFE_ITEM_H

#include <stdbool.h>

#include "records/layout.h"
#include "wire/buf.h"
#include "wire/hex.h"
#include "wire/json.h"
#include "wire/status.h"

/* The ancestors of a life that its item names, the newest first. */
#define EO_MAX_ANCESTORS 20

/* Longest text of them: UUIDs with a space between two. */
#define EO_ANCESTORS_LEN (EO_MAX_ANCESTORS * (EO_UUID_TEXT_LEN + 1) - 1)

/* A life of which nothing is left is remembered for so long: 35 days. */
#define EO_LIFE_TTL_S 3024000

typedef enum EoLifeState
{
	EO_LIFE_OPEN,
	EO_LIFE_CLOSED,				/* nothing of it was left to be done */
	EO_LIFE_RETIRED				/* another life has taken over from it */
} EoLifeState;

/* A life as read.  Strings are borrowed from the reply, and NULL if absent. */
typedef struct EoLifeItem
{
	EoLifeState state;
	int64_t		beat;			/* grows by one in five seconds */
	const char *nonce;			/* of the last write of its owner */
	const char *ancestors;
	const char *home;			/* the first table that it used */
	const char *retired_by;		/* UUID */
	bool		has_ttl;		/* of a retired life: nothing of it is left */
	int64_t		ttl_s;			/* epoch seconds; 0: none that can be read */
} EoLifeItem;

/* The conditional writes on a life. */
typedef enum EoLifeVerb
{
	EO_LIFE_CREATE,				/* there is no item: open */
	EO_LIFE_BEAT,				/* open, at the beat that was seen */
	EO_LIFE_CLOSE,				/* the same */
	EO_LIFE_RETIRE,				/* the same */
	EO_LIFE_SCANNED,			/* retired by the life that was seen: its
								 * leftovers are settled */
	EO_LIFE_INHERIT,			/* retired, by the life that was seen */
	EO_LIFE_RETIRE_ABSENT		/* there is no item: retired, so that a late
								 * EO_LIFE_CREATE is refused */
} EoLifeVerb;

/* The parameters of the verbs; each ignores the members that it does not need. */
typedef struct EoLifeWrite
{
	const char *life;			/* UUID */
	int64_t		seen_beat;
	int64_t		beat;			/* to be written */
	const char *nonce;
	const char *ancestors;
	const char *home;
	const char *system_identifier;
	int64_t		database;		/* OID */
	int64_t		timeline;
	const char *by;				/* UUID of the life that retires this one */
	const char *seen_by;		/* of the one that did before */
	int64_t		now_ms;
	int64_t		ttl_s;			/* of EO_LIFE_CLOSE and EO_LIFE_SCANNED; of
								 * EO_LIFE_RETIRE if nothing is left: else 0 */
} EoLifeWrite;

/* Like eo_record_key_make(), for the UUID of a life. */
extern EoStatus eo_life_item_make_pk(const char *prefix, const char *life, char *out,
									 size_t *len) EO_MUST_CHECK;
extern bool eo_life_item_is_pk(const char *pk);

/*
 * Append the body of an UpdateItem; makes the body fail (see buf.h) if the write lacks
 * a member that the verb needs.
 */
extern void eo_life_item_put_write(const EoLayout *layout, EoBuf *body, const char *table,
								   const char *pk, EoLifeVerb verb, const EoLifeWrite *w);

/* The attributes that say whether a life may be deleted, see eo_list_ended_names(). */
extern size_t eo_life_item_ended_names(const char **names);

/* Read an item; EO_INVALID if it is not a life. */
extern EoStatus eo_life_item_read(EoJsonValue *item, EoLifeItem *life) EO_MUST_CHECK;

/* Does the item show that this write was applied? */
extern bool eo_life_item_shows(const EoLifeItem *life, EoLifeVerb verb, const EoLifeWrite *w);

#endif							/* EO_RECORDS_LIFE_ITEM_H */
