/*
 * Lives: which copy of a database may say how a commit ended.
 *
 * A record that is COMMITTING can only be settled by somebody who has the data
 * in which the commit is recorded.  After a failover, or when a backup is
 * started beside its original, several servers hold such data, and only one of
 * them may speak.  Therefore every start of a server mints a "life": a row in
 * the database, whose parent is the row before it, and an item in DynamoDB.
 * The seal of a transaction names the current life.  The item is a lease: the
 * worker raises its beat, and a server that cannot do so commits no sealed
 * transaction any more.  Another server inherits from a life only once that
 * life is over for it, and then decides by its own data.
 *
 * What is modelled
 *
 *   One key, up to three servers, and one session on each.  Server 0 is the
 *   original.  Servers 1 and 2 are its standbys, which hold a prefix of its WAL
 *   and may be promoted while server 0 still runs; or server 1 is a copy of its
 *   data directory that is started beside it.  A seal and a finish may arrive
 *   late or never.  A server may crash at any time and start again, and
 *   recovery then gives out again the transaction ids that were not flushed.
 *   A worker may die between the row of its life and the item, or take the
 *   answer to its own beat for a refusal.  Clocks are two events: "the lease
 *   runs out" (the last confirmed beat is older than L), and "silence" (an
 *   observer has seen one beat for T, which is longer than L).
 *
 * What is not
 *
 *   The lease of a claim (it may be over at any time here), lost acquires and
 *   the steps of settling one by one (commit.pml has them), prepared
 *   transactions, several keys, several tables of one life, the claim file.
 *   "near" is taken at its word: a server is near a life if it has all of the
 *   life's commits.  The product compares noted beats, which are at most two
 *   minutes apart, so a copy that is younger than that is not covered.
 *
 * Invariants
 *
 *   (a) No key is COMPLETED whose work is in no surviving history.
 *   (b) No surviving history has the work of one key twice.
 *   (c) From every state the surviving servers alone can settle the key.
 *
 *   The surviving histories are those of the server that was promoted last, or
 *   of both the original and its copy.  (a) and (b) are assertions.  For (c)
 *   the process Judge may stop the world at any moment: from then on nothing
 *   arrives late, nothing crashes, and servers that do not survive do nothing.
 *   Judge then waits until the key is settled.  If the other processes can do
 *   no more and it still waits, Spin reports an invalid end state.
 *
 * How to read it
 *
 *   Each option of a loop is one step: an atomic block whose first line says
 *   when it may be taken.  Any step that may be taken may come next.  Rules
 *   are in force unless NO_<RULE> is defined.  test/model/run lists the
 *   configurations and the expected result of each.
 */

/* Bounds, which test/model/run overrides for a configuration. */
#ifndef SERVERS
#define SERVERS 1
#endif
#ifndef ATTEMPTS0				/* transactions of each server's session */
#define ATTEMPTS0 2
#endif
#ifndef ATTEMPTS1
#define ATTEMPTS1 0
#endif
#ifndef ATTEMPTS2
#define ATTEMPTS2 0
#endif
#ifndef MINTS0					/* lives that each server mints */
#define MINTS0 3
#endif
#ifndef MINTS1
#define MINTS1 2
#endif
#ifndef MINTS2
#define MINTS2 1
#endif
#ifndef BEATS					/* beats of a life, the first included */
#define BEATS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef OTHERS					/* commits that have nothing to do with the key */
#define OTHERS 0
#endif
#ifndef CHECKPOINTS
#define CHECKPOINTS 0
#endif
#ifndef CLOSES					/* lives that are closed when idle */
#define CLOSES 0
#endif
#ifndef GAPS					/* workers that die before they create the item */
#define GAPS 0
#endif
#ifndef REFUSALS				/* own beats that are taken for a refusal */
#define REFUSALS 0
#endif

#define MAX_LIVES	5			/* with the root row */
#define MAX_TOKENS	4			/* tokens are 1 to 3 */
#define MAX_XID		14
#define MAX_LOG		16

/* exactonce.takeover */
#define NEVER		0
#define NEAR		1
#define ALWAYS		2
#define PROMOTED	3			/* not offered: any server whose timeline is later */
#ifndef TAKEOVER
#define TAKEOVER NEAR
#endif

mtype = { NONE,										/* also: no item, no server, no transaction */
	IN_PROGRESS, COMMITTING, COMPLETED, FAILED,		/* a record */
	OPEN, CLOSED, RETIRED,							/* an item */
	PRIMARY, STANDBY,								/* a server */
	WORKING, SEALING, SEALED, PAST };				/* a transaction; PAST our last callback */

