/*-------------------------------------------------------------------------
 *
 * prepared.c
 *	  Prepared transactions: their claims, and the end of them.
 *
 * PREPARE TRANSACTION seals the keys of a transaction as COMMIT does (xact.c), and leaves
 * their slots to the prepared transaction (slot_prepared.h).  PostgreSQL's record of
 * COMMIT PREPARED is the decision, with the row of the outbox that becomes visible.  The
 * end needs nothing of ours: whoever sees that the transaction is over, the worker or a
 * session that meets the key, ends the slots, and the outbox tells how it ended.
 *
 * There is one thing to be checked before COMMIT PREPARED.  If this server is an old
 * primary, and other data has retired the life that sealed, that data decides about the
 * keys, and may have given them back.  Then the transaction must not commit here.  Only
 * what the worker knows counts: no request is made, and if the service does not answer
 * the transaction commits, because nothing must be locked for ever.  After a start of the
 * server the worker may be about to find out, which is worth a moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "cluster/bars.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/slot_prepared.h"
#include "cluster/slot_views.h"
#include "cluster/target.h"
#include "commit/prepared.h"
#include "commit/settle.h"
#include "commit/tx_claim.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "ledger/internal.h"
#include "ledger/lives.h"
#include "ledger/outbox.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "server/text.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "wire/http.h"

/* COMMIT PREPARED waits so long for what the worker is about to find out. */
#define HEIR_WAIT_US INT64CONST(2000000)
#define HEIR_LOOK_US INT64CONST(5000)

/* A prepared transaction of this database. */
typedef struct Prepared
{
	TransactionId xid;
	const char *gid;
	TimestampTz prepared_at;
} Prepared;

/* For has_rows(): the transaction, and whether a row of it was found. */
static TransactionId row_xid;
static bool row_found;

static TransactionId find_prepared(const char *gid);
static int	count_claims(TransactionId xid);
static List *list_prepared(void);

bool
eo_prepared_find_slot(const uint8 *digest, EoSlotView *view)
{
	if (!eo_slot_view_find(digest, view))
		return false;
	if (!eo_slot_is_prepared(&view->info) || eo_settle_is_running(view->info.prepared_xid))
		return true;
	eo_slot_prepared_end(view->ref);
	return eo_slot_view_find(digest, view);
}

bool
eo_prepared_completes(const uint8 *digest, const char *token)
{
	EoSlotView	view;

	if (eo_prepared_find_slot(digest, &view) && eo_slot_is_prepared(&view.info) &&
		view.info.state == EO_SLOT_SEALING)
		return true;
	if (token == NULL || max_prepared_xacts == 0 || !eo_slot_prepared_find_completed(token, &view))
		return false;
	if (eo_settle_is_running(view.info.prepared_xid))
		return true;
	eo_slot_prepared_end(view.ref);
	return false;
}

void
eo_prepared_ended(void)
{
	if (max_prepared_xacts > 0)
		eo_slot_prepared_signal(MyDatabaseId);
}

/* ----- COMMIT PREPARED ----- */

/* Does the current life hold its lease in this place? */
static bool
lease_holds(const EoTarget *target)
{
	uint32		cursor = 0;
	EoPlace		place;

	while (eo_life_walk_places(MyDatabaseId, true, &cursor, &place))
	{
		if (place.open && eo_target_same_place(&place.target, target))
			return eo_lives_lease_holds(place.ref);
	}
	return false;
}

/*
 * Is it not known who has the life under which this claim was sealed?  It is ours if it is
 * the current one, or the worker has found out that it is the current one's; and the
 * current one is not retired as long as its lease holds.
 */
static bool
is_open_question(const EoSlotView *view)
{
	const EoSlotInfo *info = &view->info;

	if (!eo_slot_has_origin(info))
		return false;
	if (!eo_bar_is_ours(&view->target, info->origin.life) &&
		(info->heir != EO_HEIR_OURS || !eo_life_is_current(MyDatabaseId, info->heir_by)))
		return true;
	return !lease_holds(&view->target);
}

