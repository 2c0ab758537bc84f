/*
 * window_test.c
 *	  How many calls are under way together, and in which order they are taken.
 *
 * The calls are replaced by ones that take a time of their own (elapsed_us), with
 * a clock that moves only while the code waits.
 */
#include "records/window.h"
#include "unit.h"

#define N_CALLS 400

static int64_t clock_us;
static int	waits;

bool
eo_call_start(EoCall *call, int64_t deadline_us)
{
	call->deadline_us = deadline_us;
	call->next_us = clock_us + call->elapsed_us;
	return call->next_us > clock_us;
}

bool
eo_call_step(EoCall *call, int64_t *until_us)
{
	*until_us = call->next_us;
	return call->next_us > clock_us;
}

void
eo_http_wait(int64_t until_us, EoWaitMode mode)
{
	ok(mode == EO_WAIT_RAISE && until_us > clock_us, "there is something to wait for");
	clock_us = until_us;
	waits++;
}

/* Calls to run, and what became of them. */
typedef struct Work
{
	EoCall		calls[N_CALLS];
	int			n;
	int			started;
	int			taken;
	int			at_once;		/* had their outcome when they were started */
	int			most;			/* that were in the window together */
	char		order[N_CALLS + 1]; /* of taking, if there are few */
	int			repeat;			/* add each call so often once more */
} Work;

static bool
start(EoWindow *window, void *arg)
{
	Work	   *work = arg;

	if (work->started == work->n)
		return false;
	if (!eo_window_add(window, &work->calls[work->started++], 7))
		work->at_once++;
	if (window->n > work->most)
		work->most = window->n;
	return true;
}

static void
take(EoWindow *window, EoCall *call, void *arg)
{
	Work	   *work = arg;

	for (int i = 0; i < window->n; i++)
	{
		if (window->calls[i] == call)
			ok(false, "a call that is taken is still in the window");
	}
	if (call->attempt++ < work->repeat)
	{
		call->elapsed_us = 5;
		ok(eo_window_add(window, call, 7), "a call can be added again");
		return;
	}
	work->order[work->taken++] = (char) ('a' + (call - work->calls));
}

static Work *
make_work(const int *takes_us, int n)
{
	static Work work;

	memset(&work, 0, sizeof(work));
	clock_us = 0;
	waits = 0;
	work.n = n;
	for (int i = 0; i < n; i++)
		work.calls[i].elapsed_us = takes_us != NULL ? takes_us[i] : 10;
	return &work;
}

static void
test_run(void)
{
	static const int takes[] = {30, 10, 20, 0, 40};
	EoWindow	window = {.n = 0};
	Work	   *work;

	work = make_work(takes, 5);
	eo_window_run(&window, 2, start, take, work);
	is_string(work->order, "bace", "calls are taken as they end");
	ok(work->most == 2 && work->at_once == 1, "two are under way together");
	ok(waits == 3 && clock_us == 70, "every wait ends with the first of them");

	work = make_work(takes, 5);
	work->repeat = 1;
	eo_window_run(&window, 5, start, take, work);
	ok(work->taken == 4 && window.n == 0 && clock_us == 45, "the calls that are added again are run, too");

	work = make_work(NULL, 0);
	eo_window_run(&window, 5, start, take, work);
	ok(waits == 0, "without work there is no wait");

	work = make_work(NULL, N_CALLS);
	eo_window_run(&window, 1000, start, take, work);
	ok(work->most == EO_MAX_WINDOW && work->taken == N_CALLS, "there is an upper bound");

	work = make_work(NULL, 3);
	eo_window_run(&window, 0, start, take, work);
	ok(work->most == 1 && work->taken == 3, "and a lower one");
}

static void
test_added(void)
{
	EoWindow	window = {.n = 0};
	Work	   *work = make_work(NULL, 2);

	ok(eo_window_add(&window, &work->calls[0], 7) && eo_window_add(&window, &work->calls[1], 7),
	   "calls can be added before");
	ok(work->calls[0].deadline_us == 7, "with a deadline");
	eo_window_run(&window, 1, NULL, NULL, NULL);
	ok(window.n == 0 && clock_us == 10, "and are run");
}

static bool
turn(EoWindow *window, Work *work, int64_t *until_us)
{
	return eo_window_turn(window, 2, start, take, work, until_us);
}

static void
test_turn(void)
{
	static const int takes[] = {30, 10, 20};
	EoWindow	window = {.n = 0};
	Work	   *work = make_work(takes, 3);
	int64_t		until_us;

	ok(!turn(&window, work, &until_us) && window.n == 2 && until_us == 10,
	   "a turn starts what fits, and says when there is something to do");
	clock_us = 10;
	ok(turn(&window, work, &until_us) && window.n == 1 && work->taken == 1,
	   "another one takes what has ended");
	clock_us = 30;
	ok(turn(&window, work, &until_us) && window.n == 1 && work->taken == 2,
	   "and the next one starts what is left");
	clock_us = 50;
	ok(turn(&window, work, &until_us) && window.n == 0 && work->taken == 3,
	   "until nothing is");
	ok(!turn(&window, work, &until_us) && until_us == INT64_MAX && waits == 0,
	   "a turn never waits");
}

int
main(void)
{
	test_run();
	test_added();
	test_turn();
	return done();
}
