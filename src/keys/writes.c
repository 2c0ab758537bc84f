/*-------------------------------------------------------------------------
 *
 * writes.c
 *	  Writes to DynamoDB that are made if and only if a transaction commits.
 *
 * They are kept with the row of the outbox, so they commit with the transaction.  The worker
 * makes them in the transaction of DynamoDB that finishes the record (write_order.c).
 * Nobody waits for that and could be told of a refusal.  So what can be checked is checked when
 * they are handed in (here, in transact_items.c and in write_expressions.c), and a write must
 * not have a condition.
 *
 * An item is known by tenant, region, table and key: tables of one name that two tenants have may
 * be of two accounts.  By whatever address of its region a table is reached, it is the same.  The
 * key of a Put is a part of its Item, so the table's key has to be known.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "keys/key.h"
#include "keys/transact.h"
#include "keys/transact_items.h"
#include "keys/writes.h"
#include "ledger/item_order.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "records/attribute.h"
#include "server/error.h"
#include "server/store.h"
#include "server/table_mode.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/json.h"
#include "wire/status.h"

/* Amazon DynamoDB Developer Guide, "Service, account, and table quotas". */
#define MAX_TRANSACTION_BYTES 4194304

#define MAX_PARTITION_KEY_BYTES 2048
#define MAX_SORT_KEY_BYTES 1024

/* For the record itself beside its result. */
#define RECORD_BYTES 4096

pg_noreturn static void refuse(int position, const char *detail, const char *hint);

/*
 * The key of a table cannot be changed.  If a table is deleted and made anew with another
 * key, a process that knows the old one finds its writes refused by DynamoDB.
 */
typedef struct Known
{
	char	   *name;			/* see name_of() */
	EoTableKeys keys;
} Known;

static List *known_tables;		/* of Known */

static void check(const EoTransactItem *action, int position);
static char *item_of(const EoServer *server, const EoTransactItem *action, int position,
					 const EoTableKeys *keys);
static void put_key_value(StringInfo line, int position, const char *name, char type,
						  size_t max_len, const JsonbValue *v);
static void check_different(const EoWriteItem *list, int n, const EoWriteItem *item, int position);

/* Raise 22023 for the write at this position. */
static void
refuse(int position, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("write %d cannot be made when the transaction commits", position),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

bool
eo_writes_read_table_keys(EoJsonValue *table, EoTableKeys *keys)
{
	EoJsonValue *schema = eo_json_get(table, "KeySchema");
	EoJsonValue *attributes = eo_json_get(table, "AttributeDefinitions");
	size_t		len;

	keys->n = (int) eo_json_array_length(schema);
	if (keys->n < 1 || keys->n > 2)
		return false;
	for (int i = 0; i < keys->n; i++)
	{
		const char *name = eo_json_string(eo_json_get(eo_json_array_get(schema, i),
													  "AttributeName"), &len);

		if (name == NULL)
			return false;
		keys->names[i] = pstrdup(name);
		for (size_t j = 0; j < eo_json_array_length(attributes); j++)
		{
			EoJsonValue *a = eo_json_array_get(attributes, j);
			const char *type = eo_json_string(eo_json_get(a, "AttributeType"), &len);

			if (eo_json_string_is(eo_json_get(a, "AttributeName"), name) && type != NULL)
				keys->types[i] = type[0];
		}
		if (keys->types[i] != 'S' && keys->types[i] != 'N' && keys->types[i] != 'B')
			return false;
	}
	return true;
}

/* The name of a table in this process: two servers may be of different accounts. */
static char *
name_of(const EoStore *store, const char *table)
{
	const EoServer *server = store->server;

	return psprintf("%u %u %s %s %s", server->serverid, server->userid, server->url,
					server->region, table);
}

static Known *
describe(EoStore *store, const char *table)
{
	EoCall	   *call = eo_store_new_table_call(store, EO_DESCRIBE_TABLE, table);
	EoTableKeys keys = {0};
	MemoryContext old;
	Known	   *known;

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	if (call->error.status == EO_NO_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_EO_REFUSED),
				 errmsg("could not describe table \"%s\" on server \"%s\": there is no such table", table,
						store->server->name),
				 errdetail_internal("%s", eo_error_facts(&call->error)),
				 errhint("The writes name it: check the name, and the region and the account of the server.")));
	if (call->error.status != EO_OK)
		eo_error_raise(&call->error, psprintf("describe table \"%s\"", table), NULL,
					   store->server->name);
	eo_table_mode_check(store, table, eo_json_get(eo_json_root(call->reply), "Table"));
	if (!eo_writes_read_table_keys(eo_json_get(eo_json_root(call->reply), "Table"), &keys))
		ereport(ERROR,
				(errcode(ERRCODE_EO_REFUSED),
				 errmsg("server \"%s\" does not say which key table \"%s\" has",
						store->server->name, table)));
	old = MemoryContextSwitchTo(TopMemoryContext);
	known = palloc0(sizeof(Known));
	known->name = name_of(store, table);
	known->keys = keys;
	for (int i = 0; i < keys.n; i++)
		known->keys.names[i] = pstrdup(keys.names[i]);
	known_tables = lappend(known_tables, known);
	MemoryContextSwitchTo(old);
	return known;
}

