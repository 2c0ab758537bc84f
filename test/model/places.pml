/*
 * Places: a life in several tables, one of which may belong to a tenant.
 *
 * A life has an item in each table that it uses.  One of these places is its home.  Who
 * finds the home retired by others has lost the life, and takes another one.  Any other place
 * may be a tenant's, who can write whatever he likes into the items there.  So a life that
 * is lost in such a place is barred there, and goes on everywhere else; or it is given up for
 * the sake of the place, which is taken from a budget.
 *
 * What is modelled
 *
 *   Two places with one key each: the home, and another one.  Server 0 is the original.  Server
 *   1 is its standby, which has some of its commits and may be promoted while server 0 still
 *   runs; or with COPY a copy that is started beside it.  A transaction completes the key of
 *   the home, that of the other place, or both.  Whether a lease
 *   has run out, and whether a life is silent, is known for each place by itself.  With
 *   CRASHES server 0 is killed and starts again, with its claim file, or without it (REBOOT).
 *
 *   With TENANT somebody writes the items of the other place, at any time and as often as
 *   he likes: he removes one, closes it, retires it in the name of any life or of one that
 *   never was, makes it open, and restores it as it was.  The key there is his, too, and no
 *   statement is made about it.  Nothing that depends on its record is kept: an answer to a
 *   seal there may say anything.
 *
 *   The cluster has ROOM for lives: the current one, and those that have ended and wait for
 *   their heir.
 *
 * What is not
 *
 *   What lives.pml has: transaction ids that are given out again, lives without an item, the
 *   chains of ancestors, late seals and finishes.  A row stays when its key is completed.  A
 *   life makes its items in both places at once.  More than two places: the home stands for all
 *   that are not the tenant's.  Without TUG the old primary does not inherit back from its heir;
 *   if it does, the heir is barred, and goes on there when the budget or an operator lets it.
 *
 * Invariants
 *
 *   (a) No key is COMPLETED whose work is in no surviving history.
 *   (b) The surviving histories together have the work of one key once.
 *   (c) From every state the surviving servers alone can settle a key.  With GOES_ON, in a
 *       failover: once a standby is the heir of the home, it can settle the keys in all places,
 *       although the old primary goes on to extend whatever it holds for its own.
 *   (g) No more lives are given up that still had their home than the budget allows.
 *
 *   (a), (b) and (g) are assertions.  The surviving histories, Judge and how this is read
 *   are as in lives.pml.
 */

#ifndef ATTEMPTS0				/* transactions of each server's session */
#define ATTEMPTS0 1
#endif
#ifndef ATTEMPTS1
#define ATTEMPTS1 1
#endif
#ifndef MINTS0					/* lives that each server mints */
#define MINTS0 2
#endif
#ifndef MINTS1
#define MINTS1 1
#endif
#ifndef ROOM
#define ROOM 3
#endif
#ifndef BUDGET					/* lives that the other place may cost */
#define BUDGET 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef TAKEOVER
#define TAKEOVER NEAR
#endif
#ifndef HOME
#define HOME 0
#endif
#define NEVER		0
#define NEAR		1
#define OTHER		1			/* the place that is not the home */

#define NOBODY		5			/* a life that never was */
#define MAX_LIVES	6			/* lives are 1 to 4, first those of server 0 */
#define MAX_TOKENS	4			/* tokens are 1 to 3, in the same order */

mtype = { NONE,										/* also: no item, no transaction */
	IN_PROGRESS, COMMITTING, COMPLETED, FAILED,		/* a record */
	OPEN, CLOSED, RETIRED,							/* an item */
	PRIMARY, STANDBY,								/* a server */
	SEALING, PAST };						/* a transaction; PAST our last callback */

/* The records of the two keys.  A set of places, tokens or lives is a bit mask. */
mtype status[2] = NONE;
byte owner[2];
byte origin[2];
byte claims_of[2];				/* tokens that complete the key */

