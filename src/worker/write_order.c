/*-------------------------------------------------------------------------
 *
 * write_order.c
 *	  Rows of the outbox that have writes: their order, and what is refused.
 *
 * A row with writes is finished by one transaction of DynamoDB: its record becomes COMPLETED
 * on condition that it is COMMITTING, under the token of the row and with that number of
 * writes; and the writes are made.  So they are made once, however often the request is
 * sent: the second time the record is COMPLETED and refuses it.
 *
 * Their order is to be kept: of the rows that write to an item the one with the least number
 * comes first (item_order.h), and the others wait until it is removed.  A snapshot that shows
 * a row shows those before it.  So before a scan looks for work, all rows with writes are
 * read and put in order.  When a row is removed, those that have waited for it alone get their
 * jobs without another scan.
 *
 * An item that a tenant writes to has a queue, by whatever server.  Rows of one server are in
 * order, too, if it was given to another tenant between them: so each item has a second queue,
 * of its server.  The rows of others are not held up by either of them.
 *
 * Slots tell of rows that commit after that, in the order of their numbers: a transaction
 * gives its slots to the worker in that order (xact.c), and before it releases the locks of
 * its items.  So each row is put behind all that are in order, and needs no scan.  That is not
 * so for prepared transactions, whose slots are given to the worker after their locks are
 * released.  Nor for rows that were adopted (own_life.c), which have no slots.  Where prepared
 * transactions are enabled, after an adoption, and if something is not known, a scan is made
 * instead.
 *
 * What DynamoDB refuses for good is not a failure of the target: the request was answered.
 * The reason goes into the row (finish_notes.c), and the row is tried again now and then.  An
 * earlier request may have made the writes, and its reply was lost: so the record is read
 * before a refusal counts (answer.c).  An answer that is not understood is no refusal, and
 * no failure of the target either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "ledger/known_targets.h"
#include "ledger/outbox.h"
#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/store_record.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "wire/crypto.h"
#include "wire/json.h"
#include "wire/reply.h"
#include "wire/status.h"
#include "worker/finish_notes.h"
#include "worker/jobs.h"
#include "worker/life_board.h"
#include "worker/write_order.h"
#include "worker/write_targets.h"

/*
 * So many bytes of writes are read before their jobs are done.  An owner of servers has at most
 * half of what the others leave, and a target half of what his other targets leave of that.
 * Whoever has nothing may have one row.
 */
#define MAX_BYTES (64 * 1024 * 1024)

/* A row with writes, as the last scan found it. */
typedef struct Row
{
	char		token[EO_TOKEN_LEN + 1];
	uint8		digest[EO_DIGEST_LEN];
	int64		number;
	bool		elsewhere;		/* it is of a life that goes on elsewhere */
	int			ahead;			/* items for which another row is first */
	int			nitems;
	struct WrittenItem *items;	/* two for each write */
} Row;

/* An item that a row writes to. */
typedef struct WrittenItem
{
	dlist_node	node;			/* in its queue */
	uint8		queue[EO_SHA256_LEN];	/* its key */
	Row		   *row;			/* NULL: an item before it is in that queue */
} WrittenItem;

/* The rows that write to an item, the first one first. */
typedef struct Queue
{
	uint8		id[EO_SHA256_LEN];	/* the key: nobody finds two items with
									 * one */
	dlist_head	items;			/* WrittenItem */
} Queue;

/* Where a row is. */
typedef struct Place
{
	char		token[EO_TOKEN_LEN + 1];	/* the key */
	Row		   *row;
} Place;

/* The writes of a job. */
typedef struct Loaded
{
	MemoryContextCallback callback;
	EoWorkerTarget *target;
	size_t		bytes;
} Loaded;

/* A row of which a slot has told. */
typedef struct Told
{
	uint8		digest[EO_DIGEST_LEN];
	char		token[EO_TOKEN_LEN + 1];
	int64		committed_us;
} Told;

