/*-------------------------------------------------------------------------
 *
 * transact.h
 *	  A key completed together with writes of the caller's in DynamoDB.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_TRANSACT_H
#define EO_KEYS_TRANSACT_H

#include "postgres.h"

#include "keys/acquire.h"
#include "keys/transact_items.h"
#include "server/store.h"

typedef struct EoTransact
{
	const char *key;
	const EoTransactItems *actions;
	const char *result;			/* JSON text; NULL: none */
	const char *payload_sha256; /* NULL: no payload given */
} EoTransact;

/*
 * Takes effect at once, whatever becomes of the transaction at hand.  The claim
 * is completed, now or before (then it is replayed), or says what stands in the
 * way.  Raises for a write of the caller's that was refused (ID007): then
 * nothing was written.
 */
extern void eo_transact(EoStore *store, const EoTransact *ask, EoClaim *claim);

#endif							/* EO_KEYS_TRANSACT_H */
