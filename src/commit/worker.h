/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker of a database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_WORKER_H
#define EO_COMMIT_WORKER_H

#include "postgres.h"

/* argument: the database's OID */
extern PGDLLEXPORT void eo_worker_main(Datum arg);

#endif							/* EO_COMMIT_WORKER_H */
