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
 * A refused connection is no attempt, because nothing was sent.  Connecting is
 * tried again for as long as the deadline allows, with growing pauses, so that a
 * service that is away for a second fails no call.
 *
 * The circuit of the endpoint (EoCircuit) is asked once, before the first attempt,
 * and is told how the call ends.  An error of the service is an answer, also if it
 * asks to slow down: throttled calls back off within their deadlines.  A reply with
 * status 500 or more is none, nor is anything else that leaves the outcome unknown.
 *
 * All attempts send the same bytes, except for the date and the signature.  So if
 * a conditional write was applied and its answer was lost, the next attempt is
 * refused by a record that bears its own token.  server/answer.c recognizes that;
 * here it is only noted that an attempt may have been applied (in_doubt).
 *
 * Sources: "DynamoDB low-level API" (Amazon DynamoDB Developer Guide) for the wire
 * format; "Exponential Backoff And Jitter" (AWS Architecture Blog) for full jitter.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/call.h"

#include <sys/random.h>
#include <time.h>

#include "wire/clock.h"
#include "wire/crypto.h"
#include "wire/reply.h"
#include "wire/sigv4.h"

/* The longest first pause between attempts, and the longest of all. */
#define BACKOFF_BASE_MS 25
#define BACKOFF_THROTTLED_MS 500
#define BACKOFF_MAX_MS 20000

/* The longest pause before a connection that was refused is tried again. */
#define BACKOFF_REFUSED_MS 500

/* Longest pause that is made because x-amz-retry-after asks for it. */
#define RETRY_AFTER_MAX_MS 5000

/* libcurl asks by "Expect:" before it sends a body of more than a megabyte. */
#define MAX_UNANNOUNCED 500000

/* An attempt needs at least this much time to be answered. */
#define MIN_ATTEMPT_US 50000

/* An attempt that the transport has not ended at the deadline gets this much more. */
#define GRACE_US 20000

static void ask_for_capacity(EoCall *call);
static bool send_attempt(EoCall *call);
static void put_header(char *line, size_t size, const char *name, const char *value);
static EoStatus sign(EoCall *call, char *date_header, EoBuf *authorization);
static bool renew_credentials(EoCall *call);
static void abandon(EoCall *call);
static bool take_reply(EoCall *call);
static bool take_transport_failure(EoCall *call);
static bool take_oversized(EoCall *call, int64_t steady_us);
static bool take_answer(EoCall *call, int64_t steady_us);
static void note_date(EoCall *call, int64_t steady_us);
static bool take_unbelievable(EoCall *call, const char *why);
static bool send_again(EoCall *call);
static void forget_reply(EoCall *call);
static bool connect_later(EoCall *call);
static bool retry_later(EoCall *call, bool throttled);
static int64_t random_pause_us(int attempt, int64_t first_ms, int64_t longest_ms);
static void note_answer(EoCall *call);
static void note_failure(EoCall *call);

/* A body's memory is kept for the next one: malloc() is slow for more than a kilobyte. */
#define KEEP_BODY 16384

static EoBuf kept_body;

#define CONTENT_TYPE "application/x-amz-json-1.0"
#define TARGET "X-Amz-Target: "
#define OPERATION(name, writes) {name, TARGET "DynamoDB_20120810." name, writes}

static const struct
{
	const char *name;
	const char *target;			/* the X-Amz-Target header */
	bool		writes;
}			operations[] =
{
	[EO_GET_ITEM] = OPERATION("GetItem", false),
	[EO_UPDATE_ITEM] = OPERATION("UpdateItem", true),
	[EO_DELETE_ITEM] = OPERATION("DeleteItem", true),
	[EO_TRANSACT] = OPERATION("TransactWriteItems", true),
	[EO_BATCH_WRITE] = OPERATION("BatchExecuteStatement", true),
	[EO_SCAN] = OPERATION("Scan", false),
	[EO_CREATE_TABLE] = OPERATION("CreateTable", true),
	[EO_DESCRIBE_TABLE] = OPERATION("DescribeTable", false),
	[EO_UPDATE_TTL] = OPERATION("UpdateTimeToLive", true),
	[EO_DESCRIBE_TTL] = OPERATION("DescribeTimeToLive", false)
};

const char *
eo_call_operation_name(EoOperation op)
{
	return operations[op].name;
}

