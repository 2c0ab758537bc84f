/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Credentials that somebody hands out, and the answers that bring them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_IDENTITY_IDENTITY_H
#define EO_IDENTITY_IDENTITY_H

#include "wire/buf.h"
#include "wire/endpoint.h"
#include "wire/sigv4.h"
#include "wire/status.h"

#define EO_MAX_KEY_ID 128
#define EO_MAX_SECRET 256
#define EO_MAX_SESSION_TOKEN 4096

/* To be kept in memory of secret.h, and nowhere else. */
typedef struct EoIdentity
{
	char		access_key_id[EO_MAX_KEY_ID + 1];	/* "": there is none */
	char		secret_access_key[EO_MAX_SECRET + 1];
	char		session_token[EO_MAX_SESSION_TOKEN + 1];	/* "": none */
	int64_t		expires_s;		/* epoch seconds; 0: never */
	char		region[EO_MAX_REGION + 1];	/* of an instance that was asked
											 * for it; "" */
} EoIdentity;

/* The owner of credentials, as STS names it.  This is no secret. */
#define EO_MAX_ACCOUNT 15
#define EO_MAX_CALLER_ARN 511
typedef struct EoCaller
{
	char		account[EO_MAX_ACCOUNT + 1];
	char		arn[EO_MAX_CALLER_ARN + 1];
} EoCaller;

/* A reply of STS. */
typedef struct EoStsReply
{
	int			http_status;
	char	   *text;			/* is wiped if it has credentials */
	size_t		len;
	bool		skewed;			/* set if the time of the signature may be the
								 * reason of the refusal */
} EoStsReply;

/*
 * Set the identity; token may be NULL.  EO_INVALID: a part is missing, too long, or
 * has characters that no header may have.  The identity is empty then.
 */
extern EoStatus eo_identity_set(EoIdentity *identity, const char *key_id, const char *secret,
								const char *token) EO_MUST_CHECK;

/* Has it a key id and a secret, and nothing that a header may not have? */
extern bool eo_identity_is_sound(const EoIdentity *identity);

/* The identity to sign with; its strings are those of identity. */
extern EoCredentials eo_identity_credentials(const EoIdentity *identity);

/*
 * Read the answer of the metadata service, or of a container's endpoint.  EO_INVALID:
 * it is not one, and message (of EO_MESSAGE_LEN) says why.  The text is wiped.
 */
extern EoStatus eo_identity_read_json(char *text, size_t len, EoIdentity *identity,
									  char *message) EO_MUST_CHECK;

/* Append the body of AssumeRole, or with a token that of AssumeRoleWithWebIdentity. */
extern void eo_identity_put_role(EoBuf *body, const char *arn, const char *session_name,
								 const char *external_id, int duration_s, const char *web_token);

/*
 * Read the answer of STS to it.  EO_DENIED: STS has refused it, and message has its code
 * and its text.  EO_UNANSWERED: it may be asked again.  EO_INVALID: as above.
 */
extern EoStatus eo_identity_read_role(EoStsReply *reply, bool web, EoIdentity *identity,
									  char *message) EO_MUST_CHECK;

/* Append the body of GetCallerIdentity, and read the answer to it in the same way. */
extern void eo_identity_put_caller(EoBuf *body);
extern EoStatus eo_identity_read_caller(EoStsReply *reply, EoCaller *caller,
										char *message) EO_MUST_CHECK;

#endif							/* EO_IDENTITY_IDENTITY_H */