typedef Item
{
	mtype state = NONE;
	bool own;					/* as its owner has left it */
	bool silent;				/* nobody has extended it for T */
	byte heir;
};

typedef Life
{
	byte server;
	Item at[2];
};
Life life[MAX_LIVES];
#define next_life(s)	((s) == 0 -> MINTS0 - server[s].mints + 1 : MINTS0 + MINTS1 - server[s].mints + 1)
#define next_token(s)	((s) == 0 -> ATTEMPTS0 - server[s].attempts + 1 : ATTEMPTS0 + ATTEMPTS1 - server[s].attempts + 1)

typedef Server
{
	mtype role = NONE;
	byte work;					/* tokens whose transaction has committed, with a row */
	byte current;				/* the life that is current, 0 if none */
	byte barred;				/* places in which it is barred */
	byte leases;				/* places whose lease has not run out */
	byte ended;					/* lives that shared memory or the claim file knows to be over */
	byte budget;
	byte lost;					/* lives that were given up although they had their home */
	bool far_beat;				/* its data says that its lives have come as far as one likes */

	/* the session */
	mtype tx = NONE;
	byte token;
	byte keys;					/* the places of the keys that it completes */
	byte sealed;				/* those that are known to be sealed */
	byte tx_life;				/* the life that its seals name */
	byte again;					/* those that were sealed again, under ... */
	byte again_life;

	byte attempts;				/* what is left of the bounds */
	byte mints;
};
Server server[2];

byte wal[2];					/* what server 0 has committed, for its standby */
byte wal_length;
byte streamed;

byte promoted;
byte crashes = CRASHES;
bool stopped;
byte judged;					/* the place of the key that Judge waits for */

bool invariant_a = true;
bool invariant_b = true;
bool invariant_g = true;

#define mask(x)			(1 << (x))
#define has(set, x)		(((set) >> (x)) & 1)
#define twice(set)		(((set) & ((set) - 1)) != 0)
#define at(x, p)		life[x].at[p]

/* ----- Who survives, and what must hold ----- */

#ifdef COPY
#define survives(s)		(server[s].role == PRIMARY)
#else
#define survives(s)		((s) == promoted)
#endif

#define unsettled		(status[judged] == COMMITTING)
#define may(s)			(server[s].role == PRIMARY && (!stopped || (survives(s) && unsettled)))

/* An old primary that goes on sees to its lives in a stopped world, too. */
#ifdef GOES_ON
#define is_alive(s)		(server[s].role == PRIMARY && (!stopped || unsettled))
#else
#define is_alive(s)		may(s)
#endif

#define surviving_work	((survives(0) -> server[0].work : 0) | (survives(1) -> server[1].work : 0))

#ifndef TENANT
#define holds_for(p)	true
#else
#define holds_for(p)	((p) == 0)
#endif
#define is_lost(p)		(holds_for(p) && status[p] == COMPLETED && !has(surviving_work, owner[p]))
#define is_twice(p)		(holds_for(p) && twice(surviving_work & claims_of[p]))

inline check()
{
	invariant_a = !is_lost(0) && !is_lost(1);
	invariant_b = !is_twice(0) && !is_twice(1);
	assert(invariant_a);
	assert(invariant_b)
}

/* ----- Is a life over in a place? ----- */

/* A life is ours while it is current, but where it is barred. */
#define is_ours(s, x, p)	((x) != 0 && (x) == server[s].current && !has(server[s].barred, p))
#define by_item(s, x, p, heir_is)	((x) != server[s].current && (at(x, p).state == CLOSED || \
									 (at(x, p).state == RETIRED && heir_is)))
#define over_1(s, x, p)		by_item(s, x, p, is_ours(s, at(x, p).heir, p))
#define over_2(s, x, p)		by_item(s, x, p, (is_ours(s, at(x, p).heir, p) || over_1(s, at(x, p).heir, p)))
#define is_over(s, x, p)	by_item(s, x, p, (is_ours(s, at(x, p).heir, p) || over_2(s, at(x, p).heir, p)))