void
eo_writes_read(EoStore *store, const char *function, Jsonb *document, EoWrites *writes)
{
	EoKey		nothing = {.store = store,.pk = ""};
	EoTransactItems actions;

	eo_transact_items_read(document, &actions);
	for (int i = 0; i < actions.n; i++)
		check(&actions.actions[i], i + 1);
	eo_transact_check(&nothing, function, &actions);
	if (!store->mode_is_known)
		store->mode_is_known = eo_table_mode_ask(store, store->server->table);
	memset(writes, 0, sizeof(*writes));
	writes->list = palloc0(sizeof(EoWriteItem) * EO_MAX_WRITES);
	for (int i = 0; i < actions.n; i++)
	{
		const EoTransactItem *action = &actions.actions[i];
		EoWriteItem *w = &writes->list[i];

		w->item = item_of(store->server, action, i + 1,
						  eo_writes_table_keys(store, action->table));
		w->hash = hash_bytes_extended((const unsigned char *) w->item, strlen(w->item), 0);
		w->lock = eo_item_order_lock_of(store->server->place_tenant, action->table, w->hash);
		w->text = eo_text_to_utf8(pnstrdup(actions.source + action->start, action->len));
		w->size = action->size;
		check_different(writes->list, i, w, i + 1);
		writes->size += w->size;
	}
	writes->n = actions.n;
	eo_writes_check_size(writes, 0);
}

const EoTableKeys *
eo_writes_table_keys(EoStore *store, const char *table)
{
	char	   *name = name_of(store, table);
	ListCell   *lc;

	foreach(lc, known_tables)
	{
		const Known *known = lfirst(lc);

		if (strcmp(known->name, name) == 0)
			return &known->keys;
	}
	return &describe(store, table)->keys;
}

static void
check(const EoTransactItem *action, int position)
{
	if (action->conditional)
		refuse(position, "It has a condition. Once the transaction has committed, nobody could be told that the condition was false.",
			   "Check before the transaction commits; or use idem_transact(), which takes effect at once.");
	if (strcmp(action->operation, "Put") == 0 && action->size > EO_MAX_ITEM_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("write %d is too large", position),
				 errdetail("Its item has %zu bytes; DynamoDB allows %d.", action->size,
						   EO_MAX_ITEM_BYTES)));
}

/* ----- which item is written ----- */

/* The line of an item; raises 22023 if the write does not have such a key. */
static char *
item_of(const EoServer *server, const EoTransactItem *action, int position,
		const EoTableKeys *keys)
{
	JsonbIterator *it = JsonbIteratorInit(action->key);
	JsonbValue	member;
	JsonbValue	v;
	StringInfoData line;
	bool		is_put = strcmp(action->operation, "Put") == 0;
	int			found = 0;

	initStringInfo(&line);
	appendStringInfo(&line, "%u %s %s {", server->place_tenant, server->region, action->table);
	while (eo_transact_item_next_member(&it, &member, &v))
	{
		char	   *name = pnstrdup(member.val.string.val, member.val.string.len);
		int			which = strcmp(name, keys->names[0]) == 0 ? 0 :
		keys->n == 2 && strcmp(name, keys->names[1]) == 0 ? 1 : -1;

		if (which < 0 && !is_put)
			refuse(position, psprintf("Attribute \"%s\" is no part of the key of table \"%s\".",
									  name, action->table), NULL);
		if (which < 0)
			continue;
		if (found++ > 0)
			appendStringInfoString(&line, ", ");
		put_key_value(&line, position, name, keys->types[which],
					  which == 0 ? MAX_PARTITION_KEY_BYTES : MAX_SORT_KEY_BYTES, &v);
	}
	if (found < keys->n)
		refuse(position, psprintf("The key of table \"%s\" has %s, which the write does not name.",
								  action->table, keys->n == 1 ?
								  psprintf("the attribute \"%s\"", keys->names[0]) :
								  psprintf("the attributes \"%s\" and \"%s\"", keys->names[0],
										   keys->names[1])), NULL);
	appendStringInfoChar(&line, '}');
	return line.data;
}

