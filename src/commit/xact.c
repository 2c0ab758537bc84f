/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  The claims of the current transaction, and its callbacks.
 *
 * The order at commit carries the promise:
 *
 * 1. PRE_COMMIT, our first callback: every completed key is sealed, or the
 *	  transaction fails.  It stands at the head of PostgreSQL's list, so that
 *	  others who act at this point, such as postgres_fdw, which commits its
 *	  remote transactions here, do so after the seal has held.
 * 2. The other callbacks, serialization checks, whatever else may still fail.
 * 3. Our last callback: nothing may be unsealed.
 * 4. PostgreSQL commits.  The rows of the outbox become true.
 * 5. COMMIT: slots are freed, the worker is woken.
 *
 * What runs at COMMIT and ABORT touches no network, allocates nothing and
 * raises nothing: an error there would take the cluster down.  It frees
 * memory, changes shared memory under its lock, and sets a latch.
 *
 * A subtransaction that is rolled back takes its claims and its completions
 * with it, and nothing else; one that is released hands them to its parent.
 * The list is in the order in which claims were made, so their levels never
 * decrease from head to tail, and its end is all that need be looked at.
 * Verdicts (idem_fail, idem_release) survive rollbacks: they are about the
 * claim and not about the work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "cluster/databases.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/session_tokens.h"
#include "commit/xact.h"
#include "compat.h"
#include "dynamodb/clock.h"
#include "dynamodb/http.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define N_BUCKETS 1024

/* How long a claim waits for room in the claim table. */
#define ROOM_WAIT_US INT64CONST(3000000)

static struct
{
	void		(*seal) (dlist_head *claims);
	MemoryContext context;		/* of all claims */
	dlist_head	claims;
	int			nclaims;
	int			ncompleted;
	SubTransactionId deepest_completion;	/* none is deeper than this */
	Oid			locked_server;	/* the last one that was locked */
	uint32		lost_seen;		/* eo_slot_lost_count() when we last looked */
	bool		committing;
	bool		prepared;		/* the seal has held */
	bool		first_registered;
	int			depth;			/* executor and utility levels at this moment */
	bool		in_block;		/* as the client's statement began */
	bool		pipelined;		/* a later statement followed a claim without
								 * a block: they commit together */
	EoTxClaim  *buckets[N_BUCKETS];
}			tx;

static void first_callback(XactEvent event, void *arg);
static void last_callback(XactEvent event, void *arg);
static void subtransaction_callback(SubXactEvent event, SubTransactionId mine,
									SubTransactionId parent, void *arg);
static void prepare_commit(void);
static void check_settled(void);
static void end_all(bool committed);
static void end_claim(EoTxClaim *claim, bool committed);
static void unlink_claim(EoTxClaim *claim);
static void free_claim(EoTxClaim *claim);
static void undo_completion(EoTxClaim *claim);

void
eo_xact_init(void (*seal) (dlist_head *claims))
{
	tx.seal = seal;
	dlist_init(&tx.claims);
	/* PostgreSQL calls the callback last that was registered first. */
	RegisterXactCallback(last_callback, NULL);
	RegisterSubXactCallback(subtransaction_callback, NULL);
}

/* ----- the list ----- */

static EoTxClaim **
bucket_of(const uint8 *digest)
{
	return &tx.buckets[(digest[0] | digest[1] << 8) % N_BUCKETS];
}

EoTxClaim *
eo_xact_find(const uint8 *digest)
{
	for (EoTxClaim *c = *bucket_of(digest); c != NULL; c = c->next)
	{
		if (memcmp(c->info->digest, digest, EO_DIGEST_LEN) == 0)
			return c;
	}
	return NULL;
}