/* The record of the key in DynamoDB. */
mtype status = NONE;
byte owner;						/* token of the claim */
byte origin;					/* life that the seal names */

/*
 * Lives are numbered, first those of server 0, so that the numbers of one
 * history are in its order; 0 is the root row, which CREATE EXTENSION leaves.
 * A set of lives is a bit mask.  Only the item changes.
 */
typedef Life
{
	byte server;
	byte start;					/* the start of the server that minted it */
	byte boot;					/* the start of the machine */
	byte xid;					/* the transaction that wrote its row */
	byte control;				/* pg_control's next id, as its run found it before recovery */
	short ancestors;			/* as listed in the item */
	mtype item = NONE;
	byte beat;
	byte heir;					/* the life that has retired it */
};
Life life[MAX_LIVES];
#define last_life(s)	((s) == 0 -> MINTS0 : ((s) == 1 -> MINTS0 + MINTS1 : MINTS0 + MINTS1 + MINTS2))
#define next_life(s)	(last_life(s) - server[s].mints + 1)

/*
 * A token is one claim by one transaction.  A set of tokens or of transaction
 * ids is a bit mask.
 */
#define last_token(s)	((s) == 0 -> ATTEMPTS0 : ((s) == 1 -> ATTEMPTS0 + ATTEMPTS1 : \
						 ATTEMPTS0 + ATTEMPTS1 + ATTEMPTS2))
#define next_token(s)	(last_token(s) - server[s].attempts + 1)
byte xid_of[MAX_TOKENS];
byte sealed_by[MAX_TOKENS];		/* the life in its seal */
byte seals;						/* tokens whose seal is on its way */
byte finishes;					/* tokens whose finish is on its way */

typedef Server
{
	mtype role = NONE;

	/* data, as it was flushed */
	short rows;					/* lives with a row here: this server's history */
	byte work;					/* tokens whose transaction has committed */
	byte finished;				/* tokens whose outbox row is removed again */
	short clog;					/* transaction ids that have committed */
	byte control;				/* next transaction id in pg_control */

	/* the running server */
	byte start;
	byte boot;
	byte found;					/* pg_control's next id, as this run found it before recovery */
	byte next;					/* next transaction id */
	byte current;				/* the life that is current, 0 if none */
	byte confirmed;				/* last confirmed beat, 0 if it is older than L */
	byte watched;				/* another life, its beat, and whether ... */
	byte watched_beat;
	bool silent;				/* ... that beat has been seen for T */

	/* the session */
	mtype tx = NONE;
	byte token;
	byte tx_life;				/* the life that its seal names */

	byte attempts;				/* what is left of the bounds */
	byte mints;
	byte streamed;				/* a standby: how much of server 0's WAL it has */
};
Server server[SERVERS];

/* What server 0 has written, for its standbys: one of these and an argument. */
#define LOG_MINT	16			/* life */
#define LOG_COMMIT	32			/* token */
#define LOG_OTHER	48			/* transaction id */
#define LOG_GONE	64			/* token whose row is removed */
byte wal[MAX_LOG];
byte wal_length;

byte promoted;					/* the server that was promoted last */
byte crashes = CRASHES;
byte others = OTHERS;
byte checkpoints = CHECKPOINTS;
byte closes = CLOSES;
byte gaps = GAPS;
byte refusals = REFUSALS;
bool stopped;					/* Judge has stopped the world */

bool invariant_a = true;
bool invariant_b = true;
byte i;							/* a counter within one step, 0 between steps */

#define mask(x)			(1 << (x))
#define has(set, x)		(((set) >> (x)) & 1)

/* ----- Who survives, and what must hold ----- */

#ifdef COPY
#define survives(s)		(server[s].role == PRIMARY)
#else
#define survives(s)		((s) == promoted)
#endif

/* May server s take a step?  In a stopped world only a survivor, while the key is unsettled. */
#define may(s)			(server[s].role == PRIMARY && (!stopped || (survives(s) && status == COMMITTING)))

#define twice(set)		(((set) & ((set) - 1)) != 0)

