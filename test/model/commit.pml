/*
 * The commit of a key: seal, commit record, finish, and how to settle a commit
 * that was left half done.
 *
 * A transaction that completes a key first seals its record in DynamoDB
 * (IN_PROGRESS to COMMITTING).  Only then does PostgreSQL write the commit
 * record, which also makes an outbox row visible.  The row is the decision: the
 * worker finishes the record (COMMITTING to COMPLETED) because there is a row,
 * or gives it back (to FAILED) because there is none and none can come.
 *
 * What is modelled
 *
 *   One key, and two sessions in two databases on two servers, so that no
 *   unique index helps.  Each session claims the key a bounded number of times,
 *   either by an acquire in its transaction or, with ONCE, by the seal itself.
 *   Requests of a session may be sent twice, arrive late, in any order or never,
 *   and each answer may be lost.  A claim's lease may be over at any time.  A
 *   server may crash and start again, with its claim file or without.  A
 *   transaction that has sealed may be prepared instead of committed.  Then it is
 *   nobody's session's, outlives every crash, and is committed or rolled back later.
 *   Transactions fail before and after their seal.  Any session of a database
 *   that meets a COMMITTING record may settle it at any time, and reads the
 *   record and the evidence in separate steps.  It may have come by any address of
 *   the table, and finds rows by the token.  With RESTORES the record is copied to
 *   another table while it is COMMITTING, as from a backup, and that copy is finished, too.
 *
 * What is not
 *
 *   Standbys, copies and transaction ids (lives.pml has them), savepoints, kept
 *   claims and unseal, several keys, the retention.
 *
 * Invariants
 *
 *   (a) No key is COMPLETED whose work is not committed.
 *   (b) No two transactions have committed the work of one key.
 *   (c) From every state the databases can settle the key.
 *   (d) Once the slot of a claim is free, no late request of that claim takes
 *       the key.  It holds for claims at commit (ONCE), and for a single claim.
 *       Otherwise a late acquire may find the FAILED record of another claim;
 *       no transaction works under it, and its lease ends it.
 *
 *   (a), (b) and (d) are assertions.  For (c) the process Judge may stop the
 *   world: nothing crashes, no answer is lost and no session begins any more.
 *   If the key is COMMITTING then and the other processes can do no more, Spin
 *   reports an invalid end state.
 *
 * How to read it
 *
 *   Each option of a loop is one step: an atomic block whose first line says
 *   when it may be taken.  Any step that may be taken may come next.  Rules
 *   are in force unless NO_<RULE> is defined.  test/model/run lists the
 *   configurations and the expected result of each.
 */

#ifndef CLAIMS0					/* claims of each session */
#define CLAIMS0 1
#endif
#ifndef CLAIMS1
#define CLAIMS1 1
#endif
#ifndef COPIES					/* how often a session sends one request */
#define COPIES 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef PREPARES				/* transactions that are prepared */
#define PREPARES 0
#endif
#ifndef RESTORES				/* copies of the record in another table */
#define RESTORES 0
#endif
#ifndef FORGETS					/* completed keys that an operator gives back on purpose */
#define FORGETS 0
#endif
#define MAX_TOKENS 5				/* tokens are 1 to 4 */

mtype = { NONE, IN_PROGRESS, COMMITTING, COMPLETED, FAILED,		/* a record */
	ASKING, HELD, SEALING, SEALED,								/* a transaction */
	RECORD_READ, NOT_GOING_ON, NO_ROW_SEEN };					/* a settler */

/* What the first request of a claim is: an acquire, or a seal that claims. */
#ifdef ONCE
#define FIRST_STATE		SEALING
#else
#define FIRST_STATE		ASKING
#endif

/* The record of the key. */
mtype status = NONE;
byte owner;						/* token of the claim */

/*
 * Each claim has a token.  Those of session 0 come first.  A set of tokens is
 * a bit mask.
 */
#define mask(x)			(1 << (x))
#define has(set, x)		(((set) >> (x)) & 1)
#define database_of(t)	((t) <= CLAIMS0 -> 0 : 1)

