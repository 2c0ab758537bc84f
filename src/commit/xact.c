/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  The claims of the current transaction, and its callbacks.
 *
 * The order at commit carries the promise:
 *
 * 1. PRE_COMMIT, first_callback(): every completed key is sealed, or the
 *	  transaction fails.  This callback is kept at the head of PostgreSQL's
 *	  list.  Other extensions may do at this point what cannot be undone
 *	  (postgres_fdw commits its remote transactions), and must not do it before
 *	  every key is sealed.
 * 2. PRE_COMMIT, the callbacks of other extensions.
 * 3. PRE_COMMIT, last_callback(): the transaction fails if it has work for
 *	  which step 1 was not done.  Another extension can make such work in step
 *	  2 if there was none before; if there was, eo_preconditions() refuses.
 * 4. PostgreSQL checks what may still fail, such as serializability, and
 *	  commits.  With the commit the rows of the outbox become visible: that is
 *	  the decision.  If a check fails the transaction aborts, and its sealed
 *	  keys are given back.
 * 5. COMMIT or ABORT, last_callback(): each slot is freed, or handed to the
 *	  worker, which is woken.
 *
 * PREPARE TRANSACTION takes the same steps, as PRE_PREPARE and PREPARE.  At its step 5
 * the slots are handed to the prepared transaction, with what was decided about them
 * (slot_prepared.h).  How that ends is the business of prepared.c and of the worker.
 *
 * Step 5 uses no network, allocates nothing and raises nothing: an error there
 * would take the cluster down.  It frees memory, changes shared memory under its
 * lock, and sets a latch.
 *
 * If a subtransaction is rolled back, the claims and completions that were made
 * in it end with it, and no others.  If it is released they become its parent's.
 * The list is in the order in which claims were made, and the id of a
 * subtransaction is greater than its parent's.  So the levels of claims never
 * decrease from head to tail, and the claims of the innermost level are at the
 * tail.  When the transaction commits all are of one level, and those with writes are put
 * in another order.
 *
 * A failure or release (idem_fail(), idem_release()) survives a rollback to a
 * savepoint and the abort of the transaction: it is about the claim and not about
 * the work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "cluster/life.h"
#include "cluster/slot_prepared.h"
#include "cluster/slots.h"
#include "commit/lost.h"
#include "commit/prepared.h"
#include "commit/session.h"
#include "commit/slot_room.h"
#include "commit/xact.h"
#include "ledger/lives.h"
#include "miscadmin.h"
#include "server/options.h"
#include "server/text.h"
#include "storage/lmgr.h"
#include "utils/syscache.h"

#define N_BUCKETS 1024

/* Entries of first_callback() in PostgreSQL's list. */
#define STAY_FIRST_TURNS 16

static struct
{
	void		(*seal) (dlist_head *claims);
	void		(*add) (void);	/* see eo_xact_at_commit() */
	void		(*level_ended) (bool released, SubTransactionId mine, SubTransactionId parent);
	MemoryContext context;		/* of all claims; reset at the end of each
								 * transaction */
	dlist_head	claims;			/* EoTxClaim, the oldest first */
	int			nclaims;
	int			ncompleted;		/* of these, with a row in the outbox */
	SubTransactionId deepest_completion;	/* no completed_at is greater */
	Oid			locked_server;	/* the last one that lock_server() locked */
	uint32		lost_seen;		/* eo_slot_lost_count() at the last check */
	bool		committing;		/* get_ready() has begun */
	bool		ready;			/* get_ready() has succeeded */
	int			first_entries;	/* of first_callback() in PostgreSQL's list */
	int			depth;			/* of executor runs and utility commands */
	bool		in_block;		/* see eo_xact_in_block() */
	bool		pipelined;		/* a claim was made without a block, and then
								 * another statement of a pipeline began: they
								 * commit together */
	EoTxClaim  *buckets[N_BUCKETS]; /* the claims by their digests */
}			tx;

static void first_callback(XactEvent event, void *arg);

static void last_callback(XactEvent event, void *arg);
static void check_leases(void);
static void get_ready(void);
static void check_settled(void);
static void end_all(bool committed, bool prepared);
static void hand_over(EoTxClaim *c);
static void end_claim(EoTxClaim *c, bool committed);
static void subtransaction_callback(SubXactEvent event, SubTransactionId mine,
									SubTransactionId parent, void *arg);