#define may_settle(s, p)	(may(s) && server[s].current > 0 && status[p] == COMMITTING && \
							 (is_ours(s, origin[p], p) || is_over(s, origin[p], p)))
#define has_row(s, p)		has(server[s].work, owner[p])
#define going_on(s, p)		(server[s].tx != NONE && server[s].token == owner[p])

#define home_is_over(s, x)	is_over(s, x, HOME)

/* ----- The worker: records ----- */

#ifdef COPY
#define standbys_have(s, p)	true
#else
#define standbys_have(s, p)	((s) == 1 || server[1].role == NONE || has(server[1].work, owner[p]))
#endif

/* A commit of this very data is no matter of who judges: its row may be finished everywhere. */
#ifdef FINISH_BARRED
#define may_finish(s, p)	(may_settle(s, p) || (may(s) && status[p] == COMMITTING && \
							 server[s].current > 0 && origin[p] == server[s].current))
#else
#define may_finish(s, p)	may_settle(s, p)
#endif

inline finish(s, p)
{
	d_step
	{
		may_finish(s, p) && has_row(s, p) && standbys_have(s, p);
		status[p] = COMPLETED;
		printf("server %d finishes token %d in place %d\n", s, owner[p], p);
		check()
	}
}

inline settle(s, p)
{
	d_step
	{
		may_settle(s, p) && !going_on(s, p) && !has_row(s, p);
		status[p] = FAILED;
		printf("server %d gives token %d back in place %d\n", s, owner[p], p)
	}
}

/* ----- The worker: its own life ----- */

/* So many lives have ended, and wait in shared memory. */
#define n_ended(s)		(has(server[s].ended, 1) + has(server[s].ended, 2) + has(server[s].ended, 3) + \
							 has(server[s].ended, 4))
#define has_room(s)		(n_ended(s) < ROOM)

inline make_item(x, p)
{
	at(x, p).state = OPEN;
	at(x, p).own = true
}

inline mint(s)
{
	d_step
	{
		is_alive(s) && server[s].current == 0 && server[s].mints > 0 &&
		has_room(s);
		server[s].current = next_life(s);
		server[s].mints--;
		life[server[s].current].server = s;
		make_item(server[s].current, 0);
		make_item(server[s].current, 1);
		server[s].leases = 3;
		printf("server %d mints life %d\n", s, server[s].current)
	}
}

#define goes_on(s, p)		(server[s].current > 0 && !has(server[s].barred, p))
#define is_own_item(s, p)	(at(server[s].current, p).state == OPEN && at(server[s].current, p).own)

inline beat(s, p)
{
	d_step
	{
		is_alive(s) && goes_on(s, p) && is_own_item(s, p) &&
		(!stopped || !has(server[s].leases, p) || at(server[s].current, p).silent);
		at(server[s].current, p).silent = false;
		server[s].leases = server[s].leases | mask(p);
		printf("server %d extends life %d in place %d\n", s, server[s].current, p)
	}
}

/* Nothing is sealed, settled or finished under the life any more. */
inline give_up(s)
{
	server[s].lost = server[s].lost + (goes_on(s, 0) && is_own_item(s, 0));
	invariant_g = (server[s].lost <= BUDGET);
	assert(invariant_g);
	server[s].ended = server[s].ended | mask(server[s].current);
	server[s].current = 0;
	server[s].barred = 0;
	server[s].leases = 0
}

#define finds_lost(s, p)	(is_alive(s) && goes_on(s, p) && !is_own_item(s, p))

/* A beat is refused. */
inline lose_life(s, p)
{
	d_step
	{
#ifdef HOME_BARS				/* the home is as any other place */
		false &&
#endif
		finds_lost(s, p) && p == HOME;
		printf("server %d finds life %d lost at home and gives it up\n", s, server[s].current);
		give_up(s)
	}
}

