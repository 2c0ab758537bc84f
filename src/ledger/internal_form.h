/*-------------------------------------------------------------------------
 *
 * internal_form.h
 *	  The internal tables as the install script makes them, and what was altered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_INTERNAL_FORM_H
#define EO_LEDGER_INTERNAL_FORM_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "utils/relcache.h"

#define EO_INTERNAL_SCHEMA "exactonce_internal"

typedef enum EoInternalTable
{
	EO_INTERNAL_OUTBOX,
	EO_INTERNAL_LIVES,
	EO_INTERNAL_TARGETS
} EoInternalTable;

#define EO_INTERNAL_TABLES (EO_INTERNAL_TARGETS + 1)

/* The name of a table, with its schema, and the number of its columns. */
extern const char *eo_internal_form_name(EoInternalTable table);
extern int	eo_internal_form_columns(EoInternalTable table);

/*
 * The columns that the extension made.  Rows are read and formed with this and not with
 * the descriptor of the relation, which also has columns that were dropped.
 */
extern TupleDesc eo_internal_form_desc(EoInternalTable table);

/* How the table differs from what the script made, and what undoes that; NULL: it does not. */
extern char *eo_internal_form_altered(Relation rel, EoInternalTable table, Oid owner, char **undo);

/*
 * The same about its indexes: the primary key and others keep a key from being completed twice, and
 * by them rows are found.
 */
extern char *eo_internal_form_lacks_key(Relation rel, EoInternalTable table, char **undo);

#endif							/* EO_LEDGER_INTERNAL_FORM_H */
