/*-------------------------------------------------------------------------
 *
 * admin.c
 *	  The functions of SQL for whoever runs the database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "server/store.h"
#include "sql/args.h"
#include "sql/gate.h"
#include "sql/table.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(eo_idem_create_table);
PG_FUNCTION_INFO_V1(eo_idem_check);

/*
 * idem_create_table(server)
 */
Datum
eo_idem_create_table(PG_FUNCTION_ARGS)
{
	bool		created;

	eo_gate("idem_create_table", EO_WRITES);
	created = eo_table_create(eo_store_open(eo_arg_text(fcinfo, 0)));
	PG_RETURN_TEXT_P(cstring_to_text(created ? "created" : "exists"));
}

/*
 * idem_check(server)
 */
Datum
eo_idem_check(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {
		[EO_FINDING_OK] = "ok",
		[EO_FINDING_WARNING] = "warning",
		[EO_FINDING_FAILURE] = "failure"
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	EoCheckRow	rows[EO_CHECK_ROWS];

	eo_gate("idem_check", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	eo_table_check(eo_store_open(eo_arg_text(fcinfo, 0)), rows);
	for (int i = 0; i < EO_CHECK_ROWS; i++)
	{
		Datum		values[4] = {0};
		bool		nulls[4] = {false};

		values[0] = CStringGetTextDatum(rows[i].check);
		values[1] = CStringGetTextDatum(names[rows[i].finding]);
		values[2] = CStringGetTextDatum(rows[i].detail);
		nulls[3] = rows[i].advice == NULL;
		if (!nulls[3])
			values[3] = CStringGetTextDatum(rows[i].advice);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
