/*-------------------------------------------------------------------------
 *
 * table_mode.c
 *	  Whether a table has transactions.
 *
 * Amazon DynamoDB Developer Guide, "How DynamoDB global tables work": tables with multi-region
 * strong consistency have no transactions and no time to live, and a global table never
 * gets another mode.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "server/table_mode.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/status.h"

bool
eo_table_mode_is_strong(EoJsonValue *description)
{
	return eo_json_string_is(eo_json_get(description, "MultiRegionConsistency"), "STRONG");
}

void
eo_table_mode_check(const EoStore *store, const char *table, EoJsonValue *description)
{
	if (eo_table_mode_is_strong(description))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" of server \"%s\" has no transactions", table,
						store->server->name),
				 errdetail("It is a global table with multi-region strong consistency."),
				 errhint("Make the writes without a key, or use tables of one region for both.")));
}

bool
eo_table_mode_ask(EoStore *store, const char *table)
{
	EoCall	   *call = eo_store_new_table_call(store, EO_DESCRIBE_TABLE, table);

	eo_buf_addc(&call->body, '}');
	eo_store_run_call(store, call);
	if (call->error.status == EO_OK)
		eo_table_mode_check(store, table, eo_json_get(eo_json_root(call->reply), "Table"));
	return call->error.status == EO_OK || call->error.status == EO_DENIED;
}
