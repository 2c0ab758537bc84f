/*-------------------------------------------------------------------------
 *
 * call.c
 *	  One DynamoDB call: sign, send, classify, retry inside the deadline.
 *
 * The states of a call:
 *
 *		 start --> in flight --> done
 *					 |	 ^
 *					 v	 |
 *				  backing off
 *
 * A call makes at most max_attempts requests before its absolute deadline,
 * which covers name resolution, connecting, TLS, every attempt and every
 * pause.  An attempt gets half of the time that is left, the last one all of
 * it, so that a reply lost on the way leaves time to ask again.
 *
 * Every attempt sends the same bytes but for the date and the signature, so a
 * conditional write that was applied and whose answer was lost meets its own
 * token when it is repeated.  Telling that apart is store.c's work; here it is
 * only noted that an attempt may have been applied (in_doubt).
 *
 * Sources: "Error handling with DynamoDB" and "DynamoDB low-level API"
 * (Amazon DynamoDB Developer Guide) for codes and wire format; "Exponential
 * Backoff And Jitter" (AWS Architecture Blog) for full jitter.  Error texts
 * differ between engines, so only the code decides.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/call.h"

#include <sys/random.h>
#include <time.h>

#include "dynamodb/buf.h"
#include "dynamodb/clock.h"
#include "dynamodb/crypto.h"
#include "dynamodb/http.h"
#include "dynamodb/json.h"
#include "dynamodb/sigv4.h"
#include "dynamodb/status.h"

/* Base of the exponential back-off, in milliseconds, and its ceiling. */
#define BACKOFF_BASE_MS 25
#define BACKOFF_THROTTLED_MS 500
#define BACKOFF_MAX_MS 20000

/* What the service asks for in x-amz-retry-after is honoured up to this. */
#define RETRY_AFTER_MAX_MS 5000

/* An attempt shorter than this is not worth sending for its own sake. */
#define MIN_ATTEMPT_US 50000

/*
 * The Date header has whole seconds: an instant within one and a half of its
 * middle is the same time.
 */
#define CLOCK_TOLERANCE_MS 1500

/* curl ends an attempt at its deadline; if it has not by then, we do. */
#define GRACE_US 20000

/* The service refuses signatures about five minutes off, some sooner. */
#define SKEW_SUSPICIOUS_MS 30000

static bool start_call(EoCall *call, int64_t deadline_us);
static bool send_attempt(EoCall *call);
static void abandon(EoCall *call);
static bool take_reply(EoCall *call);
static bool take_transport_failure(EoCall *call);
static bool take_answer(EoCall *call, int64_t wall_ms);
static bool take_unbelievable(EoCall *call, const char *why);
static bool again(EoCall *call, bool throttled);
static EoStatus sign(EoCall *call, char *date_header, EoBuf *authorization);
static void error_text(EoError *error, EoJsonValue *root);

static const struct
{
	const char *name;
	const char *target;			/* the X-Amz-Target header */
	bool		writes;
}			operations[] =
{
	[EO_GET_ITEM] = {"GetItem", "X-Amz-Target: DynamoDB_20120810.GetItem", false},
	[EO_UPDATE_ITEM] = {"UpdateItem", "X-Amz-Target: DynamoDB_20120810.UpdateItem", true},
	[EO_TRANSACT] = {"TransactWriteItems", "X-Amz-Target: DynamoDB_20120810.TransactWriteItems", true},
	[EO_CREATE_TABLE] = {"CreateTable", "X-Amz-Target: DynamoDB_20120810.CreateTable", true},
	[EO_DESCRIBE_TABLE] = {"DescribeTable", "X-Amz-Target: DynamoDB_20120810.DescribeTable", false},
	[EO_UPDATE_TTL] = {"UpdateTimeToLive", "X-Amz-Target: DynamoDB_20120810.UpdateTimeToLive", true},
	[EO_DESCRIBE_TTL] = {"DescribeTimeToLive", "X-Amz-Target: DynamoDB_20120810.DescribeTimeToLive", false},
};

const char *
eo_call_operation_name(EoOperation op)
{
	return operations[op].name;
}

