/*
 * call_test.c
 *	  Which attempts a call makes, for how long, and how it ends; and what it tells
 *	  the circuit of its endpoint.
 *
 * The transport is replaced by one that plays a script, and the clock moves only
 * while the code waits.
 */
#include "records/window.h"
#include "wire/call.h"
#include "wire/clock.h"
#include "unit.h"

typedef struct Scripted
{
	EoStatus	status;			/* of the transport */
	int			http_status;
	const char *body;
	int64_t		date_s;
	int			takes_ms;
	int			retry_after_ms;
	bool		refused;
} Scripted;

#define UNREACHABLE {EO_UNREACHABLE, 0, NULL, 0, 1, 0, false}
#define NO_CONNECTION {EO_UNREACHABLE, 0, NULL, 0, 1, 0, true}
#define LOST {EO_UNKNOWN, 0, NULL, 0, 1, 0, false}
#define SILENT {EO_UNKNOWN, 0, NULL, 0, 60000, 0, false}
#define OK_REPLY {EO_OK, 200, "{}", 0, 1, 0, false}
#define REFUSED(text) {EO_OK, 400, text, 0, 1, 0, false}
#define TOO_LONG(http_status) {EO_UNKNOWN, http_status, too_long, 0, 1, 0, false}

static const char too_long[] = "an answer that is not read to its end";

static const Scripted *script;
static int	played;
static int	distrusted;
static int64_t clock_us = 1000000;
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
eo_clock_steady_us(void)
{
	return clock_us;
}

int64_t
eo_clock_host_offset_us(void)
{
	return INT64_C(1780000000000000);
}

static int64_t
host_s(void)
{
	return (eo_clock_steady_us() + eo_clock_host_offset_us()) / 1000000;
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
		r->refused = s->refused;
		r->oversized = s->body == too_long;
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

static int64_t deadline_us;
static bool dated;
static bool clock_moved;
static bool has_date;
static int64_t offset_seen_us;

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
	call.dated = dated;
	eo_buf_adds(&call.body, "{}");
	if (eo_window_add(&window, &call, deadline_us))
		eo_window_run(&window, 1, NULL, NULL, NULL);
	error = call.error;
	clock_moved = call.clock_moved;
	has_date = call.has_date;
	offset_seen_us = call.offset_seen_us;
	eo_call_free(&call);
	return error;
}

#define FAILED(code) "{\"__type\":\"com.amazonaws.dynamodb.v20120810#" code "\",\"Message\":\"m\"}"

#define THROTTLED REFUSED(FAILED("ThrottlingException"))

