/*
 * Writes that are bound to commits: each is made once, and those to one item in order.
 *
 * A transaction may hand in a write to another item of DynamoDB.  The write is kept in the
 * row of the outbox, and the finish of the transaction's key makes it: one TransactWriteItems
 * completes the record and writes the item, or does neither.  A lock on the item keeps the
 * next transaction waiting until the first is over, and the worker sends the finish of a row
 * only when it is the first of its item.
 *
 * What is modelled
 *
 *   One item, and up to three transactions, each with a key of its own and a write of
 *   its own to that item.  A transaction takes the lock, and commits or aborts; its commit
 *   is visible before its slot tells the worker of the row, and that before the lock is
 *   free.  One of them may be prepared: then the lock is free before the worker
 *   knows how it ended.  A finish may be sent again, arrive late or never, and its answer may
 *   be lost.  The worker may be killed at any time, and forgets which rows it knew.  A record
 *   may be gone for some time, as when its table is restored, or for good, as when it is
 *   swept: the same, as far as the worker can tell.
 *
 * What is not
 *
 *   The seals (commit.pml has them), several items, rows of other lives, writes that are refused
 *   for good, crashes of the server: they lose no row that anybody has seen.
 *
 * Invariants
 *
 *   (a) A write is made only if its transaction has committed.
 *   (b) No write is made twice.
 *   (c) From every state the worker can make all writes of those that committed, once their
 *       records are there.
 *   (d) A row is removed only when its write has been made.
 *   (f) When a write is made, those of all earlier transactions have been made, and none of a
 *       later one.
 *
 *   (a), (b), (d) and (f) are assertions.  Judge stops the world as in commit.pml.
 *
 * It is read as commit.pml is.
 */

#ifndef TRANSACTIONS
#define TRANSACTIONS 2
#endif
#ifndef COPIES					/* of one finish that may be under way */
#define COPIES 1
#endif
#ifndef KILLS					/* of the worker */
#define KILLS 1
#endif
#ifndef PREPARES
#define PREPARES 0
#endif
#ifndef ABSENCES				/* of records */
#define ABSENCES 0
#endif
#define MAX_IDS		4			/* transactions are 1 to 3 */

mtype = { NONE, RUNNING, PREPARED, VISIBLE, TOLD, OVER,			/* a transaction */
	COMMITTING, COMPLETED, GONE };								/* its record */

mtype tx[MAX_IDS] = NONE;
mtype status[MAX_IDS] = COMMITTING;
mtype was[MAX_IDS];				/* of a record that is gone */
byte number[MAX_IDS];			/* the order in which the writes were handed in */
byte numbers;
byte holder;					/* of the lock on the item; 0: nobody */
bool committed[MAX_IDS];
bool rows[MAX_IDS];
bool slots[MAX_IDS];			/* tells the worker of the row */
byte told[MAX_IDS];				/* the order in which slots tell */
byte tells;
byte made[MAX_IDS];				/* how often the write was */
byte finishes[MAX_IDS];			/* copies that may still arrive */

/* The worker: the rows it knows, the first one first. */
byte queue[MAX_IDS];
byte n;
bool scan = true;				/* it is to read all rows */
byte kills = KILLS;
byte prepares = PREPARES;
byte absences = ABSENCES;
bool stopped;

bool invariant_a = true;
bool invariant_b = true;
bool invariant_d = true;
bool invariant_f = true;

#define unsettled(x)	(rows[x] && made[x] == 0)
#define is_unsettled	(unsettled(1) || unsettled(2) || unsettled(3))
#define may				(!stopped || is_unsettled)

#define in_order(x, y)	((x) == (y) || !committed[y] || \
						 (number[y] < number[x] -> made[y] > 0 : made[y] == 0))

inline make(x)
{
	made[x]++;
	invariant_a = committed[x];
	assert(invariant_a);
	invariant_b = (made[x] <= 1);
	assert(invariant_b);
	invariant_f = (in_order(x, 1) && in_order(x, 2) && in_order(x, 3));
	assert(invariant_f)
}

/* ----- The transaction ----- */

#ifndef NO_LOCK
#define has_lock(x)		(holder == (x))
#define can_lock		(holder == 0)
#else
#define has_lock(x)		true
#define can_lock		true
#endif

inline hand_in(x)
{
	d_step
	{
		!stopped && tx[x] == NONE && can_lock;
		tx[x] = RUNNING;
		holder = x;
		numbers++;
		number[x] = numbers;
		printf("transaction %d hands in a write\n", x)
	}
}

