/*-------------------------------------------------------------------------
 *
 * action.h
 *	  One-shot actions: the state machine, and what an answer means.
 *
 * All functions work on the current role's store, wait interruptibly, and take
 * effect at once, whatever becomes of the transaction.  An outcome is never an
 * error; errors are of class ID (unavailable, refused) or about arguments.
 * Strings returned are palloc'd.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_ACTIONS_ACTION_H
#define EO_ACTIONS_ACTION_H

#include "postgres.h"

#include "server/store.h"

typedef enum EoActionState
{
	EO_ACTION_IS_PENDING,
	EO_ACTION_IS_ACTIVE,
	EO_ACTION_IS_CONSUMED,
	EO_ACTION_IS_EXPIRED,
	EO_ACTION_IS_CANCELED,
	EO_ACTION_IS_BURNED
} EoActionState;

typedef enum EoActionOutcome
{
	EO_ACTION_CREATED,
	EO_ACTION_ALREADY_EXISTS,
	EO_ACTION_CONSUMED,
	EO_ACTION_ALREADY_USED,
	EO_ACTION_NOT_ACTIVE,
	EO_ACTION_EXPIRED,
	EO_ACTION_CANCELED,
	EO_ACTION_BURNED,
	EO_ACTION_INVALID_PIN,
	EO_ACTION_NOT_FOUND
} EoActionOutcome;

/*
 * An action that is to be made.  Instants are epoch milliseconds; 0: at once, and
 * the default.  payload and pin are UTF-8.
 */
typedef struct EoActionPlan
{
	const char *id;				/* NULL: one is made */
	const char *payload;		/* JSON text; NULL: none */
	const char *pin;			/* NULL: none */
	int64		active_ms;
	int64		expires_ms;
} EoActionPlan;

/* Instants: 0: none. */
typedef struct EoActionResult
{
	EoActionOutcome outcome;
	const char *id;
	char	   *payload;		/* of EO_ACTION_CONSUMED; NULL: none */
	int64		created_ms;
	int64		active_ms;
	int64		expires_ms;
	int64		consumed_ms;
	int			attempts_left;	/* -1: it does not matter */
	bool		replayed;		/* it was so before */
} EoActionResult;

typedef struct EoConsume
{
	const char *id;
	const char *pin;			/* UTF-8; NULL: none given */
	const char *reason;			/* UTF-8; NULL: none */
	const char *consumer;		/* UTF-8 JSON text; NULL: none */
	const char *token;			/* the caller's, for as long as it may ask
								 * again */
} EoConsume;

/* What can be seen without consuming.  Instants: 0: none. */
typedef struct EoActionView
{
	EoActionState state;
	bool		has_pin;
	int			attempts_left;
	int64		created_ms;
	int64		active_ms;
	int64		expires_ms;
	int64		consumed_ms;
	int64		canceled_ms;
	char	   *reason;
	char	   *consumer;		/* JSON text */
} EoActionView;

/*
 * Make actions, parallel_requests at a time.  All plans are checked before the
 * first request: 22023, 54000.  emit() gets the results in the order of the
 * plans; their strings are gone when it returns.  An error later leaves those
 * made that had been made by then.
 */
typedef void (*EoEmitAction) (void *arg, const EoActionResult *result);

extern void eo_action_create(EoStore *store, EoActionPlan *plans, int n, EoEmitAction emit,
							 void *arg);

extern void eo_action_consume(EoStore *store, const EoConsume *ask, EoActionResult *result);
extern void eo_action_cancel(EoStore *store, const char *id, const char *reason,
							 EoActionResult *result);
extern bool eo_action_get(EoStore *store, const char *id, EoActionView *view);

#endif							/* EO_ACTIONS_ACTION_H */
