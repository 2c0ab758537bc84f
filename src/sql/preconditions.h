/*-------------------------------------------------------------------------
 *
 * preconditions.h
 *	  Whether an SQL function may run at all, here and now.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_PRECONDITIONS_H
#define EO_SQL_PRECONDITIONS_H

#include "postgres.h"

/* The library was loaded by the postmaster; set by _PG_init(). */
extern bool eo_preconditions_preloaded;

/* The kinds of access, as bits. */
typedef enum EoAccess
{
	EO_READS = 0,				/* allowed on a hot standby and READ ONLY */
	EO_WRITES = 1,				/* refused there, and while the transaction
								 * commits */
	EO_SWITCHED = 2				/* claims a key, completes one at once, or
								 * touches an action: refused while
								 * exactonce.enabled is off */
} EoAccess;

/*
 * Called by every SQL function that meets DynamoDB or shared memory, before it
 * does.  Raises unless the function may run in this process, transaction and
 * security context, if it is switched off (ID006), and, if it writes, if a claim of
 * this transaction was found lost (ID002).  function is its name without parentheses,
 * access an EoAccess or several.
 */
extern void eo_preconditions(const char *function, int access);

/*
 * Raises 55000 unless this database's worker is running.  To be called before
 * anything that the worker would have to finish or to give back.  Waits,
 * interruptibly, for a worker that is starting.
 */
extern void eo_preconditions_worker(void);

#endif							/* EO_SQL_PRECONDITIONS_H */
