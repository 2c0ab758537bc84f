/*-------------------------------------------------------------------------
 *
 * args.h
 *	  Arguments of SQL functions: reading and checking them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_ARGS_H
#define EO_SQL_ARGS_H

#include "postgres.h"

#include "fmgr.h"
#include "server/store.h"
#include "utils/jsonb.h"

/*
 * Argument n of the call.  SQL NULL is accepted unless said otherwise.  What is
 * returned is palloc'd.  Errors name the argument and its bounds.
 */

/* NULL for SQL NULL. */
extern char *eo_arg_text(FunctionCallInfo fcinfo, int n);

/* false for SQL NULL. */
extern bool eo_arg_flag(FunctionCallInfo fcinfo, int n);

/*
 * The foreign server of that name, ready to be called as the current role; SQL
 * NULL means exactonce.server.  Raises what eo_store_open() raises.
 */
extern EoStore *eo_arg_store(FunctionCallInfo fcinfo, int n);

/* Raises 22004 for SQL NULL and 22023 for an empty key. */
extern char *eo_arg_key(FunctionCallInfo fcinfo, int n);

/* An interval in milliseconds, -1 for SQL NULL.  Raises 22023 outside the bounds. */
extern int64 eo_arg_interval_ms(FunctionCallInfo fcinfo, int n, const char *name,
								int64 min_ms, int64 max_ms);

/* Milliseconds; -1 for SQL NULL, the server's lease.  Raises 22023. */
extern int64 eo_arg_lease(FunctionCallInfo fcinfo, int n);

/* Seconds, rounded up; -1 for SQL NULL, the server's retention.  Raises 22023. */
extern int64 eo_arg_retention(FunctionCallInfo fcinfo, int n);

/*
 * Milliseconds; 0, also for SQL NULL, means not to wait.  Raises 22023, and 0A000
 * for a wait in a transaction above READ COMMITTED.
 */
extern int64 eo_arg_wait(FunctionCallInfo fcinfo, int n);

/* 0 for SQL NULL, no limit.  Raises 22023 below 1. */
extern int64 eo_arg_max_runs(FunctionCallInfo fcinfo, int n);

/*
 * The read capacity that a scan may use, in units a second; 500 for SQL NULL.  Raises
 * 22023.
 */
extern int	eo_arg_units(FunctionCallInfo fcinfo, int n);

/* One of nwords words, its index; 0 for SQL NULL.  Raises 22023. */
extern int	eo_arg_word(FunctionCallInfo fcinfo, int n, const char *name, const char *const *words,
						int nwords);

/* One of two words.  True for the second; SQL NULL means the first.  Raises 22023. */
extern bool eo_arg_choice(FunctionCallInfo fcinfo, int n, const char *name, const char *first,
						  const char *second);

/* An operator's word for it: true, the work was done; false, it was not.  NULL is an error. */
extern bool eo_arg_was_done(FunctionCallInfo fcinfo, int n);

/* A uuid as a record holds a token, in its canonical text; NULL for SQL NULL. */
extern char *eo_arg_token(FunctionCallInfo fcinfo, int n);

/* A jsonb as UTF-8 text; NULL for SQL NULL. */
extern char *eo_arg_json(FunctionCallInfo fcinfo, int n);

/* The same checks and conversions for values that are no argument by themselves. */

/* Returns the key.  Raises 22004 for NULL and 22023 for an empty key. */
extern char *eo_arg_check_key(char *key);

/* Seconds, rounded up, of an interval's text.  Raises 22023, and what interval_in() raises. */
extern int64 eo_arg_parse_retention(const char *text);

/* A jsonb as UTF-8 text, as a record holds it. */
extern char *eo_arg_jsonb_text(Jsonb *jb);

#endif							/* EO_SQL_ARGS_H */
