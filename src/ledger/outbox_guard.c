/*-------------------------------------------------------------------------
 *
 * outbox_guard.c
 *	  A key is not completed again while an earlier completion of it is unfinished.
 *
 * If the record of a committed key is lost before it is finished, as when the table is restored,
 * the key can be acquired anew, and DynamoDB knows nothing that speaks against a second completion.
 * The row of the first one does.  By the same address of the table the primary key of the outbox
 * refuses a second row.  By another address nothing tells for certain whether it is the same
 * table: a copy has all that the original has.  So a table of the same name and region counts
 * as the same.
 *
 * Two tables of one name and region, of two accounts or engines, may both have the key.  That
 * holds nobody up for long while their services answer: a row goes in a moment, when its own record
 * shows its finish.  That is also the proof that this record is another one than that of the
 * second claim, or was completed before it was lost.  So the row is waited for.  It is refused if
 * it cannot be finished: a refusal without need costs a call, the other error is a second work.
 * A claim at commit is not told then that the key is completed, as its caller would leave out the
 * work of another table, but that it is in progress; so it is if the row is of another server with
 * the same address, which may be of another account.
 *
 * The row of the second completion is inserted before others are looked for.  So of two
 * transactions at least one sees the other, and waits for its end.
 *
 * The owner of a server says where its address leads, and as whom it signs.  So in a table that is
 * his alone he could complete any key that he can guess, and never have that confirmed; and nothing
 * tells that table from the one that others have.  So a row is believed by the servers of its
 * owner, and a row of a superuser's server by all servers.  As long as DynamoDB has the record, it
 * refuses the second claim.  If the record of a tenant's completion is lost before its finish, and
 * somebody else's server leads to the same record, the key is completed again by that one.
 *
 * The lock of another owner's transaction, or of a prepared one, which may never end, is not waited
 * for: the key is in progress if that transaction lasts longer than a finish is waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "cluster/databases.h"
#include "cluster/slot_prepared.h"
#include "ledger/outbox_guard.h"
#include "ledger/outbox_scan.h"
#include "miscadmin.h"
#include "records/action_item.h"
#include "server/text.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/uuid.h"
#include "wire/clock.h"
#include "wire/http.h"

/* How long the finish of an earlier completion is waited for, and between two looks. */
#define FINISH_WAIT_US INT64CONST(2000000)
#define FINISH_LOOK_US INT64CONST(5000)

#define WAIT_FOR_IT "Wait until that is confirmed. If it is not, exactonce_pending and idem_check() say why, and idem_give_up() ends it."

pg_noreturn static void raise_refused(const EoOutboxRow *row, const char *key, const char *server,
									  bool once, const EoGuard *guard, bool elsewhere);
pg_noreturn static void raise_completed(const EoOutboxRow *row, const char *key,
										const char *server, bool once, const EoGuard *guard,
										const char *detail, const char *hint);
pg_noreturn static void raise_in_progress(const EoOutboxRow *row, const char *key,
										  const char *server, const char *detail,
										  const char *hint);
pg_noreturn static void raise_unfinished(const EoOutboxRow *other, const char *key,
										 const char *server, bool once, const EoGuard *guard);

/* May both be the same table?  A region that the chain has not found yet may be any. */
static bool
may_be_same_table(const EoTarget *a, const EoTarget *b)
{
	return strcmp(a->table, b->table) == 0 &&
		(strcmp(a->region, b->region) == 0 || a->region[0] == '\0' || b->region[0] == '\0') &&
		(strcmp(a->layout, b->layout) == 0 || eo_target_same_partition(a, b));
}

/*
 * Is a row believed by the servers of an owner?  Its server may have been given away, or have been
 * dropped, since the row was made.  The digest tells who owned it then, and its present owner
 * counts, too: so no evidence is lost when the server that made the row gets another owner.
 * When another one of his does, or somebody else makes the server anew, its owner is neither: by
 * that server the key is completed again if its record is lost before its finish.
 */
