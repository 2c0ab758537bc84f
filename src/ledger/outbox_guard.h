/*-------------------------------------------------------------------------
 *
 * outbox_guard.h
 *	  A key is not completed again while an earlier completion of it is unfinished.
 *
 * All functions need a transaction, and raise what eo_internal_open() raises.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_OUTBOX_GUARD_H
#define EO_COMMIT_OUTBOX_GUARD_H

#include "postgres.h"

#include "cluster/target.h"
#include "ledger/outbox.h"
#include "nodes/pg_list.h"
#include "server/error.h"

/*
 * Look for completions of the key of a row, which the current transaction has inserted, by other
 * addresses of its table.  Waits for transactions that go on, and a moment for the finish of
 * those that have committed.  If one stays, this raises what eo_outbox_add() does.
 */
extern void eo_outbox_guard_check(const EoOutboxRow *row, const char *key, const char *server,
								  bool once, const EoGuard *guard);

/*
 * Raise that the row's own address has a committed row of the key already.  elsewhere: instead
 * its claim has one by another address.
 */
pg_noreturn extern void eo_outbox_guard_raise(const EoOutboxRow *row, const char *key,
											  const char *server, bool once, const EoGuard *guard,
											  bool elsewhere);

/* The committed rows of a key, EoOutboxRow *, by whatever address of its table, given up or not. */
extern List *eo_outbox_guard_rows(const EoTarget *target, const char *pk);

#endif							/* EO_COMMIT_OUTBOX_GUARD_H */
