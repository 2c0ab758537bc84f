/*
 * session_fuzz.c
 *	  A session of writes to one record, with everything that can happen to a request
 *	  and its reply: lost, late, twice, refused, answered with another's reply, or with
 *	  any bytes.  What server/answer.c and wire/call.c say about a write is compared
 *	  with what an engine has done, which knows each verb's condition from the table in
 *	  records/record.c.
 *
 * Each write takes some bytes: its verb, who writes it, and one for what becomes of each
 * request.
 *
 * The product's server/answer.c and server/store_record.c are linked, see backend_stubs.c.
 */
#include "postgres.h"

#include "server/answer.h"
#include "server/options.h"
#include "server/stats.h"
#include "server/store.h"
#include "server/store_record.h"
#include "wire/http.h"

#undef snprintf
#undef malloc

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PK "IDEMPOTENCY#k"
#define WRITERS 4
#define MAX_LATE 8
#define MAX_REPLY 2048
#define SKEW_MS 2000
#define TIMEOUT_MS 1000
#define MAX_ATTEMPTS 3

/* ----- the input ----- */

static const uint8_t *input;
static size_t left;

static int
next_byte(void)
{
	if (left == 0)
		return 0;
	left--;
	return *input++;
}

/* ----- the engine ----- */

typedef struct Item
{
	bool		exists;
	EoState		state;
	char		owner[40];
	char		origin[20];		/* "": none */
	char		undone[400];	/* each with a space behind it */
	char		progress[20];	/* "": none */
	int64_t		progress_no;
	bool		has_retry;
	int64_t		retry_ms;
	int64_t		lease_ms;
	int64_t		fence;
	int64_t		runs;
} Item;

/* A write as it is sent, with the values of its EoWrite that conditions look at. */
typedef struct Sent
{
	EoVerb		verb;
	char		owner[40];
	char		origin[20];
	char		progress[20];
	int64_t		progress_seen;
	int64_t		now_ms;
	int64_t		lease_ms;
	bool		terminal;
} Sent;

static Item item;
static Sent late[MAX_LATE];		/* copies that are still on their way */
static int	nlate;
static const char *const state_names[] = {"IN_PROGRESS", "COMMITTING", "COMPLETED", "FAILED"};

static bool
is_free(const Sent *w)
{
	if (!item.exists)
		return true;
	if (item.state == EO_STATE_FAILED)
		return item.has_retry && item.retry_ms <= w->now_ms && strcmp(item.owner, w->owner) != 0;
	return item.state == EO_STATE_IN_PROGRESS && item.lease_ms < w->now_ms - SKEW_MS;
}

static bool
is_own(const Sent *w)
{
	return item.exists && strcmp(item.owner, w->owner) == 0;
}

static bool
is_own_run(const Sent *w)
{
	return is_own(w) && item.state == EO_STATE_IN_PROGRESS;
}

static bool
is_own_sealed(const Sent *w)
{
	return is_own(w) && item.state == EO_STATE_COMMITTING && strcmp(item.origin, w->origin) == 0;
}

static bool
is_own_run_or_sealed(const Sent *w)
{
	return is_own_run(w) || is_own_sealed(w);
}

static bool
is_undone(const Sent *w)
{
	char		noted[32];

	snprintf(noted, sizeof(noted), "%s ", w->origin);
	return strstr(item.undone, noted) != NULL;
}

static bool
notes_undone(EoVerb verb)
{
	return verb == EO_UNSEAL || verb == EO_RESUME || verb == EO_NOTE_UNDONE;
}

