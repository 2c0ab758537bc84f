/*-------------------------------------------------------------------------
 *
 * action.h
 *	  One-shot actions: creating, consuming, cancelling and reading them.
 *
 * All functions wait interruptibly and take effect at once, whatever becomes of
 * the transaction, except for a consume at commit.  An outcome is never an error: what
 * is raised is of class ID (ID006, ID007) or about arguments.  Strings returned are
 * palloc'd.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_ACTIONS_ACTION_H
#define EO_ACTIONS_ACTION_H

#include "postgres.h"

#include "actions/outcome.h"
#include "server/store.h"

typedef enum EoActionState
{
	EO_ACTION_IS_PENDING,
	EO_ACTION_IS_ACTIVE,
	EO_ACTION_IS_CONSUMED,
	EO_ACTION_IS_EXPIRED,
	EO_ACTION_IS_CANCELED,
	EO_ACTION_IS_BURNED,
	EO_ACTION_IS_COMMITTING		/* a transaction that consumes it is being
								 * committed */
} EoActionState;

/*
 * An action to create.  Instants are epoch milliseconds; id is in the encoding of
 * the database.
 */
typedef struct EoActionPlan
{
	const char *id;				/* NULL: one is made */
	const char *payload;		/* UTF-8 JSON text; NULL: none */
	const char *pin;			/* UTF-8; NULL: none */
	int64		active_ms;		/* 0: at once */
	int64		expires_ms;		/* 0: 30 days after it becomes active */
} EoActionPlan;

/* An action as it can be seen without consuming it.  Instants as in EoActionResult. */
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

/* Gets a result; its strings are freed when this returns. */
typedef void (*EoEmitAction) (void *arg, const EoActionResult *result);

/*
 * Create actions, parallel_requests at a time, and emit the results in the order
 * of the plans.  All plans are checked before the first request (22023, 54000),
 * and their expires_ms is filled in.  An error after that leaves the actions
 * created that had been created by then.  In action_create.c.
 */
extern void eo_action_create(EoStore *store, EoActionPlan *plans, int n, EoEmitAction emit,
							 void *arg);

/*
 * Consume an action.  result->id is ask->id.  At commit the outcome EO_ACTION_CONSUMED says
 * that the action is consumed when the transaction commits, which may still fail.
 */
extern void eo_action_consume(EoStore *store, const EoConsume *ask, EoActionResult *result);

/*
 * Cancel an action.  reason is UTF-8, NULL: none.  When the outcome says that the
 * action is over, no request in flight can consume it any more.
 */
extern void eo_action_cancel(EoStore *store, const char *id, const char *reason,
							 EoActionResult *result);

typedef struct EoActionList
{
	bool		any_state;
	EoActionState state;		/* unless any_state */
	const char *prefix;			/* of the id; "": all */
	int64		older_than_ms;	/* since the creation; 0: any */
	int			units_per_second;
} EoActionList;

/*
 * Scan the server's table and emit the actions that match, in no order, with their ids.  The
 * strings are freed when emit() returns.
 */
extern void eo_action_list(EoStore *store, const EoActionList *ask,
						   void (*emit) (const char *id, const EoActionView *view, void *arg),
						   void *arg);

/* Read an action without consuming it; false: there is none. */
extern bool eo_action_get(EoStore *store, const char *id, EoActionView *view);

#endif							/* EO_ACTIONS_ACTION_H */
