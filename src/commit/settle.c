/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  What is to be done about a claim whose transaction is over.
 *
 * Asked by two: the worker of the database, and any backend that meets the
 * key before the worker has come to it.  Both may act at once; every write is
 * conditional on the claim's own token, so the second finds nothing left.
 *
 * Two sources tell:
 *
 * - The slot, where there is one.  How a transaction ended while the server
 *	 lived is known.  A slot left by an earlier life (an orphan) in the middle
 *	 of the seal is decided by the outbox: that life is over, so a row that is
 *	 not there now will never come.
 *
 * - The record, when somebody meets it COMMITTING.  The order matters: the
 *	 record was read first; then, is its transaction still going on?  Then,
 *	 with a snapshot taken after that, is there a row?  A transaction that had
 *	 ended before the snapshot has its row in it or has none.  (Citus #1030
 *	 tells what happens the other way round.)  The row may also be gone
 *	 because the worker finished meanwhile; then the record is not COMMITTING
 *	 any more, and a write that says "aborted" is refused.
 *
 * No row is proof of an abort only where no row can have been lost: the same
 * database identity, our own timeline, no later incarnation than ours, and not
 * before the outbox existed.  Anything
 * else is unknown, and is left for an operator.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "commit/outbox.h"
#include "commit/settle.h"
#include "compat.h"
#include "dynamodb/client.h"
#include "dynamodb/origin.h"
#include "dynamodb/record.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/store.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* ----- from the slot ----- */

EoRest
eo_settle_rest(const EoSlotView *view, const uint8 *database)
{
	const EoSlotInfo *info = &view->info;

	if (info->state == EO_SLOT_IN_DOUBT)
		return EO_REST_DOUBT;
	if (info->state == EO_SLOT_TO_FINISH)
		return EO_REST_FINISH;
	/* The extension was created anew since: the outbox of then is gone. */
	if (eo_slot_has_origin(info) &&
		memcmp(info->origin.database, database, sizeof(info->origin.database)) != 0)
		return EO_REST_DOUBT;
	if (info->state != EO_SLOT_TO_JUDGE)
		return EO_REST_WRITE;

	/*
	 * A recovery that ended on another timeline than the one that sealed it
	 * may have left the row behind.
	 */
	return info->origin.timeline == eo_compat_timeline() ? EO_REST_ASK_OUTBOX : EO_REST_DOUBT;
}

/* The write that settles a claim which has not committed. */
static EoVerb
verb_for(const EoSlotInfo *info)
{
	switch (info->state)
	{
		case EO_SLOT_TO_FAIL:
			return EO_FAIL;
		case EO_SLOT_TO_RELEASE:
			return EO_RELEASE;
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

EoAnswer *
eo_settle_prepare(EoStore *store, const EoSlotView *view)
{
	const EoSlotInfo *info = &view->info;
	EoVerb		verb = verb_for(info);
	EoWrite		w = {0};
	char		origin[EO_ORIGIN_LEN + 1];
	int64		from_ms;

	w.owner = info->token;
	w.now_ms = eo_client_now_ms(&store->client);
	w.bind = "tx";
	w.terminal = info->terminal;
	w.retry_ms = info->retry_after_ms > 0 ? w.now_ms + info->retry_after_ms : 0;
	from_ms = Max(w.now_ms, w.retry_ms);
	if (verb == EO_UNSEAL)
		from_ms += info->lease_ms;
	w.ttl_s = eo_record_ttl_after(from_ms, info->retention_s);
	if (eo_slot_has_origin(info))
	{
		eo_origin_write(&info->origin, origin);
		w.origin = origin;
	}
	if (view->error_len > 0)
	{
		char	   *error = palloc(view->error_len);

		/* The slot was freed meanwhile: somebody else has settled it. */
		if (!eo_slot_error(view->ref, error, view->error_len))
			return NULL;
		w.error = error;
		w.error_len = view->error_len;
	}
	return eo_store_prepare_write(store, view->pk, verb, &w);
}

bool
eo_settle_looks_again(const EoSlotView *view)
{
	return verb_for(&view->info) == EO_BURY;
}

void
eo_settle_on_the_spot(EoStore *store, const char *key, const EoSlotView *view)
{
	EoDatabaseInfo db;
	EoAnswer   *answer;
	int64		retention_s;

	if (view->target.dboid != MyDatabaseId || !eo_database_info(MyDatabaseId, &db))
		return;					/* for the worker of that database */
	switch (eo_settle_rest(view, db.origin))
	{
		case EO_REST_DOUBT:
		case EO_REST_FINISH:
			return;
		case EO_REST_ASK_OUTBOX:
			if (eo_outbox_find(view->info.digest, view->info.token, &retention_s))
				return;
			break;
		case EO_REST_WRITE:
			break;
	}
	answer = eo_settle_prepare(store, view);
	if (answer == NULL)
		return;
	eo_answer_run(&answer, 1, 1, 0);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, "settle what an ended transaction left of", key,
					   store->server->name);
	eo_answer_free(answer);

	/* What is to be looked at again is the worker's. */
	if (!eo_settle_looks_again(view))
		eo_slot_free(view->ref);
}

/* ----- from the record ----- */

typedef enum XidState
{
	XID_RUNNING,
	XID_OVER,
	XID_FUTURE
} XidState;

/* A transaction id of 64 bits, which may be from any time and any place. */
static XidState
state_of_xid(uint64 xid)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (xid >= next)
		return XID_FUTURE;
	/* Long ago: its lower half may belong to another one by now. */
	if (next - xid > UINT64CONST(2000000000) || xid < FirstNormalTransactionId)
		return XID_OVER;
	return TransactionIdIsInProgress((TransactionId) xid) ? XID_RUNNING : XID_OVER;
}

