/*-------------------------------------------------------------------------
 *
 * table_mode.h
 *	  Whether a table has transactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_TABLE_MODE_H
#define EO_SERVER_TABLE_MODE_H

#include "postgres.h"

#include "server/store.h"
#include "wire/json.h"

/* Is the table that DescribeTable shows (NULL: none) one with multi-region strong consistency? */
extern bool eo_table_mode_is_strong(EoJsonValue *description);

/* Raise 0A000 if it is, and so has no transactions. */
extern void eo_table_mode_check(const EoStore *store, const char *table, EoJsonValue *description);

/*
 * Ask DynamoDB, and raise 0A000 if the table has no transactions.  Returns false if there was no
 * answer.  A role that may not ask is not held up by that: the service itself will refuse.
 */
extern bool eo_table_mode_ask(EoStore *store, const char *table);

#endif							/* EO_SERVER_TABLE_MODE_H */
