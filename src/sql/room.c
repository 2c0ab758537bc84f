/*-------------------------------------------------------------------------
 *
 * room.c
 *	  What the view exactonce_room is made of.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/arrays.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "sql/preconditions.h"
#include "sql/rows.h"

PG_FUNCTION_INFO_V1(eo_room_of_cluster);

/* room_of_cluster() */
Datum
eo_room_of_cluster(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	EoArrayUse *uses;
	int			n;

	eo_preconditions("exactonce_room", EO_READS);
	eo_compat_materialized_srf(fcinfo);
	uses = palloc(sizeof(EoArrayUse) * EO_ARRAY_USES);
	n = eo_array_read(uses);
	for (int i = 0; i < n; i++)
	{
		const EoArrayUse *u = &uses[i];
		EoRow		row;

		if (!u->total && u->taken == 0)
			continue;
		eo_row_begin(&row, rsinfo->setDesc);
		eo_row_put_text(&row, u->array);
		EO_ROW_PUT(&row, false, Int64GetDatum(u->size));
		EO_ROW_PUT(&row, u->total, ObjectIdGetDatum(u->dboid));
		EO_ROW_PUT(&row, u->total, ObjectIdGetDatum(u->roleid));
		EO_ROW_PUT(&row, false, Int64GetDatum(u->taken));
		eo_row_put_text(&row, u->emptied_by);
		eo_row_store(&row, rsinfo);
	}
	pfree(uses);
	return (Datum) 0;
}
