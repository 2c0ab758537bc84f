/*-------------------------------------------------------------------------
 *
 * table.c
 *	  The DynamoDB table itself: making it, and looking whether it will do.
 *
 * Checks go from what everything rests on to what rests on it, and one that
 * could not be made because an earlier one failed says so, so that the first
 * failure from the top is the one to mend.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "dynamodb/buf.h"
#include "dynamodb/call.h"
#include "dynamodb/client.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "dynamodb/json.h"
#include "dynamodb/record.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "sql/table.h"

/* Pause between looks at a table that is being made, in microseconds. */
#define CREATE_POLL_US 200000

/* A clock this far off is worth a warning, and this far a failure. */
#define CLOCK_WARN_MS 2000
#define CLOCK_FAIL_MS 120000

typedef enum Row
{
	ROW_DURABILITY,
	ROW_WORKER,
	ROW_DOUBT,
	ROW_SERVER,
	ROW_CREDENTIALS,
	ROW_TABLE,
	ROW_KEY,
	ROW_TTL,
	ROW_REGIONS,
	ROW_ROUND_TRIP,
	ROW_CLOCK
} Row;

static EoCall *new_call(EoStore *store, EoOperation op);
static void put_table_name(EoStore *store, EoBuf *body);
static bool string_is(EoJsonValue *v, const char *text);
static void wait_until_active(EoStore *store);
static void switch_ttl_on(EoStore *store);
static bool key_fits(EoStore *store, EoJsonValue *table, char **found);
static void check_here(EoCheckRow *rows);
static void check_table(EoStore *store, EoCheckRow *rows);
static void check_key(EoStore *store, EoJsonValue *table, EoCheckRow *row);
static void check_regions(EoJsonValue *table, EoCheckRow *row);
static void check_ttl(EoStore *store, EoCheckRow *row);
static void check_round_trip(EoStore *store, EoCheckRow *row);
static void check_clock(EoStore *store, EoCheckRow *row);

static void
free_call(void *arg)
{
	eo_call_free(arg);
}

/* Freed with the current memory context, like an answer of store.c. */
static EoCall *
new_call(EoStore *store, EoOperation op)
{
	EoCall	   *call = palloc0(sizeof(EoCall));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	eo_call_init(call, &store->client, op);
	callback->func = free_call;
	callback->arg = call;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	eo_buf_addc(&call->body, '{');
	put_table_name(store, &call->body);
	return call;
}

static void
put_table_name(EoStore *store, EoBuf *body)
{
	eo_buf_adds(body, "\"TableName\":");
	eo_json_put_string(body, store->server->table, strlen(store->server->table));
}

static bool
string_is(EoJsonValue *v, const char *text)
{
	size_t		len;
	const char *s = eo_json_string(v, &len);

	return s != NULL && strcmp(s, text) == 0;
}

/* ----- making ----- */

bool
eo_table_create(EoStore *store)
{
	EoCall	   *call = new_call(store, EO_CREATE_TABLE);
	const char *key = eo_record_key_name(store->layout);
	bool		created;

	eo_buf_addf(&call->body, ",\"AttributeDefinitions\":[{\"AttributeName\":\"%s\",\"AttributeType\":\"S\"}],"
				"\"KeySchema\":[{\"AttributeName\":\"%s\",\"KeyType\":\"HASH\"}],"
				"\"BillingMode\":\"PAY_PER_REQUEST\"}", key, key);
	eo_store_run_call(store, call);

	/* Lost answer or second call: the table is there, and that was wanted. */
	created = call->error.status == EO_OK;
	if (!created && strcmp(call->error.code, "ResourceInUseException") != 0)
		eo_error_raise(&call->error, psprintf("create table \"%s\"", store->server->table),
					   NULL, store->server->name);
	wait_until_active(store);
	switch_ttl_on(store);
	return created;
}

