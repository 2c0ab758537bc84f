/*
 * Progress: what a run leaves in the record for the next one.
 *
 * A run that has effects outside the database notes them in the record while it goes on, with
 * a request that takes effect at once (idem_extend() with progress).  The next run reads
 * them with its claim.  Each note has a number, one more than that of the note before it.
 *
 * What is modelled
 *
 *   One key, and up to three runs, each of which claims the key under a token of its own, once.  A
 *   run takes over from another one at any time: leases end when they like.  A run that was
 *   displaced goes on, and does not know.  Each effect is an element of a set.  A run notes the
 *   set that it knows of and one effect more, up to twice.  Each request may arrive late, twice or
 *   never, and each answer may be lost.  A run that gets no answer, or is refused, goes on: in
 *   the first case with what it knew before, in the second one with what the refusal has
 *   shown.  The transaction of a run seals the record; then the seal is taken back and the run goes
 *   on, or the run is failed, or the key is finished.  An operator may let the key run again
 *   (FORGETS), without what was noted before.
 *
 * What is not
 *
 *   Several sessions that have one token: to DynamoDB they are one run whose answers are lost.
 *   The lease, which the same request extends.  Clients of other layouts, which replace the
 *   record, and its notes with it.
 *
 * Invariants
 *
 *   (a) A run starts with all that an earlier run was told is written.
 *   (b) After an operator has let the key run again, no run starts with anything of before.
 *   (d) A COMPLETED record has no progress.
 *
 *   All are assertions.  It is read as commit.pml is.
 */

#ifndef RUNS
#define RUNS 2
#endif
#ifndef COPIES					/* how often one request may arrive */
#define COPIES 1
#endif
#ifndef FORGETS
#define FORGETS 0
#endif
#ifndef NOTES					/* of each run, up to 2 */
#define NOTES 2
#endif
#define MAX_IDS		4			/* runs are 1 to 3, and so are their tokens */

mtype = { FREE, IN_PROGRESS, COMMITTING, COMPLETED,		/* a record */
	IDLE, ASKING, RUNNING, OVER };						/* a run */

/* The record of the key.  A set of effects is a bit mask. */
mtype status = FREE;
byte owner;
byte number;					/* of its progress; 0: it has none */
byte progress;

mtype run_is[MAX_IDS] = IDLE;
byte seen[MAX_IDS];				/* the number of the last progress that the run has seen */
byte knows[MAX_IDS];			/* and what that was */
byte notes[MAX_IDS];			/* requests that it has sent */
bool waits[MAX_IDS];			/* for the answer to the last one */

/* Note n of run r. */
#define note(r, n)		((r) * NOTES + (n) - NOTES - 1)
#define MAX_NOTES	(NOTES * RUNS)
byte copies[MAX_NOTES];			/* that may still arrive */
byte wants[MAX_NOTES];			/* its condition */
byte says[MAX_NOTES];			/* its progress */

byte told;						/* what runs were told is written, since the key was forgotten */
byte forgotten;					/* the effects of the runs before that */
byte forgets = FORGETS;

bool invariant_a = true;
bool invariant_b = true;
bool invariant_d = true;

#define mask(x)			(1 << (x))

inline remove_progress()
{
	number = 0;
	progress = 0
}

/* ----- A claim ----- */

/* The run begins with what the answer to its claim has shown. */
inline begin(r)
{
	invariant_a = ((told & ~knows[r]) == 0);
	assert(invariant_a);
	invariant_b = ((forgotten & knows[r]) == 0);
	assert(invariant_b);
	run_is[r] = RUNNING
}

inline acquire(r)
{
	d_step
	{
		run_is[r] == IDLE && (status == FREE || status == IN_PROGRESS);
		status = IN_PROGRESS;
		owner = r;
#ifdef CLAIM_DROPS
		remove_progress();
#endif
		run_is[r] = ASKING;
		printf("run %d claims the key\n", r)
	}
}

#ifdef READ_BEFORE
/* A read that comes before the request. */
inline read(r)
{
	d_step
	{
		run_is[r] == IDLE && seen[r] == 0 && number > 0;
		seen[r] = number;
		knows[r] = progress;
		printf("run %d reads progress %d\n", r, number)
	}
}
#else
#define read(r)		false
#endif

/*
 * The answer to the claim comes with the record as it was written.  If that answer is lost, the
 * request is repeated, and refused by the record, which is still that of the run.
 */
inline get_claim(r)
{
	d_step
	{
		run_is[r] == ASKING && owner == r && status == IN_PROGRESS;
#ifndef READ_BEFORE
		seen[r] = number;
		knows[r] = progress;
#endif
		printf("run %d has the key, with progress %d\n", r, seen[r]);
		begin(r)
	}
}

inline miss_claim(r)
{
	d_step
	{
		run_is[r] == ASKING;
		run_is[r] = OVER;
		printf("run %d does not learn that it has the key\n", r)
	}
}

/* ----- A note ----- */

