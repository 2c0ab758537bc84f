/*-------------------------------------------------------------------------
 *
 * call_stats.c
 *	  Calls of SQL functions are counted and timed, for exactonce_stats.
 *
 * A call that goes on is described on the stack of eo_call_stats_run(), because calls can be
 * nested: the handler of idem_call() may call any function.  An error ends a call, and so
 * does the end of its process, which raises none that could be caught.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/progress.h"
#include "sql/call_stats.h"
#include "storage/ipc.h"
#include "wire/clock.h"

/* A call that goes on. */
typedef struct Counted
{
	EoFunction	function;
	EoStats    *stats;			/* of its server; NULL: not known yet */
	int64		started_us;
	bool		told;			/* there is an outcome in told_n */
	uint32		told_n[EO_CALL_OUTCOMES];	/* counted if the call returns */
	int			progress;		/* in exactonce_progress; -1: it is not shown */
	struct Counted *outer;
} Counted;

/* Not NULL in the body of a function that is counted: nothing else calls what is below. */
static Counted *current = NULL;

static const char *const function_names[] = {
	[EO_FN_IDEM_ACQUIRE] = "idem_acquire",
	[EO_FN_IDEM_START] = "idem_start",
	[EO_FN_IDEM_ACQUIRE_MANY] = "idem_acquire_many",
	[EO_FN_IDEM_COMPLETE] = "idem_complete",
	[EO_FN_IDEM_COMPLETE_MANY] = "idem_complete_many",
	[EO_FN_IDEM_FAIL] = "idem_fail",
	[EO_FN_IDEM_RELEASE] = "idem_release",
	[EO_FN_IDEM_EXTEND] = "idem_extend",
	[EO_FN_IDEM_GET] = "idem_get",
	[EO_FN_IDEM_FORGET] = "idem_forget",
	[EO_FN_IDEM_RESOLVE] = "idem_resolve",
	[EO_FN_IDEM_GIVE_UP] = "idem_give_up",
	[EO_FN_IDEM_CALL] = "idem_call",
	[EO_FN_IDEM_HTTP] = "idem_http",
	[EO_FN_IDEM_GUARD] = "idem_guard",
	[EO_FN_IDEM_MIRROR] = "idem_mirror",
	[EO_FN_IDEM_ONCE] = "idem_once",
	[EO_FN_IDEM_TRANSACT] = "idem_transact",
	[EO_FN_IDEM_WRITE] = "idem_write",
	[EO_FN_IDEM_LIST] = "idem_list",
	[EO_FN_IDEM_SWEEP] = "idem_sweep",
	[EO_FN_IDEM_AUDIT] = "idem_audit",
	[EO_FN_IDEM_TAKE_OVER] = "idem_take_over",
	[EO_FN_IDEM_CHECK] = "idem_check",
	[EO_FN_IDEM_CREATE_TABLE] = "idem_create_table",
	[EO_FN_ACTION_CREATE] = "action_create",
	[EO_FN_ACTION_CREATE_MANY] = "action_create_many",
	[EO_FN_ACTION_GET] = "action_get",
	[EO_FN_ACTION_CONSUME] = "action_consume",
	[EO_FN_ACTION_CANCEL] = "action_cancel",
	[EO_FN_ACTION_RESOLVE] = "action_resolve",
	[EO_FN_ACTION_LIST] = "action_list"
};

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
		eo_progress_end(c->progress);
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
eo_call_stats_run(FunctionCallInfo fcinfo, EoFunction function, PGFunction body)
{
	static bool registered = false;
	Counted		c = {.function = function,.progress = -1,.outer = current};
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
		eo_progress_end(c.progress);
		note_error(&c);
		PG_RE_THROW();
	}
	PG_END_TRY();
	current = c.outer;
	eo_progress_end(c.progress);
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
eo_call_stats_store(const EoStore *store)
{
	current->stats = store->stats;
	current->started_us = eo_clock_monotonic_us();
}

static void
tell(EoCallOutcome outcome, uint32 n)
{
	current->told_n[outcome] += n;
	current->told = true;
}

void
eo_call_stats_progress(const EoStore *store, int64 total)
{
	current->progress = eo_progress_begin(eo_call_stats_function_name(current->function),
										  store->server->serverid, total);
}

const char *
eo_call_stats_function_name(EoFunction function)
{
	return function_names[function];
}

void
eo_call_stats_claim(const EoClaim *claim)
{
	bool		did_the_work = claim->outcome == EO_CLAIM_ACQUIRED ||
	(claim->outcome == EO_CLAIM_COMPLETED && !claim->replayed);

	tell(EO_CALL_ACQUIRED + claim->outcome, 1);
	if (!did_the_work)
		eo_stats_add(current->stats, claim->answered_here ? EO_COUNT_DUPLICATES_HERE :
					 claim->answered_from_cache ? EO_COUNT_DUPLICATES_CACHE :
					 EO_COUNT_DUPLICATES_SERVICE, 1);
}

void
eo_call_stats_action(EoActionOutcome outcome)
{
	tell(outcome == EO_ACTION_IN_PROGRESS ? EO_CALL_IN_PROGRESS : EO_CALL_CREATED + outcome, 1);
}

void
eo_call_stats_times(int n)
{
	tell(EO_CALL_RETURNED, n);
}
