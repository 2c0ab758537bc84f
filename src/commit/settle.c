/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  How a transaction ended, and what is left to be done about its claim.
 *
 * The worker of the database asks this, and so does any backend that meets the key
 * before the worker has settled it.  Both may write at the same time: every write
 * is conditional on the claim's own token, so the second one is refused.
 *
 * There are two sources:
 *
 * - The slot, if there is one.  Its state says what is left to be done, because
 *	 the backend knew how its transaction ended.  Only for a slot that was SEALING
 *	 when the server ended (EO_SLOT_TO_JUDGE) the outbox decides.  No transaction
 *	 of that run of the server is going on, unless it is prepared, so a row that is
 *	 not there now will never be.  The same holds when a prepared transaction has
 *	 ended.
 *
 * - The record, if a backend finds it COMMITTING.  Three steps, in this order:
 *
 *	 1. The record is read.
 *	 2. Is its transaction still going on?
 *	 3. Is there a row, by a snapshot that is taken after step 2?
 *
 *	 If the transaction was over in step 2, the snapshot of step 3 shows its row,
 *	 or it never committed one.  If step 3 came first, the transaction could
 *	 commit between the two, and would be taken for aborted.  The row may also be
 *	 missing because the worker has finished the record since step 1, and removed
 *	 the row.  Then the record is not COMMITTING any more, and the write that
 *	 gives it back is refused.
 *
 * Rows are looked for by the token of the claim, and not by the address of the table: a table
 * may have many, and a search by another one would find nothing.  A claim that outlives
 * transactions may be completed by any of several.  So a row counts as the commit of the
 * transaction that it names; and as long as there is one of any other under the token, the
 * record is left alone: only the finish of that row writes it (finish_evidence.c).
 *
 * That there is no row proves an abort only for whoever holds the data in which the
 * row would be, and only when nothing can be committed under that life any more: the
 * life is our own, or it is over and we are its heir (life_verdict.c).  Until then the key is
 * in progress elsewhere.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "cluster/life.h"
#include "cluster/runs.h"
#include "cluster/slot_prepared.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "commit/settle.h"
#include "compat.h"
#include "ledger/clock_sync.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "ledger/lives.h"
#include "ledger/outbox.h"
#include "records/origin.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/text.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"
#include "wire/client.h"
#include "wire/status.h"

/* The most attempts to take a seal back, see verb_to_unseal(). */
#define MAX_UNSEALS 10

#define SETTLING "settle what an ended transaction left of"

typedef enum XidState
{
	XID_RUNNING,
	XID_OVER,
	XID_FUTURE					/* not assigned yet */
} XidState;

typedef enum LogEntry
{
	LOG_ABORTED,
	LOG_COMMITTED,
	LOG_RUNNING,
	LOG_FUTURE,					/* not assigned yet */
	LOG_CUT_OFF					/* the log does not go back that far */
} LogEntry;

/* Make sure that the service's clock is known, before a key is settled by it. */
static void
need_clock(EoStore *store, const char *key)
{
	EoError		error;

	if (!eo_clock_sync_make(store, 0, &error))
		eo_error_raise(&error, SETTLING, key, store->server->name);
}

/* ----- what a slot tells ----- */

/* The write that settles a claim which has not committed. */
static EoVerb
verb_for(const EoSlotInfo *info)
{
	switch (info->state)
	{
		case EO_SLOT_TO_FAIL:
			return EO_FAIL;
		case EO_SLOT_TO_RELEASE:
			return info->spared ? EO_SPARE : EO_RELEASE;
		case EO_SLOT_TO_ABORT:
			return EO_ABORT;
		case EO_SLOT_TO_UNSEAL:
			return EO_UNSEAL;
		case EO_SLOT_TO_JUDGE:
			return info->once ? EO_BURY : info->release_on_abort ? EO_ABORT : EO_UNSEAL;
		default:
			return EO_BURY;
	}
}

/*
 * The write that takes a seal back.  The first one finds what was sealed, or in progress; of a
 * session's claim only what was sealed, because a claim in progress may have a longer lease.
 * If it is refused the seal may still arrive, so the record has to note that it was undone,
 * whether it is in progress or sealed by another transaction.  Which of the two it is may
 * change from one request to the next.
 */
