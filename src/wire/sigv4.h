/*-------------------------------------------------------------------------
 *
 * sigv4.h
 *	  AWS Signature Version 4.
 *
 * Source of the rules: AWS Identity and Access Management User Guide,
 * "Create a signed AWS API request".  A pure function of its arguments: no
 * clock, no environment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_SIGV4_H
#define EO_WIRE_SIGV4_H

#include "wire/buf.h"
#include "wire/crypto.h"
#include "wire/status.h"

/* Credentials to sign with.  Strings are borrowed; session_token may be NULL. */
typedef struct EoCredentials
{
	const char *access_key_id;
	const char *secret_access_key;
	const char *session_token;
} EoCredentials;

/*
 * A header that is signed.  The name is in lower case, and the caller sorts the
 * headers by name.  The value has no blanks at its ends, and no two in a row.
 */
typedef struct EoHeader
{
	const char *name;
	const char *value;
} EoHeader;

/* A POST to the path "/", without a query. */
typedef struct EoSigningRequest
{
	const EoHeader *headers;
	int			nheaders;
	const char *body;
	size_t		body_len;
	const char *amz_date;		/* "20260101T000000Z" */
	const char *region;
	const char *service;
	size_t		body_common;	/* with as many bytes other bodies begin, too */
} EoSigningRequest;

/*
 * Keeps between requests the contexts of crypto.c and, in them, the signing key
 * of (secret, day, region, service).  Not thread-safe.
 */
typedef struct EoSigner EoSigner;

/* Returns NULL if OpenSSL fails or there is no memory. */
extern EoSigner *eo_sigv4_create(void);

/* Wipes the key; signer may be NULL. */
extern void eo_sigv4_free(EoSigner *signer);

/*
 * Append the value of the Authorization header to out.  Returns EO_OK, EO_CRYPTO,
 * EO_NO_MEMORY, EO_TOO_LARGE, or EO_INVALID for an amz_date that is too short.
 */
extern EoStatus eo_sigv4_sign(EoSigner *signer, const EoCredentials *cred,
							  const EoSigningRequest *req, EoBuf *out) EO_MUST_CHECK;

#endif							/* EO_WIRE_SIGV4_H */
