/*-------------------------------------------------------------------------
 *
 * internal.h
 *	  The internal tables: finding them, and whether they can be relied on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_INTERNAL_H
#define EO_LEDGER_INTERNAL_H

#include "postgres.h"

#include "ledger/internal_form.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

/*
 * Open a table in the current transaction, with this lock; the caller closes it.
 * Raises 42P01 if the table does not exist, and 55000 if it was altered so that it
 * cannot be relied on.
 */
extern Relation eo_internal_open(EoInternalTable table, LOCKMODE mode);

/*
 * Look over all tables without waiting for a lock.  Returns what is wrong, and what is to be
 * done about it (NULL: see *locked, the table whose lock could not be had); NULL: nothing is.
 */
extern const char *eo_internal_look_over(const char **advice, Oid *locked);

/* Raise as eo_internal_open() does, if any of the tables cannot be relied on. */
extern void eo_internal_check(void);

/* The OID of a table, cached; InvalidOid: the extension is not in this database. */
extern Oid	eo_internal_id(EoInternalTable table);

/* The OID of the outbox.  The tables are looked up anew. */
extern Oid	eo_internal_look(void);

/*
 * Are the cached OIDs still valid, as far as invalidations tell?  Needs no
 * transaction.  If this returns false the tables may have been dropped.
 */
extern bool eo_internal_is_known(void);

/* The version of the extension in this database, as the latest look has found it. */
extern const char *eo_internal_version(void);

/*
 * After ALTER EXTENSION: have all sessions of this database look at the tables again, once the
 * transaction commits.
 */
extern void eo_internal_announce(void);

/* Is this relation one of the internal tables?  Is that column of it one of ours? */
extern bool eo_internal_is_part(Oid relid);
extern bool eo_internal_is_column(Oid relid, int column);

/* The name of an internal table, as the latest look has found them; NULL: it is none. */
extern const char *eo_internal_name(Oid relid);

#endif							/* EO_LEDGER_INTERNAL_H */
