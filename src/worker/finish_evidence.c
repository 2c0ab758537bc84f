/*-------------------------------------------------------------------------
 *
 * finish_evidence.c
 *	  Which seal the finish of a row is about, and which answers show that it is finished.
 *
 * The finish names the transaction of the row, because another one may have sealed the record
 * under the same token: one that goes on, perhaps in other data, after a failover that has lost
 * the row.  Then this one is refused.  But if that other transaction is over by this data, and
 * its life over or ours, nobody else writes the record: everybody who meets it finds the row
 * (EO_FATE_OTHER_COMMITTED) and leaves it to us.  It is so where a table was restored, and where an
 * heir lost a commit that the heir after it has.  Then that very seal is named, which no
 * transaction can commit any more, and the record gets the origin of the row: the audit, and old
 * snapshots, ask about the transaction whose work is there.
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

#include "commit/settle.h"
#include "ledger/life_verdict.h"
#include "ledger/lock_limit.h"
#include "records/record.h"
#include "server/store_record.h"
#include "utils/hsearch.h"
#include "worker/finish_evidence.h"
#include "worker/life_board.h"

/* The seal of another transaction that the finish of a row is about. */
typedef struct OtherSeal
{
	char		token[EO_TOKEN_LEN + 1];
	char		origin[EO_ORIGIN_LEN + 1];
} OtherSeal;

/* A record that another transaction has sealed, to be judged. */
typedef struct Judging
{
	const EoRecord *record;
	EoLifeVerdict verdict;
	EoFate		fate;
} Judging;

static HTAB *other_seals;		/* by token; NULL: there was none yet */

/* ----- the seal ----- */

void
eo_finish_evidence_seal(const EoWorkerJob *job, EoFinishSeal *seal)
{
	const EoOutboxRow *row = job->data;
	OtherSeal  *other = other_seals == NULL || job->target != job->asked ? NULL :
	hash_search(other_seals, row->token, HASH_FIND, NULL);
	EoOrigin	own = {.xid = row->xid};

	if (other == NULL)
	{
		seal->verb = EO_FINISH;
		eo_origin_write_limits(row->life, row->xid, seal->origin, seal->last);
		return;
	}

	/*
	 * Nobody knows where in the WAL that was: the record may not bear its
	 * seal.
	 */
	memcpy(own.life, row->life, sizeof(own.life));
	seal->verb = EO_FINISH_OTHER;
	eo_origin_write(&own, seal->origin);
	strlcpy(seal->last, other->origin, sizeof(seal->last));
}

static void
judge(void *arg)
{
	Judging    *j = arg;

	j->fate = eo_settle_judge(&j->record->origin, j->record->owner, &j->verdict, NULL);
}

/* Is the transaction over that has sealed the record, and the one of a row committed? */
static bool
is_left_to_row(const EoOutboxRow *row, const EoRecord *record, bool *goes_on)
{
	Judging		j = {.record = record,.fate = EO_FATE_UNKNOWN};

	eo_life_board_verdict(&row->target, record->origin.life, &j.verdict);
	*goes_on = j.verdict.relation == EO_LIFE_OTHER;
	if (*goes_on)
	{
		eo_life_board_watch(&row->target, record->origin.life);
		return false;
	}
	return j.verdict.known && eo_lock_limit_run(EO_LOCKS_OUTBOX, judge, &j) &&
		j.fate == EO_FATE_OTHER_COMMITTED;
}

/*
 * False also if the finish has named that seal already: then it was refused for another reason.
 * What a stand-in shows may be a copy of the record, which is nobody's.
 */
bool
eo_finish_evidence_take_seal(const EoWorkerJob *job, const EoAnswer *answer, bool *goes_on)
{
	const EoOutboxRow *row = job->data;
	const EoRecord *r = eo_store_record(answer);
	HASHCTL		ctl = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(OtherSeal)};
	OtherSeal  *other;
	bool		found;

	*goes_on = false;
	if (job->target != job->asked || answer->outcome != EO_NOT_APPLIED || !answer->exists)
		return false;
	if (r->state != EO_STATE_COMMITTING || r->owner == NULL ||
		strcmp(r->owner, row->token) != 0 || r->writes != row->writes.n ||
		!r->has_origin || r->origin.xid == 0)
		return false;

	/* The table may have been restored once more. */
	if (eo_origin_is_of(&r->origin, row->life, row->xid))
		return other_seals != NULL &&
			hash_search(other_seals, row->token, HASH_REMOVE, NULL) != NULL;
	if (!is_left_to_row(row, r, goes_on))
		return false;
	if (other_seals == NULL)
		other_seals = hash_create("exactonce seals of others", 16, &ctl, HASH_ELEM | HASH_STRINGS);
	other = hash_search(other_seals, row->token, HASH_ENTER, &found);
	if (found && strcmp(other->origin, r->origin_text) == 0)
		return false;
	strlcpy(other->origin, r->origin_text, sizeof(other->origin));
	return true;
}

/* ----- the answer ----- */

static bool
bears_origin(const EoOutboxRow *row, const EoAnswer *answer)
{
	const EoRecord *r = eo_store_record(answer);

	return answer->exists && r->has_origin && eo_origin_is_of(&r->origin, row->life, row->xid);
}

/*
 * Has an operator finished the record without the writes of the row, and then not
 * committed that?  If others have completed it, with their writes, those of the row are not made.
 */
static bool
is_waived(const EoOutboxRow *row, const EoAnswer *answer)
{
	const EoRecord *r = eo_store_record(answer);

	return row->writes.n > 0 && answer->outcome == EO_NOT_APPLIED && bears_origin(row, answer) &&
		r->state == EO_STATE_COMPLETED && strcmp(r->owner, row->token) == 0 && r->writes == 0;
}

bool
eo_finish_evidence_shows(const EoWorkerJob *job, const EoAnswer *answer)
{
	const EoOutboxRow *row = job->data;
	bool		shows = answer->outcome == EO_APPLIED ?
	job->target == job->asked || bears_origin(row, answer) : is_waived(row, answer);

	if (shows && other_seals != NULL)
		(void) hash_search(other_seals, row->token, HASH_REMOVE, NULL);
	return shows;
}
