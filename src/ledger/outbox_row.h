/*-------------------------------------------------------------------------
 *
 * outbox_row.h
 *	  A row of the outbox: a completion that a transaction has decided on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_OUTBOX_ROW_H
#define EO_LEDGER_OUTBOX_ROW_H

#include "postgres.h"

#include "cluster/target.h"
#include "records/token.h"
#include "storage/block.h"
#include "utils/timestamp.h"
#include "wire/hex.h"

/*
 * The writes that are to be made together with the completion, in one transaction of
 * DynamoDB.  Of two rows with the same item the one with the lesser number is finished
 * first (item_order.h).
 */
typedef struct EoOutboxWrites
{
	int			n;				/* 0: there are none, and the rest is not set */
	int64		number;
	const char *items;			/* a line for each write: tenant, region,
								 * table and key, with blanks between them */
	const char *text;			/* UTF-8, as DynamoDB takes it; of a row that
								 * was read NULL, see eo_outbox_read_writes() */
} EoOutboxWrites;

/* The worker's opinion of a completion that it has failed to write. */
typedef enum EoOutboxTrouble
{
	EO_TROUBLE_NONE,			/* it has not failed */
	EO_TROUBLE_FAILS,			/* it may still be written */
	EO_TROUBLE_LASTS,			/* so it may, but it has failed for minutes:
								 * an operator may give it up */
	EO_TROUBLE_REFUSED			/* it is not written before somebody removes
								 * the cause; an operator may give it up */
} EoOutboxTrouble;

/* The note about it in its row. */
typedef struct EoOutboxNote
{
	EoOutboxTrouble trouble;
	int			attempts;
	const char *reason;
	int			item;			/* the write that was refused, from 1; 0: none
								 * alone, or not known */
} EoOutboxNote;

/* A completion that its transaction decides on. */
typedef struct EoOutboxRow
{
	uint8		digest[EO_DIGEST_LEN];	/* of target and key */
	EoTarget	target;			/* where the record is */
	char	   *pk;				/* partition key of the record */
	char		token[EO_TOKEN_LEN + 1];	/* of the claim */
	int64		retention_s;
	uint8		life[EO_UUID_LEN];	/* under which it commits */
	uint64		xid;			/* of the transaction; of a row that was read,
								 * or is known to have committed */
	TimestampTz created_at;		/* of a row that was read */
	bool		given_up;		/* the same */
	EoOutboxTrouble trouble;	/* the same, as it was noted last */
	int			attempts;		/* the same */
	BlockNumber block;			/* where in the table it is; the same */
	int64		committed_us;	/* when it committed, monotonic; 0: not known */
	EoOutboxWrites writes;
} EoOutboxRow;

#endif							/* EO_LEDGER_OUTBOX_ROW_H */