static struct
{
	MemoryContext order;		/* of what the last scan found; NULL: nothing */
	List	   *rows;			/* Row, by their numbers */
	HTAB	   *places;			/* Place by token */
	HTAB	   *queues;			/* Queue by item */
	List	   *told;			/* Told: not read yet */
	List	   *ready;			/* Row: first of all its items since */
	uint32		adoptions;		/* the board's count at the last look */
	bool		expected;		/* there may be rows with writes */
	bool		in_order;		/* but for those of which slots will tell */
	bool		again;			/* the scan has met some that are not in order */
	bool		no_memory;		/* or for which there was no memory */
}			writes = {.expected = true};

void
eo_write_order_expect(void)
{
	writes.expected = true;
	writes.in_order = false;
}

void
eo_write_order_start_over(void)
{
	list_free_deep(writes.told);
	writes.told = NIL;
	eo_write_order_expect();
}

/* Rows that were adopted have no slots, and may be older than those that have. */
static void
look_at_board(void)
{
	if (writes.adoptions != eo_life_board_counts()->adoptions)
		eo_write_order_expect();
	writes.adoptions = eo_life_board_counts()->adoptions;
}

bool
eo_write_order_wait(void)
{
	return writes.no_memory;
}

bool
eo_write_order_again(void)
{
	return writes.again;
}

/* ----- the order ----- */

/*
 * Does the life of a row go on elsewhere?  Then the row is finished there, and this is a copy
 * of it: rows of this data do not wait for it.  A life that has not been seen to go on may
 * be over, and then its rows are finished here, before those that come after them.
 */
static bool
is_elsewhere(const EoOutboxRow *row)
{
	EoLifeVerdict verdict;

	if (!eo_known_target_exists(&row->target))
		return false;
	eo_life_board_verdict(&row->target, row->life, &verdict);
	if (verdict.relation != EO_LIFE_OTHER)
		return false;
	eo_life_board_watch(&row->target, row->life);
	return verdict.beats;
}

