/*-------------------------------------------------------------------------
 *
 * views.c
 *	  What the views of shared memory are made of, and how the views show keys.
 *
 * The functions are in the schema exactonce_internal, where nobody can call them but through
 * the views.  exactonce_claims and exactonce_in_doubt select from claims_of_cluster(), which
 * shows no token, payload or result, and of keys what exactonce.log_keys allows.
 * exactonce_pending says by waits_for() what a completion waits for.  exactonce_progress,
 * exactonce_circuits, exactonce_health and exactonce_credentials select from functions of their
 * own, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/circuit.h"
#include "cluster/databases.h"
#include "cluster/life_watch.h"
#include "cluster/progress.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/durability.h"
#include "compat.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "ledger/known_targets.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "records/layout.h"
#include "records/record.h"
#include "server/credential_cache.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/moment.h"
#include "server/option_values.h"
#include "server/text.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"
#include "wire/clock.h"

PG_FUNCTION_INFO_V1(eo_circuits_of_cluster);
PG_FUNCTION_INFO_V1(eo_claims_of_cluster);
PG_FUNCTION_INFO_V1(eo_credentials_of_cluster);
PG_FUNCTION_INFO_V1(eo_health_of_database);
PG_FUNCTION_INFO_V1(eo_key_of_record);
PG_FUNCTION_INFO_V1(eo_waits_for);
PG_FUNCTION_INFO_V1(eo_progress_of_cluster);

/* The column "state", as the comment on the view exactonce_claims explains it. */
static const char *
state_of(const EoSlotInfo *info)
{
	static const char *const states[] = {
		[EO_SLOT_FREE] = "free",
		[EO_SLOT_PLANNED] = "planned",
		[EO_SLOT_ASKING] = "asking",
		[EO_SLOT_HELD] = "held",
		[EO_SLOT_COMPLETED] = "held",
		[EO_SLOT_FAILED] = "settled",
		[EO_SLOT_RELEASED] = "settled",
		[EO_SLOT_SEALING] = "committing",
		[EO_SLOT_SESSION] = "session",
		[EO_SLOT_TO_FINISH] = "ending",
		[EO_SLOT_TO_FAIL] = "ending",
		[EO_SLOT_TO_RELEASE] = "ending",
		[EO_SLOT_TO_ABORT] = "ending",
		[EO_SLOT_TO_UNSEAL] = "ending",
		[EO_SLOT_TO_BURY] = "ending",
		[EO_SLOT_TO_JUDGE] = "ending",
		[EO_SLOT_BURIED] = "second look",
		[EO_SLOT_IN_DOUBT] = "in doubt"
	};

	if (eo_slot_is_prepared(info))
		return "prepared";
	if (info->lost && !eo_slot_state_is_over(info->state))
		return "lost";
	return states[info->state];
}

/*
 * Does the slot wait for a server that leads to its table?  Without one the worker cannot settle
 * it.
 */
static bool
waits_for_server(const EoSlotView *view)
{
	return view->target.dboid == MyDatabaseId && eo_slot_state_is_over(view->info.state) &&
		!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(view->target.serverid)) &&
		!OidIsValid(eo_known_target_server(&view->target));
}

/*
 * The key of a record, whose partition key is pk in UTF-8, as views show it: without what
 * its layout and the key_prefix of its server put before it, if that is a server of this
 * database and exists.
 */
static const char *
shown_key(const char *pk, Oid serverid)
{
	const EoLayout *layout = eo_layout_find("native");
	ForeignServer *fs = NULL;
	const char *prefix = NULL;

	if (OidIsValid(serverid))
		fs = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	if (fs != NULL)
	{
		prefix = eo_option_values_find(fs->options, "key_prefix");
		layout = eo_layout_find(eo_option_values_layout(fs->options));
	}
	return eo_text_utf8_key_shown(eo_record_key_text(layout,
													 prefix != NULL ? eo_text_to_utf8(prefix) : "",
													 pk));
}

/* key_of_record(pk, server) */
Datum
eo_key_of_record(PG_FUNCTION_ARGS)
{
	char	   *pk = eo_text_to_utf8(text_to_cstring(PG_GETARG_TEXT_PP(0)));

	PG_RETURN_TEXT_P(cstring_to_text(shown_key(pk, PG_GETARG_OID(1))));
}

