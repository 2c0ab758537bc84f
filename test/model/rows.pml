/*
 * Rows: may a key be given back when the row goes that it guards?
 *
 * idem_guard() completes a key in the transaction that inserts a row.  A guard whose key
 * lives as long as the row would give the key back when the row is deleted, if and
 * only if that commits.  The product has no such guard.  This model says why: no rule for
 * who may give the key back holds for a copy that is started beside its original and for a
 * standby that is promoted, too.
 *
 * A record that is COMMITTING may be settled by whoever has the data in which its life has
 * ended, because all such data agree on what was committed before.  A row is
 * deleted after that, and each copy deletes its own.
 *
 * What is modelled
 *
 *   One key that life 1 of server 0 has completed, and the row that it guards.  Server 1 has
 *   the same data: it is a copy that is started beside server 0 at some time, or with STANDBY a
 *   standby, which is promoted at some time.  Each of them may delete its row, crash, and
 *   begin another life.  A server that has deleted the row sends a request that gives the key
 *   back, if it may; the request arrives late, twice or never.  Then another service takes the key.
 *   Each life is retired by one heir at most, with one conditional write.  A server retires the
 *   earlier lives of its own directory at once, and with NEAR a life of the other one that is
 *   silent, if its own data has all commits of that.
 *
 * What is not
 *
 *   How a life is found to be silent (silence.pml), leases, floors and how a commit is found
 *   (lives.pml); an old primary that inherits from its heir; a row that is inserted again, or
 *   changes its key.
 *
 * Invariants
 *
 *   (a) The key is not given back while the row is in the history that counts: that of server 0,
 *       or of the standby once it is promoted.
 *   (b) What another service has is not given back.
 *   (c) If the row is gone from that history, its server alone can give the key back.
 *
 *   (a) and (b) are assertions.  Judge is that of lives.pml.
 *
 * It is read as lives.pml is.
 */

#ifndef MINTS					/* lives, the first included */
#define MINTS 4
#endif
#define MAX_LIVES	(MINTS + 1)	/* lives are numbered from 1 */

mtype = { FREE, COMPLETED,							/* a record */
	NONE, OPEN, CLOSED, RETIRED };					/* the item of a life */

/* The record of the key. */
mtype status = COMPLETED;
bool ours = true;				/* the token is that of the guard */

typedef Life
{
	byte server;
	byte history;				/* lives whose rows were there when it was minted: a bit mask */
	mtype item = NONE;
	byte heir;
};
Life life[MAX_LIVES];
byte mints = MINTS - 1;

typedef Server
{
	bool primary;
	byte current;				/* life; 0: none */
	byte history;				/* lives with a row in this data */
	bool row;					/* the row that the key guards */
	bool request;				/* one that gives the key back is on its way */
};
Server server[2];

byte counts;					/* the server whose history counts */
bool stopped;					/* Judge has stopped the world */

bool invariant_a = true;
bool invariant_b = true;

#define mask(x)			(1 << (x))
#define has(set, x)		(((set) >> (x)) & 1)
#define may(s)			(server[s].primary && (!stopped || ((s) == counts && status == COMPLETED)))

inline check()
{
	invariant_a = (status == COMPLETED && ours) || !server[counts].row;
	assert(invariant_a)
}

/* ----- Lives ----- */

#define is_ours(s, x)	(has(server[s].history, x) || (life[x].history & server[s].history) != 0)
#define is_silent(x)	(server[life[x].server].current != (x) || (life[x].server == 0 && counts == 1))

/* Does this data have all commits of the other server? */
#define is_near(s)		(server[1 - (s)].row || !server[s].row)

/* The primary of a standby inherits nothing back. */
#ifdef STANDBY
#define is_fenced(s)	((s) == 0)
#else
#define is_fenced(s)	false
#endif
#ifdef NEAR
#define inherits(s, x)	(life[x].server == (s) || (is_silent(x) && is_near(s) && !is_fenced(s)))
#else
#define inherits(s, x)	(life[x].server == (s))
#endif

/* Whoever comes first is the heir of a closed life. */
#ifdef FIRST_INHERITS_CLOSED
#define is_left(s, x)	(life[x].item == CLOSED || (life[x].item == OPEN && inherits(s, x)))
#else
#define is_left(s, x)	(life[x].item == OPEN && inherits(s, x))
#endif

inline mint(s)
{
	d_step
	{
		may(s) && server[s].current == 0 && mints > 0;
		mints--;
		server[s].current = MINTS - mints;
		life[server[s].current].server = s;
		life[server[s].current].history = server[s].history;
		life[server[s].current].item = OPEN;
		server[s].history = server[s].history | mask(server[s].current);
		printf("server %d mints life %d\n", s, server[s].current)
	}
}

inline retire(s, x)
{
	d_step
	{
		may(s) && server[s].current > 0 && server[s].current != x && is_ours(s, x) && is_left(s, x);
		life[x].item = RETIRED;
		life[x].heir = server[s].current;
		printf("server %d retires life %d\n", s, x)
	}
}

/* A beat is refused. */
inline give_up(s)
{
	d_step
	{
		may(s) && server[s].current > 0 && life[server[s].current].item == RETIRED;
		printf("server %d finds life %d retired and gives it up\n", s, server[s].current);
		server[s].current = 0
	}
}

