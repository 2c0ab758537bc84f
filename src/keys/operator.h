/*-------------------------------------------------------------------------
 *
 * operator.h
 *	  What others than the owner do with a key: look at it, list it, redrive it, resolve it.
 *
 * All functions wait interruptibly, and raise ID006 and ID007 for a call that
 * failed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_OPERATOR_H
#define EO_KEYS_OPERATOR_H

#include "postgres.h"

#include "keys/key.h"
#include "records/record.h"
#include "server/store.h"

/*
 * Read a key as the current transaction sees it: what it has completed, failed or
 * released itself is shown as that.  Returns false if there is no live record.
 * result and error are palloc'd; the other strings of *record are NULL.
 */
extern bool eo_operator_get(EoStore *store, const char *key, EoRecord *record);

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
extern void eo_operator_list(EoStore *store, const EoList *ask,
							 void (*emit) (const char *key, const EoRecord *r, void *arg),
							 void *arg);

/*
 * Make a key claimable again, with no runs counted.  Takes effect at once, but for the removal
 * of a row that was given up.  Returns false if there is neither a record nor such a row.
 * Raises ID001 if the record is COMMITTING, or if a completion of the key is pending and not
 * confirmed within two seconds; then nothing has changed.
 */
extern bool eo_operator_forget(EoStore *store, const char *key);

/*
 * Settle the record of a key, or a sealed action, that is COMMITTING as completed, or else as
 * failed, at once, where PostgreSQL cannot tell how its transaction ended.  If another
 * database has sealed the record, origin must be its identity; NULL: none is named.  If the
 * record is not COMMITTING, the doubt about it is forgotten, and if completed is true also a
 * row of the outbox that can never be finished.  Returns true if the record was
 * settled or a row was given up.  Raises 55006 if the transaction is going on, and
 * 55000 if it is known to have ended otherwise or if origin is another database.
 */
extern bool eo_operator_resolve(EoKey *k, bool completed, const char *origin);

#endif							/* EO_KEYS_OPERATOR_H */