static bool
condition_holds(const Sent *w)
{
	switch (w->verb)
	{
		case EO_ACQUIRE:
		case EO_SEAL_NEW:
			return is_free(w);
		case EO_COMPLETE:
		case EO_RELEASE:
		case EO_SPARE:
			return is_own_run(w);
		case EO_EXTEND:
			return is_own_run(w) && item.lease_ms <= w->lease_ms;
		case EO_PROGRESS:
			return is_own_run(w) && item.lease_ms <= w->lease_ms &&
				item.progress_no == w->progress_seen;
		case EO_RESUME:
			return is_own_sealed(w);
		case EO_FAIL:
			return is_own_run(w) || (is_own(w) && item.state == EO_STATE_FAILED);
		case EO_SEAL:
			return is_own_run(w) && !is_undone(w);
		case EO_NOTE_UNDONE:
			return is_own(w) && item.state == EO_STATE_COMMITTING &&
				strcmp(item.origin, w->origin) != 0;
		case EO_FINISH:
			return is_own(w) && item.state == EO_STATE_COMMITTING &&
				(w->origin[0] == '\0' || strcmp(item.origin, w->origin) == 0);
		case EO_ABORT:
		case EO_UNSEAL:
			return is_own_run_or_sealed(w);
		case EO_BURY:
			return !item.exists || is_own_run_or_sealed(w);
		default:
			abort();
	}
}

/* Carry out a write; false: it was refused. */
static bool
apply(const Sent *w)
{
	bool		claims = w->verb == EO_ACQUIRE || w->verb == EO_SEAL_NEW;

	if (!condition_holds(w))
		return false;
	if (claims || !item.exists)
	{
		item.fence = item.fence == 0 ? w->now_ms : item.fence + 1;
		item.runs++;
		strcpy(item.owner, w->owner);
	}
	item.exists = true;
	item.state = eo_record_state_after(w->verb);
	if (claims || w->verb == EO_EXTEND || w->verb == EO_PROGRESS || w->verb == EO_RESUME)
		item.lease_ms = w->lease_ms;
	if (w->verb == EO_PROGRESS)
	{
		strcpy(item.progress, w->progress);
		item.progress_no++;
	}
	if (item.state == EO_STATE_COMPLETED)
	{
		item.progress[0] = '\0';
		item.progress_no = 0;
	}
	if (w->verb == EO_SEAL || w->verb == EO_SEAL_NEW || w->verb == EO_UNSEAL)
		strcpy(item.origin, w->origin);
	if (w->verb == EO_ACQUIRE || w->verb == EO_COMPLETE)
		item.origin[0] = '\0';
	if (claims)
		item.undone[0] = '\0';
	if (notes_undone(w->verb) && !is_undone(w))
	{
		if (strlen(item.undone) + 32 > sizeof(item.undone))
			item.undone[0] = '\0';
		strcat(strcat(item.undone, w->origin), " ");
	}
	item.has_retry = item.state == EO_STATE_FAILED && !w->terminal;
	item.retry_ms = w->verb == EO_FAIL ? w->now_ms + 5000 : 0;
	return true;
}

/* Does the item show the write, as store_record.c sees it? */
static bool
shows(const Sent *w)
{
	if (!is_own(w) || item.state != eo_record_state_after(w->verb))
		return false;
	if (w->verb == EO_SEAL || w->verb == EO_SEAL_NEW)
		return strcmp(item.origin, w->origin) == 0;
	if (notes_undone(w->verb) && !is_undone(w))
		return false;
	if (w->verb == EO_PROGRESS)
		return item.progress_no == w->progress_seen + 1 && strcmp(item.progress, w->progress) == 0;
	if (w->verb == EO_RESUME && strcmp(item.origin, w->origin) != 0)
		return false;
	return (w->verb != EO_EXTEND && w->verb != EO_RESUME) || item.lease_ms >= w->lease_ms;
}

static int
put_undone(char *out, size_t size)
{
	const char *next = item.undone;
	int			n = 0;

	while (*next != '\0')
	{
		int			len = (int) strcspn(next, " ");

		n += snprintf(out + n, size - n, "%s\"%.*s\"", n == 0 ? ",\"undone\":{\"SS\":[" : ",", len, next);
		next += len + 1;
	}
	return n + (n > 0 ? snprintf(out + n, size - n, "]}") : 0);
}

