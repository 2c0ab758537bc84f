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
#include "records/record.h"
#include "wire/status.h"

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
 * Call run() in a subtransaction, with the memory context of the caller.  Returns NULL; or, if
 * it has raised an error and what it did was rolled back, a copy of that error.
 */
extern ErrorData *eo_error_try(void (*run) (void *arg), void *arg);

/*
 * In PG_CATCH() of a worker: log the current error, and end the transaction with it.  context is
 * the one of before.
 */
extern void eo_error_log_and_abort(MemoryContext context);

/*
 * Raise the error that a call to the store ended with.  key may be NULL (a call
 * about the table).  The message names key and server; the service's code, text
 * and request id are in the detail, advice is in the hint, no secret is in any.
 */
pg_noreturn extern void eo_error_raise(const EoError *error, const char *doing, const char *key,
									   const char *server);

/*
 * The same about a commit of nkeys keys, which had timeout_ms together.  The error itself
 * rolls the transaction back, and says so.
 */
pg_noreturn extern void eo_error_raise_commit(const EoError *error, const char *key,
											  const char *server, int nkeys, int timeout_ms);

/* The same about a life of a database. */
pg_noreturn extern void eo_error_raise_life(const EoError *error, const char *doing,
											const char *life, const char *server);

/*
 * The same about an action.  unknown is the hint if the outcome is EO_UNKNOWN;
 * NULL: the usual hint.
 */
pg_noreturn extern void eo_error_raise_action(const EoError *error, const char *doing,
											  const char *id,
											  const char *server, const char *unknown);

/* ID001: another run holds the key.  detail may be NULL. */
pg_noreturn extern void eo_error_raise_in_progress(const char *key, const char *server,
												   const char *detail, const char *hint);

/* ID001: a transaction that completes the key is committing. */
pg_noreturn extern void eo_error_raise_committing(const char *key, const char *server,
												  const char *detail, const char *hint);

/* ID002: the caller's claim is gone.  at_commit: it was the seal that found out. */
pg_noreturn extern void eo_error_raise_lost(const char *key, const char *server, bool at_commit,
											const char *detail, const char *hint);

/* ID003: the key was used with another payload.  state says what has become of it. */
pg_noreturn extern void eo_error_raise_other_payload(const char *key, const char *server,
													 const char *state);

/* ID003: the same for another handler than that of this call; both in UTF-8. */
pg_noreturn extern void eo_error_raise_other_handler(const char *key, const char *server,
													 const char *handler, const char *called,
													 const char *state);

/*
 * ID007: an attribute of the record has a value that cannot be read, such as binary
 * data in the place of a result.  what: "result", "error", "payload_sha256" or "handler".
 */
pg_noreturn extern void eo_error_raise_odd(const char *doing, const char *key, const char *server,
										   const char *what);

/* ID007: the attribute of this name is there, and is not a number that can be used. */
pg_noreturn extern void eo_error_raise_odd_number(const char *doing, const char *key,
												  const char *server, const char *name);

/* ID008: the caller's claim has completed the key before, with another result. */
pg_noreturn extern void eo_error_raise_other_result(const char *key, const char *server);

/*
 * A transaction is repeated with the token of one that has completed the key: ID005,
 * or ID008 if the result is another one.
 */
pg_noreturn extern void eo_error_raise_repeated(const char *key, const char *server,
												bool same_result);

/* 55000: an operator has barred new claims of this database. */
pg_noreturn extern void eo_error_raise_drained(const char *key, const char *server);

/* Detail of a lost claim: what is there instead (NULL: no record), palloc'd. */
extern char *eo_error_lost_detail(const EoRecord *record);

/* A trigger that keeps the rows of a table unique. */
typedef struct EoGuard
{
	const char *schema;
	const char *table;
	const char *name;			/* of the trigger */
} EoGuard;

/*
 * ID005: a key that is to be claimed once is claimed or completed already.  For
 * a guard: 23505 with its table and name, as a unique index raises it.  hint: NULL is the usual
 * one.
 */
pg_noreturn extern void eo_error_raise_duplicate(const EoGuard *guard, const char *key,
												 const char *server, const char *detail,
												 const char *hint);

/* ID005: a transaction was to consume an action at commit.  hint: NULL is the usual one. */
pg_noreturn extern void eo_error_raise_action_consumed(const char *id, const char *server,
													   const char *detail, const char *hint);

/* ID001: the same, and another transaction may consume it.  detail may be NULL. */
pg_noreturn extern void eo_error_raise_action_in_progress(const char *id, const char *server,
														  const char *detail, const char *hint);

/* The facts of an EoError in one line, for logs, views and details; palloc'd. */
extern char *eo_error_facts(const EoError *error);

/* The same without what differs from one request to the next, and never empty. */
extern char *eo_error_reason(const EoError *error);

/* The advice for somebody who looks after the server, and has not called; NULL: none. */
extern const char *eo_error_advice(const EoError *error);

#endif							/* EO_SERVER_ERROR_H */
