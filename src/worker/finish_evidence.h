/*-------------------------------------------------------------------------
 *
 * finish_evidence.h
 *	  Which answers show that a row of the outbox is finished.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_FINISH_EVIDENCE_H
#define EO_WORKER_FINISH_EVIDENCE_H

#include "postgres.h"

#include "ledger/outbox.h"
#include "server/answer.h"
#include "worker/jobs.h"

/* Does the answer to the finish of a row show that nothing is left to be done? */
extern bool eo_finish_evidence_shows(const EoWorkerJob *job, const EoOutboxRow *row,
									 const EoAnswer *answer);

#endif							/* EO_WORKER_FINISH_EVIDENCE_H */