static int
put_item(char *out, size_t size)
{
	int			n = snprintf(out, size, "{\"pk\":{\"S\":\"" PK "\"},"
							 "\"status\":{\"S\":\"%s\"},"
							 "\"owner\":{\"S\":\"%s\"},\"fence\":{\"N\":\"%lld\"},"
							 "\"runs\":{\"N\":\"%lld\"},\"lease_ms\":{\"N\":\"%lld\"}",
							 state_names[item.state], item.owner, (long long) item.fence,
							 (long long) item.runs, (long long) item.lease_ms);

	if (item.origin[0] != '\0')
		n += snprintf(out + n, size - n, ",\"origin\":{\"S\":\"%s\"}", item.origin);
	if (item.progress_no > 0)
		n += snprintf(out + n, size - n, ",\"progress\":{\"S\":\"%s\"},\"progress_no\":{\"N\":\"%lld\"}",
					  item.progress, (long long) item.progress_no);
	n += put_undone(out + n, size - n);
	if (item.has_retry)
		n += snprintf(out + n, size - n, ",\"retry_ms\":{\"N\":\"%lld\"}", (long long) item.retry_ms);
	return n + snprintf(out + n, size - n, "}");
}

/* ----- the write that is tested, and what has become of it ----- */

static Sent current;
static int	napplied;			/* copies of it that were carried out */
static int	nunanswered;		/* requests that were sent, and whose answer
								 * is lost */
static int	nrequests;
static bool displaced;			/* another write came after it */
static bool was_shown;			/* a reply shows it, by whichever write */
static bool forged;				/* a reply was not the engine's */

/* ----- the transport ----- */

static int64_t clock_us;
static EoHttpTransfer *flying;
static bool is_read;
static char reply_body[MAX_REPLY];
static char old_reply[MAX_REPLY];	/* of an earlier write that was accepted */
static Item old_item;			/* the item in it */

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
	is_read = false;
	for (int i = 0; i < req->nheaders; i++)
		is_read |= strstr(req->headers[i], "GetItem") != NULL;
	memset(t, 0, sizeof(*t));
	flying = t;
	nrequests++;
	return EO_OK;
}

void
eo_http_finish(EoHttpTransfer *t)
{
	if (t == flying)
		flying = NULL;
}

void
eo_http_distrust(void)
{
}

static void
reply(int http_status, const char *body)
{
	flying->reply.status = EO_OK;
	flying->reply.http_status = http_status;
	flying->reply.body = body;
	flying->reply.body_len = strlen(body);
}

static void
fail(EoStatus status)
{
	flying->reply.status = status;
}

static void
reply_error(int http_status, const char *code)
{
	snprintf(reply_body, sizeof(reply_body), "{\"__type\":\"com.amazonaws#%s\",\"message\":\"m\"}", code);
	reply(http_status, reply_body);
}

/* The request reaches the engine.  Returns whether it was accepted. */
static bool
carry_out(void)
{
	bool		accepted = is_read || apply(&current);

	if (accepted && !is_read)
	{
		napplied++;
		displaced = false;
	}
	was_shown |= shows(&current);
	return accepted;
}

/* The engine's answer, with the item if it was refused, or without. */
static void
answer_truly(bool accepted, bool with_item)
{
	int			n;

	if (is_read && !item.exists)
	{
		reply(200, "{}");
		return;
	}
	n = snprintf(reply_body, sizeof(reply_body), "%s",
				 is_read ? "{\"Item\":" : accepted ? "{\"Attributes\":" :
				 "{\"__type\":\"com.amazonaws#ConditionalCheckFailedException\",\"message\":\"m\"");
	if (!is_read && !accepted && with_item && item.exists)
		n += snprintf(reply_body + n, sizeof(reply_body) - n, ",\"Item\":");
	if (is_read || accepted || (with_item && item.exists))
		n += put_item(reply_body + n, sizeof(reply_body) - n);
	snprintf(reply_body + n, sizeof(reply_body) - n, "}");
	reply(is_read || accepted ? 200 : 400, reply_body);
	if (accepted && !is_read)
	{
		strcpy(old_reply, reply_body);
		old_item = item;
	}
}

/* The reply to an earlier write comes again.  It may show the present one, whose like that was. */
static void
answer_with_old_reply(void)
{
	Item		present = item;

	item = old_item;
	was_shown |= shows(&current);
	item = present;
	strcpy(reply_body, old_reply);
	reply(200, reply_body);
}

