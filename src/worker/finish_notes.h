/*-------------------------------------------------------------------------
 *
 * finish_notes.h
 *	  What a worker notes in rows of the outbox that it has failed to finish.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_FINISH_NOTES_H
#define EO_WORKER_FINISH_NOTES_H

#include "postgres.h"

#include "ledger/outbox.h"
#include "server/answer.h"

/* To be called once. */
extern void eo_finish_notes_init(void);

/*
 * A row cannot be finished now.  attempted: a request for it has failed; else nothing is sent
 * for it, and that is noted once.  item is the write that is refused, from 1, or 0.
 */
extern void eo_finish_note(const EoOutboxRow *row, EoOutboxTrouble trouble, bool attempted,
						   const char *reason, int item);

/* The row cannot have been inserted by a transaction of ours. */
extern void eo_finish_note_alien(const EoOutboxRow *row);

/* The server of the row was dropped.  ntold: say in the log that so many rows wait; 0: nothing. */
extern void eo_finish_note_dropped(const EoOutboxRow *row, int ntold);

/* The record refuses its finish, by this answer. */
extern void eo_finish_note_refused(const EoOutboxRow *row, const EoAnswer *answer);

/* The row is finished, or an operator has removed it. */
extern void eo_finish_notes_forget(const char *token);

/*
 * Are there notes to be written?  And write them, in a transaction of the caller's; and take them
 * as written, once that has committed.
 */
extern bool eo_finish_notes_any(void);
extern void eo_finish_notes_put(void);
extern void eo_finish_notes_take(void);

#endif							/* EO_WORKER_FINISH_NOTES_H */