inline unlock(x)
{
	if
	:: holder == x -> holder = 0
	:: else
	fi
}

inline abort(x)
{
	d_step
	{
		may && (tx[x] == RUNNING || tx[x] == PREPARED);
		tx[x] = OVER;
		unlock(x);
		printf("transaction %d aborts\n", x)
	}
}

inline commit(x)
{
	d_step
	{
		may && tx[x] == RUNNING;
		tx[x] = VISIBLE;
		committed[x] = true;
		rows[x] = true;
		printf("transaction %d commits\n", x)
	}
}

inline prepare(x)
{
	d_step
	{
		!stopped && prepares > 0 && tx[x] == RUNNING;
		prepares--;
		tx[x] = PREPARED;
		printf("transaction %d is prepared\n", x)
	}
}

/* COMMIT PREPARED frees the lock; nothing tells the worker of the row but its scan. */
inline commit_prepared(x)
{
	d_step
	{
		may && tx[x] == PREPARED;
		tx[x] = OVER;
		committed[x] = true;
		rows[x] = true;
		unlock(x);
		printf("the prepared transaction %d commits\n", x)
	}
}

/* The slot tells of the row in XACT_EVENT_COMMIT, and the locks are released after that. */
#ifndef TELL_LAST
#define before_tell		VISIBLE
#define after_tell		TOLD
#define before_unlock	TOLD
#define after_unlock	OVER
#else
#define before_tell		TOLD
#define after_tell		OVER
#define before_unlock	VISIBLE
#define after_unlock	TOLD
#endif

inline tell(x)
{
	d_step
	{
		may && tx[x] == before_tell;
		tx[x] = after_tell;
		slots[x] = true;
		tells++;
		told[x] = tells;
		printf("the slot of transaction %d tells of its row\n", x)
	}
}

inline release_lock(x)
{
	d_step
	{
		may && tx[x] == before_unlock;
		tx[x] = after_unlock;
		unlock(x);
		printf("transaction %d releases its lock\n", x)
	}
}

proctype Transaction(byte x)
{
end:
	do
	:: hand_in(x)
	:: abort(x)
	:: commit(x)
	:: prepare(x)
	:: commit_prepared(x)
	:: tell(x)
	:: release_lock(x)
	od
}

/* ----- DynamoDB ----- */

#ifndef NO_STATUS_ON_FINISH
#define takes_finish(x)		(status[x] == COMMITTING)
#else
#define takes_finish(x)		true
#endif

inline apply_finish(x)
{
	if
	:: takes_finish(x) ->
		status[x] = COMPLETED;
		make(x)
	:: else
	fi
}

inline deliver_finish(x)
{
	d_step
	{
		may && finishes[x] > 0;
		finishes[x]--;
		printf("a finish of transaction %d arrives\n", x);
		apply_finish(x)
	}
}

#ifdef NOT_ONE_REQUEST
/* The item is written by one request and the record by the next. */
inline write_item_alone(x)
{
	d_step
	{
		may && n > 0 && queue[0] == x && status[x] == COMMITTING;
		printf("the item is written for transaction %d\n", x);
		make(x)
	}
}
#endif

inline lose_record(x)
{
	d_step
	{
		!stopped && absences > 0 && committed[x] && status[x] != GONE;
		absences--;
		was[x] = status[x];
		status[x] = GONE;
		printf("the record of transaction %d is gone\n", x)
	}
}

inline restore_record(x)
{
	d_step
	{
		may && status[x] == GONE;
		status[x] = was[x];
		printf("the record of transaction %d is back\n", x)
	}
}

proctype DynamoDB(byte x)
{
end:
	do
	:: deliver_finish(x)
	:: lose_record(x)
	:: restore_record(x)
#ifdef NOT_ONE_REQUEST
	:: write_item_alone(x)
#endif
	od
}

/* ----- The worker ----- */

#define is_known(x)		((n > 0 && queue[0] == (x)) || (n > 1 && queue[1] == (x)) || (n > 2 && queue[2] == (x)))

inline append(x)
{
	if
	:: !is_known(x) ->
		queue[n] = x;
		n++
	:: else
	fi
}

/* The row that comes next by its number, of those that are not in the queue. */
#define is_next(x)		(rows[x] && !is_known(x) && is_before(x, 1) && is_before(x, 2) && is_before(x, 3))
#define is_before(x, y)	((x) == (y) || !rows[y] || is_known(y) || number[x] < number[y])

