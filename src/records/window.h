/*-------------------------------------------------------------------------
 *
 * window.h
 *	  Calls under way at the same time, a bounded number of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_WINDOW_H
#define EO_RECORDS_WINDOW_H

#include "wire/call.h"

/* The most requests of a caller at a time, and the most calls of a window. */
#define EO_MAX_PARALLEL 64
#define EO_MAX_WINDOW (5 * EO_MAX_PARALLEL)

/*
 * The calls that are in flight or backing off.  Zeroed, it is empty.  The calls
 * are the caller's: one that is abandoned here, because an error is raised, is
 * ended by eo_call_free().
 */
typedef struct EoWindow
{
	EoCall	   *calls[EO_MAX_WINDOW];
	int			n;
} EoWindow;

/*
 * Start the next piece of work: make a call and add it to the window.  A piece
 * that turns out to need no call may leave the window as it is.  Returns false
 * if there is nothing to start now.
 */
typedef bool (*EoWindowStart) (EoWindow *window, void *arg);

/*
 * Use a call that has its outcome.  It is not in the window any more; it, or
 * another one, may be added again.
 */
typedef void (*EoWindowTake) (EoWindow *window, EoCall *call, void *arg);

/*
 * Start a call and add it to the window, which must have room.  deadline_us is
 * absolute; 0 means the client's request_timeout from now.  Returns false if the
 * call has its outcome already and was not added.
 */
extern bool eo_window_add(EoWindow *window, EoCall *call, int64_t deadline_us);

/*
 * One round without waiting: start work while fewer than parallel calls are in
 * the window, step the calls, and take those that have finished.  Returns false if
 * none has.  Then there is nothing to do before *until_us or the next reply, for
 * which the caller waits in eo_http_wait().
 */
extern bool eo_window_turn(EoWindow *window, int parallel, EoWindowStart start,
						   EoWindowTake take, void *arg, int64_t *until_us);

/*
 * Run until start() has nothing more to start and the window is empty.  Waits in
 * EO_WAIT_RAISE mode: an interrupt leaves this function, and the caller still
 * owns and frees the calls.  start may be NULL, for calls that were added before;
 * so may take.
 */
extern void eo_window_run(EoWindow *window, int parallel, EoWindowStart start,
						  EoWindowTake take, void *arg);

#endif							/* EO_RECORDS_WINDOW_H */
