/*-------------------------------------------------------------------------
 *
 * sigv4.h
 *	  AWS Signature Version 4.
 *
 * Source of the rules: AWS Identity and Access Management User Guide,
 * "Create a signed AWS API request".  A pure function of its arguments: no
 * clock, no environment.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_SIGV4_H
#define EO_DYNAMODB_SIGV4_H

#include "dynamodb/buf.h"
#include "dynamodb/crypto.h"
#include "dynamodb/status.h"

/* What to sign with.  Strings are borrowed; session_token may be NULL. */
typedef struct EoCredentials
{
	const char *access_key_id;
	const char *secret_access_key;
	const char *session_token;
} EoCredentials;

/*
 * A header as signed: name in lower case, value trimmed (sigv4.c folds inner
 * runs of blanks itself).  The array is sorted by name by the caller, who
 * fixes the request's shape anyway.
 */
typedef struct EoHeader
{
	const char *name;
	const char *value;
} EoHeader;

typedef struct EoSigningRequest
{
	const char *method;			/* "POST" */
	const char *path;			/* canonical URI, "/" */
	const char *query;			/* canonical query string, "" */
	const EoHeader *headers;
	int			nheaders;
	const char *body;
	size_t		body_len;
	const char *amz_date;		/* "20260101T000000Z" */
	const char *region;
	const char *service;
} EoSigningRequest;

/*
 * Holds what is worth keeping between requests: the contexts of crypto.c, and in
 * them the signing key of (secret, day, region, service).  One per process is
 * enough; not thread-safe.
 */
typedef struct EoSigner EoSigner;

extern EoSigner *eo_sigv4_create(void); /* NULL: OpenSSL or memory */
extern void eo_sigv4_free(EoSigner *signer);	/* wipes; NULL is fine */
extern void eo_sigv4_forget(EoSigner *signer);	/* wipes the cached key */

/*
 * Append the value of the Authorization header to out.
 * EO_CRYPTO, EO_NO_MEMORY, EO_TOO_LARGE.
 */
extern EoStatus eo_sigv4_sign(EoSigner *signer, const EoCredentials *cred,
							  const EoSigningRequest *req, EoBuf *out) EO_MUST_CHECK;

/*
 * The intermediate texts, for the published test vectors and for nobody
 * else: canonical request and string to sign, appended to the buffers.
 */
extern EoStatus eo_sigv4_texts(EoSigner *signer, const EoSigningRequest *req,
							   EoBuf *canonical, EoBuf *to_sign) EO_MUST_CHECK;

/* The contexts, for other uses. */
extern EoCrypto *eo_sigv4_crypto(EoSigner *signer);

#endif							/* EO_DYNAMODB_SIGV4_H */
