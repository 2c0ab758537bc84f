/*-------------------------------------------------------------------------
 *
 * probes.c
 *	  The worker asks whether a service that was away is back.
 *
 * While the circuit of an endpoint is open (cluster/circuit.c), calls to it are refused.
 * One process of the cluster asks each second, by a read of a key that does not exist.
 * Any answer closes the circuit, so there is nothing to be done with it here.  The
 * worker's other requests to that endpoint count, too: a probe is made only if there
 * was none of them for a second.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/circuit.h"
#include "ledger/clock_sync.h"
#include "server/answer.h"
#include "server/store.h"
#include "worker/jobs.h"
#include "worker/sources.h"
#include "worker/write_targets.h"

static int64 due_us = INT64_MAX;

static EoAnswer *prepare(EoWorkerJob *job, EoStore *store);

/*
 * The lane is that of looks at lives, because a probe waits for nothing there.  A probe that is
 * put off is forgotten: the next turn makes another one.
 */
static const EoWorkerJobKind probe_kind = {
	.prepare = prepare,
	.lane = EO_WORKER_LOOKS
};

static EoAnswer *
prepare(EoWorkerJob *job, EoStore *store)
{
	(void) job;
	return eo_clock_sync_prepare(store);
}

void
eo_probes_fetch(void)
{
	dlist_iter	iter;

	due_us = INT64_MAX;
	if (!eo_circuit_any_open())
		return;
	dlist_foreach(iter, eo_write_targets_all())
	{
		EoWorkerTarget *t = dlist_container(EoWorkerTarget, node, iter.cur);

		if (t->store != NULL && eo_circuit_take_turn(&t->store->client, &due_us) &&
			eo_jobs_accept(EO_WORKER_LOOKS, &t->target))
			(void) eo_job_add(&probe_kind, &t->target, "probe");
	}
}

int64
eo_probes_due_us(void)
{
	return due_us;
}
