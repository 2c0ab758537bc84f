/*-------------------------------------------------------------------------
 *
 * give_up.h
 *	  An operator gives up a completion that can never be written.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_GIVE_UP_H
#define EO_KEYS_GIVE_UP_H

#include "postgres.h"

#include "ledger/outbox.h"
#include "utils/uuid.h"

/* The record of a row, by the row's own address. */
typedef enum EoFound
{
	EO_FOUND_FINISHED,			/* COMPLETED by the row's transaction, with
								 * its writes */
	EO_FOUND_SEALED,			/* the row's transaction has sealed it */
	EO_FOUND_OTHER,				/* it shows neither, or is not there: the row
								 * is of no use any more */
	EO_FOUND_NO_TABLE,			/* it is gone with its table */
	EO_FOUND_UNREACHABLE		/* it could not be read */
} EoFound;

/*
 * Give up a completion that has committed and is never written, or not for minutes: its
 * record or table is gone, the record is another run's, no server has the table any more, or
 * the worker has failed on it for minutes.  id is that of exactonce_pending.  Returns false
 * if there is no such row.  Raises 55000 if the worker may still write it.
 */
extern bool eo_give_up(const pg_uuid_t *id);

/* Take a row from the worker.  Returns false if it is not there any more. */
extern bool eo_give_up_row(const EoOutboxRow *row, bool record_known);

/*
 * May a row that was given up be removed, by what its record says by the row's own address?  *why
 * says why that could not be read.  Needs USAGE on the row's server.
 */
extern bool eo_give_up_is_of_no_use(const EoOutboxRow *row, EoFound *finding, char **why);

/* Log which writes of a row are not made. */
extern void eo_give_up_log_unwritten(const EoOutboxRow *row);

#endif							/* EO_KEYS_GIVE_UP_H */
