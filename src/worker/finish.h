/*-------------------------------------------------------------------------
 *
 * finish.h
 *	  Jobs of a worker: finish the rows of the outbox.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_FINISH_H
#define EO_WORKER_FINISH_H

#include "postgres.h"

#include "ledger/outbox.h"

/* To be called once.  A first scan becomes due. */
extern void eo_finish_init(void);

/* This is the outbox: the OID of its table. */
extern void eo_finish_enter(Oid outbox);

/*
 * Scan the outbox if a scan is due, and add jobs for committed rows.  Runs a
 * transaction of its own.  Returns false if the outbox is not the one that
 * eo_finish_enter() was given: then the worker must leave.
 */
extern bool eo_finish_fetch(void);

/*
 * Add a job for a row that is known to have committed, without a scan.  If there is
 * no room, a later scan finds the row.
 */
extern void eo_finish_take(const EoOutboxRow *row);

/*
 * The same for a row with writes.  The rows that were noted are read, and get their jobs,
 * when the second function is called; it runs a transaction of its own if there are any.
 */
extern void eo_finish_note_written(const EoOutboxRow *row);
extern void eo_finish_take_written(void);

/* Have the outbox scanned: there may be rows that nothing else has told of. */
extern void eo_finish_want_scan(void);

/*
 * Delete the rows whose records are COMPLETED, and end their jobs.  Runs a
 * transaction of its own if there are any.
 */
extern void eo_finish_remove(void);

/* When the next scan is due. */
extern int64 eo_finish_due_us(void);

/* Are there rows that have a job, or whose job was refused? */
extern bool eo_finish_any(void);

#endif							/* EO_WORKER_FINISH_H */
