/*-------------------------------------------------------------------------
 *
 * action_store.h
 *	  The verbs on actions of a server.
 *
 * The functions that return an EoAnswer follow answer.h.  A refused write of an
 * action is never followed by a read: EO_NOT_APPLIED without exists means that
 * there was no action at that moment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_ACTIONS_ACTION_STORE_H
#define EO_ACTIONS_ACTION_STORE_H

#include "postgres.h"

#include "compat.h"
#include "records/action_item.h"
#include "server/answer.h"
#include "server/store.h"

/* How the actions of a server are spelled.  Raises 0A000 if it has none. */
extern const EoActionLayout *eo_action_store_layout(const EoStore *store);

/* Read an item as eo_action_item_read() does.  Attempts that nobody has counted are all left. */
extern EoStatus eo_action_store_read_item(const EoStore *store, EoJsonValue *json,
										  EoActionItem *item) EO_MUST_CHECK;

/* The partition key of an action's id, palloc'd; NULL: too long for any action. */
extern char *eo_action_store_pk(const EoStore *store, const char *id);

/* The action of such an answer; its values count only if the answer's exists is true. */
extern EoActionItem *eo_action_store_item(const EoAnswer *answer);

/* Prepare a write, to be run by eo_answer_run(). */
extern EoAnswer *eo_action_store_plan(EoStore *store, const char *pk,
									  EoActionVerb verb, const EoActionWrite *w);

/*
 * Run a write, interruptibly, within request_timeout.  w->now_ms is filled in
 * with the instant that the condition was compared with.  If the service
 * refused the time of the request, the write is made once more, when its clock
 * is known.
 */
extern EoAnswer *eo_action_store_write(EoStore *store, const char *pk, EoActionVerb verb,
									   EoActionWrite *w);

/* Run a consistent read, interruptibly, within request_timeout. */
extern EoAnswer *eo_action_store_read(EoStore *store, const char *pk);

/*
 * Make sure that the service's clock is known, before a call judges or writes by it.
 * pk need not exist.  Raises ID006, or what the request for it ends with: could not
 * "doing" action id (NULL: none is named).
 */
extern void eo_action_store_need_clock(EoStore *store, const char *pk, const char *doing,
									   const char *id);

/* Raise the error that a write ended with (EO_FAILED_CALL). */
pg_noreturn extern void eo_action_store_raise(const EoAnswer *answer, EoActionVerb verb,
											  const char *id);

/* Raise that the item of an answer is not an action. */
pg_noreturn extern void eo_action_store_raise_unreadable(const EoAnswer *answer, const char *id);

#endif							/* EO_ACTIONS_ACTION_STORE_H */
