/*-------------------------------------------------------------------------
 *
 * lives.c
 *	  The SQL functions about lives: lives_of_cluster, idem_take_over,
 *	  idem_drain.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "commit/drain.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "ledger/take_over.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "wire/clock.h"

#define MAX_DRAIN_MS INT64CONST(86400000)

PG_FUNCTION_INFO_V1(eo_lives_of_cluster);
EO_COUNTED(eo_idem_take_over, EO_FN_IDEM_TAKE_OVER);
PG_FUNCTION_INFO_V1(eo_idem_drain);

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
put_row(ReturnSetInfo *rsinfo, const EoTarget *target, const uint8 *life, const char *state,
		int64 beat, int64 at_us, int64 scanned)
{
	pg_uuid_t	uuid;
	EoRow		row;

	memcpy(uuid.data, life, sizeof(uuid.data));
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
	eo_row_store(&row, rsinfo);
}

/*
 * lives_of_cluster()
 */
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
		put_row(rsinfo, &place.target, place.life, place.open ? "open" : "opening",
				place.beat, place.confirmed_us, -1);
	cursor = 0;
	while (eo_life_watch_walk(&cursor, &report))
		put_row(rsinfo, &report.target, report.life, eo_life_watch_name(report.watch), report.beat,
				report.since_us, report.scanned);
	return (Datum) 0;
}

/*
 * idem_take_over(life, server)
 */
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

/*
 * idem_drain(timeout)
 */
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
				 errmsg("the database is not drained, and new claims are allowed again"),
				 errdetail("Claims, completions and leases that are left: %d.", left),
				 errhint("See exactonce_claims, exactonce_pending and exactonce_lives for what is left.")));
	PG_RETURN_INT32(left);
}
