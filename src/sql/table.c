/*-------------------------------------------------------------------------
 *
 * table.c
 *	  The DynamoDB table of a server: idem_create_table(), and describing it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "keys/writes.h"
#include "lib/stringinfo.h"
#include "records/expression.h"
#include "records/layout.h"
#include "records/life_item.h"
#include "records/record.h"
#include "records/timestamps.h"
#include "server/error.h"
#include "server/store.h"
#include "server/table_mode.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/table.h"
#include "utils/builtins.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/json.h"
#include "wire/status.h"

/* Pause between looks at a table that is being created, in microseconds. */
#define CREATE_POLL_US 200000

/* So many items are compared with the layout. */
#define SAMPLE_ITEMS 25

EO_COUNTED(eo_idem_create_table, EO_FN_IDEM_CREATE_TABLE);

static bool key_fits(EoStore *store, EoJsonValue *table, char **key);

static EoTableDescription wait_until_active(EoStore *store);
static void switch_ttl_on(EoStore *store);
static void sample_item(EoStore *store, EoJsonValue *item, EoTableSample *sample);
static const char *what_is_odd(const EoLayout *layout, EoJsonValue *item);
static bool is_instant(EoJsonValue *item, const char *name, EoInstantForm form);

/* ----- creating ----- */

/*
 * idem_create_table(server)
 *
 * A table that exists is left as it is, except that time to live is switched on.
 */
static Datum
eo_idem_create_table_body(PG_FUNCTION_ARGS)
{
	EoStore    *store;
	EoCall	   *call;
	const EoItemKey *key;
	bool		created;

	eo_preconditions("idem_create_table", EO_WRITES);
	store = eo_arg_store(fcinfo, 0);
	call = eo_store_new_table_call(store, EO_CREATE_TABLE, store->server->table);
	key = &store->layout->key;
	eo_buf_addf(&call->body, ",\"AttributeDefinitions\":[{\"AttributeName\":\"%s\",\"AttributeType\":\"S\"}",
				key->name);
	if (key->sort_name != NULL)
		eo_buf_addf(&call->body, ",{\"AttributeName\":\"%s\",\"AttributeType\":\"S\"}",
					key->sort_name);
	eo_buf_addf(&call->body, "],\"KeySchema\":[{\"AttributeName\":\"%s\",\"KeyType\":\"HASH\"}",
				key->name);
	if (key->sort_name != NULL)
		eo_buf_addf(&call->body, ",{\"AttributeName\":\"%s\",\"KeyType\":\"RANGE\"}",
					key->sort_name);
	eo_buf_adds(&call->body, "],\"BillingMode\":\"PAY_PER_REQUEST\"}");
	eo_store_run_call(store, call);

	/*
	 * The table may exist already, created by an earlier call or by this one
	 * if its first answer was lost.  That is what the caller wants.
	 */
	created = call->error.status == EO_OK;
	if (!created && strcmp(call->error.code, "ResourceInUseException") != 0)
		eo_error_raise(&call->error, psprintf("create table \"%s\"", store->server->table),
					   NULL, store->server->name);
	/* A table with multi-region strong consistency has no time to live. */
	if (!wait_until_active(store).strongly_consistent)
		switch_ttl_on(store);
	PG_RETURN_TEXT_P(cstring_to_text(created ? "created" : "exists"));
}

/* DescribeTable may not find a table that was created a moment ago. */
static EoTableDescription
wait_until_active(EoStore *store)
{
	for (;;)
	{
		EoTableDescription table;
		EoError		error;
		bool		answered = eo_table_describe(store, &table, &error);

		if (!answered && error.status != EO_NO_TABLE)
			eo_error_raise(&error, psprintf("describe table \"%s\"", store->server->table),
						   NULL, store->server->name);
		if (answered && table.known && !table.key_fits)
			ereport(ERROR,
					(errcode(ERRCODE_EO_REFUSED),
					 errmsg("table \"%s\" of server \"%s\" has another key than this layout needs",
							store->server->table, store->server->name),
					 errdetail("Needed is %s; found is %s.",
							   eo_table_key_needed(store), table.key),
					 errhint("Use another table, or another layout.")));
		if (answered && table.active)
			return table;
		eo_http_wait(eo_clock_monotonic_us() + CREATE_POLL_US, EO_WAIT_RAISE);
	}
}

