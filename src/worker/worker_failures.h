/*-------------------------------------------------------------------------
 *
 * worker_failures.h
 *	  The claims of a worker whose requests have failed, by their tokens.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_FAILURES_H
#define EO_COMMIT_WORKER_FAILURES_H

#include "postgres.h"

/* To be called once. */
extern void eo_worker_failures_init(MemoryContext context);

/* A request failed.  Returns how long the claim is to be put off. */
extern int64 eo_worker_failure_add(const char *token);

/* Has a request of this claim failed, and none been answered since? */
extern bool eo_worker_failure_exists(const char *token);

/* A request was answered. */
extern void eo_worker_failure_forget(const char *token);

#endif							/* EO_COMMIT_WORKER_FAILURES_H */
