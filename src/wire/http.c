/*-------------------------------------------------------------------------
 *
 * http.c
 *	  HTTP over libcurl, and the one waiting loop of the project.
 *
 * The only file that includes curl.  One multi handle per process drives all transfers.
 * Its sockets are watched by one epoll descriptor; that descriptor, the process latch and
 * the postmaster's death are waited on together, in eo_http_wait() and nowhere else.
 * curl's timer is kept as an instant and bounds the wait.
 *
 * What a maintainer must hold in mind:
 *
 * - libcurl's callbacks run below curl's frames.  They allocate nothing from PostgreSQL
 *	 and call nothing that can raise: a longjmp would leave curl's structures half-changed.
 *
 * - Nothing of curl exists before the first request of a process: the postmaster must
 *	 stay single-threaded, and its children must not inherit its state over fork().  They
 *	 inherit the system's certificate authorities, as OpenSSL has read them.
 *
 * - libcurl resolves names in a thread of its own.  A thread inherits the signal mask of
 *	 its creator, and PostgreSQL's handlers must never run on it; so signals are
 *	 blocked around the step that starts a transfer.
 *
 * - A connection is reused only after a reply that was whole and believed.  A transfer
 *	 ended early closes its connection (curl does so for HTTP/1.1).  After a reply that
 *	 is not believed, eo_http_distrust() has all idle connections closed before the next
 *	 transfer starts.
 *
 * - libcurl repeats a request by itself, and says nothing, if a reused connection is
 *	 closed before a byte of the reply arrives.  The first copy may have been applied,
 *	 and the caller must know that when it judges the final answer.  So before_request()
 *	 refuses to send a second copy, and every repetition is one of call.c's.
 *
 * - Handles are pooled with their constant options set once, in set_constant_options();
 *	 every option that differs between requests is set by every request, in
 *	 set_request_options(), so nothing leaks from one to the next.  A handle is kept only
 *	 after a transfer that libcurl has ended without an error: after some, it leaves a
 *	 buffer with the handle, and refuses to change options of that handle for ever.
 *
 *-------------------------------------------------------------------------
 */
#include <curl/curl.h>

#include "postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "compat.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/pg_crc.h"
#include "wire/buf.h"
#include "wire/clock.h"
#include "wire/crypto.h"
#include "wire/endpoint.h"
#include "wire/header.h"
#include "wire/http.h"
#include "wire/wait_set.h"

/* A reply buffer larger than this is freed instead of kept with its handle. */
#define KEEP_BUFFER 65536

/*
 * libcurl receives into a buffer that it allocates for every transfer.  Most replies have
 * less than a kilobyte.
 */
#define USUAL_BUFFER 4096L
#define PAGE_BUFFER 16384L

/* Longest text of all headers of a request.  A session token has some kilobytes. */
#define MAX_HEADER_TEXT 16384

/* Longest head of a reply.  Before 8.3 libcurl reads it for as long as it comes. */
#define MAX_REPLY_HEAD 65536

/* Handles and connections that are kept for reuse; more may be in flight. */
#define KEEP_HANDLES 64

/*
 * Idle time after which a connection is not reused.  The service closes an idle connection
 * after about 60 seconds; a request must not be sent into that moment.
 */
#define MAX_IDLE_SECONDS 50L

/* Longest single wait, which bounds the cost of a lost wake-up. */
#define MAX_WAIT_MS 10000

typedef struct EoHttpHandle
{
	dlist_node	node;			/* in http.running or http.idle */
	CURL	   *easy;

	/* The request's headers, and the list of them that curl reads. */
	EoBuf		header_text;
	struct curl_slist headers[EO_HTTP_MAX_HEADERS];

	/* The endpoint that set_endpoint_options() has set last. */
	char	   *url;
	char	   *ca_file;
	int			connect_timeout_ms;

	EoHttpTransfer *transfer;	/* NULL while idle */
	size_t		head_len;		/* bytes of the reply's head so far */
	EoBuf		body;
	bool		has_secret_reply;
	bool		remote_only;	/* as in the endpoint */
	bool		barred;			/* an address was refused for that reason */
	bool		sent;			/* a copy of the request has gone out */
	bool		reusable;		/* the transfer ended without an error */
	bool		has_crc;
	uint32		crc;
	char		message[CURL_ERROR_SIZE];
} EoHttpHandle;

