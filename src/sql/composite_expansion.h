/*-------------------------------------------------------------------------
 *
 * composite_expansion.h
 *	  One answer for all columns of "(f('x')).*".
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_COMPOSITE_EXPANSION_H
#define EO_SQL_COMPOSITE_EXPANSION_H

#include "postgres.h"

#include "fmgr.h"

/*
 * PostgreSQL expands "(f('x')).*" to one call of f for each column.  The function
 * must act once and give all of these calls the same row.
 *
 * eo_composite_expansion_find() is called first.  It returns true in the second and later
 * calls of the expansion, with the result that the first one handed to
 * eo_composite_expansion_keep(), which returns that result.  key and server are the numbers
 * of the two text arguments by which calls are recognised as the same; arguments
 * that may be volatile are not compared.  With a null key nothing is kept or found.
 */
extern bool eo_composite_expansion_find(FunctionCallInfo fcinfo, int key, int server,
										Datum *result);
extern Datum eo_composite_expansion_keep(FunctionCallInfo fcinfo, int key, int server,
										 Datum result);

#endif							/* EO_SQL_COMPOSITE_EXPANSION_H */
