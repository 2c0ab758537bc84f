/*-------------------------------------------------------------------------
 *
 * write_refusals.h
 *	  Writes of rows that DynamoDB refuses.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_WRITE_REFUSALS_H
#define EO_WORKER_WRITE_REFUSALS_H

#include "postgres.h"

#include "server/answer.h"
#include "worker/jobs.h"

/*
 * A call has failed.  Does that tell that the writes of the job are refused, and will be
 * refused again?  Then it is noted.
 */
extern bool eo_write_refusals_take(EoWorkerJob *job, const EoAnswer *answer);

#endif							/* EO_WORKER_WRITE_REFUSALS_H */
