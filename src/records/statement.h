/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  A conditional write as a statement of PartiQL, from the shorthand of expression.h.
 *
 * A BatchExecuteStatement carries up to EO_MAX_STATEMENTS statements.  Each of them is a
 * write of its own with an answer of its own.  A statement is spelled from the same
 * condition and update as the UpdateItem, so both are accepted for the same items, with
 * these exceptions, in which a statement is refused and the UpdateItem has to be asked:
 *
 * - PartiQL has no function if_not_exists.  A statement uses the attribute itself, and requires
 *	 that it exists.
 * - Where the UpdateItem asks what a set contains, or adds to it, there must be no set.
 * - UPDATE is refused if there is no item, and INSERT if there is one.
 *
 * So an accepted statement has done what the UpdateItem would have done, and a refused one
 * says nothing about the UpdateItem.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_STATEMENT_H
#define EO_RECORDS_STATEMENT_H

#include "records/expression.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

/* Amazon DynamoDB API Reference, "BatchExecuteStatement". */
#define EO_MAX_STATEMENTS 25

/* The finished parts of a statement.  Zeroed: not made yet. */
typedef struct EoStatement
{
	EoBuf		text;			/* what follows the table's name */
	char		values[96];		/* letters of its parameters, in order, see
								 * statement.c */
	bool		inserts;
	bool		impossible;		/* the write has no spelling in PartiQL */
} EoStatement;

/*
 * Make the UPDATE of a condition and an update; without a condition (NULL) the INSERT that
 * does what the update does where there is no item.  options and set are as in
 * eo_expression_make().  Returns EO_OK, also if the write has no spelling (then impossible is
 * set), EO_NO_MEMORY or EO_TOO_LARGE.
 */
extern EoStatus eo_statement_make(EoStatement *s, const EoAttributeName *names,
								  const EoItemKey *key, const char *options, unsigned int set,
								  const char *condition, const char *update) EO_MUST_CHECK;

/* Can the table be named in a statement? */
extern bool eo_statement_allows_table(const char *table);

/* Append the statement, an element of "Statements".  Values are as in expression.h. */
extern void eo_statement_put(const EoStatement *s, EoBuf *body, const char *table,
							 const EoItemKey *key, const char *pk, const EoValue *values,
							 const void *const *structs);

/* The answer to one statement. */
typedef struct EoStatementReply
{
	/*
	 * EO_OK, EO_CONDITION_FAILED (also: there is such an item already),
	 * EO_THROTTLED, EO_CONFLICT, EO_DENIED, EO_NO_TABLE, EO_REFUSED or
	 * EO_UNKNOWN.
	 */
	EoStatus	status;
	EoJsonValue *item;			/* as the statement left it, or as it was when
								 * it refused the statement; NULL: none */
	const char *table;			/* NULL: it does not say */
	const char *code;			/* of an error */
} EoStatementReply;

/*
 * Read the answers to n statements.  Returns false, and nothing is to be believed, if
 * the reply has not exactly n that can be read.
 */
extern bool eo_statement_read(EoJsonValue *root, EoStatementReply *replies, size_t n);

#endif							/* EO_RECORDS_STATEMENT_H */
