/*-------------------------------------------------------------------------
 *
 * origin.h
 *	  The PostgreSQL transaction that seals a record.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_ORIGIN_H
#define EO_DYNAMODB_ORIGIN_H

#include "dynamodb/hex.h"

#define EO_ORIGIN_LEN 128		/* longest text, without the NUL */

/* The attribute "origin" of a record. */
typedef struct EoOrigin
{
	uint8_t		database[EO_UUID_LEN];	/* identity of the database */
	int64_t		incarnation;	/* which start of the server; not negative */
	uint64_t	xid;			/* FullTransactionId */
	uint32_t	timeline;
	uint64_t	lsn;			/* insert position of the WAL at the seal */
} EoOrigin;

/* Write the text "<uuid>/<incarnation>/<xid>/<timeline>/<lsn in hexadecimal>". */
extern void eo_origin_write(const EoOrigin *origin, char text[EO_ORIGIN_LEN + 1]);

/*
 * Read such a text.  Returns false for NULL and for every text that
 * eo_origin_write() does not write, and leaves *origin alone then.
 */
extern bool eo_origin_read(const char *text, EoOrigin *origin);

#endif							/* EO_DYNAMODB_ORIGIN_H */
