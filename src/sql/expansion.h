/*-------------------------------------------------------------------------
 *
 * expansion.h
 *	  The one call that several are meant to be.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_EXPANSION_H
#define EO_SQL_EXPANSION_H

#include "postgres.h"

#include "fmgr.h"

/*
 * PostgreSQL makes "(f('x')).*" one call for each column, which are all meant to
 * be one.  find() returns true in the second and later ones, with the result
 * that the first has given to keep(), which returns it.  The key and the server
 * make out what is asked for, by the numbers of their arguments; others may be
 * volatile.  With a null key nothing is found and nothing kept.
 */
extern bool eo_expansion_find(FunctionCallInfo fcinfo, int key, int server, Datum *result);
extern Datum eo_expansion_keep(FunctionCallInfo fcinfo, int key, int server, Datum result);

#endif							/* EO_SQL_EXPANSION_H */
