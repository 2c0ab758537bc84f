/*
 * Silence: when may an heir take a life for over that nobody extends?
 *
 * lives.pml has "silence" as one event: an observer has seen one beat for T, which
 * is longer than the lease L.  Here it is the product's rule, with a service that is
 * away, readings that are lost, and beats that are lost.
 *
 * What is modelled
 *
 *   One life, its primary, and one heir that reads its item.  A tick is the pace at
 *   which the heir reads, and at which the primary tries again to send a beat that
 *   was not confirmed (EO_LIVES_PACE_US).  In an outage, which is longer than GAP
 *   ticks, neither arrives.  Outside of an outage any reading may be lost, and any
 *   beat, but of RESUME tries in a row one arrives: also the first ones after an
 *   outage may be lost, because they wait for a connection.
 *
 *   The heir adds up the intervals between answered readings of the same beat, if
 *   they are not longer than GAP: that is the silence.  The calm is the time since the
 *   last gap.  It retires the life after SILENCE ticks of silence, if the last CALM
 *   ticks, and READS readings, are calm.
 *
 *   With DEAD the primary never beats.
 *
 * What is not
 *
 *   The condition of the retirement, which is refused after another beat (lives.pml
 *   has it), clocks, and outages that are shorter than a gap: these are lost readings
 *   and lost beats here.
 *
 * Invariants
 *
 *   (a) A primary that beats is not retired.
 *   (b) With DEAD: the life is retired after at most BOUND ticks outside of outages,
 *       and from every state after at most that if no more readings are lost.
 *   (d) When the life is retired the lease of its primary has run out.
 *
 * Rules are in force unless NO_<RULE> is defined, or the macro that says what is done
 * instead.
 */

#ifndef GAP
#define GAP 5
#endif
#ifndef SILENCE
#define SILENCE 15
#endif
#ifndef CALM
#define CALM 5
#endif
#ifndef READS
#define READS 3
#endif
#ifndef LEASE
#define LEASE 10
#endif
#ifndef BEAT					/* the ticks between two confirmed beats */
#define BEAT 3
#endif
#ifndef RESUME
#define RESUME 3
#endif
#ifndef WINDOW					/* with DEAD: the ticks between two outages, at least */
#define WINDOW 12
#endif
#ifndef LOSSES					/* with DEAD: readings that are lost in a row, at most */
#define LOSSES 3
#endif
#ifndef BOUND
#define BOUND 72
#endif

bool away;						/* an outage */
byte away_for;					/* ticks, up to GAP + 1 */
byte here_for;					/* ticks since the last outage, up to WINDOW */

/* the primary */
byte unconfirmed;				/* ticks since its last beat, up to LEASE */
byte tries;						/* that were lost in a row, outside of an outage */
bool news;						/* it has beaten since the last answered reading */

/* the heir */
byte interval;					/* ticks since the last answered reading, up to GAP + 1 */
byte silence;
byte calm;
byte readings = 1;				/* without a gap */
byte losses;
bool retired;

byte waited;					/* ticks outside of outages */
bool helped;					/* no more readings are lost */

bool invariant_a = true;
bool invariant_b = true;
bool invariant_d = true;

#define up_to(x, max)	((x) < (max) -> (x) + 1 : (max))

inline service()
{
	if
	:: away && away_for <= GAP -> away_for++
	:: away && away_for > GAP -> away = false; here_for = 0; tries = 0; printf("the service is back\n")
	:: away && away_for > GAP && !helped
	:: !away -> here_for = up_to(here_for, WINDOW)
#ifdef DEAD
	:: !away && here_for >= WINDOW && !helped -> away = true; away_for = 1; printf("an outage begins\n")
#else
	:: !away -> away = true; away_for = 1; printf("an outage begins\n")
#endif
	fi
}

inline primary()
{
	unconfirmed = up_to(unconfirmed, LEASE);
#ifndef DEAD
	if
	:: unconfirmed < BEAT || away
	:: unconfirmed >= BEAT && !away ->
		unconfirmed = 0;
		tries = 0;
		news = true;
		printf("the primary beats\n")
	:: unconfirmed >= BEAT && !away && tries < RESUME -> tries++; printf("a beat is lost\n")
	fi
#endif
}

/* An answered reading of the beat that was seen before. */
inline add_up()
{
	if
	:: interval <= GAP ->
		silence = (silence + interval < SILENCE -> silence + interval : SILENCE);
		calm = (calm + interval < CALM -> calm + interval : CALM);
		readings = up_to(readings, READS)
	:: else ->
#ifdef GAP_BEGINS_ANEW
		silence = 0;
#endif
#ifdef GAP_COUNTS
		silence = SILENCE;
#endif
		calm = 0;
		readings = 1
	fi
}

#ifndef NO_CALM
#define is_calm		(calm >= CALM && readings >= READS)
#else
#define is_calm		true
#endif

inline heir()
{
	interval = up_to(interval, GAP + 1);
	if
	:: !away ->
		losses = 0;
		if
		:: news ->
			news = false;
			silence = 0;
			calm = 0;
			readings = 1
		:: else -> add_up()
		fi;
		printf("the heir reads, silence %d, calm %d\n", silence, calm);
		interval = 0
#ifdef DEAD
	:: !away && losses < LOSSES && !helped -> losses++
#else
	:: !away
#endif
	:: away
	fi
}

active proctype Everything()
{
	do
	:: d_step
		{
			!retired;
			skip
		};
		atomic
		{
			service();
			primary();
			heir();
#ifdef DEAD
			if
			:: !away && waited <= BOUND -> waited++
			:: else
			fi;
			if
			:: !helped -> helped = true; waited = 0
			:: true
			fi;
#endif
			if
			:: silence >= SILENCE && is_calm ->
				retired = true;
				printf("the heir retires the life, whose lease is %d old\n", unconfirmed);
#ifndef DEAD
				invariant_a = false;
#endif
				invariant_d = (unconfirmed >= LEASE)
			:: else
			fi;
			invariant_b = (retired || waited < BOUND);
			assert(invariant_a);
			assert(invariant_b);
			assert(invariant_d)
		}
	:: retired -> break
	od
}