/* Add an item to a row, which comes into the queue of this name. */
static void
add_item(Row *row, char *name)
{
	static EoCrypto *crypto;
	WrittenItem *item = &row->items[row->nitems++];

	if (crypto == NULL)
		crypto = eo_crypto_create();
	if (crypto == NULL || eo_crypto_sha256(crypto, name, strlen(name), item->queue) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute SHA-256 of a key")));
	item->row = row;
	pfree(name);
}

/* A row and its items, not in order yet. */
static Row *
make_row(const EoOutboxRow *row)
{
	MemoryContext old = MemoryContextSwitchTo(writes.order);
	const char *line = row->writes.items;
	Row		   *r = palloc0(sizeof(Row));

	strlcpy(r->token, row->token, sizeof(r->token));
	memcpy(r->digest, row->digest, sizeof(r->digest));
	r->number = row->writes.number;
	r->items = palloc(sizeof(WrittenItem) * 2 * row->writes.n);
	r->elsewhere = is_elsewhere(row);
	for (int i = 0; i < row->writes.n && !r->elsewhere; i++)
	{
		int			len = (int) strcspn(line, "\n");
		int			tenant_len = (int) strcspn(line, " ");

		add_item(r, pnstrdup(line, len));
		add_item(r, psprintf("server %u%.*s", row->target.serverid, len - tenant_len,
							 line + tenant_len));
		line += len + (line[len] == '\n');
	}
	MemoryContextSwitchTo(old);
	return r;
}

/* Note a row that a scan begins with. */
static bool
note_row(const EoOutboxRow *row)
{
	MemoryContext old;

	if (row->writes.n == 0)
		return true;
	old = MemoryContextSwitchTo(writes.order);
	writes.rows = lappend(writes.rows, make_row(row));
	MemoryContextSwitchTo(old);
	return true;
}

static int
compare(const ListCell *a, const ListCell *b)
{
	const Row  *x = lfirst(a);
	const Row  *y = lfirst(b);

	return x->number < y->number ? -1 : x->number > y->number;
}

/* Append a row to the queue of an item.  Two of its writes may be about one item. */
static void
enqueue(WrittenItem *item)
{
	bool		found;
	Queue	   *q = hash_search(writes.queues, item->queue, HASH_ENTER, &found);

	if (!found)
		dlist_init(&q->items);
	else if (dlist_tail_element(WrittenItem, node, &q->items)->row == item->row)
	{
		item->row = NULL;
		return;
	}
	item->row->ahead += !dlist_is_empty(&q->items);
	dlist_push_tail(&q->items, &item->node);
}

static void
put_in_order(Row *row)
{
	Place	   *place = hash_search(writes.places, row->token, HASH_ENTER, NULL);

	place->row = row;
	for (int i = 0; i < row->nitems; i++)
		enqueue(&row->items[i]);
}

void
eo_write_order_begin(void)
{
	HASHCTL		places = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(Place)};
	HASHCTL		queues = {.keysize = EO_SHA256_LEN,.entrysize = sizeof(Queue)};
	ListCell   *cell;

	look_at_board();
	writes.again = writes.no_memory = false;
	if (!writes.expected)
		return;
	if (writes.order != NULL)
		MemoryContextDelete(writes.order);
	writes.ready = NIL;
	writes.order = AllocSetContextCreate(TopMemoryContext, "exactonce order of writes",
										 ALLOCSET_DEFAULT_SIZES);
	writes.rows = NIL;
	places.hcxt = queues.hcxt = writes.order;
	writes.places = hash_create("exactonce rows with writes", 64, &places,
								HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	writes.queues = hash_create("exactonce written items", 64, &queues,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	(void) eo_outbox_visit(0, note_row);
	list_sort(writes.rows, compare);
	foreach(cell, writes.rows)
		put_in_order(lfirst(cell));
	writes.expected = writes.rows != NIL;
	writes.in_order = true;
}

static Row *
find_row(const char *token)
{
	Place	   *place = writes.order == NULL ? NULL :
	hash_search(writes.places, token, HASH_FIND, NULL);

	return place != NULL ? place->row : NULL;
}

bool
eo_write_order_note(const EoOutboxRow *row)
{
	MemoryContext old;
	Told	   *told;

	look_at_board();
	if (!writes.in_order || max_prepared_xacts > 0)
	{
		eo_write_order_expect();
		return false;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	told = palloc0(sizeof(Told));
	memcpy(told->digest, row->digest, sizeof(told->digest));
	strlcpy(told->token, row->token, sizeof(told->token));
	told->committed_us = row->committed_us;
	writes.told = lappend(writes.told, told);
	MemoryContextSwitchTo(old);
	return true;
}

bool
eo_write_order_any_noted(void)
{
	return writes.told != NIL;
}

/* Put a row behind all that are in order.  Returns the token of one that is before it. */
static const char *
append(const EoOutboxRow *row)
{
	Row		   *r = find_row(row->token);

	/* A scan may have met it before its slot has told of it. */
	if (r == NULL)
		put_in_order(r = make_row(row));
	writes.expected = true;
	for (int i = 0; i < r->nitems; i++)
	{
		Queue	   *q = hash_search(writes.queues, r->items[i].queue, HASH_FIND, NULL);
		const Row  *first = dlist_head_element(WrittenItem, node, &q->items)->row;

		if (first != r)
			return first->token;
	}
	return NULL;
}

/* A scan may have met a row before, and then it may be finished by now. */
bool
eo_write_order_next_noted(EoOutboxRow *row, const char **behind)
{
	bool		found = false;

	while (!found && writes.told != NIL)
	{
		Told	   *told = linitial(writes.told);

		found = eo_outbox_read(told->digest, row) && strcmp(row->token, told->token) == 0 &&
			!row->given_up && row->writes.n > 0;
		if (found)
		{
			row->committed_us = told->committed_us;
			*behind = append(row);
		}
		writes.told = list_delete_first(writes.told);
		pfree(told);
	}
	return found;
}

/* ----- room for writes ----- */

static bool
has_room(const EoTarget *target)
{
	const EoWorkerTarget *t = eo_write_target_of(target);
	bool		of_tenant = OidIsValid(t->tenant->id);
	size_t		of_owner = t->tenant->write_bytes;
	size_t		others = of_tenant ? eo_write_targets_tenants()->write_bytes - of_owner : 0;
	size_t		share = others < MAX_BYTES ? (MAX_BYTES - others) / 2 : 0;

	if (of_owner == 0 || (!of_tenant && t->write_bytes == 0))
		return true;
	return of_owner < share && t->write_bytes < (share - (of_owner - t->write_bytes)) / 2;
}

bool
eo_write_order_may_go(const EoOutboxRow *row)
{
	const Row  *r = find_row(row->token);

	if (r == NULL || (r->elsewhere && !is_elsewhere(row)))
	{
		/*
		 * Rows that come without slots must not be overtaken by those that
		 * have some.
		 */
		eo_write_order_expect();
		writes.again = true;
		return false;
	}
	if (has_room(&row->target))
		return r->ahead == 0;
	writes.no_memory = true;
	return false;
}

/*
 * A row is removed from the queue of an item.  It was the first one, unless rows of a life
 * before this data's have come in since it got its job.
 */
static void
dequeue(WrittenItem *item)
{
	Queue	   *q = hash_search(writes.queues, item->queue, HASH_FIND, NULL);
	bool		was_first = dlist_head_node(&q->items) == &item->node;
	Row		   *first;

	dlist_delete(&item->node);
	if (dlist_is_empty(&q->items))
	{
		(void) hash_search(writes.queues, item->queue, HASH_REMOVE, NULL);
		return;
	}
	first = dlist_head_element(WrittenItem, node, &q->items)->row;
	if (was_first && --first->ahead == 0)
		writes.ready = lappend(writes.ready, first);
}

void
eo_write_order_finished(const char *token)
{
	Row		   *row = find_row(token);
	MemoryContext old;

	if (row == NULL)
		return;
	(void) hash_search(writes.places, token, HASH_REMOVE, NULL);
	old = MemoryContextSwitchTo(writes.order);
	for (int i = 0; i < row->nitems; i++)
	{
		if (row->items[i].row != NULL)
			dequeue(&row->items[i]);
	}
	writes.ready = list_delete_ptr(writes.ready, row);
	MemoryContextSwitchTo(old);
	pfree(row->items);
	pfree(row);
}

bool
eo_write_order_next(EoOutboxRow *row)
{
	while (writes.ready != NIL)
	{
		const Row  *r = linitial(writes.ready);

		writes.ready = list_delete_first(writes.ready);
		if (eo_outbox_read(r->digest, row) && strcmp(row->token, r->token) == 0 && !row->given_up)
			return true;
	}
	return false;
}

/* ----- the job ----- */

static void
unload(void *arg)
{
	const Loaded *loaded = arg;

	eo_write_target_count_bytes(loaded->target, -(int64) loaded->bytes);
}

void
eo_write_order_load(EoWorkerJob *job)
{
	EoOutboxRow *row = job->data;
	MemoryContext old = MemoryContextSwitchTo(job->context);
	Loaded	   *loaded = palloc0(sizeof(*loaded));
	char	   *text = eo_outbox_read_writes(row->digest, row->token);

	MemoryContextSwitchTo(old);
	row->writes.items = NULL;
	row->writes.text = text;
	if (text == NULL)
		return;
	/* A finish with writes always has a request of its own. */
	job->alone = true;
	loaded->target = job->asked;
	loaded->bytes = strlen(text);
	eo_write_target_count_bytes(loaded->target, (int64) loaded->bytes);
	loaded->callback.func = unload;
	loaded->callback.arg = loaded;
	MemoryContextRegisterResetCallback(job->context, &loaded->callback);
}

EoAnswer *
eo_write_order_prepare(EoWorkerJob *job, EoStore *store, EoVerb verb, const EoWrite *w)
{
	const EoOutboxRow *row = job->data;
	char		request_token[EO_TOKEN_LEN + 1];

	eo_store_new_token(request_token);
	return eo_store_record_plan_transaction(store, row->pk, verb, w, request_token,
											row->writes.text, row->writes.n);
}

/* ----- what is refused ----- */

/* The first write that was refused, from 1, if that is told; 0: it is not. */
static int
refused_item(const EoAnswer *answer, EoJsonValue **reason)
{
	const EoOutboxRow *row = ((const EoWorkerJob *) answer->user)->data;
	size_t		n = eo_json_array_length(answer->reasons);

	for (size_t i = 0; i < n; i++)
	{
		EoJsonValue *r = eo_json_array_get(answer->reasons, i);
		size_t		len;
		const char *code = eo_json_string(eo_json_get(r, "Code"), &len);

		if (code == NULL || strcmp(code, "None") == 0)
			continue;
		*reason = r;
		return n == (size_t) row->writes.n + 1 ? (int) i : 0;
	}
	return 0;
}

/*
 * Is the failure about this very request, and would another one like it fail, too?  Not if
 * an earlier attempt may still be applied: then the next answer tells.  A condition that was
 * false is that of the record, which was read and admits the write.
 */
static bool
is_for_good(const EoAnswer *answer, const char *code)
{
	if (answer->call.in_doubt)
		return false;
	switch (answer->error.status)
	{
		case EO_CANCELLED:
			return strcmp(code, "ConditionalCheckFailed") != 0;
		case EO_TOO_LARGE:
		case EO_NO_TABLE:
		case EO_REFUSED:
			return true;
		case EO_DENIED:
			/* Other errors are about who signs, and so about all requests. */
			return strcmp(code, "AccessDeniedException") == 0;
		default:
			return false;
	}
}

/* Does a text of the writes' have this for a value? */
static bool
is_value(const char *writes, const char *word)
{
	char	   *text = psprintf("\"S\":\"%s\"", word);
	char	   *number = psprintf("\"N\":\"%s\"", word);
	bool		found = strstr(writes, text) != NULL || strstr(writes, number) != NULL;

	pfree(text);
	pfree(number);
	return found;
}

/*
 * Leave out of a sentence of DynamoDB's what it quotes of the writes: each word that is a value,
 * and what follows a colon, if that is one.  (It says "... converted to a numeric value: 1O0".)
 */
static void
hide_values(char *sentence, const char *writes)
{
	static const char *const ends = " ,;:()[]{}'";

	for (char *p = sentence; *p != '\0';)
	{
		size_t		len = strcspn(p, ends);
		char	   *word = pnstrdup(p, len);

		if (p > sentence + 1 && p[-1] == ' ' && p[-2] == ':' && is_value(writes, p))
		{
			memset(p, '.', strlen(p));
			return;
		}
		if (len > 0 && is_value(writes, word))
			memset(p, '.', len);
		pfree(word);
		p += len + (p[len] != '\0');
	}
}

bool
eo_write_order_refused(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoOutboxRow *row = job->data;
	MemoryContext old = MemoryContextSwitchTo(job->context);
	EoError		error = answer->error;
	EoJsonValue *reason = NULL;
	int			item = refused_item(answer, &reason);
	bool		for_good;
	bool		ours;

	if (reason != NULL)
		eo_reply_read_reason(reason, &error);
	if (reason != NULL && answer->call.client->tenant != 0)
		eo_reply_keep_code(&error);
	for_good = is_for_good(answer, error.code);

	/*
	 * An answer that is not understood is one all the same: the target is
	 * well.  If the record cannot be read either, it is not.
	 */
	ours = row->writes.n > 0 && !answer->unexplained &&
		(for_good || error.status == EO_CANCELLED || error.puzzling);
	if (ours)
	{
		error.puzzling |= !for_good && !answer->call.in_doubt;
		hide_values(error.message, row->writes.text);
		eo_finish_note(row, for_good ? EO_TROUBLE_REFUSED : EO_TROUBLE_FAILS, true,
					   eo_error_reason(&error), item);
	}
	MemoryContextSwitchTo(old);
	return ours;
}