int64_t
eo_client_now_ms(const EoClient *client)
{
	return eo_clock_wall_ms() + client->clock_offset_ms;
}

void
eo_call_init(EoCall *call, EoClient *client, EoOperation op)
{
	memset(call, 0, sizeof(*call));
	call->client = client;
	call->op = op;
	eo_buf_init(&call->body, op == EO_TRANSACT ? EO_MAX_TRANSACTION_BODY : EO_MAX_BODY);
}

void
eo_call_free(EoCall *call)
{
	eo_http_finish(&call->transfer);
	eo_json_free(call->reply);
	call->reply = NULL;
	call->item = NULL;
	call->reasons = NULL;
	eo_buf_free(&call->body);
}

void
eo_call_run(EoCall **calls, int n, int parallel, int64_t deadline_us,
			EoWaitMode mode)
{
	EoWindow	window = {.n = 0};
	EoCall	   *finished[EO_MAX_PARALLEL];
	int			next = 0;

	if (parallel > EO_MAX_PARALLEL)
		parallel = EO_MAX_PARALLEL;
	if (parallel < 1)
		parallel = 1;
	while (next < n || window.n > 0)
	{
		int64_t		until;

		while (next < n && window.n < parallel)
			(void) eo_window_add(&window, calls[next++], deadline_us);
		if (eo_window_step(&window, finished, &until) == 0 && window.n > 0)
			eo_http_wait(until, mode);
	}
}

bool
eo_window_add(EoWindow *window, EoCall *call, int64_t deadline_us)
{
	if (!start_call(call, deadline_us))
		return false;
	window->calls[window->n++] = call;
	return true;
}

/* Each call in the window is in flight or backing off. */
int
eo_window_step(EoWindow *window, EoCall **finished, int64_t *until_us)
{
	int			nfinished = 0;

	*until_us = INT64_MAX;
	for (int i = 0; i < window->n; i++)
	{
		EoCall	   *call = window->calls[i];
		bool		goes_on = true;

		if (!call->waiting && !call->transfer.done &&
			eo_clock_monotonic_us() >= call->deadline_us + GRACE_US)
			abandon(call);
		if (call->transfer.done)
			goes_on = take_reply(call);
		else if (call->waiting && eo_clock_monotonic_us() >= call->next_us)
			goes_on = send_attempt(call);
		if (!goes_on)
		{
			finished[nfinished++] = call;
			window->calls[i--] = window->calls[--window->n];
		}
		else if (call->waiting && call->next_us < *until_us)
			*until_us = call->next_us;
		else if (!call->waiting && call->deadline_us + GRACE_US < *until_us)
			*until_us = call->deadline_us + GRACE_US;
	}
	return nfinished;
}

/* True: the call goes on; false: it has its outcome.  So all of them below. */
static bool
start_call(EoCall *call, int64_t deadline_us)
{
	call->started_us = eo_clock_monotonic_us();
	call->deadline_us = deadline_us != 0 ? deadline_us :
		call->started_us + (int64_t) call->client->request_timeout_ms * 1000;
	call->error.status = EO_OK;
	if (eo_buf_status(&call->body) != EO_OK)
	{
		call->error.status = eo_buf_status(&call->body);
		return false;
	}
	if (call->client->credentials.access_key_id == NULL)
	{
		call->error.status = EO_NO_CREDENTIALS;
		return false;
	}
	return send_attempt(call);
}

