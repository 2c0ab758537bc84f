/*-------------------------------------------------------------------------
 *
 * action_seal.h
 *	  How the verbs of a commit are spelled for an action, and what it shows of one.
 *
 * Of an action in a native table that a transaction consumes, see docs/actions.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_ACTION_SEAL_H
#define EO_RECORDS_ACTION_SEAL_H

#include "records/verb.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

/* The seal of an action writes this beside what the seal of a key does. */
typedef struct EoActionSeal
{
	const char *token;			/* of the caller that consumes */
	const char *attempt;		/* token of the attempt at the PIN that was
								 * paid; NULL: the action has no PIN */
	const char *reason;			/* NULL: none */
	const char *consumer;		/* JSON text; NULL: none */
} EoActionSeal;

/*
 * Append the body of an UpdateItem: of EO_SEAL_NEW, EO_FINISH, EO_FINISH_OTHER, EO_ABORT or
 * EO_BURY.  Any other verb makes the body fail, see buf.h.
 */
extern void eo_action_seal_put(EoBuf *body, const char *table, const char *pk, EoVerb verb,
							   const EoWrite *w);

/* Is this the item of an action? */
extern bool eo_action_seal_is_item(EoJsonValue *item);

/*
 * Read it as a record: COMMITTING if it is sealed, COMPLETED if it is consumed, and FAILED
 * otherwise.
 */
extern EoStatus eo_action_seal_read(EoJsonValue *item, EoRecord *record) EO_MUST_CHECK;

/* A sentence that says why an action cannot be sealed, which is neither sealed nor consumed. */
extern const char *eo_action_seal_refusal(EoJsonValue *item);

#endif							/* EO_RECORDS_ACTION_SEAL_H */
