/*
 * Kept claims: several transactions may complete one claim, one after the other.
 *
 * A claim that outlives its transaction (on_commit => 'keep' or 'session') is completed by
 * a later one, which seals under the claim's token.  If that transaction aborts, its seal is
 * taken back and the claim stands as before: the record is IN_PROGRESS again, and the
 * next transaction may seal it.  So the token does not say any more which transaction a
 * request belongs to; the origin does, which names the seal.
 *
 * The claim of a session has a guardian, whose slot is there as long as the session.  The
 * worker extends its lease, and gives the key back when the session ends.
 *
 * What is modelled
 *
 *   One key, one claim, and up to three transactions that complete it, at the same
 *   time or in turn, in the database that claimed it.  Seals may be sent twice, arrive late,
 *   in any order or never, and each answer may be lost.  What takes a seal back may arrive
 *   late, too.  The lease may run out while the record is sealed by a transaction that goes
 *   on and, unless a session holds the claim, at any time.  Then a rival takes the key, and may do the work.
 *   The session may end at any time, also by a crash that kills its transactions.
 *   Whoever meets the record COMMITTING may settle it.  With WORN a claim that has so many
 *   notes of undone seals is given back, also that of a session, which has lost it then.
 *   With FAILOVER a standby takes over that has lost a commit: its row and its work are gone,
 *   and the old primary, which has them, goes on to send its finish.
 *   With RESTORES the table is restored from a backup after a transaction has committed: the
 *   record is again as another one has sealed it, which is over.
 *
 * What is not
 *
 *   How a settler finds out that a transaction was aborted (commit.pml has the steps), lives
 *   (lives.pml), the row of the outbox at which two transactions of one token
 *   conflict before they seal: here the seal alone keeps them apart; the end of max_hold, after
 *   which a session's claim has a lease like any other; and a lease that runs out under a seal
 *   of a transaction that is over.  That takes a seal that arrives after its resume was
 *   refused, nobody who meets the record before its lease ends, and an unseal that is later
 *   still; then (e) does not hold until the next beat.
 *
 * Invariants
 *
 *   (a) No key is COMPLETED by the claim whose work is not committed.  The finish of a commit
 *       that a failover has lost may complete what that commit has sealed.
 *   (b) No two transactions have committed the work of the key.
 *   (c) From every state the database can settle the key.
 *   (d) Once the slot of a transaction is free, a late copy of its seal seals the record no
 *       more, whatever other transactions have done since.
 *   (e) While a session holds the claim nobody else gets the key.
 *
 *   (a), (b), (d) and (e) are assertions.  Judge is that of commit.pml.
 *
 * It is read as commit.pml is.
 */

#ifndef TRANSACTIONS
#define TRANSACTIONS 2
#endif
#ifndef COPIES					/* how often one seal may arrive */
#define COPIES 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef RESTORES
#define RESTORES 0
#endif
#ifndef FAILOVER
#define FAILOVER 0
#endif
#ifdef SESSION
#define of_session	true
#else
#define of_session	false
#endif
#define MAX_IDS		4			/* transactions are 1 to 3, and so are the origins of their seals */

mtype = { IN_PROGRESS, COMMITTING, COMPLETED, FAILED,			/* a record */
	NONE, SEALING, SEALED, COMMITTED,							/* a transaction */
	TO_RESUME, TO_UNSEAL, TO_ABORT, ENDED };								/* and its slot, after it was aborted */

/* The record of the key, which the claim has when the model begins. */
mtype status = IN_PROGRESS;
bool ours = true;				/* its token is that of the claim */
byte origin;					/* of the last seal; 0: the claim's own */
bool undone[MAX_IDS];			/* the seals that the record notes as taken back */
bool dead;						/* its lease is over */

