/*-------------------------------------------------------------------------
 *
 * lock_limit.h
 *	  Transactions of worker and launcher that wait for locks only so long.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_LOCK_LIMIT_H
#define EO_LEDGER_LOCK_LIMIT_H

#include "postgres.h"

#include "lib/stringinfo.h"

/* The tables that work needs; each kind has pauses of its own. */
typedef enum EoLockNeed
{
	EO_LOCKS_OUTBOX,			/* and the targets */
	EO_LOCKS_LIVES,
	EO_LOCKS_CATALOGS,			/* nothing else */
	EO_LOCK_NEEDS
} EoLockNeed;

/* A round of the main loop begins: its work may wait for locks again. */
extern void eo_lock_limit_begin_round(void);

/*
 * Call work(arg) in a transaction of its own.  Returns false if a lock could not be had, or
 * is not to be tried for now: then the transaction was rolled back or not begun, and nothing
 * follows from that.  Raises what work() raises, and then leaves the transaction open.
 */
extern bool eo_lock_limit_run(EoLockNeed need, void (*work) (void *arg), void *arg);

/* The same, but an error is logged and ends the transaction: then *failed is set. */
extern bool eo_lock_limit_try(EoLockNeed need, void (*work) (void *arg), void *arg, bool *failed);

/* When work that was put off can be tried again; INT64_MAX: none was. */
extern int64 eo_lock_limit_due_us(void);

/* Before this no lock of that kind is tried; 0: the last try has not failed. */
extern int64 eo_lock_limit_again_us(EoLockNeed need);

/* Append who has or awaits which lock of a table, and so keeps others from it. */
extern void eo_lock_limit_tell(Oid relid, StringInfo facts);

/* The table as a message names it. */
extern const char *eo_lock_limit_name(Oid relid);

#endif							/* EO_LEDGER_LOCK_LIMIT_H */