/*
 * A policy may allow UpdateTimeToLive without DescribeTimeToLive, so without an
 * answer to the question the update is tried.
 */
static void
switch_ttl_on(EoStore *store)
{
	EoCall	   *call;
	EoTableTtl	ttl;
	EoError		error;

	if (eo_table_describe_ttl(store, &ttl, &error) && !ttl.off)
		return;

	call = eo_store_new_table_call(store, EO_UPDATE_TTL, store->server->table);
	eo_buf_addf(&call->body, ",\"TimeToLiveSpecification\":{\"AttributeName\":\"%s\",\"Enabled\":true}}",
				store->layout->expiry);
	eo_store_run_call(store, call);
	if (call->error.status != EO_OK)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("could not switch on time to live for table \"%s\"", store->server->table),
				 errdetail_internal("%s", eo_error_facts(&call->error)),
				 errhint("Old records will stay until it is switched on for attribute \"%s\", or idem_sweep() deletes them.",
						 store->layout->expiry)));
}

/* ----- describing ----- */

bool
eo_table_describe(EoStore *store, EoTableDescription *table, EoError *error)
{
	EoCall	   *call = eo_store_new_table_call(store, EO_DESCRIBE_TABLE, store->server->table);
	EoJsonValue *v;

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	*error = call->error;
	if (call->error.status != EO_OK)
		return false;
	v = eo_json_get(eo_json_root(call->reply), "Table");
	table->known = v != NULL;
	table->active = eo_json_string_is(eo_json_get(v, "TableStatus"), "ACTIVE");
	table->key_fits = key_fits(store, v, &table->key);
	table->items = eo_json_integer(eo_json_get(v, "ItemCount"));
	table->replicas = eo_json_array_length(eo_json_get(v, "Replicas"));
	table->strongly_consistent = eo_table_mode_is_strong(v);
	return true;
}

bool
eo_table_describe_ttl(EoStore *store, EoTableTtl *ttl, EoError *error)
{
	EoCall	   *call = eo_store_new_table_call(store, EO_DESCRIBE_TTL, store->server->table);
	EoJsonValue *v;
	EoJsonValue *status;

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	*error = call->error;
	if (call->error.status != EO_OK)
		return false;
	v = eo_json_get(eo_json_root(call->reply), "TimeToLiveDescription");
	status = eo_json_get(v, "TimeToLiveStatus");
	ttl->on = eo_json_string_is(status, "ENABLED") || eo_json_string_is(status, "ENABLING");
	ttl->off = v == NULL || eo_json_string_is(status, "DISABLED");
	ttl->fits = eo_json_string_is(eo_json_get(v, "AttributeName"), store->layout->expiry);
	return true;
}

const char *
eo_table_key_needed(EoStore *store)
{
	const EoItemKey *key = &store->layout->key;

	if (key->sort_name == NULL)
		return psprintf("a string partition key \"%s\" and no sort key", key->name);
	return psprintf("a string partition key \"%s\", and \"%s\" as a string sort key",
					key->name, key->sort_name);
}

/*
 * True if the table has string keys of the layout's names and no others.  *key
 * describes the key that it has.
 */
static bool
key_fits(EoStore *store, EoJsonValue *table, char **key)
{
	const char *needed[] = {store->layout->key.name, store->layout->key.sort_name};
	EoTableKeys keys = {0};
	bool		fits = false;
	StringInfoData s;

	if (eo_writes_read_table_keys(table, &keys))
		fits = keys.n == (needed[1] != NULL ? 2 : 1);
	else
		keys.n = 0;
	initStringInfo(&s);
	for (int i = 0; i < keys.n; i++)
	{
		fits = fits && keys.types[i] == 'S' && strcmp(keys.names[i], needed[i]) == 0;
		appendStringInfo(&s, "%s%s (%s, %c)", i > 0 ? ", " : "", keys.names[i],
						 i == 0 ? "partition key" : "sort key", keys.types[i]);
	}
	*key = s.data;
	return fits;
}