static void
raise_no_room(EoSlotStatus status, const char *key, const char *server)
{
	const char *detail = "";
	const char *hint = "Settle or end what holds them, see exactonce_claims; or raise exactonce.max_claims and restart the server.";

	switch (status)
	{
		case EO_SLOT_OK:
			return;
		case EO_SLOT_TABLE_FULL:
			detail = "All slots of the claim table are in use.";
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
			 errmsg("no room for a claim on key \"%s\" on server \"%s\"", key, server),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

/*
 * A full table may be full of what the worker is about to see to.
 */
static EoSlotStatus
add_slot(const EoTarget *target, const char *pk, const EoSlotInfo *info, EoSlotRef *ref)
{
	int64		give_up_us = 0;

	for (;;)
	{
		EoSlotStatus status = eo_slot_add(target, pk, info, ref);
		int64		now_us = eo_clock_monotonic_us();

		if (status != EO_SLOT_TABLE_FULL && status != EO_SLOT_NO_TEXT)
			return status;
		if (give_up_us == 0)
			give_up_us = now_us + ROOM_WAIT_US;
		if (now_us >= give_up_us || !eo_slot_any_ending())
			return status;
		eo_database_wake(MyDatabaseId);
		eo_http_wait(now_us + 2000, EO_WAIT_RAISE);
	}
}

/*
 * As long as the claim lasts its server cannot be dropped: DROP SERVER waits for
 * the end of the transaction, and then sees what the transaction has left.
 */
static void
lock_server(const EoServer *server)
{
	if (tx.locked_server == server->serverid)
		return;
	LockDatabaseObject(ForeignServerRelationId, server->serverid, 0, AccessShareLock);
	if (!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(server->serverid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" was dropped", server->name),
				 errhint("Create it again, or set exactonce.server to the name of another.")));
	tx.locked_server = server->serverid;
}

EoTxClaim *
eo_xact_add(EoStore *store, const char *key, const char *pk, const EoTarget *target,
			const EoSlotInfo *info)
{
	const char *server = store->server->name;
	EoTxClaim  *c;
	MemoryContext old;

	if (tx.nclaims >= EO_MAX_CLAIMS_OF_TRANSACTION)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many keys in one transaction: no room for key \"%s\" on server \"%s\"",
						key, server),
				 errdetail("A transaction may claim and complete %d keys.",
						   EO_MAX_CLAIMS_OF_TRANSACTION),
				 errhint("Work in batches, with a commit after each.")));
	if (tx.context == NULL)
		tx.context = AllocSetContextCreate(TopMemoryContext, "exactonce transaction",
										   ALLOCSET_DEFAULT_SIZES);
	if (tx.nclaims == 0)
	{
		tx.lost_seen = eo_slot_lost_count();
		tx.pipelined = false;
		tx.locked_server = InvalidOid;
	}

	/* All that can raise comes before the slot, which nobody would free. */
	old = MemoryContextSwitchTo(tx.context);
	c = palloc0(sizeof(EoTxClaim));
	c->key = pstrdup(key);
	c->pk = pstrdup(pk);
	MemoryContextSwitchTo(old);
	if (!tx.first_registered)
		eo_xact_seal_first();
	lock_server(store->server);
	raise_no_room(add_slot(target, pk, info, &c->slot), key, server);

	c->info = eo_slot_own(c->slot);
	c->store = store;
	c->level = GetCurrentSubTransactionId();
	c->completed_at = InvalidSubTransactionId;
	c->next = *bucket_of(info->digest);
	*bucket_of(info->digest) = c;
	dlist_push_tail(&tx.claims, &c->node);
	tx.nclaims++;
	return c;
}

void
eo_xact_drop(EoTxClaim *claim)
{
	unlink_claim(claim);
	eo_slot_free(claim->slot);
	free_claim(claim);
}

void
eo_xact_abandon(EoTxClaim *claim)
{
	unlink_claim(claim);
	eo_slot_end(claim->slot, false);
	free_claim(claim);
}

/* Take it off the list; its slot must not have been freed yet, for it has the digest. */
static void
unlink_claim(EoTxClaim *claim)
{
	EoTxClaim **link = bucket_of(claim->info->digest);

	while (*link != NULL && *link != claim)
		link = &(*link)->next;
	if (*link == claim)
		*link = claim->next;
	dlist_delete(&claim->node);
	tx.nclaims--;
	if (claim->completed_at != InvalidSubTransactionId)
		tx.ncompleted--;
}

static void
free_claim(EoTxClaim *claim)
{
	if (claim->result != NULL)
		pfree(claim->result);
	pfree(claim->key);
	pfree(claim->pk);
	pfree(claim);
}

