/*-------------------------------------------------------------------------
 *
 * action_commit.h
 *	  Actions that a transaction consumes when it commits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_ACTIONS_ACTION_COMMIT_H
#define EO_ACTIONS_ACTION_COMMIT_H

#include "postgres.h"

#include "actions/outcome.h"
#include "commit/settle.h"
#include "records/action_item.h"
#include "server/store.h"

/*
 * Is it known without a request what becomes of the consume?  This transaction consumes
 * the action already, or another one of this cluster does.  Then the result is filled in.
 * Raises 0A000 if the server's actions cannot be consumed at commit.
 */
extern bool eo_action_commit_knows(EoStore *store, const char *pk, const EoConsume *ask,
								   EoActionResult *result);

/*
 * Have this transaction consume an action that can be consumed now, and fill in the
 * result; unless a prepared transaction is about to consume it.  attempt is the token of the
 * attempt that was paid, "": the action has no PIN.  Raises what eo_xact_add() and
 * eo_outbox_guard_add() raise.
 */
extern void eo_action_commit_plan(EoStore *store, const char *pk, const EoConsume *ask,
								  const char *attempt, const EoActionItem *action,
								  EoActionResult *result);

/*
 * How did the transaction end that has sealed the action?  If may_write is true and it is
 * EO_FATE_ABORTED, the action is given back, unless it has changed since it was read.
 * EO_FATE_ELSEWHERE, too, if it may not be given back yet (eo_settle_aborted()).
 */
extern EoFate eo_action_commit_fate(EoStore *store, const char *id, const char *pk,
									const EoActionItem *action, bool may_write);

/*
 * Raise 40001 if a transaction of this database has consumed the action, and the snapshot of
 * the current one does not show what else that did.
 */
extern void eo_action_commit_check_visible(const EoStore *store, const char *id,
										   const EoActionItem *action);

#endif							/* EO_ACTIONS_ACTION_COMMIT_H */
