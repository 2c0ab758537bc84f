/*-------------------------------------------------------------------------
 *
 * window.c
 *	  Calls under way at the same time, a bounded number of them.
 *
 * Nothing here waits but eo_window_run(), which calls eo_http_wait().  The
 * transport works only during that wait; a finished transfer is noticed by the
 * step that follows it.
 *
 *-------------------------------------------------------------------------
 */
#include "records/window.h"

#include "wire/http.h"

static int	step_calls(EoWindow *window, EoCall **finished, int64_t *until_us);

bool
eo_window_add(EoWindow *window, EoCall *call, int64_t deadline_us)
{
	if (!eo_call_start(call, deadline_us))
		return false;
	window->calls[window->n++] = call;
	return true;
}

bool
eo_window_turn(EoWindow *window, int parallel, EoWindowStart start, EoWindowTake take,
			   void *arg, int64_t *until_us)
{
	EoCall	   *finished[EO_MAX_WINDOW];
	int			n;

	if (parallel > EO_MAX_WINDOW)
		parallel = EO_MAX_WINDOW;
	if (parallel < 1)
		parallel = 1;
	while (start != NULL && window->n < parallel && start(window, arg))
		 /* fill the window */ ;
	n = step_calls(window, finished, until_us);
	for (int i = 0; take != NULL && i < n; i++)
		take(window, finished[i], arg);
	return n > 0;
}

/*
 * Step each call.  Those that have got their outcome go from the window to
 * finished[], which has room for all; their number is returned.
 */
static int
step_calls(EoWindow *window, EoCall **finished, int64_t *until_us)
{
	int			nfinished = 0;

	*until_us = INT64_MAX;
	for (int i = 0; i < window->n; i++)
	{
		EoCall	   *call = window->calls[i];
		int64_t		call_until_us;

		if (!eo_call_step(call, &call_until_us))
		{
			finished[nfinished++] = call;
			window->calls[i--] = window->calls[--window->n];
		}
		else if (call_until_us < *until_us)
			*until_us = call_until_us;
	}
	return nfinished;
}

void
eo_window_run(EoWindow *window, int parallel, EoWindowStart start, EoWindowTake take, void *arg)
{
	int64_t		until_us;

	/*
	 * A round that finishes nothing has asked start() as long as there was
	 * room.  So if the window is empty after it, there was nothing to start.
	 */
	for (;;)
	{
		if (eo_window_turn(window, parallel, start, take, arg, &until_us))
			continue;
		if (window->n == 0)
			return;
		eo_http_wait(until_us, EO_WAIT_RAISE);
	}
}
