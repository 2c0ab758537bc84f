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
#include "records/verb.h"
#include "server/answer.h"
#include "worker/jobs.h"

/* The origins of a finish, as EoWrite has them. */
typedef struct EoFinishSeal
{
	EoVerb		verb;			/* EO_FINISH_OTHER: the seal is that of
								 * another transaction, which is over */
	char		origin[EO_ORIGIN_LEN + 1];
	char		last[EO_ORIGIN_LEN + 1];
} EoFinishSeal;

/* The seal that the finish of a job's row is about. */
extern void eo_finish_evidence_seal(const EoWorkerJob *job, EoFinishSeal *seal);

/*
 * The finish was refused.  Does the record show the seal of another transaction under the token
 * that is over, so that the next finish is about that seal?  In *goes_on whether it is that of a
 * life of others that is not over.
 */
extern bool eo_finish_evidence_take_seal(const EoWorkerJob *job, const EoAnswer *answer,
										 bool *goes_on);

/* Does the answer to the finish of a row show that nothing is left to be done? */
extern bool eo_finish_evidence_shows(const EoWorkerJob *job, const EoAnswer *answer);

#endif							/* EO_WORKER_FINISH_EVIDENCE_H */
