/*-------------------------------------------------------------------------
 *
 * call.h
 *	  Running a handler for a key that was claimed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CALL_H
#define EO_SQL_CALL_H

#include "postgres.h"

#include "fmgr.h"
#include "keys/acquire.h"
#include "server/store.h"

/* A handler, and what it is called with. */
typedef struct EoHandler
{
	Oid			function;
	bool		has_payload;
	Datum		payload;		/* jsonb */
} EoHandler;

/*
 * Read the arguments handler, payload, lease, retention, wait and max_runs, which begin
 * at first, and server; returns the store.  Raises if one is bad, and unless the current
 * user may execute the handler, and it is a function of one jsonb that returns jsonb.
 */
extern EoStore *eo_call_read(FunctionCallInfo fcinfo, int first, int server, EoHandler *handler,
							 EoAcquire *ask);

/*
 * Run the handler and settle the key, which this statement has just claimed.  The result
 * is a jsonb.  If the handler raises, its error is recorded and raised again, unless
 * returns is true: then *isnull is.
 */
extern Datum eo_call_run(EoStore *store, const char *key, const EoHandler *handler, bool returns,
						 bool *isnull);

#endif							/* EO_SQL_CALL_H */
