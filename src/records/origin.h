/*-------------------------------------------------------------------------
 *
 * origin.h
 *	  The PostgreSQL transaction that seals a record.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_ORIGIN_H
#define EO_RECORDS_ORIGIN_H

#include "wire/hex.h"

#define EO_ORIGIN_LEN 128		/* longest text, without the NUL */

/* The attribute "origin" of a record. */
typedef struct EoOrigin
{
	uint8_t		life[EO_UUID_LEN];	/* of the database, see cluster/life.h */
	uint64_t	xid;			/* FullTransactionId; 0: not sealed yet */
	uint32_t	timeline;
	uint64_t	lsn;			/* insert position of the WAL at the seal */
} EoOrigin;

/*
 * Write the text "<life>/<xid>/<timeline>/<lsn in hexadecimal>", or "<life>" alone if
 * xid is 0.
 */
extern void eo_origin_write(const EoOrigin *origin, char text[EO_ORIGIN_LEN + 1]);

/*
 * Write the limits of the texts of all origins of a transaction: whoever has only its row
 * does not know where in the WAL it sealed.
 */
extern void eo_origin_write_limits(const uint8_t *life, uint64_t xid,
								   char first[EO_ORIGIN_LEN + 1], char last[EO_ORIGIN_LEN + 1]);

/*
 * Read such a text.  Returns false for NULL and for every text that
 * eo_origin_write() does not write, and leaves *origin alone then.
 */
extern bool eo_origin_read(const char *text, EoOrigin *origin);

#endif							/* EO_RECORDS_ORIGIN_H */
