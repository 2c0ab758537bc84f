/*-------------------------------------------------------------------------
 *
 * write_order.c
 *	  Rows of the outbox that have writes: their order.
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
 * An owner of servers may have more rows than there is memory to put in order, and each scan does
 * so again.  So of a tenant's rows, or of those of a server of superusers, the first ones are in
 * order, with MAX_WRITES writes, and the rest is left out.  A row that is in order waits for
 * those that are left out and come before it, where they might write to its items.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "common/hashfn.h"
#include "ledger/known_targets.h"
#include "ledger/outbox.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "nodes/pg_list.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/store.h"
#include "server/store_record.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "wire/crypto.h"
#include "wire/status.h"
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

/* So many writes are in order of a tenant, or of a server of superusers. */
#define MAX_WRITES 30000

/* Tables of a tenant are told apart by so many hashes. */
#define TABLES 4096

/* The rows that a tenant has made; those of superusers, by server. */
typedef struct WriterKey
{
	Oid			tenant;			/* InvalidOid: superusers */
	Oid			serverid;		/* InvalidOid: those of a tenant */
} WriterKey;

typedef struct WriterGroup
{
	WriterKey	key;
	pairingheap *rows;			/* the last one first, while a scan begins */
	int			writes;			/* of the rows that are in order */
	int64		left_out;		/* number from which on rows are left out */
} WriterGroup;

/* The rows that are left out, and write to a table of a tenant, or by a server. */
typedef struct LeftOutKey
{
	Oid			id;				/* of the tenant, or the server */
	uint32		table;			/* its hash; TABLES: of a server */
} LeftOutKey;

typedef struct LeftOut
{
	LeftOutKey	key;
	int64		number;			/* of the first one */
} LeftOut;

/* A row with writes, as the last scan found it. */
typedef struct Row
{
	char		token[EO_TOKEN_LEN + 1];
	uint8		digest[EO_DIGEST_LEN];
	int64		number;
	Oid			serverid;
	WriterGroup *group;
	pairingheap_node node;		/* in the group's, while a scan begins */
	int			ahead;			/* items for which another row is first, and
								 * one more if it waits for rows that are left
								 * out */
	int			nitems;
	struct WrittenItem *items;	/* two for each write */
} Row;

/* An item as it is known to a tenant, or to a server. */
typedef struct QueueKey
{
	Oid			tenant;			/* InvalidOid: superusers */
	Oid			serverid;		/* InvalidOid: to a tenant */
	uint8		item[EO_SHA256_LEN];	/* nobody finds two items with one */
} QueueKey;

/* An item that a row writes to. */
typedef struct WrittenItem
{
	dlist_node	node;			/* in its queue */
	QueueKey	queue;
	uint32		table;			/* the hash of its table */
	Row		   *row;			/* NULL: an item before it is in that queue */
} WrittenItem;