/*
 * Look at the claims of a prepared transaction (Invalid: of all).  Returns true if there
 * is one about which nothing is known yet, or whose life has a foreign heir; of this one
 * *view is set, and *foreign.
 */
static bool
find_question(TransactionId xid, EoSlotView *view, bool *foreign)
{
	uint32		cursor = 0;
	bool		open = false;

	*foreign = false;
	while (!*foreign && eo_slot_prepared_walk(MyDatabaseId, &cursor, view))
	{
		if (TransactionIdIsValid(xid) && (TransactionId) view->info.prepared_xid != xid)
			continue;
		*foreign = eo_slot_has_origin(&view->info) && view->info.heir == EO_HEIR_FOREIGN &&
			!eo_bar_is_ours(&view->target, view->info.origin.life);
		open |= is_open_question(view);
	}
	return open || *foreign;
}

static bool
take_row(const EoOutboxRow *row)
{
	row_found = (TransactionId) row->xid == row_xid;
	return !row_found;
}

/*
 * Has the prepared transaction rows in the outbox?  Asked as long as the worker has not
 * made slots of them, after a start of the server.
 */
static bool
has_rows(TransactionId xid)
{
	if (eo_database_is_prepared_known(MyDatabaseId) || !OidIsValid(eo_internal_look()))
		return false;

	/*
	 * Somebody who waits for the table, as VACUUM FULL does, may wait for
	 * this very transaction.  Then there may be rows.
	 */
	if (!ConditionalLockRelationOid(eo_internal_id(EO_INTERNAL_OUTBOX), AccessShareLock))
		return true;
	row_xid = xid;
	row_found = false;
	(void) eo_outbox_visit_undecided(take_row);
	return row_found;
}

void
eo_prepared_check_commit(const char *gid)
{
	EoSlotView	view;
	bool		foreign;
	bool		rows;
	TransactionId xid;
	int64		give_up_us = eo_clock_monotonic_us() + HEIR_WAIT_US;

	/* Usually no claim waits for an answer, and the list is not read. */
	if (max_prepared_xacts == 0 || RecoveryInProgress() ||
		(eo_database_is_prepared_known(MyDatabaseId) &&
		 !find_question(InvalidTransactionId, &view, &foreign)))
		return;
	xid = find_prepared(gid);
	if (!TransactionIdIsValid(xid))
		return;
	rows = has_rows(xid);
	if (!IsUnderPostmaster && (rows || find_question(xid, &view, &foreign)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot commit prepared transaction \"%s\" in single-user mode", gid),
				 errdetail("It has keys, and no worker is here to find out whether another server has taken over."),
				 errhint("Start the server as usual, or use ROLLBACK PREPARED.")));
	while ((find_question(xid, &view, &foreign) ||
			(rows && !eo_database_is_prepared_known(MyDatabaseId))) &&
		   !foreign && eo_clock_monotonic_us() < give_up_us)
	{
		(void) eo_database_want(MyDatabaseId);
		eo_slot_prepared_signal(MyDatabaseId);
		eo_http_wait(eo_clock_monotonic_us() + HEIR_LOOK_US, EO_WAIT_RAISE);
	}
	if (foreign)
	{
		char		life[EO_UUID_TEXT_LEN + 1];

		eo_hex_put_uuid(view.info.origin.life, life);
		ereport(ERROR,
				(errcode(ERRCODE_EO_CLAIM_LOST),
				 errmsg("cannot commit prepared transaction \"%s\": another server has taken over from the one that prepared it",
						gid),
				 errdetail("It has sealed keys under life %s, which was retired. The heir of that life decides about them.",
						   life),
				 errhint("If this server is an old primary, stop it, or end the transaction with ROLLBACK PREPARED. If it has replaced the heir, try again when it has taken over from that; see exactonce_lives.")));
	}
}