static struct
{
	bool		has_authorities;	/* the postmaster has read the system's */
	bool		ready;
	CURLM	   *multi;
	WaitEventSet *waits;
	int64		timer_us;		/* curl's next timer; -1: none */
	bool		distrusted;		/* close all connections when none is busy */
	bool		failed;			/* curl can go on with no transfer */
	bool		finished;		/* a transfer has become done in this wait */
	int			nrunning;
	int			nidle;
	dlist_head	running;
	dlist_head	idle;
}			http;

static bool is_openssl(void);
static void init_process(void);
static bool open_multi(void);
static EoHttpHandle *take_handle(void);
static bool set_constant_options(EoHttpHandle *h);
static bool set_endpoint_options(EoHttpHandle *h, const EoHttpEndpoint *e);
static bool set_headers(EoHttpHandle *h, const EoHttpRequest *req);
static bool set_request_options(EoHttpHandle *h, const EoHttpRequest *req);
static void put_handle(EoHttpHandle *h);
static void free_handle(EoHttpHandle *h);
static void drive_timer(void);
static void drive_sockets(void);
static void collect_finished(void);
static void end_transfer(EoHttpHandle *h, CURLcode code);
static void judge(EoHttpHandle *h, CURLcode code);
static void answer_interrupts(void);

EoStatus
eo_http_start(EoHttpTransfer *t, const EoHttpRequest *req)
{
	EoHttpHandle *h;

	memset(t, 0, sizeof(*t));
	t->reply.retry_after_ms = -1;
	init_process();

	/* The multi handle owns the idle connections: a new one has none. */
	if (http.distrusted && http.nrunning == 0)
	{
		curl_multi_cleanup(http.multi);
		http.multi = NULL;
		http.distrusted = false;
	}
	if (http.multi == NULL && !open_multi())
		return EO_NO_MEMORY;

	h = take_handle();
	if (h == NULL)
		return EO_NO_MEMORY;
	if (!set_request_options(h, req) ||
		curl_multi_add_handle(http.multi, h->easy) != CURLM_OK)
	{
		put_handle(h);
		return EO_NO_MEMORY;
	}
	h->transfer = t;
	t->handle = h;
	dlist_push_tail(&http.running, &h->node);
	http.nrunning++;
	return EO_OK;
}

void
eo_http_wait(int64_t until_us, EoWaitMode mode)
{
	bool		latch_was_set = false;

	init_process();
	http.finished = http.failed = false;
	for (;;)
	{
		int64		now = eo_clock_monotonic_us();
		int64		wake_us = until_us;
		long		timeout_ms;
		WaitEvent	events[2];
		int			n;

		if (http.timer_us >= 0 && http.timer_us <= now)
			drive_timer();
		collect_finished();
		if (http.finished || now >= until_us)
			break;
		if (latch_was_set && mode == EO_WAIT_LATCH)
			return;
		if (http.timer_us >= 0 && http.timer_us < wake_us)
			wake_us = http.timer_us;
		timeout_ms = wake_us <= now ? 0 : (long) ((wake_us - now + 999) / 1000);
		if (timeout_ms > MAX_WAIT_MS)
			timeout_ms = MAX_WAIT_MS;

		n = WaitEventSetWait(http.waits, timeout_ms, events, lengthof(events),
							 eo_compat_wait_event(http.nrunning == 0));
		for (int i = 0; i < n; i++)
		{
			if (events[i].events & WL_LATCH_SET)
			{
				ResetLatch(MyLatch);
				latch_was_set = true;
			}
		}
		if (latch_was_set)
			answer_interrupts();
		for (int i = 0; i < n; i++)
			if (events[i].events & WL_SOCKET_READABLE)
				drive_sockets();
	}

	/* The latch may have been set for another purpose: leave it set. */
	if (latch_was_set)
		SetLatch(MyLatch);
}

