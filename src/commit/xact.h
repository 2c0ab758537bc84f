/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  The claims of the transaction at hand, and its callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_XACT_H
#define EO_COMMIT_XACT_H

#include "postgres.h"

#include "cluster/shmem.h"
#include "cluster/target.h"
#include "dynamodb/record.h"
#include "dynamodb/token.h"
#include "lib/ilist.h"
#include "server/error.h"
#include "server/store.h"

/* Claims that one transaction may have. */
#define EO_MAX_CLAIMS_OF_TRANSACTION 10000

typedef enum EoPhase
{
	EO_PHASE_ASKING,			/* acquire is under way, or its outcome
								 * unknown */
	EO_PHASE_HELD,				/* ours, to be settled */
	EO_PHASE_PLANNED,			/* idem_once: to be claimed by the seal */
	EO_PHASE_COMPLETED,			/* has its row in the outbox, to be sealed */
	EO_PHASE_SEALING			/* the seal may have been applied */
} EoPhase;

/* Memory of a claim, its strings included, lasts as long as it does. */
typedef struct EoTxClaim
{
	dlist_node	node;			/* in the order in which they were made */
	struct EoTxClaim *next;		/* in its bucket */
	uint8		digest[EO_DIGEST_LEN];
	EoStore    *store;
	char	   *key;
	char	   *pk;
	char		token[EO_TOKEN_LEN + 1];
	char		fingerprint[EO_FINGERPRINT_LEN + 1];	/* "": none */
	EoSlotRef	slot;
	EoPhase		phase;
	EoVerdict	verdict;
	SubTransactionId level;		/* it dies with this one */
	SubTransactionId completed_at;	/* ... and its completion with this one */
	bool		once;
	bool		earlier;		/* the claim is older than this transaction */
	bool		keep;			/* may outlive the commit unsettled */
	bool		in_block;		/* made in a transaction block */
	bool		release_on_abort;
	bool		in_doubt;		/* a request may still arrive */
	bool		untried;		/* an abort now is to count no run */
	const EoGuard *guard;		/* whose claim it is; NULL: a call's */
	char	   *result;			/* JSON text; NULL: none */
	size_t		result_len;
	int64		retention_s;
	int64		fence;
	int64		runs;
	int64		lease_until_ms;
	int64		ttl_s;
} EoTxClaim;

/* What the callbacks need from above. */
typedef struct EoXactOps
{
	/*
	 * Seal all claims of the list that are completed, or raise.  Called once,
	 * before PostgreSQL commits.
	 */
	void		(*seal) (dlist_head *claims);
} EoXactOps;

extern void eo_xact_init(const EoXactOps *ops);

extern EoTxClaim *eo_xact_find(const uint8 *digest);

/*
 * Enter a claim, with its slot, before anything is sent.  Raises 54000 where
 * there is no room.  The caller fills in what is not an argument.
 */
extern EoTxClaim *eo_xact_add(EoStore *store, const char *key, const char *pk,
							  const EoTarget *target, const EoSlotInfo *info);

/* Take it out again, as if it had never been: nothing was claimed. */
extern void eo_xact_drop(EoTxClaim *claim);

/* Take it out, but have the worker bury what may still be written under it. */
extern void eo_xact_abandon(EoTxClaim *claim);

/* The row is in the outbox: to be sealed.  result may be NULL. */
extern void eo_xact_completed(EoTxClaim *claim, const char *result);

/* Have our callback run before those registered meanwhile. */
extern void eo_xact_seal_first(void);

/* PostgreSQL is committing: it is too late for new claims. */
extern bool eo_xact_is_committing(void);
extern bool eo_xact_has_claims(void);

/*
 * Is a transaction block open?  As it was for the statement that the client
 * sent: within a subtransaction of a function PostgreSQL says "yes" always.
 * note_statement() is to be called at the start of every statement.
 */
extern bool eo_xact_in_block(void);
extern void eo_xact_note_statement(void);

/* Raise ID002 if a claim of this transaction was found lost. */
extern void eo_xact_check_lost(void);

#endif							/* EO_COMMIT_XACT_H */
