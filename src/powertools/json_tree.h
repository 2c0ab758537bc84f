/*-------------------------------------------------------------------------
 *
 * json_tree.h
 *	  A value of type json as a tree, with everything that its text says.
 *
 * jsonb cannot stand for it: it loses the order of members and the spelling of
 * numbers, and it has no \u0000 and no unpaired surrogates.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_POWERTOOLS_JSON_TREE_H
#define EO_POWERTOOLS_JSON_TREE_H

#include "postgres.h"

typedef enum EoJsonKind
{
	EO_JSON_LITERAL,			/* null, true or false */
	EO_JSON_NUMBER,
	EO_JSON_STRING,
	EO_JSON_ARRAY,
	EO_JSON_OBJECT
} EoJsonKind;

struct EoJsonMember;

typedef struct EoJsonNode
{
	EoJsonKind	kind;

	/*
	 * The text of a number or literal as it was written, or of a string
	 * without its escapes.  A string is UTF-8, in which an unpaired surrogate
	 * is encoded as if it were a character, and it may have zero bytes.  A
	 * zero byte that is not counted follows.
	 */
	const char *text;
	size_t		len;

	/*
	 * Of an array or object.  Of members with the same name the last counts,
	 * in the place of the first.
	 */
	struct EoJsonMember *members;
	size_t		n;
} EoJsonNode;

typedef struct EoJsonMember
{
	EoJsonNode	name;			/* a string; unused in an array */
	EoJsonNode	value;
} EoJsonMember;

/*
 * Parse len bytes of UTF-8, of which the tree, palloc'd, borrows parts.  Raises 22P02
 * if they are not JSON, which cannot happen for what has the type json, and
 * 54001 if they are nested too deeply.
 */
extern EoJsonNode *eo_json_tree_parse(char *text, size_t len);

/* Compare strings by code points: negative, 0 or positive. */
extern int	eo_json_tree_compare(const EoJsonNode *a, const EoJsonNode *b);

#endif							/* EO_POWERTOOLS_JSON_TREE_H */
