/*-------------------------------------------------------------------------
 *
 * lost.c
 *	  What becomes of a session that loses a claim: the argument on_lost.
 *
 * The worker finds a claim lost and notes that in the claim's slot.  It sends no signal: one
 * that comes late would hit whatever the process runs by then.  And a process that computes, or
 * sleeps, asks nobody.  So while it has such claims it has a timer of its own, whose handler
 * looks at their slots.  A slot names one claim only, and so a claim that has ended, or is being
 * sealed, stops nobody: neither a later transaction, nor a transaction that has rolled back to
 * a savepoint, nor one that has been prepared.
 *
 * - In a statement the handler cancels as pg_cancel_backend() does, and eo_lost_explain()
 *	 puts a message that names the key in the place of PostgreSQL's.  The SQLSTATE stays that of
 *	 a cancel (57014), because WHEN OTHERS of PL/pgSQL does not catch it.
 * - Between statements there is nothing to be canceled: the next statement raises the error.  To
 *	 terminate, the handler does as pg_terminate_backend(), and the log names the key.
 * - While the transaction commits nothing is done.  The seal decides.
 *
 * PostgreSQL disables all timers when an error has come to the top, also one that ends only a
 * savepoint.  So the timer is set again when a transaction or a subtransaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/slots.h"
#include "commit/lost.h"
#include "commit/tx_claim.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "server/guc.h"
#include "server/text.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* Time between two looks at the slots. */
#define LOOK_US INT64CONST(1000000)

typedef struct Watched
{
	EoSlotRef	ref;
	EoOnLost	on_lost;		/* EO_LOST_IGNORE: it is no concern any more */
	bool		of_session;		/* its transaction has committed, and the
								 * session holds it */
	uint8		digest[EO_DIGEST_LEN];
	char	   *name;			/* as messages call it */
} Watched;

/* The handler may interrupt everything here, and then finds the first n claims complete. */
typedef struct Watching
{
	const bool *committing;
	const int  *depth;
	Watched    *volatile claims;	/* those of the session first */
	volatile int n;
	int			room;
	bool		has_timer;
	TimeoutId	timer;
	volatile int canceled;		/* 1 + the claim for which the handler has
								 * canceled; 0: it has not, or that was said */
	volatile bool terminated;	/* the same, to end the process */
} Watching;

static Watching watch;

static void get_ready(void);
static void set_timer(void);
static void look(void);
static Watched *find_lost(void);
static void raise_lost(Watched *w);
static void log_end(int code, Datum arg);

void
eo_lost_init(const bool *committing, const int *depth)
{
	watch.committing = committing;
	watch.depth = depth;
}

void
eo_lost_watch(const EoTxClaim *claim, EoOnLost on_lost)
{
	Watched		w = {.ref = claim->slot,.on_lost = on_lost};

	eo_lost_forget(claim->info->digest);
	if (on_lost == EO_LOST_IGNORE)
		return;
	get_ready();
	memcpy(w.digest, claim->info->digest, sizeof(w.digest));
	w.name = MemoryContextStrdup(TopMemoryContext,
								 psprintf("key \"%s\" on server \"%s\"",
										  eo_text_key_shown(claim->key),
										  claim->store->server->name));
	watch.claims[watch.n] = w;
	pg_compiler_barrier();
	watch.n++;
	set_timer();
}

void
eo_lost_forget(const uint8 *digest)
{
	for (int i = 0; i < watch.n && watch.claims[i].of_session; i++)
	{
		if (digest == NULL || memcmp(watch.claims[i].digest, digest, EO_DIGEST_LEN) == 0)
			watch.claims[i].on_lost = EO_LOST_IGNORE;
	}
}

/* See that there is a timer, and room for one more claim. */
static void
get_ready(void)
{
	Watched    *old = watch.claims;
	int			room = Max(16, 2 * watch.room);
	Watched    *claims;

	if (!watch.has_timer)
	{
		watch.timer = RegisterTimeout(USER_TIMEOUT, look);
		watch.has_timer = true;
		before_shmem_exit(log_end, (Datum) 0);
	}
	if (watch.n < watch.room)
		return;
	claims = MemoryContextAlloc(TopMemoryContext, sizeof(Watched) * room);
	if (old != NULL)
		memcpy(claims, old, sizeof(Watched) * watch.n);
	pg_compiler_barrier();
	watch.claims = claims;
	watch.room = room;
	if (old != NULL)
		pfree(old);
}

