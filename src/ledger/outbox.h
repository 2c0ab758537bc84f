/*-------------------------------------------------------------------------
 *
 * outbox.h
 *	  The outbox: completions that transactions have decided on.
 *
 * A claim is named by its token, and that alone says how a transaction ended.  A digest, see
 * eo_target_digest(), names a key by the address of its table, which may have others: it says
 * where a row is to be finished.  Rows of other databases, which came with a copy, are never
 * seen.
 *
 * All functions need a transaction.  They raise what eo_internal_open() raises: 42P01
 * if the extension is not here, and 55000 if the table was altered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_OUTBOX_H
#define EO_LEDGER_OUTBOX_H

#include "postgres.h"

#include "ledger/life_rows.h"
#include "ledger/outbox_row.h"
#include "server/error.h"
#include "utils/uuid.h"

/*
 * Insert a row in the current transaction, for outbox_guard.c.  If another transaction has
 * inserted a row for the same key, this waits for its end.  If that one commits, or there is a
 * committed row, this returns false, and the caller must raise an error: the insertion has
 * failed half way.  *elsewhere: the row that is there is of the same claim, by another address.
 */
extern bool eo_outbox_add(const EoOutboxRow *row, bool *elsewhere);

/*
 * Was the server of a row of that owner (InvalidOid: a superuser) when the row was made?  The
 * digest tells.
 */
extern bool eo_outbox_is_of_owner(const EoOutboxRow *row, Oid owner);

/*
 * How a transaction ended that completes a key under the token of a claim.  Of several rows with
 * the token the last of these counts.
 */
typedef enum EoFate
{
	EO_FATE_ELSEWHERE,			/* not known: another life sealed the record
								 * and goes on, or the record does not say
								 * which */
	EO_FATE_UNKNOWN,			/* there is no row.  eo_settle_judge(): a row
								 * may have been lost, and an operator decides */
	EO_FATE_ABORTED,			/* the transaction is over, and there is no
								 * row; see eo_settle_judge() */
	EO_FATE_OTHER_RUNNING,		/* the transaction is over.  Another one has a
								 * row under the token and has not ended:
								 * until then nothing is written */
	EO_FATE_OTHER_COMMITTED,	/* the same, and the other one has committed:
								 * the claim is never given back, and the
								 * record is left to the finish of that row */
	EO_FATE_RUNNING,			/* the transaction has not ended.  If it is
								 * prepared, it may be of an earlier run of
								 * the server */
	EO_FATE_COMMITTED			/* its row is in the outbox */
} EoFate;

/*
 * Judge by the rows under the token alone how the transaction that sealed ended: EO_FATE_UNKNOWN
 * if there are none.  Rows of the current transaction do not count.  Looks with the latest
 * snapshot, whatever that of the transaction is.  With EO_FATE_COMMITTED *retention_s is set,
 * unless it is NULL.  The token may be any text.
 */
extern EoFate eo_outbox_find(const char *token, const EoOrigin *origin, int64 *retention_s);

/*
 * Read the committed row of a claim, whatever table it is for; pk and the items are palloc'd.
 * Returns false if there is none.  row may be NULL.
 */
extern bool eo_outbox_read_claim(const char *token, EoOutboxRow *row);

/*
 * Call visit() for each committed row that is not given up, until it returns false.  Rows
 * come as they lie in the table, from this block on (0: all of them).  So older rows come
 * first, but for those that have filled a gap.  Returns true if visit() has always done so.
 * A row and its strings last as long as the call of visit().
 */
extern bool eo_outbox_visit(BlockNumber from, bool (*visit) (const EoOutboxRow *row));

/* The same for all rows, given up or not, committed or undecided. */
extern bool eo_outbox_visit_all(bool (*visit) (const EoOutboxRow *row));

/* As eo_outbox_visit(), the rows of transactions that go on, but of the current one. */
extern bool eo_outbox_visit_undecided(bool (*visit) (const EoOutboxRow *row));

/* The text of the writes of a committed row, palloc'd; NULL: there is no such row. */
extern char *eo_outbox_read_writes(const uint8 *digest, const char *token);

/*
 * Note in the committed row of a claim that it has failed, and why.  Does nothing, and
 * returns false, if there is no row, or if another transaction is changing it.
 */
extern bool eo_outbox_note(const uint8 *digest, const char *token, const EoOutboxNote *note);

/* Read the committed row with this id in exactonce_pending, as eo_outbox_read(). */
extern bool eo_outbox_read_by_id(const pg_uuid_t *id, EoOutboxRow *row);

/* That id: it tells nothing about the token. */
extern void eo_outbox_id(const EoOutboxRow *row, pg_uuid_t *id);

/*
 * Read the committed row of a key; pk and the items are palloc'd.  Returns false if there is
 * none.
 */
extern bool eo_outbox_read(const uint8 *digest, EoOutboxRow *row);

/*
 * Delete the committed row of a claim.  The digest is that of the table whose record has
 * answered: a row for another table, or another address of it, stays.  Returns false if there is
 * none, or if another transaction is changing it.
 */
extern bool eo_outbox_remove(const uint8 *digest, const char *token);

/*
 * The same for many, which are found with one snapshot.  Sets given_up in those that another
 * transaction is changing: an operator is giving them up, and they are still there.
 */
extern void eo_outbox_remove_rows(EoOutboxRow *const *rows, int n);

/*
 * Keep the committed row of a claim as evidence, and do not have the worker finish it.
 * Returns false if there is none that is not given up.
 */
extern bool eo_outbox_give_up(const uint8 *digest, const char *token);

/* How many committed rows are given up, and when the first of their keys was completed. */
extern int	eo_outbox_given_up(TimestampTz *oldest);

/*
 * Make the rows of the original (life_rows.h) our own.  A row whose key we have completed
 * ourselves is left alone.  Returns false if another transaction is changing such a key;
 * then a part may be done.
 */
extern bool eo_outbox_adopt(const EoHistory *history);

/*
 * Is there a row that is not given up for a server (InvalidOid: for any)?  Rows that the current
 * transaction has inserted count.  Returns false if the extension is not here.
 */
extern bool eo_outbox_any(Oid serverid);

/*
 * The same of the rows of the original, unless that is another database of this cluster:
 * then they are none of ours.
 */
extern bool eo_outbox_any_of_original(Oid serverid);

#endif							/* EO_LEDGER_OUTBOX_H */