void
eo_xact_completed(EoTxClaim *claim, const char *result)
{
	if (result != NULL)
	{
		claim->result = MemoryContextStrdup(tx.context, result);
		claim->result_len = strlen(result);
	}
	eo_slot_completed(claim->slot);
	claim->completed_at = GetCurrentSubTransactionId();
	tx.deepest_completion = Max(tx.deepest_completion, claim->completed_at);
	tx.ncompleted++;
	eo_xact_seal_first();
}

/*
 * PostgreSQL calls the callback that was registered last first.  The new one
 * is entered before the old one is removed, so that there is always one; they
 * differ in their argument.
 */
void
eo_xact_seal_first(void)
{
	static char turns[2];
	static int	turn = 0;

	if (tx.committing)
		return;
	RegisterXactCallback(first_callback, &turns[1 - turn]);
	if (tx.first_registered)
		UnregisterXactCallback(first_callback, &turns[turn]);
	tx.first_registered = true;
	turn = 1 - turn;
}

bool
eo_xact_is_committing(void)
{
	return tx.committing;
}

bool
eo_xact_has_claims(void)
{
	return tx.nclaims > 0;
}

void
eo_xact_enter(void)
{
	tx.depth++;
}

void
eo_xact_leave(void)
{
	tx.depth--;
}

/*
 * At depth 0 no function runs that could have opened a subtransaction, so that
 * IsTransactionBlock() tells what the client has done, savepoints included.  The
 * statements of a pipeline commit together like those of an implicit block, which a
 * simple query of many statements opens; they are told by PostgreSQL's own flag,
 * which is set once the first of them has ended.
 */
void
eo_xact_note_statement(void)
{
	bool		follows;

	if (tx.depth > 0)
		return;
	follows = (MyXactFlags & XACT_FLAGS_PIPELINING) != 0;
	tx.in_block = IsTransactionBlock() || follows;
	tx.pipelined |= follows && tx.nclaims > 0;
}

bool
eo_xact_in_block(void)
{
	/* A function that was called without a statement, by the fast path. */
	if (tx.depth == 0)
		eo_xact_note_statement();
	return tx.in_block;
}

void
eo_xact_check_lost(void)
{
	uint32		count;
	dlist_iter	iter;

	if (tx.nclaims == 0 || (count = eo_slot_lost_count()) == tx.lost_seen)
		return;
	dlist_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->info->state == EO_SLOT_HELD && c->info->lost)
			eo_error_raise_lost(c->key, c->store->server->name, false,
								"Its lease could not be extended in time, and another run has the key or had it.",
								"Roll back: the work of this transaction is not to be kept. A longer lease survives longer interruptions.");
	}
	tx.lost_seen = count;
}

/* ----- callbacks ----- */

static void
first_callback(XactEvent event, void *arg)
{
	(void) arg;
	if (event == XACT_EVENT_PRE_COMMIT && tx.nclaims > 0)
		prepare_commit();
}

static void
last_callback(XactEvent event, void *arg)
{
	(void) arg;
	if (tx.nclaims == 0 && !tx.committing)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (tx.nclaims > 0 && !tx.prepared)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("transaction has idempotency keys that were not sealed"),
						 errhint("Another extension uses them while the transaction commits. Keep them out of what it runs there.")));
			break;
		case XACT_EVENT_PRE_PREPARE:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that holds or has completed idempotency keys"),
					 errdetail("It would be decided later and elsewhere, and nobody could seal its keys."),
					 errhint("Use COMMIT.")));
			break;
		case XACT_EVENT_COMMIT:
			end_all(true);
			break;
		case XACT_EVENT_ABORT:
			end_all(false);
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			break;
	}
}

static void
prepare_commit(void)
{
	tx.committing = true;
	tx.lost_seen--;				/* look, whatever was seen */
	eo_xact_check_lost();
	check_settled();
	if (tx.ncompleted > 0)
	{
		tx.seal(&tx.claims);

		/*
		 * The record says COMMITTING now, and a row that others can see is
		 * the decision.  With synchronous_commit = off it could be seen,
		 * acted upon, and lost by a crash.
		 */
		ForceSyncCommit();
	}
	tx.prepared = true;
}