/* A copy that is still on its way arrives. */
static void
deliver_late(void)
{
	Sent		w;

	if (nlate == 0)
		return;
	w = late[--nlate];
	if (!apply(&w))
		return;
	if (memcmp(&w, &current, sizeof(w)) == 0)
	{
		napplied++;
		displaced = false;
	}
	else
		displaced |= napplied > 0;
}

static void
answer_with_bytes(void)
{
	static char bytes[256];
	int			n = next_byte() % 200;

	for (int i = 0; i < n; i++)
		bytes[i] = (char) next_byte();
	bytes[n] = '\0';
	forged = true;
	reply((next_byte() & 1) != 0 ? 200 : 400, bytes);
}

/* What becomes of a request. */
static void
decide_fate(void)
{
	switch (next_byte() % 16)
	{
		case 1:					/* the reply is lost */
			nunanswered++;
			(void) carry_out();
			fail(EO_UNKNOWN);
			break;
		case 2:					/* there is no connection */
			fail(EO_UNREACHABLE);
			break;
		case 3:					/* the request is lost */
			nunanswered++;
			fail(EO_UNKNOWN);
			break;
		case 4:					/* it arrives later */
			nunanswered++;
			if (nlate < MAX_LATE && !is_read)
				late[nlate++] = current;
			fail(EO_UNKNOWN);
			break;
		case 5:					/* and now as well */
			if (nlate < MAX_LATE && !is_read)
				late[nlate++] = current;
			answer_truly(carry_out(), true);
			break;
		case 6:
			nunanswered++;
			reply_error(500, "InternalServerError");
			break;
		case 7:
			nunanswered++;
			(void) carry_out();
			reply_error(500, "InternalServerError");
			break;
		case 8:
			reply_error(400, "ThrottlingException");
			break;
		case 9:
			reply_error(400, "AccessDeniedException");
			break;
		case 10:				/* an engine that shows no items */
			answer_truly(carry_out(), false);
			break;
		case 11:
			deliver_late();
			answer_truly(carry_out(), true);
			break;
		case 12:				/* the reply to an earlier write */
			nunanswered++;
			(void) carry_out();
			if (old_reply[0] == '\0')
				fail(EO_UNKNOWN);
			else
				answer_with_old_reply();
			break;
		case 13:
			nunanswered++;
			answer_with_bytes();
			break;
		case 14:				/* at its end its time is over */
			clock_us += INT64_C(1000) * TIMEOUT_MS;
			nunanswered++;
			(void) carry_out();
			fail(EO_UNKNOWN);
			break;
		case 15:
			reply_error(400, "RequestTimeTooSkewed");
			flying->reply.date_s = INT64_C(1780000000) + next_byte() * 60;
			break;
		default:
			answer_truly(carry_out(), true);
			break;
	}
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
	flying->reply.retry_after_ms = -1;
	decide_fate();
	flying->done = true;
	flying = NULL;
}

/* ----- the session ----- */

/* What a writer sends next: a new token for a new claim, a new origin for a new seal. */
typedef struct Writer
{
	char		token[40];
	char		origin[20];
} Writer;

static Writer writers[WRITERS];
static unsigned int serial;

static void
make_write(Writer *writer, EoVerb verb)
{
	memset(&current, 0, sizeof(current));
	current.verb = verb;
	if (verb == EO_ACQUIRE || verb == EO_SEAL_NEW || writer->token[0] == '\0')
		snprintf(writer->token, sizeof(writer->token), "aaaaaaaa-0000-4000-8000-%012x", ++serial);
	if (verb == EO_SEAL || verb == EO_SEAL_NEW || writer->origin[0] == '\0')
		snprintf(writer->origin, sizeof(writer->origin), "o/%u/1/0/1", ++serial);
	strcpy(current.owner, writer->token);
	if (verb == EO_SEAL || verb == EO_SEAL_NEW ||
		verb == EO_ABORT || verb == EO_BURY || notes_undone(verb))
		strcpy(current.origin, writer->origin);
	current.now_ms = INT64_C(1780000000000) + clock_us / 1000;
	current.lease_ms = current.now_ms + 1000 * (1 + next_byte() % 60);
	current.terminal = verb == EO_FAIL && (next_byte() & 1) != 0;
	if (verb == EO_PROGRESS)
	{
		/* Most often it comes after the last note that there is. */
		int			seen = next_byte() % 16;

		current.progress_seen = seen < 4 ? seen : item.progress_no;
		snprintf(current.progress, sizeof(current.progress), "%u", ++serial);
	}
	napplied = nunanswered = nrequests = 0;
	displaced = was_shown = forged = false;
}