EoFate
eo_settle_fate(const EoRecord *record, const uint8 *digest, int64 *retention_s)
{
	EoOrigin	o;
	EoDatabaseInfo db;

	if (!eo_origin_read(record->origin_text, &o) || !eo_database_info(MyDatabaseId, &db) ||
		db.incarnation == 0 || memcmp(o.database, db.origin, sizeof(o.database)) != 0)
		return EO_FATE_ELSEWHERE;

	/*
	 * A life that is over has no transactions going on.  Its ids say nothing:
	 * one that never reached the disk may have been given out again.
	 */
	if (o.incarnation == db.incarnation)
	{
		XidState	state = state_of_xid(o.xid);

		if (state == XID_RUNNING)
			return EO_FATE_RUNNING;
		if (state == XID_FUTURE)
			return EO_FATE_UNKNOWN;
	}
	if (eo_outbox_find(digest, record->owner, retention_s))
		return EO_FATE_COMMITTED;
	if (o.incarnation > db.incarnation || o.timeline != eo_compat_timeline() ||
		o.xid < db.horizon)
		return EO_FATE_UNKNOWN;
	return EO_FATE_ABORTED;
}

EoAnswer *
eo_settle_read(EoStore *store, const char *key, const char *pk, const uint8 *digest,
			   const char *doing, EoFate *fate, int64 *retention_s)
{
	EoAnswer   *answer;

	/*
	 * No row may mean that the worker has finished since the record was read;
	 * then the record says so.
	 */
	for (int looks = 0;; looks++)
	{
		answer = eo_store_read(store, pk);
		if (answer->outcome == EO_FAILED_CALL)
			eo_error_raise(&answer->error, doing, key, store->server->name);
		*fate = EO_FATE_ELSEWHERE;
		if (answer->exists && eo_answer_record(answer)->state == EO_STATE_COMMITTING &&
			!RecoveryInProgress())
			*fate = eo_settle_fate(eo_answer_record(answer), digest, retention_s);
		if (*fate != EO_FATE_ABORTED || looks > 0)
			return answer;
		eo_answer_free(answer);
	}
}

void
eo_settle_aborted(EoStore *store, const char *key, const char *pk, const EoRecord *record)
{
	EoWrite		w = {0};
	EoAnswer   *answer;
	bool		bound = record->bind != NULL && strcmp(record->bind, "tx") == 0;

	w.owner = record->owner;
	w.origin = record->origin_text;
	w.now_ms = eo_client_now_ms(&store->client);
	w.ttl_s = eo_record_ttl_after(Max(w.now_ms, record->lease_ms), store->server->retention_s);
	answer = eo_store_write(store, pk, bound ? EO_ABORT : EO_UNSEAL, &w);
	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, "settle what an ended transaction left of", key,
					   store->server->name);
	eo_answer_free(answer);
}

void
eo_settle_check_visible(const EoRecord *record, const char *key, const char *server)
{
	EoOrigin	o;
	EoDatabaseInfo db;

	if (!IsolationUsesXactSnapshot() || !eo_origin_read(record->origin_text, &o) ||
		!eo_database_info(MyDatabaseId, &db) ||
		memcmp(o.database, db.origin, sizeof(o.database)) != 0 ||
		U64FromFullTransactionId(ReadNextFullTransactionId()) - o.xid > UINT64CONST(2000000000) ||
		!XidInMVCCSnapshot((TransactionId) o.xid, GetTransactionSnapshot()))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access: key \"%s\" on server \"%s\" was completed by a concurrent transaction",
					key, server),
			 errdetail("What that transaction did is not visible to the snapshot of this one."),
			 errhint("Retry the transaction, and acquire its keys first.")));
}
