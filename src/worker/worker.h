/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker of a database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_WORKER_H
#define EO_WORKER_WORKER_H

#include "postgres.h"

#include "compat.h"

/* Where the process begins; the argument is the OID of its database. */
extern PGDLLEXPORT void eo_worker_main(Datum arg);

#endif							/* EO_WORKER_WORKER_H */