void
eo_call_init(EoCall *call, EoClient *client, EoOperation op)
{
	memset(call, 0, sizeof(*call));
	call->client = client;
	call->op = op;
	call->observer = client->observer;
	call->observed = client->observed;
	call->body = kept_body;
	memset(&kept_body, 0, sizeof(kept_body));
	call->body.max = op == EO_TRANSACT ? EO_MAX_TRANSACTION_BODY :
		op == EO_BATCH_WRITE ? EO_MAX_BATCH_BODY : EO_MAX_BODY;
}

void
eo_call_free(EoCall *call)
{
	if (call->in_flight && call->observer != NULL)
		call->observer->ended(call, EO_UNKNOWN, true, 0);
	call->in_flight = false;
	eo_http_finish(&call->transfer);
	forget_reply(call);
	if (kept_body.data == NULL && call->body.allocated <= KEEP_BODY)
	{
		eo_buf_reset(&call->body);
		kept_body = call->body;
		memset(&call->body, 0, sizeof(call->body));
	}
	else
		eo_buf_free(&call->body);
}

/*
 * This function, and all below that return bool, return true if the call goes on
 * and false if it has its outcome.
 */
bool
eo_call_start(EoCall *call, int64_t deadline_us)
{
	call->started_us = eo_clock_monotonic_us();
	call->deadline_us = deadline_us != 0 ? deadline_us : eo_client_deadline_us(call->client);
	call->error.status = EO_OK;
	call->error.own_credentials = call->client->own_credentials;
	if (call->client->return_capacity)
		ask_for_capacity(call);
	if (eo_buf_status(&call->body) != EO_OK)
	{
		call->error.status = eo_buf_status(&call->body);
		return false;
	}
	if (call->client->circuit != NULL &&
		!call->client->circuit->enter(call->client, &call->error))
		return false;
	return send_attempt(call);
}

/* Scans, transactions and deletes ask what they take by themselves. */
static void
ask_for_capacity(EoCall *call)
{
	EoBuf	   *body = &call->body;

	if ((call->op != EO_GET_ITEM && call->op != EO_UPDATE_ITEM && call->op != EO_BATCH_WRITE) ||
		body->len == 0)
		return;
	/* Reopen the object that is the body. */
	body->len--;
	eo_buf_adds(body, ",\"ReturnConsumedCapacity\":\"TOTAL\"}");
}

bool
eo_call_step(EoCall *call, int64_t *until_us)
{
	bool		goes_on = true;

	if (!call->waiting && !call->transfer.done &&
		eo_clock_monotonic_us() >= call->deadline_us + GRACE_US)
		abandon(call);
	if (call->transfer.done)
		goes_on = take_reply(call);
	else if (call->waiting && eo_clock_monotonic_us() >= call->next_us)
		goes_on = renew_credentials(call) && send_attempt(call);
	*until_us = call->waiting ? call->next_us : call->deadline_us + GRACE_US;
	return goes_on;
}

static bool
send_attempt(EoCall *call)
{
	EoClient   *client = call->client;
	int64_t		now = eo_clock_monotonic_us();
	int64_t		left = call->deadline_us - now;
	bool		last = client->no_retries || call->attempt + 1 >= client->max_attempts ||
	call->op == EO_BATCH_WRITE;
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
	if (client->source != NULL)
		client->source->follow(client);
	if (client->credentials.access_key_id == NULL)
	{
		call->error.status = call->in_doubt ? EO_UNKNOWN :
			client->credentials_away ? EO_CREDENTIALS_AWAY : EO_NO_CREDENTIALS;
		call->error.attempts = --call->attempt;
		snprintf(call->error.message, sizeof(call->error.message), "%s", client->no_credentials);
		if (client->source == NULL || call->renewed)
			return false;
		/* They have ended since the call was prepared: get others once. */
		call->renewed = call->expired = true;
		return send_again(call);
	}

	eo_buf_init(&authorization, 1024);
	eo_buf_init(&token, 8192);
	eo_buf_adds(&authorization, "Authorization: ");
	status = sign(call, date_header, &authorization);
	put_header(host, sizeof(host), "Host: ", client->host);
	headers[req.nheaders++] = host;
	headers[req.nheaders++] = "Content-Type: " CONTENT_TYPE;
	headers[req.nheaders++] = operations[call->op].target;
	headers[req.nheaders++] = date_header;
	headers[req.nheaders++] = eo_buf_str(&authorization);
	/* A header without a value keeps curl from adding its own. */
	headers[req.nheaders++] = "Accept:";
	if (call->body.len > MAX_UNANNOUNCED)
		headers[req.nheaders++] = "Expect:";
	if (client->credentials.session_token != NULL)
	{
		eo_buf_addf(&token, "X-Amz-Security-Token: %s", client->credentials.session_token);
		headers[req.nheaders++] = eo_buf_str(&token);
	}
	req.is_page = call->op == EO_SCAN || call->op == EO_BATCH_WRITE;
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
	{
		call->in_flight = true;
		call->sent_us = now;
		if (call->observer != NULL)
			call->observer->sent(call);
		return true;
	}
	call->error.status = call->in_doubt ? EO_UNKNOWN : status;
	return false;
}

