/*-------------------------------------------------------------------------
 *
 * write.c
 *	  idem_write(): writes to DynamoDB for the key whose handler runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "keys/collected.h"
#include "keys/writes.h"
#include "server/store.h"
#include "sql/counted.h"
#include "sql/gate.h"
#include "utils/jsonb.h"

EO_COUNTED(eo_idem_write, EO_FN_IDEM_WRITE);

/*
 * idem_write(writes)
 */
static Datum
eo_idem_write_body(PG_FUNCTION_ARGS)
{
	EoWrites	writes;
	EoStore    *store;

	eo_gate("idem_write", EO_WRITES);
	store = eo_collected_store();
	if (store == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("idem_write() was not called by a handler of idem_call()"),
				 errhint("Elsewhere, idem_complete() and idem_once() take the writes of a key.")));
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("writes must not be null")));
	eo_counted_store(store);
	eo_writes_read(store, "idem_write()", PG_GETARG_JSONB_P(0), &writes);
	eo_collected_add(&writes);
	PG_RETURN_VOID();
}
