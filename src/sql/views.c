/*-------------------------------------------------------------------------
 *
 * views.c
 *	  What the views exactonce_claims and exactonce_in_doubt are made of.
 *
 * No token, payload or result is shown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/slots.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "fmgr.h"
#include "funcapi.h"
#include "server/text.h"
#include "sql/gate.h"
#include "sql/rows.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define CLAIMS_COLUMNS 12

PG_FUNCTION_INFO_V1(eo_claims);

static const char *
phase_of(const EoSlotInfo *info)
{
	static const char *const phases[] = {
		[EO_SLOT_FREE] = "free",
		[EO_SLOT_PLANNED] = "planned",
		[EO_SLOT_ASKING] = "asking",
		[EO_SLOT_HELD] = "held",
		[EO_SLOT_COMPLETED] = "held",
		[EO_SLOT_FAILED] = "settled",
		[EO_SLOT_RELEASED] = "settled",
		[EO_SLOT_SEALING] = "committing",
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

	if (info->lost && !eo_slot_state_is_over(info->state))
		return "lost";
	return phases[info->state];
}

/*
 * exactonce_claims_of_cluster()
 */
Datum
eo_claims(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		cursor = 0;
	EoSlotView	view;

	eo_gate("exactonce_claims", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	while (eo_slot_walk(&cursor, &view))
	{
		const EoSlotInfo *s = &view.info;
		Datum		values[CLAIMS_COLUMNS];
		bool		nulls[CLAIMS_COLUMNS] = {false};
		int64		age_us = eo_clock_monotonic_us() - s->since_us;
		const char *key = strchr(view.pk, '#');
		int			i = 0;

		values[i++] = ObjectIdGetDatum(view.target.dboid);
		values[i++] = ObjectIdGetDatum(view.target.serverid);
		values[i++] = ObjectIdGetDatum(view.target.userid);
		values[i++] = CStringGetTextDatum(view.target.table);
		values[i++] = CStringGetTextDatum(eo_text_from_utf8(key != NULL ? key + 1 : view.pk));
		values[i++] = CStringGetTextDatum(phase_of(s));
		nulls[i] = s->pid == 0;
		values[i++] = Int32GetDatum(s->pid);
		nulls[i] = s->pid == 0;
		values[i++] = TimestampTzGetDatum(GetCurrentTimestamp() - age_us);
		nulls[i] = eo_slot_has_origin(s) || s->lease_until_ms == 0;
		values[i++] = TimestampTzGetDatum(eo_row_timestamp(s->lease_until_ms));
		nulls[i] = s->runs == 0;
		values[i++] = Int32GetDatum((int32) s->runs);
		nulls[i] = s->fence == 0;
		values[i++] = Int64GetDatum(s->fence);
		nulls[i] = !eo_slot_has_origin(s);
		values[i++] = Int64GetDatum((int64) s->origin.xid);
		Assert(i == CLAIMS_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