static bool
send_attempt(EoCall *call)
{
	EoClient   *client = call->client;
	int64_t		now = eo_clock_monotonic_us();
	int64_t		left = call->deadline_us - now;
	bool		last = call->attempt + 1 >= client->max_attempts;
	char		date_header[40];
	char		host[300];
	EoBuf		authorization;
	EoBuf		token;
	const char *headers[8];
	EoHttpRequest req = {0};
	EoStatus	status;

	call->waiting = false;
	call->attempt++;
	call->error.attempts = call->attempt;

	eo_buf_init(&authorization, 1024);
	eo_buf_init(&token, 8192);
	eo_buf_adds(&authorization, "Authorization: ");
	status = sign(call, date_header, &authorization);
	snprintf(host, sizeof(host), "Host: %s", client->host);
	headers[req.nheaders++] = host;
	headers[req.nheaders++] = "Content-Type: application/x-amz-json-1.0";
	headers[req.nheaders++] = operations[call->op].target;
	headers[req.nheaders++] = date_header;
	headers[req.nheaders++] = eo_buf_str(&authorization);
	/* An empty value keeps curl from adding its own. */
	headers[req.nheaders++] = "Accept:";
	headers[req.nheaders++] = "Expect:";
	if (client->credentials.session_token != NULL)
	{
		eo_buf_addf(&token, "X-Amz-Security-Token: %s", client->credentials.session_token);
		headers[req.nheaders++] = eo_buf_str(&token);
	}
	req.endpoint = &client->endpoint;
	req.headers = headers;
	req.body = eo_buf_str(&call->body);
	req.body_len = call->body.len;
	req.deadline_us = last || left < 2 * MIN_ATTEMPT_US ?
		call->deadline_us : now + left / 2;

	if (status == EO_OK)
		status = eo_buf_status(&authorization);
	if (status == EO_OK)
		status = eo_buf_status(&token);
	if (status == EO_OK)
		status = eo_http_start(&call->transfer, &req);
	eo_crypto_wipe(token.data, token.len);
	eo_buf_free(&token);
	eo_buf_free(&authorization);
	if (status == EO_OK)
		return true;
	call->error.status = call->in_doubt ? EO_UNKNOWN : status;
	return false;
}

/* "20260101T000000Z"; written anew once a second. */
static const char *
amz_date_of(time_t now)
{
	static char text[20];
	static time_t written = -1;
	struct tm	tm;

	if (now != written)
	{
		gmtime_r(&now, &tm);
		strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &tm);
		written = now;
	}
	return text;
}

static void
add_header(EoHeader *headers, int *n, const char *name, const char *value)
{
	headers[*n].name = name;
	headers[*n].value = value;
	(*n)++;
}

/* The five headers that are signed have a fixed order: sorted by name. */
static EoStatus
sign(EoCall *call, char *date_header, EoBuf *authorization)
{
	EoClient   *client = call->client;
	const char *target = strchr(operations[call->op].target, ' ') + 1;
	const char *amz_date = amz_date_of((time_t) (eo_client_now_ms(client) / 1000));
	EoHeader	headers[5];
	EoSigningRequest req = {0};
	int			n = 0;

	snprintf(date_header, 40, "X-Amz-Date: %s", amz_date);
	add_header(headers, &n, "content-type", "application/x-amz-json-1.0");
	add_header(headers, &n, "host", client->host);
	add_header(headers, &n, "x-amz-date", amz_date);
	if (client->credentials.session_token != NULL)
		add_header(headers, &n, "x-amz-security-token", client->credentials.session_token);
	add_header(headers, &n, "x-amz-target", target);
	req.method = "POST";
	req.path = "/";
	req.query = "";
	req.headers = headers;
	req.nheaders = n;
	req.body = eo_buf_str(&call->body);
	req.body_len = call->body.len;
	req.amz_date = amz_date;
	req.region = client->region;
	req.service = "dynamodb";
	return eo_sigv4_sign(client->signer, &client->credentials, &req, authorization);
}

/* The deadline has passed and the transport has not noticed. */
static void
abandon(EoCall *call)
{
	eo_http_finish(&call->transfer);
	call->transfer.done = true;
	call->transfer.reply.status = EO_UNKNOWN;
	snprintf(call->transfer.reply.message, sizeof(call->transfer.reply.message),
			 "no answer before the deadline");
}

