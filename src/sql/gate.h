/*-------------------------------------------------------------------------
 *
 * gate.h
 *	  When a function may be called at all, and what its arguments must be.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_GATE_H
#define EO_SQL_GATE_H

#include "postgres.h"

#include "fmgr.h"
#include "server/options.h"
#include "utils/timestamp.h"

/* Set by _PG_init: the library was loaded by the postmaster. */
extern bool eo_gate_preloaded;

typedef enum EoAccess
{
	EO_READS,					/* allowed on a hot standby and READ ONLY */
	EO_WRITES
} EoAccess;

/*
 * Raise unless the function (name without parentheses) may run here and now.
 */
extern void eo_gate(const char *function, EoAccess access);

/*
 * Raise unless this database's worker is at work: what depends on it is not
 * begun without it.  Waits for one that is starting.
 */
extern void eo_gate_worker(void);

/* Argument n as a palloc'd string; NULL for SQL NULL. */
extern char *eo_arg_text(FunctionCallInfo fcinfo, int n);

/*
 * The key in argument n: 22004 for NULL, 22023 for an empty one.
 */
extern char *eo_arg_key(FunctionCallInfo fcinfo, int n);
extern char *eo_check_key(char *key);

/*
 * An interval argument in milliseconds, -1 for SQL NULL; 22023 with the
 * argument's name outside the bounds.
 */
extern int64 eo_arg_interval_ms(FunctionCallInfo fcinfo, int n, const char *name,
								int64 min_ms, int64 max_ms);

extern int64 eo_interval_ms(const Interval *span, const char *name, int64 min_ms, int64 max_ms);

/* Text as DynamoDB holds it, UTF-8, and back; raise if that cannot be. */
extern char *eo_to_utf8(const char *s);
extern char *eo_from_utf8(const char *s);

/*
 * Back, come what may: what this encoding does not have is spelled \uXXXX, as in
 * JSON, and *exact is false.
 */
extern char *eo_from_utf8_or_escape(const char *s, bool *exact);

/* Epoch milliseconds as a timestamptz datum. */
extern TimestampTz eo_timestamp_of_ms(int64 ms);

#endif							/* EO_SQL_GATE_H */
