/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  The rows that SQL functions return.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_ROWS_H
#define EO_SQL_ROWS_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "fmgr.h"
#include "utils/timestamp.h"

/* A row that is filled column by column. */
#define EO_MAX_COLUMNS 16

typedef struct EoRow
{
	TupleDesc	desc;
	int			n;
	Datum		values[EO_MAX_COLUMNS];
	bool		nulls[EO_MAX_COLUMNS];
} EoRow;

/* The next column; datum is not evaluated if it is null. */
#define EO_PUT(row, isnull, datum) \
	do { \
		(row)->nulls[(row)->n] = (isnull); \
		(row)->values[(row)->n] = (row)->nulls[(row)->n] ? (Datum) 0 : (datum); \
		(row)->n++; \
	} while (0)

/* The row type a function returns, kept for the call site. */
extern TupleDesc eo_row_type(FunctionCallInfo fcinfo);

extern void eo_row_begin(EoRow *row, TupleDesc desc);
extern void eo_row_put_enum(EoRow *row, const char *label);
extern void eo_row_put_instant(EoRow *row, int64 ms);	/* 0: NULL */
extern void eo_row_put_text(EoRow *row, const char *s); /* NULL: NULL */
extern void eo_row_put_json(EoRow *row, const char *utf8);	/* NULL: NULL */
extern HeapTuple eo_row_tuple(EoRow *row);

/* Epoch milliseconds as a timestamptz. */
extern TimestampTz eo_row_timestamp(int64 ms);

extern Datum eo_row_json_datum(const char *utf8);

/* Text of a record for people to read, whatever the encoding. */
extern char *eo_row_show_utf8(const char *utf8);

#endif							/* EO_SQL_ROWS_H */
