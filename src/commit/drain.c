/*-------------------------------------------------------------------------
 *
 * drain.c
 *	  For an operator: have this database leave nothing to be done.
 *
 * Before a switchover, pg_upgrade or DROP DATABASE everything that was committed should
 * be COMPLETED, and nothing be under way.  Then the life of the database can be closed,
 * and the life after it has nothing to inherit.
 *
 * Several sessions may drain a database at once.  Each of them bars new claims for as long as it
 * waits, however it ends.  After one that has found nothing left they stay barred.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/slot_views.h"
#include "commit/drain.h"
#include "commit/xact.h"
#include "ledger/outbox.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "wire/clock.h"
#include "wire/http.h"

#define LOOK_US INT64CONST(20000)

static int	rows;
static bool waits;				/* this session bars new claims */

static bool
count_row(const EoOutboxRow *row)
{
	(void) row;
	rows++;
	return true;
}

/* Has this database any life: current, being closed, or given up and not retired everywhere? */
static bool
has_life(void)
{
	uint32		cursor = 0;
	Oid			dboid;

	while (eo_life_next_database(&cursor, &dboid))
	{
		if (dboid == MyDatabaseId)
			return true;
	}
	return false;
}

/* The claims of this database and its rows that are unfinished, and its lives. */
static int
count_left(void)
{
	int			claims = eo_slot_view_count(MyDatabaseId, InvalidOid);

	rows = 0;
	(void) eo_outbox_visit(0, count_row);
	return claims + rows + has_life();
}

static int
wait_for_end(int64 timeout_ms)
{
	int64		give_up_us = eo_clock_monotonic_us() + timeout_ms * 1000;
	int			left;

	while ((left = count_left()) > 0 && eo_clock_monotonic_us() < give_up_us)
	{
		/* A worker is needed even if none was: it closes the life. */
		(void) eo_database_want(MyDatabaseId);
		eo_database_wake(MyDatabaseId);
		eo_http_wait(eo_clock_monotonic_us() + LOOK_US, EO_WAIT_RAISE);
	}
	return left;
}

static void
stop_waiting(bool drained)
{
	if (waits)
		eo_database_drain_end(MyDatabaseId, drained);
	waits = false;
}

/* The process ends, perhaps while it waits: PG_CATCH is not reached by FATAL. */
static void
stop_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	stop_waiting(false);
}

int
eo_drain(int64 timeout_ms)
{
	static bool registered = false;
	int			left;

	if (eo_xact_has_work())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot drain the database: this transaction has claims, or writes that wait for its commit"),
				 errhint("Call idem_drain() in a session of its own.")));
	if (!registered)
		before_shmem_exit(stop_at_exit, (Datum) 0);
	registered = true;
	waits = eo_database_drain(MyDatabaseId);
	if (!waits)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("no room to drain the database"),
				 errdetail("Too many other databases of this cluster have claims, or workers."),
				 errhint("Call idem_drain() again when one of them has no work any more.")));
	PG_TRY();
	{
		left = wait_for_end(timeout_ms);
	}
	PG_CATCH();
	{
		stop_waiting(false);
		PG_RE_THROW();
	}
	PG_END_TRY();
	stop_waiting(left == 0);
	return left;
}

void
eo_drain_end(void)
{
	eo_database_undrain(MyDatabaseId);
}