/* ----- records of other clients ----- */

bool
eo_table_sample(EoStore *store, EoTableSample *sample, EoError *error)
{
	EoCall	   *call = eo_store_new_table_call(store, EO_SCAN, store->server->table);
	const EoAttributeName *a = store->layout->attributes;
	StringInfoData names;
	StringInfoData letters;
	EoJsonValue *items;

	initStringInfo(&names);
	initStringInfo(&letters);
	for (int i = 0; i < EO_N_ATTRIBUTES; i++)
	{
		if (a[i].name == NULL || i == EO_A_RESULT || i == EO_A_ERROR || i == EO_A_PAYLOAD)
			continue;
		appendStringInfo(&letters, "%s#%c", letters.len > 0 ? "," : "", a[i].letter);
		appendStringInfo(&names, "%s\"#%c\":\"%s\"", names.len > 0 ? "," : "", a[i].letter, a[i].name);
	}
	eo_buf_addf(&call->body, ",\"Limit\":%d,\"ProjectionExpression\":\"%s\",\"ExpressionAttributeNames\":{%s}}",
				SAMPLE_ITEMS, letters.data, names.data);
	eo_store_run_call(store, call);
	*error = call->error;
	if (call->error.status != EO_OK)
		return false;
	memset(sample, 0, sizeof(*sample));
	items = eo_json_get(eo_json_root(call->reply), "Items");
	for (size_t i = 0; i < eo_json_array_length(items); i++)
		sample_item(store, eo_json_array_get(items, i), sample);
	return true;
}

/* Look at an item.  Those of lives, and the actions in a table that has such, are no records. */
static void
sample_item(EoStore *store, EoJsonValue *item, EoTableSample *sample)
{
	const EoLayout *layout = store->layout;
	const char *pk = eo_record_pk_of(layout, item);
	const char *why;

	if (pk == NULL || eo_life_item_is_pk(pk) ||
		(store->server->actions != NULL && eo_json_get(item, layout->status) == NULL))
		return;
	sample->records++;
	why = what_is_odd(layout, item);
	if (why != NULL && sample->odd++ == 0)
		sample->why = pstrdup(why);
}

/* In what an item is no record of the layout; NULL: it is one. */
static const char *
what_is_odd(const EoLayout *layout, EoJsonValue *item)
{
	EoRecord	record;
	size_t		len;
	const char *status = eo_json_attr_s(item, layout->status, &len);

	if (status == NULL)
		return psprintf("there is no string \"%s\"", layout->status);
	if (eo_record_read(layout, item, &record) != EO_OK)
		return psprintf("\"%s\" is \"%s\"", layout->status, status);
	if (!is_instant(item, layout->expiry, EO_INSTANT_S))
		return psprintf("\"%s\" is not a number of seconds", layout->expiry);
	if (layout->lease != NULL && !is_instant(item, layout->lease, layout->instants))
		return psprintf("\"%s\" does not have the form of the option instants", layout->lease);
	if (layout->updated != NULL && !is_instant(item, layout->updated, layout->instants))
		return psprintf("\"%s\" does not have the form of the option instants", layout->updated);
	return NULL;
}

/*
 * Is the attribute an instant of this form, or not there at all?  Milliseconds that are
 * read as seconds are far in the future, and seconds that are read as milliseconds in 1970.
 */
static bool
is_instant(EoJsonValue *item, const char *name, EoInstantForm form)
{
	EoJsonValue *attribute = eo_json_get(item, name);
	int64		ms;

	if (attribute == NULL)
		return true;
	if (eo_json_get(attribute, form == EO_INSTANT_ISO ? "S" : "N") == NULL ||
		!eo_timestamps_read(item, name, form, &ms))
		return false;
	/* A run that was given up has an end at 0. */
	return ms < EO_MAX_INSTANT_MS && (ms == 0 || ms > INT64CONST(31536000000));
}
