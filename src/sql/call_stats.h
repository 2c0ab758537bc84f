/*-------------------------------------------------------------------------
 *
 * call_stats.h
 *	  Calls of SQL functions are counted and timed, for exactonce_stats.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CALL_STATS_H
#define EO_SQL_CALL_STATS_H

#include "postgres.h"

#include "actions/action.h"
#include "compat.h"
#include "fmgr.h"
#include "keys/acquire.h"
#include "server/stats.h"
#include "server/store.h"

/*
 * Define the SQL function name, which runs name##_body and counts how that ends.  The
 * definition of the body follows.
 */
#define EO_COUNTED(name, function) \
	PG_FUNCTION_INFO_V1(name); \
	static Datum name##_body(PG_FUNCTION_ARGS); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		return eo_call_stats_run(fcinfo, function, name##_body); \
	} \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS)

/* For EO_COUNTED(). */
extern Datum eo_call_stats_run(FunctionCallInfo fcinfo, EoFunction function, PGFunction body);

/*
 * The call that goes on is one of this server.  Until this is said the call does not count:
 * its arguments were refused, or its answer was known.
 */
extern void eo_call_stats_store(const EoStore *store);

/*
 * The call's outcome; without one it counts as "returned".  A call that asks about many
 * keys or actions says it for each of them, and each counts.
 */
extern void eo_call_stats_claim(const EoClaim *claim);
extern void eo_call_stats_action(EoActionOutcome outcome);

/*
 * Show the call in exactonce_progress until it ends; total -1: it is not known how much
 * there is to be done.
 */
extern void eo_call_stats_progress(const EoStore *store, int64 total);

extern const char *eo_call_stats_function_name(EoFunction function);

/* The call did its work n times. */
extern void eo_call_stats_times(int n);

#endif							/* EO_SQL_CALL_STATS_H */
