/*
 * reply_fuzz.c
 *	  Any bytes as the body of an answer, under any HTTP status: the call ends
 *	  with a status that is allowed, and a record or an action is read or
 *	  refused.
 *
 * The first byte chooses the status, the second the operation and the layout.
 */
#include "records/action_item.h"
#include "records/layout.h"
#include "records/record.h"
#include "records/statement.h"
#include "records/window.h"
#include "wire/call.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *body;
static size_t body_len;
static int	http_status;
static int64_t clock_us = 1;
static EoHttpTransfer *flying;

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

EoStatus
eo_http_start(EoHttpTransfer *t, const EoHttpRequest *req)
{
	(void) req;
	memset(t, 0, sizeof(*t));
	flying = t;
	return EO_OK;
}

void
eo_http_wait(int64_t until_us, EoWaitMode mode)
{
	(void) mode;
	if (flying == NULL)
	{
		if (clock_us < until_us)
			clock_us = until_us;
		return;
	}
	clock_us += 1000;
	flying->reply.status = EO_OK;
	flying->reply.http_status = http_status;
	flying->reply.body = body;
	flying->reply.body_len = body_len;
	flying->reply.retry_after_ms = -1;
	flying->done = true;
	flying = NULL;
}

void
eo_http_finish(EoHttpTransfer *t)
{
	(void) t;
}

void
eo_http_distrust(void)
{
}

/* What an item is read as has no members that contradict each other, in any layout. */
static void
check_item(const EoLayout *layout, EoJsonValue *item)
{
	EoRecord	record;
	EoActionItem action;

	if (eo_record_read(layout, item, &record) == EO_OK &&
		(record.owner == NULL || (record.result != NULL && record.odd_result) ||
		 (record.error != NULL && record.odd_error)))
		abort();
	if (eo_action_item_read(eo_action_item_layout(layout, ""), item, &action) == EO_OK &&
		(action.expires_ms < 0 || action.pin_attempts < EO_PIN_ATTEMPTS_ALL ||
		 (eo_action_item_shows(&action, EO_ACTION_ATTEMPT, "t") && action.pin_tokens == NULL)))
		abort();
}

/* A reply is read only if each answer says what became of its statement. */
static void
check_statements(const EoLayout *layout, EoJsonValue *root)
{
	EoStatementReply replies[3];

	for (size_t n = 1; n <= 3; n++)
	{
		if (!eo_statement_read(root, replies, n))
			continue;
		for (size_t i = 0; i < n; i++)
		{
			if (replies[i].status == EO_OK ? replies[i].code != NULL ||
				(replies[i].item == NULL && replies[i].table == NULL) : replies[i].code == NULL)
				abort();
			if (replies[i].item != NULL)
				check_item(layout, replies[i].item);
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int statuses[] = {200, 400, 400, 500, 503, 302, 403, 200};
	static const char *const layouts[] = {
		"native", "powertools-python", "powertools-typescript", "powertools-java",
		"custom;key_attribute=PK;item_prefix=IDEMPOTENCY#;sort_key_attribute=SK;status_attribute=State;"
		"status_words=in_progress=Pending,completed=Completed,failed=Failed;"
		"expiry_attribute=TTL;updated_attribute=LastUpdated;instants=iso",
		"custom;result_attribute=data;result_form=native;updated_attribute=at;stale_after=60000",
		"custom;key_attribute=actionId;updated_attribute=Timestamp;instants=iso;stale_after=60000"
	};
	static const EoOperation ops[] = {EO_UPDATE_ITEM, EO_GET_ITEM, EO_TRANSACT, EO_BATCH_WRITE};
	static EoClient client;
	EoCall		call;
	EoWindow	window = {.n = 0};
	const EoLayout *layout;

	if (size < 2)
		return 0;
	if (client.signer == NULL)
	{
		client.signer = eo_sigv4_create();
		client.host = "localhost";
		client.region = "r";
		client.credentials.access_key_id = "a";
		client.credentials.secret_access_key = "b";
		client.request_timeout_ms = 1000;
		client.max_attempts = 2;
	}
	http_status = statuses[data[0] % 8];
	layout = eo_layout_find(layouts[data[1] / 4 % (sizeof(layouts) / sizeof(layouts[0]))]);
	if (layout == NULL)
		abort();
	body = (const char *) data + 2;
	body_len = size - 2;
	eo_call_init(&call, &client, ops[data[1] % 4]);
	call.nactions = 2;
	eo_buf_adds(&call.body, "{}");
	if (eo_window_add(&window, &call, 0))
		eo_window_run(&window, 1, NULL, NULL, NULL);
	if (call.error.status == EO_OK && http_status != 200)
		abort();
	if (call.item != NULL)
		check_item(layout, call.item);
	if (call.op == EO_BATCH_WRITE && call.error.status == EO_OK)
		check_statements(layout, eo_json_root(call.reply));
	for (const char *p = call.error.message; *p; p++)
		if ((unsigned char) *p < ' ')
			abort();
	for (const char *p = call.error.code; *p; p++)
		if ((unsigned char) *p <= ' ')
			abort();
	eo_call_free(&call);
	return 0;
}
