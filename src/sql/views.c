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

#include "cluster/shmem.h"
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
	if (info->doubt)
		return "in doubt";
	if (info->ended)
		return info->looked ? "second look" : "ending";
	switch (info->state)
	{
		case EO_SLOT_FREE:
			break;
		case EO_SLOT_PLANNED:
			return "planned";
		case EO_SLOT_ASKING:
			return "asking";
		case EO_SLOT_HELD:
			return info->lost ? "lost" : info->verdict != EO_VERDICT_NONE ? "settled" : "held";
		case EO_SLOT_SEALING:
			return "committing";
	}
	return "free";
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
		nulls[i] = s->state != EO_SLOT_HELD || s->lease_until_ms == 0;
		values[i++] = TimestampTzGetDatum(eo_row_timestamp(s->lease_until_ms));
		nulls[i] = s->runs == 0;
		values[i++] = Int32GetDatum((int32) s->runs);
		nulls[i] = s->fence == 0;
		values[i++] = Int64GetDatum(s->fence);
		nulls[i] = s->state != EO_SLOT_SEALING;
		values[i++] = Int64GetDatum((int64) s->xid);
		Assert(i == CLAIMS_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
