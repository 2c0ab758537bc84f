/*-------------------------------------------------------------------------
 *
 * check_lives.h
 *	  The rows of idem_check() about lives, and about where the data comes from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_CHECK_LIVES_H
#define EO_SQL_CHECK_LIVES_H

#include "postgres.h"

#include "sql/check_row.h"

/*
 * Lives that wait for an operator or are barred in a tenant's table, or that another server
 * extends: then this is a copy.
 */
extern void eo_check_lives(EoCheckRow *row);

/* Lives whose records nobody settles until an operator decides. */
extern int	eo_check_lives_waiting(void);

/*
 * The table can be used, and has so many items.  A database that was restored from a dump has
 * no life yet, and a table that others have filled.
 */
extern void eo_check_lives_first_use(EoCheckRow *row, int64 items);

#endif							/* EO_SQL_CHECK_LIVES_H */
