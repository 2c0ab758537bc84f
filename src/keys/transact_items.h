/*-------------------------------------------------------------------------
 *
 * transact_items.h
 *	  The caller's writes of idem_transact(): read, checked, and written in
 *	  DynamoDB's own JSON.
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
	bool		conditional;	/* it has a condition, or is one */
	size_t		size;			/* of its attributes' names and values, as
								 * DynamoDB counts them */
	int			start;			/* where it is in source, and how long */
	int			len;
} EoTransactItem;

typedef struct EoTransactItems
{
	int			n;
	EoTransactItem *actions;	/* messages count them from 1 */
	char	   *text;			/* all actions in UTF-8, separated by commas */
	char	   *source;			/* the same in the encoding of the database */
} EoTransactItems;

/*
 * Read the writes of a document.  What is filled in refers to the document, or is
 * palloc'd.  Raises 54000 for too many, and 22023, with its position, for a write that is not
 * in the form of an action, or that DynamoDB refuses whatever its tables contain.
 */
extern void eo_transact_items_read(Jsonb *writes, EoTransactItems *actions);

/*
 * The string that an action's key has under this name, palloc'd; NULL: there is
 * none.
 */
extern char *eo_transact_item_key_string(const EoTransactItem *action, const char *name);

/*
 * The text of a value of this type in typed form, or of a plain string for "S", palloc'd;
 * NULL: it is another value.
 */
extern char *eo_transact_item_string(const JsonbValue *v, char type);

/* The next member of the object that is iterated over; false: there is none. */
extern bool eo_transact_item_next_member(JsonbIterator **it, JsonbValue *name, JsonbValue *value);

#endif							/* EO_KEYS_TRANSACT_ITEMS_H */
