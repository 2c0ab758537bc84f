/*-------------------------------------------------------------------------
 *
 * life_rows.h
 *	  The lives of this data, as its own table records them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_LIFE_ROWS_H
#define EO_COMMIT_LIFE_ROWS_H

#include "postgres.h"

#include "dynamodb/hex.h"
#include "utils/timestamp.h"

/* A life that this data has been through. */
typedef struct EoLifeRow
{
	uint8		id[EO_UUID_LEN];
	uint8		run[EO_UUID_LEN];	/* the start of the server, eo_life_run() */
	int64		number;			/* its parent's is smaller by one */
	uint32		timeline;
	uint64		xid_floor;		/* that start gave out no transaction id below
								 * this one */
	int64		beat;			/* the last one that was noted */
	TimestampTz started;
} EoLifeRow;

/* The lives that lead to the present one, the newest first. */
typedef struct EoHistory
{
	EoLifeRow  *rows;			/* palloc'd */
	int			n;
} EoHistory;

/*
 * Read the history of this data, in the current memory context.  Needs a transaction;
 * raises what eo_internal_open() raises.
 */
extern void eo_life_rows_read(EoHistory *history);

/* The place of a life in a history; -1: it is not there. */
extern int	eo_life_rows_find(const EoHistory *history, const uint8 *id);

/*
 * Insert the row of a new life, which has this random id, as the child of the newest.
 * The caller must commit, and flush, before the life is used.
 */
extern void eo_life_rows_mint(const EoHistory *history, const uint8 *id);

/* Remove rows that are so old that no copy of this data can need them. */
extern void eo_life_rows_prune(const EoHistory *history);

/* Note a beat in the row of a life. */
extern void eo_life_rows_note_beat(const uint8 *id, int64 beat);

#endif							/* EO_COMMIT_LIFE_ROWS_H */