void
eo_xact_init(void (*seal) (dlist_head *claims))
{
	tx.seal = seal;
	eo_lost_init(&tx.committing, &tx.depth);
	/* The callback that was registered first is called last. */
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

/*
 * Lock the server until the transaction ends: DROP SERVER waits for that, and then
 * finds what the transaction has left to be done.
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

/* A claim is made under the current life, once that has its item in the table. */
static void
enter_life(EoStore *store, const EoTarget *target, const char *key, EoSlotInfo *info)
{
	EoPlace		place;

	do
		eo_lives_contact(store, target, "acquire", key);
	while (!eo_life_place_info(store->place, &place));
	memcpy(info->origin.life, place.life, sizeof(info->origin.life));
	info->place = place.ref;
}

EoTxClaim *
eo_xact_add(EoStore *store, const char *key, const char *pk, const EoTarget *target,
			const EoSlotInfo *info)
{
	const char *server = store->server->name;
	EoSlotInfo	own = *info;
	EoTxClaim  *c;
	MemoryContext old;

	if (tx.nclaims >= EO_MAX_CLAIMS_OF_TRANSACTION)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many keys in one transaction: no room for key \"%s\" on server \"%s\"",
						eo_text_key_shown(key), server),
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
	}

	/*
	 * Everything that can raise comes before the slot is added: until the
	 * claim is in the list, an abort would not free its slot.
	 */
	old = MemoryContextSwitchTo(tx.context);
	c = palloc0(sizeof(EoTxClaim));
	c->key = pstrdup(key);
	c->pk = pstrdup(pk);
	MemoryContextSwitchTo(old);
	if (tx.first_entries == 0)
		eo_xact_stay_first();
	lock_server(store->server);
	memcpy(own.credentials_hash, store->credentials_hash, sizeof(own.credentials_hash));
	do
		enter_life(store, target, key, &own);
	while (!eo_slot_room_add(target, pk, &own, key, store->server, &c->slot));

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

/*
 * Remove a claim from the list and from its bucket.  This must come before its
 * slot is freed, because the digest is in the slot.
 */
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
	if (claim->handler != NULL)
		pfree(claim->handler);
	pfree(claim->key);
	pfree(claim->pk);
	pfree(claim);
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

void
eo_xact_completed(EoTxClaim *claim, const char *result)
{
	if (result != NULL)
	{
		claim->result = MemoryContextStrdup(tx.context, result);
		claim->result_len = strlen(result);
	}
	eo_slot_completed(claim->slot, claim->writes > 0);
	claim->completed_at = GetCurrentSubTransactionId();
	tx.deepest_completion = Max(tx.deepest_completion, claim->completed_at);
	tx.ncompleted++;
	eo_xact_stay_first();
}

/*
 * The callback that was registered last is called first.  An entry is found for its
 * removal by its function and argument, so several arguments take turns.
 *
 * The entry before the new one is not removed at once.  If another extension uses
 * keys while the transaction commits, PostgreSQL 16 and later are in the middle of
 * the list, and may have noted that entry as the next one to call.  More calls than
 * one do no harm: the first one sets tx.ready.
 */
void
eo_xact_stay_first(void)
{
	static char turns[STAY_FIRST_TURNS];
	static int	turn = 0;

	if (tx.committing)
		return;
	turn = (turn + 1) % STAY_FIRST_TURNS;
	if (tx.first_entries == STAY_FIRST_TURNS)
		UnregisterXactCallback(first_callback, &turns[turn]);
	else
		tx.first_entries++;
	RegisterXactCallback(first_callback, &turns[turn]);
}

void
eo_xact_at_commit(void (*add) (void), const EoServer *server)
{
	eo_options_check_committed(server);
	lock_server(server);
	if (tx.add == NULL)
		eo_xact_stay_first();
	tx.add = add;
}

/* The lock is held if and only if lock_server() was called, and not rolled back. */
bool
eo_xact_uses_server(Oid serverid)
{
	LOCKTAG		tag;

	if (!eo_xact_has_work())
		return false;
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ForeignServerRelationId, serverid, 0);
	return eo_compat_lock_held(&tag, AccessShareLock);
}

void
eo_xact_follow_levels(void (*ended) (bool released, SubTransactionId mine,
									 SubTransactionId parent))
{
	tx.level_ended = ended;
}

bool
eo_xact_is_committing(void)
{
	return tx.committing;
}

bool
eo_xact_has_work(void)
{
	return tx.nclaims > 0 || tx.add != NULL;
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
 * At depth 0 no function runs that could have opened a subtransaction, so
 * IsTransactionBlock() tells what the client has done, savepoints included.
 *
 * The statements of a pipeline commit together, as those of a simple query with
 * several statements do in its implicit block.  IsTransactionBlock() does not show a
 * pipeline.  PostgreSQL sets XACT_FLAGS_PIPELINING when its first statement has
 * ended.
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
	/* The fast path calls a function without a statement. */
	if (tx.depth == 0)
		eo_xact_note_statement();
	return tx.in_block;
}

