/*-------------------------------------------------------------------------
 *
 * life_rows.h
 *	  The lives of this data, as its own table records them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_LIFE_ROWS_H
#define EO_LEDGER_LIFE_ROWS_H

#include "postgres.h"

#include "utils/timestamp.h"
#include "wire/hex.h"

/* A life that this data has been through. */
typedef struct EoLifeRow
{
	uint8		id[EO_UUID_LEN];
	uint8		run[EO_UUID_LEN];	/* the start of the server,
									 * eo_runs_present() */
	int64		number;			/* its parent's is smaller by one */
	uint32		timeline;
	uint64		xid_floor;		/* no start since the life before gave out a
								 * transaction id below this one */
	uint64		xid_start;		/* one of them gave out those from here on */
	int64		beat;			/* the last one that was noted */
	TimestampTz started;
	uint64		system;			/* identifier of the cluster that it belonged
								 * to */
	Oid			dboid;			/* of the database */
} EoLifeRow;

/*
 * The lives that lead to the present one, the newest first.  The data may have been
 * that of another cluster or database before pg_upgrade or CREATE DATABASE ... TEMPLATE:
 * the lives from then follow those of the history, and are no part of it.  The first of
 * them is that of the original: the database that this data comes from.  A copy of a copy
 * has lives of several databases there, one after the other.
 */
typedef struct EoHistory
{
	EoLifeRow  *rows;			/* palloc'd */
	int			n;				/* rows of the history */
	int			nearlier;		/* rows behind them */
} EoHistory;

/*
 * Read the history of this data, in the current memory context.  Needs a transaction;
 * raises what eo_internal_open() raises.
 */
extern void eo_life_rows_read(EoHistory *history);

/* The place of a life in a history; -1: it is not there. */
extern int	eo_life_rows_find(const EoHistory *history, const uint8 *id);

/* Is the life one of another cluster or database, from which this data has come? */
extern bool eo_life_rows_is_earlier(const EoHistory *history, const uint8 *id);

/* The last life of the original that this data has been through; NULL: there is none. */
extern const EoLifeRow *eo_life_rows_original(const EoHistory *history);

/* Is the life one of the original itself, and not of a database that it was made from? */
extern bool eo_life_rows_is_original(const EoHistory *history, const uint8 *id);

/*
 * Is the original another database of this cluster that exists?  pg_upgrade keeps the
 * OIDs of databases, so this holds after it, too.  Needs a transaction.
 */
extern bool eo_life_rows_original_exists(const EoHistory *history);

/*
 * Insert the row of a new life, which has this random id, as the child of the newest.
 * The caller must commit, and flush, before the life is used.
 */
extern void eo_life_rows_mint(const EoHistory *history, const uint8 *id);

/*
 * Make the lives of the original a part of this history.  The caller must see that the
 * original is over, and read the history again after the commit.
 */
extern void eo_life_rows_adopt(const EoHistory *history);

/* Remove rows that are so old that no copy of this data can need them. */
extern void eo_life_rows_prune(const EoHistory *history);

/* Note a beat in the row of a life. */
extern void eo_life_rows_note_beat(const uint8 *id, int64 beat);

#endif							/* EO_LEDGER_LIFE_ROWS_H */