/* The network: copies of each request that may still arrive. */
byte acquires[MAX_TOKENS];
byte seals[MAX_TOKENS];
byte aborts;
byte finishes;

typedef Database
{
	/* the session's transaction */
	mtype tx = NONE;
	byte token;
	byte sent;					/* copies of its last request */
	byte claims;				/* left of the bound */
	bool stale;					/* there is an answer to a request that was given up */

	/* the claim table: what is left to do for claims whose transaction has ended */
	byte to_abort;
	byte to_bury;				/* the outcome of the first write was unknown */

	/* somebody who settles a record */
	mtype settler = NONE;
	byte seen;
	byte rows_seen;
	byte going_on_seen;
};
Database db[2];

byte prepared;					/* tokens whose transaction is prepared */
byte work;						/* tokens whose transaction has committed */
byte rows;						/* tokens whose outbox row is there */
byte unflushed;					/* commits that a crash would lose */
byte freed;						/* tokens whose slot is free again */
byte works;						/* commits, since an operator gave the key back */

byte copy;						/* token in the copy of the record; 0: there is none */
bool copy_completed;

byte crashes = CRASHES;
byte prepares = PREPARES;
byte forgets = FORGETS;
bool stopped;					/* Judge has stopped the world */

bool invariant_a = true;
bool invariant_b = true;
bool invariant_d = true;

/* In a stopped world steps are taken only while the key is unsettled. */
#define may				(!stopped || status == COMMITTING)

/* Asserts (a) and (b).  Called by each step after which one of them may be false. */
inline check()
{
	invariant_a = (status != COMPLETED || has(work, owner));
	assert(invariant_a);
	invariant_b = (works <= 1);
	assert(invariant_b)
}

/* (d), when claim t has taken the key. */
inline check_ghost(t)
{
	invariant_d = (FIRST_STATE == ASKING && CLAIMS0 + CLAIMS1 > 1) || !has(freed, t);
	assert(invariant_d)
}

/* ----- The session ----- */

#ifndef NO_FRESH_TOKEN
#define next_token(d)	((d) == 0 -> CLAIMS0 - db[d].claims + 1 : CLAIMS0 + CLAIMS1 - db[d].claims + 1)
#else
#define next_token(d)	((d) == 0 -> 1 : CLAIMS0 + 1)
#endif

inline begin(d)
{
	d_step
	{
		!stopped && db[d].tx == NONE && db[d].claims > 0;
		db[d].token = next_token(d);
		db[d].claims--;
		db[d].sent = 1;
		db[d].tx = FIRST_STATE;
		if
		:: FIRST_STATE == ASKING -> acquires[db[d].token]++
		:: else -> seals[db[d].token]++
		fi;
		printf("database %d: the first request of claim %d is sent\n", d, db[d].token)
	}
}

inline send_again(d)
{
	d_step
	{
		!stopped && (db[d].tx == ASKING || db[d].tx == SEALING) && db[d].sent < COPIES;
		db[d].sent++;
		if
		:: db[d].tx == ASKING -> acquires[db[d].token]++
		:: else -> seals[db[d].token]++
		fi;
		printf("database %d: the request of claim %d is sent again\n", d, db[d].token)
	}
}

inline send_seal(d)
{
	d_step
	{
		!stopped && db[d].tx == HELD;
		db[d].tx = SEALING;
		db[d].sent = 1;
		seals[db[d].token]++;
		printf("database %d: the seal of claim %d is sent\n", d, db[d].token)
	}
}

/* The slot says what is left to do.  After a claim at commit a late seal could claim, too. */
inline end_aborted(d, unknown)
{
	if
	:: FIRST_STATE == SEALING || (unknown && db[d].tx == ASKING) -> db[d].to_bury = db[d].to_bury | mask(db[d].token)
	:: else -> db[d].to_abort = db[d].to_abort | mask(db[d].token)
	fi;
	db[d].tx = NONE;
	db[d].token = 0;
	db[d].sent = 0
}