static void
wait_until_active(EoStore *store)
{
	for (;;)
	{
		EoCall	   *call = new_call(store, EO_DESCRIBE_TABLE);
		EoJsonValue *table;
		char	   *found;

		eo_buf_addc(&call->body, '}');
		eo_store_run_call(store, call);
		if (call->error.status != EO_OK && call->error.status != EO_NO_TABLE)
			eo_error_raise(&call->error, psprintf("describe table \"%s\"", store->server->table),
						   NULL, store->server->name);
		table = call->error.status == EO_OK ?
			eo_json_get(eo_json_root(call->reply), "Table") : NULL;
		if (table != NULL && !key_fits(store, table, &found))
			ereport(ERROR,
					(errcode(ERRCODE_EO_REFUSED),
					 errmsg("table \"%s\" of server \"%s\" has another key than this layout needs",
							store->server->table, store->server->name),
					 errdetail("Needed is a string partition key \"%s\" and no sort key; found is %s.",
							   eo_record_key_name(store->layout), found),
					 errhint("Use another table, or another layout.")));
		if (string_is(eo_json_get(table, "TableStatus"), "ACTIVE"))
			return;
		eo_http_wait(eo_clock_monotonic_us() + CREATE_POLL_US, EO_WAIT_RAISE);
	}
}

static void
switch_ttl_on(EoStore *store)
{
	EoCall	   *call = new_call(store, EO_DESCRIBE_TTL);
	EoJsonValue *ttl;

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	ttl = call->error.status == EO_OK ?
		eo_json_get(eo_json_root(call->reply), "TimeToLiveDescription") : NULL;
	if (ttl != NULL && !string_is(eo_json_get(ttl, "TimeToLiveStatus"), "DISABLED"))
		return;

	call = new_call(store, EO_UPDATE_TTL);
	eo_buf_addf(&call->body, ",\"TimeToLiveSpecification\":{\"AttributeName\":\"%s\",\"Enabled\":true}}",
				eo_record_ttl_name(store->layout));
	eo_store_run_call(store, call);
	if (call->error.status != EO_OK)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("could not switch on time to live for table \"%s\"", store->server->table),
				 errdetail_internal("%s", eo_error_facts(&call->error)),
				 errhint("Old records will stay until it is switched on for attribute \"%s\".",
						 eo_record_ttl_name(store->layout))));
}

/*
 * A string partition key of the right name and no sort key; otherwise *found
 * describes what there is.
 */
static bool
key_fits(EoStore *store, EoJsonValue *table, char **found)
{
	EoJsonValue *schema = eo_json_get(table, "KeySchema");
	EoJsonValue *attributes = eo_json_get(table, "AttributeDefinitions");
	size_t		n = eo_json_array_length(schema);
	bool		fits = n == 1;
	StringInfoData s;

	initStringInfo(&s);
	for (size_t i = 0; i < n; i++)
	{
		EoJsonValue *k = eo_json_array_get(schema, i);
		size_t		len;
		const char *name = eo_json_string(eo_json_get(k, "AttributeName"), &len);
		const char *type = "?";

		for (size_t j = 0; name != NULL && j < eo_json_array_length(attributes); j++)
		{
			EoJsonValue *a = eo_json_array_get(attributes, j);

			if (string_is(eo_json_get(a, "AttributeName"), name))
				type = eo_json_string(eo_json_get(a, "AttributeType"), &len);
		}
		if (name == NULL || type == NULL || strcmp(type, "S") != 0 ||
			strcmp(name, eo_record_key_name(store->layout)) != 0)
			fits = false;
		appendStringInfo(&s, "%s%s (%s, %s)", i > 0 ? ", " : "", name != NULL ? name : "?",
						 string_is(eo_json_get(k, "KeyType"), "HASH") ? "partition key" : "sort key",
						 type != NULL ? type : "?");
	}
	*found = s.data;
	return fits;
}

/* ----- looking ----- */

static void
set_row(EoCheckRow *row, const char *check, EoFinding finding, const char *detail,
		const char *advice)
{
	row->check = check;
	row->finding = finding;
	row->detail = detail;
	row->advice = advice;
}