void
eo_http_finish(EoHttpTransfer *t)
{
	EoHttpHandle *h = t->handle;

	if (h == NULL)
		return;
	t->handle = NULL;
	if (!t->done)
	{
		/* Removing an unfinished transfer closes its connection. */
		curl_multi_remove_handle(http.multi, h->easy);
		dlist_delete(&h->node);
		http.nrunning--;
	}
	put_handle(h);
}

void
eo_http_distrust(void)
{
	http.distrusted = true;
}

/*
 * CHECK_FOR_INTERRUPTS(), with every transfer ended if it raises.  The message and
 * the SQLSTATE of a cancel are PostgreSQL's own.
 */
static void
answer_interrupts(void)
{
	if (!INTERRUPTS_PENDING_CONDITION())
		return;
	PG_TRY();
	{
		CHECK_FOR_INTERRUPTS();
	}
	PG_CATCH();
	{
		eo_http_end_all();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

void
eo_http_end_all(void)
{
	while (!dlist_is_empty(&http.running))
	{
		EoHttpHandle *h = dlist_head_element(EoHttpHandle, node, &http.running);

		eo_http_finish(h->transfer);
	}
}

/* ----- set-up ----- */

/*
 * PostgreSQL's postmaster loads certificates of its own, too.  To read the authorities takes
 * a process longer than everything else that its first request does.
 */
void
eo_http_preload(void)
{
	const		curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);

	http.has_authorities = is_openssl() && info->cainfo != NULL &&
		eo_crypto_read_authorities(info->cainfo, info->capath);
}

/* libcurl may have another library for TLS. */
static bool
is_openssl(void)
{
	return strncmp(curl_version_info(CURLVERSION_NOW)->ssl_version, "OpenSSL/3", 9) == 0;
}

/*
 * Set up what a process needs, on its first use.  Raises an error if there are no
 * descriptors or no memory; nothing is in flight then, and a later call tries again.
 */
static void
init_process(void)
{
	static bool curl_ready = false;

	if (http.ready)
		return;
	/* It would have libcurl write the keys of all connections to a file. */
	unsetenv("SSLKEYLOGFILE");
	if (!curl_ready && curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not initialize libcurl")));
	curl_ready = true;
	dlist_init(&http.running);
	dlist_init(&http.idle);
	http.timer_us = -1;

	http.waits = eo_wait_set_open();
	http.ready = true;
}

/* Called by curl: which socket to watch, and for what. */
static int
socket_callback(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	(void) easy, (void) arg;
	if (what == CURL_POLL_REMOVE)
	{
		eo_wait_set_forget(fd);
		return 0;
	}
	if (!eo_wait_set_watch(fd, known != NULL, (what & CURL_POLL_IN) != 0,
						   (what & CURL_POLL_OUT) != 0))
		return -1;
	if (known == NULL)
		curl_multi_assign(http.multi, fd, &http);
	return 0;
}

/* Called by curl: when it wants to be called again. */
static int
timer_callback(CURLM *multi, long timeout_ms, void *arg)
{
	(void) multi, (void) arg;
	http.timer_us = timeout_ms < 0 ? -1 : eo_clock_monotonic_us() + (int64) timeout_ms * 1000;
	return 0;
}

static bool
open_multi(void)
{
	http.timer_us = -1;
	http.multi = curl_multi_init();
	if (http.multi == NULL)
		return false;
	if (curl_multi_setopt(http.multi, CURLMOPT_SOCKETFUNCTION, socket_callback) == CURLM_OK &&
		curl_multi_setopt(http.multi, CURLMOPT_TIMERFUNCTION, timer_callback) == CURLM_OK &&
		curl_multi_setopt(http.multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) == CURLM_OK &&
		curl_multi_setopt(http.multi, CURLMOPT_MAXCONNECTS, (long) KEEP_HANDLES) == CURLM_OK)
		return true;
	curl_multi_cleanup(http.multi);
	http.multi = NULL;
	return false;
}

/* ----- handles ----- */

static EoHttpHandle *
take_handle(void)
{
	EoHttpHandle *h;

	if (!dlist_is_empty(&http.idle))
	{
		h = dlist_container(EoHttpHandle, node, dlist_pop_head_node(&http.idle));
		http.nidle--;
		eo_buf_reset(&h->body);
		h->head_len = 0;
		h->sent = h->barred = h->reusable = h->has_crc = false;
		h->message[0] = '\0';
		return h;
	}
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		return NULL;
	eo_buf_init(&h->body, EO_HTTP_MAX_REPLY);
	eo_buf_init(&h->header_text, MAX_HEADER_TEXT);
	h->easy = curl_easy_init();
	if (h->easy == NULL || !set_constant_options(h))
	{
		free_handle(h);
		return NULL;
	}
	return h;
}

static void
put_handle(EoHttpHandle *h)
{
	h->transfer = NULL;
	if (h->has_secret_reply)
		eo_crypto_wipe(h->body.data, h->body.len);
	/* A session token may be among the headers. */
	eo_crypto_wipe(h->header_text.data, h->header_text.len);
	if (http.nidle >= KEEP_HANDLES || !h->reusable)
	{
		free_handle(h);
		return;
	}
	if (h->body.allocated > KEEP_BUFFER)
		eo_buf_free(&h->body);
	eo_buf_reset(&h->header_text);
	dlist_push_head(&http.idle, &h->node);
	http.nidle++;
}

static void
free_handle(EoHttpHandle *h)
{
	if (h->easy != NULL)
		curl_easy_cleanup(h->easy);
	eo_buf_free(&h->header_text);
	eo_buf_free(&h->body);
	free(h->url);
	free(h->ca_file);
	free(h);
}

static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	EoHttpHandle *h = arg;

	(void) purpose;
	h->barred = h->remote_only && eo_endpoint_is_local(&addr->addr);
	return h->barred ? CURL_SOCKET_BAD :
		eo_wait_set_socket(addr->family, addr->socktype, addr->protocol);
}

static int
close_socket(void *arg, curl_socket_t fd)
{
	(void) arg;
	return eo_wait_set_close(fd);
}

/* Called by curl before it sends a copy of a request, see the head of the file. */
static int
before_request(void *arg, char *ip, char *local_ip, int port, int local_port)
{
	EoHttpHandle *h = arg;

	(void) local_ip, (void) port, (void) local_port;
	/* The connection may have been opened for a server that may have it. */
	h->barred = h->remote_only && eo_endpoint_is_local_text(ip);
	if (h->sent || h->barred)
		return CURL_PREREQFUNC_ABORT;
	h->sent = true;
	return CURL_PREREQFUNC_OK;
}

static size_t
body_callback(char *data, size_t size, size_t n, void *arg)
{
	EoHttpHandle *h = arg;

	eo_buf_add(&h->body, data, size * n);
	return eo_buf_status(&h->body) == EO_OK ? size * n : 0;
}

/* Parsing a date is slow, so the last one is kept: it is good for a second. */
static int64
parse_date(const char *value)
{
	static char last[EO_REQUEST_ID_LEN];
	static int64 last_s;

	if (strcmp(value, last) != 0)
	{
		time_t		t = curl_getdate(value, NULL);

		last_s = t > 0 ? (int64) t : 0;
		strlcpy(last, value, sizeof(last));
	}
	return last_s;
}

static size_t
header_callback(char *line, size_t size, size_t n, void *arg)
{
	EoHttpHandle *h = arg;
	EoHttpReply *reply = &h->transfer->reply;
	size_t		len = size * n;
	char		value[EO_REQUEST_ID_LEN];

	h->head_len += len;
	if (h->head_len > MAX_REPLY_HEAD)
		return 0;
	if (eo_header_value(line, len, "x-amz-crc32", value, sizeof(value)))
	{
		h->has_crc = true;
		h->crc = (uint32) strtoul(value, NULL, 10);
	}
	else if (eo_header_value(line, len, "x-amzn-requestid", reply->request_id,
							 sizeof(reply->request_id)))
		return len;
	else if (eo_header_value(line, len, "date", value, sizeof(value)))
		reply->date_s = parse_date(value);
	else if (eo_header_value(line, len, "x-amz-retry-after", value, sizeof(value)))
		reply->retry_after_ms = eo_header_milliseconds(value, 3600000);
	return len;
}

/* Called by curl for each new connection with TLS. */
static CURLcode
ssl_ctx_callback(CURL *easy, void *ssl_ctx, void *arg)
{
	EoHttpHandle *h = arg;

	(void) easy;
	if (h->ca_file == NULL && http.has_authorities && !eo_crypto_use_authorities(ssl_ctx))
		return CURLE_SSL_CACERT_BADFILE;
	return CURLE_OK;
}

#define SET(opt, value) \
	do { if (curl_easy_setopt(h->easy, opt, value) != CURLE_OK) return false; } while (0)

/*
 * Options that all requests have in common.  No redirects, because a signed request must
 * not be carried elsewhere; no proxy and no .netrc from the postmaster's environment; no
 * decompression, no cookies, no TLS below 1.2.
 */
static bool
set_constant_options(EoHttpHandle *h)
{
	SET(CURLOPT_PRIVATE, h);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_MAXREDIRS, 0L);
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NOPROXY, "");
	SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	SET(CURLOPT_UNRESTRICTED_AUTH, 0L);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);

	/* libcurl would keep authorities for a day, and resume sessions. */
	SET(CURLOPT_CA_CACHE_TIMEOUT, 0L);
	SET(CURLOPT_SSL_SESSIONID_CACHE, 0L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_MAXAGE_CONN, MAX_IDLE_SECONDS);
	SET(CURLOPT_HTTP09_ALLOWED, 0L);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, h);
	SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
	SET(CURLOPT_PREREQFUNCTION, before_request);
	SET(CURLOPT_PREREQDATA, h);
	SET(CURLOPT_WRITEFUNCTION, body_callback);
	SET(CURLOPT_WRITEDATA, h);
	SET(CURLOPT_HEADERFUNCTION, header_callback);
	SET(CURLOPT_HEADERDATA, h);
	SET(CURLOPT_ERRORBUFFER, h->message);
	if (is_openssl())
	{
		SET(CURLOPT_SSL_CTX_FUNCTION, ssl_ctx_callback);
		SET(CURLOPT_SSL_CTX_DATA, h);
	}
	return true;
}

