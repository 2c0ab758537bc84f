/*-------------------------------------------------------------------------
 *
 * finish_evidence.c
 *	  Which answers show that a row of the outbox is finished.
 *
 * A row goes by the answer of its own record only.  The record is named by the row's table and key,
 * and the finish is conditional on the token.  If the identity of the row's role is refused,
 * another one that leads to the same place stands in for it (write_targets.c).  All mappings of a
 * server should be of the account that has the table (docs/security.md), but nothing makes
 * that so.  In another account the table of that name is another one.  As a rule it does not
 * have the key, which is no answer (jobs.c).  If it is a copy, the copied record may bear
 * the token, too.
 *
 * So the answer of a stand-in counts only if the record also bears the origin of the row:
 * the life and the transaction that sealed it.  And nothing is finished by a stand-in unless the
 * lease of the database holds at that place (may_finish() in finish.c).  Where the refused
 * role has opened it, the stand-ins extend it, too: a beat is conditional on the number of the one
 * before, which a copy does not have.
 *
 * What is left is a copy that was made between the seal and the finish, in an account to which a
 * mapping of the same server leads, while the role that has opened the place is not refused.
 * Nothing in a record tells such a copy from its original.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "records/record.h"
#include "server/store_record.h"
#include "worker/finish_evidence.h"

/*
 * Has an operator finished the record without the writes of the row, and then not
 * committed that?
 */
static bool
is_waived(const EoOutboxRow *row, const EoAnswer *answer)
{
	const EoRecord *r = eo_store_record(answer);

	return row->writes.n > 0 && answer->outcome == EO_NOT_APPLIED && answer->exists &&
		r->state == EO_STATE_COMPLETED && strcmp(r->owner, row->token) == 0;
}

static bool
bears_origin(const EoOutboxRow *row, const EoAnswer *answer)
{
	const EoRecord *r = eo_store_record(answer);

	return answer->exists && r->has_origin && r->origin.xid == row->xid &&
		memcmp(r->origin.life, row->life, sizeof(row->life)) == 0;
}

bool
eo_finish_evidence_shows(const EoWorkerJob *job, const EoOutboxRow *row, const EoAnswer *answer)
{
	if (answer->outcome == EO_APPLIED)
		return job->target == job->asked || bears_origin(row, answer);
	return is_waived(row, answer);
}
