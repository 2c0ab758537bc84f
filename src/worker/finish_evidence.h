/*-------------------------------------------------------------------------
 *
 * finish_evidence.h
 *	  Which seal the finish of a row is about, and which answers show that it is finished.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_FINISH_EVIDENCE_H
#define EO_WORKER_FINISH_EVIDENCE_H

#include "postgres.h"

#include "ledger/outbox.h"
#include "records/origin.h"
#include "server/answer.h"
#include "worker/jobs.h"

/* The limits of the origins that a finish takes. */
typedef struct EoFinishSeal
{
	char		first[EO_ORIGIN_LEN + 1];
	char		last[EO_ORIGIN_LEN + 1];
	bool		of_other;		/* it is that of another transaction, which is
								 * over */
} EoFinishSeal;

/* The seal that the finish of a job's row is about. */
extern void eo_finish_evidence_seal(const EoWorkerJob *job, EoFinishSeal *seal);

/*
 * The finish was refused.  Does the record show the seal of another transaction under the token
 * that is over, so that the next finish is about that seal?
 */
extern bool eo_finish_evidence_take_seal(const EoWorkerJob *job, const EoAnswer *answer);

/* Does the answer to the finish of a row show that nothing is left to be done? */
extern bool eo_finish_evidence_shows(const EoWorkerJob *job, const EoAnswer *answer);

#endif							/* EO_WORKER_FINISH_EVIDENCE_H */