mtype tx[MAX_IDS] = NONE;
byte seals[MAX_IDS];			/* copies of a seal that may still arrive */
bool resumes[MAX_IDS];			/* and of what takes it back */
bool unseals[MAX_IDS];
bool aborts[MAX_IDS];			/* and of what gives a worn claim back */
bool row;						/* of the transaction that committed */
byte row_of;					/* that transaction */
byte works;
bool finishes;
byte finish_of;					/* the transaction that the late finish names */
byte lost;						/* the one whose commit the failover has lost */
bool lost_completed;			/* its finish has completed what it had sealed */
byte failovers = FAILOVER;

bool session = of_session;		/* it lives, and has the claim */
bool to_abort;					/* its slot, after its end */
byte settler;					/* the origin that somebody has found aborted */
byte crashes = CRASHES;
byte restores = RESTORES;
bool stopped;

bool invariant_a = true;
bool invariant_b = true;
bool invariant_d = true;
bool invariant_e = true;

#define may		(!stopped || status == COMMITTING)
#define is_open(x)		(tx[x] == SEALING || tx[x] == SEALED)

inline check()
{
	invariant_a = (status != COMPLETED || !ours || works > 0 || lost_completed);
	assert(invariant_a);
	invariant_b = (works <= 1);
	assert(invariant_b)
}

/* ----- A transaction that completes the claim ----- */

inline send_seal(x)
{
	d_step
	{
		!stopped && tx[x] == NONE && (session || !of_session);
		tx[x] = SEALING;
		seals[x] = COPIES;
		printf("transaction %d sends its seal\n", x)
	}
}

/* Its slot takes the seal back; that of a claim of a session with a new lease. */
#ifndef NO_RESUME
#define first_way_back	(session -> TO_RESUME : TO_UNSEAL)
#else
#define first_way_back	TO_UNSEAL
#endif

inline abort(x)
{
	d_step
	{
		may && (tx[x] == SEALING || tx[x] == SEALED);
		tx[x] = first_way_back;
		printf("transaction %d aborts\n", x)
	}
}

inline commit(x)
{
	d_step
	{
		may && tx[x] == SEALED;
		tx[x] = COMMITTED;
		row = true;
		row_of = x;
		works++;
		printf("transaction %d commits\n", x);
		check()
	}
}

proctype Transaction(byte x)
{
end:
	do
	:: send_seal(x)
	:: abort(x)
	:: commit(x)
	od
}

/* ----- DynamoDB ----- */

/* A seal takes an IN_PROGRESS record of its token, unless this very seal was taken back. */
#ifdef NO_UNDONE
#define takes_seal(x)	(status == IN_PROGRESS && ours)
#elif defined(ONE_UNDONE)
#define takes_seal(x)	(status == IN_PROGRESS && ours && origin != (x))
#else
#define takes_seal(x)	(status == IN_PROGRESS && ours && !undone[x])
#endif

/* The answer counts if the record names this seal. */
#ifndef NO_ORIGIN_IN_ANSWER
#define is_sealed_by(x)	(status == COMMITTING && ours && origin == (x))
#else
#define is_sealed_by(x)	(status == COMMITTING && ours)
#endif

inline deliver_seal(x, arrives)
{
	d_step
	{
		(!stopped || (status == COMMITTING && arrives)) && seals[x] > 0;
		seals[x]--;
		if
		:: takes_seal(x) ->
			invariant_d = (tx[x] != ENDED);
			assert(invariant_d);
			status = COMMITTING;
			origin = x;
			printf("the seal of transaction %d arrives\n", x)
		:: else -> printf("the seal of transaction %d arrives and changes nothing\n", x)
		fi;
		if
		:: tx[x] == SEALING && arrives && is_sealed_by(x) -> tx[x] = SEALED
		:: tx[x] == SEALING && arrives && !is_sealed_by(x) -> tx[x] = first_way_back
		:: else
		fi
	}
}

/* Only what this very seal has made COMMITTING is taken back. */
#ifndef NO_ORIGIN_ON_UNSEAL
#define takes_back(x)	(status == COMMITTING && ours && origin == (x))
#else
#define takes_back(x)	(status == COMMITTING && ours)
#endif