void
eo_table_check(EoStore *store, EoCheckRow rows[EO_CHECK_ROWS])
{
	EoServer   *s = store->server;
	static const char *const later[] = {"table", "key schema", "time to live", "multi-region mode",
	"round trip", "clock"};

	check_here(rows);
	set_row(&rows[ROW_SERVER], "server", EO_FINDING_OK,
			psprintf("%s region %s, table %s, layout %s", s->url, s->region, s->table, s->layout),
			NULL);
	for (int i = 0; i < (int) lengthof(later); i++)
		set_row(&rows[ROW_TABLE + i], later[i], EO_FINDING_WARNING,
				"not checked", "Mend the failure above first.");
	if (store->credentials_from == NULL)
	{
		EoError		error = {.status = EO_NO_CREDENTIALS};

		set_row(&rows[ROW_CREDENTIALS], "credentials", EO_FINDING_FAILURE, "there are none",
				eo_error_hint(&error));
		return;
	}
	set_row(&rows[ROW_CREDENTIALS], "credentials", EO_FINDING_OK,
			psprintf("from the %s", store->credentials_from), NULL);
	check_table(store, rows);
}

/* What the promise needs of this server, and how it is doing. */
static void
check_here(EoCheckRow *rows)
{
	EoDatabaseInfo db;
	bool		ready = eo_database_info(MyDatabaseId, &db) && db.ready;
	uint32		cursor = 0;
	int			doubts = 0;
	EoSlotView	view;

	if (enableFsync && fullPageWrites)
		set_row(&rows[ROW_DURABILITY], "durability", EO_FINDING_OK, "fsync and full_page_writes are on",
				NULL);
	else
		set_row(&rows[ROW_DURABILITY], "durability", EO_FINDING_WARNING,
				!enableFsync ? "fsync is off" : "full_page_writes is off",
				"After a crash of the machine commits may be gone whose keys are completed. Switch it on.");
	set_row(&rows[ROW_WORKER], "worker", ready ? EO_FINDING_OK : EO_FINDING_WARNING,
			ready ? "at work" : "not started yet",
			ready ? NULL : "The first claim starts it; it needs a free background worker, see max_worker_processes.");
	while (eo_slot_walk(&cursor, &view))
		doubts += view.info.state == EO_SLOT_IN_DOUBT && view.target.dboid == MyDatabaseId;
	if (doubts == 0)
		set_row(&rows[ROW_DOUBT], "in doubt", EO_FINDING_OK, "nothing", NULL);
	else
		set_row(&rows[ROW_DOUBT], "in doubt", EO_FINDING_FAILURE, psprintf("%d keys", doubts),
				"See exactonce_in_doubt, find out whether their work was done, and say so with idem_resolve().");
}

static void
check_table(EoStore *store, EoCheckRow *rows)
{
	EoCall	   *call = new_call(store, EO_DESCRIBE_TABLE);
	EoJsonValue *table;

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	if (call->error.status == EO_DENIED)
	{
		/* A policy may well allow the records and not the description. */
		set_row(&rows[ROW_TABLE], "table", EO_FINDING_WARNING, eo_error_facts(&call->error),
				"Allow dynamodb:DescribeTable and dynamodb:DescribeTimeToLive for these checks.");
	}
	else if (call->error.status != EO_OK)
	{
		set_row(&rows[ROW_TABLE], "table", EO_FINDING_FAILURE, eo_error_facts(&call->error),
				eo_error_hint(&call->error));
		return;
	}
	else
	{
		table = eo_json_get(eo_json_root(call->reply), "Table");
		if (string_is(eo_json_get(table, "TableStatus"), "ACTIVE"))
			set_row(&rows[ROW_TABLE], "table", EO_FINDING_OK, "active", NULL);
		else
			set_row(&rows[ROW_TABLE], "table", EO_FINDING_WARNING, "not active",
					"It is being made, changed or deleted.");
		check_key(store, table, &rows[ROW_KEY]);
		check_regions(table, &rows[ROW_REGIONS]);
		check_ttl(store, &rows[ROW_TTL]);
	}
	check_round_trip(store, &rows[ROW_ROUND_TRIP]);
	check_clock(store, &rows[ROW_CLOCK]);
}

static void
check_key(EoStore *store, EoJsonValue *table, EoCheckRow *row)
{
	char	   *found;
	bool		fits = key_fits(store, table, &found);

	set_row(row, "key schema", fits ? EO_FINDING_OK : EO_FINDING_FAILURE, found,
			fits ? NULL : psprintf("Needed is a string partition key \"%s\" and no sort key.",
								   eo_record_key_name(store->layout)));
}

