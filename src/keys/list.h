/*-------------------------------------------------------------------------
 *
 * list.h
 *	  Listing the keys of a table, for operators.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_LIST_H
#define EO_KEYS_LIST_H

#include "postgres.h"

#include "records/record.h"
#include "server/store.h"

/* Which records are listed. */
typedef enum EoListed
{
	EO_LIST_ALL,
	EO_LIST_IN_PROGRESS,
	EO_LIST_COMMITTING,
	EO_LIST_COMPLETED,
	EO_LIST_FAILED,
	EO_LIST_STUCK,				/* in progress, and the lease is dead */
	EO_LIST_PARKED				/* failed for good */
} EoListed;

typedef struct EoList
{
	EoListed	which;
	const char *prefix;			/* of the key; "": all */
	int64		older_than_ms;	/* since the latest change; 0: any */
	int			units_per_second;
	bool		results;		/* the records come with their results */
} EoList;

/*
 * Scan the server's table and emit the records that match, in no order, with their keys
 * without the server's prefix.  A finished record that counts as absent is left out.  The
 * strings are freed when emit() returns.  Raises ID006 and ID007 for a request that failed,
 * and interrupts.
 */
extern void eo_list_keys(EoStore *store, const EoList *ask,
						 void (*emit) (const char *key, const EoRecord *r, void *arg), void *arg);

#endif							/* EO_KEYS_LIST_H */