static bool
take_reply(EoCall *call)
{
	EoHttpReply *reply = &call->transfer.reply;
	int64_t		wall_ms = eo_clock_wall_ms();
	bool		goes_on;

	call->error.http_status = reply->http_status;
	call->error.code[0] = '\0';
	snprintf(call->error.message, sizeof(call->error.message), "%s", reply->message);
	snprintf(call->error.request_id, sizeof(call->error.request_id), "%s", reply->request_id);
	if (reply->status != EO_OK)
		goes_on = take_transport_failure(call);
	else
		goes_on = take_answer(call, wall_ms);

	eo_http_finish(&call->transfer);
	call->transfer.done = false;

	/*
	 * The last answer may be a definite "no", but an earlier attempt of the
	 * same write may have been applied: what is known is the weaker of the
	 * two.  (A refused condition is looked into by whoever wrote it.)
	 */
	if (!goes_on && call->in_doubt && call->error.status != EO_OK &&
		call->error.status != EO_CONDITION_FAILED && call->error.status != EO_CANCELLED)
		call->error.status = EO_UNKNOWN;
	if (call->error.status == EO_UNKNOWN && !operations[call->op].writes)
		call->error.status = EO_UNANSWERED;
	call->elapsed_us = eo_clock_monotonic_us() - call->started_us;
	return goes_on;
}

static bool
take_transport_failure(EoCall *call)
{
	EoHttpReply *reply = &call->transfer.reply;

	call->error.status = reply->status;
	if (reply->status == EO_UNKNOWN)
	{
		call->in_doubt |= operations[call->op].writes;
		eo_http_distrust();
	}
	return again(call, false);
}

static bool
take_answer(EoCall *call, int64_t wall_ms)
{
	EoHttpReply *reply = &call->transfer.reply;
	EoClient   *client = call->client;
	EoJsonValue *root;
	EoReplyVerdict verdict;
	bool		ok = reply->http_status == 200;
	bool		refused;

	eo_json_free(call->reply);
	call->reply = NULL;
	call->item = NULL;
	call->reasons = NULL;
	if (eo_json_parse(reply->body, reply->body_len, &call->reply) != EO_OK)
		return take_unbelievable(call, "the reply is not a DynamoDB answer");
	root = eo_json_root(call->reply);
	error_text(&call->error, ok ? NULL : root);
	verdict = eo_call_classify(reply->http_status, call->error.code);
	if (call->op == EO_TRANSACT && strcmp(call->error.code, "TransactionCanceledException") == 0)
	{
		call->reasons = eo_json_get(root, "CancellationReasons");
		if (eo_json_array_length(call->reasons) != (size_t) call->nactions)
			return take_unbelievable(call, "the reply does not say why the transaction was cancelled");
		verdict = eo_call_classify_reasons(call->reasons);
	}
	refused = verdict.status == EO_CONDITION_FAILED;
	if (verdict.status == EO_OK || refused)
	{
		call->item = eo_json_get(call->reasons != NULL ? eo_json_array_get(call->reasons, 0) : root,
								 refused || call->op == EO_GET_ITEM ? "Item" : "Attributes");
		if (call->believe != NULL && !call->believe(call, call->item, refused))
			return take_unbelievable(call, "the reply is not the answer to this request");
		if (reply->date_s != 0)
			eo_client_learn_clock(client, reply->date_s, wall_ms);
		call->error.status = verdict.status;
		return false;
	}
	call->error.status = verdict.status;
	if (verdict.status == EO_UNKNOWN)
		call->in_doubt |= operations[call->op].writes;

	if (verdict.skewed && !call->resigned && reply->date_s != 0)
	{
		int64_t		offset = reply->date_s * 1000 + 500 - wall_ms;
		int64_t		moved = offset - client->clock_offset_ms;

		if (moved > SKEW_SUSPICIOUS_MS || moved < -SKEW_SUSPICIOUS_MS)
		{
			/* Refused for its time, and the clocks do differ: believe it. */
			client->clock_offset_ms = offset;
			client->clock_known = true;
			if (call->dated)
			{
				call->clock_moved = true;
				return false;
			}
			call->resigned = true;
			call->waiting = true;
			call->next_us = 0;
			return true;
		}
	}
	return verdict.retry ? again(call, verdict.throttled) : false;
}

/*
 * Something came that is not the answer.  The stream is not trusted any more,
 * and what happened to the request is not known.
 */