/*
 * If the last answer called the credentials expired, or there were none, get others.
 * There is one renewal for a call, and the request keeps its bytes, and with them the
 * token of the claim.
 */
static bool
renew_credentials(EoCall *call)
{
	if (!call->expired)
		return true;
	call->expired = false;
	if (call->client->source->renew(call->client, call->deadline_us) &&
		eo_clock_monotonic_us() + MIN_ATTEMPT_US <= call->deadline_us)
		return true;
	call->waiting = false;
	if (call->in_doubt)
		call->error.status = EO_UNKNOWN;
	return false;
}

/* "20260101T000000Z", formatted once a second. */
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

/* Write a header line, as much of it as there is room for. */
static void
put_header(char *line, size_t size, const char *name, const char *value)
{
	size_t		name_len = strlen(name);
	size_t		len = strlen(value);

	if (len > size - name_len - 1)
		len = size - name_len - 1;
	memcpy(line, name, name_len);
	memcpy(line + name_len, value, len);
	line[name_len + len] = '\0';
}

/* Make both headers of a signature.  What is signed has to be sorted by name. */
static EoStatus
sign(EoCall *call, char *date_header, EoBuf *authorization)
{
	EoClient   *client = call->client;
	const char *target = operations[call->op].target + strlen(TARGET);
	const char *amz_date = amz_date_of((time_t) eo_client_signing_s(client));
	EoHeader	headers[5];
	EoSigningRequest req = {0};
	int			n = 0;

	put_header(date_header, 40, "X-Amz-Date: ", amz_date);
	add_header(headers, &n, "content-type", CONTENT_TYPE);
	add_header(headers, &n, "host", client->host);
	add_header(headers, &n, "x-amz-date", amz_date);
	if (client->credentials.session_token != NULL)
		add_header(headers, &n, "x-amz-security-token", client->credentials.session_token);
	add_header(headers, &n, "x-amz-target", target);
	req.headers = headers;
	req.nheaders = n;
	req.body = eo_buf_str(&call->body);
	req.body_len = call->body.len;
	req.body_common = call->body.common;
	req.amz_date = amz_date;
	req.region = client->region;
	req.service = "dynamodb";
	return eo_sigv4_sign(client->signer, &client->credentials, &req, authorization);
}

/* End an attempt that the transport has not ended at its deadline. */
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
	int64_t		steady_us = eo_clock_steady_us();
	int64_t		now_us;
	bool		goes_on;

	call->error.http_status = reply->http_status;
	call->error.code[0] = '\0';
	call->error.puzzling = false;
	memcpy(call->error.message, reply->message, sizeof(call->error.message));
	if (call->client->tenant != 0)
		call->error.request_id[0] = '\0';
	else
		memcpy(call->error.request_id, reply->request_id, sizeof(call->error.request_id));
	call->oversized = reply->oversized && (reply->http_status == 200 || reply->http_status == 400);
	if (call->oversized && take_oversized(call, steady_us))
		goes_on = false;
	else if (reply->status != EO_OK)
		goes_on = take_transport_failure(call);
	else
		goes_on = take_answer(call, steady_us);

	now_us = eo_clock_monotonic_us();
	call->in_flight = false;
	if (call->observer != NULL)
		call->observer->ended(call, call->error.status, false, now_us - call->sent_us);
	eo_http_finish(&call->transfer);
	call->transfer.done = false;

	/*
	 * The last answer may be a definite refusal, but if an earlier attempt
	 * may have been applied, the outcome of the call is unknown.  Not so if
	 * the refusal tells what refused the write, an item or reasons: the
	 * caller finds out whether that is the work of the earlier attempt.
	 */
	if (!goes_on && call->in_doubt && call->error.status != EO_OK &&
		call->error.status != EO_CONDITION_FAILED && call->error.status != EO_CANCELLED)
		call->error.status = EO_UNKNOWN;
	if (call->error.status == EO_UNKNOWN && !operations[call->op].writes)
		call->error.status = EO_UNANSWERED;
	call->elapsed_us = now_us - call->started_us;
	if (!goes_on && !call->answered)
		note_failure(call);
	return goes_on;
}

