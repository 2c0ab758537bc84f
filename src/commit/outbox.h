/*-------------------------------------------------------------------------
 *
 * outbox.h
 *	  The local tables: exactonce_outbox and exactonce_origin.
 *
 * All functions need a transaction, but for eo_outbox_is_known().
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_OUTBOX_H
#define EO_COMMIT_OUTBOX_H

#include "postgres.h"

#include "cluster/target.h"
#include "dynamodb/token.h"
#include "server/error.h"

/* A completion that its transaction decides on.  Strings are palloc'd. */
typedef struct EoOutboxRow
{
	uint8		origin[16];		/* identity of the database */
	EoTarget	target;			/* where the record is */
	char	   *pk;
	char		token[EO_TOKEN_LEN + 1];	/* of the claim */
	int64		retention_s;
} EoOutboxRow;

/* ---- the tables ---- */

/*
 * Look the tables up anew.  Returns false if the extension is not in this database.
 */
extern bool eo_outbox_exists(void);

/* The OID of exactonce_outbox, cached; InvalidOid: there is none. */
extern Oid	eo_outbox_id(void);

/*
 * Has the cached OID not been invalidated since it was looked up?  False may mean
 * that the table was dropped.
 */
extern bool eo_outbox_is_known(void);

/* Is this relation one of the two tables? */
extern bool eo_outbox_is_part(Oid relid);

/* ---- rows ---- */

/*
 * Insert a row in the current transaction.  If another transaction has inserted a
 * row for the same server and key, this waits for its end.  If that one commits,
 * and if there is a committed row, this raises an error: of a duplicate if once is
 * true (ID005; 23505 for a guard), otherwise ID002.  Raises 42P01 if there is no
 * outbox, and 55000 if it was altered so that it cannot be relied on.
 */
extern void eo_outbox_add(const EoOutboxRow *row, const char *key, const char *server,
						  bool once, const EoGuard *guard);

/*
 * Is there a committed row for this claim?  Looks with the latest snapshot,
 * whatever that of the transaction is, and sets *retention_s if there is one.
 * Raises as eo_outbox_add(): in an altered outbox the lack of a row would prove
 * nothing.
 */
extern bool eo_outbox_find(const uint8 *origin, const char *pk, const char *token,
						   int64 *retention_s);

/*
 * Call visit() for each committed row of this origin, in no order of time, until it
 * returns false.  Returns true if all rows were visited.  A row and its strings
 * last as long as the call of visit().  Raises as eo_outbox_find().
 */
extern bool eo_outbox_visit(const uint8 *origin, bool (*visit) (const EoOutboxRow *row));

/*
 * Copy the tokens of a key's committed rows for this target.  Returns their number,
 * at most max.  More than one means corruption, so pass max >= 2 to detect it.
 */
extern int	eo_outbox_tokens(const uint8 *origin, const char *pk, const EoTarget *target,
							 char (*tokens)[EO_TOKEN_LEN + 1], int max);

/* Delete the committed rows of a claim.  Returns how many there were. */
extern int	eo_outbox_remove(const uint8 *origin, const char *pk, const char *token);

/*
 * Has this database a row for a server (InvalidOid: for any)?  Rows that the current
 * transaction has inserted count.  Returns false if the extension is not here.
 */
extern bool eo_outbox_any(Oid serverid);

/* ---- identity ---- */

/*
 * Read the identity of this database from exactonce_origin, and begin a new
 * incarnation if that is asked for.  If the row is that of another database, of
 * which this one is a copy, this database gets a new identity.  *horizon is the
 * transaction id from which on the outbox is complete under this identity.  Raises
 * 55000 if the table does not have exactly one row.
 */
extern void eo_outbox_enter_origin(bool new_incarnation, uint8 *origin, int64 *incarnation,
								   uint64 *horizon);

#endif							/* EO_COMMIT_OUTBOX_H */
