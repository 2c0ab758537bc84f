/*-------------------------------------------------------------------------
 *
 * outbox.h
 *	  The outbox: completions that transactions have decided on.
 *
 * A key is named by its digest, see eo_target_digest().  Rows of other databases,
 * which may have come with a copy, are never seen.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_OUTBOX_H
#define EO_COMMIT_OUTBOX_H

#include "postgres.h"

#include "cluster/target.h"
#include "dynamodb/token.h"
#include "server/error.h"

/* A completion that a transaction decides on. */
typedef struct EoOutboxRow
{
	uint8		digest[EO_DIGEST_LEN];	/* of target and key */
	EoTarget	target;
	char	   *pk;
	char		token[EO_TOKEN_LEN + 1];
	int64		retention_s;
} EoOutboxRow;

/*
 * Insert a row in the current transaction.  Waits for another transaction that
 * has one for the same key; if that one commits, raises ID005 (once; for a guard
 * 23505) or ID002.
 */
extern void eo_outbox_add(const EoOutboxRow *row, const char *key, const char *server,
						  bool once, const EoGuard *guard);

/*
 * Is there a committed row for this claim?  The latest snapshot is used, whatever
 * the transaction's own is.  retention_s is set if there is.
 */
extern bool eo_outbox_find(const uint8 *digest, const char *token, int64 *retention_s);

/*
 * Show the committed rows, in no order of time, until there are no more (then it
 * returns true) or visit() returns false.  A row and its texts live as long as the
 * visit.
 */
extern bool eo_outbox_visit(bool (*visit) (const EoOutboxRow *row));

/* The committed row of a key: false if there is none; pk is palloc'd. */
extern bool eo_outbox_read(const uint8 *digest, EoOutboxRow *row);

/* Remove the committed row of a claim; false: there is none. */
extern bool eo_outbox_remove(const uint8 *digest, const char *token);

/* Are there rows of one server (InvalidOid: of any), this transaction's included? */
extern bool eo_outbox_any(Oid serverid);

#endif							/* EO_COMMIT_OUTBOX_H */