/*
 * DynamoDB answers with a long text only if that has an item.  So a read has its answer, and a
 * write that was refused, too.  False: a write was applied, and is sent again as if the answer
 * had been lost, because a refusal is what tells most then.
 */
static bool
take_oversized(EoCall *call, int64_t steady_us)
{
	bool		writes = operations[call->op].writes;
	bool		refused = call->error.http_status != 200;

	note_answer(call);
	note_date(call, steady_us);
	if (writes ? !refused || call->op != EO_UPDATE_ITEM : refused)
		return false;
	call->error.status = writes ? EO_CONDITION_FAILED : EO_INVALID;
	snprintf(call->error.message, sizeof(call->error.message),
			 "DynamoDB's answer, which has the item, is too long to be read");
	eo_http_distrust();
	return true;
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
	return reply->refused ? connect_later(call) : retry_later(call, false);
}

static bool
take_answer(EoCall *call, int64_t steady_us)
{
	EoHttpReply *reply = &call->transfer.reply;
	EoJsonValue *root;
	EoReplyClass class;
	EoStatus	status;
	bool		refused;

	forget_reply(call);
	status = eo_json_parse(reply->body, reply->body_len, &call->reply);
	if (status == EO_TOO_LARGE)
	{
		call->oversized = reply->http_status == 200 || reply->http_status == 400;
		if (call->oversized && take_oversized(call, steady_us))
			return false;
	}
	if (status != EO_OK)
		return take_unbelievable(call, status == EO_TOO_LARGE ? "the reply has too many values" :
								 status == EO_NO_MEMORY ? "the reply does not fit into memory" :
								 "the reply is not a DynamoDB answer");
	root = eo_json_root(call->reply);
	if (reply->http_status != 200)
		eo_reply_read_error(root, &call->error);
	class = eo_reply_classify(reply->http_status, call->error.code);
	if (call->op == EO_TRANSACT && strcmp(call->error.code, "TransactionCanceledException") == 0)
	{
		call->reasons = eo_json_get(root, "CancellationReasons");
		class = eo_reply_classify_reasons(call->reasons, (size_t) call->nactions);
	}
	if (call->client->tenant != 0 && reply->http_status != 200)
		eo_reply_keep_code(&call->error);
	refused = class.status == EO_CONDITION_FAILED;
	if (class.status == EO_OK || refused)
	{
		call->item = eo_json_get(call->reasons != NULL ? eo_json_array_get(call->reasons, 0) : root,
								 refused || call->op == EO_GET_ITEM ? "Item" : "Attributes");
		if (call->believe != NULL && !call->believe(call, call->item, refused))
			return take_unbelievable(call, "the reply is not the answer to this request");
		note_answer(call);
		note_date(call, steady_us);
		call->error.status = class.status;
		return false;
	}
	call->error.status = class.status;
	call->error.puzzling = class.puzzling;
	if (class.status != EO_UNKNOWN || (reply->http_status < 500 && call->error.code[0] != '\0'))
		note_answer(call);
	if (class.status == EO_UNKNOWN)
		call->in_doubt |= operations[call->op].writes;
	if (class.skewed && !call->resigned && reply->date_s != 0 &&
		eo_client_correct_clock(call->client, reply->date_s, steady_us))
	{
		if (call->dated)
		{
			call->clock_moved = true;
			return false;
		}
		call->resigned = true;
		return send_again(call);
	}
	if (eo_reply_is_expired(call->error.code) && call->client->source != NULL && !call->renewed)
	{
		call->renewed = call->expired = true;
		return send_again(call);
	}
	return class.retry ? retry_later(call, class.throttled) : false;
}

static void
note_date(EoCall *call, int64_t steady_us)
{
	int64_t		date_s = call->transfer.reply.date_s;

	call->has_date = date_s != 0;
	if (!call->has_date)
		return;
	call->offset_seen_us = eo_client_offset_seen(date_s, steady_us);
	eo_client_learn_clock(call->client, date_s, steady_us,
						  eo_clock_monotonic_us() - call->sent_us);
}

