/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  The claims of the current transaction, and its callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_XACT_H
#define EO_COMMIT_XACT_H

#include "postgres.h"

#include "cluster/slots.h"
#include "cluster/target.h"
#include "lib/ilist.h"
#include "server/error.h"
#include "server/store.h"

/* Claims that one transaction may have. */
#define EO_MAX_CLAIMS_OF_TRANSACTION 10000

/* What COMMIT does about a claim that the transaction has not settled. */
typedef enum EoUnsettled
{
	EO_UNSETTLED_FAILS,			/* ID009: made in a transaction block */
	EO_UNSETTLED_WARNS,			/* made by a statement of its own: a WARNING
								 * if that has written data */
	EO_UNSETTLED_STAYS			/* on_commit => 'keep', or made earlier */
} EoUnsettled;

/*
 * A claim of the current transaction: what only this process needs to know of it.
 * Its state and all the rest is in its slot, see slots.h; the slot is this
 * claim's until the (sub)transaction ends.  The memory, strings included, lasts as
 * long as the claim does.
 */
typedef struct EoTxClaim
{
	dlist_node	node;			/* in the order in which they were made */
	struct EoTxClaim *next;		/* in its bucket */
	EoStore    *store;
	char	   *key;
	char	   *pk;
	EoSlotRef	slot;
	const EoSlotInfo *info;		/* in the slot: to be read, see eo_slot_own() */
	SubTransactionId level;		/* the claim ends with this one */
	SubTransactionId completed_at;	/* and its completion with this one */
	EoUnsettled unsettled;
	bool		earlier;		/* the claim is older than this transaction */
	bool		in_doubt;		/* a refused seal may still arrive */
	bool		untried;		/* no run is counted if it is aborted now */
	const EoGuard *guard;		/* the trigger it is for; NULL: a call */
	char	   *result;			/* JSON text; NULL: none */
	size_t		result_len;
} EoTxClaim;

/* Has this claim a row in the outbox, and is not sealed yet? */
static inline bool
eo_xact_is_completed(const EoTxClaim *claim)
{
	return claim->info->state == EO_SLOT_COMPLETED || claim->info->state == EO_SLOT_PLANNED;
}

/* Has idem_fail() or idem_release() been called for it? */
static inline bool
eo_xact_is_given_up(const EoTxClaim *claim)
{
	return claim->info->state == EO_SLOT_FAILED || claim->info->state == EO_SLOT_RELEASED;
}

/*
 * In _PG_init.  seal() is called once before PostgreSQL commits; it must seal all
 * completed claims of the list, or raise.
 */
extern void eo_xact_init(void (*seal) (dlist_head *claims));

/* The claim of this transaction with that digest; NULL: there is none. */
extern EoTxClaim *eo_xact_find(const uint8 *digest);

/*
 * Enter a claim, with its slot, before anything is sent.  Raises 54000 if there
 * is no room.  The caller fills in what is not an argument.
 */
extern EoTxClaim *eo_xact_add(EoStore *store, const char *key, const char *pk,
							  const EoTarget *target, const EoSlotInfo *info);

/* Take it out again and free its slot: nothing was claimed. */
extern void eo_xact_drop(EoTxClaim *claim);

/* Take it out, and have the worker bury what may still be written under its token. */
extern void eo_xact_abandon(EoTxClaim *claim);

/* Its row is in the outbox: it will be sealed.  result may be NULL. */
extern void eo_xact_completed(EoTxClaim *claim, const char *result);

/* Have our callback run before all others that are registered. */
extern void eo_xact_seal_first(void);

/* Is PostgreSQL committing, so that it is too late for new claims? */
extern bool eo_xact_is_committing(void);
extern bool eo_xact_has_claims(void);

/*
 * The executor, or a utility command, begins or ends.  At depth 0 it is the
 * client's own statement.  leave() must be called even if an error is raised.
 */
extern void eo_xact_enter(void);
extern void eo_xact_leave(void);

/*
 * Notice that a client's statement begins, if this is one: at depth 0.  Called
 * before eo_xact_enter(), and whenever the executor starts.
 */
extern void eo_xact_note_statement(void);

/*
 * Was a transaction block open when the client's statement began?  IsTransactionBlock()
 * cannot be asked later: within a subtransaction of a function, such as an
 * exception block of PL/pgSQL, it always says yes.
 */
extern bool eo_xact_in_block(void);

/* Raise ID002 if a claim of this transaction was found lost. */
extern void eo_xact_check_lost(void);

#endif							/* EO_COMMIT_XACT_H */