static EoVerb
verb_to_unseal(const EoSlotInfo *info, int64 session_lease)
{
	if (!eo_slot_has_origin(info))
		return EO_UNSEAL;
	if (info->looks == 0)
		return session_lease > 0 ? EO_RESUME : EO_UNSEAL;
	return (info->looks % 2 != 0) == (session_lease > 0) ? EO_UNSEAL : EO_NOTE_UNDONE;
}

/*
 * The lease that a claim is to have again which a session holds; 0: none does, or its time is
 * over (max_hold).  What the seal has kept of its lease may be too short to be extended.
 */
static int64
session_lease_ms(const uint8 *digest, const char *token)
{
	EoSlotRef	ref;
	EoSlotView	held;

	if (!eo_slot_view_find_session(digest, token, &ref) || !eo_slot_view_read(ref, &held) ||
		held.info.lost || held.info.due_us == 0)
		return 0;
	return held.info.lease_ms;
}

EoAnswer *
eo_settle_prepare(EoStore *store, const EoSlotView *view)
{
	const EoSlotInfo *info = &view->info;
	EoVerb		verb = verb_for(info);
	EoWrite		w = {0};
	int64		lease_ms;
	int64		from_ms;

	w.owner = info->token;
	w.now_ms = eo_client_now_ms(&store->client);
	w.bind = "tx";
	w.terminal = info->terminal;
	w.retry_ms = info->retry_after_ms > 0 ? w.now_ms + info->retry_after_ms : 0;
	from_ms = Max(w.now_ms, w.retry_ms);
	if (verb == EO_UNSEAL)
	{
		lease_ms = session_lease_ms(info->digest, info->token);
		verb = verb_to_unseal(info, lease_ms);
		w.lease_ms = w.now_ms + lease_ms;
		from_ms += Max(info->lease_ms, lease_ms);
	}
	eo_record_keep(&w, from_ms, info->retention_s);
	if (eo_slot_has_origin(info))
	{
		char	   *origin = palloc(EO_ORIGIN_LEN + 1);

		eo_origin_write(&info->origin, origin);
		w.origin = origin;
	}
	if (view->error_len > 0)
	{
		char	   *error = palloc(view->error_len);

		/* The slot was freed since: another process has settled the claim. */
		if (!eo_slot_view_error(view->ref, error, view->error_len))
			return NULL;
		w.error = error;
		w.error_len = view->error_len;
	}
	return eo_store_record_plan(store, view->pk, verb, &w);
}

bool
eo_settle_is_own(const EoSlotView *view, const EoAnswer *answer, EoState state)
{
	const EoRecord *r = answer->exists ? eo_store_record(answer) : NULL;

	return r != NULL && r->state == state && r->owner != NULL &&
		strcmp(r->owner, view->info.token) == 0;
}

/* See EO_SETTLED_WAITS. */
static bool
must_wait(const EoSlotView *view, const EoAnswer *answer)
{
	return view->info.session && view->info.state == EO_SLOT_TO_ABORT &&
		answer->outcome == EO_NOT_APPLIED &&
		eo_settle_is_own(view, answer, EO_STATE_COMMITTING);
}

/*
 * After EO_SETTLED_WORN another transaction may seal the record before EO_ABORT is written:
 * then EO_ABORT is refused, and the claim is given back when that seal is undone.
 */
EoSettled
eo_settle_take(const EoSlotView *view, const EoAnswer *answer)
{
	EoVerb		verb = verb_for(&view->info);
	bool		in_progress = eo_settle_is_own(view, answer, EO_STATE_IN_PROGRESS);

	if (must_wait(view, answer))
		return EO_SETTLED_WAITS;
	if (verb == EO_UNSEAL && answer->outcome == EO_NOT_APPLIED &&
		eo_slot_has_origin(&view->info) && view->info.looks < MAX_UNSEALS &&
		(in_progress || eo_settle_is_own(view, answer, EO_STATE_COMMITTING)))
		return EO_SETTLED_AGAIN;
	if (verb == EO_UNSEAL && answer->outcome == EO_APPLIED && in_progress &&
		eo_store_record(answer)->worn)
	{
		ereport(LOG,
				(errmsg("exactonce: a claim on table \"%s\" was given back, because too many of its commits have failed",
						view->target.table)));
		return EO_SETTLED_WORN;
	}
	return verb == EO_BURY ? EO_SETTLED_LOOKS : EO_SETTLED;
}

