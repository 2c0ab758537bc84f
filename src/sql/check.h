/*-------------------------------------------------------------------------
 *
 * check.h
 *	  The rows of idem_check().
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CHECK_H
#define EO_SQL_CHECK_H

#include "postgres.h"

#include "server/store.h"
#include "sql/check_row.h"

#define EO_CHECK_ROWS 25

/*
 * Check this server and the table, and fill all rows, in the order in which they
 * are shown.  Without a store (NULL) only the checks of this server are made.  Raises
 * for interrupts and for a lack of memory, never for anything that it checks.
 */
extern void eo_check(EoStore *store, EoCheckRow rows[EO_CHECK_ROWS]);

#endif							/* EO_SQL_CHECK_H */