/* By the rule a life is not closed as long as it has keys of rows that are there. */
#if defined(CLOSED_IS_OVER) || defined(FIRST_INHERITS_CLOSED) || defined(CLOSED_HAS_NO_HEIR)
inline close(s)
{
	d_step
	{
		may(s) && !stopped && server[s].current > 0 && life[server[s].current].item == OPEN;
		life[server[s].current].item = CLOSED;
		printf("server %d closes life %d\n", s, server[s].current);
		server[s].current = 0
	}
}
#else
#define close(s)	false
#endif

inline crash(s)
{
	d_step
	{
		may(s) && !stopped && server[s].current > 0;
		server[s].current = 0;
		printf("server %d crashes and starts again\n", s)
	}
}

/* ----- The row and its key ----- */

inline delete_row(s)
{
	d_step
	{
		may(s) && !stopped && server[s].row;
		server[s].row = false;
		printf("server %d deletes its row\n", s)
	}
}

/* From the life that has completed the key each heir leads to the next one, up to our current life. */
#define is_current(s, x)	((x) > 0 && server[s].current == (x))
#define heir_of(x)			(life[x].item == RETIRED -> life[x].heir : 0)
#define is_end(s)			(is_current(s, 1) || is_current(s, heir_of(1)) || \
							 is_current(s, heir_of(heir_of(1))) || is_current(s, heir_of(heir_of(heir_of(1)))))

/* As for a record that is COMMITTING: the life is closed, and in our history. */
#ifdef CLOSED_IS_OVER
#define is_heir(s)		(server[s].current > 0 && (is_end(s) || (life[1].item == CLOSED && has(server[s].history, 1))))
#else
#define is_heir(s)		(server[s].current > 0 && is_end(s))
#endif

/* As COMPLETED does, it waits until the standby has the commit. */
#if defined(STANDBY) && !defined(NO_BARRIER)
#define standby_has_it(s)	((s) == 1 || !server[1].row)
#else
#define standby_has_it(s)	true
#endif

inline send_request(s)
{
	d_step
	{
		may(s) && !server[s].row && status == COMPLETED && ours && !server[s].request && is_heir(s) && standby_has_it(s);
		server[s].request = true;
		printf("server %d sends a request that gives the key back\n", s)
	}
}

#ifndef NO_TOKEN
#define takes_request	(status == COMPLETED && ours)
#else
#define takes_request	(status == COMPLETED)
#endif

/* Another copy may follow. */
inline deliver(s, again)
{
	d_step
	{
		server[s].request && (!stopped || !again);
		server[s].request = again;
		if
		:: takes_request ->
			invariant_b = ours;
			assert(invariant_b);
			status = FREE;
			printf("the request of server %d gives the key back\n", s);
			check()
		:: else -> printf("a request of server %d is refused\n", s)
		fi
	}
}

inline take_over()
{
	d_step
	{
		!stopped && status == FREE;
		status = COMPLETED;
		ours = false;
		printf("another service takes the key and completes it\n")
	}
}

proctype Work(byte s)
{
end:
	do
	:: mint(s)
	:: retire(s, 1)
	:: retire(s, 2)
	:: retire(s, 3)
	:: retire(s, 4)
	:: give_up(s)
	:: close(s)
	:: crash(s)
	:: delete_row(s)
	:: send_request(s)
	:: deliver(s, true)
	:: deliver(s, false)
	od
}

/* ----- The other server ----- */

inline take_data()
{
	server[1].row = server[0].row;
	server[1].history = server[0].history
}

inline stream()
{
	d_step
	{
		!server[1].primary && (server[1].row != server[0].row || server[1].history != server[0].history);
		take_data();
		printf("the standby has all that server 0 has written\n")
	}
}

inline promote()
{
	d_step
	{
		!stopped && !server[1].primary;
		server[1].primary = true;
		counts = 1;
		printf("the standby is promoted\n");
		check()
	}
}

inline copy()
{
	d_step
	{
		!stopped && !server[1].primary;
		server[1].primary = true;
		take_data();
		printf("a copy of server 0 is started beside it\n")
	}
}

proctype Machine()
{
end:
	do
#ifdef STANDBY
	:: stream()
	:: promote()
#else
	:: copy()
#endif
	:: take_over()
	od
}

/* ----- (c) ----- */

#define is_given_back	(status == FREE || !ours)
#define is_out_of_mints	(server[counts].current == 0 && mints == 0)

proctype Judge()
{
end:
	d_step
	{
		status == COMPLETED && ours && !server[counts].row;
		stopped = true;
		server[0].request = false;
		server[1].request = false;
		printf("the world is stopped: can the key be given back?\n")
	}
	is_given_back || is_out_of_mints
}

init
{
	atomic
	{
		server[0].primary = true;
		server[0].current = 1;
		server[0].history = mask(1);
		server[0].row = true;
		life[1].item = OPEN;
#ifdef STANDBY
		take_data();
#endif
		run Work(0);
		run Work(1);
		run Machine()
#ifndef NO_JUDGE
		;
		run Judge()
#endif
	}
}
