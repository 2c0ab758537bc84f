/*-------------------------------------------------------------------------
 *
 * action_commit.c
 *	  Actions that a transaction consumes when it commits.
 *
 * Such an action is a claim at commit, as a key of idem_once(): a slot that is PLANNED, and
 * a row in the outbox, which is the decision.  PRE_COMMIT seals it on condition that it can
 * be consumed then; the worker finishes it, or takes the seal back (src/commit).  What is
 * read and paid for at the call (the payload, an attempt at the PIN) is not undone by a
 * rollback.
 *
 * Until the seal nothing is held, so another caller may consume or cancel the action, and the
 * COMMIT fails.  Within one cluster a second transaction is told at the call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "actions/action_commit.h"
#include "actions/outcome.h"
#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/completion.h"
#include "commit/prepared.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "miscadmin.h"
#include "records/action_item.h"
#include "records/action_seal.h"
#include "records/token.h"
#include "server/store.h"
#include "server/text.h"
#include "utils/memutils.h"

static void
find(const EoStore *store, const char *pk, EoTarget *target, uint8 *digest)
{
	eo_target_of(store, target);
	eo_target_digest(target, pk, digest);
}

bool
eo_action_commit_knows(EoStore *store, const char *pk, const EoConsume *ask,
					   EoActionResult *result)
{
	EoTarget	target;
	uint8		digest[EO_DIGEST_LEN];
	EoTxClaim  *mine;
	EoSlotView	view;

	if (!store->layout->is_native)
	{
		if (ask->at_commit)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("actions of server \"%s\" cannot be consumed at commit", store->server->name),
					 errdetail("The state of an action that is being committed is known in tables of the layout native only."),
					 errhint("Leave out at => 'commit', and make the consume repeatable with a token.")));
		return false;
	}
	find(store, pk, &target, digest);
	mine = eo_xact_find(digest);
	if (mine != NULL)
		eo_store_check_account(store, mine->store, ask->id);
	result->outcome = EO_ACTION_IN_PROGRESS;
	if (mine != NULL && strcmp(mine->action->token, ask->token) == 0)
	{
		result->outcome = EO_ACTION_CONSUMED;
		result->payload = eo_text_copy(mine->result);
		result->replayed = true;
	}
	if (mine != NULL)
		return true;
	if (!eo_prepared_find_slot(digest, &view))
		return ask->at_commit && eo_slot_view_is_planned(digest);
	if (!eo_slot_state_is_over(view.info.state))
		return eo_store_is_trusted(store, view.info.credentials_hash);
	eo_settle_on_the_spot(store, ask->id, &view);
	return false;
}

void
eo_action_commit_plan(EoStore *store, const char *pk, const EoConsume *ask, const char *attempt,
					  const EoActionItem *action, EoActionResult *result)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	EoActionSeal *seal = palloc0(sizeof(EoActionSeal));
	EoTarget	target;
	EoSlotInfo	info;
	uint8		digest[EO_DIGEST_LEN];
	char		token[EO_TOKEN_LEN + 1];
	EoTxClaim  *claim;
	EoSlotView	view;

	find(store, pk, &target, digest);

	/*
	 * The row would wait for the end of a transaction that was prepared since
	 * the action was read.
	 */
	if (eo_prepared_find_slot(digest, &view) && eo_slot_is_prepared(&view.info))
	{
		MemoryContextSwitchTo(old);
		result->outcome = EO_ACTION_IN_PROGRESS;
		return;
	}
	seal->token = pstrdup(ask->token);
	seal->attempt = attempt[0] != '\0' ? pstrdup(attempt) : NULL;
	seal->reason = ask->reason != NULL ? pstrdup(ask->reason) : NULL;
	seal->consumer = ask->consumer != NULL ? pstrdup(ask->consumer) : NULL;
	MemoryContextSwitchTo(old);

	eo_store_new_token(token);
	eo_slot_info_init(&info, EO_SLOT_PLANNED, digest, token);
	info.once = true;
	info.release_on_abort = true;
	info.retention_s = store->server->retention_s;
	claim = eo_xact_add(store, ask->id, pk, &target, &info);
	claim->action = seal;
	eo_completion_add(claim, &target, NULL, action->payload);
	result->outcome = EO_ACTION_CONSUMED;
	result->payload = eo_text_copy(action->payload);
}

EoFate
eo_action_commit_fate(EoStore *store, const char *id, const char *pk, const EoActionItem *action,
					  bool may_write)
{
	EoRecord	r;
	EoFate		fate;

	if (RecoveryInProgress() || eo_action_seal_read(action->item, &r) != EO_OK)
		return EO_FATE_ELSEWHERE;
	fate = eo_settle_fate(store, &r, NULL);
	if (fate == EO_FATE_ABORTED && may_write && !eo_settle_aborted(store, id, pk, &r))
		return EO_FATE_ELSEWHERE;
	return fate;
}

/* An action that was consumed outside of a transaction has no origin. */
void
eo_action_commit_check_visible(const EoStore *store, const char *id, const EoActionItem *action)
{
	EoRecord	r;

	if (!store->layout->is_native || eo_action_seal_read(action->item, &r) != EO_OK ||
		!eo_settle_is_hidden(&r))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access: action \"%s\" on server \"%s\" was consumed by a concurrent transaction",
					eo_text_key_shown(id), store->server->name),
			 errdetail("What that transaction did is not visible to the snapshot of this one."),
			 errhint("Retry the transaction, and consume its actions first.")));
}
