/*-------------------------------------------------------------------------
 *
 * gate.h
 *	  When a function may be called at all, and what its arguments must be.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_GATE_H
#define EO_SQL_GATE_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

/* Set by _PG_init: the library was loaded by the postmaster. */
extern bool eo_gate_preloaded;

typedef enum EoAccess
{
	EO_READS,					/* allowed on a hot standby and READ ONLY */
	EO_WRITES
} EoAccess;

/*
 * Raise unless the function (name without parentheses) may run here and now.
 */
extern void eo_gate(const char *function, EoAccess access);

/*
 * Raise unless this database's worker is at work: what depends on it is not
 * begun without it.  Waits for one that is starting.
 */
extern void eo_gate_worker(void);

#endif							/* EO_SQL_GATE_H */