/* Raise if a claim is lost.  One that is completed is left to its seal. */
static void
raise_if_lost(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->info->state == EO_SLOT_HELD && c->info->lost)
			eo_error_raise_lost(c->key, c->store->server->name, false,
								"Its lease could not be extended in time, and another run has the key or had it.",
								"Roll back: the work of this transaction is not to be kept. A longer lease survives longer interruptions.");
	}
}

void
eo_xact_reclaimed(EoTxClaim *claim)
{
	eo_slot_reclaimed(claim->slot);
	raise_if_lost();
}

void
eo_xact_check_lost(void)
{
	uint32		count;

	if (tx.nclaims == 0 || (count = eo_slot_lost_count()) == tx.lost_seen)
		return;
	raise_if_lost();
	tx.lost_seen = count;
}

/* ----- callbacks ----- */

/* Rows of the outbox name the transaction of sealed claims; those given up have only slots. */
static void
announce(void)
{
	uint64		xid = U64FromFullTransactionId(GetTopFullTransactionId());
	dlist_iter	iter;

	dlist_foreach(iter, &tx.claims)
	{
		const EoTxClaim *c = dlist_container(EoTxClaim, node, iter.cur);

		if (eo_xact_is_given_up(c))
			eo_slot_prepared_announce(c->slot, xid);
	}
}

static void
first_callback(XactEvent event, void *arg)
{
	(void) arg;
	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE)
		return;
	if (tx.add != NULL && !tx.committing)
	{
		void		(*add) (void) = tx.add;

		tx.committing = true;
		tx.add = NULL;
		add();
	}
	if (tx.nclaims == 0 || tx.ready)
		return;
	if (event == XACT_EVENT_PRE_PREPARE)
		eo_prepared_check_claims(&tx.claims);
	get_ready();
	if (event == XACT_EVENT_PRE_PREPARE)
		announce();
}

static void
last_callback(XactEvent event, void *arg)
{
	(void) arg;
	if (!eo_xact_has_work() && !tx.committing)
	{
		/* A claim that could not be made may have left memory and a lock. */
		if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
			event == XACT_EVENT_PREPARE)
		{
			tx.locked_server = InvalidOid;
			if (tx.context != NULL)
				MemoryContextReset(tx.context);
			eo_lost_ended(true);
		}
		return;
	}
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (eo_xact_has_work() && !tx.ready)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("transaction has idempotency keys that were not sealed"),
						 errhint("Another extension uses them while the transaction commits. Keep them out of what it runs there.")));
			check_leases();
			break;
		case XACT_EVENT_COMMIT:
			end_all(true, false);
			break;
		case XACT_EVENT_PREPARE:
			end_all(true, true);
			break;
		case XACT_EVENT_ABORT:
			end_all(false, false);
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

/*
 * After this nothing but PostgreSQL stands between the transaction and its commit
 * record.  If the lease has run out, another server may already have taken over.
 */
static void
check_leases(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->info->state == EO_SLOT_SEALING && !eo_lives_lease_holds(c->info->place))
			ereport(ERROR,
					(errcode(ERRCODE_EO_UNAVAILABLE),
					 errmsg("cannot commit key \"%s\" on server \"%s\": the lease of this database has run out",
							eo_text_key_shown(c->key), c->store->server->name),
					 errdetail("It could not be extended in time, or another server has taken over from this one."),
					 errhint("The transaction was rolled back. Retry it; exactonce_lives shows the lease.")));
	}
}

static int
compare_writes(const ListCell *a, const ListCell *b)
{
	int64		x = ((const EoTxClaim *) lfirst(a))->write_number;
	int64		y = ((const EoTxClaim *) lfirst(b))->write_number;

	return x < y ? -1 : x > y;
}

/*
 * Put claims whose rows have writes in the order in which these were handed in.  The worker is
 * told of them in the order of the claims, and relies on that (write_order.c).  It may be
 * another one: the claim that was made last may have been completed first.
 */
static void
order_writes(void)
{
	dlist_iter	iter;
	List	   *written = NIL;
	ListCell   *cell;
	int64		last = PG_INT64_MIN;
	bool		ordered = true;

	dlist_foreach(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		if (c->writes == 0)
			continue;
		ordered &= last < c->write_number;
		last = c->write_number;
		written = lappend(written, c);
	}
	if (ordered)
		return;
	list_sort(written, compare_writes);
	foreach(cell, written)
	{
		EoTxClaim  *c = lfirst(cell);

		dlist_delete(&c->node);
		dlist_push_tail(&tx.claims, &c->node);
	}
}

