/*-------------------------------------------------------------------------
 *
 * check_row.h
 *	  What a row of idem_check() is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CHECK_ROW_H
#define EO_SQL_CHECK_ROW_H

#include "postgres.h"

typedef enum EoFinding
{
	EO_FINDING_OK,
	EO_FINDING_WARNING,
	EO_FINDING_FAILURE,
	EO_FINDING_SKIPPED
} EoFinding;

/* One row.  Texts are palloc'd or constant; advice may be NULL. */
typedef struct EoCheckRow
{
	const char *check;
	EoFinding	finding;
	const char *detail;
	const char *advice;
} EoCheckRow;

#endif							/* EO_SQL_CHECK_ROW_H */
