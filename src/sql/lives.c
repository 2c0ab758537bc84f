/*-------------------------------------------------------------------------
 *
 * lives.c
 *	  The SQL functions about lives, and about what other lives have done: lives_of_cluster,
 *	  idem_take_over, idem_lift, idem_drain, idem_audit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "cluster/bars.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "commit/audit.h"
#include "commit/drain.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "ledger/take_over.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "records/origin.h"
#include "server/store.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"
#include "wire/clock.h"

#define MAX_DRAIN_MS INT64CONST(86400000)

PG_FUNCTION_INFO_V1(eo_lives_of_cluster);
EO_COUNTED(eo_idem_take_over, EO_FN_IDEM_TAKE_OVER);
EO_COUNTED(eo_idem_audit, EO_FN_IDEM_AUDIT);
PG_FUNCTION_INFO_V1(eo_idem_lift);
PG_FUNCTION_INFO_V1(eo_idem_drain);

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
		"Find out who removed the record, have the key completed again, and give up this completion with idem_give_up(pending)."
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
	},
	[EO_FOUND_UNREADABLE] = {
		"not judged",
		NULL,
		"Find out who has written them. A key of ours whose record is too long is forgotten with idem_forget()."
	}
};

/* The roles whose credentials are refused in the place, and why; NULL: there are none. */
static const char *
refused_in(const EoTarget *target)
{
	StringInfoData s;
	uint32		cursor = 0;
	Oid			userid;
	char		why[EO_WHY_LEN];

	initStringInfo(&s);
	while (eo_life_watch_refused(target, &cursor, &userid, why))
	{
		const char *role = GetUserNameFromId(userid, true);

		appendStringInfo(&s, "%s%s: %s", s.len > 0 ? ", " : "", role != NULL ? role : "(dropped)", why);
	}
	return s.len > 0 ? s.data : NULL;
}

static void
put_row(ReturnSetInfo *rsinfo, const EoPlace *place, const char *state, int64 beat, int64 at_us,
		int64 scanned)
{
	const EoTarget *target = &place->target;
	pg_uuid_t	uuid;
	EoRow		row;

	memcpy(uuid.data, place->life, sizeof(uuid.data));
	eo_row_begin(&row, rsinfo->setDesc);
	EO_ROW_PUT(&row, false, ObjectIdGetDatum(target->dboid));
	EO_ROW_PUT(&row, false, UUIDPGetDatum(&uuid));
	eo_row_put_text(&row, target->table);
	eo_row_put_text(&row, eo_row_show_utf8(target->prefix));
	eo_row_put_text(&row, state);
	EO_ROW_PUT(&row, false, Int64GetDatum(beat));
	EO_ROW_PUT(&row, at_us == 0, TimestampTzGetDatum(GetCurrentTimestamp() -
													 (eo_clock_steady_us() - at_us)));
	EO_ROW_PUT(&row, scanned < 0, Int64GetDatum(scanned));
	eo_row_put_text(&row, refused_in(target));
	EO_ROW_PUT(&row, place->barred_at == 0, TimestampTzGetDatum(place->barred_at));
	eo_row_put_text(&row, place->barred_at != 0 ? place->barred_why : NULL);
	eo_row_store(&row, rsinfo);
}

/* lives_of_cluster() */
Datum
eo_lives_of_cluster(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		cursor = 0;
	EoPlace		place;
	EoLifeReport report;

	eo_preconditions("exactonce_lives", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	while (eo_life_walk_places(InvalidOid, true, &cursor, &place))
		put_row(rsinfo, &place,
				place.barred_at != 0 ? "barred" : place.open ? "open" : "opening",
				place.beat, place.confirmed_us, -1);
	cursor = 0;
	while (eo_life_watch_walk(&cursor, &report))
	{
		place = (EoPlace)
		{
			.target = report.target
		};
		memcpy(place.life, report.life, EO_UUID_LEN);
		put_row(rsinfo, &place, eo_life_watch_name(report.watch), report.beat, report.since_us,
				report.scanned);
	}
	return (Datum) 0;
}

/* idem_take_over(life, server) */
static Datum
eo_idem_take_over_body(PG_FUNCTION_ARGS)
{
	eo_preconditions("idem_take_over", EO_WRITES);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("life must not be null"),
				 errhint("exactonce_lives lists the lives that wait for an heir.")));
	eo_preconditions_worker();
	PG_RETURN_BOOL(eo_take_over(eo_arg_store(fcinfo, 1), PG_GETARG_UUID_P(0)->data));
}

/* idem_lift(server) */
Datum
eo_idem_lift(PG_FUNCTION_ARGS)
{
	EoTarget	target;

	eo_preconditions("idem_lift", EO_WRITES);
	eo_target_of(eo_store_open(eo_arg_text(fcinfo, 0)), &target);
	PG_RETURN_BOOL(eo_bar_lift(&target));
}

/* idem_drain(timeout) */
Datum
eo_idem_drain(PG_FUNCTION_ARGS)
{
	int64		timeout_ms;
	int			left;

	eo_preconditions("idem_drain", EO_WRITES);
	if (PG_ARGISNULL(0))
	{
		eo_drain_end();
		PG_RETURN_INT32(0);
	}
	timeout_ms = eo_arg_interval_ms(fcinfo, 0, "timeout", 0, MAX_DRAIN_MS);
	eo_preconditions_worker();
	left = eo_drain(timeout_ms);
	if (left > 0)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("the database is not drained, and this call does not bar new claims any more"),
				 errdetail("Claims, completions and leases that are left: %d.", left),
				 errhint("See exactonce_claims, exactonce_pending and exactonce_lives for what is left.")));
	PG_RETURN_INT32(left);
}

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
	if (found->finding == EO_FOUND_UNREADABLE)
		detail = psprintf("%lld records cannot be read, because they are too long, or are none of the server's layout.",
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

/* idem_audit(server, units_per_second) */
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
