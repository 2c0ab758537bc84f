/*
 * call_test.c
 *	  What is retried, for how long, and what is said in the end.
 *
 * The transport is replaced by one that plays a script, with a clock that moves
 * only while the code waits.
 */
#include "dynamodb/call.h"
#include "dynamodb/reply.h"
#include "dynamodb/window.h"
#include "unit.h"

typedef struct Scripted
{
	EoStatus	status;			/* of the transport */
	int			http_status;
	const char *body;
	int64_t		date_s;
	int			takes_ms;
	int			retry_after_ms;
} Scripted;

static const Scripted *script;
static int	played;
static int	distrusted;
static int64_t clock_us = 1000000;
static int64_t wall_offset_ms;
static EoHttpTransfer *flying;
static int64_t lands_us;
static int64_t attempt_deadline_us;
static char last_date[40];

int64_t
eo_clock_monotonic_us(void)
{
	return clock_us;
}

int64_t
eo_clock_wall_ms(void)
{
	return INT64_C(1780000000000) + clock_us / 1000 + wall_offset_ms;
}

EoStatus
eo_http_start(EoHttpTransfer *t, const EoHttpRequest *req)
{
	const Scripted *s = &script[played];

	memset(t, 0, sizeof(*t));
	t->reply.retry_after_ms = -1;
	for (int i = 0; i < req->nheaders; i++)
	{
		if (strncmp(req->headers[i], "X-Amz-Date: ", 12) == 0)
			snprintf(last_date, sizeof(last_date), "%s", req->headers[i] + 12);
	}
	flying = t;
	attempt_deadline_us = req->deadline_us;
	lands_us = clock_us + s->takes_ms * 1000;
	if (lands_us > req->deadline_us)
		lands_us = req->deadline_us;
	return EO_OK;
}

void
eo_http_wait(int64_t until_us, EoWaitMode mode)
{
	(void) mode;
	if (flying != NULL && lands_us <= until_us)
	{
		const Scripted *s = &script[played++];
		EoHttpReply *r = &flying->reply;
		bool		timed_out = clock_us + s->takes_ms * 1000 > attempt_deadline_us;

		if (clock_us < lands_us)
			clock_us = lands_us;
		r->status = timed_out ? EO_UNKNOWN : s->status;
		r->http_status = timed_out ? 0 : s->http_status;
		r->body = s->body != NULL ? s->body : "";
		r->body_len = strlen(r->body);
		r->date_s = s->date_s;
		if (s->retry_after_ms > 0)
			r->retry_after_ms = s->retry_after_ms;
		flying->done = true;
		flying = NULL;
	}
	else if (clock_us < until_us)
		clock_us = until_us;
}

void
eo_http_finish(EoHttpTransfer *t)
{
	if (flying == t)
		flying = NULL;
}

void
eo_http_distrust(void)
{
	distrusted++;
}

static EoClient client;

static EoError
run(EoOperation op, const Scripted *s)
{
	EoCall		call;
	EoWindow	window = {.n = 0};
	EoError		error;

	script = s;
	played = 0;
	eo_call_init(&call, &client, op);
	call.nactions = 2;
	eo_buf_adds(&call.body, "{}");
	if (eo_window_add(&window, &call, 0))
		eo_window_run(&window, 1, NULL, NULL, NULL);
	error = call.error;
	eo_call_free(&call);
	return error;
}

#define FAILED(code) "{\"__type\":\"com.amazonaws.dynamodb.v20120810#" code "\",\"Message\":\"m\"}"

static void
classifies(int http_status, const char *code, EoStatus status, bool retry)
{
	EoReplyClass c = eo_reply_classify(http_status, code);
	char		what[100];

	snprintf(what, sizeof(what), "%d %s", http_status, code);
	ok(c.status == status && c.retry == retry, what);
}

static void
test_codes(void)
{
	classifies(200, "", EO_OK, false);
	classifies(400, "ConditionalCheckFailedException", EO_CONDITION_FAILED, false);
	classifies(400, "ProvisionedThroughputExceededException", EO_THROTTLED, true);
	classifies(400, "ThrottlingException", EO_THROTTLED, true);
	classifies(400, "RequestLimitExceeded", EO_THROTTLED, true);
	classifies(400, "TransactionConflictException", EO_CONFLICT, true);
	classifies(400, "ReplicatedWriteConflictException", EO_CONFLICT, true);
	classifies(400, "ResourceNotFoundException", EO_NO_TABLE, false);
	classifies(400, "AccessDeniedException", EO_DENIED, false);
	classifies(400, "MissingAuthenticationToken", EO_DENIED, false);
	classifies(400, "MissingAuthenticationTokenException", EO_DENIED, false);
	classifies(400, "ValidationException", EO_REFUSED, false);
	classifies(403, "SomethingNew", EO_REFUSED, false);
	classifies(400, "", EO_UNKNOWN, true);
	classifies(404, "", EO_UNKNOWN, true);
	classifies(302, "", EO_UNKNOWN, true);
	classifies(500, "InternalServerError", EO_UNKNOWN, true);
	classifies(500, "SomethingNew", EO_UNKNOWN, true);
	classifies(503, "", EO_UNKNOWN, true);
	classifies(413, "", EO_UNKNOWN, true);
	classifies(400, "TransactionInProgressException", EO_UNKNOWN, true);
}

