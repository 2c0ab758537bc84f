/*-------------------------------------------------------------------------
 *
 * worker_rows.h
 *	  Of a worker: finishing the rows of the outbox.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_ROWS_H
#define EO_COMMIT_WORKER_ROWS_H

#include "postgres.h"

#include "commit/outbox.h"

/* outbox: the table's OID. */
extern void eo_worker_rows_init(MemoryContext context, Oid outbox);

/*
 * Look through the outbox if there is a reason to, and make jobs of committed
 * rows.  Begins a transaction.  Returns false if the table is not the one that was
 * given to init: then the worker must leave.
 */
extern bool eo_worker_rows_fetch(void);

/* Make a job of a row that a commit has left word of, if there is room. */
extern void eo_worker_rows_take(const EoOutboxRow *row);

/* There may be rows of which there was no word. */
extern void eo_worker_rows_want_look(void);

/* Remove the rows whose records say COMPLETED.  Begins a transaction if there are any. */
extern void eo_worker_rows_remove(void);

/* When the outbox is to be looked through next. */
extern int64 eo_worker_rows_due_us(void);

/* Are there rows that have a job, or had one in vain? */
extern bool eo_worker_rows_any(void);

#endif							/* EO_COMMIT_WORKER_ROWS_H */