/*
 * Is the life ours, or over, so that this database answers for what it has left?  If not, the
 * worker looks after it.
 */
static bool
is_ours_to_settle(EoStore *store, const uint8 *life, EoLifeVerdict *verdict)
{
	EoError		error;

	return eo_life_verdict_watch(store, life, verdict, &error) &&
		verdict->relation != EO_LIFE_OTHER;
}

/* How a transaction ended under a life of which no verdict is known yet. */
static EoFate
judge_origin(EoStore *store, const EoOrigin *origin, const char *token, int64 *retention_s)
{
	EoLifeVerdict verdict;

	if (!is_ours_to_settle(store, origin->life, &verdict))
		return EO_FATE_ELSEWHERE;
	return eo_settle_judge(origin, token, &verdict, retention_s);
}

bool
eo_settle_may_decide(EoStore *store, const char *key, const uint8 *life)
{
	EoTarget	target;
	EoLifeVerdict verdict;

	if (max_prepared_xacts == 0)
		return true;
	eo_target_of(store, &target);
	return eo_lives_renew(store, &target, NULL, key, 0) &&
		is_ours_to_settle(store, life, &verdict);
}

/* Write what is to be written about the claim.  Returns false if that is left to the worker. */
static bool
write_end(EoStore *store, const char *key, const EoSlotView *view)
{
	EoSlotView	again = *view;
	EoAnswer   *answer;
	EoSettled	settled;
	bool		waits;

	for (;; again.info.looks++)
	{
		answer = eo_settle_prepare(store, &again);
		if (answer == NULL)
			return false;
		settled = eo_settle_take(&again, eo_answer_run_one(answer));
		if (settled == EO_SETTLED_WORN)
			again.info.state = EO_SLOT_TO_ABORT;
		else if (settled != EO_SETTLED_AGAIN)
			break;
		eo_answer_free(answer);
	}
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, SETTLING, key, store->server->name);
	waits = must_wait(view, answer);
	eo_answer_free(answer);
	return !waits;
}

/* The digest by which the slot was found has no credentials in it. */
bool
eo_settle_leads_to(const EoStore *store, const EoSlotView *view)
{
	return (view->target.serverid == store->server->serverid &&
			view->target.userid == store->server->userid) ||
		eo_store_is_trusted(store, view->info.credentials_hash);
}

void
eo_settle_on_the_spot(EoStore *store, const char *key, const EoSlotView *view)
{
	/*
	 * The rest is left to the worker of that database, which signs as the
	 * holder did.
	 */
	if (view->target.dboid != MyDatabaseId || !eo_settle_leads_to(store, view))
		return;
	switch (view->info.state)
	{
		case EO_SLOT_IN_DOUBT:
		case EO_SLOT_TO_FINISH:
			return;
		case EO_SLOT_TO_JUDGE:
			/* If the slot does not know its seal, only the record tells. */
			if (!eo_slot_knows_seal(&view->info) ||
				judge_origin(store, &view->info.origin, view->info.token,
							 NULL) != EO_FATE_ABORTED ||
				!eo_settle_may_decide(store, key, view->info.origin.life))
				return;
			break;
		default:
			break;
	}
	need_clock(store, key);
	/* A record that is to be looked at again is left to the worker. */
	if (write_end(store, key, view) && verb_for(&view->info) != EO_BURY)
		eo_slot_free(view->ref);
}

/* ----- what a record tells ----- */

/* The state of a full transaction id that was read, and may be any number. */
static XidState
state_of_xid(uint64 xid)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (xid >= next)
		return XID_FUTURE;

	/*
	 * TransactionIdIsInProgress() takes the lower half only.  Of a
	 * transaction so long ago it may be in use again.
	 */
	if (next - xid > UINT64CONST(2000000000) || xid < FirstNormalTransactionId)
		return XID_OVER;
	return TransactionIdIsInProgress((TransactionId) xid) ? XID_RUNNING : XID_OVER;
}

bool
eo_settle_is_running(uint64 xid)
{
	return state_of_xid(xid) == XID_RUNNING;
}

