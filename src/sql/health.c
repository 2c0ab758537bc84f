/*-------------------------------------------------------------------------
 *
 * health.c
 *	  What the views exactonce_health and exactonce_credentials are made of.
 *
 * They have the numbers that a monitoring system needs and that no other view has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/databases.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "server/credential_cache.h"
#include "server/error.h"
#include "server/guc.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "wire/clock.h"

PG_FUNCTION_INFO_V1(eo_credentials_of_cluster);
PG_FUNCTION_INFO_V1(eo_health_of_database);

/*
 * health_of_database()
 */
Datum
eo_health_of_database(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	EoDatabaseInfo db;
	EoRoom		room;
	EoError		error;
	TimestampTz since = 0;
	bool		failing;
	Interval   *silent = palloc0(sizeof(Interval));
	EoRow		row;

	eo_preconditions("exactonce_health", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	(void) eo_database_info(MyDatabaseId, &db);
	silent->time = eo_clock_monotonic_us() - db.alive_us;
	failing = eo_database_failure(MyDatabaseId, &error, &since);
	eo_slot_view_room(&room);

	eo_row_begin(&row, rsinfo->setDesc);
	EO_ROW_PUT(&row, false, BoolGetDatum(eo_guc_enabled));
	EO_ROW_PUT(&row, db.worker_pid == 0, Int32GetDatum(db.worker_pid));
	EO_ROW_PUT(&row, db.worker_pid == 0, IntervalPGetDatum(silent));
	EO_ROW_PUT(&row, false, BoolGetDatum(db.missed));
	EO_ROW_PUT(&row, !failing, TimestampTzGetDatum(since));
	eo_row_put_text(&row, failing ? eo_error_facts(&error) : NULL);
	EO_ROW_PUT(&row, false, Int32GetDatum(eo_slot_view_ending(MyDatabaseId)));
	EO_ROW_PUT(&row, false, Int64GetDatum(room.slots));
	EO_ROW_PUT(&row, false, Int64GetDatum((int64) room.taken + room.looks));
	EO_ROW_PUT(&row, false, Float8GetDatum(room.fullest));
	EO_ROW_PUT(&row, false, Int64GetDatum(eo_slot_lost_count()));
	eo_row_store(&row, rsinfo);
	return (Datum) 0;
}

/* Text that may quote what another program has said. */
static void
put_shown(EoRow *row, const char *text)
{
	eo_row_put_text(row, text[0] == '\0' ? NULL : eo_row_show_utf8(text));
}

/*
 * credentials_of_cluster()
 */
Datum
eo_credentials_of_cluster(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		cursor = 0;
	EoCredentialReport report;

	eo_preconditions("exactonce_credentials", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	while (eo_credential_cache_walk(&cursor, &report))
	{
		bool		failing = report.failure[0] != '\0';
		EoRow		row;

		eo_row_begin(&row, rsinfo->setDesc);
		put_shown(&row, report.profile);
		put_shown(&row, report.role_arn);
		put_shown(&row, report.source);
		EO_ROW_PUT(&row, false, BoolGetDatum(report.has_identity));
		eo_row_put_instant(&row, report.has_identity ? report.expires_s * 1000 : 0);
		EO_ROW_PUT(&row, !failing, TimestampTzGetDatum(report.failing_since));
		put_shown(&row, report.failure);
		EO_ROW_PUT(&row, false, Int64GetDatum(report.fetches));
		EO_ROW_PUT(&row, false, Int64GetDatum(report.failed_fetches));
		eo_row_store(&row, rsinfo);
	}
	return (Datum) 0;
}