static void
test_retries(void)
{
	EoError		e;
	Scripted	fine[] = {OK_REPLY};
	Scripted	flaky[] = {{EO_OK, 500, FAILED("InternalServerError"), 0, 1, 0, false}, UNREACHABLE, OK_REPLY};
	Scripted	denied[] = {REFUSED(FAILED("AccessDeniedException"))};
	Scripted	in_doubt[] = {LOST, REFUSED(FAILED("AccessDeniedException"))};
	Scripted	unreachable[] = {UNREACHABLE, UNREACHABLE, UNREACHABLE, UNREACHABLE};
	Scripted	throttled[] = {THROTTLED, THROTTLED, THROTTLED, THROTTLED};
	Scripted	garbage[] = {{EO_OK, 200, "<html>", 0, 1, 0, false}, OK_REPLY};
	Scripted	slow[] = {SILENT, OK_REPLY};
	Scripted	silent[] = {SILENT, SILENT, SILENT, SILENT};
	Scripted	asked[] = {{EO_OK, 400, FAILED("ThrottlingException"), 0, 1, 2000, false}, OK_REPLY};
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

/* A service that is away for so many connections, and then answers. */
#define MAX_AWAY 1000

static const Scripted *
away(int connections, Scripted then)
{
	static Scripted s[MAX_AWAY + 1];

	for (int i = 0; i < MAX_AWAY; i++)
		s[i] = (Scripted) NO_CONNECTION;
	s[connections] = then;
	return s;
}

static void
test_refused_connections(void)
{
	Scripted	fine = OK_REPLY;
	Scripted	denied = REFUSED(FAILED("AccessDeniedException"));
	Scripted	reset_then_away[] = {LOST, NO_CONNECTION, NO_CONNECTION, NO_CONNECTION,
	NO_CONNECTION, OK_REPLY};
	Scripted	always = NO_CONNECTION;
	int64_t		start = clock_us;
	EoError		e;

	/* Seven pauses are less than two seconds together. */
	e = run(EO_UPDATE_ITEM, away(7, fine));
	ok(e.status == EO_OK && e.attempts == 1, "refused connections are no attempts");
	ok(clock_us - start < 5000000, "the call ends as soon as one is made");
	e = run(EO_UPDATE_ITEM, away(7, denied));
	ok(e.status == EO_DENIED && e.attempts == 1, "nor do they leave doubt");
	e = run(EO_UPDATE_ITEM, reset_then_away);
	ok(e.status == EO_OK && e.attempts == 2, "also between attempts");

	start = clock_us;
	e = run(EO_UPDATE_ITEM, away(MAX_AWAY, always));
	ok(e.status == EO_UNREACHABLE && e.attempts == 0, "refused to the end: nothing was sent");
	ok(clock_us - start >= 4900000 && clock_us - start <= 5000000, "it is tried until the deadline");
	ok(played >= 8 && played < 200, "with pauses that grow");

	client.no_retries = true;
	start = clock_us;
	e = run(EO_UPDATE_ITEM, away(7, fine));
	ok(e.status == EO_UNREACHABLE && clock_us - start < 10000, "without retries it fails at once");
	client.no_retries = false;
}

/* What the circuit was told. */
static bool is_open;
static int	entered;
static int	answers;
static int	failures;
static int64_t failed_since_us;

static bool
enter(EoClient *c, EoError *error)
{
	(void) c;
	entered++;
	if (is_open)
		error->status = EO_NOT_ASKED;
	return !is_open;
}

static void
answered(EoClient *c)
{
	(void) c;
	answers++;
}

static void
failed(EoClient *c, int64_t started_us, const EoError *error)
{
	(void) c;
	(void) error;
	failures++;
	failed_since_us = started_us;
}

static EoError
run_in_circuit(EoOperation op, const Scripted *s)
{
	entered = answers = failures = 0;
	return run(op, s);
}

static void
test_circuit(void)
{
	static const EoCircuit circuit = {.enter = enter,.answered = answered,.failed = failed};
	Scripted	fine[] = {OK_REPLY};
	Scripted	false_condition[] = {REFUSED(FAILED("ConditionalCheckFailedException"))};
	Scripted	denied[] = {REFUSED(FAILED("AccessDeniedException"))};
	Scripted	throttled[] = {THROTTLED, THROTTLED, THROTTLED, THROTTLED};
	Scripted	in_progress[] = {REFUSED(FAILED("TransactionInProgressException")),
	{EO_OK, 500, FAILED("InternalServerError"), 0, 1, 0, false}, LOST, LOST};
	Scripted	broken[] = {{EO_OK, 500, FAILED("InternalServerError"), 0, 1, 0, false}, LOST,
	{EO_OK, 200, "<html>", 0, 1, 0, false}, {EO_OK, 503, "busy", 0, 1, 0, false}};
	Scripted	silent[] = {SILENT, SILENT, SILENT, SILENT};
	Scripted	lost_then_denied[] = {LOST, REFUSED(FAILED("AccessDeniedException"))};
	int64_t		start;
	EoError		e;

	client.circuit = &circuit;
	(void) run_in_circuit(EO_UPDATE_ITEM, fine);
	ok(entered == 1 && answers == 1 && failures == 0, "an answer is told");
	(void) run_in_circuit(EO_UPDATE_ITEM, false_condition);
	ok(answers == 1 && failures == 0, "a false condition is an answer");
	(void) run_in_circuit(EO_UPDATE_ITEM, denied);
	ok(answers == 1 && failures == 0, "denied access is an answer");
	e = run_in_circuit(EO_UPDATE_ITEM, throttled);
	ok(e.status == EO_THROTTLED && entered == 1 && answers == 4 && failures == 0, "so is throttling");
	e = run_in_circuit(EO_TRANSACT, in_progress);
	ok(e.status == EO_UNKNOWN && answers == 1 && failures == 0, "so is an error that leaves the outcome open");
	e = run_in_circuit(EO_UPDATE_ITEM, lost_then_denied);
	ok(e.status == EO_UNKNOWN && answers == 1 && failures == 0, "a call that had one has not failed");
	(void) run_in_circuit(EO_UPDATE_ITEM, broken);
	ok(answers == 0 && failures == 1, "errors of a service that is broken are none");
	start = clock_us;
	(void) run_in_circuit(EO_GET_ITEM, silent);
	ok(answers == 0 && failures == 1 && failed_since_us == start, "silence is a failure, since the call began");
	(void) run_in_circuit(EO_GET_ITEM, away(MAX_AWAY, (Scripted) NO_CONNECTION));
	ok(answers == 0 && failures == 1, "so are refused connections to the end");
	(void) run_in_circuit(EO_GET_ITEM, away(7, (Scripted) OK_REPLY));
	ok(answers == 1 && failures == 0, "but not if one is made");

	deadline_us = clock_us + 1000000;
	(void) run_in_circuit(EO_GET_ITEM, silent);
	ok(answers == 0 && failures == 0, "silence within less time than the server's is none");
	deadline_us = clock_us + 4990000;
	(void) run_in_circuit(EO_GET_ITEM, silent);
	ok(failures == 1, "a little less does not matter");
	deadline_us = clock_us + 1000000;
	(void) run_in_circuit(EO_GET_ITEM, broken);
	ok(failures == 1, "nor does the deadline if the attempts came to an end before");
	deadline_us = 0;

	is_open = true;
	start = clock_us;
	e = run_in_circuit(EO_UPDATE_ITEM, fine);
	ok(e.status == EO_NOT_ASKED && e.attempts == 0 && played == 0, "while it is open nothing is sent");
	ok(entered == 1 && answers == 0 && failures == 0 && clock_us == start, "and nothing is told, at once");
	is_open = false;
	client.circuit = NULL;
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
	Scripted	lost_then_refused[] = {LOST, REFUSED(CANCELLED(NONE "," FALSE_HERE))};
	Scripted	passing[] = {REFUSED(CANCELLED(CONFLICT "," NONE)), OK_REPLY};
	Scripted	short_of_one[] = {REFUSED(CANCELLED(NONE)), OK_REPLY};

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
	Scripted	skewed[] = {REFUSED(FAILED("InvalidSignatureException")), OK_REPLY};
	Scripted	wrong[] = {REFUSED(FAILED("InvalidSignatureException")), OK_REPLY};
	Scripted	fine[] = {OK_REPLY};
	EoError		e;

	skewed[0].date_s = host_s() + 400;
	e = run(EO_UPDATE_ITEM, skewed);
	ok(e.status == EO_OK && e.attempts == 2, "refused for its time, signed again by the service's");
	ok(client.clock.state == EO_CLOCK_GUESSED &&
	   eo_client_seconds_ahead(client.clock.offset_us) > 390 &&
	   eo_client_seconds_ahead(client.clock.offset_us) < 410, "which is remembered, as a guess");
	client.clock.state = EO_CLOCK_UNKNOWN;
	dated = true;
	e = run(EO_UPDATE_ITEM, skewed);
	ok(e.status == EO_DENIED && e.attempts == 1 && clock_moved, "a body with a date in it is not signed again");
	dated = false;
	client.clock.state = EO_CLOCK_UNKNOWN;
	wrong[0].date_s = host_s();
	e = run(EO_UPDATE_ITEM, wrong);
	ok(e.status == EO_DENIED && e.attempts == 1, "a wrong signature at the right time is final");
	ok(!has_date, "a refusal is no reading of the clock");
	fine[0].date_s = host_s() + 7;
	e = run(EO_GET_ITEM, fine);
	ok(e.status == EO_OK && has_date && eo_client_seconds_ahead(offset_seen_us) > 6 &&
	   eo_client_seconds_ahead(offset_seen_us) < 8, "a reply that is believed is one");
	ok(client.clock.state == EO_CLOCK_UNKNOWN, "by itself it makes nothing known");
	fine[0].date_s = 0;
	e = run(EO_GET_ITEM, fine);
	ok(e.status == EO_OK && !has_date, "unless it has no date");
	is_string(last_date + 15, "Z", "dates are signed in UTC");
}

/* A source that has keys from the first or the second renewal on. */
static int	renewals;
static int	has_keys_after;

static void
follow(EoClient *c)
{
	c->credentials.access_key_id = renewals >= has_keys_after ? "a" : NULL;
}

static bool
renew(EoClient *c, int64_t deadline_us)
{
	(void) deadline_us;
	renewals++;
	follow(c);
	return c->credentials.access_key_id != NULL;
}

static void
test_credentials(void)
{
	static const EoCredentialSource source = {.follow = follow,.renew = renew};
	static const Scripted expired[] = {REFUSED(FAILED("ExpiredTokenException")), OK_REPLY};
	static const Scripted always[] = {REFUSED(FAILED("ExpiredTokenException")),
		REFUSED(FAILED("ExpiredTokenException")), OK_REPLY
	};
	static const Scripted fine[] = {OK_REPLY};
	EoError		e;

	client.source = &source;
	e = run(EO_UPDATE_ITEM, expired);
	ok(e.status == EO_OK && e.attempts == 2 && renewals == 1, "expired credentials are renewed");
	e = run(EO_UPDATE_ITEM, always);
	ok(e.status == EO_DENIED && e.attempts == 2 && renewals == 2, "but once in a call");
	renewals = 0;
	has_keys_after = 1;
	e = run(EO_UPDATE_ITEM, fine);
	ok(e.status == EO_OK && e.attempts == 1 && renewals == 1, "where there are none any more, others are got");
	renewals = 0;
	has_keys_after = 2;
	e = run(EO_UPDATE_ITEM, fine);
	ok(e.status == EO_NO_CREDENTIALS && e.attempts == 0 && renewals == 1, "or the call ends, and nothing was sent");
	client.credentials_away = true;
	e = run(EO_UPDATE_ITEM, fine);
	ok(e.status == EO_OK, "a later call asks again");
	renewals = 0;
	e = run(EO_UPDATE_ITEM, fine);
	ok(e.status == EO_CREDENTIALS_AWAY, "a source that does not answer is another matter");
	client.source = NULL;
	client.credentials_away = false;
	client.credentials.access_key_id = "a";
}

/* Answers that are too long to be read: they have an item. */
static void
test_long_answers(void)
{
	EoError		e;
	Scripted	read[] = {TOO_LONG(200)};
	Scripted	refused[] = {TOO_LONG(400)};
	Scripted	applied[] = {TOO_LONG(200), TOO_LONG(400)};
	Scripted	failing[] = {TOO_LONG(502), OK_REPLY};

	e = run(EO_GET_ITEM, read);
	ok(e.status == EO_INVALID && e.attempts == 1, "a long item is definite for a read");
	e = run(EO_SCAN, read);
	ok(e.status == EO_INVALID && e.attempts == 1, "and a long page");
	e = run(EO_UPDATE_ITEM, refused);
	ok(e.status == EO_CONDITION_FAILED && e.attempts == 1, "a long item has refused a write");
	e = run(EO_UPDATE_ITEM, applied);
	ok(e.status == EO_CONDITION_FAILED && e.attempts == 2, "what was applied is refused the next time");
	e = run(EO_GET_ITEM, failing);
	ok(e.status == EO_OK && e.attempts == 2, "a long error of somebody between is none of DynamoDB");
}

/* An answer whose item has very many values counts as one that is too long. */
static void
test_many_values(void)
{
	static char text[600000] = "{\"__type\":\"x#ConditionalCheckFailedException\",\"Item\":{\"a\":{\"L\":[{\"M\":{}}";
	size_t		len = strlen(text);
	Scripted	read[] = {{EO_OK, 200, text, 0, 1, 0, false}};
	Scripted	refused[] = {REFUSED(text)};
	EoError		e;

	for (int i = 0; i < 60000; i++, len += 9)
		memcpy(text + len, ",{\"M\":{}}", 9);
	memcpy(text + len, "]}}}", 5);
	e = run(EO_GET_ITEM, read);
	ok(e.status == EO_INVALID && e.attempts == 1, "an item of many values is definite for a read");
	e = run(EO_UPDATE_ITEM, refused);
	ok(e.status == EO_CONDITION_FAILED && e.attempts == 1, "and has refused a write");
}

/* Endpoints whose texts are not told. */
static void
test_tenant(void)
{
	EoError		e;
	Scripted	known[] = {REFUSED(FAILED("AccessDeniedException"))};
	Scripted	odd[] = {REFUSED(FAILED("TopSecret"))};
	Scripted	none[] = {REFUSED("{\"message\":\"secret\"}"), OK_REPLY};

	client.tenant = 1;
	client.max_attempts = 1;
	e = run(EO_GET_ITEM, known);
	is_string(e.code, "AccessDeniedException", "a code of DynamoDB is told");
	is_string(e.message, "", "without its text");
	e = run(EO_GET_ITEM, odd);
	ok(e.status == EO_REFUSED, "a code that DynamoDB does not have is a refusal");
	is_string(e.code, "an unknown code", "that is not told");
	is_string(e.message, "", "nor its text");
	e = run(EO_GET_ITEM, none);
	is_string(e.message, "HTTP status 400", "without a code the status is told");
	client.tenant = 0;
	client.max_attempts = 4;
}

int
main(void)
{
	EoError		e;
	Scripted	fine[] = {OK_REPLY};

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
	test_retries();
	test_refused_connections();
	test_circuit();
	test_transactions();
	test_clock();
	test_credentials();
	test_long_answers();
	test_many_values();
	test_tenant();
	eo_sigv4_free(client.signer);
	return done();
}
