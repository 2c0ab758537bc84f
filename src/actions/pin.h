/*-------------------------------------------------------------------------
 *
 * pin.h
 *	  PINs: what an action stores of one, and whether a guess is right.
 *
 * id and pin are UTF-8.  Hashing and checking take some 50 ms each, in which the
 * backend cannot be interrupted.  All functions raise XX000 if OpenSSL fails.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_ACTIONS_PIN_H
#define EO_ACTIONS_PIN_H

#include "postgres.h"

#include "server/store.h"

typedef enum EoPinMatch
{
	EO_PIN_RIGHT,
	EO_PIN_WRONG,
	EO_PIN_UNREADABLE			/* the stored hash is not of this form */
} EoPinMatch;

/*
 * The first 8 hexadecimal digits of an HMAC of the server's pepper, palloc'd;
 * NULL: it has none, or its hashes are made without one.  Stored beside the hash
 * of a PIN, they detect a changed pepper: a PIN can be checked only with the
 * pepper it was hashed with.
 */
extern char *eo_pin_pepper_digest(EoStore *store);

/* The hash that an item keeps of a PIN, palloc'd; at most EO_PIN_HASH_LEN bytes. */
extern char *eo_pin_hash(EoStore *store, const char *id, const char *pin);

/* The length of such a hash: one of another length cannot be checked. */
extern size_t eo_pin_hash_len(const EoStore *store);

/* Compare a guess with a stored hash, in constant time. */
extern EoPinMatch eo_pin_check(EoStore *store, const char *id, const char *pin,
							   const char *hash);

#endif							/* EO_ACTIONS_PIN_H */