static bool
take_unbelievable(EoCall *call, const char *why)
{
	eo_json_free(call->reply);
	call->reply = NULL;
	call->item = NULL;
	call->reasons = NULL;
	eo_http_distrust();
	call->error.status = EO_UNKNOWN;
	call->error.code[0] = '\0';
	snprintf(call->error.message, sizeof(call->error.message), "%s (HTTP status %d)",
			 why, call->error.http_status);
	call->in_doubt |= operations[call->op].writes;
	return again(call, false);
}

/* Back off, if there is an attempt and time left for one. */
static bool
again(EoCall *call, bool throttled)
{
	int64_t		now = eo_clock_monotonic_us();
	int64_t		pause_ms = throttled ? BACKOFF_THROTTLED_MS : BACKOFF_BASE_MS;
	uint32_t	random = 0;

	if (call->attempt < call->client->max_attempts)
	{
		for (int i = 1; i < call->attempt && pause_ms < BACKOFF_MAX_MS; i++)
			pause_ms *= 2;
		if (pause_ms > BACKOFF_MAX_MS)
			pause_ms = BACKOFF_MAX_MS;
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = (uint32_t) now;
		call->next_us = now + pause_ms * 1000 * (int64_t) (random >> 8) / (1 << 24);
		if (call->transfer.reply.retry_after_ms > 0)
		{
			int			asked = call->transfer.reply.retry_after_ms;

			if (asked > RETRY_AFTER_MAX_MS)
				asked = RETRY_AFTER_MAX_MS;
			if (call->next_us < now + (int64_t) asked * 1000)
				call->next_us = now + (int64_t) asked * 1000;
		}

		/*
		 * One that has no time to be answered would only make a definite
		 * refusal unknown.
		 */
		if (call->next_us + MIN_ATTEMPT_US <= call->deadline_us)
		{
			call->waiting = true;
			return true;
		}
	}
	return false;
}

/*
 * Codes by what they say about the write.  A code nobody knows is a definite
 * refusal if the service called it the client's fault (4xx with a code), and
 * an unknown outcome otherwise.
 */
EoReplyVerdict
eo_call_classify(int http_status, const char *code)
{
	static const struct
	{
		const char *code;
		EoReplyVerdict verdict;
	}			known[] =
	{
		{"ConditionalCheckFailedException", {EO_CONDITION_FAILED, false, false, false}},
		{"ProvisionedThroughputExceededException", {EO_THROTTLED, true, true, false}},
		{"ThrottlingException", {EO_THROTTLED, true, true, false}},
		{"Throttling", {EO_THROTTLED, true, true, false}},
		{"ThrottledException", {EO_THROTTLED, true, true, false}},
		{"RequestLimitExceeded", {EO_THROTTLED, true, true, false}},
		{"LimitExceededException", {EO_THROTTLED, true, true, false}},
		{"TransactionConflictException", {EO_CONFLICT, true, false, false}},
		/* The same transaction, sent before: it may yet be applied. */
		{"TransactionInProgressException", {EO_UNKNOWN, true, false, false}},
		{"ReplicatedWriteConflictException", {EO_CONFLICT, true, false, false}},
		{"ResourceNotFoundException", {EO_NO_TABLE, false, false, false}},
		{"AccessDeniedException", {EO_DENIED, false, false, false}},
		{"UnrecognizedClientException", {EO_DENIED, false, false, false}},
		{"InvalidClientTokenId", {EO_DENIED, false, false, false}},
		{"IncompleteSignatureException", {EO_DENIED, false, false, false}},
		{"IncompleteSignature", {EO_DENIED, false, false, false}},
		{"MissingAuthenticationTokenException", {EO_DENIED, false, false, false}},
		{"MissingAuthenticationToken", {EO_DENIED, false, false, false}},
		{"ExpiredTokenException", {EO_DENIED, false, false, false}},
		{"ExpiredToken", {EO_DENIED, false, false, false}},
		{"InvalidSignatureException", {EO_DENIED, false, false, true}},
		{"SignatureDoesNotMatch", {EO_DENIED, false, false, true}},
		{"RequestTimeTooSkewed", {EO_DENIED, false, false, true}},
		{"RequestExpired", {EO_DENIED, false, false, true}},
		{"InternalServerError", {EO_UNKNOWN, true, false, false}},
		{"InternalFailure", {EO_UNKNOWN, true, false, false}},
		{"ServiceUnavailable", {EO_UNKNOWN, true, false, false}},
		{"ServiceUnavailableException", {EO_UNKNOWN, true, false, false}},
	};

	static const EoReplyVerdict ok = {EO_OK, false, false, false};
	static const EoReplyVerdict refused = {EO_REFUSED, false, false, false};
	static const EoReplyVerdict unknown = {EO_UNKNOWN, true, false, false};

	if (http_status == 200)
		return ok;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		if (strcmp(code, known[i].code) == 0)
			return known[i].verdict;
	}
	if (http_status >= 400 && http_status < 500 && code[0] != '\0')
		return refused;
	return unknown;
}

