/*-------------------------------------------------------------------------
 *
 * http.h
 *	  HTTP requests in flight, and the one place where a backend waits.
 *
 * A transfer is one POST.  The caller owns the EoHttpTransfer, starts it,
 * waits until something has finished, looks at the reply and finishes it;
 * several may be in flight.  All instants are microseconds of the monotonic
 * clock (eo_clock_monotonic_us()), all deadlines absolute.
 *
 * Nothing here raises, with two exceptions that are named: eo_http_start()
 * on its first use in a process (no descriptors left), and waiting in
 * EO_WAIT_RAISE mode, where CHECK_FOR_INTERRUPTS() may leave the function.
 * By then every transfer in flight has been ended and its connection closed.
 *
 * This header compiles without a server, so that layers above can be tested
 * with another transport linked in.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_HTTP_H
#define EO_DYNAMODB_HTTP_H

#include "dynamodb/status.h"

/*
 * Longest reply that is read.  An item has at most 409,600 bytes; the wire
 * spells a four-byte character in twelve (two \u escapes) and a two-byte one
 * in six, so three times that, and some room for names and braces.
 */
#define EO_HTTP_MAX_REPLY (3 * 409600 + 65536)

#define EO_HTTP_MAX_HEADERS 10

typedef enum EoWaitMode
{
	EO_WAIT_RAISE,				/* cancel, timeout and terminate leave the
								 * wait */
	EO_WAIT_LATCH				/* as EO_WAIT_RAISE, and a set latch ends it */
} EoWaitMode;

typedef struct EoHttpEndpoint
{
	const char *url;			/* "https://host[:port]/" */
	const char *ca_file;		/* NULL: the system's */
	bool		plain_http;		/* the URL is http, and that was allowed */
	int			connect_timeout_ms;
} EoHttpEndpoint;

typedef struct EoHttpRequest
{
	const EoHttpEndpoint *endpoint;
	const char *const *headers; /* "Name: value" */
	int			nheaders;
	const char *body;			/* must outlive the transfer */
	size_t		body_len;
	int64_t		deadline_us;	/* of this attempt */
} EoHttpRequest;

typedef struct EoHttpReply
{
	/*
	 * EO_OK: a whole reply of any HTTP status, and its checksum, if it bore
	 * one, is right.  EO_UNREACHABLE: no byte of the request was sent.
	 * EO_UNKNOWN: it may have been.  EO_NO_MEMORY.
	 */
	EoStatus	status;
	int			http_status;
	const char *body;			/* borrowed until eo_http_finish() */
	size_t		body_len;
	int64_t		date_s;			/* the Date header, epoch seconds; 0: none */
	int			retry_after_ms; /* x-amz-retry-after; -1: none */
	char		request_id[EO_REQUEST_ID_LEN];
	char		message[EO_MESSAGE_LEN];	/* of a failure */
} EoHttpReply;

typedef struct EoHttpTransfer
{
	bool		done;			/* the reply is there */
	EoHttpReply reply;
	struct EoHttpHandle *handle;	/* NULL: not in flight, nothing to finish */
} EoHttpTransfer;

extern EoStatus eo_http_start(EoHttpTransfer *t, const EoHttpRequest *req) EO_MUST_CHECK;

/*
 * Return when at least one transfer has become done, or at until_us, or in
 * EO_WAIT_LATCH mode when the latch was set.  With nothing in flight it is a
 * sleep that can be interrupted.
 */
extern void eo_http_wait(int64_t until_us, EoWaitMode mode);

/* Give the handle back; a transfer still in flight is ended, its connection closed. */
extern void eo_http_finish(EoHttpTransfer *t);

/*
 * Reuse no connection that is open now: a reply was not what was asked for,
 * so the next one on the same stream might be the answer to this one.
 */
extern void eo_http_distrust(void);

#endif							/* EO_DYNAMODB_HTTP_H */