/*
 * Set the options of an endpoint, unless this handle has them already: most calls
 * of a process go to one endpoint, and curl parses a URL whenever it is set.
 */
static bool
set_endpoint_options(EoHttpHandle *h, const EoHttpEndpoint *e)
{
	if (h->url != NULL && strcmp(h->url, e->url) == 0 &&
		strcmp(h->ca_file ? h->ca_file : "", e->ca_file ? e->ca_file : "") == 0 &&
		h->connect_timeout_ms == e->connect_timeout_ms)
		return true;
	free(h->url);
	free(h->ca_file);
	h->url = h->ca_file = NULL;
	SET(CURLOPT_URL, e->url);
	SET(CURLOPT_PROTOCOLS_STR, e->plain_http ? "http" : "https");

	/*
	 * A ca_file replaces both sources of the system's authorities, and
	 * ssl_ctx_callback() brings those that the postmaster has read.
	 */
	SET(CURLOPT_CAINFO, e->ca_file != NULL ? e->ca_file :
		http.has_authorities ? NULL : curl_version_info(CURLVERSION_NOW)->cainfo);
	SET(CURLOPT_CAPATH, e->ca_file != NULL || http.has_authorities ? NULL :
		curl_version_info(CURLVERSION_NOW)->capath);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long) e->connect_timeout_ms);
	h->connect_timeout_ms = e->connect_timeout_ms;
	if (e->ca_file != NULL && (h->ca_file = strdup(e->ca_file)) == NULL)
		return false;
	h->url = strdup(e->url);
	return h->url != NULL;
}