inline bar(s, p)
{
	d_step
	{
#ifdef WHOLE_LIFE				/* any place costs the life */
		false &&
#endif
#ifdef HOME_BARS
		finds_lost(s, p);
#else
		finds_lost(s, p) && p != HOME;
#endif
		printf("server %d bars life %d in place %d\n", s, server[s].current, p);
		server[s].barred = server[s].barred | mask(p);
		server[s].leases = server[s].leases & ~mask(p)
	}
}

/* The budget pays for another life, which can go on in the place. */
#ifdef NO_BUDGET
#define is_paid(s)		true
#else
#define is_paid(s)		(server[s].budget > 0)
#endif
/* And there must be room for the next one, while this one waits to be retired. */
#ifdef SPEND_WITHOUT_ROOM
#define leaves_room(s)	true
#else
#define leaves_room(s)	(n_ended(s) + 1 < ROOM)
#endif

inline spend(s, p)
{
	d_step
	{
		is_alive(s) && p != HOME && server[s].current > 0 && is_paid(s) && leaves_room(s) &&
		(has(server[s].barred, p) || finds_lost(s, p));
		printf("server %d gives life %d up for place %d\n", s, server[s].current, p);
		if
		:: server[s].budget > 0 -> server[s].budget--
		:: else
		fi;
		give_up(s)
	}
}

/*
 * What is known of a life that has ended may be forgotten when the home is dealt with: in
 * other places it is found silent then, as by anybody who has its data.
 */
#ifdef NO_FREE					/* only when all places are */
#define may_forget(s, x)	(home_is_over(s, x) && is_over(s, x, OTHER))
#elif defined(FORGET_EARLY)
#define may_forget(s, x)	true
#else
#define may_forget(s, x)	home_is_over(s, x)
#endif

inline forget(s, x)
{
	d_step
	{
		is_alive(s) && has(server[s].ended, x) && server[s].current != x && may_forget(s, x);
		server[s].ended = server[s].ended & ~mask(x);
		printf("server %d forgets life %d\n", s, x)
	}
}

/* ----- The worker: lives that are over ----- */

/* Who retires another life must hold its own lease there. */
#define may_retire(s, x, p)	(is_alive(s) && server[s].current > 0 && x != server[s].current && \
							 has(server[s].leases, p) && at(x, p).state == OPEN)

#ifndef NO_WAIT_FOR_HOME
#define waits_for_home(s, x, p)	((p) != HOME && !home_is_over(s, x))
#else
#define waits_for_home(s, x, p)	false
#endif

/* May a life of which only its silence is known be retired elsewhere before its home? */
#ifdef HOME_FIRST
#define is_in_turn(s, x, p)		!waits_for_home(s, x, p)
#else
#define is_in_turn(s, x, p)		(!has(server[s].ended, x) || !waits_for_home(s, x, p))
#endif

inline retire_at_once(s, x, p)
{
	d_step
	{
		may_retire(s, x, p) && has(server[s].ended, x) && at(x, p).own && !waits_for_home(s, x, p);
		at(x, p).state = RETIRED;
		at(x, p).heir = server[s].current;
		printf("server %d retires life %d in place %d at once\n", s, x, p)
	}
}

#define owner_of(x)		server[life[x].server]
#define goes_by(x, p)	(owner_of(x).current == (x) && !has(owner_of(x).barred, p))

/* In a stopped world whoever is alive extends what he holds for his own. */
#define is_extended(x, p)	(stopped && is_alive(life[x].server) && goes_by(x, p) && at(x, p).own)

