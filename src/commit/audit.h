/*-------------------------------------------------------------------------
 *
 * audit.h
 *	  Do the records of a table match the work in this data?
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_AUDIT_H
#define EO_COMMIT_AUDIT_H

#include "postgres.h"

#include "records/origin.h"
#include "server/store.h"
#include "utils/uuid.h"

/* The ways in which a record, or a row of the outbox, does not match. */
typedef enum EoAuditFinding
{
	EO_FOUND_LOST,				/* COMPLETED; the transaction is not committed
								 * in this data, which has taken over from its
								 * life */
	EO_FOUND_CLOSED,			/* the same; the life was closed, and its data
								 * may go on under another */
	EO_FOUND_ELSEWHERE,			/* the same; the life goes on, or has another
								 * heir */
	EO_FOUND_WAITING,			/* COMMITTING, under such a life */
	EO_FOUND_PREPARED,			/* COMPLETED; the transaction is prepared in
								 * this data */
	EO_FOUND_UNKNOWN,			/* COMPLETED; the commit log does not tell */
	EO_FOUND_DOUBT,				/* COMMITTING, and nothing here tells how the
								 * transaction ended */
	EO_FOUND_NO_RECORD,			/* a row of the outbox without a record */
	EO_FOUND_TWICE,				/* a row whose record another claim or another
								 * heir has settled */
	EO_FOUND_UNJUDGED,			/* COMPLETED, under lives of which nothing is
								 * known any more */
	EO_FOUND_EARLIER,			/* under lives of the database that this data
								 * comes from */
	EO_FOUND_UNREADABLE			/* too long, or not to be understood */
} EoAuditFinding;

typedef struct EoAuditRow
{
	EoAuditFinding finding;
	const char *key;			/* UTF-8, without key_prefix, or of an action;
								 * NULL of the last three findings */
	const char *status;			/* of the record; NULL: there is none */
	const EoOrigin *origin;		/* NULL: none is known.  xid may be 0 */
	int64		updated_ms;		/* of the record; 0: not known */
	const pg_uuid_t *pending;	/* the row of exactonce_pending; NULL: none */
	int64		records;		/* of the last three findings */
} EoAuditRow;

/*
 * Compare all records under the store's key_prefix, and all rows of its table or made by its
 * server, and call
 * report() for what does not match.  Changes nothing.  Reads at most so many capacity
 * units a second, and waits in between, interruptibly.  Raises ID006 and ID007.
 */
extern void eo_audit(EoStore *store, int units_per_second,
					 void (*report) (const EoAuditRow *row, void *arg), void *arg);

#endif							/* EO_COMMIT_AUDIT_H */