#ifdef UNKNOWN_IS_YES
#define unknown_is_yes	true
#else
#define unknown_is_yes	false
#endif

/* A session that gets no definite answer in time gives up, and its transaction aborts. */
inline give_up(d)
{
	d_step
	{
		may && (db[d].tx == ASKING || db[d].tx == SEALING);
		if
		:: unknown_is_yes && db[d].tx == SEALING -> db[d].tx = SEALED
		:: else -> end_aborted(d, true)
		fi;
		printf("database %d: no answer in time\n", d)
	}
}

inline abort(d)
{
	d_step
	{
		may && (db[d].tx == HELD || db[d].tx == SEALED);
		printf("database %d: the transaction of claim %d aborts\n", d, db[d].token);
		end_aborted(d, false)
	}
}

#ifndef SEAL_AFTER_COMMIT
#define may_commit(d)	(db[d].tx == SEALED)
#else
#define may_commit(d)	(db[d].tx == SEALED || db[d].tx == HELD)
#endif

/* The commit record is flushed before anybody sees the row, also with synchronous_commit = off. */
#ifndef NO_FLUSH
#define not_flushed(t)	0
#else
#define not_flushed(t)	mask(t)
#endif

inline commit(d)
{
	d_step
	{
		may && may_commit(d);
		printf("database %d: the transaction of claim %d commits\n", d, db[d].token);
		work = work | mask(db[d].token);
		rows = rows | mask(db[d].token);
		works++;
		unflushed = unflushed | not_flushed(db[d].token);
		db[d].tx = NONE;
		db[d].token = 0;
		db[d].sent = 0;
		check()
	}
}

/* PREPARE TRANSACTION is flushed.  The session may begin with another claim. */
inline prepare(d)
{
	d_step
	{
		!stopped && prepares > 0 && db[d].tx == SEALED;
		prepares--;
		prepared = prepared | mask(db[d].token);
		printf("database %d: the transaction of claim %d is prepared\n", d, db[d].token);
		db[d].tx = NONE;
		db[d].token = 0;
		db[d].sent = 0
	}
}

/* An answer that does not name this request would be taken for its answer. */
inline take_stale_answer(d)
{
	d_step
	{
		!stopped && db[d].stale && (db[d].tx == ASKING || db[d].tx == SEALING);
		db[d].stale = false;
		if
		:: db[d].tx == ASKING -> db[d].tx = HELD
		:: else -> db[d].tx = SEALED
		fi;
		printf("database %d: the answer to an earlier request arrives\n", d)
	}
}

proctype Session(byte d)
{
end:
	do
	:: begin(d)
	:: send_again(d)
	:: send_seal(d)
	:: give_up(d)
	:: abort(d)
	:: commit(d)
	:: prepare(d)
	:: take_stale_answer(d)
	od
}

/* ----- DynamoDB: each request is one conditional write ----- */

/* A record of another claim, which lease_over takes over in deliver_acquire() and deliver_seal(). */
#ifndef STEAL_COMMITTING
#define may_take_over(t)	(status == IN_PROGRESS && owner != (t))
#else
#define may_take_over(t)	((status == IN_PROGRESS || status == COMMITTING) && owner != (t))
#endif
#ifndef NO_OWN_TOKEN
#define is_free(t)			(status == NONE || (status == FAILED && owner != (t)))
#else
#define is_free(t)			(status == NONE || status == FAILED)
#endif

#ifndef NO_ECHO_CHECK
#define believes_any	false
#else
#define believes_any	true
#endif

/* The answer arrives, or it is lost.  It counts only for the request that it names. */
inline answer(t, arrives, waits, yes, then)
{
	if
	:: db[database_of(t)].tx == waits && db[database_of(t)].token == t && arrives ->
		if
		:: yes -> db[database_of(t)].tx = then
		:: else -> end_aborted(database_of(t), false)
		fi
	:: else -> db[database_of(t)].stale = db[database_of(t)].stale || (believes_any && yes && arrives)
	fi
}

