/*-------------------------------------------------------------------------
 *
 * pages.h
 *	  A table is read from end to end for a session, at a bounded rate.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_PAGES_H
#define EO_COMMIT_PAGES_H

#include "postgres.h"

#include "server/scan.h"
#include "server/store.h"
#include "wire/json.h"

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
extern void eo_pages_read(EoPages *pages, void (*take) (EoJsonValue *item, void *arg), void *arg);

/* Wait until the next request is due. */
extern void eo_pages_wait(EoPages *pages);

/* A request took these units of capacity: have the next one wait for them. */
extern void eo_pages_pay(EoPages *pages, int64 units);

#endif							/* EO_COMMIT_PAGES_H */
