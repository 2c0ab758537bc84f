/*-------------------------------------------------------------------------
 *
 * trigger.c
 *	  What idem_guard() and idem_mirror() share: the columns and the rights of a trigger.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "compat.h"
#include "miscadmin.h"
#include "server/store.h"
#include "sql/call_stats.h"
#include "sql/trigger.h"
#include "utils/builtins.h"
#include "utils/rel.h"

void
eo_trigger_refuse(TriggerData *data, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("trigger \"%s\" of table \"%s\" cannot work as it was created",
					data->tg_trigger->tgname, RelationGetRelationName(data->tg_relation)),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

void
eo_trigger_refuse_null(TriggerData *data, AttrNumber column, const char *hint)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(data->tg_relation), column - 1);

	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("column \"%s\" of table \"%s\" must not be null: it is part of a key",
					NameStr(att->attname), RelationGetRelationName(data->tg_relation)),
			 errhint("%s", hint)));
}

AttrNumber
eo_trigger_column(TriggerData *data, const char *name, const char *use)
{
	TupleDesc	desc = RelationGetDescr(data->tg_relation);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && namestrcmp(&att->attname, name) == 0)
			return i + 1;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of table \"%s\" does not exist", name,
					RelationGetRelationName(data->tg_relation)),
			 errdetail("Trigger \"%s\" %s it.", data->tg_trigger->tgname, use)));
}

EoStore *
eo_trigger_open_store(TriggerData *data, const char *server)
{
	EoStore    *store;
	Oid			user;
	int			context;

	/* After an error the abort of the (sub)transaction restores the user. */
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(data->tg_relation->rd_rel->relowner,
						   context | SECURITY_LOCAL_USERID_CHANGE);
	store = eo_store_open(server);
	SetUserIdAndSecContext(user, context);
	eo_call_stats_store(store);
	return store;
}