static bool
set_headers(EoHttpHandle *h, const EoHttpRequest *req)
{
	size_t		at[EO_HTTP_MAX_HEADERS];

	if (req->nheaders > EO_HTTP_MAX_HEADERS)
		return false;
	eo_buf_reset(&h->header_text);
	for (int i = 0; i < req->nheaders; i++)
	{
		at[i] = h->header_text.len;
		eo_buf_add(&h->header_text, req->headers[i], strlen(req->headers[i]) + 1);
	}
	if (eo_buf_status(&h->header_text) != EO_OK)
		return false;
	for (int i = 0; i < req->nheaders; i++)
	{
		h->headers[i].data = h->header_text.data + at[i];
		h->headers[i].next = i + 1 < req->nheaders ? &h->headers[i + 1] : NULL;
	}
	SET(CURLOPT_HTTPHEADER, h->headers);
	return true;
}

static bool
set_request_options(EoHttpHandle *h, const EoHttpRequest *req)
{
	int64		left_ms = (req->deadline_us - eo_clock_monotonic_us() + 999) / 1000;
	long		fresh = http.distrusted ? 1L : 0L;

	if (!set_endpoint_options(h, req->endpoint) || !set_headers(h, req))
		return false;
	h->has_secret_reply = req->has_secret_reply;
	h->remote_only = req->endpoint->remote_only;
	h->body.max = req->has_secret_reply ? EO_HTTP_MAX_SECRET_REPLY :
		req->is_page ? EO_HTTP_MAX_PAGE : EO_HTTP_MAX_REPLY;
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) req->body_len);
	SET(CURLOPT_POSTFIELDS, req->body);
	if (req->method == EO_HTTP_GET)
		SET(CURLOPT_HTTPGET, 1L);
	SET(CURLOPT_CUSTOMREQUEST, req->method == EO_HTTP_PUT ? "PUT" : NULL);
	SET(CURLOPT_TIMEOUT_MS, (long) (left_ms < 1 ? 1 : left_ms));
	SET(CURLOPT_BUFFERSIZE, req->is_page ? PAGE_BUFFER : USUAL_BUFFER);

	/*
	 * Connections that are not trusted cannot be closed while another
	 * transfer is running: use a new one, and close it afterwards.  Sources
	 * of credentials are asked too rarely for keeping theirs.
	 */
	SET(CURLOPT_FRESH_CONNECT, fresh);
	SET(CURLOPT_FORBID_REUSE, req->has_secret_reply ? 1L : fresh);
	return true;
}

