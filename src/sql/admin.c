/*-------------------------------------------------------------------------
 *
 * admin.c
 *	  The SQL functions for administrators: idem_create_table, idem_check.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "server/options.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/check.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "sql/table.h"
#include "utils/builtins.h"

EO_COUNTED(eo_idem_create_table, EO_FN_IDEM_CREATE_TABLE);
EO_COUNTED(eo_idem_check, EO_FN_IDEM_CHECK);

/*
 * idem_create_table(server)
 */
static Datum
eo_idem_create_table_body(PG_FUNCTION_ARGS)
{
	bool		created;

	eo_preconditions("idem_create_table", EO_WRITES);
	created = eo_table_create(eo_arg_store(fcinfo, 0));
	PG_RETURN_TEXT_P(cstring_to_text(created ? "created" : "exists"));
}

/* Make the checks, and ask the service also if others are refused that. */
static void
check(EoStore *store, EoCheckRow *checks)
{
	if (store != NULL)
		store->client.insists = true;
	PG_TRY();
	{
		eo_check(store, checks);
	}
	PG_FINALLY();
	{
		if (store != NULL)
			store->client.insists = false;
	}
	PG_END_TRY();
}

/*
 * idem_check(server)
 */
static Datum
eo_idem_check_body(PG_FUNCTION_ARGS)
{
	static const char *const statuses[] = {
		[EO_FINDING_OK] = "ok",
		[EO_FINDING_WARNING] = "warning",
		[EO_FINDING_FAILURE] = "failure",
		[EO_FINDING_SKIPPED] = "skipped"
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	EoCheckRow	checks[EO_CHECK_ROWS];
	bool		may_use;

	eo_preconditions("idem_check", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	may_use = eo_options_may_use(eo_arg_text(fcinfo, 0));
	check(may_use ? eo_arg_store(fcinfo, 0) : NULL, checks);
	for (int i = 0; i < EO_CHECK_ROWS; i++)
	{
		EoRow		row;

		eo_row_begin(&row, rsinfo->setDesc);
		eo_row_put_text(&row, checks[i].check);
		eo_row_put_text(&row, statuses[checks[i].finding]);
		eo_row_put_text(&row, checks[i].detail);
		eo_row_put_text(&row, checks[i].advice);
		eo_row_store(&row, rsinfo);
	}
	return (Datum) 0;
}