/* The rows that write to an item, the first one first. */
typedef struct Queue
{
	QueueKey	key;
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
	HTAB	   *groups;			/* WriterGroup */
	HTAB	   *left_out;		/* LeftOut */
	List	   *told;			/* Told: not read yet */
	List	   *ready;			/* Row: first of all its items since */
	uint32		adoptions;		/* the board's count at the last look */
	bool		expected;		/* there may be rows with writes */
	bool		in_order;		/* but for those of which slots will tell */
	bool		again;			/* the scan has met some that are not in order */
	bool		no_room;		/* or for which there was no room */
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
	return writes.no_room;
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

/* The hash of the table of an item: its line begins with tenant, region and table. */
static uint32
table_of(const char *line)
{
	const char *end = line;

	for (int i = 0; i < 3; i++)
		end += strcspn(end, " ") + 1;
	return hash_bytes((const unsigned char *) line, (int) (end - line)) % TABLES;
}

static const char *
next_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

/* The group of a row: rows that write to items of one tenant are in one order. */
static WriterKey
group_of(const EoOutboxRow *row)
{
	WriterKey	key = {.tenant = (Oid) strtoul(row->writes.items, NULL, 10)};

	if (!OidIsValid(key.tenant))
		key.serverid = row->target.serverid;
	return key;
}

static void
hash_item(const char *text, size_t len, uint8 *digest)
{
	static EoCrypto *crypto;

	if (crypto == NULL)
		crypto = eo_crypto_create();
	if (crypto == NULL || eo_crypto_sha256(crypto, text, len, digest) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute SHA-256 of a key")));
}

/* A row and its items, not in order yet. */
static Row *
make_row(const EoOutboxRow *row, WriterGroup *group)
{
	const char *line = row->writes.items;
	Row		   *r = MemoryContextAllocZero(writes.order, sizeof(Row));

	strlcpy(r->token, row->token, sizeof(r->token));
	memcpy(r->digest, row->digest, sizeof(r->digest));
	r->number = row->writes.number;
	r->serverid = row->target.serverid;
	r->group = group;
	r->items = MemoryContextAlloc(writes.order, sizeof(WrittenItem) * 2 * row->writes.n);
	for (int i = 0; i < row->writes.n; i++)
	{
		const char *item = line + strcspn(line, " ");
		WrittenItem *w = &r->items[r->nitems];

		w->queue = (QueueKey)
		{
			.tenant = group->key.tenant
		};
		hash_item(item, strcspn(item, "\n"), w->queue.item);
		w->table = table_of(line);
		w->row = r;
		w[1] = *w;
		w[1].queue.tenant = InvalidOid;
		w[1].queue.serverid = row->target.serverid;
		r->nitems += 2;
		line = next_line(line);
	}
	group->writes += row->writes.n;
	return r;
}

static void
free_row(Row *row)
{
	row->group->writes -= row->nitems / 2;
	pfree(row->items);
	pfree(row);
}

/* A row is left out that writes to a table of a tenant, or by a server (TABLES). */
static void
leave_out(Oid id, uint32 table, int64 number)
{
	LeftOutKey	key = {.id = id,.table = table};
	bool		found;
	LeftOut    *left = hash_search(writes.left_out, &key, HASH_ENTER, &found);

	left->number = found ? Min(left->number, number) : number;
}

/* Leave out a row for which its group has no room. */
static void
leave_out_row(const EoOutboxRow *row, WriterGroup *group)
{
	const char *line = row->writes.items;

	group->left_out = Min(group->left_out, row->writes.number);
	leave_out(row->target.serverid, TABLES, row->writes.number);
	for (int i = 0; i < row->writes.n; i++, line = next_line(line))
		leave_out(group->key.tenant, table_of(line), row->writes.number);
}

/* Leave out the last rows of a group until it has room. */
static void
make_room(WriterGroup *group)
{
	while (group->writes > MAX_WRITES)
	{
		Row		   *last = pairingheap_container(Row, node, pairingheap_remove_first(group->rows));

		group->left_out = last->number;
		leave_out(last->serverid, TABLES, last->number);
		for (int i = 0; i < last->nitems; i += 2)
			leave_out(group->key.tenant, last->items[i].table, last->number);
		free_row(last);
	}
}

static int
compare_in_group(const pairingheap_node * a, const pairingheap_node * b, void *arg)
{
	int64		x = pairingheap_const_container(Row, node, a)->number;
	int64		y = pairingheap_const_container(Row, node, b)->number;

	(void) arg;
	return x < y ? -1 : x > y;
}

static WriterGroup *
enter_group(const EoOutboxRow *row)
{
	WriterKey	key = group_of(row);
	bool		found;
	WriterGroup *group = hash_search(writes.groups, &key, HASH_ENTER, &found);
	MemoryContext old;

	if (found)
		return group;
	old = MemoryContextSwitchTo(writes.order);
	group->rows = pairingheap_allocate(compare_in_group, NULL);
	MemoryContextSwitchTo(old);
	group->writes = 0;
	group->left_out = INT64_MAX;
	return group;
}

/* Note a row that a scan begins with. */
static bool
note_row(const EoOutboxRow *row)
{
	WriterGroup *group;

	if (row->writes.n == 0 || is_elsewhere(row))
		return true;
	group = enter_group(row);
	if (row->writes.number >= group->left_out)
		leave_out_row(row, group);
	else
	{
		pairingheap_add(group->rows, &make_row(row, group)->node);
		make_room(group);
	}
	return true;
}

static int
compare(const ListCell *a, const ListCell *b)
{
	const Row  *x = lfirst(a);
	const Row  *y = lfirst(b);

	return x->number < y->number ? -1 : x->number > y->number;
}

/* All rows that were noted and not left out, by their numbers. */
static void
collect_rows(void)
{
	MemoryContext old = MemoryContextSwitchTo(writes.order);
	HASH_SEQ_STATUS scan;
	WriterGroup *group;

	hash_seq_init(&scan, writes.groups);
	while ((group = hash_seq_search(&scan)) != NULL)
	{
		while (!pairingheap_is_empty(group->rows))
			writes.rows = lappend(writes.rows,
								  pairingheap_container(Row, node,
														pairingheap_remove_first(group->rows)));
	}
	list_sort(writes.rows, compare);
	MemoryContextSwitchTo(old);
}

/* Append a row to the queue of an item.  Two of its writes may be about one item. */
static void
enqueue(WrittenItem *item)
{
	bool		found;
	Queue	   *q = hash_search(writes.queues, &item->queue, HASH_ENTER, &found);

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

static bool
is_any_left_out(Oid id, uint32 table, int64 before)
{
	LeftOutKey	key = {.id = id,.table = table};
	const LeftOut *left = hash_search(writes.left_out, &key, HASH_FIND, NULL);

	return left != NULL && left->number < before;
}

/*
 * Is a row left out that may write to an item of this one, and comes before it?  Those of its own
 * group come after it.
 */
static bool
waits_for_left_out(const Row *row)
{
	bool		waits = is_any_left_out(row->serverid, TABLES, row->number);

	for (int i = 0; i < row->nitems && !waits; i += 2)
		waits = is_any_left_out(row->group->key.tenant, row->items[i].table, row->number);
	return waits;
}

static void
put_in_order(Row *row)
{
	Place	   *place = hash_search(writes.places, row->token, HASH_ENTER, NULL);

	place->row = row;
	row->ahead = waits_for_left_out(row);
	for (int i = 0; i < row->nitems; i++)
		enqueue(&row->items[i]);
}

void
eo_write_order_begin(void)
{
	HASHCTL		places = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(Place)};
	HASHCTL		queues = {.keysize = sizeof(QueueKey),.entrysize = sizeof(Queue)};
	HASHCTL		groups = {.keysize = sizeof(WriterKey),.entrysize = sizeof(WriterGroup)};
	HASHCTL		left_out = {.keysize = sizeof(LeftOutKey),.entrysize = sizeof(LeftOut)};
	ListCell   *cell;

	look_at_board();
	writes.again = writes.no_room = false;
	if (!writes.expected)
		return;
	if (writes.order != NULL)
		MemoryContextDelete(writes.order);
	writes.ready = NIL;
	writes.order = AllocSetContextCreate(TopMemoryContext, "exactonce order of writes",
										 ALLOCSET_DEFAULT_SIZES);
	writes.rows = NIL;
	places.hcxt = queues.hcxt = groups.hcxt = left_out.hcxt = writes.order;
	writes.places = hash_create("exactonce rows with writes", 64, &places,
								HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	writes.queues = hash_create("exactonce written items", 64, &queues,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	writes.groups = hash_create("exactonce groups of rows with writes", 16, &groups,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	writes.left_out = hash_create("exactonce rows left out", 16, &left_out,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	(void) eo_outbox_visit(0, note_row);
	collect_rows();
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

	writes.expected = true;
	/* A scan may have met it before its slot has told of it. */
	if (r == NULL)
	{
		WriterGroup *group = enter_group(row);

		if (group->left_out != INT64_MAX || group->writes + row->writes.n > MAX_WRITES)
		{
			leave_out_row(row, group);
			return NULL;
		}
		put_in_order(r = make_row(row, group));
	}
	for (int i = 0; i < r->nitems; i++)
	{
		Queue	   *q = hash_search(writes.queues, &r->items[i].queue, HASH_FIND, NULL);
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

static bool
is_left_out(const EoOutboxRow *row)
{
	WriterKey	key = group_of(row);
	const WriterGroup *group = writes.order == NULL ? NULL :
	hash_search(writes.groups, &key, HASH_FIND, NULL);

	return group != NULL && row->writes.number >= group->left_out;
}

bool
eo_write_order_may_go(const EoOutboxRow *row)
{
	const Row  *r = find_row(row->token);

	if (r == NULL)
	{
		/* Its life goes on elsewhere, or was not known to do so. */
		if (is_elsewhere(row))
			return true;
		if (is_left_out(row))
			return false;

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
	writes.no_room = true;
	return false;
}

/*
 * A row is removed from the queue of an item.  It was the first one, unless rows of a life
 * before this data's have come in since it got its job.
 */
static void
dequeue(WrittenItem *item)
{
	Queue	   *q = hash_search(writes.queues, &item->queue, HASH_FIND, NULL);
	bool		was_first = dlist_head_node(&q->items) == &item->node;
	Row		   *first;

	dlist_delete(&item->node);
	if (dlist_is_empty(&q->items))
	{
		(void) hash_search(writes.queues, &item->queue, HASH_REMOVE, NULL);
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
	WriterGroup *group;
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
	group = row->group;
	free_row(row);
	if (group->left_out != INT64_MAX)
		writes.no_room = true;
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
