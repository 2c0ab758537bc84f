/*-------------------------------------------------------------------------
 *
 * outbox.h
 *	  The local tables: exactonce_outbox and exactonce_origin.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_OUTBOX_H
#define EO_COMMIT_OUTBOX_H

#include "postgres.h"

#include "cluster/target.h"
#include "dynamodb/token.h"
#include "server/error.h"

/* A completion that a transaction decides on.  Strings are palloc'd. */
typedef struct EoOutboxRow
{
	uint8		origin[16];
	EoTarget	target;
	char	   *pk;
	char		token[EO_TOKEN_LEN + 1];
	int64		retention_s;
} EoOutboxRow;

/*
 * Insert a row in the current transaction.  Waits for another transaction
 * that has one for the same server and key; raises ID005 (once) or ID002 if
 * that one commits.
 */
extern void eo_outbox_add(const EoOutboxRow *row, const char *key, const char *server,
						  bool once, const EoGuard *guard);

/*
 * Is there a committed row for this claim?  Looked for with the latest
 * snapshot, whatever the transaction's own is.  Raises if the table was altered
 * so that the lack of a row would prove nothing.
 */
extern bool eo_outbox_find(const uint8 *origin, const char *pk, const char *token,
						   int64 *retention_s);

/*
 * For the worker, in a transaction: shows the rows of this origin, in no order
 * of time, until there are no more (then true) or visit() has had enough and
 * returns false.  A row and its texts live as long as the visit.
 */
extern bool eo_outbox_visit(const uint8 *origin, bool (*visit) (const EoOutboxRow *row));

/*
 * The tokens of a key's committed rows for a target: how many, at most max, which
 * should be more than the one that there can be.
 */
extern int	eo_outbox_tokens(const uint8 *origin, const char *pk, const EoTarget *target,
							 char (*tokens)[EO_TOKEN_LEN + 1], int max);

/* The committed row of a claim: how many were removed. */
extern int	eo_outbox_remove(const uint8 *origin, const char *pk, const char *token);

/* Are there rows, of one server (InvalidOid: of any)? */
extern bool eo_outbox_any(Oid serverid);

/*
 * For the worker, in a transaction: is the extension here?  And: this
 * database's identity; a new one if the present one is that of another
 * database, of which this is a copy.
 */
extern bool eo_outbox_exists(void);

/* The table's OID, InvalidOid if there is none; and: is it one of ours? */
extern Oid	eo_outbox_id(void);

/* Unchanged since it was last looked up, as far as invalidations tell. */
extern bool eo_outbox_is_known(void);
extern bool eo_outbox_is_part(Oid relid);
extern void eo_outbox_enter_origin(bool new_incarnation, uint8 *origin, int64 *incarnation,
								   uint64 *horizon);

#endif							/* EO_COMMIT_OUTBOX_H */
