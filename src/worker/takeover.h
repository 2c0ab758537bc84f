/*-------------------------------------------------------------------------
 *
 * takeover.h
 *	  The worker's second duty: lives that are over, and what they have left.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_TAKEOVER_H
#define EO_WORKER_TAKEOVER_H

#include "postgres.h"

#include "cluster/target.h"
#include "ledger/lives.h"

/* To be called once, after eo_own_life_init(). */
extern void eo_takeover_init(MemoryContext context, Oid dboid);

/* Make jobs of the lives that are to be looked at now. */
extern void eo_takeover_fetch(void);

/* When that is to be called again at the latest. */
extern int64 eo_takeover_due_us(void);

/* Is there a life that is about to be retired, or watched for that?  Then the worker stays. */
extern bool eo_takeover_any(void);

/*
 * How does a life stand to this data, as far as this target is concerned?  While that
 * is not known, or the life goes on, this returns EO_LIFE_OTHER and has the worker find
 * out.  eo_takeover_changes() changes once it is known.
 */
extern void eo_takeover_ask(const EoTarget *target, const uint8 *id, EoLifeVerdict *verdict);

/* A number that changes when a life was found to be over. */
extern uint32 eo_takeover_changes(void);

#endif							/* EO_WORKER_TAKEOVER_H */
