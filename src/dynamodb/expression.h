/*-------------------------------------------------------------------------
 *
 * expression.h
 *	  The body of a conditional UpdateItem, from expressions in shorthand.
 *
 * An expression is written with one-letter placeholders, "#s" for an attribute
 * (lower case) and ":o" for a value.  Whoever owns a kind of item says what the
 * letters stand for.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_EXPRESSION_H
#define EO_DYNAMODB_EXPRESSION_H

#include "dynamodb/buf.h"

#define EO_MAX_LETTERS 32

/* What a letter stands for; a list of them ends with the letter 0. */
typedef struct EoAttributeName
{
	char		letter;
	const char *name;
} EoAttributeName;

/* The part of a body between key and values; zeroed, it is not made yet. */
typedef struct EoExpression
{
	EoBuf		text;
	char		values[EO_MAX_LETTERS]; /* their letters, in order, as a
										 * string */
} EoExpression;

/*
 * Make it of a condition and an update.  False: no memory, or longer than any of
 * ours is.
 */
extern bool eo_expression_make(EoExpression *e, const EoAttributeName *names,
							   const char *condition, const char *update);

/* Append the attribute value of a letter; false: there is no such letter. */
typedef bool (*EoPutValue) (EoBuf *body, char letter, const void *arg);

/*
 * Append the UpdateItem.  returns is ",\"ReturnValues\":..." or "".  A letter
 * without a value makes the body EO_INVALID.
 */
extern void eo_expression_put_update(const EoExpression *e, EoBuf *body, const char *table,
									 const char *key_name, const char *pk, const char *returns,
									 EoPutValue put_value, const void *arg);

/* Append a consistent GetItem. */
extern void eo_expression_put_read(EoBuf *body, const char *table, const char *key_name,
								   const char *pk);

/* Append an attribute value: {"S": ...}, {"N": ...}. */
extern void eo_expression_put_s(EoBuf *body, const char *s, size_t len);
extern void eo_expression_put_string(EoBuf *body, const char *s);
extern void eo_expression_put_n(EoBuf *body, int64_t n);

#endif							/* EO_DYNAMODB_EXPRESSION_H */
