/*-------------------------------------------------------------------------
 *
 * args.h
 *	  Arguments and results that several SQL functions have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_ARGS_H
#define EO_SQL_ARGS_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

/* Argument n as a palloc'd string; NULL for SQL NULL. */
extern char *eo_arg_text(FunctionCallInfo fcinfo, int n);

/*
 * The key in argument n: 22004 for NULL, 22023 for an empty one.
 */
extern char *eo_arg_key(FunctionCallInfo fcinfo, int n);

extern char *eo_arg_check_key(char *key);

/*
 * An interval argument in milliseconds, -1 for SQL NULL; 22023 with the
 * argument's name outside the bounds.
 */
extern int64 eo_arg_interval_ms(FunctionCallInfo fcinfo, int n, const char *name,
								int64 min_ms, int64 max_ms);

extern int64 eo_arg_check_interval(const Interval *span, const char *name, int64 min_ms, int64 max_ms);

/* All of them raise 22023 outside their bounds. */
extern int64 eo_arg_lease(FunctionCallInfo fcinfo, int n);	/* ms; -1: the server's */
extern int64 eo_arg_retention(FunctionCallInfo fcinfo, int n);	/* s, rounded up; -1:
																 * the server's */

extern int64 eo_arg_parse_retention(const char *text);	/* s, of an interval's
														 * text */

/* ms, 0: none; 0A000 above READ COMMITTED. */
extern int64 eo_arg_wait(FunctionCallInfo fcinfo, int n);
extern int64 eo_arg_max_runs(FunctionCallInfo fcinfo, int n);	/* 0: no limit */

/* One of two words; NULL means the first.  True: the second. */
extern bool eo_arg_choice(FunctionCallInfo fcinfo, int n, const char *name, const char *first,
						  const char *second);

/* A token as DynamoDB holds it, the canonical text of the uuid; NULL for SQL NULL. */
extern char *eo_arg_token(FunctionCallInfo fcinfo, int n);

/* A jsonb argument as UTF-8 text; NULL for SQL NULL. */
extern char *eo_arg_json(FunctionCallInfo fcinfo, int n);
extern char *eo_arg_fingerprint(Jsonb *payload);

/* Between jsonb and the UTF-8 text of a record. */
extern char *eo_arg_jsonb_text(Jsonb *jb);

#endif							/* EO_SQL_ARGS_H */