static void
test_retries(void)
{
	EoError		e;
	Scripted	fine[] = {{EO_OK, 200, "{}", 0, 1, 0}};
	Scripted	flaky[] = {{EO_OK, 500, FAILED("InternalServerError"), 0, 1, 0}, {EO_UNREACHABLE, 0, NULL, 0, 1, 0},
	{EO_OK, 200, "{}", 0, 1, 0}};
	Scripted	denied[] = {{EO_OK, 400, FAILED("AccessDeniedException"), 0, 1, 0}};
	Scripted	in_doubt[] = {{EO_UNKNOWN, 0, NULL, 0, 1, 0}, {EO_OK, 400, FAILED("AccessDeniedException"), 0, 1, 0}};
	Scripted	unreachable[] = {{EO_UNREACHABLE, 0, NULL, 0, 1, 0}, {EO_UNREACHABLE, 0, NULL, 0, 1, 0},
	{EO_UNREACHABLE, 0, NULL, 0, 1, 0}, {EO_UNREACHABLE, 0, NULL, 0, 1, 0}};
	Scripted	throttled[] = {{EO_OK, 400, FAILED("ThrottlingException"), 0, 1, 0}, {EO_OK, 400, FAILED("ThrottlingException"), 0, 1, 0},
	{EO_OK, 400, FAILED("ThrottlingException"), 0, 1, 0}, {EO_OK, 400, FAILED("ThrottlingException"), 0, 1, 0}};
	Scripted	garbage[] = {{EO_OK, 200, "<html>", 0, 1, 0}, {EO_OK, 200, "{}", 0, 1, 0}};
	Scripted	slow[] = {{EO_UNKNOWN, 0, NULL, 0, 60000, 0}, {EO_OK, 200, "{}", 0, 1, 0}};
	Scripted	silent[] = {{EO_UNKNOWN, 0, NULL, 0, 60000, 0}, {EO_UNKNOWN, 0, NULL, 0, 60000, 0},
	{EO_UNKNOWN, 0, NULL, 0, 60000, 0}, {EO_UNKNOWN, 0, NULL, 0, 60000, 0}};
	Scripted	asked[] = {{EO_OK, 400, FAILED("ThrottlingException"), 0, 1, 2000}, {EO_OK, 200, "{}", 0, 1, 0}};
	int64_t		start;

	e = run(EO_UPDATE_ITEM, fine);
	ok(e.status == EO_OK && e.attempts == 1, "success at once");
	e = run(EO_UPDATE_ITEM, flaky);
	ok(e.status == EO_OK && e.attempts == 3, "success at the third attempt");
	e = run(EO_UPDATE_ITEM, denied);
	ok(e.status == EO_DENIED && e.attempts == 1, "a refusal is not retried");
	is_string(e.code, "AccessDeniedException", "and its code is told");
	e = run(EO_UPDATE_ITEM, in_doubt);
	ok(e.status == EO_UNKNOWN, "a refusal after a lost answer leaves the write unknown");
	e = run(EO_GET_ITEM, in_doubt);
	ok(e.status == EO_DENIED, "but not a read");
	e = run(EO_UPDATE_ITEM, unreachable);
	ok(e.status == EO_UNREACHABLE && e.attempts == 4, "unreachable to the end: nothing was sent");
	e = run(EO_UPDATE_ITEM, throttled);
	ok(e.status == EO_THROTTLED, "throttled to the end: nothing was changed");
	distrusted = 0;
	e = run(EO_UPDATE_ITEM, garbage);
	ok(e.status == EO_OK && e.attempts == 2 && distrusted == 1, "garbage is not believed, nor its connection");
	e = run(EO_UPDATE_ITEM, slow);
	ok(e.status == EO_OK && e.attempts == 2, "a lost answer leaves time to ask again");
	start = clock_us;
	e = run(EO_UPDATE_ITEM, silent);
	ok(e.status == EO_UNKNOWN, "silence is an unknown outcome");
	ok(clock_us - start >= 4990000 && clock_us - start <= 5100000, "found at the deadline");
	e = run(EO_GET_ITEM, silent);
	ok(e.status == EO_UNANSWERED, "of a read, no answer");
	start = clock_us;
	e = run(EO_UPDATE_ITEM, asked);
	ok(e.status == EO_OK && clock_us - start >= 2000000, "a pause that is asked for is made");
}

static void
reasons_mean(const char *reasons, EoStatus status, bool retry)
{
	EoJson	   *doc = NULL;
	char		text[500];
	EoReplyClass c;

	snprintf(text, sizeof(text), "{\"r\":%s}", reasons);
	ok(eo_json_parse(text, strlen(text), &doc) == EO_OK, "reasons are JSON");
	c = eo_reply_classify_reasons(eo_json_get(eo_json_root(doc), "r"));
	ok(c.status == status && c.retry == retry, reasons);
	eo_json_free(doc);
}