inline apply_resume(x)
{
	if
	:: takes_back(x) ->
		status = IN_PROGRESS;
		origin = x;
		undone[x] = true;
		dead = false
	:: else
	fi
}

/* The seal is noted as taken back even if it has never arrived. */
inline apply_unseal(x)
{
	if
	:: takes_back(x) || (status == IN_PROGRESS && ours) ->
		status = IN_PROGRESS;
		origin = x;
		undone[x] = true
	:: else
	fi
}

/* What gives a worn claim back takes none that a later transaction has sealed. */
#ifndef NO_ORIGIN_ON_ABORT
#define takes_worn(x)	(ours && (status == IN_PROGRESS || (status == COMMITTING && origin == (x))))
#else
#define takes_worn(x)	(ours && (status == IN_PROGRESS || status == COMMITTING))
#endif

inline apply_abort(x)
{
	if
	:: takes_worn(x) ->
		status = FAILED;
		session = false
	:: else
	fi
}

inline deliver_way_back(x)
{
	d_step
	{
		may && (resumes[x] || unseals[x] || aborts[x]);
		if
		:: aborts[x] ->
			aborts[x] = false;
			apply_abort(x);
			printf("a late abort of transaction %d arrives\n", x)
		:: !aborts[x] && resumes[x] ->
			resumes[x] = false;
			apply_resume(x);
			printf("a late resume of transaction %d arrives\n", x)
		:: else ->
			unseals[x] = false;
			apply_unseal(x);
			printf("a late unseal of transaction %d arrives\n", x)
		fi
	}
}

/* Only what that transaction has sealed is finished. */
#ifndef NO_ORIGIN_ON_FINISH
#define takes_finish(x)	(status == COMMITTING && ours && origin == (x))
#else
#define takes_finish(x)	(status == COMMITTING && ours)
#endif

inline deliver_finish()
{
	d_step
	{
		may && finishes;
		finishes = false;
		if
		:: takes_finish(finish_of) ->
			lost_completed = (finish_of == lost && origin == lost);
			status = COMPLETED
		:: else
		fi;
		finish_of = 0;
		printf("a late finish arrives\n");
		check()
	}
}

proctype DynamoDB(byte x)
{
end:
	do
	:: deliver_seal(x, true)
	:: deliver_seal(x, false)
	:: deliver_way_back(x)
	:: deliver_finish()
	od
}

/* ----- The worker ----- */

/* Each write of the worker is also sent in vain, and arrives later. */
inline send_way_back(x)
{
	d_step
	{
		!stopped && (tx[x] == TO_RESUME || tx[x] == TO_UNSEAL) && !resumes[x] && !unseals[x];
		resumes[x] = (tx[x] == TO_RESUME);
		unseals[x] = (tx[x] == TO_UNSEAL);
		printf("the worker sends what takes seal %d back\n", x)
	}
}

/* A record that another seal of the claim has sealed notes this one, too. */
inline apply_note(x)
{
	if
#ifndef NO_NOTE
	:: status == COMMITTING && ours && origin != (x) -> undone[x] = true
#endif
	:: else
	fi
}

/* What was refused found no record that this seal has sealed.  It may still arrive. */
#ifndef RESUME_IS_ENOUGH
#define after_resume(x)		(takes_back(x) -> ENDED : TO_UNSEAL)
#else
#define after_resume(x)		ENDED
#endif

/* A record that has just been unsealed may have notes enough. */
#ifdef WORN
#define has_notes_enough	(undone[1] + undone[2] + undone[3] >= WORN)
#else
#define has_notes_enough	false
#endif
#define is_worn		(status == IN_PROGRESS && ours && has_notes_enough)

