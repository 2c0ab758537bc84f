/*-------------------------------------------------------------------------
 *
 * write_order.h
 *	  Rows of the outbox that have writes: their order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_WRITE_ORDER_H
#define EO_WORKER_WRITE_ORDER_H

#include "postgres.h"

#include "ledger/outbox.h"
#include "server/answer.h"
#include "server/store.h"
#include "worker/jobs.h"

/* There may be rows with writes: the next scan is to find out in which order they are. */
extern void eo_write_order_expect(void);

/* The same if a transaction was rolled back, and with it what is noted here. */
extern void eo_write_order_start_over(void);

/*
 * A slot tells of a row.  Returns false if rows before it may not be in order yet: then a scan
 * is needed, which is expected after that.
 */
extern bool eo_write_order_note(const EoOutboxRow *row);

/*
 * The rows that were noted, put in order one after the other.  *behind is the token of a row
 * that has to go before; NULL: there is none.  In a transaction.
 */
extern bool eo_write_order_any_noted(void);
extern bool eo_write_order_next_noted(EoOutboxRow *row, const char **behind);

/*
 * A scan of the outbox begins: if rows with writes are expected, put them in order.  In the
 * transaction of the scan.
 */
extern void eo_write_order_begin(void);

/*
 * May a row have a job: is it in order, the first of all its items, and is there memory for its
 * writes?
 */
extern bool eo_write_order_may_go(const EoOutboxRow *row);

/* Has the last scan met rows that it could not put in order, so that another one is needed? */
extern bool eo_write_order_again(void);

/*
 * Has it left out rows because the writes of all jobs have taken so much memory, or because too
 * many were in order, of which some are made now?
 */
extern bool eo_write_order_wait(void);

/*
 * The row of this token is removed.  After that the second function returns the rows that may
 * go now, one after the other; needs a transaction.
 */
extern void eo_write_order_finished(const char *token);
extern bool eo_write_order_next(EoOutboxRow *row);

/*
 * Read the writes of a row into its job, whose data it is.  If the row is not there any
 * more their text is NULL after this.
 */
extern void eo_write_order_load(EoWorkerJob *job);

/* Prepare the transaction that finishes the row of a job, and makes its writes. */
extern EoAnswer *eo_write_order_prepare(EoWorkerJob *job, EoStore *store, EoVerb verb,
										const EoWrite *w);

#endif							/* EO_WORKER_WRITE_ORDER_H */