inline deliver_acquire(t, lease_over, arrives)
{
	d_step
	{
		(!stopped || (status == COMMITTING && arrives)) && acquires[t] > 0 && (!(lease_over) || may_take_over(t));
		acquires[t]--;
		if
		:: is_free(t) || lease_over ->
			status = IN_PROGRESS;
			owner = t;
			check_ghost(t);
			printf("the acquire of claim %d takes the key\n", t)
		:: else -> printf("the acquire of claim %d arrives\n", t)
		fi;
		answer(t, arrives, ASKING, (status == IN_PROGRESS && owner == t), HELD)
	}
}

#if defined(ONCE)
#define may_seal(t, lease_over)		(is_free(t) || lease_over)
#elif !defined(NO_STATUS_ON_SEAL)
#define may_seal(t, lease_over)		(status == IN_PROGRESS && owner == (t))
#else
#define may_seal(t, lease_over)		(owner == (t))
#endif

inline deliver_seal(t, lease_over, arrives)
{
	d_step
	{
		(!stopped || (status == COMMITTING && arrives)) && seals[t] > 0 && (!(lease_over) || may_take_over(t));
		seals[t]--;
		if
		:: may_seal(t, lease_over) ->
			status = COMMITTING;
			owner = t;
			check_ghost(t);
			printf("the seal of claim %d arrives\n", t)
		:: else -> printf("the seal of claim %d arrives and changes nothing\n", t)
		fi;
		answer(t, arrives, SEALING, (status == COMMITTING && owner == t), SEALED)
	}
}

/* An abort and a burial name the token.  A burial also leaves a FAILED record where there is none. */
#ifndef NO_TOKEN_ON_ABORT
#define takes_abort(t)	((status == IN_PROGRESS || status == COMMITTING) && owner == (t))
#else
#define takes_abort(t)	(status == IN_PROGRESS || status == COMMITTING)
#endif

inline apply_abort(t)
{
	if
	:: takes_abort(t) || (status == NONE && has(db[database_of(t)].to_bury, t)) ->
		status = FAILED;
		owner = t
	:: else
	fi
}

inline deliver_abort(t)
{
	d_step
	{
		may && has(aborts, t);
		aborts = aborts & ~mask(t);
		apply_abort(t);
		printf("the abort of claim %d arrives\n", t)
	}
}

#ifndef NO_TOKEN_ON_FINISH
#define takes_finish(t)	(status == COMMITTING && owner == (t))
#else
#define takes_finish(t)	(status == COMMITTING)
#endif

inline deliver_finish(t)
{
	d_step
	{
		may && has(finishes, t);
		finishes = finishes & ~mask(t);
		if
		:: takes_finish(t) -> status = COMPLETED
		:: else
		fi;
		printf("the finish of claim %d arrives\n", t);
		check()
	}
}

/* A signature is valid for some minutes, so that a request cannot arrive later. */
inline expire(t)
{
	d_step
	{
		may && (acquires[t] > 0 || seals[t] > 0) && db[database_of(t)].token != t;
		acquires[t] = 0;
		seals[t] = 0;
		printf("the late requests of claim %d have expired\n", t)
	}
}

proctype DynamoDB(byte t)
{
end:
	do
	:: deliver_acquire(t, false, true)
	:: deliver_acquire(t, false, false)
	:: deliver_acquire(t, true, true)
	:: deliver_acquire(t, true, false)
	:: deliver_seal(t, false, true)
	:: deliver_seal(t, false, false)
#ifdef ONCE
	:: deliver_seal(t, true, true)
	:: deliver_seal(t, true, false)
#endif
	:: deliver_abort(t)
	:: deliver_finish(t)
	:: expire(t)
	od
}

/* ----- The worker of the claim's database ----- */

#define to_give_back(t)	(has(db[database_of(t)].to_abort, t) || has(db[database_of(t)].to_bury, t))

inline give_back(t)
{
	d_step
	{
		may && to_give_back(t) &&
		(takes_abort(t) || (status == NONE && has(db[database_of(t)].to_bury, t)));
		apply_abort(t);
		printf("the worker gives claim %d back\n", t)
	}
}