static void
check(const EoAnswer *answer)
{
	const EoError *error = &answer->error;

	/*
	 * The second look is a call of its own; a clock that is set right gives
	 * one request more.
	 */
	if (nrequests > 2 * (MAX_ATTEMPTS + 1))
		abort();
	if (forged)
		return;
	switch (answer->outcome)
	{
		case EO_APPLIED:
			if (napplied == 0 && !was_shown)
				abort();
			/* An earlier call has done it, not this one. */
			if (answer->replayed && napplied > 0)
				abort();
			break;
		case EO_NOT_APPLIED:
			if (napplied > 0 && !displaced)
				abort();
			break;
		case EO_FAILED_CALL:

			/*
			 * Anything but EO_UNKNOWN means that nothing was, or will be,
			 * done.
			 */
			if (error->status == EO_OK)
				abort();
			if (error->status != EO_UNKNOWN && napplied > 0)
				abort();
			break;
		case EO_READ:
			abort();
	}
	if (answer->exists && eo_store_record(answer)->owner == NULL)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const EoVerb verbs[] = {EO_ACQUIRE, EO_SEAL, EO_FINISH, EO_COMPLETE, EO_FAIL, EO_RELEASE,
	EO_EXTEND, EO_SEAL_NEW, EO_ABORT, EO_BURY, EO_UNSEAL, EO_NOTE_UNDONE};
	static const EoVerb rare_verbs[] = {EO_PROGRESS, EO_RESUME, EO_SPARE};
	static EoServer server;
	static EoStats stats;
	static EoStore store;

	if (store.client.signer == NULL)
	{
		store.server = &server;
		store.stats = &stats;
		server.name = server.table = (char *) "tab";
		store.layout = eo_layout_find("native");
		store.client.signer = eo_sigv4_create();
		store.client.host = "localhost";
		store.client.region = "r";
		store.client.credentials.access_key_id = "a";
		store.client.credentials.secret_access_key = "b";
		store.client.request_timeout_ms = TIMEOUT_MS;
		store.client.max_attempts = MAX_ATTEMPTS;
	}
	memset(&store.client.clock, 0, sizeof(store.client.clock));
	memset(&item, 0, sizeof(item));
	memset(writers, 0, sizeof(writers));
	nlate = 0;
	serial = 0;
	clock_us = 1;
	old_reply[0] = '\0';
	input = data;
	left = size;
	while (left > 0)
	{
		int			choice = next_byte();
		EoWrite		w = {0};
		EoAnswer   *answer;

		if (choice >= 250)
			clock_us += INT64_C(20000000);
		if (choice >= 238 && choice < 250)
			make_write(&writers[choice % WRITERS], rare_verbs[(choice - 238) / WRITERS]);
		else
			make_write(&writers[choice / 12 % WRITERS], verbs[choice % 12]);
		w.owner = current.owner;
		w.origin = w.origin_last = current.origin[0] != '\0' ? current.origin : NULL;
		w.now_ms = current.now_ms;
		w.lease_ms = current.lease_ms;
		w.retry_ms = current.now_ms + 5000;
		w.terminal = current.terminal;
		w.progress = current.progress;
		w.progress_len = strlen(current.progress);
		w.progress_seen = current.progress_seen;
		w.skew_ms = SKEW_MS;
		w.bind = "tx";
		eo_record_keep(&w, w.now_ms, 3600);
		answer = eo_answer_run_one(eo_store_record_plan(&store, PK, current.verb, &w));
		check(answer);
		eo_answer_free(answer);
	}
	return 0;
}