/* As in lives.pml, T is longer than a lease, and than a commit takes. */
inline pass_silence(x, p)
{
	d_step
	{
		at(x, p).state == OPEN && !at(x, p).silent && !is_extended(x, p) &&
		!(owner_of(x).tx == PAST && owner_of(x).tx_life <= x && has(owner_of(x).keys, p));
		at(x, p).silent = true;
		if
		:: goes_by(x, p) -> owner_of(x).leases = owner_of(x).leases & ~mask(p)
		:: else
		fi;
		printf("life %d is silent in place %d\n", x, p)
	}
}

#if TAKEOVER == NEVER
#define agrees(s, x)	false
#elif defined(COPY)
#define agrees(s, x)	((owner_of(x).work & ~server[s].work) == 0 || \
						 (server[s].far_beat && life[x].server == 0))
#elif defined(TUG)				/* the old primary may inherit back from a young heir */
#define agrees(s, x)	true
#else
#define agrees(s, x)	((s) == 1 || life[x].server == 0)
#endif

inline retire(s, x, p)
{
	d_step
	{
		may_retire(s, x, p) && at(x, p).silent && agrees(s, x) && is_in_turn(s, x, p);
		at(x, p).state = RETIRED;
		at(x, p).heir = server[s].current;
		printf("server %d retires life %d in place %d\n", s, x, p)
	}
}

/* An operator takes a life from an heir that is silent, too, where nothing of both is missing. */
#ifdef OPERATOR
inline inherit(s, x, p)
{
	d_step
	{
		is_alive(s) && !stopped && server[s].current > 0 && x != server[s].current && has(server[s].leases, p) &&
		at(x, p).state == RETIRED && life[at(x, p).heir].server != s &&
		at(at(x, p).heir, p).state == OPEN && at(at(x, p).heir, p).silent &&
		agrees(s, x) && agrees(s, at(x, p).heir);
		at(x, p).heir = server[s].current;
		printf("server %d takes life %d over in place %d\n", s, x, p)
	}
}
#endif

proctype Worker(byte s)
{
end:
	do
	:: mint(s)
	:: beat(s, 0)
	:: beat(s, 1)
	:: lose_life(s, 0)
	:: lose_life(s, 1)
	:: bar(s, 0)
	:: bar(s, 1)
	:: spend(s, 0)
	:: spend(s, 1)
	:: forget(s, 1)
	:: forget(s, 2)
	:: forget(s, 3)
	:: finish(s, 0)
	:: settle(s, 0)
#ifndef TENANT
	:: finish(s, 1)
	:: settle(s, 1)
#endif
	:: retire_at_once(s, 1, 0)
	:: retire_at_once(s, 1, 1)
	:: retire_at_once(s, 2, 0)
	:: retire_at_once(s, 2, 1)
	:: retire(s, 1, 0)
	:: retire(s, 1, 1)
	:: retire(s, 2, 0)
	:: retire(s, 2, 1)
	:: retire(s, 3, 0)
	:: retire(s, 3, 1)
#if MINTS0 + MINTS1 > 3
	:: retire_at_once(s, 3, 0)
	:: retire_at_once(s, 3, 1)
	:: retire(s, 4, 0)
	:: retire(s, 4, 1)
	:: forget(s, 4)
#endif
#ifdef OPERATOR
	:: inherit(s, 1, 0)
	:: inherit(s, 1, 1)
#endif
	od
}

proctype Time()
{
end:
	do
	:: pass_silence(1, 0)
	:: pass_silence(1, 1)
	:: pass_silence(2, 0)
	:: pass_silence(2, 1)
	:: pass_silence(3, 0)
	:: pass_silence(3, 1)
#if MINTS0 + MINTS1 > 3
	:: pass_silence(4, 0)
	:: pass_silence(4, 1)
#endif
	od
}

/* ----- A session and its transactions ----- */

#define has_lease(s, p)	(server[s].current > 0 && has(server[s].leases, p))
#ifndef TENANT
#define is_claimable(p)	(status[p] == NONE || status[p] == FAILED || status[p] == IN_PROGRESS)
#else
#define is_claimable(p)	((p) == 1 || status[p] == NONE || status[p] == FAILED || status[p] == IN_PROGRESS)
#endif

