/*-------------------------------------------------------------------------
 *
 * expression.h
 *	  The body of a conditional UpdateItem, from expressions in shorthand.
 *
 * Conditions and updates are written as DynamoDB's expressions with placeholders
 * of one letter, "#s" for an attribute and ":o" for a value, and with optional
 * parts: "[x?...]" is kept if option x is set, "[!x?...]" if it is not.  Each
 * kind of item (record.c, action_item.c) has tables that say what its letters
 * stand for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_EXPRESSION_H
#define EO_RECORDS_EXPRESSION_H

#include <stdbool.h>

#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

/* The attribute of a letter; a list of them ends with the letter 0. */
typedef struct EoAttributeName
{
	char		letter;
	const char *name;
} EoAttributeName;

/*
 * The key of a table's items.  With a sort key the text of an item's key, called pk
 * everywhere, is that of the sort key.  The partition key is the same text then, or
 * partition_value for all items.
 */
typedef struct EoItemKey
{
	const char *name;			/* of the partition key */
	const char *sort_name;		/* NULL: the table has none */
	const char *partition_value;	/* NULL: pk */
} EoItemKey;

typedef enum EoValueType
{
	EO_VALUE_NONE,				/* no such letter */
	EO_VALUE_STRING,			/* const char *: {"S": ...} */
	EO_VALUE_SIZED,				/* the same with a length of its own */
	EO_VALUE_SET,				/* const char *: a set of that one string */
	EO_VALUE_NUMBER,			/* int64_t: {"N": ...} */
	EO_VALUE_AS_READ,			/* EoJsonValue *: an attribute's value from a
								 * reply */
	EO_VALUE_INSTANT,			/* EoInstant, itself */
	EO_VALUE_JSON				/* const char * with a length: JSON as an
								 * attribute of DynamoDB's own types */
} EoValueType;

/*
 * The value of a letter: a member of one of the structs that are given to
 * eo_expression_put_update().  Tables of values are indexed by the letter.  ":0"
 * and ":1" stand for these numbers and need no entry.
 */
typedef struct EoValue
{
	EoValueType type;
	int			from;			/* index of the struct */
	size_t		offset;			/* of the member in it */
	size_t		length;			/* of EO_VALUE_SIZED and EO_VALUE_JSON: offset
								 * of a size_t */
} EoValue;

#define EO_VALUE_LETTERS 128

/* The finished part of a body between table and values.  Zeroed: not made yet. */
typedef struct EoExpression
{
	EoBuf		text;
	const char *steady;			/* set by the caller: letters of values that
								 * seldom differ between writes; NULL: none */
	size_t		nsteady;		/* so many come first */
	char		values[32];		/* letters of its values, in order, as a
								 * string */
} EoExpression;

/*
 * Make an expression of a condition and an update.  options has the letters of
 * the options, and bit i of set says that options[i] is set.  Returns EO_OK,
 * EO_NO_MEMORY, EO_TOO_LARGE or EO_INVALID (an error in the shorthand); unless it
 * is EO_OK the expression stays not made.
 */
extern EoStatus eo_expression_make(EoExpression *e, const EoAttributeName *names,
								   const char *options, unsigned int set,
								   const char *condition, const char *update) EO_MUST_CHECK;

/* Append a text of the shorthand without the optional parts that are not wanted. */
extern void eo_expression_expand(EoBuf *out, const char *text, const char *options,
								 unsigned int set);

/* The bits of the options that are set: bit i for set[i]. */
extern unsigned int eo_expression_options(const bool *set, size_t n);

/*
 * Append the UpdateItem.  returns is ",\"ReturnValues\":..." or "".  A letter
 * without a value, or whose string or value is NULL, makes the body EO_INVALID.
 */
extern void eo_expression_put_update(const EoExpression *e, EoBuf *body, const char *table,
									 const EoItemKey *key, const char *pk, const char *returns,
									 const EoValue *values, const void *const *structs);

/* Append a string as an attribute's value. */
extern void eo_expression_put_string(EoBuf *body, const char *s, size_t len);

/* Append the value of a letter, or the sum of two numbers. */
extern void eo_expression_put_value(EoBuf *body, char letter, const EoValue *values,
									const void *const *structs);
extern void eo_expression_put_sum(EoBuf *body, char a, char b, const EoValue *values,
								  const void *const *structs);

/* Append a consistent GetItem. */
extern void eo_expression_put_read(EoBuf *body, const char *table, const EoItemKey *key,
								   const char *pk);

/* Append a key: {"pk": {"S": ...}}. */
extern void eo_expression_put_key(EoBuf *body, const EoItemKey *key, const char *pk);

/* The text of the key in an item; NULL if the item has not such a key. */
extern const char *eo_expression_pk_of(const EoItemKey *key, EoJsonValue *item);

#endif							/* EO_RECORDS_EXPRESSION_H */
