/*-------------------------------------------------------------------------
 *
 * outbox_guard.h
 *	  A key is not completed again while an earlier completion of it is unfinished.
 *
 * All functions need a transaction, and raise what eo_internal_open() raises.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_OUTBOX_GUARD_H
#define EO_LEDGER_OUTBOX_GUARD_H

#include "postgres.h"

#include "cluster/target.h"
#include "ledger/outbox.h"
#include "nodes/pg_list.h"
#include "server/error.h"

/*
 * Insert a row in the current transaction.  Other transactions that have inserted a row for the
 * same key, by whatever address of its table, are waited for.  If one commits, or there is a
 * committed row, this raises an error: ID005 (23505 for a guard) if once is true, otherwise
 * ID002.  A committed row by another address is waited for, as it may go in a moment; and so, for
 * that time, is a transaction by a server of another owner, after which this raises ID001.  Rows
 * that other owners than superusers have made do not count.
 */
extern void eo_outbox_guard_add(const EoOutboxRow *row, const char *key, const char *server,
								bool once, const EoGuard *guard);

/*
 * The committed rows of a key that count, EoOutboxRow *, by whatever address of its table, given up
 * or not.
 */
extern List *eo_outbox_guard_rows(const EoTarget *target, const char *pk);

#endif							/* EO_LEDGER_OUTBOX_GUARD_H */