/*
 * Look a transaction up in the commit log.  Read by pg_xact_status(), because
 * that alone knows how far back the log goes.
 */
static LogEntry
read_commit_log(uint64 xid)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		status;
	const char *word;

	/* pg_xact_status() would raise. */
	if (xid >= U64FromFullTransactionId(ReadNextFullTransactionId()))
		return LOG_FUTURE;
	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = FullTransactionIdGetDatum(FullTransactionIdFromU64(xid));
	fcinfo->args[0].isnull = false;
	status = pg_xact_status(fcinfo);
	if (fcinfo->isnull)
		return LOG_CUT_OFF;
	word = TextDatumGetCString(status);
	return strcmp(word, "committed") == 0 ? LOG_COMMITTED :
		strcmp(word, "aborted") == 0 ? LOG_ABORTED : LOG_RUNNING;
}

EoFate
eo_settle_judge(const EoOrigin *origin, const char *token, const EoLifeVerdict *verdict,
				int64 *retention_s)
{
	XidState	state = verdict->this_run ? state_of_xid(origin->xid) : XID_OVER;
	EoFate		fate;
	LogEntry	entry;

	/*
	 * No transaction of an earlier run of the server is going on, unless it
	 * is prepared.  Do not ask about its id: if that had not reached the disk
	 * before a crash, the same id was assigned again.  A prepared transaction
	 * is known by its row.
	 */
	if (state == XID_RUNNING)
		return EO_FATE_RUNNING;
	fate = eo_outbox_find(token, origin, retention_s);
	if (fate != EO_FATE_UNKNOWN)
		return fate;
	if (state == XID_FUTURE)
		return EO_FATE_UNKNOWN;

	/* The data split before this transaction could commit here. */
	if (verdict->relation == EO_LIFE_BRANCH)
		return EO_FATE_ABORTED;

	/*
	 * The id may have been assigned again, so the commit log says nothing
	 * about it.
	 */
	if (origin->xid >= verdict->next_floor)
		return EO_FATE_ABORTED;

	/*
	 * There is no row, so the transaction aborted, or its record was finished
	 * and the row removed; then the record is not COMMITTING any more.  If
	 * the commit log says otherwise, a row was lost.
	 */
	entry = read_commit_log(origin->xid);
	return entry == LOG_ABORTED || entry == LOG_FUTURE ? EO_FATE_ABORTED : EO_FATE_UNKNOWN;
}

/*
 * The row of a key that is COMPLETED is gone, so the commit log alone tells.  An id that
 * it shows as committed may be another transaction's: the one that completed the key was
 * lost, and its id was assigned again.  That cannot be so if the WAL that this data has
 * been through reaches past the seal, and if the id is older than the next run of the
 * server.  An id that it shows as aborted did not commit here, whoever had it.
 */
EoFate
eo_settle_judge_completed(const EoOrigin *origin, const EoLifeVerdict *verdict,
						  XLogRecPtr timeline_end)
{
	bool		is_of_others = origin->xid >= verdict->next_start ||
	(!XLogRecPtrIsInvalid(timeline_end) && origin->lsn >= timeline_end);

	switch (read_commit_log(origin->xid))
	{
		case LOG_ABORTED:
			return EO_FATE_ABORTED;
		case LOG_FUTURE:
			return verdict->this_run ? EO_FATE_UNKNOWN : EO_FATE_ABORTED;
		case LOG_RUNNING:
			return EO_FATE_UNKNOWN;
		case LOG_COMMITTED:
			return is_of_others ? EO_FATE_ABORTED : EO_FATE_COMMITTED;
		case LOG_CUT_OFF:
			break;
	}

	/*
	 * A run of the server loses none of its commits, and the key was marked
	 * COMPLETED after its commit.
	 */
	if (verdict->this_run)
		return EO_FATE_COMMITTED;
	return is_of_others ? EO_FATE_ABORTED : EO_FATE_UNKNOWN;
}

bool
eo_settle_is_left(const EoRecord *record, const uint8 *digest)
{
	return record->state == EO_STATE_IN_PROGRESS && record->has_origin && record->bind != NULL &&
		strcmp(record->bind, "tx") == 0 && !eo_slot_prepared_is_known(digest, record->owner) &&
		eo_outbox_find(record->owner, &record->origin, NULL) == EO_FATE_UNKNOWN;
}

