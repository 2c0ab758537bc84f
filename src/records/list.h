/*-------------------------------------------------------------------------
 *
 * list.h
 *	  The bodies of scans, and of the deletes of what they find.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_LIST_H
#define EO_RECORDS_LIST_H

#include "records/expression.h"
#include "records/layout.h"
#include "wire/buf.h"
#include "wire/json.h"

/*
 * A page of a scan: which items, and how much of them.  prefix is that of the keys' text;
 * "" or NULL: all.  states, of scans without a prefix: records that have an origin and one
 * of these two; {NULL}: all.  Then names has the attributes of both at the two places.
 */
typedef struct EoListPage
{
	const char *table;
	const char *prefix;
	const char *states[2];
	int			limit;			/* items that the request reads at most */
	const char *start_pk;		/* it begins behind this one; NULL: the first */
} EoListPage;

#define EO_LIST_ORIGIN 0
#define EO_LIST_STATUS 1

#define EO_LIST_ENDED_NAMES 16

/*
 * Append the body of a consistent Scan.  The attributes named come with an item, those
 * without a name are left out; NULL: all come.
 */
extern void eo_list_put_page(EoBuf *body, const EoItemKey *key, const char *const *names,
							 size_t nnames, const EoListPage *page);

/* The same for records with what the recovery scan needs of them. */
extern void eo_list_put_sealed(EoBuf *body, const EoLayout *layout, const EoListPage *page);

/* The same for records, with their results or without. */
extern void eo_list_put_records(EoBuf *body, const EoLayout *layout, bool results,
								const EoListPage *page);

/*
 * Append the body of a DeleteItem, on condition that the attributes named are as they are in
 * this item, the same or absent.  It must have one of them.  NULL names no attribute.
 */
extern void eo_list_put_delete(EoBuf *body, const EoItemKey *key, const char *table, const char *pk,
							   EoJsonValue *item, const char *const *names, size_t nnames);

/*
 * The attributes of a record that say whether it may be deleted: those that the scan reads, and
 * the delete compares.  None of them is long.  Returns how many names they are, some NULL, of
 * EO_LIST_ENDED_NAMES at most; so do the functions of actions and lives.
 */
extern size_t eo_list_ended_names(const EoLayout *layout, const char **names);

#endif							/* EO_RECORDS_LIST_H */