/* Asserts (a) and (b).  Called by each step after which one of them may be false. */
inline check()
{
	invariant_a = (status != COMPLETED);
	invariant_b = true;
	i = 0;
	do
	:: i < SERVERS ->
		if
		:: survives(i) ->
			invariant_a = invariant_a || has(server[i].work, owner);
			invariant_b = invariant_b && !twice(server[i].work)
		:: else
		fi;
		i++
	:: else -> break
	od;
	assert(invariant_a);
	assert(invariant_b);
	i = 0
}

/* ----- Whose life is it, and is it over? ----- */

#define in_history(s, x)	has(server[s].rows, x)

/* The ancestors of x lead into our history: x is a branch, and none of its commits are in our data. */
#ifndef NO_CHAIN
#define is_branch(s, x)		(!in_history(s, x) && (life[x].ancestors & server[s].rows) != 0)
#else
#define is_branch(s, x)		false
#endif
#define is_ours(s, x)		(in_history(s, x) || is_branch(s, x))

/* x is closed, or retired by a life of our history, or by one that is itself over for us. */
#define over_by_item(s, x)	(is_ours(s, x) && (life[x].item == CLOSED || \
							 (life[x].item == RETIRED && in_history(s, life[x].heir))))
/* An heir may itself be over, and so may its heir, up to four in a row. */
#define retired_and(s, x, heir_is)	(is_ours(s, x) && life[x].item == RETIRED && heir_is)
#define over_2(s, x)		(over_by_item(s, x) || retired_and(s, x, over_by_item(s, life[x].heir)))
#ifndef NO_INHERITING_HEIRS
#define is_over(s, x)		(over_2(s, x) || \
							 retired_and(s, x, retired_and(s, life[x].heir, over_2(s, life[life[x].heir].heir))))
#else
#define is_over(s, x)		over_by_item(s, x)
#endif

#define same_run(s, x)		(life[x].server == (s) && life[x].start == server[s].start)

/*
 * May s retire x at once?  Minted by this run and given up; or x ran in this
 * very directory since the machine was started.
 */
#ifndef NO_GIVEN_UP
#define given_up(s, x)		same_run(s, x)
#else
#define given_up(s, x)		false
#endif
#ifndef NO_SAME_DIRECTORY
#ifndef NO_BOOT_ID
#define same_directory(s, x)	(life[x].server == (s) && life[x].boot == server[s].boot && \
								 (life[x].start != server[s].start))
#else
/* The file alone is the proof, and a copy of the directory has the file, too. */
#define same_directory(s, x)	(in_history(s, x) && !same_run(s, x))
#endif
#else
#define same_directory(s, x)	false
#endif
#define at_once(s, x)		(given_up(s, x) || same_directory(s, x))

/* May s inherit from x once x has been silent? */
#if TAKEOVER == NEVER
#define agrees(s, x)		false
#elif TAKEOVER == ALWAYS
#define agrees(s, x)		true
#elif TAKEOVER == PROMOTED
#define agrees(s, x)		((s) > life[x].server)
#elif defined(COPY)
#define agrees(s, x)		((server[life[x].server].work & ~server[s].work) == 0)
#else
#define agrees(s, x)		true
#endif

/* ----- The worker ----- */

/* If an item named its parent only, the chain would end at a life without an item. */
#ifndef NO_ANCESTORS
#define lists_ancestors(x)	true
#else
#define lists_ancestors(x)	(life[x].item != NONE)
#endif

/* The row of a life, in the database of server s. */
inline add_life(s, l)
{
	life[l].server = s;
	life[l].start = server[s].start;
	life[l].boot = server[s].boot;
	assert(server[s].next <= MAX_XID);
	life[l].xid = server[s].next;
	life[l].control = server[s].found;
	/* the parent is the newest row */
	i = l - 1;
	do
	:: i > 0 && !in_history(s, i) -> i--
	:: else -> break
	od;
	life[l].ancestors = mask(i) | (lists_ancestors(i) -> life[i].ancestors : 0);
	server[s].rows = server[s].rows | mask(l);
	server[s].clog = server[s].clog | mask(server[s].next);
	server[s].next++;
	log(s, LOG_MINT + l);
	i = 0
}

/* Only server 0 has standbys, which need what it writes. */
inline log(s, what)
{
	if
	:: s == 0 && server[SERVERS - 1].role == STANDBY ->
		assert(wal_length < MAX_LOG);
		wal[wal_length] = what;
		wal_length++
	:: else
	fi
}

inline mint(s)
{
	d_step
	{
		may(s) && server[s].current == 0 && server[s].mints > 0;
		server[s].current = next_life(s);
		add_life(s, server[s].current);
		life[server[s].current].item = OPEN;
		life[server[s].current].beat = 1;
		server[s].confirmed = 1;
		server[s].mints--;
		printf("server %d mints life %d\n", s, server[s].current)
	}
}