EoFate
eo_settle_fate(EoStore *store, const EoRecord *record, int64 *retention_s)
{
	if (!record->has_origin || record->origin.xid == 0)
		return EO_FATE_ELSEWHERE;
	return judge_origin(store, &record->origin, record->owner, retention_s);
}

EoAnswer *
eo_settle_read(EoStore *store, const char *key, const char *pk, const char *doing, EoFate *fate,
			   int64 *retention_s)
{
	EoAnswer   *answer;

	/*
	 * If no row was found, the worker may have finished the record since it
	 * was read, and removed the row.  The second read shows that.
	 */
	for (int looks = 0;; looks++)
	{
		answer = eo_store_record_read(store, pk);
		if (answer->outcome == EO_FAILED_CALL)
			eo_error_raise(&answer->error, doing, key, store->server->name);
		*fate = EO_FATE_ELSEWHERE;
		if (answer->exists && eo_store_record(answer)->state == EO_STATE_COMMITTING &&
			!RecoveryInProgress())
			*fate = eo_settle_fate(store, eo_store_record(answer), retention_s);
		if ((*fate != EO_FATE_ABORTED && *fate != EO_FATE_UNKNOWN) || looks > 0)
			return answer;
		eo_answer_free(answer);
	}
}

EoAnswer *
eo_settle_prepare_aborted(EoStore *store, const char *pk, const EoRecord *record)
{
	EoWrite		w = {0};
	bool		ends = record->worn || (record->bind != NULL && strcmp(record->bind, "tx") == 0);
	EoTarget	target;
	uint8		digest[EO_DIGEST_LEN];
	int64		lease_ms;

	eo_target_of(store, &target);
	eo_target_digest(&target, pk, digest);
	lease_ms = session_lease_ms(digest, record->owner);
	w.owner = record->owner;
	w.origin = record->origin_text;
	w.now_ms = eo_client_now_ms(&store->client);
	w.lease_ms = w.now_ms + lease_ms;
	eo_record_keep(&w, Max(w.lease_ms, record->lease_ms), store->server->retention_s);
	return eo_store_record_plan(store, pk, ends ? EO_ABORT :
								lease_ms > 0 ? EO_RESUME : EO_UNSEAL, &w);
}

bool
eo_settle_aborted(EoStore *store, const char *key, const char *pk, const EoRecord *record)
{
	EoAnswer   *answer;

	if (record->has_origin && !eo_settle_may_decide(store, key, record->origin.life))
		return false;
	need_clock(store, key);
	answer = eo_answer_run_one(eo_settle_prepare_aborted(store, pk, record));
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, SETTLING, key, store->server->name);
	eo_answer_free(answer);
	return true;
}

/*
 * Is this a transaction of this database that a snapshot of this run of the server may
 * not show?  A prepared one may be older than the run, and than every id assigned in it.
 */
static bool
may_be_hidden(const EoOrigin *origin)
{
	EoTarget	anywhere = {.dboid = MyDatabaseId};
	EoHistory	history;
	EoLifeVerdict verdict;

	if (eo_life_is_current(MyDatabaseId, origin->life))
		return true;
	eo_life_rows_read(&history);
	eo_life_verdict(&history, &anywhere, origin->life, NULL, &verdict);
	return verdict.this_run || (eo_life_rows_find(&history, origin->life) >= 0 &&
								origin->xid < eo_runs_start());
}

bool
eo_settle_is_hidden(const EoRecord *record)
{
	uint64		xid = record->origin.xid;

	return IsolationUsesXactSnapshot() && record->has_origin && xid != 0 &&
		U64FromFullTransactionId(ReadNextFullTransactionId()) - xid <= UINT64CONST(2000000000) &&
		XidInMVCCSnapshot((TransactionId) xid, GetTransactionSnapshot()) &&
		may_be_hidden(&record->origin);
}

void
eo_settle_check_visible(const EoRecord *record, const char *key, const char *server)
{
	if (!eo_settle_is_hidden(record))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access: key \"%s\" on server \"%s\" was completed by a concurrent transaction",
					eo_text_key_shown(key), server),
			 errdetail("What that transaction did is not visible to the snapshot of this one."),
			 errhint("Retry the transaction, and acquire its keys first.")));
}
