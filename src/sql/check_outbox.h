/*-------------------------------------------------------------------------
 *
 * check_outbox.h
 *	  What a row of idem_check() is, and the rows about completions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CHECK_OUTBOX_H
#define EO_SQL_CHECK_OUTBOX_H

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

/* Fill the row.  The first one counts, for the others, too. */
extern void eo_check_outbox_pending(EoCheckRow *row);
extern void eo_check_outbox_orphans(EoCheckRow *row);
extern void eo_check_outbox_given_up(EoCheckRow *row);

/* How many completions are pending. */
extern int	eo_check_outbox_pending_rows(void);

#endif							/* EO_SQL_CHECK_OUTBOX_H */
