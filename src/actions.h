/*-------------------------------------------------------------------------
 *
 * actions.h
 *	  The caller's own writes of a transaction: read, checked, and spelled as
 *	  DynamoDB has them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_ACTIONS_H
#define EO_ACTIONS_H

#include "postgres.h"

#include "utils/jsonb.h"

typedef struct EoAction
{
	const char *operation;		/* "Put", "Update", "Delete", "ConditionCheck" */
	bool		writes;			/* all but the last of these */
	char	   *table;
	JsonbContainer *key;		/* its Key or, of a Put, its Item */
} EoAction;

typedef struct EoActions
{
	int			n;
	EoAction   *actions;		/* positions are told from 1 */
	char	   *text;			/* UTF-8: one after the other, commas between */
} EoActions;

/*
 * Raises 22023 with the position for what is no action, and 54000 for too many.
 * What it fills in refers to the document.
 */
extern void eo_actions_read(Jsonb *writes, EoActions *actions);

/* The string under that name of the action's key; NULL: there is none. */
extern char *eo_action_key_string(const EoAction *action, const char *name);

#endif							/* EO_ACTIONS_H */