/* The request is sent, and arrives later. */
inline send_abort(t)
{
	d_step
	{
		!stopped && to_give_back(t) && !has(aborts, t);
		aborts = aborts | mask(t);
		printf("the worker sends the abort of claim %d\n", t)
	}
}

/* The last look is after the session's requests have expired. */
#ifndef NO_LAST_LOOK
#define had_last_look(t)	(has(db[database_of(t)].to_abort, t) || (acquires[t] == 0 && seals[t] == 0))
#else
#define had_last_look(t)	true
#endif

inline free_slot(t)
{
	d_step
	{
		may && to_give_back(t) && status != NONE &&
		!((status == IN_PROGRESS || status == COMMITTING) && owner == t) && had_last_look(t);
		db[database_of(t)].to_abort = db[database_of(t)].to_abort & ~mask(t);
		db[database_of(t)].to_bury = db[database_of(t)].to_bury & ~mask(t);
		freed = freed | mask(t);
		printf("the slot of claim %d is freed\n", t)
	}
}

/* The row is the only permission to finish. */
#ifndef FINISH_BEFORE_COMMIT
#define may_finish(t)	(status == COMMITTING && owner == (t) && has(rows, t))
#else
#define may_finish(t)	(status == COMMITTING && owner == (t) && \
						 (has(rows, t) || (db[database_of(t)].tx == SEALED && db[database_of(t)].token == (t))))
#endif

inline finish(t)
{
	d_step
	{
		may && may_finish(t);
		status = COMPLETED;
		printf("the worker finishes claim %d\n", t);
		check()
	}
}

inline send_finish(t)
{
	d_step
	{
		!stopped && may_finish(t) && !has(finishes, t);
		finishes = finishes | mask(t);
		printf("the worker sends the finish of claim %d\n", t)
	}
}

/* The row stays until the finish is known to have been applied, to the record that it names. */
#if defined(NO_OWN_ANSWER)
#define is_finished(t)	((status == COMPLETED && owner == (t)) || (copy_completed && copy == (t)))
#elif !defined(NO_ANSWER_TO_FINISH)
#define is_finished(t)	(status == COMPLETED && owner == (t))
#else
#define is_finished(t)	(has(finishes, t) || (status == COMPLETED && owner == (t)))
#endif

inline remove_row(t)
{
	d_step
	{
		!stopped && has(rows, t) && is_finished(t);
		rows = rows & ~mask(t);
		printf("the row of claim %d is removed\n", t)
	}
}

#if RESTORES > 0
inline copy_record(t)
{
	d_step
	{
		!stopped && copy == 0 && status == COMMITTING && owner == t;
		copy = t;
		printf("the record of claim %d is copied to another table\n", t)
	}
}

inline finish_copy(t)
{
	d_step
	{
		!stopped && copy == t && !copy_completed && has(rows, t);
		copy_completed = true;
		printf("the copy of the record of claim %d is finished\n", t)
	}
}
#endif

/* COMMIT PREPARED, by whatever process. */
inline commit_prepared(t)
{
	d_step
	{
		may && has(prepared, t);
		prepared = prepared & ~mask(t);
		work = work | mask(t);
		rows = rows | mask(t);
		works++;
		printf("the prepared transaction of claim %d commits\n", t);
		check()
	}
}

/* A slot may tell the worker of it.  Without one only the record does. */
inline rollback_prepared(t, with_slot)
{
	d_step
	{
		may && has(prepared, t);
		prepared = prepared & ~mask(t);
		if
		:: with_slot && FIRST_STATE == SEALING -> db[database_of(t)].to_bury = db[database_of(t)].to_bury | mask(t)
		:: with_slot && FIRST_STATE != SEALING -> db[database_of(t)].to_abort = db[database_of(t)].to_abort | mask(t)
		:: else
		fi;
		printf("the prepared transaction of claim %d is rolled back\n", t)
	}
}

