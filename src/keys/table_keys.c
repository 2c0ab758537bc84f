/*-------------------------------------------------------------------------
 *
 * table_keys.c
 *	  The keys of DynamoDB tables that callers write to.
 *
 * The key of a table cannot be changed.  If a table is deleted and made anew with another
 * key, a process that knows the old one finds its writes refused by DynamoDB.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "keys/table_keys.h"
#include "nodes/pg_list.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "utils/memutils.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/json.h"
#include "wire/status.h"

typedef struct Known
{
	char	   *name;			/* see name_of() */
	EoTableKeys keys;
} Known;

static List *known_tables;		/* of Known */

bool
eo_table_keys_read(EoJsonValue *table, EoTableKeys *keys)
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

EoCall *
eo_table_keys_call(EoStore *store, EoOperation op, const char *table)
{
	EoCall	   *call = eo_store_new_call(store, op);

	eo_buf_adds(&call->body, "{\"TableName\":");
	eo_json_put_string(&call->body, table, strlen(table));
	return call;
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
	EoCall	   *call = eo_table_keys_call(store, EO_DESCRIBE_TABLE, table);
	EoTableKeys keys = {0};
	MemoryContext old;
	Known	   *known;

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	if (call->error.status != EO_OK)
		eo_error_raise(&call->error, psprintf("describe table \"%s\"", table), NULL,
					   store->server->name);
	if (!eo_table_keys_read(eo_json_get(eo_json_root(call->reply), "Table"), &keys))
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

const EoTableKeys *
eo_table_keys_of(EoStore *store, const char *table)
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
