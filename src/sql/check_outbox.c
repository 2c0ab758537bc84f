/*-------------------------------------------------------------------------
 *
 * check_outbox.c
 *	  The rows of idem_check() about completions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/databases.h"
#include "cluster/slot_views.h"
#include "foreign/foreign.h"
#include "ledger/outbox.h"
#include "miscadmin.h"
#include "server/error.h"
#include "sql/check_outbox.h"
#include "utils/timestamp.h"

/* A completion that waits this long is worth a warning. */
#define PENDING_WARN_S 10

/* The rows of the outbox, counted. */
static struct
{
	int			rows;
	int			orphans;		/* whose server was dropped */
	int			failing;		/* that the worker has failed on */
	int			refused;		/* that stay until somebody removes the cause */
	TimestampTz oldest;
}			outbox;

static bool
count_row(const EoOutboxRow *row)
{
	if (outbox.rows++ == 0 || row->created_at < outbox.oldest)
		outbox.oldest = row->created_at;
	if (GetForeignServerExtended(row->target.serverid, FSV_MISSING_OK) == NULL)
		outbox.orphans++;
	outbox.failing += row->trouble != EO_TROUBLE_NONE;
	outbox.refused += row->trouble == EO_TROUBLE_REFUSED;
	return true;
}

/* Completions that DynamoDB has not confirmed, and what keeps the worker from it. */
void
eo_check_outbox_pending(EoCheckRow *row)
{
	EoError		error;
	TimestampTz since;
	long		age_s = 0;
	const char *waiting;
	EoDatabaseHold hold;
	int			claims = eo_slot_view_ending(MyDatabaseId);

	memset(&outbox, 0, sizeof(outbox));
	(void) eo_outbox_visit(0, count_row);
	if (outbox.rows > 0)
		age_s = (long) Max(0, (GetCurrentTimestamp() - outbox.oldest) / USECS_PER_SEC);
	waiting = outbox.rows == 0 && claims == 0 ? "nothing" : outbox.rows == 0 ?
		psprintf("%d claims to be given back", claims) :
		psprintf("%d completions, the oldest for %ld s", outbox.rows, age_s);
	if (outbox.failing > 0)
		waiting = psprintf("%s; of which %d have failed%s", waiting, outbox.failing,
						   outbox.refused == 0 ? "" :
						   psprintf(", and %d of these need somebody to remove the reason", outbox.refused));
	/* Ignore an old failure if no work is left. */
	if ((outbox.rows > 0 || claims > 0) && eo_database_failure(MyDatabaseId, &error, &since))
		eo_check_row_set(row, EO_FINDING_FAILURE,
						 psprintf("%s; the worker has failed since %s: %s", waiting,
								  timestamptz_to_str(since), eo_error_facts(&error)),
						 eo_error_advice(&error));
	else if (outbox.refused > 0)
		eo_check_row_set(row, EO_FINDING_WARNING, waiting,
						 "exactonce_pending has the reasons: remove them. Writes that are not wanted any more are given up with idem_resolve(key, 'completed'), and any completion with idem_give_up(id).");
	else if (age_s >= PENDING_WARN_S)
		eo_check_row_set(row, EO_FINDING_WARNING, waiting,
						 eo_database_held(MyDatabaseId, &hold) ?
						 "They wait for the standbys: see the checks \"durability\" and \"standby slots\" above." :
						 "See exactonce_pending: it says how the worker has failed. What can never be written is given up with idem_give_up(id).");
	else
		eo_check_row_set(row, EO_FINDING_OK, waiting, NULL);
}

int
eo_check_outbox_pending_rows(void)
{
	return outbox.rows;
}

void
eo_check_outbox_orphans(EoCheckRow *row)
{
	if (outbox.orphans == 0)
		eo_check_row_set(row, EO_FINDING_OK, "nothing", NULL);
	else
		eo_check_row_set(row, EO_FINDING_FAILURE,
						 psprintf("%d completions of servers that were dropped", outbox.orphans),
						 "See exactonce_pending: create the server again, or give them up with idem_give_up(id).");
}

/* Evidence that idem_give_up() has left keeps its keys from being completed again. */
void
eo_check_outbox_given_up(EoCheckRow *row)
{
	TimestampTz oldest;
	int			n = eo_outbox_given_up(&oldest);

	if (n == 0)
		eo_check_row_set(row, EO_FINDING_OK, "nothing", NULL);
	else
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("%d completions, the oldest of %s; for others their keys may be in progress for ever",
								  n, timestamptz_to_str(oldest)),
						 "They are in exactonce_internal.outbox, WHERE given_up. idem_resolve(key, 'completed') has others see that the key is completed; idem_forget(key) makes it claimable as if it were new.");
}