#define NONE "{\"Code\":\"None\"}"
#define FALSE_HERE "{\"Code\":\"ConditionalCheckFailed\",\"Item\":{}}"
#define CONFLICT "{\"Code\":\"TransactionConflict\"}"
#define CANCELLED(reasons) \
	"{\"__type\":\"x#TransactionCanceledException\",\"CancellationReasons\":[" reasons "]}"

static void
test_transactions(void)
{
	EoError		e;
	Scripted	lost_then_refused[] = {{EO_UNKNOWN, 0, NULL, 0, 1, 0}, {EO_OK, 400, CANCELLED(NONE "," FALSE_HERE), 0, 1, 0}};
	Scripted	passing[] = {{EO_OK, 400, CANCELLED(CONFLICT "," NONE), 0, 1, 0}, {EO_OK, 200, "{}", 0, 1, 0}};
	Scripted	short_of_one[] = {{EO_OK, 400, CANCELLED(NONE), 0, 1, 0}, {EO_OK, 200, "{}", 0, 1, 0}};

	reasons_mean("[" FALSE_HERE "," NONE "]", EO_CONDITION_FAILED, false);
	reasons_mean("[" FALSE_HERE "," FALSE_HERE "]", EO_CONDITION_FAILED, false);
	reasons_mean("[" FALSE_HERE "," CONFLICT "]", EO_CONDITION_FAILED, false);
	reasons_mean("[" NONE "," FALSE_HERE "]", EO_CANCELLED, false);
	reasons_mean("[" CONFLICT "," FALSE_HERE "]", EO_CONFLICT, true);
	reasons_mean("[" FALSE_HERE "]", EO_CONDITION_FAILED, false);
	reasons_mean("[" NONE ",{\"Code\":\"ThrottlingError\"}]", EO_THROTTLED, true);
	reasons_mean("[{\"Code\":\"ProvisionedThroughputExceeded\"}," NONE "]", EO_THROTTLED, true);
	reasons_mean("[{\"Code\":\"ValidationError\"}," NONE "]", EO_CANCELLED, false);
	reasons_mean("[1,{\"Code\":2}]", EO_CANCELLED, false);
	e = run(EO_TRANSACT, lost_then_refused);
	ok(e.status == EO_CANCELLED && e.attempts == 2, "a refused action after a lost answer is told as it is");
	e = run(EO_TRANSACT, passing);
	ok(e.status == EO_OK && e.attempts == 2, "a conflict is retried");
	e = run(EO_TRANSACT, short_of_one);
	ok(e.status == EO_OK && e.attempts == 2, "too few reasons are not believed");
}

static void
test_clock(void)
{
	int64_t		now_s = eo_clock_wall_ms() / 1000;
	Scripted	skewed[] = {{EO_OK, 400, FAILED("InvalidSignatureException"), 0, 1, 0}, {EO_OK, 200, "{}", 0, 1, 0}};
	Scripted	wrong[] = {{EO_OK, 400, FAILED("InvalidSignatureException"), 0, 1, 0}, {EO_OK, 200, "{}", 0, 1, 0}};
	EoError		e;

	client.clock_offset_ms = 0;
	eo_client_learn_clock(&client, now_s + 360, now_s * 1000);
	ok(client.clock_offset_ms == 0, "one odd date moves nothing");
	eo_client_learn_clock(&client, now_s, now_s * 1000);
	eo_client_learn_clock(&client, now_s + 360, now_s * 1000);
	ok(client.clock_offset_ms == 0, "nor does one now and then");
	eo_client_learn_clock(&client, now_s + 360, now_s * 1000);
	ok(client.clock_offset_ms == 360500, "two in a row do");
	client.clock_offset_ms = 0;
	client.clock_candidate = false;

	skewed[0].date_s = eo_clock_wall_ms() / 1000 + 400;
	e = run(EO_UPDATE_ITEM, skewed);
	ok(e.status == EO_OK && e.attempts == 2, "refused for its time, signed again by the service's");
	ok(client.clock_offset_ms > 390000 && client.clock_offset_ms < 410000, "which is remembered");
	client.clock_offset_ms = 0;
	wrong[0].date_s = eo_clock_wall_ms() / 1000;
	e = run(EO_UPDATE_ITEM, wrong);
	ok(e.status == EO_DENIED && e.attempts == 1, "a wrong signature at the right time is final");
	is_string(last_date + 15, "Z", "dates are signed in UTC");
}

int
main(void)
{
	EoError		e;
	Scripted	fine[] = {{EO_OK, 200, "{}", 0, 1, 0}};

	client.endpoint.url = "http://localhost/";
	client.host = "localhost";
	client.region = "eu-west-1";
	client.request_timeout_ms = 5000;
	client.max_attempts = 4;
	client.signer = eo_sigv4_create();
	e = run(EO_UPDATE_ITEM, fine);
	ok(e.status == EO_NO_CREDENTIALS && e.attempts == 0, "without credentials nothing is sent");
	client.credentials.access_key_id = "a";
	client.credentials.secret_access_key = "b";
	test_codes();
	test_retries();
	test_transactions();
	test_clock();
	eo_sigv4_free(client.signer);
	return done();
}