/* claims_of_cluster() */
Datum
eo_claims_of_cluster(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		cursor = 0;
	EoSlotView	view;

	eo_preconditions("exactonce_claims", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	while (eo_slot_view_walk(&cursor, &view))
	{
		const EoSlotInfo *s = &view.info;
		Oid			serverid = InvalidOid;
		uint64		xid;
		EoRow		row;

		if (view.target.dboid == MyDatabaseId)
			serverid = view.target.serverid;
		eo_row_begin(&row, rsinfo->setDesc);
		EO_ROW_PUT(&row, false, ObjectIdGetDatum(view.target.dboid));
		EO_ROW_PUT(&row, false, ObjectIdGetDatum(view.target.serverid));
		EO_ROW_PUT(&row, false, ObjectIdGetDatum(view.target.userid));
		eo_row_put_text(&row, view.target.table);
		eo_row_put_text(&row, shown_key(view.pk, serverid));
		eo_row_put_text(&row, waits_for_server(&view) ? "no server" : state_of(s));
		EO_ROW_PUT(&row, s->pid == 0, Int32GetDatum(s->pid));
		EO_ROW_PUT(&row, s->pid == 0, TimestampTzGetDatum(eo_moment_timestamp(s->since_us)));
		eo_row_put_instant(&row, eo_slot_has_origin(s) ? 0 : s->lease_until_ms);
		EO_ROW_PUT(&row, s->runs == 0, Int32GetDatum((int32) s->runs));
		EO_ROW_PUT(&row, s->fence == 0, Int64GetDatum(s->fence));
		xid = eo_slot_is_prepared(s) ? s->prepared_xid : s->origin.xid;
		EO_ROW_PUT(&row, xid == 0, Int64GetDatum((int64) xid));
		eo_row_store(&row, rsinfo);
	}
	return (Datum) 0;
}

/* waits_for(xid, life, url, region, dynamodb_table, key_prefix) */
Datum
eo_waits_for(PG_FUNCTION_ARGS)
{
	uint64		xid = U64FromFullTransactionId(PG_GETARG_FULLTRANSACTIONID(0));
	pg_uuid_t  *life = PG_GETARG_UUID_P(1);
	EoTarget	target = {.dboid = MyDatabaseId};
	EoLifeWatch watch;
	EoDatabaseHold hold;
	bool		standbys;
	bool		slots;

	eo_preconditions("exactonce_pending", EO_READS);
	text_to_cstring_buffer(PG_GETARG_TEXT_PP(2), target.url, sizeof(target.url));
	text_to_cstring_buffer(PG_GETARG_TEXT_PP(3), target.region, sizeof(target.region));
	text_to_cstring_buffer(PG_GETARG_TEXT_PP(4), target.table, sizeof(target.table));
	text_to_cstring_buffer(PG_GETARG_TEXT_PP(5), target.prefix, sizeof(target.prefix));
	if (eo_life_watch_find(&target, life->data, &watch) && watch != EO_WATCH_OVER)
	{
		Datum		id = DirectFunctionCall1(uuid_out, UUIDPGetDatum(life));

		PG_RETURN_TEXT_P(cstring_to_text(psprintf("life %s: %s", DatumGetCString(id),
												  eo_life_watch_name(watch))));
	}
	if (!eo_database_held(MyDatabaseId, &hold) || xid < hold.from_xid)
		PG_RETURN_NULL();
	standbys = !eo_durability_standbys_have(hold.lsn, NULL);
	slots = eo_durability_slots(hold.lsn, NULL) != EO_STANDING_CONFIRMED;
	if (!standbys && !slots)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(!slots ? "synchronous_standby_names" :
									 !standbys ? "replication slots" :
									 "synchronous_standby_names, replication slots"));
}

/* progress_of_cluster() */
Datum
eo_progress_of_cluster(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		cursor = 0;
	EoProgress	p;

	eo_preconditions("exactonce_progress", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	while (eo_progress_walk(&cursor, &p))
	{
		EoRow		row;

		eo_row_begin(&row, rsinfo->setDesc);
		EO_ROW_PUT(&row, false, ObjectIdGetDatum(p.dboid));
		EO_ROW_PUT(&row, false, ObjectIdGetDatum(p.serverid));
		EO_ROW_PUT(&row, false, Int32GetDatum(p.pid));
		eo_row_put_text(&row, p.activity);
		EO_ROW_PUT(&row, false, Int64GetDatum(p.done));
		EO_ROW_PUT(&row, p.total < 0, Int64GetDatum(p.total));
		EO_ROW_PUT(&row, false, Int64GetDatum(p.found));
		EO_ROW_PUT(&row, false, TimestampTzGetDatum(eo_moment_timestamp(p.since_us)));
		eo_row_store(&row, rsinfo);
	}
	return (Datum) 0;
}

/* circuits_of_cluster() */
Datum
eo_circuits_of_cluster(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		cursor = 0;
	EoCircuitReport r;

	eo_preconditions("exactonce_circuits", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	while (eo_circuit_walk(&cursor, &r))
	{
		Interval   *timeout = palloc0(sizeof(Interval));
		const char *why = r.failures > 0 ? r.why : NULL;
		EoRow		row;

		timeout->time = r.request_timeout_ms * INT64CONST(1000);
		/* A message of libcurl's may quote what is not in this encoding. */
		if (why != NULL && !pg_verifymbstr(why, (int) strlen(why), true))
			why = "";
		eo_row_begin(&row, rsinfo->setDesc);
		eo_row_put_text(&row, r.url);
		EO_ROW_PUT(&row, false, IntervalPGetDatum(timeout));
		EO_ROW_PUT(&row, false, BoolGetDatum(r.open));
		EO_ROW_PUT(&row, r.answered_at == 0, TimestampTzGetDatum(r.answered_at));
		EO_ROW_PUT(&row, false, Int64GetDatum((int64) r.failures));
		EO_ROW_PUT(&row, r.failures == 0, TimestampTzGetDatum(r.silent_since));
		EO_ROW_PUT(&row, !r.open, TimestampTzGetDatum(r.opened_at));
		EO_ROW_PUT(&row, !r.open, Int64GetDatum((int64) r.refused));
		EO_ROW_PUT(&row, !r.open, TimestampTzGetDatum(r.next_probe_at));
		eo_row_put_text(&row, why);
		eo_row_store(&row, rsinfo);
	}
	return (Datum) 0;
}

/* ----- for monitoring: the numbers that no other view has ----- */

/* health_of_database() */
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

/* credentials_of_cluster() */
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