inline mint_and_die(s)
{
	d_step
	{
		may(s) && !stopped && server[s].current == 0 && server[s].mints > 0 && gaps > 0;
		gaps--;
		add_life(s, next_life(s));
		printf("server %d mints life %d, its worker dies before the item is created\n", s, next_life(s));
		server[s].mints--
	}
}

/* In a stopped world beats have no bound, so that bounds do not keep a survivor from its lease. */
inline confirm(s)
{
	d_step
	{
		may(s) && stopped && server[s].current > 0 && life[server[s].current].item == OPEN &&
		server[s].confirmed == 0;
		server[s].confirmed = life[server[s].current].beat;
		printf("server %d renews its lease\n", s)
	}
}

inline raise_beat(s)
{
	d_step
	{
		may(s) && !stopped && server[s].current > 0 && life[server[s].current].item == OPEN &&
		life[server[s].current].beat < BEATS;
		life[server[s].current].beat++;
		server[s].confirmed = life[server[s].current].beat;
		printf("server %d raises the beat of life %d to %d\n", s, server[s].current, server[s].confirmed)
	}
}

inline give_up(s)
{
	d_step
	{
		may(s) && server[s].current > 0 && life[server[s].current].item != OPEN;
		printf("server %d finds life %d retired and gives it up\n", s, server[s].current);
		server[s].current = 0;
		server[s].confirmed = 0
	}
}

inline give_up_by_mistake(s)
{
	d_step
	{
		may(s) && !stopped && refusals > 0 && server[s].current > 0 && life[server[s].current].item == OPEN;
		refusals--;
		printf("server %d takes its own beat for a refusal and gives life %d up\n", s, server[s].current);
		server[s].current = 0;
		server[s].confirmed = 0
	}
}

/* A life is closed when no transaction and no row of it is left. */
#ifndef NO_EMPTY_CLOSE
#define no_row_left(s)	((server[s].work & ~server[s].finished) == 0)
#else
#define no_row_left(s)	true
#endif

inline close_life(s)
{
	d_step
	{
		may(s) && !stopped && closes > 0 && server[s].current > 0 && life[server[s].current].item == OPEN &&
		server[s].tx == NONE && no_row_left(s);
		closes--;
		life[server[s].current].item = CLOSED;
		printf("server %d closes life %d\n", s, server[s].current);
		server[s].current = 0;
		server[s].confirmed = 0
	}
}

/* Has every standby of s, promoted or not, the commit of t? */
#ifndef NO_SLOTS
#if defined(COPY) || SERVERS == 1
#define standbys_have(s, t)	true
#elif SERVERS == 2
#define standbys_have(s, t)	((s) == 1 || has(server[1].work, t))
#else
#define standbys_have(s, t)	((s) == 2 || (has(server[2].work, t) && ((s) == 1 || has(server[1].work, t))))
#endif
#else
#define standbys_have(s, t)	true
#endif

#define has_row(s, t)		(has(server[s].work, t) && !has(server[s].finished, t))

/* Whoever settles finds it by its token, by whatever address he has come. */
#ifndef BY_ADDRESS
#define finds_row(s, t)		has_row(s, t)
#else
#define finds_row(s, t)		false
#endif

#ifndef NO_ORIGIN
#define may_settle(s)		(may(s) && server[s].current > 0 && status == COMMITTING && \
							 (origin == server[s].current || is_over(s, origin)))
#else
#define may_settle(s)		(may(s) && server[s].current > 0 && status == COMMITTING)
#endif

inline finish(s)
{
	d_step
	{
		may_settle(s) && has_row(s, owner) && standbys_have(s, owner);
		status = COMPLETED;
		printf("server %d finishes token %d\n", s, owner);
		check()
	}
}

/* The request is sent, and arrives later. */
inline send_finish(s)
{
	d_step
	{
		!stopped && may_settle(s) && has_row(s, owner) && standbys_have(s, owner) && !has(finishes, owner);
		finishes = finishes | mask(owner);
		printf("server %d sends the finish of token %d\n", s, owner)
	}
}

inline remove_row(s)
{
	d_step
	{
		may(s) && !stopped && server[s].current > 0 && status == COMPLETED && has_row(s, owner);
		server[s].finished = server[s].finished | mask(owner);
		log(s, LOG_GONE + owner);
		printf("server %d removes the row of token %d\n", s, owner)
	}
}

