/*
 * Transacts: a key is completed together with writes of the caller's, in one request.
 *
 * No transaction of PostgreSQL, lease or worker stands behind such a completion.  So what
 * the caller is told is all there is: if he is told that nothing was done, he may do the
 * work in another way, and no copy of the request that is still on its way may be
 * applied any more.
 *
 * What is modelled
 *
 *   One key.  Up to two callers send transacts for it: first a request for a key without
 *   a record, and if there is a free record a second one, which replaces exactly the record
 *   that was seen.  Each request may be applied without an answer, arrive late, several
 *   times or never, and is repeated.  The writes of the callers have a condition, which
 *   becomes true and false at any time.  A caller whose clock is behind may find that
 *   a free record is not free yet.  Up to RIVALS times another run takes the key, and gives it
 *   back, or an operator lets a completed key run again while no call is going on.  A run of
 *   another layout (DELETES) deletes the record when it gives the key back; there no operator
 *   does anything.
 *
 * What is not
 *
 *   A record that is past its time, which is replaced as a free one is; and how long a
 *   record is kept: longer than a request can be late.
 *
 * Invariants
 *
 *   (a) Who is told that a transact was done, or that it was not, is told the truth, and it stays
 *       the truth.
 *   (b) The work of the key is done once, and once more after an operator has let it run again,
 *       but not by a copy of a request that was answered before.
 *
 *   Both are assertions.  It is read as commit.pml is.
 */

#ifndef CALLERS
#define CALLERS 1
#endif
#ifndef RIVALS
#define RIVALS 2
#endif
#define MAX_IDS		3			/* callers are 1 and 2, and so are their tokens; 0: the rival's */

mtype = { ABSENT, FREE, TAKEN, COMPLETED,			/* a record */
	FIRST, SECOND, BURYING,							/* what a caller sends next */
	DONE, NOT_DONE, UNKNOWN };						/* and what he is told */

mtype status = ABSENT;
byte owner;
byte version;					/* each write makes another record of it */
bool condition = true;			/* of the callers' writes */

mtype caller[MAX_IDS] = FIRST;
byte seen[MAX_IDS];				/* the version that the second request replaces */
bool doubt[MAX_IDS];			/* a copy of a request may be on its way */
bool replaces[MAX_IDS];			/* one of a second request */
bool firsts[MAX_IDS];			/* the copies */
bool seconds[MAX_IDS];
byte wanted[MAX_IDS];			/* by the copy of the second */
bool burials[MAX_IDS];
bool applied[MAX_IDS];
byte works;
byte rivals = RIVALS;

bool invariant_a = true;
bool invariant_b = true;

inline check(x)
{
	invariant_a = (caller[x] != NOT_DONE || !applied[x]) && (caller[x] != DONE || applied[x]);
	assert(invariant_a);
	invariant_b = invariant_b && works <= 1;
	assert(invariant_b)
}

inline write(s, x)
{
	status = s;
	owner = x;
	version++
}

/* ----- DynamoDB ----- */

#ifdef NO_CONDITION
#define takes_first		true
#elif defined(FIRST_TAKES_FREE)
#define takes_first		(status == ABSENT || status == FREE)
#else
#define takes_first		(status == ABSENT)
#endif

#ifndef NOT_AS_SEEN
#define takes_second(v)	(status == FREE && version == (v))
#else
#define takes_second(v)	(status == FREE)
#endif

#define is_told(x)	(caller[x] == DONE || caller[x] == NOT_DONE || caller[x] == UNKNOWN)

inline apply(x)
{
	write(COMPLETED, x);
	invariant_b = (!applied[x] || !is_told(x));
	applied[x] = true;
	works++;
	check(x)
}

/* A burial leaves a failed record of the caller's token where there is none. */
inline apply_burial(x)
{
	if
	:: status == ABSENT -> write(FREE, x)
	:: else
	fi
}

/* A copy may be followed by another one. */
inline deliver_late(x)
{
	if
	:: d_step { firsts[x] && takes_first && condition -> printf("a first request of caller %d arrives late\n", x); apply(x) }
	:: d_step { seconds[x] && takes_second(wanted[x]) && condition -> printf("a second request of caller %d arrives late\n", x); apply(x) }
	:: d_step { burials[x] && status == ABSENT -> printf("a burial of caller %d arrives late\n", x); apply_burial(x) }
	fi
}

proctype DynamoDB(byte x)
{
end:
	do
	:: deliver_late(x)
	od
}

/* ----- A caller ----- */

#define tell(x, what) \
	caller[x] = what; \
	printf("caller %d is told %e\n", x, caller[x]); \
	check(x)

/*
 * There is a record, which refuses each copy of a first request as long as it stays, and each
 * copy of a second one unless it is what was seen.
 */
