/*-------------------------------------------------------------------------
 *
 * worker_writes.c
 *	  Rows of the outbox that have writes: their order, and what is refused.
 *
 * A row with writes is finished by one transaction of DynamoDB: its record becomes COMPLETED
 * on condition that it is COMMITTING, under the token of the row and with that number of
 * writes; and the writes are made.  So they are made once, however often the request is
 * sent: the second time the record is COMPLETED and refuses it.
 *
 * Such rows get their jobs from scans only, because their order is to be kept: of the rows
 * that write to an item the one with the least number comes first (item_order.h), and the
 * others wait until it is removed.  A snapshot that shows a row shows those before it.
 * So before a scan looks for work, all rows with writes are read, and the first of each item
 * is noted.  A row that has become visible after that is in no note, and waits for the next
 * scan.
 *
 * What DynamoDB refuses for good is not a failure of the target: the request was answered.
 * The reason goes into the row, and the row is tried again now and then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commit/outbox.h"
#include "commit/worker_jobs.h"
#include "commit/worker_targets.h"
#include "commit/worker_writes.h"
#include "common/hashfn.h"
#include "dynamodb/json.h"
#include "dynamodb/record.h"
#include "dynamodb/token.h"
#include "lib/ilist.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* No more writes are read while those of the jobs have so many bytes. */
#define MAX_BYTES (64 * 1024 * 1024)

/* The first row that writes to an item. */
typedef struct First
{
	uint64		item;			/* hash of its line; the key */
	int64		number;
	char		token[EO_TOKEN_LEN + 1];
} First;

/* A reason that is to be noted in a row. */
typedef struct Note
{
	slist_node	node;
	uint8		digest[EO_DIGEST_LEN];
	char		token[EO_TOKEN_LEN + 1];
	char	   *table;			/* of the record */
	char	   *reason;
	int			item;
} Note;

static struct
{
	MemoryContext context;
	MemoryContext scan;			/* of the notes of a scan; NULL: there are
								 * none */
	HTAB	   *firsts;			/* First by item; NULL outside of a scan */
	bool		expected;		/* there may be rows with writes */
	bool		waiting;		/* some wait for others, or for memory */
	bool		again;			/* some were not noted when the scan began */
	size_t		bytes;			/* of the writes in jobs */
	slist_head	notes;
}			writes;

void
eo_worker_writes_init(MemoryContext context)
{
	writes.context = context;
	writes.expected = true;
	slist_init(&writes.notes);
}

void
eo_worker_writes_expect(void)
{
	writes.expected = true;
}

bool
eo_worker_writes_wait(void)
{
	return writes.waiting;
}

bool
eo_worker_writes_again(void)
{
	return writes.again;
}

/* ----- the order ----- */

/* Call visit() for each line until it returns false.  Returns true if all were visited. */
static bool
each_item(const EoOutboxRow *row, bool (*visit) (const EoOutboxRow *row, uint64 item))
{
	const char *line = row->writes.items;

	while (*line != '\0')
	{
		size_t		len = strcspn(line, "\n");

		if (!visit(row, hash_bytes_extended((const unsigned char *) line, (int) len, 0)))
			return false;
		line += len + (line[len] == '\n');
	}
	return true;
}

static bool
note_first(const EoOutboxRow *row, uint64 item)
{
	bool		found;
	First	   *first = hash_search(writes.firsts, &item, HASH_ENTER, &found);

	if (!found || row->writes.number < first->number)
	{
		first->number = row->writes.number;
		strlcpy(first->token, row->token, sizeof(first->token));
	}
	return true;
}

static void
take_row(const EoOutboxRow *row)
{
	writes.expected = true;
	(void) each_item(row, note_first);
}

void
eo_worker_writes_begin(void)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(First)};
	bool		expected = writes.expected;

	writes.expected = writes.waiting = writes.again = false;
	if (!expected)
		return;
	ctl.hcxt = writes.scan = AllocSetContextCreate(writes.context, "exactonce order of writes",
												   ALLOCSET_DEFAULT_SIZES);
	writes.firsts = hash_create("exactonce first writes", 256, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	eo_outbox_visit_writes(take_row);
}

void
eo_worker_writes_end(void)
{
	if (writes.scan != NULL)
		MemoryContextDelete(writes.scan);
	writes.scan = NULL;
	writes.firsts = NULL;
}

static bool
is_first(const EoOutboxRow *row, uint64 item)
{
	const First *first = hash_search(writes.firsts, &item, HASH_FIND, NULL);

	writes.again |= first == NULL;
	return first != NULL && strcmp(first->token, row->token) == 0;
}