/*
 * A cancelled transaction.  The first action decides, if its condition was
 * false.  What will pass is retried, even if another action is refused for good:
 * as long as the first has not been looked at, nobody knows.
 */
EoReplyVerdict
eo_call_classify_reasons(EoJsonValue *reasons)
{
	static const struct
	{
		const char *code;
		EoReplyVerdict verdict;
	}			passing[] =
	{
		{"TransactionConflict", {EO_CONFLICT, true, false, false}},
		{"ThrottlingError", {EO_THROTTLED, true, true, false}},
		{"ProvisionedThroughputExceeded", {EO_THROTTLED, true, true, false}},
	};
	static const EoReplyVerdict cancelled = {EO_CANCELLED, false, false, false};
	static const EoReplyVerdict condition = {EO_CONDITION_FAILED, false, false, false};

	for (size_t i = 0; i < eo_json_array_length(reasons); i++)
	{
		size_t		len;
		const char *code = eo_json_string(eo_json_get(eo_json_array_get(reasons, i), "Code"), &len);

		if (code == NULL)
			continue;
		if (i == 0 && strcmp(code, "ConditionalCheckFailed") == 0)
			return condition;
		for (size_t k = 0; k < sizeof(passing) / sizeof(passing[0]); k++)
		{
			if (strcmp(code, passing[k].code) == 0)
				return passing[k].verdict;
		}
	}
	return cancelled;
}

void
eo_client_learn_clock(EoClient *client, int64_t date_s, int64_t wall_ms)
{
	int64_t		seen = date_s * 1000 + 500 - wall_ms;
	int64_t		moved = seen - client->clock_offset_ms;
	int64_t		agreed = seen - client->clock_candidate_ms;

	if (moved >= -CLOCK_TOLERANCE_MS && moved <= CLOCK_TOLERANCE_MS)
	{
		client->clock_candidate = false;
		client->clock_known = true;
	}
	else if (client->clock_candidate &&
			 agreed >= -CLOCK_TOLERANCE_MS && agreed <= CLOCK_TOLERANCE_MS)
	{
		client->clock_offset_ms = seen;
		client->clock_candidate = false;
		client->clock_known = true;
	}
	else
	{
		client->clock_candidate_ms = seen;
		client->clock_candidate = true;
	}
}

/*
 * Code and text of a refusal.  The code is what follows the '#' of __type;
 * the text stands under "message" or "Message", and is untrusted: cut, and
 * control characters replaced, before anybody prints it.
 */
static void
error_text(EoError *error, EoJsonValue *root)
{
	size_t		len;
	const char *type = eo_json_string(eo_json_get(root, "__type"), &len);
	const char *text = eo_json_string(eo_json_get(root, "message"), &len);
	const char *hash;

	if (root == NULL)
		return;
	if (text == NULL)
		text = eo_json_string(eo_json_get(root, "Message"), &len);
	if (type != NULL)
	{
		hash = strrchr(type, '#');
		snprintf(error->code, sizeof(error->code), "%s", hash != NULL ? hash + 1 : type);
	}
	snprintf(error->message, sizeof(error->message), "%s", text != NULL ? text : "");
	for (char *p = error->code; *p; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p > 126)
			*p = '?';
	for (char *p = error->message; *p; p++)
		if ((unsigned char) *p < ' ' || (unsigned char) *p > 126)
			*p = '?';
}