#ifdef DELETES
#define stays	false
#else
#define stays	true
#endif
#ifdef LAYOUT_IS_NOT_ASKED
#define copies_are_refused(x)	(!replaces[x])
#elif defined(REPLACED_COUNTS_AS_BURIED)
#define copies_are_refused(x)	stays
#else
#define copies_are_refused(x)	(stays && !replaces[x])
#endif

#ifndef NO_TOKEN
#define is_own(x)	(status == COMPLETED && owner == (x))
#else
#define is_own(x)	false
#endif

/* What a caller is told whose request was refused by a record that is not free for him. */
inline tell_of_others(x)
{
	if
	:: is_own(x) -> tell(x, DONE)
	:: !is_own(x) && (status == COMPLETED || !doubt[x] || copies_are_refused(x)) -> tell(x, NOT_DONE)
	:: else -> tell(x, UNKNOWN)
	fi
}

/* The condition of the caller's writes is false. */
inline tell_of_condition(x)
{
	if
#ifndef NO_BURIAL
	:: doubt[x] -> caller[x] = BURYING
	:: else -> tell(x, NOT_DONE)
#else
	:: true -> tell(x, NOT_DONE)
#endif
	fi
}

inline send_first(x)
{
	d_step
	{
		caller[x] == FIRST;
		printf("caller %d sends the first request\n", x);
		if
		:: takes_first && condition -> apply(x); tell(x, DONE)
		:: takes_first && !condition -> tell_of_condition(x)
		:: !takes_first && status == FREE -> caller[x] = SECOND; seen[x] = version
		:: else -> tell_of_others(x)
		fi
	}
}

inline send_second(x)
{
	d_step
	{
		caller[x] == SECOND;
		printf("caller %d sends the second request\n", x);
		if
		:: takes_second(seen[x]) && condition -> apply(x); tell(x, DONE)
		:: takes_second(seen[x]) && !condition -> tell_of_condition(x)
		:: !takes_second(seen[x]) && (status == ABSENT || status == FREE) -> caller[x] = FIRST
		:: else -> tell_of_others(x)
		fi
	}
}

/* His clock is behind that of whoever gave the key back. */
inline finds_it_too_early(x)
{
	d_step
	{
		(caller[x] == FIRST || caller[x] == SECOND) && status == FREE && !takes_first;
		printf("caller %d finds that the key is not free yet\n", x);
		tell_of_others(x)
	}
}

/* No answer comes: the request has not arrived yet, or is applied when its copy is. */
inline send_in_vain(x)
{
	d_step
	{
		caller[x] == FIRST || caller[x] == SECOND || caller[x] == BURYING;
		if
		:: caller[x] == FIRST -> firsts[x] = true; doubt[x] = true
		:: caller[x] == SECOND -> seconds[x] = true; wanted[x] = seen[x]; doubt[x] = true; replaces[x] = true
		:: caller[x] == BURYING -> burials[x] = true
		fi;
		printf("a request of caller %d has no answer\n", x)
	}
}

inline bury(x)
{
	d_step
	{
		caller[x] == BURYING;
		printf("caller %d buries the record\n", x);
		if
		:: is_own(x) -> tell(x, DONE)
		:: !is_own(x) && status == ABSENT ->
			apply_burial(x);
			if
			:: copies_are_refused(x) -> tell(x, NOT_DONE)
			:: else -> tell(x, UNKNOWN)
			fi
		:: !is_own(x) && status != ABSENT && copies_are_refused(x) -> tell(x, NOT_DONE)
		:: else -> tell(x, UNKNOWN)
		fi
	}
}

proctype Caller(byte x)
{
end:
	do
	:: send_first(x)
	:: send_second(x)
	:: finds_it_too_early(x)
	:: send_in_vain(x)
	:: bury(x)
	od
}

/* ----- Others ----- */

#if CALLERS > 1
#define no_second	is_told(2)
#else
#define no_second	true
#endif

proctype Others()
{
end:
	do
	:: d_step { rivals > 0 && (status == ABSENT || status == FREE) -> rivals--; write(TAKEN, 0); printf("another run takes the key\n") }
	:: d_step { status == TAKEN ->
#ifdef DELETES
		write(ABSENT, 0);
#else
		write(FREE, 0);
#endif
		printf("the other run gives the key back\n") }
#ifndef DELETES
	:: d_step { rivals > 0 && status == COMPLETED && is_told(1) && no_second -> rivals--; works = 0; write(FREE, 0); printf("an operator lets the key run again\n") }
#endif
	:: d_step { condition = !condition; printf("the condition of the writes is now %d\n", condition) }
	od
}

init
{
	atomic
	{
		run Others();
		run Caller(1);
		run DynamoDB(1);
#if CALLERS > 1
		run Caller(2);
		run DynamoDB(2);
#endif
	}
}