/*
 * Amazon DynamoDB Developer Guide, "Global tables": replicas are eventually
 * consistent unless the table says MultiRegionConsistency STRONG, and then a
 * condition is evaluated against the local replica only.
 */
static void
check_regions(EoJsonValue *table, EoCheckRow *row)
{
	size_t		n = eo_json_array_length(eo_json_get(table, "Replicas"));

	if (n == 0)
		set_row(row, "multi-region mode", EO_FINDING_OK, "one region", NULL);
	else if (string_is(eo_json_get(table, "MultiRegionConsistency"), "STRONG"))
		set_row(row, "multi-region mode", EO_FINDING_OK,
				"global table, strongly consistent", NULL);
	else
		set_row(row, "multi-region mode", EO_FINDING_FAILURE,
				psprintf("global table with %zu replicas, eventually consistent", n),
				"Two regions can each win the same key. Use a table of one region, or one with multi-region strong consistency.");
}

static void
check_ttl(EoStore *store, EoCheckRow *row)
{
	EoCall	   *call = new_call(store, EO_DESCRIBE_TTL);
	EoJsonValue *ttl;
	const char *name = eo_record_ttl_name(store->layout);
	bool		on;

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	if (call->error.status != EO_OK)
	{
		set_row(row, "time to live", EO_FINDING_WARNING, eo_error_facts(&call->error),
				"Allow dynamodb:DescribeTimeToLive for this check.");
		return;
	}
	ttl = eo_json_get(eo_json_root(call->reply), "TimeToLiveDescription");
	on = string_is(eo_json_get(ttl, "TimeToLiveStatus"), "ENABLED") ||
		string_is(eo_json_get(ttl, "TimeToLiveStatus"), "ENABLING");
	if (!on)
		set_row(row, "time to live", EO_FINDING_WARNING, "off",
				psprintf("Old records are never removed. Switch it on for attribute \"%s\"; idem_create_table() does.", name));
	else if (!string_is(eo_json_get(ttl, "AttributeName"), name))
		set_row(row, "time to live", EO_FINDING_FAILURE, "on, for another attribute",
				psprintf("It may remove records that are in use. It must be on attribute \"%s\".", name));
	else
		set_row(row, "time to live", EO_FINDING_OK, psprintf("on, attribute %s", name), NULL);
}

/* A conditional write whose condition cannot hold: permission, and no trace. */
static void
check_round_trip(EoStore *store, EoCheckRow *row)
{
	EoWrite		w = {0};
	EoAnswer   *answer;
	char		token[EO_TOKEN_LEN + 1];

	eo_store_new_token(token);
	w.now_ms = eo_client_now_ms(&store->client);
	answer = eo_store_write(store, eo_store_pk(store, token), EO_PROBE, &w);
	if (answer->outcome == EO_NOT_APPLIED)
		set_row(row, "round trip", EO_FINDING_OK,
				psprintf("conditional write refused as it should be, %.1f ms",
						 answer->call.elapsed_us / 1000.0), NULL);
	else
		set_row(row, "round trip", EO_FINDING_FAILURE, eo_error_facts(&answer->error),
				eo_error_hint(&answer->error));
	eo_answer_free(answer);
}

static void
check_clock(EoStore *store, EoCheckRow *row)
{
	const EoClient *client = &store->client;
	int64		off_ms = client->clock_candidate ? client->clock_candidate_ms : client->clock_offset_ms;
	int64		distance = off_ms < 0 ? -off_ms : off_ms;

	if (!store->client.clock_known && !store->client.clock_candidate)
		set_row(row, "clock", EO_FINDING_WARNING, "the service sent no date", NULL);
	else
		set_row(row, "clock",
				distance < CLOCK_WARN_MS ? EO_FINDING_OK :
				distance < CLOCK_FAIL_MS ? EO_FINDING_WARNING : EO_FINDING_FAILURE,
				distance < CLOCK_WARN_MS ? "within 2 s of the service's" :
				psprintf("%.1f s %s the service's", distance / 1000.0,
						 off_ms > 0 ? "behind" : "ahead of"),
				distance < CLOCK_WARN_MS ? NULL :
				"Synchronize the database server's clock. Leases are judged by the service's clock meanwhile.");
}
