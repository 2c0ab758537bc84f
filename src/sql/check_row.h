/*-------------------------------------------------------------------------
 *
 * check_row.h
 *	  A row of idem_check().
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

/* Texts are palloc'd or constant; advice may be NULL. */
typedef struct EoCheckRow
{
	const char *check;
	EoFinding	finding;
	const char *detail;
	const char *advice;
} EoCheckRow;

static inline void
eo_check_row_set(EoCheckRow *row, EoFinding finding, const char *detail, const char *advice)
{
	row->finding = finding;
	row->detail = detail;
	row->advice = advice;
}

#endif							/* EO_SQL_CHECK_ROW_H */
