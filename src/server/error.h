/*-------------------------------------------------------------------------
 *
 * error.h
 *	  The one bridge from EoError to ereport(), and the SQLSTATEs of class ID.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_ERROR_H
#define EO_SERVER_ERROR_H

#include "postgres.h"

#include "compat.h"
#include "dynamodb/status.h"

#define ERRCODE_EO_IN_PROGRESS		MAKE_SQLSTATE('I','D','0','0','1')
#define ERRCODE_EO_CLAIM_LOST		MAKE_SQLSTATE('I','D','0','0','2')
#define ERRCODE_EO_PAYLOAD_MISMATCH MAKE_SQLSTATE('I','D','0','0','3')
#define ERRCODE_EO_FAILED			MAKE_SQLSTATE('I','D','0','0','4')
#define ERRCODE_EO_DUPLICATE		MAKE_SQLSTATE('I','D','0','0','5')
#define ERRCODE_EO_UNAVAILABLE		MAKE_SQLSTATE('I','D','0','0','6')
#define ERRCODE_EO_REFUSED			MAKE_SQLSTATE('I','D','0','0','7')
#define ERRCODE_EO_NOT_OWNER		MAKE_SQLSTATE('I','D','0','0','8')
#define ERRCODE_EO_UNSETTLED		MAKE_SQLSTATE('I','D','0','0','9')

/*
 * Raise what a call to the store ended with.  key may be NULL (a call about
 * the table).  Names key and server, gives the service's code, text and
 * request id in the detail, and advice in the hint; no secret is in any of it.
 */
pg_noreturn extern void eo_error_raise(const EoError *error, const char *doing, const char *key,
									   const char *server);

/* The same of an action; unknown: what to do if the outcome is. */
pg_noreturn extern void eo_error_raise_action(const EoError *error, const char *doing, const char *id,
											  const char *server, const char *unknown);

/* A trigger that keeps a table's rows unique. */
typedef struct EoGuard
{
	const char *schema;
	const char *table;
	const char *name;			/* of the trigger */
} EoGuard;

/*
 * A key that is to be claimed once is claimed or completed already: ID005, or
 * for a guard 23505 with its table and name, as of a unique index.
 */
pg_noreturn extern void eo_error_raise_duplicate(const EoGuard *guard, const char *key,
												 const char *server, const char *detail);

/* The facts of an EoError in one line, for logs, views and details. */
extern char *eo_error_facts(const EoError *error);

/* A hint for this error; NULL if there is nothing sensible to say. */
extern const char *eo_error_hint(const EoError *error);

#endif							/* EO_SERVER_ERROR_H */
