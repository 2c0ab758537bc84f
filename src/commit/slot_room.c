/*-------------------------------------------------------------------------
 *
 * slot_room.c
 *	  A slot for a new claim, or the error that says why there is none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/databases.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commands/dbcommands.h"
#include "commit/slot_room.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/options.h"
#include "server/text.h"

/* How long a new claim waits while the claim table is full. */
#define ROOM_WAIT_US INT64CONST(3000000)

/* Raise 54000, unless status is EO_SLOT_OK, or the life is over. */
static void
raise_no_room(EoSlotStatus status, const char *key, const EoServer *server)
{
	const char *detail = "";
	const char *hint = "Settle or end what holds them, see exactonce_claims; or raise exactonce.max_claims and restart the server.";

	switch (status)
	{
		case EO_SLOT_OK:
		case EO_SLOT_NO_LIFE:
			return;
		case EO_SLOT_DRAINED:
			eo_error_raise_drained(key, server->name);
		case EO_SLOT_TABLE_FULL:
			detail = "All slots of the claim table are in use.";
			break;
		case EO_SLOT_ROLE_SHARE:
			detail = psprintf("Role \"%s\" has as much of the claim table as one role may have: half of what the others leave to this database.",
							  GetUserNameFromId(server->userid, true));
			break;
		case EO_SLOT_DATABASE_SHARE:
			detail = psprintf("Database \"%s\" has as much of the claim table as one database may have: half of what the others leave.",
							  get_database_name(MyDatabaseId));
			break;
		case EO_SLOT_NO_TEXT:
			detail = "The memory for the texts of keys and errors is used up.";
			break;
		case EO_SLOT_NO_TARGET:
			detail = "Claims are held on too many different servers, by too many roles.";
			break;
		case EO_SLOT_NO_DATABASE:
			detail = "Too many databases of this cluster use exactonce.";
			hint = "Up to 128 can.";
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("no room for a claim on key \"%s\" on server \"%s\"", eo_text_key_shown(key), server->name),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

/*
 * Add a slot.  If the table is full but has slots that the worker is about to
 * free, wake the worker and wait for room.
 */
static EoSlotStatus
add_slot(const EoTarget *target, const char *pk, const EoSlotInfo *info, EoSlotRef *ref)
{
	int64		give_up_us = 0;

	for (;;)
	{
		EoSlotStatus status = eo_slot_add(target, pk, info, ref);
		int64		now_us = eo_clock_monotonic_us();

		if (status == EO_SLOT_OK || status == EO_SLOT_NO_TARGET ||
			status == EO_SLOT_NO_DATABASE || status == EO_SLOT_NO_LIFE || status == EO_SLOT_DRAINED)
			return status;
		if (give_up_us == 0)
			give_up_us = now_us + ROOM_WAIT_US;
		if (now_us >= give_up_us || !eo_slot_view_any_ending())
			return status;
		eo_database_wake(MyDatabaseId);
		eo_http_wait(now_us + 2000, EO_WAIT_RAISE);
	}
}

bool
eo_slot_room_add(const EoTarget *target, const char *pk, const EoSlotInfo *info, const char *key,
				 const EoServer *server, EoSlotRef *ref)
{
	EoSlotStatus status = add_slot(target, pk, info, ref);

	raise_no_room(status, key, server);
	return status == EO_SLOT_OK;
}