#ifdef SEAL_AFTER_COMMIT
inline seal_row(t)
{
	d_step
	{
		may && has(rows, t) && status == IN_PROGRESS && owner == t;
		status = COMMITTING;
		printf("the worker seals claim %d\n", t)
	}
}
#endif

proctype Worker(byte t)
{
end:
	do
	:: give_back(t)
	:: send_abort(t)
	:: free_slot(t)
	:: finish(t)
	:: send_finish(t)
	:: remove_row(t)
#if RESTORES > 0
	:: copy_record(t)
	:: finish_copy(t)
#endif
#if PREPARES > 0
	:: commit_prepared(t)
	:: rollback_prepared(t, true)
	:: rollback_prepared(t, false)
#endif
#ifdef SEAL_AFTER_COMMIT
	:: seal_row(t)
#endif
	od
}

/* ----- Whoever meets a COMMITTING record of his database ----- */

/*
 * The record is read first, then it is asked whether the transaction is still
 * going on, and only then for a row.  A transaction that was no longer going
 * on has left its row by then, or the row is gone because the record has been
 * finished; then the write is refused, because it names what was read.
 */
#ifndef NO_ORIGIN
#define is_mine(d)			(database_of(owner) == d)
#else
#define is_mine(d)			true
#endif
/* Rows, also of prepared transactions, are found by the token, by whatever address somebody asks. */
#ifndef BY_ADDRESS
#define finds_rows			true
#else
#define finds_rows			false
#endif
#ifndef NO_PREPARED_GOING_ON
#define is_prepared(t)		(finds_rows && has(prepared, t))
#else
#define is_prepared(t)		false
#endif
#define going_on(d)			((db[d].tx != NONE && db[d].token == db[d].seen) || is_prepared(db[d].seen))

inline forget_evidence(d)
{
	db[d].settler = NONE;
	db[d].seen = 0;
	db[d].rows_seen = 0;
	db[d].going_on_seen = 0
}

#if defined(NO_RECORD_FIRST)
#define evidence_is_old		true
#else
#define evidence_is_old		false
#endif

inline read_evidence(d)
{
	d_step
	{
		evidence_is_old && !stopped && db[d].settler == NONE;
		db[d].settler = RECORD_READ;
		db[d].rows_seen = rows;
		db[d].going_on_seen = db[d].token;
		printf("database %d: a settler looks at rows and transactions\n", d)
	}
}

inline judge_by_old_evidence(d)
{
	d_step
	{
		evidence_is_old && db[d].settler == RECORD_READ && status == COMMITTING && is_mine(d) &&
		owner != db[d].going_on_seen && !has(db[d].rows_seen, owner);
		db[d].settler = NO_ROW_SEEN;
		db[d].seen = owner;
		printf("database %d: a settler reads the record and finds it aborted\n", d)
	}
}

/* The rule is to look for the row last.  Without it the rows are those from the first step. */
#ifndef NO_GOING_ON_FIRST
#define rows_at_once	0
#define rows_now(d)		rows
#else
#define rows_at_once	rows
#define rows_now(d)		db[d].rows_seen
#endif

inline read_record(d)
{
	d_step
	{
		!evidence_is_old && may && db[d].settler == NONE && status == COMMITTING && is_mine(d);
		db[d].settler = RECORD_READ;
		db[d].seen = owner;
		db[d].rows_seen = rows_at_once;
		printf("database %d: a settler reads the record of claim %d\n", d, owner)
	}
}

inline ask_if_going_on(d)
{
	d_step
	{
		!evidence_is_old && may && db[d].settler == RECORD_READ;
		if
		:: going_on(d) ->
			forget_evidence(d);
			printf("database %d: the settler finds the transaction going on\n", d)
		:: else ->
			db[d].settler = NOT_GOING_ON;
			printf("database %d: the settler finds it not going on\n", d)
		fi
	}
}