/* ----- driving curl ----- */

/*
 * Tell curl that its timer is due.  A transfer that was just added starts here, too, and
 * perhaps a resolver thread with it: see the head of the file.
 */
static void
drive_timer(void)
{
	sigset_t	all;
	sigset_t	before;
	int			running;

	http.timer_us = -1;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	http.failed |= curl_multi_socket_action(http.multi, CURL_SOCKET_TIMEOUT, 0,
											&running) != CURLM_OK;
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Tell curl which of its sockets are ready. */
static void
drive_sockets(void)
{
	EoReadySocket ready[32];
	int			n = eo_wait_set_ready(ready, lengthof(ready));

	for (int i = 0; i < n; i++)
	{
		int			what = (ready[i].readable ? CURL_CSELECT_IN : 0) |
		(ready[i].writable ? CURL_CSELECT_OUT : 0) | (ready[i].failed ? CURL_CSELECT_ERR : 0);
		int			running;

		http.failed |= curl_multi_socket_action(http.multi, ready[i].fd, what,
												&running) != CURLM_OK;
	}
}

/* Mark transfers as done.  If curl has failed, it may leave a socket unwatched: all end. */
static void
collect_finished(void)
{
	CURLMsg    *msg;
	int			left;

	while (http.multi != NULL && (msg = curl_multi_info_read(http.multi, &left)) != NULL)
	{
		EoHttpHandle *h = NULL;

		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **) &h);
		if (msg->msg == CURLMSG_DONE)
			end_transfer(h, msg->data.result);
	}
	http.distrusted |= http.failed;
	while (http.failed && !dlist_is_empty(&http.running))
		end_transfer(dlist_head_element(EoHttpHandle, node, &http.running), CURLE_OUT_OF_MEMORY);
}

