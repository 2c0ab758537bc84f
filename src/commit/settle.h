/*-------------------------------------------------------------------------
 *
 * settle.h
 *	  What is to be done about a claim whose transaction is over.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SETTLE_H
#define EO_COMMIT_SETTLE_H

#include "postgres.h"

#include "cluster/slots.h"
#include "dynamodb/record.h"
#include "server/answer.h"
#include "server/store.h"

/* ---- from the slot ---- */

typedef enum EoRest
{
	EO_REST_WRITE,				/* eo_settle_prepare(), and run that */
	EO_REST_ASK_OUTBOX,			/* if there is a row nothing, else write */
	EO_REST_FINISH,				/* committed: its row is to be finished */
	EO_REST_DOUBT				/* for an operator */
} EoRest;

/* database: the identity of this database. */
extern EoRest eo_settle_rest(const EoSlotView *view, const uint8 *database);

/* NULL: somebody else has seen to it meanwhile. */
extern EoAnswer *eo_settle_prepare(EoStore *store, const EoSlotView *view);

/*
 * A first write whose outcome is unknown may still arrive: look again once
 * its signature cannot be accepted any more.
 */
extern bool eo_settle_looks_again(const EoSlotView *view);

/*
 * In a backend that has met such a slot: do it now.  Raises if DynamoDB
 * cannot be reached; otherwise the key can be asked for again.
 */
extern void eo_settle_on_the_spot(EoStore *store, const char *key, const EoSlotView *view);

/* ---- from a record that is COMMITTING ---- */

typedef enum EoFate
{
	EO_FATE_ELSEWHERE,			/* of another database */
	EO_FATE_RUNNING,			/* its transaction is still going on */
	EO_FATE_COMMITTED,
	EO_FATE_ABORTED,
	EO_FATE_UNKNOWN
} EoFate;

/* retention_s is set with EO_FATE_COMMITTED. */
extern EoFate eo_settle_fate(const EoRecord *record, const uint8 *digest, int64 *retention_s);

/*
 * Read a record and tell its fate (EO_FATE_ELSEWHERE if it is not
 * COMMITTING).  Raises if DynamoDB does not answer.
 */
extern EoAnswer *eo_settle_read(EoStore *store, const char *key, const char *pk,
								const uint8 *digest, const char *doing, EoFate *fate, int64 *retention_s);

/* EO_FATE_ABORTED: give the record back, conditional on what was read. */
extern void eo_settle_aborted(EoStore *store, const char *key, const char *pk,
							  const EoRecord *record);

/*
 * Raise 40001 if the transaction that completed the record is not visible to
 * this transaction's snapshot.
 */
extern void eo_settle_check_visible(const EoRecord *record, const char *key, const char *server);

#endif							/* EO_COMMIT_SETTLE_H */