/* Is the transaction of the record still going on, as this run of s knows? */
#define going_on(s)		(same_run(s, origin) && server[s].tx != NONE && \
						 xid_of[server[s].token] == xid_of[owner])

/*
 * May the id x of an earlier run, that of life l, have been given out again?
 * The row of l was flushed before its first seal, so recovery never goes back
 * below the id that wrote it.  Everything above may have been lost in a crash.
 * n is the first life after that run in our history; the two floors that are
 * taken from it are wrong.
 */
#if defined(NO_FLOOR)
#define may_be_reused(x, l, n)		false
#elif defined(FLOOR_NEXT_MINT)		/* from the id that wrote the next life's row */
#define may_be_reused(x, l, n)		((n) < MAX_LIVES && (x) >= life[n].xid)
#elif defined(FLOOR_NEXT_CONTROL)	/* from what the next life's run found in pg_control */
#define may_be_reused(x, l, n)		((n) < MAX_LIVES && (x) >= life[n].control)
#else
#define may_be_reused(x, l, n)		((x) >= life[l].xid)
#endif

/*
 * Settles a record without a row.  A branch has no commits here.  Of an id that
 * may have been given out again the commit log says nothing, so the missing
 * row alone tells that the transaction has not committed.
 */
inline settle(s)
{
	d_step
	{
		may_settle(s) && !going_on(s) && !finds_row(s, owner);
		i = origin + 1;
		do
		:: i < MAX_LIVES && (!in_history(s, i) ||
						  (life[i].start == life[origin].start && life[i].server == life[origin].server)) -> i++
		:: else -> break
		od;
		if
		:: is_branch(s, origin) -> status = FAILED
		:: in_history(s, origin) && !same_run(s, origin) && may_be_reused(xid_of[owner], origin, i) ->
			status = FAILED
		:: else ->
			if
			:: has(server[s].clog, xid_of[owner]) -> status = COMPLETED
			:: else -> status = FAILED
			fi
		fi;
		i = 0;
		printf("server %d settles token %d: %e\n", s, owner, status);
		check()
	}
}

/*
 * Who retires another life must hold its own lease.  Otherwise two lives could
 * retire each other, and a third server would inherit from neither.
 */
#ifndef NO_LEASE_TO_RETIRE
#define may_retire(s)	(may(s) && server[s].current > 0 && server[s].confirmed > 0)
#else
#define may_retire(s)	(may(s) && server[s].current > 0)
#endif

inline retire_at_once(s, x)
{
	d_step
	{
		may_retire(s) && x != server[s].current && life[x].item == OPEN &&
		is_ours(s, x) && at_once(s, x);
		life[x].item = RETIRED;
		life[x].heir = server[s].current;
		printf("server %d retires life %d at once\n", s, x)
	}
}

/* A life from which s might inherit, if it turns out to be silent. */
inline watch(s, x)
{
	d_step
	{
		may(s) && server[s].current > 0 && x != server[s].current && life[x].item == OPEN &&
		is_ours(s, x) && !at_once(s, x) && agrees(s, x) &&
		(server[s].watched != x || server[s].watched_beat != life[x].beat);
		server[s].watched = x;
		server[s].watched_beat = life[x].beat;
		server[s].silent = false;
		printf("server %d looks at life %d, beat %d\n", s, x, life[x].beat)
	}
}

#define watched_life(s)	life[server[s].watched]
#define owner_of(s)		server[watched_life(s).server]
/* does the owner of the watched life still go by a beat that the observer has seen? */
#define goes_by_it(s)	(owner_of(s).current == server[s].watched && owner_of(s).confirmed <= server[s].watched_beat)

/*
 * T passes without another beat.  The owner's lease has run out meanwhile,
 * because L < T.  A transaction that was past its last callback in time has
 * written its commit record, because that takes less than T - L.
 */
#ifndef NO_PROMPT_COMMIT
#define committed_in_time(s)	!(owner_of(s).tx == PAST && owner_of(s).tx_life == server[s].watched)
#else
#define committed_in_time(s)	true
#endif
#ifndef NO_SHORTER_LEASE
#define ran_out(s)				goes_by_it(s)
#else
#define ran_out(s)				false
#endif

