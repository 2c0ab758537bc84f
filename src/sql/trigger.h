/*-------------------------------------------------------------------------
 *
 * trigger.h
 *	  What idem_guard() and idem_mirror() share: the columns and the rights of a trigger.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_TRIGGER_H
#define EO_SQL_TRIGGER_H

#include "postgres.h"

#include "commands/trigger.h"
#include "compat.h"
#include "server/store.h"

/* Raise 39P01: the trigger cannot work as it was created; hint says how to create it. */
pg_noreturn extern void eo_trigger_refuse(TriggerData *data, const char *detail, const char *hint);

/* Raise 22004: a column of the key is null; hint says what to do with such rows. */
pg_noreturn extern void eo_trigger_refuse_null(TriggerData *data, AttrNumber column,
											   const char *hint);

/* The column of that name.  Raises 42703, with what the trigger does with it, if there is none. */
extern AttrNumber eo_trigger_column(TriggerData *data, const char *name, const char *use);

/*
 * Open the store of a server with the rights of the table's owner: a trigger is a part of the
 * table.  Raises what eo_store_open() raises.
 */
extern EoStore *eo_trigger_open_store(TriggerData *data, const char *server);

#endif							/* EO_SQL_TRIGGER_H */
