/*-------------------------------------------------------------------------
 *
 * audit.c
 *	  The SQL function idem_audit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "cluster/target.h"
#include "commit/audit.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "records/origin.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

EO_COUNTED(eo_idem_audit, EO_FN_IDEM_AUDIT);

/* The words for each finding. */
static const struct
{
	const char *finding;
	const char *detail;
	const char *advice;
}			texts[] =
{
	[EO_FOUND_LOST] = {
		"lost",
		"The key is completed, and the transaction that did so is not committed in this data.",
		"If the work is missing here, have it done again with idem_forget()."
	},
	[EO_FOUND_CLOSED] = {
		"elsewhere",
		"The key is completed, by a transaction that is not in this data; its life was closed, and its data may go on under another.",
		"If no server goes on with that data, have the key done again with idem_forget()."
	},
	[EO_FOUND_ELSEWHERE] = {
		"elsewhere",
		"The key is completed, by a transaction that is not in this data; its life goes on, or has another heir.",
		"If the server of that life is gone for good, call idem_take_over() with it, and audit again. Else its data has the work."
	},
	[EO_FOUND_WAITING] = {
		"elsewhere",
		"The key is being committed under a life that goes on, or has another heir.",
		"Wait a minute. If the server of that life is gone for good, call idem_take_over() with it."
	},
	[EO_FOUND_PREPARED] = {
		"prepared",
		"The key is completed, and its transaction is prepared in this data: its COMMIT PREPARED was lost by a failover.",
		"Make it again: COMMIT PREPARED, with the gid that exactonce_claims shows. ROLLBACK PREPARED would lose the work."
	},
	[EO_FOUND_UNKNOWN] = {
		"unknown",
		"The key is completed, and the commit log does not tell any more whether its transaction is committed in this data.",
		"Compare it with your data. Only if the work is missing, have it done again with idem_forget()."
	},
	[EO_FOUND_DOUBT] = {
		"in doubt",
		"The key is sealed, and nothing in this data tells whether its transaction committed.",
		"Compare it with your data, and settle the key with idem_resolve()."
	},
	[EO_FOUND_NO_RECORD] = {
		"no record",
		"The transaction that completed the key is committed in this data, and its record is gone: the key can be claimed again.",
		"Look for whoever removed the record, have the key completed again, and give up this completion with idem_give_up(pending)."
	},
	[EO_FOUND_TWICE] = {
		"settled twice",
		"The transaction that completed the key is committed in this data, and somebody else has settled the key: another heir, or another program.",
		"The work may have been done twice, or be done again. Compare both, and give up this completion with idem_give_up(pending)."
	},
	[EO_FOUND_UNJUDGED] = {
		"not judged",
		NULL,
		"Lives are remembered for 35 days. Nothing needs to be done, unless this data was recovered to a point before that."
	},
	[EO_FOUND_EARLIER] = {
		"not judged",
		NULL,
		"If that database goes on, they are its own. Else take over its last life with idem_take_over(), and audit again."
	}
};

static void
put_origin(EoRow *row, const EoOrigin *origin)
{
	pg_uuid_t  *life = palloc0(sizeof(pg_uuid_t));

	if (origin != NULL)
		memcpy(life->data, origin->life, sizeof(life->data));
	EO_ROW_PUT(row, origin == NULL, UUIDPGetDatum(life));
	EO_ROW_PUT(row, origin == NULL || origin->xid == 0,
			   FullTransactionIdGetDatum(FullTransactionIdFromU64(origin->xid)));
	EO_ROW_PUT(row, origin == NULL || origin->timeline == 0,
			   Int64GetDatum((int64) origin->timeline));
	EO_ROW_PUT(row, origin == NULL || origin->timeline == 0, LSNGetDatum(origin->lsn));
}

/* The row outlives the page of the scan that the caller is at. */
static void
store_finding(const EoAuditRow *found, void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	const char *detail = texts[found->finding].detail;
	EoRow		row;

	if (found->finding == EO_FOUND_UNJUDGED)
		detail = psprintf("%lld completed records name lives that neither this data nor the table knows any more.",
						  (long long) found->records);
	if (found->finding == EO_FOUND_EARLIER)
		detail = psprintf("%lld records name lives of the database that this data comes from, by pg_upgrade or CREATE DATABASE ... TEMPLATE.",
						  (long long) found->records);
	eo_row_begin(&row, rsinfo->setDesc);
	eo_row_put_text(&row, found->key != NULL ? eo_row_show_utf8(found->key) : NULL);
	eo_row_put_text(&row, texts[found->finding].finding);
	eo_row_put_text(&row, found->status);
	put_origin(&row, found->origin);
	eo_row_put_instant(&row, found->updated_ms);
	EO_ROW_PUT(&row, found->pending == NULL, UUIDPGetDatum(found->pending));
	eo_row_put_text(&row, detail);
	eo_row_put_text(&row, texts[found->finding].advice);
	eo_row_store(&row, rsinfo);
}

/*
 * idem_audit(server, units_per_second)
 */
static Datum
eo_idem_audit_body(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	EoStore    *store;
	int			units;

	eo_preconditions("idem_audit", EO_READS);
	PreventCommandDuringRecovery("idem_audit()");
	units = eo_arg_units(fcinfo, 1);
	eo_compat_materialized_srf(fcinfo);
	store = eo_arg_store(fcinfo, 0);
	eo_call_stats_progress(store, -1);
	eo_audit(store, units, store_finding, rsinfo);
	return (Datum) 0;
}