inline claim(s, p)
{
	status[p] = IN_PROGRESS;
	owner[p] = server[s].token;
	origin[p] = 0;
	claims_of[p] = claims_of[p] | mask(server[s].token)
}

inline acquire(s, k)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == NONE && server[s].attempts > 0 &&
		(!has(k, 0) || (has_lease(s, 0) && is_claimable(0))) &&
		(!has(k, 1) || (has_lease(s, 1) && is_claimable(1)));
		server[s].token = next_token(s);
		server[s].attempts--;
		server[s].tx = SEALING;
		server[s].tx_life = server[s].current;
		server[s].keys = k;
		if
		:: has(k, 0) -> claim(s, 0)
		:: else
		fi;
#ifndef TENANT
		if
		:: has(k, 1) -> claim(s, 1)
		:: else
		fi;
#endif
		printf("server %d claims with token %d under life %d, places %d\n", s, server[s].token, server[s].tx_life, k)
	}
}

#define has_leases(s)	((server[s].keys & ~server[s].leases) == 0)

#ifndef TENANT
#define may_seal(s, p)	(status[p] == IN_PROGRESS && owner[p] == server[s].token)
#define shows_seal(s, p)	(status[p] == COMMITTING && owner[p] == server[s].token && origin[p] == server[s].tx_life)
#else
#define may_seal(s, p)	((p) == 1 || (status[p] == IN_PROGRESS && owner[p] == server[s].token))
#define shows_seal(s, p)	((p) == 1 || (status[p] == COMMITTING && owner[p] == server[s].token && \
							 origin[p] == server[s].tx_life))
#endif

/* A seal that was sent arrives whatever has become of the life. */
inline seal(s, p)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == SEALING && has(server[s].keys, p) && !has(server[s].sealed, p) &&
		may_seal(s, p);
		server[s].sealed = server[s].sealed | mask(p);
		if
		:: holds_for(p) ->
			status[p] = COMMITTING;
			origin[p] = server[s].tx_life
		:: else
		fi;
		printf("token %d is sealed in place %d\n", server[s].token, p)
	}
}

/* The leases of the sealing life must hold in all places of the keys. */
#ifdef NO_LEASE_AT_COMMIT
#define may_commit(s)	true
#elif defined(HOME_LEASE_ONLY)	/* the lease at home stands for all */
#define may_commit(s)	(server[s].current == server[s].tx_life && has(server[s].leases, HOME))
#else
#define may_commit(s)	(server[s].current == server[s].tx_life && has_leases(s))
#endif

inline last_callback(s)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == SEALING && server[s].sealed == server[s].keys && may_commit(s);
		server[s].tx = PAST;
		printf("server %d is past the last callback of token %d\n", s, server[s].token)
	}
}

inline end_tx(s)
{
	server[s].tx = NONE;
	server[s].token = 0;
	server[s].keys = 0;
	server[s].sealed = 0;
	server[s].tx_life = 0;
	server[s].again = 0;
	server[s].again_life = 0
}

inline commit(s)
{
	d_step
	{
		server[s].role == PRIMARY && server[s].tx == PAST && (!stopped || unsettled);
		server[s].work = server[s].work | mask(server[s].token);
		if
		:: s == 0 -> wal[wal_length] = server[s].token; wal_length++
		:: else
		fi;
		printf("server %d commits token %d\n", s, server[s].token);
		end_tx(s);
		check()
	}
}

/* Its records are given back now, or whenever they are met. */
inline abort(s)
{
	d_step
	{
		may(s) && server[s].tx == SEALING;
		printf("server %d aborts token %d\n", s, server[s].token);
		end_tx(s)
	}
}