inline look_for_row(d)
{
	d_step
	{
		may && db[d].settler == NOT_GOING_ON;
		if
		:: finds_rows && has(rows_now(d), db[d].seen) -> forget_evidence(d)
		:: else ->
			db[d].settler = NO_ROW_SEEN;
			printf("database %d: the settler finds no row\n", d)
		fi
	}
}

inline write_aborted(d)
{
	d_step
	{
		may && db[d].settler == NO_ROW_SEEN;
		if
		:: status == COMMITTING && owner == db[d].seen -> status = FAILED
		:: else
		fi;
		printf("database %d: the settler writes that claim %d was aborted\n", d, db[d].seen);
		forget_evidence(d)
	}
}

proctype Settler(byte d)
{
end:
	do
	:: read_evidence(d)
	:: judge_by_old_evidence(d)
	:: read_record(d)
	:: ask_if_going_on(d)
	:: look_for_row(d)
	:: write_aborted(d)
	od
}

/* ----- What else may happen ----- */

/* A claim of a prepared transaction is not one whose transaction was open. */
#ifndef CRASH_ENDS_PREPARED
#define ended_by_crash(d)	0
#else
#define ended_by_crash(d)	(prepared & ((d) == 0 -> mask(CLAIMS0 + 1) - 1 : ~(mask(CLAIMS0 + 1) - 1)))
#endif

/*
 * Every process of a server is killed.  From the claim file the worker knows
 * which claims were open; without it only the record tells.
 */
inline crash(d, with_file)
{
	d_step
	{
		!stopped && crashes > 0;
		crashes--;
		if
		:: with_file && db[d].token > 0 -> end_aborted(d, true)
		:: with_file && db[d].token == 0
		:: !with_file ->
			db[d].to_abort = 0;
			db[d].to_bury = 0
		fi;
		db[d].to_abort = db[d].to_abort | ended_by_crash(d);
		db[d].tx = NONE;
		db[d].token = 0;
		db[d].sent = 0;
		db[d].stale = false;
		forget_evidence(d);
		work = work & ~unflushed;
		rows = rows & ~unflushed;
		works = works - (unflushed > 0 -> 1 : 0);
		unflushed = 0;
		printf("database %d crashes and starts again\n", d);
		check()
	}
}

/* The work may be done once more then. */
inline forget()
{
	d_step
	{
		!stopped && forgets > 0 && status == COMPLETED;
		forgets--;
		status = FAILED;
		works = 0;
		printf("an operator gives the key back\n")
	}
}

#ifdef TTL_ON_COMMITTING
#define may_be_deleted	(status == COMMITTING)
#else
#define may_be_deleted	false
#endif

inline delete_expired()
{
	d_step
	{
		!stopped && may_be_deleted;
		status = NONE;
		owner = 0;
		printf("DynamoDB deletes the record\n")
	}
}

proctype Environment()
{
end:
	do
	:: crash(0, true)
	:: crash(0, false)
	:: crash(1, true)
	:: crash(1, false)
	:: forget()
	:: delete_expired()
	od
}

/* ----- (c) ----- */

proctype Judge()
{
end:
	d_step
	{
		status == COMMITTING;
		stopped = true;
		aborts = 0;
		finishes = 0;
		crashes = 0;
		forgets = 0;
		printf("the world is stopped: can the databases settle the key?\n")
	}
	status != COMMITTING
}

init
{
	atomic
	{
		db[0].claims = CLAIMS0;
		db[1].claims = CLAIMS1;
		run Session(0);
		run Session(1);
#ifndef NO_SETTLING_BY_RECORD
		run Settler(0);
		run Settler(1);
#endif
		run DynamoDB(1);
		run Worker(1);
#if CLAIMS0 + CLAIMS1 > 1
		run DynamoDB(2);
		run Worker(2);
#endif
#if CLAIMS0 + CLAIMS1 > 2
		run DynamoDB(3);
		run Worker(3);
#endif
#if CLAIMS0 + CLAIMS1 > 3
		run DynamoDB(4);
		run Worker(4);
#endif
#ifndef NO_JUDGE
		run Judge();
#endif
		run Environment()
	}
}