/* Make another attempt without a pause. */
static bool
send_again(EoCall *call)
{
	call->waiting = true;
	call->next_us = 0;
	return true;
}

/*
 * Something was received that is not the answer to the request.  The connection is
 * not trusted any more, and the outcome of the request is unknown.
 */
static bool
take_unbelievable(EoCall *call, const char *why)
{
	forget_reply(call);
	eo_http_distrust();
	call->error.status = EO_UNKNOWN;
	call->error.code[0] = '\0';
	snprintf(call->error.message, sizeof(call->error.message), "%s (HTTP status %d)",
			 why, call->error.http_status);
	call->in_doubt |= operations[call->op].writes;
	return retry_later(call, false);
}

static void
forget_reply(EoCall *call)
{
	eo_json_free(call->reply);
	call->reply = NULL;
	call->item = NULL;
	call->reasons = NULL;
}

/* Connect again after a pause, if there is time left.  This was no attempt. */
static bool
connect_later(EoCall *call)
{
	int64_t		now_us = eo_clock_monotonic_us();
	int64_t		latest_us = call->deadline_us - MIN_ATTEMPT_US;

	call->error.attempts = --call->attempt;
	if (call->client->no_retries || now_us >= latest_us)
		return false;
	call->refusals++;
	call->next_us = now_us + random_pause_us(call->refusals, BACKOFF_BASE_MS, BACKOFF_REFUSED_MS);
	if (call->next_us > latest_us)
		call->next_us = latest_us;
	call->waiting = true;
	return true;
}

/* Make another attempt after a pause, if there is one left and time for it. */
static bool
retry_later(EoCall *call, bool throttled)
{
	int64_t		now_us = eo_clock_monotonic_us();
	int64_t		asked_ms = call->transfer.reply.retry_after_ms;

	/* After a batch each of its writes is asked for by itself. */
	if (call->client->no_retries || call->attempt >= call->client->max_attempts ||
		call->op == EO_BATCH_WRITE)
		return false;
	if (asked_ms > RETRY_AFTER_MAX_MS)
		asked_ms = RETRY_AFTER_MAX_MS;
	call->next_us = now_us +
		random_pause_us(call->attempt, throttled ? BACKOFF_THROTTLED_MS : BACKOFF_BASE_MS,
						BACKOFF_MAX_MS);
	if (asked_ms > 0 && call->next_us < now_us + asked_ms * 1000)
		call->next_us = now_us + asked_ms * 1000;

	/*
	 * An attempt that has no time to be answered would only turn a definite
	 * refusal into an unknown outcome.
	 */
	call->waiting = call->next_us + MIN_ATTEMPT_US <= call->deadline_us;
	return call->waiting;
}

/* Between nothing and a ceiling that doubles with each attempt. */
static int64_t
random_pause_us(int attempt, int64_t first_ms, int64_t longest_ms)
{
	int64_t		ceiling_ms = first_ms;
	uint32_t	random;

	for (int i = 1; i < attempt && ceiling_ms < longest_ms; i++)
		ceiling_ms *= 2;
	if (ceiling_ms > longest_ms)
		ceiling_ms = longest_ms;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t) eo_clock_monotonic_us();
	return ceiling_ms * 1000 * (int64_t) (random >> 8) / (1 << 24);
}

/* ----- the circuit ----- */

static void
note_answer(EoCall *call)
{
	call->answered = true;
	if (call->client->circuit != NULL)
		call->client->circuit->answered(call->client);
}

/*
 * The call has ended without an answer.  That is no failure of the service if the
 * caller has left it less time than the server's options do.
 */
static void
note_failure(EoCall *call)
{
	EoClient   *client = call->client;
	EoStatus	status = call->error.status;
	int64_t		given_us = call->deadline_us - call->started_us;
	bool		ran_out = call->attempt < client->max_attempts ||
	eo_clock_monotonic_us() + MIN_ATTEMPT_US >= call->deadline_us;

	if (client->circuit == NULL)
		return;
	if (status == EO_UNREACHABLE ||
		((status == EO_UNKNOWN || status == EO_UNANSWERED) &&
		 !(ran_out && given_us < (int64_t) client->request_timeout_ms * 900)))
		client->circuit->failed(client, call->started_us, &call->error);
}
