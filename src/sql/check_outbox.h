/*-------------------------------------------------------------------------
 *
 * check_outbox.h
 *	  The rows of idem_check() about completions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CHECK_OUTBOX_H
#define EO_SQL_CHECK_OUTBOX_H

#include "postgres.h"

#include "sql/check_row.h"

/* Fill the row.  The first one counts, for the others, too. */
extern void eo_check_outbox_pending(EoCheckRow *row);
extern void eo_check_outbox_orphans(EoCheckRow *row);
extern void eo_check_outbox_given_up(EoCheckRow *row);

/* How many completions are pending. */
extern int	eo_check_outbox_pending_rows(void);

#endif							/* EO_SQL_CHECK_OUTBOX_H */
