/*-------------------------------------------------------------------------
 *
 * write_expressions.h
 *	  The expressions of a caller's write: what DynamoDB refuses in them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_WRITE_EXPRESSIONS_H
#define EO_KEYS_WRITE_EXPRESSIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* A member of ExpressionAttributeNames or ExpressionAttributeValues. */
typedef struct EoPlaceholder
{
	char	   *name;			/* with its "#" or ":" */
	const char *stands_for;		/* an attribute's name; of a value its type,
								 * "S" */
	bool		used;			/* write_expressions.c sets it */
} EoPlaceholder;

typedef struct EoWriteExpressions
{
	const char *update;			/* NULL: there is none */
	const char *condition;		/* NULL: there is none */
	List	   *placeholders;	/* of EoPlaceholder */
	List	   *keys;			/* of char *: the attributes in Key */
} EoWriteExpressions;

/*
 * Why DynamoDB certainly refuses the expressions, whatever the item is: a sentence, palloc'd.
 * NULL: nothing was found.
 */
extern const char *eo_write_expressions_check(EoWriteExpressions *e);

#endif							/* EO_KEYS_WRITE_EXPRESSIONS_H */
