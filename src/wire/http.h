/*-------------------------------------------------------------------------
 *
 * http.h
 *	  HTTP requests in flight, and the one place where a backend waits.
 *
 * A transfer is one request.  The caller owns the EoHttpTransfer, starts it,
 * waits until something has finished, looks at the reply and finishes it;
 * several may be in flight.  All instants are microseconds of the monotonic
 * clock (eo_clock_monotonic_us()), all deadlines absolute.
 *
 * Two functions raise errors.  Both do on their first use in a process, if there
 * are no descriptors or no memory left.  eo_http_wait() also does whenever
 * CHECK_FOR_INTERRUPTS() does; every transfer in flight has been ended by then,
 * and its connection closed.
 *
 * This header compiles without a server, so that test/unit can link another
 * transport.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_HTTP_H
#define EO_WIRE_HTTP_H

#include "wire/status.h"

/*
 * Longest reply that is read.  An item has at most 409,600 bytes; the wire
 * spells a control character in six (a \u escape), so six times that, and some
 * room for names and braces.  An item of very many empty values can be longer.
 */
#define EO_HTTP_MAX_REPLY (6 * 409600 + 65536)

/*
 * The same of a page of a scan, which has at most a megabyte of items.  The wire
 * spells most texts in at most three times their bytes; if it takes more, smaller
 * pages are asked for (commit/scan.c).
 */
#define EO_HTTP_MAX_PAGE (3 * 1048576 + 65536)

/* Longest reply that brings credentials or a token. */
#define EO_HTTP_MAX_SECRET_REPLY 65536

#define EO_HTTP_MAX_HEADERS 10

/* Both modes answer interrupts: a cancel, a timeout or a termination raises. */
typedef enum EoWaitMode
{
	EO_WAIT_RAISE,				/* a set latch does not end the wait */
	EO_WAIT_LATCH				/* a set latch ends the wait */
} EoWaitMode;

typedef enum EoHttpMethod
{
	EO_HTTP_POST,
	EO_HTTP_GET,				/* has no body */
	EO_HTTP_PUT
} EoHttpMethod;

typedef struct EoHttpEndpoint
{
	const char *url;			/* "https://host[:port]/", or with a path */
	const char *ca_file;		/* NULL: the system's */
	bool		plain_http;		/* the URL is http, and that is allowed */
	bool		remote_only;	/* never connect to an address of this machine
								 * or of its link */
	int			connect_timeout_ms;
} EoHttpEndpoint;

typedef struct EoHttpRequest
{
	EoHttpMethod method;
	bool		has_secret_reply;	/* at most EO_HTTP_MAX_SECRET_REPLY bytes,
									 * which are wiped; the caller may write
									 * to them */
	bool		is_page;		/* the reply has up to EO_HTTP_MAX_PAGE bytes */
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
	 * EO_OK: there is a whole reply, of any HTTP status, and its checksum is
	 * right if it has one.  EO_UNREACHABLE or EO_NO_MEMORY: no byte of the
	 * request was sent.  EO_UNKNOWN: some may have been, but there is no
	 * reply that can be used.
	 */
	EoStatus	status;

	/*
	 * EO_UNREACHABLE: nobody listened, the name was not found, or connecting
	 * took too long.  All of these may pass, unlike a bad certificate.
	 */
	bool		refused;

	/*
	 * EO_UNKNOWN: the reply is longer than what is read, and http_status is
	 * its own.
	 */
	bool		oversized;
	int			http_status;
	const char *body;			/* borrowed until eo_http_finish() */
	size_t		body_len;
	int64_t		date_s;			/* the Date header, epoch seconds; 0: none */
	int			retry_after_ms; /* x-amz-retry-after; -1: none */
	char		request_id[EO_REQUEST_ID_LEN];
	char		message[EO_MESSAGE_LEN];	/* unless EO_OK: what happened */
} EoHttpReply;

typedef struct EoHttpTransfer
{
	bool		done;			/* the reply is there */
	EoHttpReply reply;
	struct EoHttpHandle *handle;	/* NULL: not started, or finished */
} EoHttpTransfer;

/*
 * Start a transfer.  Returns EO_OK, or EO_NO_MEMORY: then nothing was sent and
 * there is nothing to finish.
 */
extern EoStatus eo_http_start(EoHttpTransfer *t, const EoHttpRequest *req) EO_MUST_CHECK;

/*
 * Wait until at least one transfer has become done, or until until_us, or in
 * EO_WAIT_LATCH mode until the latch is set.  With nothing in flight this is an
 * interruptible sleep.
 */
extern void eo_http_wait(int64_t until_us, EoWaitMode mode);

/*
 * Release what a transfer holds; its reply's body is gone then.  One that is still
 * in flight is ended and its connection closed.  One that was finished is ignored.
 */
extern void eo_http_finish(EoHttpTransfer *t);

/* The same for each transfer of this process that is in flight. */
extern void eo_http_end_all(void);

/*
 * Read the system's certificate authorities in the postmaster, so that the processes that it
 * forks need not.  If that fails, each of them reads them by itself.
 */
extern void eo_http_preload(void);

/*
 * Never again use a connection that is open now.  For a caller that got a reply
 * which is not the answer to its request: the next reply on that connection might
 * be the answer to an earlier request.
 */
extern void eo_http_distrust(void);

#endif							/* EO_WIRE_HTTP_H */
