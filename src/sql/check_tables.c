/*-------------------------------------------------------------------------
 *
 * check_tables.c
 *	  The row of idem_check() about the internal tables.
 *
 * Are they as the extension made them, and can they be had?  Nobody is waited for here:
 * whoever calls idem_check() may look for the one that everybody waits for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/databases.h"
#include "ledger/internal.h"
#include "ledger/lock_limit.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "sql/check_tables.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* Somebody has locked a table, or waits for that, and others cannot have it. */
static void
report_lock(Oid relid, const char *detail, EoCheckRow *row)
{
	StringInfoData facts;

	initStringInfo(&facts);
	eo_lock_limit_tell(relid, &facts);
	row->finding = EO_FINDING_FAILURE;
	row->detail = facts.len > 0 ? psprintf("%s: %s", detail, facts.data) : detail;
	row->advice = "Leases are extended meanwhile; keys are not finished and not given back. See pg_locks and pg_stat_activity, and end whoever should not have the lock.";
}

bool
eo_check_tables(EoCheckRow *row)
{
	EoDatabaseInfo db = {0};
	Oid			locked;
	const char *wrong = eo_internal_look_over(&row->advice, &locked);

	(void) eo_database_info(MyDatabaseId, &db);
	row->finding = wrong != NULL ? EO_FINDING_FAILURE : EO_FINDING_OK;
	row->detail = wrong;
	if (wrong != NULL && !OidIsValid(locked))
		return false;
	if (db.waits_since != 0)
		report_lock(db.waits_for, psprintf("the worker waits for a lock on %s since %s",
										   eo_lock_limit_name(db.waits_for),
										   timestamptz_to_str(db.waits_since)), row);
	else if (wrong != NULL)
		report_lock(locked, wrong, row);
	else
	{
		row->detail = "as the extension made them";
		row->advice = NULL;
	}
	return wrong == NULL;
}