inline pass_silence(s)
{
	d_step
	{
		may(s) && server[s].watched > 0 && !server[s].silent &&
		watched_life(s).item == OPEN && watched_life(s).beat == server[s].watched_beat &&
		committed_in_time(s);
		server[s].silent = true;
		if
		:: ran_out(s) -> owner_of(s).confirmed = 0
		:: else
		fi;
		printf("server %d has seen life %d silent for T\n", s, server[s].watched)
	}
}

/* One conditional write: open, and at the beat that was seen. */
#ifndef NO_BEAT_CONDITION
#define beat_is_the_same(s)		(watched_life(s).beat == server[s].watched_beat)
#else
#define beat_is_the_same(s)		true
#endif

inline retire(s)
{
	d_step
	{
		may_retire(s) && server[s].watched > 0 && server[s].watched != server[s].current &&
		watched_life(s).item == OPEN && server[s].silent && is_ours(s, server[s].watched) &&
		agrees(s, server[s].watched) && beat_is_the_same(s);
		watched_life(s).item = RETIRED;
		watched_life(s).heir = server[s].current;
		printf("server %d retires life %d\n", s, server[s].watched);
		server[s].watched = 0;
		server[s].watched_beat = 0;
		server[s].silent = false
	}
}

proctype Worker(byte s)
{
end:
	do
	:: mint(s)
	:: mint_and_die(s)
	:: raise_beat(s)
	:: confirm(s)
	:: give_up(s)
	:: give_up_by_mistake(s)
	:: close_life(s)
	:: finish(s)
	:: send_finish(s)
	:: remove_row(s)
	:: settle(s)
	:: retire_at_once(s, 1)
	:: retire_at_once(s, 2)
	:: retire_at_once(s, 3)
	:: retire_at_once(s, 4)
	:: watch(s, 1)
	:: watch(s, 2)
	:: watch(s, 3)
	:: watch(s, 4)
	:: pass_silence(s)
	:: retire(s)
	od
}

/* ----- A session and its transactions ----- */

/* The claim of another session may have run out, so IN_PROGRESS is taken over at any time. */
inline acquire(s)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == NONE && server[s].attempts > 0 && server[s].current > 0 &&
		(status == NONE || status == FAILED || status == IN_PROGRESS);
		owner = next_token(s);
		status = IN_PROGRESS;
		origin = 0;
		assert(server[s].next <= MAX_XID);
		xid_of[owner] = server[s].next;
		server[s].next++;
		server[s].tx = WORKING;
		server[s].token = owner;
		server[s].attempts--;
		printf("server %d acquires with token %d, transaction %d\n", s, owner, xid_of[owner])
	}
}

inline send_seal(s)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == WORKING && server[s].current > 0 && server[s].confirmed > 0;
		server[s].tx = SEALING;
		server[s].tx_life = server[s].current;
		sealed_by[server[s].token] = server[s].current;
		seals = seals | mask(server[s].token);
		printf("server %d sends the seal of token %d, life %d\n", s, server[s].token, server[s].current)
	}
}

inline get_sealed(s)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == SEALING && status == COMMITTING && owner == server[s].token;
		server[s].tx = SEALED;
		printf("server %d knows that token %d is sealed\n", s, server[s].token)
	}
}

/* Our last callback looks at the clock and at the life; it does not wait. */
#ifndef NO_LEASE_AT_COMMIT
#define still_leased(s)		(server[s].current == server[s].tx_life && server[s].confirmed > 0)
#else
#define still_leased(s)		true
#endif

inline last_callback(s)
{
	d_step
	{
		may(s) && !stopped && server[s].tx == SEALED && still_leased(s);
		server[s].tx = PAST;
		printf("server %d is past the last callback of token %d\n", s, server[s].token)
	}
}

/* Nothing keeps a transaction that is past our last callback from its commit record. */
inline commit(s)
{
	d_step
	{
		server[s].role == PRIMARY && server[s].tx == PAST && (!stopped || status == COMMITTING);
		server[s].tx = NONE;
		server[s].work = server[s].work | mask(server[s].token);
		server[s].clog = server[s].clog | mask(xid_of[server[s].token]);
		log(s, LOG_COMMIT + server[s].token);
		printf("server %d commits token %d\n", s, server[s].token);
		server[s].token = 0;
		server[s].tx_life = 0;
		check()
	}
}

#define can_abort(s)	(server[s].tx == WORKING || server[s].tx == SEALING || server[s].tx == SEALED)

