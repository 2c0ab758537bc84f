/*-------------------------------------------------------------------------
 *
 * tx_claim.h
 *	  A claim of the current transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_TX_CLAIM_H
#define EO_COMMIT_TX_CLAIM_H

#include "postgres.h"

#include "cluster/slot.h"
#include "lib/ilist.h"
#include "server/error.h"
#include "server/store.h"
#include "wire/hex.h"

/*
 * The effect of COMMIT on a claim that was neither completed nor failed nor
 * released.
 */
typedef enum EoUnsettled
{
	EO_UNSETTLED_FAILS,			/* raises ID009; the claim was made in a
								 * transaction block */
	EO_UNSETTLED_WARNS,			/* keeps the claim, which was made outside a
								 * block; a WARNING if the statement has
								 * written data */
	EO_UNSETTLED_STAYS			/* keeps the claim: on_commit => 'keep' or
								 * 'session', or it is older than the
								 * transaction */
} EoUnsettled;

/*
 * A claim of the current transaction: the part of it that only this process needs.
 * Its state, and all that other processes need, is in its slot, see slot.h.  The
 * slot belongs to this claim until the transaction ends, or the subtransaction
 * that made the claim is rolled back.  The struct, key, pk and result last as
 * long; they are in a memory context of xact.c.
 */
typedef struct EoTxClaim
{
	dlist_node	node;			/* in the list of the transaction's claims */
	struct EoTxClaim *next;		/* in its hash bucket */
	EoStore    *store;
	char	   *key;			/* as the user gave it */
	char	   *pk;				/* partition key of the record */
	EoSlotRef	slot;
	const EoSlotInfo *info;		/* the slot itself, for reading only; see
								 * eo_slot_own() */
	SubTransactionId level;		/* the claim ends if this one is rolled back */
	SubTransactionId completed_at;	/* and its completion is undone if this
									 * one is; InvalidSubTransactionId: it is
									 * not completed */
	EoUnsettled unsettled;
	bool		earlier;		/* the claim is older than this transaction */
	bool		of_session;		/* ... and this session holds it */
	bool		in_doubt;		/* its seal was refused, but an earlier copy
								 * of that request may still arrive */
	bool		untried;		/* the work has not begun, so that an abort
								 * counts no run */
	uint8		row_life[EO_UUID_LEN];	/* that its row of the outbox names */
	const struct EoActionSeal *action;	/* it consumes an action; NULL: it is
										 * about a key.  Lasts as long as the
										 * transaction */
	const EoGuard *guard;		/* the trigger that made the claim; NULL: a
								 * function call did */
	char	   *progress;		/* JSON text, the last that was seen; NULL:
								 * none */
	int64		progress_no;
	char	   *result;			/* JSON text to complete with; NULL: none */
	size_t		result_len;
	char	   *handler;		/* that it was claimed for, in UTF-8; NULL:
								 * none */
	int64		spared;			/* as the record said, see EoRecord */
	int			writes;			/* made with its finish; of a completed claim */
	int64		write_number;	/* of the row that has them */
	uint64		writes_hash;	/* eo_writes_hash() of them */
} EoTxClaim;

#endif							/* EO_COMMIT_TX_CLAIM_H */