inline take_back(x)
{
	d_step
	{
		may && (tx[x] == TO_RESUME || tx[x] == TO_UNSEAL);
		if
		:: tx[x] == TO_RESUME ->
			tx[x] = after_resume(x);
			apply_resume(x)
		:: else ->
			tx[x] = ENDED;
			apply_unseal(x);
			apply_note(x)
		fi;
		if
		:: tx[x] == ENDED && undone[x] && is_worn -> tx[x] = TO_ABORT
		:: else
		fi;
		printf("the worker takes seal %d back\n", x)
	}
}

inline send_abort(x)
{
	d_step
	{
		!stopped && tx[x] == TO_ABORT && !aborts[x];
		aborts[x] = true;
		printf("the worker sends what gives the worn claim back\n")
	}
}

inline give_worn_back(x)
{
	d_step
	{
		may && tx[x] == TO_ABORT;
		tx[x] = ENDED;
		apply_abort(x);
		printf("the worker gives the worn claim back, after seal %d\n", x)
	}
}

inline finish()
{
	d_step
	{
		may && row && takes_finish(row_of);
		status = COMPLETED;
		printf("the worker finishes the key\n");
		check()
	}
}

/* An operator finishes by the seal that was read, if its transaction is over. */
inline resolve()
{
	d_step
	{
		may && row && status == COMMITTING && ours && origin != row_of && !is_open(origin);
		status = COMPLETED;
		printf("an operator resolves the key as completed\n");
		check()
	}
}

inline send_finish()
{
	d_step
	{
		!stopped && row && takes_finish(row_of) && !finishes;
		finishes = true;
		finish_of = row_of;
		printf("the worker sends the finish\n")
	}
}

/* The old primary sends it whenever it likes: it does not know that it is none any more. */
inline send_lost_finish()
{
	d_step
	{
		!stopped && lost > 0 && !finishes;
		finishes = true;
		finish_of = lost;
		printf("the old primary sends the finish of transaction %d\n", lost)
	}
}

inline remove_row()
{
	d_step
	{
		!stopped && row && status == COMPLETED && ours;
		row = false;
		row_of = 0;
		printf("the row is removed\n")
	}
}

/* The session has ended.  Its key is given back, unless a transaction has sealed it. */
#ifndef NO_WAIT_FOR_SEAL
#define takes_abort		(status == IN_PROGRESS && ours)
#else
#define takes_abort		((status == IN_PROGRESS || status == COMMITTING) && ours)
#endif

inline give_back()
{
	d_step
	{
		may && to_abort && (takes_abort || status != COMMITTING || !ours);
		to_abort = false;
		if
		:: takes_abort -> status = FAILED
		:: else
		fi;
		printf("the worker gives the key of the session back\n")
	}
}

proctype Worker()
{
end:
	do
	:: send_way_back(1)
	:: take_back(1)
	:: send_abort(1)
	:: give_worn_back(1)
#if TRANSACTIONS > 1
	:: send_way_back(2)
	:: take_back(2)
	:: send_abort(2)
	:: give_worn_back(2)
#endif
#if TRANSACTIONS > 2
	:: send_way_back(3)
	:: take_back(3)
	:: send_abort(3)
	:: give_worn_back(3)
#endif
	:: finish()
	:: send_finish()
	:: resolve()
#if FAILOVER > 0
	:: send_lost_finish()
#endif
	:: remove_row()
	:: give_back()
	od
}

/* ----- Whoever meets the record COMMITTING ----- */

/* A row of any transaction under the token keeps the claim from being given back. */
#ifndef NO_OTHER_TRANSACTION
#define has_evidence	row
#else
#define has_evidence	(row && row_of == origin)
#endif

inline judge_record()
{
	d_step
	{
		may && settler == 0 && status == COMMITTING && ours && !is_open(origin) && !has_evidence;
		settler = origin;
		printf("a settler finds transaction %d aborted\n", settler)
	}
}