/*
 * Every claim is to be completed, failed or released by the transaction that
 * made it; committed work under a claim that is then released would be done
 * again.  A statement of its own may claim for work that is done outside.
 */
static void
check_settled(void)
{
	dlist_iter	iter;
	bool		wrote = TransactionIdIsValid(GetTopTransactionIdIfAny());

	dlist_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->info->state != EO_SLOT_HELD || c->unsettled == EO_UNSETTLED_STAYS)
			continue;
		if (c->unsettled == EO_UNSETTLED_FAILS || tx.pipelined)
			ereport(ERROR,
					(errcode(ERRCODE_EO_UNSETTLED),
					 errmsg("key \"%s\" on server \"%s\" was acquired by this transaction and not settled",
							c->key, c->store->server->name),
					 errdetail("If the transaction committed, its work would be done again by the next run."),
					 errhint("Call idem_complete(), idem_fail() or idem_release() before COMMIT, or acquire with on_commit => 'keep' if the work goes on afterwards.")));
		if (wrote)
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("key \"%s\" on server \"%s\" is still claimed, and the statement has written data",
							c->key, c->store->server->name),
					 errdetail("What it wrote is committed now; the key is not completed."),
					 errhint("Complete the key in the same transaction as the work.")));
	}
}

static void
end_all(bool committed)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		*bucket_of(c->info->digest) = NULL;
		end_claim(c, committed);
	}
	dlist_init(&tx.claims);
	tx.nclaims = 0;
	tx.ncompleted = 0;
	tx.deepest_completion = InvalidSubTransactionId;
	tx.committing = false;
	tx.prepared = false;
	tx.pipelined = false;
	tx.locked_server = InvalidOid;
	if (tx.context != NULL)
		MemoryContextReset(tx.context);
}

/*
 * End the claim's slot, and have the session forget the token of a claim that does
 * not outlive the transaction.
 */
static void
end_claim(EoTxClaim *c, bool committed)
{
	/* Nothing has been tried: it is given back as if by idem_release(). */
	if (!committed && c->untried && c->info->state == EO_SLOT_HELD)
		eo_slot_released(c->slot);
	if (eo_xact_is_given_up(c) ||
		(committed ? c->info->state == EO_SLOT_SEALING : c->info->release_on_abort))
		eo_session_tokens_forget_claim(c->store->server->serverid, c->pk, c->info->token);
	eo_slot_end(c->slot, committed);
}

/* The claim is held again, as before it was completed. */
static void
undo_completion(EoTxClaim *claim)
{
	claim->completed_at = InvalidSubTransactionId;
	eo_slot_uncompleted(claim->slot);
	if (claim->result != NULL)
		pfree(claim->result);
	claim->result = NULL;
	claim->result_len = 0;
	tx.ncompleted--;
}

static void
abort_level(SubTransactionId mine)
{
	dlist_iter	iter;

	/* A lock that the subtransaction took is released with it. */
	tx.locked_server = InvalidOid;
	while (!dlist_is_empty(&tx.claims))
	{
		EoTxClaim  *c = dlist_tail_element(EoTxClaim, node, &tx.claims);

		if (c->level < mine)
			break;
		unlink_claim(c);
		end_claim(c, false);
		free_claim(c);
	}
	if (tx.deepest_completion < mine)
		return;
	tx.deepest_completion = InvalidSubTransactionId;
	dlist_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->completed_at >= mine && c->completed_at != InvalidSubTransactionId)
			undo_completion(c);
		tx.deepest_completion = Max(tx.deepest_completion, c->completed_at);
	}
}

static void
commit_level(SubTransactionId mine, SubTransactionId parent)
{
	dlist_iter	iter;

	dlist_reverse_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->level < mine)
			break;
		c->level = parent;
	}
	if (tx.deepest_completion < mine)
		return;
	tx.deepest_completion = parent;
	dlist_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->completed_at >= mine)
			c->completed_at = parent;
	}
}

static void
subtransaction_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
						void *arg)
{
	(void) arg;
	if (tx.nclaims == 0)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		abort_level(mine);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		commit_level(mine, parent);
}
