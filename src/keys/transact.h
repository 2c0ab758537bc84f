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
#include "keys/key.h"
#include "keys/transact_items.h"
#include "server/store.h"

/* The arguments of idem_transact(). */
typedef struct EoTransact
{
	const char *key;
	const EoTransactItems *actions; /* the caller's writes */
	const char *result;			/* JSON text; NULL: none */
	const char *payload_sha256; /* NULL: no payload given */
} EoTransact;

/*
 * Complete a key and make the caller's writes, all of it or nothing.  Takes effect at
 * once, whatever becomes of the current transaction.  The outcome of the claim is
 * "completed", with replayed if that was done before; or it says what prevents it.
 * Waits interruptibly.
 *
 * Raises ID007 if a write of the caller's is refused, and then nothing was written;
 * ID008 if this transaction or session holds the key; ID003, ID006 and 40001 as
 * eo_acquire(); 22023, 42501 or HV00J for writes that are not allowed; 54000 for too
 * large ones.
 */
extern void eo_transact(EoStore *store, const EoTransact *ask, EoClaim *claim);

/*
 * Check that writes of a function for a key are allowed: their tables by the server, and
 * that none is about a record.  Raises 22023, 42501 or HV00J.
 */
extern void eo_transact_check(const EoKey *k, const char *function,
							  const EoTransactItems *actions);

#endif							/* EO_KEYS_TRANSACT_H */