static bool
is_believed(const EoOutboxRow *row, Oid owner)
{
	const Oid	owners[] = {InvalidOid, owner};

	for (int i = 0; i < (int) lengthof(owners); i++)
	{
		if (row->target.owner == owners[i] || eo_outbox_is_of_owner(row, owners[i]))
			return true;
	}
	return false;
}

/* Does a row tell about a key of that table? */
static bool
is_evidence(const EoOutboxRow *row, const EoTarget *target)
{
	return may_be_same_table(&row->target, target) && is_believed(row, target->owner);
}

/*
 * Find a row of the same key that is not of our transaction; with EO_LOOK_ALL one of any table,
 * which is not read.  *goes_on is the transaction that goes on and has made the row, or is
 * changing it.
 */
static bool
find_row(const EoOutboxRow *row, EoOutboxLook look, EoOutboxRow *other, TransactionId *goes_on)
{
	EoOutboxScan s;
	HeapTuple	tuple;
	bool		found = false;

	*goes_on = InvalidTransactionId;
	eo_outbox_scan_begin_pk(&s, row->pk, look);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(s.scan)))
	{
		if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
			continue;
		/* A version that is dead may not be readable any more. */
		if (look == EO_LOOK_ALL)
		{
			found = true;
			break;
		}
		if (look == EO_LOOK_UNDECIDED)
			*goes_on = TransactionIdIsValid(s.dirty.xmin) ? s.dirty.xmin : s.dirty.xmax;
		eo_outbox_scan_read(&s, tuple, other);
		found = is_evidence(other, &row->target);
	}
	eo_outbox_scan_end(&s);
	return found;
}

/*
 * Most keys have no other row at all, and the first look finds that out.  No row escapes it: a
 * version in a place that it has passed was made of an earlier one, which is still there because
 * it was alive when the snapshot of the look was taken.
 *
 * The second look sees what no snapshot does.  But it may pass a row of which another version
 * is committed meanwhile, in a place that it has passed; the snapshot of the third one shows that.
 */
static bool
find_other(const EoOutboxRow *row, EoOutboxRow *other, TransactionId *goes_on)
{
	return find_row(row, EO_LOOK_ALL, other, goes_on) &&
		(find_row(row, EO_LOOK_UNDECIDED, other, goes_on) ||
		 find_row(row, EO_LOOK_COMMITTED, other, goes_on));
}

/* The advice about a row that was given up; NULL if it was not. */
static const char *
hint_of(const EoOutboxRow *other)
{
	return !other->given_up ? NULL : eo_action_item_is_pk(other->pk) ?
		"An operator has given its confirmation up; action_resolve(id, 'completed') makes an action that was made anew consumable." :
		"An operator has given its confirmation up; idem_forget() makes the key claimable as if it were new.";
}

static void
raise_completed(const EoOutboxRow *row, const char *key, const char *server, bool once,
				const EoGuard *guard, const char *detail, const char *hint)
{
	if (eo_action_item_is_pk(row->pk))
		eo_error_raise_action_consumed(key, server, detail, hint);
	if (once)
		eo_error_raise_duplicate(guard, key, server, detail, hint);
	ereport(ERROR,
			(errcode(ERRCODE_EO_CLAIM_LOST),
			 errmsg("key \"%s\" on server \"%s\" is already completed", eo_text_key_shown(key), server),
			 errdetail("%s", detail),
			 errhint("%s", hint != NULL ? hint : "idem_get() shows its result.")));
}

static void
raise_in_progress(const EoOutboxRow *row, const char *key, const char *server,
				  const char *detail, const char *hint)
{
	if (eo_action_item_is_pk(row->pk))
		eo_error_raise_action_in_progress(key, server, detail, hint);
	eo_error_raise_in_progress(key, server, detail, hint);
}

/*
 * The row's own address has a committed row of the key already.  elsewhere: instead its claim has
 * one by another address.
 */