static void
get_ready(void)
{
	tx.committing = true;

	/*
	 * Check even if the count is what it was: a claim that was COMPLETED when
	 * it was found lost may be HELD again, by a rollback to a savepoint.
	 */
	raise_if_lost();
	check_settled();
	if (tx.ncompleted > 0)
	{
		order_writes();
		tx.seal(&tx.claims);

		/*
		 * From the commit on other sessions can see the row, which is the
		 * decision.  With synchronous_commit = off they could act on it, and
		 * a crash could lose it after that.
		 */
		ForceSyncCommit();
	}
	tx.ready = true;
}

/*
 * Check that every claim was completed, failed or released.  If the transaction
 * committed without that, the next run would do its work again.  But a claim may be
 * kept for work outside the database, see EoUnsettled.
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
							eo_text_key_shown(c->key), c->store->server->name),
					 errdetail("If the transaction committed, its work would be done again by the next run."),
					 errhint("Call idem_complete(), idem_fail() or idem_release() before COMMIT, or acquire with on_commit => 'keep' if the work goes on afterwards.")));
		if (wrote)
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("key \"%s\" on server \"%s\" is still claimed, and the statement has written data",
							eo_text_key_shown(c->key), c->store->server->name),
					 errdetail("What it wrote is committed now; the key is not completed."),
					 errhint("Complete the key in the same transaction as the work.")));
	}
}

/* Does a prepared transaction keep this claim until its end? */
static bool
waits_for_end(const EoTxClaim *c)
{
	return c->info->state == EO_SLOT_SEALING || eo_xact_is_given_up(c);
}

/*
 * The transaction is over, or (prepared) this session's part in it: end all its claims.
 * One that outlives the transaction is left to its lease by PREPARE, as by COMMIT.
 */
static void
end_all(bool committed, bool prepared)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &tx.claims)
	{
		EoTxClaim  *c = dlist_container(EoTxClaim, node, iter.cur);

		/* All claims end, so that the whole bucket is empty. */
		*bucket_of(c->info->digest) = NULL;
		if (prepared && waits_for_end(c))
			hand_over(c);
		else
			end_claim(c, committed);
	}
	dlist_init(&tx.claims);
	tx.add = NULL;
	tx.nclaims = 0;
	tx.ncompleted = 0;
	tx.deepest_completion = InvalidSubTransactionId;
	tx.committing = false;
	tx.ready = false;
	tx.pipelined = false;
	tx.locked_server = InvalidOid;
	if (tx.context != NULL)
		MemoryContextReset(tx.context);
	eo_lost_ended(true);
}

/*
 * The claim is the prepared transaction's from now on.  The session keeps the token of
 * one that may outlive it.
 */
static void
hand_over(EoTxClaim *c)
{
	if (eo_xact_is_given_up(c) || c->info->release_on_abort)
		eo_session_tokens_forget(c->store->server, c->pk, c->info->token);
	eo_slot_prepared_begin(c->slot, U64FromFullTransactionId(GetTopFullTransactionIdIfAny()));
}

/*
 * End the claim's slot.  If the claim does not outlive the transaction, the session
 * forgets its token.
 */
static void
end_claim(EoTxClaim *c, bool committed)
{
	/* The work has not begun: give the key back as idem_release() does. */
	if (!committed && c->untried && c->info->state == EO_SLOT_HELD)
		eo_slot_released(c->slot, false);
	if (eo_xact_is_given_up(c) ||
		(committed ? c->info->state == EO_SLOT_SEALING : c->info->release_on_abort))
		eo_session_tokens_forget(c->store->server, c->pk, c->info->token);
	if (c->of_session &&
		(eo_xact_is_given_up(c) || (committed && c->info->state == EO_SLOT_SEALING)))
		(void) eo_slot_session_over(c->info->digest, c->info->token);
	eo_slot_end(c->slot, committed);
}

/* The row of the outbox was rolled back: the claim is held, as it was before. */
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

/*
 * A subtransaction is rolled back: end the claims that were made in it, and undo
 * the completions.
 */
static void
abort_level(SubTransactionId mine)
{
	dlist_iter	iter;

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

/* A subtransaction is released: its claims and completions are its parent's. */
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
	/* A lock that the subtransaction took is released with it. */
	if (event == SUBXACT_EVENT_ABORT_SUB)
		tx.locked_server = InvalidOid;
	if (tx.level_ended != NULL &&
		(event == SUBXACT_EVENT_ABORT_SUB || event == SUBXACT_EVENT_COMMIT_SUB))
		tx.level_ended(event == SUBXACT_EVENT_COMMIT_SUB, mine, parent);
	if (event == SUBXACT_EVENT_ABORT_SUB)
		eo_lost_ended(false);
	if (tx.nclaims == 0)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		abort_level(mine);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		commit_level(mine, parent);
}
