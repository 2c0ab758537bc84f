/*-------------------------------------------------------------------------
 *
 * pin.h
 *	  PINs: what is stored of one, and whether a guess is right.
 *
 * id and pin are UTF-8.  Both functions take some 50 ms, in which the backend
 * cannot be interrupted, and raise XX000 if OpenSSL fails.
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
	EO_PIN_UNREADABLE			/* the hash is not of this form */
} EoPinMatch;

/*
 * By what the pepper of this server is known, palloc'd; NULL: it has none.  A PIN
 * can be checked only with the pepper it was hashed with.
 */
extern char *eo_pin_pepper(EoStore *store);

/* What an item keeps of a PIN, palloc'd; at most EO_ACTIONS_PIN_HASH_LEN bytes. */
extern char *eo_pin_hash(EoStore *store, const char *id, const char *pin);

extern EoPinMatch eo_pin_check(EoStore *store, const char *id, const char *pin,
							   const char *hash);

/* An id that nobody guesses: 128 random bits, 22 characters of base64url. */
#define EO_ACTION_ID_LEN 22
extern void eo_action_make_id(char id[EO_ACTION_ID_LEN + 1]);

#endif							/* EO_ACTIONS_PIN_H */
