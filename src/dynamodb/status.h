/*-------------------------------------------------------------------------
 *
 * status.h
 *	  What the lower layers return, instead of raising.
 *
 * Nothing below layer 4 may throw: a longjmp through libcurl, json-c or a
 * half-written buffer leaves the process in a state nobody has described.
 * A function that can fail returns an EoStatus and, where there is more to
 * say, fills an EoError that the caller owns.  error.c turns it into an
 * ereport(), and is the only file that does.
 *
 * The values are ordered by what they say about a write, because that is
 * the question every caller asks first: was it applied?
 *
 * This header compiles without a server; test/unit depends on that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_STATUS_H
#define EO_DYNAMODB_STATUS_H

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
	EO_OK = 0,

	/* Nothing was sent: our own limits and the machine's. */
	EO_NO_MEMORY,				/* malloc failed */
	EO_TOO_LARGE,				/* a bound given at birth was exceeded */
	EO_INVALID,					/* not UTF-8, not JSON, not a number, ... */
	EO_CRYPTO,					/* OpenSSL refused */
	EO_NO_CREDENTIALS,			/* nothing to sign with */
	EO_UNREACHABLE,				/* no connection was made */

	/* The service answered, and the answer is definite: not applied. */
	EO_CONDITION_FAILED,		/* the condition expression was false */
	EO_CANCELLED,				/* a transaction: by another action than its
								 * first */
	EO_THROTTLED,				/* asked to slow down */
	EO_DENIED,					/* credentials, signature or policy */
	EO_NO_TABLE,				/* ResourceNotFoundException */
	EO_REFUSED,					/* any other definite refusal */
	EO_CONFLICT,				/* somebody else's write at that moment; retry */

	/* A read or a refused write, without an answer that can be believed. */
	EO_UNANSWERED,

	/* A write was sent, and nobody can say whether it was applied. */
	EO_UNKNOWN
} EoStatus;

#define EO_CODE_LEN 64
#define EO_MESSAGE_LEN 256
#define EO_REQUEST_ID_LEN 80

/*
 * One failure, in fixed buffers: filled without allocating, copied by value.
 * The texts of the service are untrusted: whoever stores them here has cut
 * them to length and replaced control characters (eo_error_remote()).
 */
typedef struct EoError
{
	EoStatus	status;
	int			http_status;	/* 0: no reply */
	int			attempts;		/* requests tried, 0: none */
	char		code[EO_CODE_LEN];	/* service's error code, after the '#' */
	char		message[EO_MESSAGE_LEN];	/* ours or the service's */
	char		request_id[EO_REQUEST_ID_LEN];
} EoError;

#endif							/* EO_DYNAMODB_STATUS_H */
