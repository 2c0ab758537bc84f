/*-------------------------------------------------------------------------
 *
 * check_tables.h
 *	  The row of idem_check() about the internal tables.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CHECK_TABLES_H
#define EO_SQL_CHECK_TABLES_H

#include "postgres.h"

#include "sql/check.h"

/* Fill the row.  Returns if the tables can be read: then no lock of them is waited for. */
extern bool eo_check_tables(EoCheckRow *row);

#endif							/* EO_SQL_CHECK_TABLES_H */