/*
 * Of a transaction whose life was given up while it was sealed: once the next life has
 * retired that one in each of its places, it may seal again, and then counts.
 */
#if defined(AGAIN) || defined(AGAIN_UNRETIRED) || defined(RETIRED_AT_HOME) || defined(RETIRED_NOT_SEALED)

#define is_over_for_tx(s, p)	(!has(server[s].keys, p) || is_over(s, server[s].tx_life, p))
#ifdef AGAIN_UNRETIRED
#define may_seal_again(s)		true
#elif defined(RETIRED_AT_HOME)
#define may_seal_again(s)		is_over(s, server[s].tx_life, HOME)
#else
#define may_seal_again(s)		(is_over_for_tx(s, 0) && is_over_for_tx(s, 1))
#endif
#if defined(RETIRED_NOT_SEALED) || defined(RETIRED_AT_HOME)
#define takes_again(s, p)		true
#else
#define takes_again(s, p)		shows_seal(s, p)
#endif

inline seal_again(s, p)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == SEALING && server[s].sealed == server[s].keys &&
		server[s].current > 0 && server[s].current != server[s].tx_life && may_seal_again(s) &&
		has_leases(s) && has(server[s].keys, p) && takes_again(s, p) &&
		!(server[s].again_life == server[s].current && has(server[s].again, p));
		if
		:: server[s].again_life != server[s].current -> server[s].again = 0
		:: else
		fi;
		server[s].again_life = server[s].current;
		server[s].again = server[s].again | mask(p);
#if !defined(RETIRED_NOT_SEALED) && !defined(RETIRED_AT_HOME)
		origin[p] = server[s].current;
#endif
		printf("server %d seals token %d again in place %d, life %d\n", s, server[s].token, p, server[s].current);
		if
		:: server[s].again == server[s].keys ->
			server[s].tx_life = server[s].current;
			server[s].again = 0;
			server[s].again_life = 0
		:: else
		fi
	}
}
#define SEALS_AGAIN
#endif

proctype Session(byte s)
{
end:
	do
	:: acquire(s, 1)
	:: acquire(s, 2)
	:: acquire(s, 3)
	:: seal(s, 0)
	:: seal(s, 1)
	:: last_callback(s)
	:: commit(s)
	:: abort(s)
#ifdef SEALS_AGAIN
	:: seal_again(s, 0)
	:: seal_again(s, 1)
#endif
	od
}

/* ----- What happens to a server ----- */

inline stream()
{
	d_step
	{
		server[1].role == STANDBY && streamed < wal_length && !stopped;
		server[1].work = server[1].work | mask(wal[streamed]);
		streamed++;
		printf("the standby gets a commit\n")
	}
}

inline promote()
{
	d_step
	{
		!stopped && server[1].role == STANDBY;
		server[1].role = PRIMARY;
		promoted = 1;
		printf("the standby is promoted\n");
		check()
	}
}

inline copy()
{
	d_step
	{
		!stopped && server[1].role == NONE;
		server[1].role = PRIMARY;
		server[1].work = server[0].work;
		server[1].far_beat = server[0].far_beat;
		printf("a copy of server 0 is started beside it\n")
	}
}

inline crash()
{
	d_step
	{
		may(0) && !stopped && crashes > 0;
		crashes--;
		if
		:: server[0].current > 0 -> server[0].ended = server[0].ended | mask(server[0].current)
		:: else
		fi;
#ifdef REBOOT
		server[0].ended = 0;
#endif
		server[0].current = 0;
		server[0].barred = 0;
		server[0].leases = 0;
		end_tx(0);
		printf("server 0 crashes and starts again\n")
	}
}

proctype Machine()
{
end:
	do
#ifdef COPY
	:: copy()
#else
	:: stream()
	:: promote()
#endif
	:: crash()
	od
}

/* ----- The tenant, who writes the items of the other place ----- */

#define minted(x)	(at(x, 0).state != NONE)

