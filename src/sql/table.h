/*-------------------------------------------------------------------------
 *
 * table.h
 *	  The DynamoDB table itself: making it, and looking whether it will do.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_TABLE_H
#define EO_SQL_TABLE_H

#include "postgres.h"

#include "server/store.h"

/*
 * Make the table (on demand, TTL on the layout's attribute) and wait until it
 * can be used, interruptibly.  Returns whether it was made now; one that is
 * there already is left as it is, but for TTL, which is switched on if it is
 * off.  Raises if that table has another key.
 */
extern bool eo_table_create(EoStore *store);

typedef enum EoFinding
{
	EO_FINDING_OK,
	EO_FINDING_WARNING,
	EO_FINDING_FAILURE
} EoFinding;

/* One row of idem_check(); texts are palloc'd or constant, advice may be NULL. */
typedef struct EoCheckRow
{
	const char *check;
	EoFinding	finding;
	const char *detail;
	const char *advice;
} EoCheckRow;

#define EO_CHECK_ROWS 11

/* Fill EO_CHECK_ROWS rows.  Does not raise for anything that it checks. */
extern void eo_table_check(EoStore *store, EoCheckRow rows[EO_CHECK_ROWS]);

#endif							/* EO_SQL_TABLE_H */
