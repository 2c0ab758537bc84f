/*-------------------------------------------------------------------------
 *
 * key.h
 *	  A key and its names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_KEY_H
#define EO_KEYS_KEY_H

#include "postgres.h"

#include "cluster/target.h"
#include "commit/xact.h"
#include "server/store.h"

/* A key and its names; see eo_key_find(). */
typedef struct EoKey
{
	EoStore    *store;
	const char *key;
	char	   *pk;
	EoTarget	target;
	uint8		digest[EO_DIGEST_LEN];
	EoTxClaim  *held;			/* by this transaction; NULL: not */
	int64		retention_s;	/* of a claim that has been read; 0: it was
								 * not */
} EoKey;

extern void eo_key_find(EoKey *k, EoStore *store, const char *key);

/* Raise 54000 if there is no room in the item for a result or error that long. */
extern void eo_key_check_size(const EoKey *k, const char *what, size_t len, const char *hint);

#endif							/* EO_KEYS_KEY_H */
