/*-------------------------------------------------------------------------
 *
 * session_claims.c
 *	  Claims that this session holds: on_commit => 'session'.
 *
 * Such a claim keeps its slot when its transaction has committed (EO_SLOT_SESSION), and
 * the worker goes on extending its lease.  A later transaction that settles the key
 * enters it with a slot of its own, as it does with any claim that is older than it
 * (owner.c); this one is freed when that has succeeded (xact.c).
 *
 * When the process ends, the slot becomes one whose transaction was rolled back, and
 * the worker gives the key back.  There are three ways to this:
 *
 * - The process ends by itself, or is terminated: give_back_at_exit().
 * - The process is killed.  Then PostgreSQL ends all others, too, and begins anew; or
 *	 the whole server is killed.  The next claim table takes over the slot
 *	 (eo_slot_state_after_crash() in slots.c).
 * - Neither has happened, and there is no such process any more: the worker finds that
 *	 out at the next heartbeat (worker_slots.c).
 *
 * No heir of our life gives such a key back: what the record says (bind is session) is
 * no proof that the session is over, as it is for the claim of a transaction.  So if the
 * machine is lost, the key is free when its lease is over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/slots.h"
#include "commit/session_claims.h"
#include "miscadmin.h"
#include "storage/ipc.h"

static bool expected;			/* give_back_at_exit() is registered */

/*
 * This is called after the open transaction was rolled back, which ends its claims, and
 * while locks of shared memory can still be taken.
 */
static void
give_back_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	eo_slot_end_session(MyProcPid);
}

void
eo_session_claim_expect(void)
{
	if (!expected)
		on_shmem_exit(give_back_at_exit, (Datum) 0);
	expected = true;
}

void
eo_session_claims_end(void)
{
	if (expected)
		eo_slot_end_session(MyProcPid);
}
