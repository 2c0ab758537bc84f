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

#endif							/* EO_KEYS_OPERATOR_H */