inline send_note(r)
{
	d_step
	{
		run_is[r] == RUNNING && !waits[r] && notes[r] < NOTES;
		notes[r]++;
		copies[note(r, notes[r])] = COPIES;
		wants[note(r, notes[r])] = seen[r];
		says[note(r, notes[r])] = knows[r] | mask(note(r, notes[r]));
		waits[r] = true;
		printf("run %d sends note %d, after progress %d\n", r, notes[r], seen[r])
	}
}

inline give_up_waiting(r)
{
	d_step
	{
		waits[r];
		waits[r] = false;
		printf("run %d gets no answer to note %d\n", r, notes[r])
	}
}

#ifndef NO_STATUS
#define is_running		(status == IN_PROGRESS)
#else
#define is_running		(status != FREE)
#endif
#ifndef NO_OWNER
#define is_own(r)		(owner == (r))
#else
#define is_own(r)		true
#endif
#ifndef NO_NUMBER
#define is_next(r, n)	(number == wants[note(r, n)])
#else
#define is_next(r, n)	true
#endif
#define takes(r, n)		(is_running && is_own(r) && is_next(r, n))

/* A refusal shows the write of an earlier copy: our token, our number, and what it says. */
#ifndef NO_TEXT
#define is_same(r, n)	(progress == says[note(r, n)])
#else
#define is_same(r, n)	true
#endif
#define is_written(r, n) \
	(status == IN_PROGRESS && owner == (r) && number == wants[note(r, n)] + 1 && is_same(r, n))

inline answer(r, n)
{
	if
	:: is_written(r, n) ->
		seen[r] = number;
		knows[r] = says[note(r, n)];
		told = told | (knows[r] & ~forgotten);
		printf("run %d is told that note %d is written\n", r, n)
	:: !is_written(r, n) && owner == r && status == IN_PROGRESS ->
		seen[r] = number;
		knows[r] = progress;
		printf("run %d is told that there is another note\n", r)
	:: else ->
		run_is[r] = OVER;
		printf("run %d is told that it has lost the key\n", r)
	fi;
	waits[r] = false
}

inline deliver(r, n, answered)
{
	d_step
	{
		copies[note(r, n)] > 0 && (!answered || (waits[r] && notes[r] == n));
		copies[note(r, n)]--;
		if
		:: takes(r, n) ->
#ifndef NO_NUMBER
			number = wants[note(r, n)] + 1;
#else
			number++;
			wants[note(r, n)] = number - 1;
#endif
			progress = says[note(r, n)];
			printf("note %d of run %d arrives\n", n, r)
		:: else -> printf("note %d of run %d arrives and is refused\n", n, r)
		fi;
		invariant_d = (status != COMPLETED || number == 0);
		assert(invariant_d);
		if
		:: answered -> answer(r, n)
		:: else
		fi
	}
}

proctype Run(byte r)
{
end:
	do
	:: acquire(r)
	:: read(r)
	:: get_claim(r)
	:: miss_claim(r)
	:: send_note(r)
	:: give_up_waiting(r)
	:: deliver(r, 1, true)
	:: deliver(r, 1, false)
#if NOTES > 1
	:: deliver(r, 2, true)
	:: deliver(r, 2, false)
#endif
	od
}

/* ----- The end of a run ----- */

inline seal()
{
	d_step
	{
		status == IN_PROGRESS;
		status = COMMITTING;
#ifdef SEAL_DROPS
		remove_progress();
#endif
		printf("run %d seals the record\n", owner)
	}
}

/* The claim stands as before: unseal, or resume. */
inline unseal()
{
	d_step
	{
		status == COMMITTING;
		status = IN_PROGRESS;
#ifdef UNSEAL_DROPS
		remove_progress();
#endif
		printf("the seal of run %d is taken back\n", owner)
	}
}

/* Failed, released, aborted or buried. */
inline give_back()
{
	d_step
	{
		status == IN_PROGRESS || status == COMMITTING;
		status = FREE;
#ifdef FAILURE_DROPS
		remove_progress();
#endif
		printf("run %d gives the key back\n", owner)
	}
}

inline finish()
{
	d_step
	{
		status == COMMITTING;
		status = COMPLETED;
#ifndef FINISH_KEEPS
		remove_progress();
#endif
		printf("run %d completes the key\n", owner);
		invariant_d = (number == 0);
		assert(invariant_d)
	}
}

#define effects_of(r)	(run_is[r] != IDLE -> mask(note(r, 1)) | mask(note(r, NOTES)) : 0)

inline forget()
{
	d_step
	{
		forgets > 0 && status != COMMITTING && owner > 0;
		forgets--;
		status = FREE;
		owner = 0;
#ifndef FORGET_KEEPS
		remove_progress();
#endif
		told = 0;
		forgotten = effects_of(1) | effects_of(2);
#if RUNS > 2
		forgotten = forgotten | effects_of(3);
#endif
		printf("an operator lets the key run again\n")
	}
}

proctype Others()
{
end:
	do
	:: seal()
	:: unseal()
	:: give_back()
	:: finish()
	:: forget()
	od
}

init
{
	atomic
	{
		run Others();
		run Run(1);
		run Run(2);
#if RUNS > 2
		run Run(3);
#endif
	}
}
