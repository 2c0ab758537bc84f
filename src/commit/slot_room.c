/*-------------------------------------------------------------------------
 *
 * slot_room.c
 *	  Slots for sessions: of a new claim, or why there is none, and of doubts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/looks.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/slot_room.h"
#include "compat.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "server/error.h"
#include "server/moment.h"
#include "server/text.h"
#include "utils/timestamp.h"
#include "wire/clock.h"
#include "wire/http.h"

/* How long a new claim waits while the claim table is full. */
#define ROOM_WAIT_US INT64CONST(3000000)

/* A scan that has been due for so long, and a share that is so full, are worth a warning. */
#define SCAN_WARN_US INT64CONST(3600000000)
#define ROOM_WARN 0.75

/* ----- what fills it ----- */

static const char *
since(int64 us)
{
	return psprintf("the oldest since %s", timestamptz_to_str(eo_moment_timestamp(us)));
}

static void
append_part(StringInfo text, uint32 n, const char *what, const char *more)
{
	if (n > 0)
		appendStringInfo(text, "%s%u %s%s%s", text->len > 0 ? ", " : "", n, what,
						 more[0] != '\0' ? ", " : "", more);
}

static char *
usage_text(const EoUsage *usage)
{
	StringInfoData text;

	initStringInfo(&text);
	append_part(&text, usage->open, "of open transactions", since(usage->open_since_us));
	append_part(&text, usage->sessions, "of sessions", "which count twice");
	append_part(&text, usage->prepared, "of prepared transactions", "");
	append_part(&text, usage->ending, "that wait to be given back or completed",
				since(usage->ending_since_us));
	append_part(&text, usage->doubts, "in doubt", "");
	append_part(&text, usage->looks, "second looks",
				psprintf("the oldest until %s",
						 timestamptz_to_str(eo_moment_timestamp(usage->looks_until_us))));
	return text.len > 0 ? text.data : pstrdup("none");
}

/* The advice for what fills most of it. */
static const char *
usage_hint(const EoUsage *usage)
{
	uint32		most = Max(Max(Max(usage->open, 2 * usage->sessions), usage->prepared),
						   Max(Max(usage->ending, usage->doubts), usage->looks));
	const char *advice;

	if (most == usage->open)
		advice = "End these transactions, or commit more often; see exactonce_claims.";
	else if (most == usage->ending)
		advice = "They end as soon as DynamoDB answers, see the row \"pending\" of idem_check(). Retry then.";
	else if (most == usage->looks)
		advice = "They end by themselves, and make way if exactonce.recovery_scan is above 0.";
	else if (most == usage->doubts)
		advice = "See exactonce_in_doubt, and say with idem_resolve() how they have ended.";
	else if (most == usage->prepared)
		advice = "Commit the prepared transactions, or roll them back; see exactonce_claims.";
	else
		advice = "Settle what the sessions hold, or end them; see exactonce_claims.";
	return psprintf("%s Or raise exactonce.max_claims, and restart the server.", advice);
}

char *
eo_slot_room_report(const char **advice)
{
	EoRoom		room;
	EoUsage		usage;
	EoPlace		owed;
	StringInfoData text;

	*advice = NULL;
	eo_slot_view_room(&room);
	eo_slot_view_usage(InvalidOid, InvalidOid, &usage);
	initStringInfo(&text);
	appendStringInfo(&text, "%u of %u are taken: %s; of its share some role has %.0f %%",
					 room.taken, room.slots, usage_text(&usage), room.fullest * 100);
	if (eo_look_owed_scan(MyDatabaseId, &owed))
	{
		appendStringInfo(&text, "; table \"%s\" is scanned from %s on for late requests",
						 owed.target.table,
						 timestamptz_to_str(eo_moment_timestamp(owed.scan_due_us)));
		if (eo_clock_monotonic_us() - owed.scan_due_us > SCAN_WARN_US)
			*advice = "If the table cannot be scanned the server's log says why: it needs dynamodb:Scan. Before that the life of this database is not closed. With exactonce.recovery_scan = 0 nobody waits for it.";
	}
	if (room.fullest >= ROOM_WARN)
		*advice = "At 100 % its claims are refused. See exactonce_claims by role and state; raise exactonce.max_claims and restart the server if that is what it needs.";
	return text.data;
}

/* ----- a slot ----- */

/* Raise 54000, unless status is EO_SLOT_OK, or the life is over. */
static void
raise_no_room(EoSlotStatus status, const char *key, const EoServer *server)
{
	Oid			dboid = InvalidOid;
	Oid			userid = InvalidOid;
	const char *detail = "";
	const char *hint = NULL;
	EoUsage		usage;

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
			dboid = MyDatabaseId;
			userid = server->userid;
			break;
		case EO_SLOT_DATABASE_SHARE:
			detail = psprintf("Database \"%s\" has as much of the claim table as one database may have: half of what the others leave.",
							  get_database_name(MyDatabaseId));
			dboid = MyDatabaseId;
			break;
		case EO_SLOT_NO_TEXT:
			detail = "The memory for the texts of keys and errors is used up.";
			break;
		case EO_SLOT_NO_TARGET:
			detail = "Claims are held on too many different servers, by too many roles.";
			break;
		case EO_SLOT_NO_DATABASE:
			detail = "Too many databases of this cluster use exactonce.";
			hint = psprintf("Up to %d can.", EO_MAX_DATABASES);
			break;
	}
	eo_slot_view_usage(dboid, userid, &usage);
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("no room for a claim on key \"%s\" on server \"%s\"", eo_text_key_shown(key), server->name),
			 errdetail("%s The claims there: %s.", detail, usage_text(&usage)),
			 errhint("%s", hint != NULL ? hint : usage_hint(&usage))));
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

/* ----- records in doubt that sessions have met ----- */

void
eo_slot_room_note_doubt(const EoTarget *target, const char *pk, const EoSlotInfo *info)
{
	EoSlotInfo	doubt = *info;
	EoRoom		room;
	EoSlotView	view;
	EoSlotRef	ref;
	uint32		cursor = 0;
	uint32		n = 0;

	while (eo_slot_view_walk(&cursor, &view))
	{
		if (view.info.state != EO_SLOT_IN_DOUBT)
			continue;
		if (memcmp(view.info.digest, info->digest, EO_DIGEST_LEN) == 0)
			return;
		n += view.target.dboid == target->dboid && view.target.userid == target->userid;
	}
	eo_slot_view_room(&room);

	/*
	 * A quarter of what a role may have at most: the rest of its share is for
	 * work.
	 */
	if (n >= room.slots / 16)
		return;
	doubt.state = EO_SLOT_IN_DOUBT;
	doubt.due_us = INT64_MAX;
	(void) eo_slot_add(target, pk, &doubt, &ref);
}

void
eo_slot_room_end_doubt(const EoTarget *target, const char *pk, const char *token)
{
	EoSlotView	view;
	uint32		cursor = 0;

	while (eo_slot_view_walk(&cursor, &view))
	{
		if (view.info.state == EO_SLOT_IN_DOUBT && strcmp(view.pk, pk) == 0 &&
			(eo_target_same_table(&view.target, target) ||
			 (token != NULL && strcmp(view.info.token, token) == 0)))
			eo_slot_free(view.ref);
	}
}
