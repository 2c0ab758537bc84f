/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that starts a worker where one is needed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_LAUNCHER_H
#define EO_COMMIT_LAUNCHER_H

#include "postgres.h"

/* In _PG_init. */
extern void eo_launcher_register(void);
extern PGDLLEXPORT void eo_launcher_main(Datum arg);

#endif							/* EO_COMMIT_LAUNCHER_H */
