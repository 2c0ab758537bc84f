/*-------------------------------------------------------------------------
 *
 * token.c
 *	  Owner tokens.
 *
 *-------------------------------------------------------------------------
 */
#include "records/token.h"

#include <string.h>
#include <sys/random.h>

/*
 * Random bytes come from a small store, because a call of getrandom(2) costs as
 * much for sixteen bytes as for all of it.  Bytes that were handed out are wiped.
 * Child processes do not share a store, because the postmaster makes no token.
 */
static bool
random_bytes(uint8_t *out, size_t n)
{
	static uint8_t store[256];	/* getrandom(2) returns up to 256 at once */
	static size_t left = 0;

	if (left < n)
	{
		left = 0;
		if (getrandom(store, sizeof(store), 0) != sizeof(store))
			return false;
		left = sizeof(store);
	}
	memcpy(out, store + left - n, n);
	explicit_bzero(store + left - n, n);
	left -= n;
	return true;
}

EoStatus
eo_token_make(char token[EO_TOKEN_LEN + 1])
{
	uint8_t		b[EO_UUID_LEN];

	if (!random_bytes(b, sizeof(b)))
		return EO_CRYPTO;
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	eo_hex_put_uuid(b, token);
	return EO_OK;
}
