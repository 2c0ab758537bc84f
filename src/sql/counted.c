/*-------------------------------------------------------------------------
 *
 * counted.c
 *	  Calls of SQL functions are counted and timed, for exactonce_stats.
 *
 * A call that goes on is described on the stack of eo_counted_run(), because calls can be
 * nested: the handler of idem_call() may call any function.  An error ends a call, and so
 * does the end of its process, which raises none that could be caught.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "dynamodb/clock.h"
#include "sql/counted.h"
#include "storage/ipc.h"

/* A call that goes on. */
typedef struct Counted
{
	EoFunction	function;
	EoStats    *stats;			/* of its server; NULL: not known yet */
	int64		started_us;
	bool		told;			/* there is an outcome in told_n */
	uint32		told_n[EO_CALL_OUTCOMES];	/* counted if the call returns */
	struct Counted *outer;
} Counted;

static Counted *current = NULL;

StaticAssertDecl(EO_CALL_ACQUIRED + EO_CLAIM_FAILED == EO_CALL_FAILED &&
				 EO_CALL_ACQUIRED + EO_CLAIM_COMPLETED == EO_CALL_COMPLETED &&
				 EO_CALL_ACQUIRED + EO_CLAIM_IN_PROGRESS == EO_CALL_IN_PROGRESS &&
				 EO_CALL_ACQUIRED + EO_CLAIM_RETRY_LATER == EO_CALL_RETRY_LATER,
				 "the outcomes of claims are in another order");
StaticAssertDecl(EO_CALL_CREATED + EO_ACTION_NOT_FOUND == EO_CALL_NOT_FOUND &&
				 EO_CALL_CREATED + EO_ACTION_CONSUMED == EO_CALL_CONSUMED &&
				 EO_CALL_CREATED + EO_ACTION_EXPIRED == EO_CALL_EXPIRED,
				 "the outcomes of actions are in another order");

/* The process ends, and with it the calls that go on in it. */
static void
note_end(int code, Datum arg)
{
	(void) code;
	(void) arg;
	for (Counted *c = current; c != NULL; c = c->outer)
	{
		if (c->stats != NULL)
			eo_stats_add_call(c->stats, c->function, EO_CALL_TERMINATED, 1);
	}
	current = NULL;
}

static void
note_error(const Counted *c)
{
	if (c->stats == NULL)
		return;
	eo_stats_add_call(c->stats, c->function, EO_CALL_ERROR, 1);
	eo_stats_add_error(c->stats, true, unpack_sql_state(geterrcode()));
	eo_stats_add_time(c->stats, EO_MEASURE_CALL, eo_clock_monotonic_us() - c->started_us);
}

Datum
eo_counted_run(FunctionCallInfo fcinfo, EoFunction function, PGFunction body)
{
	static bool registered = false;
	Counted		c = {.function = function,.outer = current};
	Datum		result;

	if (!registered)
		before_shmem_exit(note_end, (Datum) 0);
	registered = true;
	current = &c;
	PG_TRY();
	{
		result = body(fcinfo);
	}
	PG_CATCH();
	{
		current = c.outer;
		note_error(&c);
		PG_RE_THROW();
	}
	PG_END_TRY();
	current = c.outer;
	if (c.stats != NULL)
	{
		if (!c.told)
			c.told_n[EO_CALL_RETURNED] = 1;
		for (int i = 0; i < EO_CALL_OUTCOMES; i++)
		{
			if (c.told_n[i] > 0)
				eo_stats_add_call(c.stats, function, i, c.told_n[i]);
		}
		eo_stats_add_time(c.stats, EO_MEASURE_CALL, eo_clock_monotonic_us() - c.started_us);
	}
	return result;
}

void
eo_counted_store(const EoStore *store)
{
	if (current == NULL)
		return;
	current->stats = store->stats;
	current->started_us = eo_clock_monotonic_us();
}

static void
tell(EoCallOutcome outcome, uint32 n)
{
	if (current == NULL)
		return;
	current->told_n[outcome] += n;
	current->told = true;
}

void
eo_counted_claim(const EoClaim *claim)
{
	bool		did_the_work = claim->outcome == EO_CLAIM_ACQUIRED ||
	(claim->outcome == EO_CLAIM_COMPLETED && !claim->replayed);

	tell(EO_CALL_ACQUIRED + claim->outcome, 1);
	if (!did_the_work && current != NULL && current->stats != NULL)
		eo_stats_add(current->stats, claim->answered_here ? EO_COUNT_DUPLICATES_HERE :
					 EO_COUNT_DUPLICATES_SERVICE, 1);
}

void
eo_counted_action(EoActionOutcome outcome)
{
	tell(EO_CALL_CREATED + outcome, 1);
}

void
eo_counted_times(int n)
{
	tell(EO_CALL_RETURNED, n);
}