static void
end_transfer(EoHttpHandle *h, CURLcode code)
{
	curl_multi_remove_handle(http.multi, h->easy);
	dlist_delete(&h->node);
	http.nrunning--;
	judge(h, code);
	h->transfer->done = true;
	http.finished = true;
}

/* Fill in the reply of a transfer that curl has finished with this code. */
static void
judge(EoHttpHandle *h, CURLcode code)
{
	EoHttpReply *reply = &h->transfer->reply;
	long		http_status = 0;
	long		sent = 0;
	pg_crc32	crc;

	h->reusable = code == CURLE_OK;
	if (h->reusable)
	{
		curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &http_status);
		reply->http_status = (int) http_status;
		reply->body = eo_buf_str(&h->body);
		reply->body_len = h->body.len;
		INIT_TRADITIONAL_CRC32(crc);
		COMP_TRADITIONAL_CRC32(crc, h->body.data, h->body.len);
		FIN_TRADITIONAL_CRC32(crc);
		reply->status = !h->has_crc || h->crc == crc ? EO_OK : EO_UNKNOWN;
		if (reply->status != EO_OK)
			strlcpy(reply->message, "the reply does not match its x-amz-crc32 checksum",
					sizeof(reply->message));
		return;
	}

	/* If no byte of the request was sent, the service has done nothing. */
	curl_easy_getinfo(h->easy, CURLINFO_REQUEST_SIZE, &sent);
	reply->status = sent > 0 ? EO_UNKNOWN : EO_UNREACHABLE;
	reply->refused = sent == 0 && !h->barred && (code == CURLE_COULDNT_CONNECT ||
												 code == CURLE_COULDNT_RESOLVE_HOST ||
												 code == CURLE_OPERATION_TIMEDOUT);
	if (code == CURLE_OUT_OF_MEMORY || eo_buf_status(&h->body) == EO_NO_MEMORY)
		reply->status = sent > 0 ? EO_UNKNOWN : EO_NO_MEMORY;
	strlcpy(reply->message, h->barred ? "the host has an address of this machine or of its link" :
			code == CURLE_ABORTED_BY_CALLBACK ? "the connection was closed before an answer came" :
			h->head_len > MAX_REPLY_HEAD ? "the head of the reply is larger than 65536 bytes" :
			h->message[0] ? h->message : curl_easy_strerror(code), sizeof(reply->message));
	reply->oversized = eo_buf_status(&h->body) == EO_TOO_LARGE;
	if (!reply->oversized)
		return;
	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &http_status);
	reply->http_status = (int) http_status;
	snprintf(reply->message, sizeof(reply->message), "the reply is larger than %zu bytes", h->body.max);
}