bool
eo_worker_writes_may_go(const EoOutboxRow *row)
{
	if (writes.firsts != NULL && writes.bytes < MAX_BYTES && each_item(row, is_first))
		return true;
	writes.again |= writes.firsts == NULL;
	writes.expected = writes.waiting = true;
	return false;
}

/* ----- the job ----- */

static void
unload(void *len)
{
	writes.bytes -= (size_t) len;
}

void
eo_worker_writes_load(EoWorkerJob *job)
{
	EoOutboxRow *row = job->data;
	MemoryContext old = MemoryContextSwitchTo(job->context);
	MemoryContextCallback *callback = palloc0(sizeof(*callback));
	char	   *text = eo_outbox_read_writes(row->digest, row->token);

	MemoryContextSwitchTo(old);
	row->writes.items = NULL;
	row->writes.text = text;
	if (text == NULL)
		return;
	/* Such a write is never one of several in a request. */
	job->alone = true;
	writes.bytes += strlen(text);
	callback->func = unload;
	callback->arg = (void *) strlen(text);
	MemoryContextRegisterResetCallback(job->context, callback);
}

EoAnswer *
eo_worker_writes_prepare(EoWorkerJob *job, EoStore *store, const EoWrite *w)
{
	const EoOutboxRow *row = job->data;
	char		request_token[EO_TOKEN_LEN + 1];

	eo_store_new_token(request_token);
	return eo_store_prepare_transaction(store, row->pk, EO_FINISH, w, request_token,
										row->writes.text, row->writes.n);
}

/* ----- what is refused ----- */

/* The first write that was refused, from 1, and why; 0: that is not told. */
static int
refused_item(const EoAnswer *answer, const char **code)
{
	EoJsonValue *reasons = answer->call.reasons;

	for (size_t i = 1; i < eo_json_array_length(reasons); i++)
	{
		size_t		len;
		const char *s = eo_json_string(eo_json_get(eo_json_array_get(reasons, i), "Code"), &len);

		if (s == NULL || strcmp(s, "None") == 0)
			continue;
		*code = s;
		return (int) i;
	}
	return 0;
}

/* Is the failure about this very request, and would another one like it fail, too? */
static bool
is_for_good(const EoError *error)
{
	switch (error->status)
	{
		case EO_CANCELLED:
		case EO_TOO_LARGE:
		case EO_NO_TABLE:
		case EO_REFUSED:
			return true;
		case EO_DENIED:
			/* Other errors are about who signs, and so about all requests. */
			return strcmp(error->code, "AccessDeniedException") == 0;
		default:
			return false;
	}
}

/* The texts of the service may quote items; of these two errors they name tables and roles. */
static char *
describe(const EoError *error, const char *code)
{
	if (error->status == EO_NO_TABLE || error->status == EO_DENIED)
		return eo_error_facts(error);
	if (error->status == EO_TOO_LARGE)
		return pstrdup("the request is too large");
	return psprintf("%.*s", EO_CODE_LEN, code);
}

bool
eo_worker_writes_refused(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoOutboxRow *row = job->data;
	const char *code = answer->error.code;
	MemoryContext old;
	Note	   *note;

	if (row->writes.n == 0 || !is_for_good(&answer->error))
		return false;
	old = MemoryContextSwitchTo(writes.context);
	note = palloc0(sizeof(Note));
	memcpy(note->digest, row->digest, sizeof(note->digest));
	strlcpy(note->token, row->token, sizeof(note->token));
	note->item = refused_item(answer, &code);
	note->table = pstrdup(row->target.table);
	note->reason = describe(&answer->error, code);
	for (char *p = note->reason; *p != '\0'; p++)
	{
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
	slist_push_head(&writes.notes, &note->node);
	MemoryContextSwitchTo(old);
	return true;
}

bool
eo_worker_writes_any_notes(void)
{
	return !slist_is_empty(&writes.notes);
}

void
eo_worker_writes_put_notes(void)
{
	while (!slist_is_empty(&writes.notes))
	{
		Note	   *note = slist_container(Note, node, slist_pop_head_node(&writes.notes));

		if (eo_outbox_note(note->digest, note->token, note->reason, note->item))
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("exactonce: the writes of a key of table \"%s\" are refused, although its transaction committed",
							note->table),
					 note->item > 0 ? errdetail_internal("Write %d: %s.", note->item, note->reason) :
					 errdetail_internal("%s", note->reason),
					 errhint("They are tried again every minute; exactonce_pending shows the key. Remove the cause, or give them up with idem_resolve(key, 'completed').")));
		pfree(note->table);
		pfree(note->reason);
		pfree(note);
	}
}
