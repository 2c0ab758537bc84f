/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that starts the workers of databases, and where each begins.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_LAUNCHER_H
#define EO_WORKER_LAUNCHER_H

#include "postgres.h"

#include "compat.h"

/* Register the launcher with the postmaster.  To be called once, in _PG_init. */
extern void eo_launcher_register(void);

/* Where the launcher begins; the argument is not used. */
extern PGDLLEXPORT void eo_launcher_main(Datum arg);

/* Where the worker of a database begins, in worker.c; the argument is its OID. */
extern PGDLLEXPORT void eo_worker_main(Datum arg);

#endif							/* EO_WORKER_LAUNCHER_H */
