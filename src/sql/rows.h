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

#include "access/tupdesc.h"
#include "fmgr.h"
#include "keys/acquire.h"
#include "nodes/execnodes.h"
#include "server/store.h"
#include "utils/timestamp.h"

#define EO_ROW_MAX_COLUMNS 40

/*
 * A row that is filled column by column: eo_row_begin(), a put for each column of
 * desc in its order, and eo_row_datum() or eo_row_store() at the end.
 */
typedef struct EoRow
{
	TupleDesc	desc;
	int			n;				/* columns filled so far */
	Datum		values[EO_ROW_MAX_COLUMNS];
	bool		nulls[EO_ROW_MAX_COLUMNS];
} EoRow;

/* Fill the next column.  datum is not evaluated if isnull is true. */
#define EO_ROW_PUT(row, isnull, datum) \
	do { \
		(row)->nulls[(row)->n] = (isnull); \
		(row)->values[(row)->n] = (row)->nulls[(row)->n] ? (Datum) 0 : (datum); \
		(row)->n++; \
	} while (0)

/*
 * Each call site keeps this in fn_extra, which the functions of this extension do not use
 * otherwise.
 */
typedef struct EoCallSite
{
	TupleDesc	type;			/* NULL: not looked up yet */
	bool		has_locations;
	uint32		locations;		/* for composite_expansion.c */
} EoCallSite;

extern EoCallSite *eo_row_call_site(FunctionCallInfo fcinfo);

/* The row type that the function returns. */
extern TupleDesc eo_row_type(FunctionCallInfo fcinfo);

extern void eo_row_begin(EoRow *row, TupleDesc desc);

/* Each fills the next column; NULL, and the instant 0, become SQL NULL. */
extern void eo_row_put_enum(EoRow *row, const char *label);
extern void eo_row_put_instant(EoRow *row, int64 ms);
extern void eo_row_put_text(EoRow *row, const char *s);

/*
 * JSON text of a record as jsonb, for people to read.  Text that is not JSON, or that
 * cannot be had in the encoding of the database, becomes a JSON string.
 */
extern void eo_row_put_json(EoRow *row, const char *utf8);

/* The same of the result of a key, for programs: see eo_row_result_datum(). */
extern void eo_row_put_result(EoRow *row, const char *utf8, const char *key, const char *server);

/* The row as a composite value, palloc'd. */
extern Datum eo_row_datum(EoRow *row);

/* Append the row to the result of a set-returning function. */
extern void eo_row_store(EoRow *row, ReturnSetInfo *rsinfo);

/* Epoch milliseconds as a timestamptz. */
extern TimestampTz eo_row_timestamp(int64 ms);

/*
 * The result of a key as jsonb.  Text that is not JSON becomes a JSON string.  Raises if the
 * encoding of the database does not have its characters, because a string would pass for
 * the result.
 */
extern Datum eo_row_result_datum(const char *utf8, const char *key, const char *server);

/*
 * Text of a record in the database's encoding, for people to read; characters
 * that the encoding does not have are escaped.
 */
extern char *eo_row_show_utf8(const char *utf8);

/* The HTTP status that means the same as the outcome of a claim. */
extern int	eo_row_http_status(const EoClaim *claim);

/*
 * After how many seconds a client should ask again, 1 at least; 0: asking again changes
 * nothing.
 */
extern int	eo_row_retry_after(const EoStore *store, const EoClaim *claim);

#endif							/* EO_SQL_ROWS_H */
