/*-------------------------------------------------------------------------
 *
 * table.h
 *	  The DynamoDB table of a server: describing it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_TABLE_H
#define EO_SQL_TABLE_H

#include "postgres.h"

#include "server/store.h"
#include "wire/status.h"

/* The answer of DescribeTable, as far as it matters here. */
typedef struct EoTableDescription
{
	bool		known;			/* false: the reply describes no table */
	bool		active;			/* can be used */
	bool		key_fits;		/* its key is the one that the layout needs */
	char	   *key;			/* its key as a text for people, palloc'd */
	int64		items;			/* as of some hours ago */
	size_t		replicas;		/* in other regions */
	bool		strongly_consistent;	/* ... with multi-region strong
										 * consistency */
} EoTableDescription;

/*
 * The answer of DescribeTimeToLive.  Neither on nor off: it is being switched
 * off.
 */
typedef struct EoTableTtl
{
	bool		on;				/* or being switched on */
	bool		off;			/* or not described */
	bool		fits;			/* set on the attribute that the layout uses */
} EoTableTtl;

/* Some items of a table that other clients use, too, compared with the layout. */
typedef struct EoTableSample
{
	int			records;		/* that were looked at */
	int			odd;			/* of them cannot be read, or not as the
								 * layout says */
	char	   *why;			/* what is odd about the first of them,
								 * palloc'd */
} EoTableSample;

/* The key that the layout needs, as a text for people, palloc'd. */
extern const char *eo_table_key_needed(EoStore *store);

/*
 * Ask DynamoDB about the table.  False: there was no answer, and *error says why.
 * Neither raises for that.
 */
extern bool eo_table_describe(EoStore *store, EoTableDescription *table, EoError *error);
extern bool eo_table_describe_ttl(EoStore *store, EoTableTtl *ttl, EoError *error);
extern bool eo_table_sample(EoStore *store, EoTableSample *sample, EoError *error);

#endif							/* EO_SQL_TABLE_H */
