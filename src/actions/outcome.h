/*-------------------------------------------------------------------------
 *
 * outcome.h
 *	  A request to consume an action, and the outcome of a call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_ACTIONS_OUTCOME_H
#define EO_ACTIONS_OUTCOME_H

#include "postgres.h"

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
	EO_ACTION_NOT_FOUND,
	EO_ACTION_IN_PROGRESS		/* another transaction may have consumed it */
} EoActionOutcome;

/* The outcome of a call.  Instants are epoch milliseconds, 0 if there is none. */
typedef struct EoActionResult
{
	EoActionOutcome outcome;
	const char *id;				/* borrowed from the caller's argument */
	char	   *payload;		/* of EO_ACTION_CONSUMED; NULL: none */
	int64		created_ms;
	int64		active_ms;
	int64		expires_ms;
	int64		consumed_ms;
	int			attempts_left;	/* of EO_ACTION_INVALID_PIN; else -1 */
	bool		replayed;		/* an earlier call had this effect */
	bool		again;			/* for the files of src/actions: it was in
								 * progress, and is not any more */
} EoActionResult;

typedef struct EoConsume
{
	const char *id;
	const char *pin;			/* UTF-8; NULL: none given */
	const char *reason;			/* UTF-8; NULL: none */
	const char *consumer;		/* UTF-8 JSON text; NULL: none */
	const char *token;			/* the caller's; a retry must bring the same */
	bool		at_commit;		/* if and only if the transaction commits */
} EoConsume;

#endif							/* EO_ACTIONS_OUTCOME_H */