static void
set_timer(void)
{
	int			pause_ms = Max(1, (int) (eo_guc_hurried_us(LOOK_US) / 1000));

	if (watch.n > 0 && !get_timeout_active(watch.timer))
		enable_timeout_every(watch.timer,
							 TimestampTzPlusMilliseconds(GetCurrentTimestamp(), pause_ms),
							 pause_ms);
}

void
eo_lost_ended(bool whole)
{
	int			n = watch.n;
	int			kept = 0;

	if (n == 0)
		return;
	if (whole)
	{
		/*
		 * The cancel has not come to pass, and must not hit the next
		 * transaction.
		 */
		if (watch.canceled > 0)
			QueryCancelPending = false;
		watch.canceled = 0;
		watch.n = 0;
		pg_compiler_barrier();
		for (int i = 0; i < n; i++)
		{
			Watched    *w = &watch.claims[i];

			w->of_session |= eo_slot_is_session(w->ref);
			if (w->of_session && w->on_lost != EO_LOST_IGNORE &&
				(eo_slot_is_session(w->ref) || eo_slot_is_lost(w->ref, true)))
				watch.claims[kept++] = *w;
			else
				pfree(w->name);
		}
		pg_compiler_barrier();
		watch.n = kept;
	}
	if (watch.n > 0)
		set_timer();
	else
		disable_timeout(watch.timer, false);
}

/* The handler of the timer. */
static void
look(void)
{
	const Watched *w = find_lost();

	/*
	 * A wait for standbys holds interrupts off, and still ends at a cancel.
	 * PostgreSQL itself holds them off once while it calls this.
	 */
	if (w == NULL || InterruptHoldoffCount > 1 || CritSectionCount > 0)
		return;
	if (*watch.depth > 0)
	{
		watch.canceled = 1 + (int) (w - watch.claims);
		QueryCancelPending = true;
	}
	else if (w->on_lost == EO_LOST_TERMINATE)
	{
		watch.terminated = true;
		ProcDiePending = true;
	}
	else
		return;
	/* PostgreSQL has set the latch before it called this. */
	InterruptPending = true;
}

/* The lost claim that is to have the greatest effect; NULL: none is lost. */
static Watched *
find_lost(void)
{
	Watched    *found = NULL;

	if (*watch.committing)
		return NULL;
	for (int i = 0; i < watch.n; i++)
	{
		Watched    *w = &watch.claims[i];

		if (w->on_lost > (found == NULL ? EO_LOST_IGNORE : found->on_lost) &&
			eo_slot_is_lost(w->ref, w->of_session))
			found = w;
	}
	return found;
}

void
eo_lost_check(void)
{
	Watched    *w;

	if (watch.n == 0 || *watch.depth > 0)
		return;
	watch.canceled = 0;
	w = find_lost();
	if (w != NULL)
		raise_lost(w);
}

void
eo_lost_explain(MemoryContext context)
{
	int			canceled = watch.canceled;

	/*
	 * PL/pgSQL may have rolled back to a savepoint already, and the claim
	 * with that.
	 */
	if (canceled == 0 || geterrcode() != ERRCODE_QUERY_CANCELED)
		return;
	watch.canceled = 0;
	MemoryContextSwitchTo(context);
	FlushErrorState();
	raise_lost(&watch.claims[canceled - 1]);
}

static void
raise_lost(Watched *w)
{
	bool		terminate = w->on_lost == EO_LOST_TERMINATE;

	/*
	 * The session has been told, and goes on; a transaction cannot go on in
	 * any case.
	 */
	if (w->of_session)
		w->on_lost = EO_LOST_IGNORE;
	ereport(terminate ? FATAL : ERROR,
			(errcode(terminate ? ERRCODE_ADMIN_SHUTDOWN : ERRCODE_QUERY_CANCELED),
			 terminate ? errmsg("terminating connection: the claim on %s was lost", w->name) :
			 errmsg("canceling statement: the claim on %s was lost", w->name),
			 errdetail("Its lease could not be extended in time, or an operator has ended the claim. It was made with on_lost => '%s'.",
					   terminate ? "terminate" : "cancel"),
			 errhint("Roll back: the work under this claim is not to be kept. A longer lease survives longer interruptions.")));
}

/* The client was told that an administrator has terminated the connection. */
static void
log_end(int code, Datum arg)
{
	const Watched *w = watch.terminated ? find_lost() : NULL;

	(void) code;
	(void) arg;
	if (w != NULL)
		ereport(LOG,
				(errmsg("exactonce: terminated the connection, because the claim on %s was lost",
						w->name)));
}
