/*-------------------------------------------------------------------------
 *
 * transact_items.h
 *	  The caller's own writes of a transaction: read, checked, and spelled as
 *	  DynamoDB has them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_TRANSACT_ITEMS_H
#define EO_KEYS_TRANSACT_ITEMS_H

#include "postgres.h"

#include "utils/jsonb.h"

typedef struct EoTransactItem
{
	const char *operation;		/* "Put", "Update", "Delete", "ConditionCheck" */
	bool		writes;			/* all but the last of these */
	char	   *table;
	JsonbContainer *key;		/* its Key or, of a Put, its Item */
} EoTransactItem;

typedef struct EoTransactItems
{
	int			n;
	EoTransactItem *actions;	/* positions are told from 1 */
	char	   *text;			/* UTF-8: one after the other, commas between */
} EoTransactItems;

/*
 * Raises 22023 with the position for what is no action, and 54000 for too many.
 * What it fills in refers to the document.
 */
extern void eo_transact_items_read(Jsonb *writes, EoTransactItems *actions);

/* The string under that name of the action's key; NULL: there is none. */
extern char *eo_transact_item_key_string(const EoTransactItem *action, const char *name);

#endif							/* EO_KEYS_TRANSACT_ITEMS_H */
