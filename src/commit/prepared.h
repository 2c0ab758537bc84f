/*-------------------------------------------------------------------------
 *
 * prepared.h
 *	  Prepared transactions: their claims, and the end of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_PREPARED_H
#define EO_COMMIT_PREPARED_H

#include "postgres.h"

#include "cluster/slots.h"
#include "lib/ilist.h"
#include "utils/timestamp.h"

/*
 * eo_slot_view_find(), for the sessions: a claim of a prepared transaction that has ended is
 * not held any more, even if the worker does not know that yet.
 */
extern bool eo_prepared_find_slot(const uint8 *digest, EoSlotView *view);

/*
 * Does a prepared transaction complete the claim on a key?  One that was made before this
 * transaction (token; NULL: it was not) may be completed by another address of its table.
 */
extern bool eo_prepared_completes(const uint8 *digest, const char *token);

/*
 * Before a transaction with these claims (EoTxClaim) is sealed by PREPARE: raise 55000 if none can
 * be prepared, and 0A000 if one of the claims cannot outlive its session.
 */
extern void eo_prepared_check_claims(const dlist_head *claims);

/*
 * Before COMMIT PREPARED: raise ID002 if other data is known to have taken over from the
 * life under which the transaction was sealed.  Waits a moment if the worker is about to
 * find that out.
 */
extern void eo_prepared_check_commit(const char *gid);

/* After COMMIT PREPARED and ROLLBACK PREPARED: wake the worker. */
extern void eo_prepared_ended(void);

/* The prepared transactions of this database that have claims. */
typedef struct EoPreparedCount
{
	int			transactions;
	int			claims;
	TimestampTz oldest;			/* 0: there are none */
} EoPreparedCount;

extern void eo_prepared_count(EoPreparedCount *count);

#endif							/* EO_COMMIT_PREPARED_H */
