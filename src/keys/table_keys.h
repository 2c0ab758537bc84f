/*-------------------------------------------------------------------------
 *
 * table_keys.h
 *	  The keys of DynamoDB tables that callers write to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_TABLE_KEYS_H
#define EO_KEYS_TABLE_KEYS_H

#include "postgres.h"

#include "server/store.h"
#include "wire/call.h"
#include "wire/json.h"

/* The attributes that make the key of a table's items. */
typedef struct EoTableKeys
{
	int			n;				/* 1, or 2 with a sort key */
	char	   *names[2];
	char		types[2];		/* 'S', 'N' or 'B' */
} EoTableKeys;

/* Read the key of a table as DescribeTable shows it (NULL: not at all).  False: it has none. */
extern bool eo_table_keys_read(EoJsonValue *table, EoTableKeys *keys);

/* A call whose body begins with the table's name and is left open for further members. */
extern EoCall *eo_table_keys_call(EoStore *store, EoOperation op, const char *table);

/*
 * The key of a table, by DescribeTable; after that the process knows it.  Raises what the
 * request ends with, ID007 if there is no such table or if it may not be described.
 */
extern const EoTableKeys *eo_table_keys_of(EoStore *store, const char *table);

#endif							/* EO_KEYS_TABLE_KEYS_H */