inline settle_record()
{
	d_step
	{
		may && settler > 0;
		if
		:: has_notes_enough -> apply_abort(settler)
		:: !has_notes_enough && session && first_way_back == TO_RESUME -> apply_resume(settler)
		:: else -> apply_unseal(settler)
		fi;
		printf("the settler takes seal %d back\n", settler);
		settler = 0
	}
}

/* ----- The session, the lease, and a rival ----- */

inline end_session()
{
	d_step
	{
		!stopped && session;
		session = false;
		to_abort = true;
		printf("the session ends\n")
	}
}

inline crash_of(x)
{
	if
	:: is_open(x) -> tx[x] = TO_UNSEAL
	:: tx[x] == TO_RESUME -> tx[x] = TO_UNSEAL
	:: else
	fi
}

/* Every process is killed.  The claim file tells of the slots. */
inline crash()
{
	d_step
	{
		!stopped && crashes > 0;
		crashes--;
		to_abort = to_abort || session;
		session = false;
		settler = 0;
		crash_of(1);
		crash_of(2);
		crash_of(3);
		printf("the server crashes and starts again\n")
	}
}

/*
 * A standby takes over that does not have the commit.  Like the open transactions, it is over
 * there, and its seal is taken back once the life of the old primary is over.
 */
inline fail_over()
{
	d_step
	{
		!stopped && failovers > 0 && row && status == COMMITTING && ours && origin == row_of;
		failovers--;
		lost = row_of;
		tx[lost] = TO_UNSEAL;
		row = false;
		row_of = 0;
		works--;
		to_abort = to_abort || session;
		session = false;
		settler = 0;
		crash_of(1);
		crash_of(2);
		crash_of(3);
		printf("a standby takes over, without the commit of transaction %d\n", lost)
	}
}

/* The record is as it was when this transaction, whose slot is free by now, had sealed it. */
inline restore(x)
{
	d_step
	{
		!stopped && restores > 0 && row && tx[x] == ENDED && status == COMMITTING && ours &&
		!resumes[x] && !unseals[x] && !aborts[x] && settler == 0;
		restores--;
		origin = x;
		undone[x] = false;
		printf("the table is restored: the record is sealed by transaction %d\n", x)
	}
}

/* The worker extends the lease of a session's claim, but not while it is sealed. */
inline end_lease()
{
	d_step
	{
		!stopped && ours && !dead &&
		(!session || (status == COMMITTING && is_open(origin)));
		dead = true;
		printf("the lease of the claim is over\n")
	}
}

#ifndef STEAL_COMMITTING
#define is_lost		(status == FAILED || (status == IN_PROGRESS && ours && dead))
#else
#define is_lost		(status == FAILED || ((status == IN_PROGRESS || status == COMMITTING) && ours && dead))
#endif

inline take_over()
{
	d_step
	{
		!stopped && is_lost;
		invariant_e = !session;
		assert(invariant_e);
		status = COMPLETED;
		ours = false;
		works++;
		printf("a rival takes the key and does the work\n");
		check()
	}
}

proctype Environment()
{
end:
	do
	:: judge_record()
	:: settle_record()
	:: end_session()
	:: crash()
#if FAILOVER > 0
	:: fail_over()
#endif
#if RESTORES > 0
	:: restore(1)
	:: restore(2)
#endif
	:: end_lease()
	:: take_over()
	od
}

proctype Judge()
{
end:
	d_step
	{
		status == COMMITTING;
		stopped = true;
		crashes = 0;
		printf("the world is stopped: can the database settle the key?\n")
	}
	status != COMMITTING
}

init
{
	atomic
	{
		run Transaction(1);
		run DynamoDB(1);
#if TRANSACTIONS > 1
		run Transaction(2);
		run DynamoDB(2);
#endif
#if TRANSACTIONS > 2
		run Transaction(3);
		run DynamoDB(3);
#endif
		run Worker();
#ifndef NO_JUDGE
		run Judge();
#endif
		run Environment()
	}
}