inline abort_and_release(s)
{
	d_step
	{
		may(s) && can_abort(s);
		if
		:: (status == IN_PROGRESS || status == COMMITTING) && owner == server[s].token -> status = FAILED
		:: else
		fi;
		printf("server %d aborts token %d and releases it\n", s, server[s].token);
		server[s].tx = NONE;
		server[s].token = 0;
		server[s].tx_life = 0
	}
}

inline abort_only(s)
{
	d_step
	{
		may(s) && !stopped && can_abort(s);
		printf("server %d aborts token %d, its release is lost\n", s, server[s].token);
		server[s].tx = NONE;
		server[s].token = 0;
		server[s].tx_life = 0
	}
}

/* The last confirmed beat was sent longer than L ago. */
inline lose_lease(s)
{
	d_step
	{
		may(s) && !stopped && server[s].confirmed > 0;
		server[s].confirmed = 0;
		printf("the lease of server %d runs out\n", s)
	}
}

proctype Session(byte s)
{
end:
	do
	:: acquire(s)
	:: send_seal(s)
	:: get_sealed(s)
	:: last_callback(s)
	:: commit(s)
	:: abort_and_release(s)
	:: abort_only(s)
	:: lose_lease(s)
	od
}

/* ----- What happens to a server ----- */

/* After recovery the next id is above pg_control's and above all that are in the WAL. */
inline recover(s)
{
	server[s].found = server[s].control;
	server[s].next = server[s].control;
	i = MAX_XID;
	do
	:: i > 0 && !has(server[s].clog, i) -> i--
	:: else -> break
	od;
	if
	:: i >= server[s].next -> server[s].next = i + 1
	:: else
	fi;
	i = 0
}

inline crash(s)
{
	d_step
	{
		may(s) && !stopped && crashes > 0;
		crashes--;
		server[s].start++;
#ifdef REBOOT
		server[s].boot++;
#endif
		server[s].current = 0;
		server[s].confirmed = 0;
		server[s].watched = 0;
		server[s].watched_beat = 0;
		server[s].silent = false;
		server[s].tx = NONE;
		server[s].token = 0;
		server[s].tx_life = 0;
		recover(s);
		printf("server %d crashes and starts again, next transaction %d\n", s, server[s].next)
	}
}

inline checkpoint(s)
{
	d_step
	{
		may(s) && !stopped && checkpoints > 0;
		checkpoints--;
		server[s].control = server[s].next;
		printf("server %d writes pg_control, next transaction %d\n", s, server[s].next)
	}
}

/* Another transaction matters only where it gets an id that was lost in a crash. */
inline commit_other(s)
{
	d_step
	{
		may(s) && !stopped && others > 0 && status == COMMITTING && server[s].next <= xid_of[owner];
		others--;
		server[s].clog = server[s].clog | mask(server[s].next);
		log(s, LOG_OTHER + server[s].next);
		server[s].next++;
		printf("server %d commits another transaction, %d\n", s, server[s].next - 1)
	}
}

#ifndef NO_FENCING
#define streams(s)		(promoted == 0)
#else
#define streams(s)		true
#endif

inline stream(s)
{
	d_step
	{
		server[s].role == STANDBY && streams(s) && server[s].streamed < wal_length && !stopped;
		i = wal[server[s].streamed];
		server[s].streamed++;
		if
		:: i >= LOG_GONE -> server[s].finished = server[s].finished | mask(i - LOG_GONE)
		:: i >= LOG_OTHER && i < LOG_GONE -> server[s].clog = server[s].clog | mask(i - LOG_OTHER)
		:: i >= LOG_COMMIT && i < LOG_OTHER ->
			server[s].work = server[s].work | mask(i - LOG_COMMIT);
			server[s].clog = server[s].clog | mask(xid_of[i - LOG_COMMIT])
		:: else ->
			server[s].rows = server[s].rows | mask(i - LOG_MINT);
			server[s].clog = server[s].clog | mask(life[i - LOG_MINT].xid)
		fi;
		i = 0;
		printf("standby %d gets WAL, %d records in all\n", s, server[s].streamed)
	}
}

/* Server 1 first, then server 2; the more advanced of two is promoted first. */
#if SERVERS > 2 && !defined(NO_BEST_FIRST)
#define is_best(s)		((s) == 2 || server[1].streamed >= server[2].streamed)
#else
#define is_best(s)		true
#endif

inline promote(s)
{
	d_step
	{
		!stopped && server[s].role == STANDBY && s == promoted + 1 && is_best(s);
		server[s].role = PRIMARY;
		promoted = s;
		if
		:: s == 2 -> server[1].role = NONE
		:: else
		fi;
		recover(s);
		printf("standby %d is promoted\n", s);
		check()
	}
}