inline put(x, what, by_owner, by)
{
	d_step
	{
		!stopped && minted(x) && (by == 0 || by == NOBODY || minted(by)) &&
		(at(x, OTHER).state != what || at(x, OTHER).own != by_owner || at(x, OTHER).heir != by);
		at(x, OTHER).state = what;
		at(x, OTHER).own = by_owner;
		at(x, OTHER).heir = by;
		at(x, OTHER).silent = false;
		printf("the tenant writes life %d: %e, heir %d\n", x, what, by)
	}
}

/* He may also put back each beat, so that the life looks silent while it goes on. */
inline put_silence(x)
{
	d_step
	{
		!stopped && at(x, OTHER).state == OPEN && !at(x, OTHER).silent;
		at(x, OTHER).silent = true;
		printf("the tenant has life %d look silent\n", x)
	}
}

/*
 * He knows the nonces of beats, too: an item that is open with one of them, and at a beat of
 * his choice, is taken for one that the owner has written.
 */
#ifdef NOTES_ANY_BEAT			/* the row of a life notes the beat of any place */
inline put_far_beat()
{
	d_step
	{
		!stopped && server[0].current > 0 && goes_on(0, OTHER) && !server[0].far_beat;
		server[0].far_beat = true;
		printf("the tenant writes a far beat, which server 0 notes\n")
	}
}
#endif

proctype Tenant(byte x)
{
end:
	do
#ifndef ONLY_FAR_BEAT
	:: put(x, NONE, false, 0)
	:: put(x, OPEN, true, 0)
	:: put(x, RETIRED, false, NOBODY)
#ifndef FEW_WRITES
	:: put(x, CLOSED, false, 0)
	:: put(x, OPEN, false, 0)
	:: put(x, RETIRED, false, 1)
	:: put(x, RETIRED, false, 2)
	:: put(x, RETIRED, false, 3)
	:: put_silence(x)
#endif
#endif
#ifdef NOTES_ANY_BEAT
	:: put_far_beat()
#endif
	od
}

/* ----- (c) ----- */

#define out_of_mints(s)		(survives(s) && server[s].current == 0 && server[s].mints == 0)
#ifdef COPY
#define waits_for_standby	false
#else
#define waits_for_standby	(survives(0) && has_row(0, judged) && server[1].role == STANDBY)
#endif
#define excused				(out_of_mints(0) || out_of_mints(1) || waits_for_standby)

/* The heir of the home is to have all of it. */
#ifdef GOES_ON
#define is_to_be_settled(p)	(promoted == 1 && (is_ours(1, origin[p], HOME) || is_over(1, origin[p], HOME)))
#else
#define is_to_be_settled(p)	true
#endif

inline stop(p)
{
	d_step
	{
		status[p] == COMMITTING && holds_for(p) && is_to_be_settled(p);
		stopped = true;
		judged = p;
		server[0].attempts = 0;
		server[1].attempts = 0;
		crashes = 0;
		printf("the world is stopped: can the survivors settle the key in place %d?\n", p)
	}
}

proctype Judge()
{
end:
	if
	:: stop(0)
	:: stop(1)
	fi;
	!unsettled || excused
}

init
{
	atomic
	{
		server[0].role = PRIMARY;
		server[0].attempts = ATTEMPTS0;
		server[0].mints = MINTS0;
		server[0].budget = BUDGET;
		server[1].attempts = ATTEMPTS1;
		server[1].mints = MINTS1;
		server[1].budget = BUDGET;
		run Worker(0);
		run Session(0);
#if MINTS1 > 0
#ifndef COPY
		server[1].role = STANDBY;
#endif
		run Worker(1);
		run Session(1);
#endif
		run Machine();
		run Time();
#ifdef TENANT
		run Tenant(1);
		run Tenant(2);
		run Tenant(3);
#endif
#ifndef NO_JUDGE
		run Judge()
#endif
	}
}
