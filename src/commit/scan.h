/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  A table that is read from end to end, page by page and at a bounded rate.
 *
 * The worker makes a call for each page, runs it, and takes it, without waiting or raising
 * an error.  Sessions have the whole table read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SCAN_H
#define EO_COMMIT_SCAN_H

#include "postgres.h"

#include "records/action_item.h"
#include "records/record.h"
#include "server/store.h"
#include "wire/call.h"
#include "wire/json.h"

typedef enum EoScanKind
{
	EO_SCAN_SEALED,				/* records that name a life, for the protocol */
	EO_SCAN_RECORDS,			/* those of all writers, for people */
	EO_SCAN_ACTIONS,			/* for people */
	EO_SCAN_ENDED				/* whatever a sweep may delete */
} EoScanKind;

typedef struct EoScan
{
	/* Set by the caller.  The rest is zeroed at the beginning. */
	EoScanKind	kind;
	EoState		states[2];		/* EO_SCAN_SEALED: records in other states are
								 * left out */
	const char *prefix;			/* of the others: of the partition key */
	bool		results;		/* EO_SCAN_RECORDS: come with their results */
	const EoActionLayout *actions;	/* EO_SCAN_ACTIONS; EO_SCAN_ENDED: NULL if
									 * there are none */
	int			page_items;		/* items that a request reads at most */
	MemoryContext context;		/* of start_pk */

	char	   *start_pk;		/* the next page begins behind it; NULL: at
								 * the beginning */
	int			limit;			/* items of the next page at most, if a page
								 * was too long to be read; 0: page_items */
	int			short_pages;	/* that were read since */
	bool		steps_over;		/* the next page is the key of an item that is
								 * too long by itself */
	int64		items;			/* that were read so far */
	int64		unreadable;		/* that were stepped over; the caller counts
								 * those that it cannot read */
	bool		ended;			/* the last page was taken */
} EoScan;

/* Have the next page be the first. */
extern void eo_scan_rewind(EoScan *scan);

/* Have this call, which is initialized and has no body yet, read the next page. */
extern void eo_scan_prepare(const EoScan *scan, EoStore *store, EoCall *call);

/*
 * The call of a page has failed.  Returns true if that was because it is too long to be read:
 * then a smaller one is asked for, or its only item is stepped over.
 */
extern bool eo_scan_narrow(EoScan *scan, const EoCall *call, int64 *units);

/*
 * Move on behind a page that was read.  Returns its records, which last as long as the
 * call, and in *units the read capacity that it took, 1 at least.
 */
extern EoJsonValue *eo_scan_take(EoScan *scan, const EoStore *store, const EoCall *call,
								 int64 *units);

/* The pause that is due after a request of this capacity, at a rate of units a second. */
static inline int64
eo_scan_pause_us(int64 units, int units_per_second)
{
	return units * 1000000 / Max(1, units_per_second);
}

/* ---- for a session ---- */

/* A reading of the whole table that goes on. */
typedef struct EoPages
{
	/* Set by the caller, with scan.kind and what belongs to it. */
	EoStore    *store;
	int			units_per_second;
	EoScan		scan;

	/* The caller counts up what it has found, for exactonce_progress. */
	int64		found;

	int64		due_us;			/* the next request */
} EoPages;

/*
 * Read the table, and give each of its items to take(), whose memory context is reset
 * after a page.  An interrupt raises, and so does a request that fails.
 */
extern void eo_scan_read(EoPages *pages, void (*take) (EoJsonValue *item, void *arg), void *arg);

/* Warn if items of the table could not be read, and so are not listed. */
extern void eo_scan_warn(const EoPages *pages);

/* Wait until the next request is due. */
extern void eo_scan_wait(EoPages *pages);

/* A request took these units of capacity: have the next one wait for them. */
extern void eo_scan_pay(EoPages *pages, int64 units);

#endif							/* EO_COMMIT_SCAN_H */