/* Two numbers that are the same are spelled the same. */
static void
put_key_value(StringInfo line, int position, const char *name, char type, size_t max_len,
			  const JsonbValue *v)
{
	Numeric		number = NULL;
	char	   *text = eo_transact_item_string(v, type);

	if (text == NULL && v->type == jbvNumeric && type == 'N')
		number = v->val.numeric;
	else if (text == NULL)
		refuse(position, psprintf("Attribute \"%s\" is a part of the key, and must be of type %c.",
								  name, type), NULL);
	if (type != 'N' && text[0] == '\0')
		refuse(position, psprintf("Attribute \"%s\" is a part of the key, and must not be empty.",
								  name), NULL);
	if (type != 'N')
	{
		size_t		len = type == 'B' ? (size_t) eo_attribute_base64_len(text, strlen(text)) :
		strlen(eo_text_to_utf8(text));

		if (len > max_len)
			refuse(position, psprintf("Attribute \"%s\" is a part of the key, and has %zu bytes; DynamoDB allows %zu.",
									  name, len, max_len), NULL);
	}
	if (type == 'N' && number == NULL)
	{
		Datum		read;

		if (!eo_text_try_input(numeric_in, text, &read))
			refuse(position, psprintf("Attribute \"%s\" is a part of the key, and \"%s\" is not a number.",
									  name, text), NULL);
		number = DatumGetNumeric(read);
	}
	escape_json(line, name);
	appendStringInfoString(line, ": ");
	if (type == 'N')
		appendStringInfoString(line, numeric_normalize(number));
	else
		escape_json(line, text);
}

/* ----- many writes ----- */

static void
check_different(const EoWriteItem *list, int n, const EoWriteItem *item, int position)
{
	for (int i = 0; i < n; i++)
	{
		if (list[i].hash == item->hash && strcmp(list[i].item, item->item) == 0)
			refuse(position, psprintf("Write %d of the same key is about the same item, and DynamoDB takes one of them in a transaction.",
									  i + 1), "Make one write of the two.");
	}
}

void
eo_writes_append(EoWrites *writes, const EoWrites *more)
{
	if (writes->n + more->n > EO_MAX_WRITES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many writes for one key"),
				 errdetail("There are %d; beside the key's record there is room for %d.",
						   writes->n + more->n, EO_MAX_WRITES)));
	for (int i = 0; i < more->n; i++)
	{
		check_different(writes->list, writes->n, &more->list[i], writes->n + 1);
		writes->list[writes->n++] = more->list[i];
		writes->size += more->list[i].size;
	}
	eo_writes_check_size(writes, 0);
}

void
eo_writes_check_size(const EoWrites *writes, size_t result_len)
{
	size_t		all = writes->size + result_len + RECORD_BYTES;

	if (all <= MAX_TRANSACTION_BYTES)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("writes of a key are too large"),
			 errdetail("With the key's record they have %zu bytes; DynamoDB takes %d in a transaction.",
					   all, MAX_TRANSACTION_BYTES)));
}

bool
eo_writes_has_room(const EoWrites *writes, size_t size)
{
	return writes->n == 0 || writes->size + size + RECORD_BYTES <= MAX_TRANSACTION_BYTES;
}

void
eo_writes_lock(const EoWrites *writes)
{
	uint64		locks[EO_MAX_WRITES];

	for (int i = 0; i < writes->n; i++)
		locks[i] = writes->list[i].lock;
	eo_item_order_lock(locks, writes->n);
}

void
eo_writes_decide(const EoWrites *writes, EoOutboxWrites *row)
{
	StringInfoData text;
	StringInfoData items;

	initStringInfo(&text);
	initStringInfo(&items);
	for (int i = 0; i < writes->n; i++)
	{
		appendStringInfo(&text, "%s%s", i > 0 ? "," : "", writes->list[i].text);
		appendStringInfo(&items, "%s%s", i > 0 ? "\n" : "", writes->list[i].item);
	}
	row->n = writes->n;
	row->items = items.data;
	row->text = text.data;
	row->number = eo_item_order_number();
}

uint64
eo_writes_hash(const EoWrites *writes)
{
	uint64		hash = 0;

	for (int i = 0; writes != NULL && i < writes->n; i++)
		hash = hash_bytes_extended((const unsigned char *) writes->list[i].text,
								   strlen(writes->list[i].text), hash + 1);
	return hash;
}
