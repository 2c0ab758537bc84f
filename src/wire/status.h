/*-------------------------------------------------------------------------
 *
 * status.h
 *	  What the functions of this folder return instead of raising errors.
 *
 * An error must not be raised in this folder: a longjmp through libcurl, json-c
 * or a half-written buffer would leave them in an undefined state.  (The two
 * exceptions are named in http.h.)  A function that can fail returns an EoStatus
 * and, where there is more to say, fills an EoError that the caller owns.
 * server/error.c turns that into an ereport().
 *
 * The values are grouped by what they say about a write, because the first
 * question of every caller is whether it was applied.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_STATUS_H
#define EO_WIRE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EO_MUST_CHECK __attribute__((warn_unused_result))
#define EO_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define EO_MUST_CHECK
#define EO_PRINTF(f, a)
#endif

typedef enum EoStatus
{
	/* Applied. */
	EO_OK = 0,

	/* Not applied: nothing was sent. */
	EO_NO_MEMORY,				/* malloc failed */
	EO_TOO_LARGE,				/* more than a buffer's or a key's maximum */
	EO_INVALID,					/* not UTF-8, not JSON, not a record, ... */
	EO_CRYPTO,					/* OpenSSL failed, or no random numbers */
	EO_NO_CREDENTIALS,			/* there is nothing to sign with */
	EO_CREDENTIALS_AWAY,		/* nor will there be before their source
								 * answers again */
	EO_UNREACHABLE,				/* no connection was made */
	EO_NOT_ASKED,				/* the circuit of the endpoint is open, see
								 * EoCircuit */

	/*
	 * Not applied: the service said so.  Of EO_CONDITION_FAILED and
	 * EO_CANCELLED this is true for the last attempt only: an earlier one,
	 * whose answer was lost, may have been applied and be the reason of the
	 * refusal.  EoCall.in_doubt says whether there was such an attempt.
	 */
	EO_CONDITION_FAILED,		/* the condition was false */
	EO_CANCELLED,				/* a transaction, refused because of an action
								 * other than its first */
	EO_THROTTLED,				/* the service asks to slow down */
	EO_DENIED,					/* credentials, signature or policy */
	EO_NO_TABLE,				/* ResourceNotFoundException */
	EO_REFUSED,					/* any other definite refusal */
	EO_CONFLICT,				/* a concurrent write; a retry may succeed */

	/* The service answers, but the dates of its replies do not agree. */
	EO_NO_CLOCK,

	/*
	 * Not applied: a read that got no answer, or none that can be believed.
	 * For server/answer.c also a write that was refused, if the read that
	 * followed got no answer.
	 */
	EO_UNANSWERED,

	/* The write was sent, and may have been applied or not. */
	EO_UNKNOWN
} EoStatus;

#define EO_CODE_LEN 64
#define EO_MESSAGE_LEN 256
#define EO_REQUEST_ID_LEN 80

/*
 * One failure, in fixed buffers, so that it can be filled without allocating and
 * copied by value.  Texts of the service are not trusted: eo_reply_read_error()
 * and eo_header_value() keep only printable ASCII of them.
 */
typedef struct EoError
{
	EoStatus	status;
	int			http_status;	/* 0: no reply */
	int			attempts;		/* requests that were made */
	bool		own_credentials;	/* of the database server, and of no user
									 * mapping */
	bool		puzzling;		/* the service has answered, and what it says
								 * is not understood */
	char		code[EO_CODE_LEN];	/* the service's error code; "": none */
	char		message[EO_MESSAGE_LEN];	/* the transport's or the
											 * service's */
	char		request_id[EO_REQUEST_ID_LEN];
} EoError;

#endif							/* EO_WIRE_STATUS_H */
