/*-------------------------------------------------------------------------
 *
 * token.h
 *	  Owner tokens.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_TOKEN_H
#define EO_RECORDS_TOKEN_H

#include "wire/hex.h"
#include "wire/status.h"

#define EO_TOKEN_LEN EO_UUID_TEXT_LEN

/*
 * Make a new token: 128 random bits, spelled as a version 4 UUID (RFC 9562).
 * EO_CRYPTO if the kernel gives no random numbers.
 */
extern EoStatus eo_token_make(char token[EO_TOKEN_LEN + 1]) EO_MUST_CHECK;

#endif							/* EO_RECORDS_TOKEN_H */