static void
raise_refused(const EoOutboxRow *row, const char *key, const char *server, bool once,
			  const EoGuard *guard, bool elsewhere)
{
	EoOutboxRow other = {0};

	if (!elsewhere)
		(void) eo_outbox_read(row->digest, &other);
	if (once && !other.given_up && OidIsValid(other.target.serverid) &&
		other.target.serverid != row->target.serverid)
		raise_in_progress(row, key, server,
						  "A transaction of this database that completed it by another server has committed, and that is not confirmed yet.",
						  WAIT_FOR_IT);
	raise_completed(row, key, server, once, guard, elsewhere && !once ?
					"This transaction, or one that has committed, has completed its claim by another address of the table." :
					"A transaction of this database that completed it has committed.",
					hint_of(&other));
}

/* The message does not show the address: the caller may have no right to see other servers. */
static void
raise_unfinished(const EoOutboxRow *other, const char *key, const char *server, bool once,
				 const EoGuard *guard)
{
	pg_uuid_t	id;
	char	   *detail;

	eo_outbox_id(other, &id);
	detail = psprintf("A transaction of this database that completed it by another address of table \"%s\" has committed, and %s: it has the id %s.",
					  other->target.table,
					  other->given_up ? "an operator has given its confirmation up" : "that is not confirmed yet",
					  DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&id))));
	if (once && !other->given_up)
		raise_in_progress(other, key, server, detail, WAIT_FOR_IT);
	raise_completed(other, key, server, once, guard, detail,
					other->given_up ? hint_of(other) : WAIT_FOR_IT);
}

/* Is the end of the transaction of a row waited for: is it of our own owner, and not prepared? */
static bool
is_waited_for(const EoOutboxRow *other, const EoOutboxRow *row)
{
	EoSlotView	view;

	return other->target.owner == row->target.owner &&
		!eo_slot_prepared_find_completed(other->token, &view);
}

/*
 * Look for completions of the key of a row, which the current transaction has inserted, by other
 * addresses of its table.  Wait for transactions that go on, and a moment for the finish of
 * those that have committed.
 */
static void
check_others(const EoOutboxRow *row, const char *key, const char *server, bool once,
			 const EoGuard *guard)
{
	EoOutboxRow other;
	TransactionId goes_on;
	int64		until_us = 0;

	while (find_other(row, &other, &goes_on))
	{
		int64		now_us = eo_clock_monotonic_us();
		bool		open = TransactionIdIsValid(goes_on);

		if (open && is_waited_for(&other, row))
		{
			XactLockTableWait(goes_on, NULL, NULL, XLTW_None);
			continue;
		}
		if (until_us == 0)
			until_us = now_us + FINISH_WAIT_US;
		if (open && now_us >= until_us)
			raise_in_progress(row, key, server,
							  "A transaction of this database that completes it by another address of the table goes on.",
							  "Retry the transaction when that one has ended.");
		if (!open && (other.given_up || other.trouble == EO_TROUBLE_REFUSED ||
					  now_us >= until_us))
			raise_unfinished(&other, key, server, once, guard);
		eo_database_wake(MyDatabaseId);
		eo_http_wait(now_us + FINISH_LOOK_US, EO_WAIT_RAISE);
	}
}

void
eo_outbox_guard_add(const EoOutboxRow *row, const char *key, const char *server, bool once,
					const EoGuard *guard)
{
	bool		elsewhere;

	if (!eo_outbox_add(row, &elsewhere))
		raise_refused(row, key, server, once, guard, elsewhere);
	check_others(row, key, server, once, guard);
}

List *
eo_outbox_guard_rows(const EoTarget *target, const char *pk)
{
	EoOutboxScan s;
	HeapTuple	tuple;
	List	   *rows = NIL;

	eo_outbox_scan_begin_pk(&s, pk, EO_LOOK_COMMITTED);
	while (HeapTupleIsValid(tuple = eo_outbox_scan_next(&s)))
	{
		EoOutboxRow *row = palloc(sizeof(EoOutboxRow));

		eo_outbox_scan_read(&s, tuple, row);
		if (is_evidence(row, target))
			rows = lappend(rows, row);
	}
	eo_outbox_scan_end(&s);
	return rows;
}