/* The id of a prepared transaction; Invalid: there is none of that name. */
static TransactionId
find_prepared(const char *gid)
{
	ListCell   *cell;

	foreach(cell, list_prepared())
	{
		const Prepared *prepared = lfirst(cell);

		if (strcmp(prepared->gid, gid) == 0)
			return prepared->xid;
	}
	return InvalidTransactionId;
}

/* ----- for those who look after them ----- */

void
eo_prepared_count(EoPreparedCount *count)
{
	ListCell   *cell;

	memset(count, 0, sizeof(*count));
	if (max_prepared_xacts == 0)
		return;
	foreach(cell, list_prepared())
	{
		const Prepared *prepared = lfirst(cell);
		int			claims = count_claims(prepared->xid);

		count->claims += claims;
		if (claims > 0 && (count->transactions++ == 0 || prepared->prepared_at < count->oldest))
			count->oldest = prepared->prepared_at;
	}
}

static int
count_claims(TransactionId xid)
{
	uint32		cursor = 0;
	EoSlotView	view;
	int			claims = 0;

	while (eo_slot_prepared_walk(MyDatabaseId, &cursor, &view))
		claims += (TransactionId) view.info.prepared_xid == xid;
	return claims;
}

/* The prepared transactions of this database.  pg_prepared_xact() is PostgreSQL's only list. */
static List *
list_prepared(void)
{
	LOCAL_FCINFO(fcinfo, 0);
	FmgrInfo	flinfo;
	ExprContext *econtext = CreateStandaloneExprContext();
	ReturnSetInfo rsinfo = {.type = T_ReturnSetInfo,.econtext = econtext,
	.allowedModes = SFRM_ValuePerCall,.returnMode = SFRM_ValuePerCall};
	List	   *list = NIL;

	fmgr_info(F_PG_PREPARED_XACT, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 0, InvalidOid, NULL, (Node *) & rsinfo);
	for (;;)
	{
		Datum		row = FunctionCallInvoke(fcinfo);
		bool		isnull;
		HeapTupleHeader tuple;
		Prepared   *prepared;

		if (rsinfo.isDone != ExprMultipleResult)
			break;
		tuple = DatumGetHeapTupleHeader(row);
		if (DatumGetObjectId(GetAttributeByName(tuple, "dbid", &isnull)) != MyDatabaseId)
			continue;
		prepared = palloc(sizeof(Prepared));
		prepared->xid = DatumGetTransactionId(GetAttributeByName(tuple, "transaction", &isnull));
		prepared->gid = TextDatumGetCString(GetAttributeByName(tuple, "gid", &isnull));
		prepared->prepared_at = DatumGetTimestampTz(GetAttributeByName(tuple, "prepared", &isnull));
		list = lappend(list, prepared);
	}
	FreeExprContext(econtext, true);
	return list;
}

/* ----- before the seal ----- */

/* Does this session hold the claim, and does the transaction leave it so? */
static bool
is_of_session(const EoTxClaim *c)
{
	EoSlotRef	ref;

	return (c->info->session && c->info->state == EO_SLOT_HELD) ||
		(c->earlier && eo_slot_view_find_session(c->info->digest, c->info->token, &ref));
}

/*
 * Check what can be checked before the seal.  A claim that ends with its session has no
 * place in a transaction that outlives the session, and is settled by COMMIT only.
 */
void
eo_prepared_check_claims(const dlist_head *claims)
{
	dlist_iter	iter;

	if (max_prepared_xacts == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("prepared transactions are disabled"),
				 errhint("Set max_prepared_transactions to a nonzero value.")));
	dlist_foreach(iter, unconstify(dlist_head *, claims))
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (is_of_session(c))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction with key \"%s\" on server \"%s\", which the session holds",
							eo_text_key_shown(c->key), c->store->server->name),
					 errdetail("It was acquired with on_commit => 'session', and a prepared transaction outlives the session."),
					 errhint("Use COMMIT, or acquire the key without on_commit => 'session'.")));
	}
}
