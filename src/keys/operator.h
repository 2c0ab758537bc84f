/*-------------------------------------------------------------------------
 *
 * operator.h
 *	  What others than the owner do with a key.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_OPERATOR_H
#define EO_KEYS_OPERATOR_H

#include "postgres.h"

#include "dynamodb/record.h"
#include "server/store.h"

/*
 * operator.c.  False: there is no live record.  As this transaction sees it: what it has
 * completed is completed.  Strings belong to the current memory context.
 */
extern bool eo_operator_get(EoStore *store, const char *key, EoRecord *record);

/* False: there is no record. */
extern bool eo_operator_forget(EoStore *store, const char *key);

/*
 * False: the record is not COMMITTING.  completed: or else failed.  origin:
 * the database, if it is another one; NULL: this one.
 */
extern bool eo_operator_resolve(EoStore *store, const char *key, bool completed,
								const char *origin);

/*
 * Give up a completion that has committed and can never be written: its record or
 * table is gone, belongs to somebody else, or no server leads there any more.  id is
 * that of exactonce_pending.  False: there is no such row.  Raises 22023, and 55000
 * if the completion can still be written.
 */
extern bool eo_operator_give_up(const char *id);

#endif							/* EO_KEYS_OPERATOR_H */
