/*-------------------------------------------------------------------------
 *
 * check_lives.h
 *	  The row of idem_check() about lives.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CHECK_LIVES_H
#define EO_SQL_CHECK_LIVES_H

#include "sql/check_outbox.h"

extern void eo_check_lives(EoCheckRow *row);

/* How many lives are there whose records nobody settles until an operator decides? */
extern int	eo_check_lives_waiting(void);

#endif							/* EO_SQL_CHECK_LIVES_H */
