/*-------------------------------------------------------------------------
 *
 * back_off.h
 *	  The claims of a worker whose requests have failed, by their tokens.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_BACK_OFF_H
#define EO_WORKER_BACK_OFF_H

#include "postgres.h"

/* To be called once. */
extern void eo_back_off_init(MemoryContext context);

/* A request failed.  Returns how long the claim is to be put off. */
extern int64 eo_back_off_add(const char *token);

/* Has a request of this claim failed, and none been answered since? */
extern bool eo_back_off_exists(const char *token);

/* A request was answered. */
extern void eo_back_off_forget(const char *token);

#endif							/* EO_WORKER_BACK_OFF_H */
