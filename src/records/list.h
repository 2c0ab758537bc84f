/*-------------------------------------------------------------------------
 *
 * list.h
 *	  The bodies of scans that list items for people.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_LIST_H
#define EO_DYNAMODB_LIST_H

#include "records/expression.h"
#include "records/layout.h"
#include "wire/buf.h"

/* A page of a scan: which items, and how much of them. */
typedef struct EoListPage
{
	const char *table;
	const char *prefix;			/* of the keys' text; "": all */
	int			limit;			/* items that the request reads at most */
	const char *start_pk;		/* it begins behind this one; NULL: the first */
} EoListPage;

/*
 * Append the body of a consistent Scan.  The attributes named come with an item, those
 * without a name are left out; NULL: all come.
 */
extern void eo_list_put_page(EoBuf *body, const EoItemKey *key, const char *const *names,
							 size_t nnames, const EoListPage *page);

/* The same for records, with their results or without. */
extern void eo_list_put_records(EoBuf *body, const EoLayout *layout, bool results,
								const EoListPage *page);

#endif							/* EO_DYNAMODB_LIST_H */
