/*-------------------------------------------------------------------------
 *
 * barrier.c
 *	  The transactions whose keys a worker may mark COMPLETED.
 *
 * A key is marked when its commit is safe from a failover (durability.c).  The commits
 * have positions in the WAL that the worker does not know, so it waits for many of them
 * at once:
 *
 * 1. It notes which transactions are over, by a snapshot.
 * 2. After that it takes the position up to which this server has flushed.  The commit
 *	  records of all transactions noted are before it, because a commit with a row in the
 *	  outbox is flushed before a snapshot shows it as over.
 * 3. It looks, from time to time, until that position is confirmed.  Then the barrier is
 *	  open for the transactions noted.  Those that end meanwhile are noted the next time.
 *
 * The snapshot is kept as numbers; no transaction is open while the worker waits, and
 * however many rows wait, it takes no more memory than there are sessions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "cluster/databases.h"
#include "commit/durability.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "wire/clock.h"
#include "worker/barrier.h"

/* Pauses between two looks: each is twice as long as the one before. */
#define FIRST_PAUSE_US INT64CONST(10000)
#define LONGEST_PAUSE_US INT64CONST(250000)

/* A slot that can confirm nothing is complained of this often. */
#define COMPLAINT_US INT64CONST(60000000)

/* The transactions that were over at some moment. */
typedef struct Ended
{
	uint64		below;			/* all before this one */
	uint64		end;			/* none from this one on */
	TransactionId *open;		/* between the two: all but these */
	uint32		nopen;
	uint32		room;
} Ended;

static struct
{
	Ended		safe;			/* the barrier is open for these */
	Ended		noted;			/* it will be for these */
	XLogRecPtr	lsn;			/* when this is confirmed; Invalid: no wait */
	bool		wanted;			/* others have ended, too */
	int64		look_us;		/* the next look */
	int64		pause_us;		/* the pause before it */
	int64		complain_us;	/* no complaint before this */
}			barrier;

/* Those that were confirmed by others must be confirmed again. */
void
eo_barrier_reload(void)
{
	barrier.safe.below = barrier.safe.end = 0;
	barrier.look_us = 0;
}

static bool
has_ended(const Ended *ended, uint64 xid)
{
	if (xid < ended->below)
		return true;
	if (xid >= ended->end)
		return false;
	for (uint32 i = 0; i < ended->nopen; i++)
	{
		if (ended->open[i] == (TransactionId) xid)
			return false;
	}
	return true;
}

bool
eo_barrier_is_open_for(uint64 xid)
{
	if (!eo_durability_is_asked_for() || has_ended(&barrier.safe, xid))
		return true;
	if (XLogRecPtrIsInvalid(barrier.lsn) || !has_ended(&barrier.noted, xid))
		barrier.wanted = true;
	return false;
}

int64
eo_barrier_due_us(void)
{
	if (!XLogRecPtrIsInvalid(barrier.lsn))
		return barrier.look_us;
	return barrier.wanted ? 0 : INT64_MAX;
}

/* ----- waiting ----- */

/* Note the transactions that are over. */
static void
note_ended(Ended *ended)
{
	MemoryContext old = CurrentMemoryContext;
	Snapshot	snapshot;
	uint64		next;

	StartTransactionCommand();
	snapshot = GetLatestSnapshot();

	/*
	 * It is not before the snapshot's end, and less than half the circle
	 * after it.
	 */
	next = U64FromFullTransactionId(ReadNextFullTransactionId());
	ended->end = next - ((TransactionId) next - snapshot->xmax);
	ended->below = ended->end - (snapshot->xmax - snapshot->xmin);
	if (ended->room < snapshot->xcnt)
	{
		if (ended->open != NULL)
			pfree(ended->open);
		ended->room = 2 * snapshot->xcnt;
		ended->open = MemoryContextAlloc(TopMemoryContext, ended->room * sizeof(TransactionId));
	}
	ended->nopen = snapshot->xcnt;
	if (ended->nopen > 0)
		memcpy(ended->open, snapshot->xip, ended->nopen * sizeof(TransactionId));
	CommitTransactionCommand();
	MemoryContextSwitchTo(old);
}

static void
begin_wait(void)
{
	note_ended(&barrier.noted);
	barrier.lsn = GetFlushRecPtr(NULL);
	barrier.wanted = false;
	barrier.pause_us = FIRST_PAUSE_US;
}

/* For sessions that ask what completions wait for. */
static void
publish_wait(void)
{
	EoDatabaseHold hold = {.lsn = barrier.lsn,.from_xid = barrier.safe.below};

	hold.since = GetCurrentTimestamp();
	eo_database_set_held(MyDatabaseId, &hold);
}

/* Slots that are only behind are no reason to complain. */
static void
complain(void)
{
	StringInfoData facts;

	if (barrier.complain_us > eo_clock_monotonic_us())
		return;
	initStringInfo(&facts);
	if (eo_durability_slots(barrier.lsn, &facts) == EO_STANDING_BROKEN)
	{
		barrier.complain_us = eo_clock_monotonic_us() + COMPLAINT_US;
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("exactonce: completions are held back: %s", facts.data),
				 errhint("Make a physical slot of that name for the standby, or take it out of exactonce.synchronized_standby_slots; see idem_check().")));
	}
	pfree(facts.data);
}

bool
eo_barrier_look(void)
{
	bool		waits = !XLogRecPtrIsInvalid(barrier.lsn);

	if (!waits && !barrier.wanted)
		return false;
	if (waits && barrier.look_us > eo_clock_monotonic_us())
		return false;
	if (!waits)
		begin_wait();
	if (eo_durability_has(barrier.lsn))
	{
		Ended		old = barrier.safe;

		barrier.safe = barrier.noted;
		barrier.noted = old;
		barrier.lsn = InvalidXLogRecPtr;
		eo_database_set_held(MyDatabaseId, NULL);
		return true;
	}
	if (!waits)
		publish_wait();
	complain();
	barrier.look_us = eo_clock_monotonic_us() + barrier.pause_us;
	barrier.pause_us = Min(2 * barrier.pause_us, LONGEST_PAUSE_US);
	return false;
}