/* Server 1 is started on a copy of server 0's directory, as it was flushed. */
inline copy(s)
{
	d_step
	{
		!stopped && server[s].role == NONE && server[s].mints > 0 && s == 1;
		server[s].role = PRIMARY;
		server[s].rows = server[0].rows;
		server[s].work = server[0].work;
		server[s].finished = server[0].finished;
		server[s].clog = server[0].clog;
		server[s].control = server[0].control;
		recover(s);
		printf("a copy of server 0 is started beside it\n")
	}
}

proctype Machine(byte s)
{
end:
	do
	:: crash(s)
	:: checkpoint(s)
	:: commit_other(s)
#ifdef COPY
	:: copy(s)
#else
	:: stream(s)
	:: promote(s)
#endif
	od
}

/* ----- The network: a request arrives at any time after it was sent, or never ----- */

inline deliver_seal(t)
{
	d_step
	{
		!stopped && has(seals, t);
		seals = seals & ~mask(t);
		if
		:: status == IN_PROGRESS && owner == t ->
			status = COMMITTING;
			origin = sealed_by[t];
			printf("the seal of token %d arrives\n", t)
		:: else -> printf("the seal of token %d arrives and is refused\n", t)
		fi
	}
}

inline deliver_finish(t)
{
	d_step
	{
		!stopped && has(finishes, t);
		finishes = finishes & ~mask(t);
		if
		:: status == COMMITTING && owner == t ->
			status = COMPLETED;
			printf("the finish of token %d arrives\n", t);
			check()
		:: else -> printf("the finish of token %d arrives and is refused\n", t)
		fi
	}
}

proctype Network()
{
end:
	do
	:: deliver_seal(1)
	:: deliver_seal(2)
	:: deliver_seal(3)
	:: deliver_finish(1)
	:: deliver_finish(2)
	:: deliver_finish(3)
	od
}

/* ----- (c) ----- */

/*
 * Is s unable to go on only because a bound of the model is reached, or because
 * it waits for its standby?  In the latter case callers on s are told
 * "completed", and all others "in progress" until the standby is back.
 */
#define out_of_mints(s)		(survives(s) && server[s].current == 0 && server[s].mints == 0)
#define waits_for(s, m)		((m) < SERVERS && (s) < (m) && survives(s) && has_row(s, owner) && \
							 is_ours(s, origin) && server[m].role == STANDBY)
#if SERVERS == 1
#define excused				out_of_mints(0)
#elif SERVERS == 2
#define excused				(out_of_mints(0) || out_of_mints(1) || waits_for(0, 1))
#else
#define excused				(out_of_mints(0) || out_of_mints(1) || out_of_mints(2) || \
							 waits_for(0, 1) || waits_for(0, 2) || waits_for(1, 2))
#endif

proctype Judge()
{
end:
	d_step
	{
		status == COMMITTING;
		stopped = true;
		/* what cannot happen any more is the same in all stopped worlds */
		seals = 0;
		finishes = 0;
		crashes = 0;
		others = 0;
		checkpoints = 0;
		closes = 0;
		gaps = 0;
		refusals = 0;
		printf("the world is stopped: can the survivors settle the key?\n")
	}
	status != COMMITTING || excused
}

init
{
	atomic
	{
		server[0].role = PRIMARY;
#ifndef NO_ROOT
		server[0].rows = 1;
#endif
		server[0].next = 1;
		server[0].control = 1;
		server[0].found = 1;
		server[0].attempts = ATTEMPTS0;
		server[0].mints = MINTS0;
		run Worker(0);
		run Session(0);
		run Machine(0);
#if SERVERS > 1
		server[1].rows = server[0].rows;
		server[1].control = 1;
		server[1].attempts = ATTEMPTS1;
		server[1].mints = MINTS1;
#ifndef COPY
		server[1].role = STANDBY;
#endif
		run Worker(1);
		run Session(1);
		run Machine(1);
#endif
#if SERVERS > 2
		server[2].rows = server[0].rows;
		server[2].control = 1;
		server[2].attempts = ATTEMPTS2;
		server[2].mints = MINTS2;
		server[2].role = STANDBY;
		run Worker(2);
		run Session(2);
		run Machine(2);
#endif
		run Network()
#ifndef NO_JUDGE
		;
		run Judge()
#endif
	}
}