inline append_next()
{
	if
	:: is_next(1) -> append(1)
	:: is_next(2) -> append(2)
	:: is_next(3) -> append(3)
	:: else
	fi
}

inline forget_queue()
{
	n = 0;
	queue[0] = 0;
	queue[1] = 0;
	queue[2] = 0
}

/* All rows of one snapshot, by their numbers. */
inline read_rows()
{
	d_step
	{
		may && scan;
		scan = false;
		forget_queue();
		append_next();
		append_next();
		append_next();
		printf("the worker reads all rows: %d\n", n)
	}
}

/* Where transactions may be prepared the worker reads all rows again instead. */
#if PREPARES > 0 && !defined(NO_SCAN_WITH_PREPARED)
#define tells_order		false
#else
#define tells_order		true
#endif

#ifndef NO_ORDER_OF_SLOTS
#define is_oldest(x, y)	(!slots[y] || told[x] <= told[y])
#else
#define is_oldest(x, y)	true
#endif

inline take_slot(x)
{
	d_step
	{
		may && slots[x] && !scan && is_oldest(x, 1) && is_oldest(x, 2) && is_oldest(x, 3);
		slots[x] = false;
		if
		:: rows[x] && tells_order -> append(x)
		:: rows[x] && !tells_order -> scan = true
		:: else
		fi;
		printf("the worker is told of the row of transaction %d\n", x)
	}
}

/* Nothing tells of a prepared transaction's row; the worker reads the rows now and then. */
inline look_again()
{
	d_step
	{
		may && !scan && n == 0 && is_unsettled;
		scan = true
	}
}

#ifndef NO_FIRST
#define may_send(x)		(n > 0 && queue[0] == (x))
#else
#define may_send(x)		is_known(x)
#endif

inline finish(x)
{
	d_step
	{
		may && !scan && may_send(x) && status[x] == COMMITTING;
		printf("the worker finishes transaction %d\n", x);
		apply_finish(x)
	}
}

inline send_finish(x)
{
	d_step
	{
		!stopped && !scan && may_send(x) && status[x] == COMMITTING && finishes[x] == 0;
		finishes[x] = COPIES;
		printf("the worker sends the finish of transaction %d\n", x)
	}
}

/* The row stays, and those behind it wait, until the finish is known to have been applied. */
#if !defined(NO_ANSWER) && !defined(ABSENT_IS_FINISHED)
#define is_finished(x)	(status[x] == COMPLETED)
#elif defined(ABSENT_IS_FINISHED)
#define is_finished(x)	(status[x] == COMPLETED || status[x] == GONE)
#else
#define is_finished(x)	(status[x] == COMPLETED || finishes[x] > 0)
#endif

inline remove_row(x)
{
	d_step
	{
		may && !scan && n > 0 && is_known(x) && is_finished(x);
		rows[x] = false;
		invariant_d = (made[x] > 0);
#ifndef NO_ANSWER				/* which breaks the order, too */
		assert(invariant_d);
#endif
		if
		:: queue[0] == x ->
			queue[0] = queue[1];
			queue[1] = queue[2]
		:: queue[0] != x && queue[1] == x -> queue[1] = queue[2]
		:: else
		fi;
		n--;
		queue[2] = 0;
		printf("the row of transaction %d is removed\n", x)
	}
}

proctype Worker(byte x)
{
end:
	do
	:: take_slot(x)
	:: finish(x)
	:: send_finish(x)
	:: remove_row(x)
	od
}

inline kill_worker()
{
	d_step
	{
		!stopped && kills > 0;
		kills--;
		forget_queue();
		scan = true;
		printf("the worker is killed and starts again\n")
	}
}

proctype Environment()
{
end:
	do
	:: read_rows()
	:: look_again()
	:: kill_worker()
	od
}

proctype Judge()
{
end:
	d_step
	{
		is_unsettled;
		stopped = true;
		finishes[1] = 0;
		finishes[2] = 0;
		finishes[3] = 0;
		printf("the world is stopped: can the worker make all writes?\n")
	}
	!is_unsettled
}

init
{
	atomic
	{
		run Transaction(1);
		run DynamoDB(1);
		run Worker(1);
		run Transaction(2);
		run DynamoDB(2);
		run Worker(2);
#if TRANSACTIONS > 2
		run Transaction(3);
		run DynamoDB(3);
		run Worker(3);
#endif
#ifndef NO_JUDGE
		run Judge();
#endif
		run Environment()
	}
}
