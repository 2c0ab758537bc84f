/*-------------------------------------------------------------------------
 *
 * own_life.c
 *	  The worker's first duty: the life of its database.
 *
 * The worker mints a life when it starts and there is none of this run of the server,
 * and when the last one was closed or given up.  In every place where the life has an
 * item it sends a beat each EO_LIVES_BEAT_US (ledger/lives.c says what it is good for).
 *
 * A beat that is not answered within EO_LIVES_PACE_US is sent again, beside the first: an
 * heir reads the item at that pace (takeover.c), and an owner who is alive must be able to
 * write it whenever others can read it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/arrays.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/target.h"
#include "compat.h"
#include "ledger/internal.h"
#include "ledger/life_rows.h"
#include "ledger/life_verdict.h"
#include "ledger/lives.h"
#include "ledger/lock_limit.h"
#include "ledger/outbox.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "records/life_item.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/life_store.h"
#include "server/store.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "wire/clock.h"
#include "wire/hex.h"
#include "wire/http.h"
#include "wire/status.h"
#include "worker/jobs.h"
#include "worker/life_board.h"
#include "worker/own_life.h"
#include "worker/write_targets.h"

/* A beat that has failed is sent again after this. */
#define BEAT_RETRY_US INT64CONST(1000000)

/* The most copies of a beat in flight: the first has timed out before a sixth is due. */
#define MAX_COPIES 5

/* A beat is noted in the life's row this often. */
#define NOTE_US INT64CONST(60000000)

/* A place of the current life. */
typedef struct Beating
{
	uint64		generation;
	int64		due_us;
	int			in_flight;
} Beating;

static struct
{
	Beating		beating[EO_MAX_PLACES]; /* by the index of the place */
	int64		due_us;			/* the next beat; one may be due before the
								 * tables can be looked at */
	int64		noted_us;		/* steady clock */
	uint8		life[EO_UUID_LEN];	/* the current life at the last look */
	bool		has_life;
	uint8		closing[EO_UUID_LEN];	/* the life that is being closed */
	bool		close_sent;		/* its item may be closed in some place */
	bool		has_evidence;	/* it has rows that were given up */
}			own;

pg_noreturn static void raise_no_room(void);

/* A life that is to begin. */
typedef struct Minting
{
	uint8		id[EO_UUID_LEN];
	EoHistory	history;		/* with it */
} Minting;

/* The outcome of an adoption. */
typedef struct Adoption
{
	bool		begun;
	bool		all;
	EoHistory	history;
} Adoption;

static void read_history(void *arg);
static bool mint(void);
static void count_loss(void);
static void note_beat(void);
static void beat_ended(EoPlaceRef ref, int64 due_us);
static EoAnswer *prepare_beat(EoWorkerJob *job, EoStore *store);
static bool take_beat(EoWorkerJob *job, const EoAnswer *answer);
static void put_off_beat(EoWorkerJob *job, int64 pause_us);

static const EoWorkerJobKind beat_kind = {
	.prepare = prepare_beat,
	.take = take_beat,
	.put_off = put_off_beat,
	.lane = EO_WORKER_LIVES
};

bool
eo_own_life_enter(void)
{
	EoLife		life;
	EoHistory	read;

	if (!eo_lock_limit_run(EO_LOCKS_LIVES, read_history, &read))
		return false;
	eo_life_board_take_history(&read);
	/* The extension was created anew, and knows nothing of the lives before. */
	if (eo_life_current(MyDatabaseId, &life) &&
		eo_life_rows_find(eo_life_board_history(), life.id) < 0)
		eo_life_drop_database(MyDatabaseId);
	if (!eo_life_current(MyDatabaseId, &life) && !mint())
		return false;

	/*
	 * The worker before this one may have ended long after it noted a beat:
	 * note one at once.
	 */
	own.noted_us = eo_clock_steady_us() - NOTE_US;
	return true;
}

/* Read the history, as the last step of a transaction. */
static void
read_history(void *arg)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	/* Rows that this transaction has written count, too. */
	CommandCounterIncrement();
	eo_life_rows_read(arg);
	MemoryContextSwitchTo(old);
}

static void
raise_no_room(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("no room for a life of this database"),
			 errhint("Too many lives of this cluster wait to be retired, see exactonce_lives.")));
}

static void
insert_life(void *arg)
{
	Minting    *minting = arg;

	PushActiveSnapshot(GetTransactionSnapshot());
	eo_life_rows_mint(eo_life_board_history(), minting->id);
	eo_life_rows_prune(eo_life_board_history());
	PopActiveSnapshot();
	ForceSyncCommit();

	/*
	 * In the same transaction: a second life would be another child of the
	 * same parent.
	 */
	read_history(&minting->history);
}

/*
 * Begin a life.  It may be used as soon as its row is flushed here: if the row is lost
 * by a failover, so is everything that was sealed under it.  Returns false if somebody
 * has locked the table.
 */
static bool
mint(void)
{
	Minting		minting;
	char		token[EO_TOKEN_LEN + 1];

	if (eo_token_make(token) != EO_OK || !eo_hex_read_uuid(token, minting.id))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not mint a life: no random numbers")));
	/* A life without room would leave a row each time. */
	if (!eo_array_has_room(eo_life_entries(), MyDatabaseId))
		raise_no_room();
	if (!eo_lock_limit_run(EO_LOCKS_LIVES, insert_life, &minting))
		return false;
	eo_life_board_take_history(&minting.history);
	/* A session may have given the last life up since it was looked at. */
	count_loss();
	if (!eo_life_begin(MyDatabaseId, minting.id))
		raise_no_room();
	memcpy(own.life, minting.id, EO_UUID_LEN);
	own.has_life = true;
	return true;
}

/* ----- jobs ----- */

void
eo_own_life_fetch(void)
{
	EoLife		life;

	count_loss();
	/* A life that was given up needs an heir at once. */
	if (!eo_life_current(MyDatabaseId, &life) &&
		(eo_database_wants_life(MyDatabaseId) || eo_life_any_ended(MyDatabaseId)))
		(void) mint();
	note_beat();
}

/* Was the life given up, and not closed? */
static bool
was_given_up(const uint8 *id)
{
	uint32		cursor = 0;
	uint8		ended[EO_UUID_LEN];
	bool		this_run;

	while (eo_life_next_ended(MyDatabaseId, &cursor, ended, &this_run))
	{
		if (memcmp(ended, id, EO_UUID_LEN) == 0)
			return true;
	}
	return false;
}

/* If the current life is another one, see what has become of the one before. */
static void
count_loss(void)
{
	EoLife		life;
	bool		has_life = eo_life_current(MyDatabaseId, &life);

	if (own.has_life && has_life && memcmp(own.life, life.id, EO_UUID_LEN) == 0)
		return;
	if (own.has_life && was_given_up(own.life))
		eo_life_board_counts()->losses++;
	own.has_life = has_life;
	if (has_life)
		memcpy(own.life, life.id, EO_UUID_LEN);
}

int64
eo_own_life_due_us(void)
{
	return own.due_us;
}

static void
adopt(void *arg)
{
	Adoption   *adoption = arg;
	const EoHistory *history = eo_life_board_history();

	PushActiveSnapshot(GetTransactionSnapshot());
	adoption->begun = !eo_life_rows_original_exists(history);
	adoption->all = adoption->begun && eo_outbox_adopt(history);
	/* While the lives are not ours, the next call finds the other rows. */
	if (adoption->all)
		eo_life_rows_adopt(history);
	PopActiveSnapshot();
	ForceSyncCommit();
	read_history(&adoption->history);
}

bool
eo_own_life_adopt(void)
{
	Adoption	adoption;
	bool		failed;

	/* The options of a server may be invalid; beats must go on. */
	if (!eo_lock_limit_try(EO_LOCKS_OUTBOX, adopt, &adoption, &failed))
		return false;
	eo_life_board_take_history(&adoption.history);
	if (adoption.begun)
		eo_life_board_counts()->adoptions++;
	return adoption.all;
}

/* ----- beats ----- */

static void
put_note(void *arg)
{
	EoLife		life;

	(void) arg;
	PushActiveSnapshot(GetTransactionSnapshot());
	if (eo_life_current(MyDatabaseId, &life))
		eo_life_rows_note_beat(life.id, eo_lives_beat_by_clock(&life));
	PopActiveSnapshot();
}

/*
 * Note how far the life has come in its row, by our own clock: no item says it, because others
 * may write the item.  A standby or a copy tells from that how much of the life it has.
 *
 * If somebody has locked the table the beat goes out without the note, which comes as soon as it
 * can.  That loses nothing that "near" needs: a note names the present interval when it is
 * written, so whatever data has it goes as far as that.  A late one only makes data
 * look older than it is, and then an operator decides.
 *
 * So a note is due by the clock that numbers the beats, which goes on while the machine is
 * suspended, and as soon as there is an item, however long the life had none.
 */
static void
note_beat(void)
{
	uint32		cursor = 0;
	EoPlace		place;

	if (eo_clock_steady_us() - own.noted_us < eo_guc_hurried_us(NOTE_US))
		return;
	if (eo_life_walk_places(MyDatabaseId, true, &cursor, &place) &&
		eo_lock_limit_run(EO_LOCKS_LIVES, put_note, NULL))
		own.noted_us = eo_clock_steady_us();
}

static Beating *
beating_of(EoPlaceRef ref)
{
	Beating    *b = &own.beating[ref.index];

	if (b->generation != ref.generation)
		*b = (Beating)
	{
		.generation = ref.generation
	};
	return b;
}

static void
send_beat(const EoPlace *place, Beating *b)
{
	EoWorkerJob *job;
	char		id[EO_UUID_TEXT_LEN + 1];

	b->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(BEAT_RETRY_US);
	if (!eo_jobs_accept(EO_WORKER_LIVES, &place->target))
		return;
	eo_hex_put_uuid(place->life, id);
	job = eo_job_add_for_any(&beat_kind, &place->target, id);
	job->data = MemoryContextAlloc(job->context, sizeof(EoPlace));
	*(EoPlace *) job->data = *place;
	b->in_flight++;
	b->due_us = eo_clock_monotonic_us() + eo_guc_hurried_us(EO_LIVES_PACE_US);
}

void
eo_own_life_fetch_beats(void)
{
	int64		now_us = eo_clock_monotonic_us();
	uint32		cursor = 0;
	EoPlace		place;

	own.due_us = INT64_MAX;
	while (eo_life_walk_places(MyDatabaseId, true, &cursor, &place))
	{
		Beating    *b = beating_of(place.ref);
		int64		age_us = eo_clock_steady_us() - place.confirmed_us;

		if (!place.open || place.barred_at != 0)
			continue;
		if (b->due_us == 0 || age_us < eo_guc_hurried_us(EO_LIVES_BEAT_US))
			b->due_us = Max(b->due_us, now_us + eo_guc_hurried_us(EO_LIVES_BEAT_US) - age_us);
		if (b->in_flight < MAX_COPIES && b->due_us <= now_us)
			send_beat(&place, b);

		/*
		 * If there is no room for another copy, one of them ends: see
		 * beat_ended().
		 */
		if (b->in_flight < MAX_COPIES || b->due_us > now_us)
			own.due_us = Min(own.due_us, b->due_us);
	}
}

/*
 * A copy has ended.  The next one may be due, or have been for some time.  The place may
 * be another one by now.
 */
static void
beat_ended(EoPlaceRef ref, int64 due_us)
{
	Beating    *b = &own.beating[ref.index];

	if (b->generation != ref.generation)
		return;
	b->in_flight--;
	b->due_us = Min(b->due_us, due_us);
	own.due_us = Min(own.due_us, b->due_us);
}

static EoAnswer *
prepare_beat(EoWorkerJob *job, EoStore *store)
{
	EoPlace    *place = job->data;
	EoAnswer   *answer = NULL;
	const char *ancestors = NULL;

	if (!place->open && !eo_write_target_may_create(job->asked, job->target))
	{
		put_off_beat(job, 0);
		return NULL;
	}
	/* A session may have sent one meanwhile, or reached the table better. */
	if (eo_life_place_info(place->ref, place) &&
		memcmp(&place->target, &job->asked->target, sizeof(EoTarget)) == 0)
	{
		if (!place->open)
			ancestors = eo_lives_ancestors(eo_life_board_history(), place->life);
		answer = eo_lives_prepare(store, place, place->open ? EO_LIFE_BEAT : EO_LIFE_CREATE,
								  ancestors);
	}
	if (answer == NULL)
		beat_ended(place->ref, eo_clock_monotonic_us());
	return answer;
}

static bool
take_beat(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoPlace *place = job->data;
	bool		current = eo_life_is_current(place->target.dboid, place->life);
	bool		ours = eo_lives_take(place, answer);
	int64		due_us = eo_clock_monotonic_us();

	/*
	 * The lease is as old as the first copy of the beat: it may need another
	 * one.  An item that cannot be read stays so for a while.
	 */
	if (answer->outcome == EO_FAILED_CALL)
		due_us += eo_guc_hurried_us(BEAT_RETRY_US);
	else if (eo_life_lease_age_us(place->ref) < eo_guc_hurried_us(EO_LIVES_BEAT_US))
		due_us = INT64_MAX;
	beat_ended(place->ref, due_us);
	/* The beat may have been on its way while this worker closed the life. */
	if (!ours && current && !eo_life_is_current(place->target.dboid, place->life))
		ereport(LOG,
				(errmsg("exactonce: the life of this database in table \"%s\" is not its own any more, and was given up",
						place->target.table),
				 errdetail("Its item was retired, changed or removed."),
				 errhint("If this server is an old primary, stop it. See exactonce_lives.")));
	return true;
}

/* If there is no server any more, and so no credentials, the lease runs out. */
static void
put_off_beat(EoWorkerJob *job, int64 pause_us)
{
	const EoPlace *place = job->data;

	(void) pause_us;
	beat_ended(place->ref, eo_clock_monotonic_us() + eo_guc_hurried_us(BEAT_RETRY_US));
}

bool
eo_own_life_hold(const EoTarget *target)
{
	const EoWorkerTarget *t = eo_write_target_of(target);
	EoTarget	now = *target;
	EoLife		life;
	EoPlaceRef	ref;
	EoPlace		place;
	bool		open;
	Beating    *b;

	/* The server may have come to be a tenant's since, or a superuser's. */
	if (t->store != NULL)
	{
		now.tenant = t->store->server->place_tenant;
		now.owner = t->store->server->tenant;
	}
	if (!eo_life_current(MyDatabaseId, &life))
	{
		/* The next round mints one, also if the last one was closed. */
		eo_database_want_life(MyDatabaseId);
		return false;
	}
	if (!eo_life_enter_place(&now, life.id, &ref, &open) || !eo_life_place_info(ref, &place) ||
		place.barred_at != 0)
		return false;
	if (open && eo_lives_lease_is_young(ref))
		return true;
	b = beating_of(ref);
	if (b->in_flight < MAX_COPIES &&
		(b->due_us == 0 || (!open && b->due_us <= eo_clock_monotonic_us())))
		send_beat(&place, b);
	return false;
}

/* ----- the end ----- */

/*
 * May the life end in spite of this row?  Not if it is a row of that life, or one that it
 * has inherited: an heir in whose data this life is not known must see it end, to
 * inherit what it had.  A row of a life that is not over is nothing to this one, as is one that
 * an operator gave up.  But one of this life, that was given up, is evidence (own.has_evidence).
 */
static bool
may_close(const EoOutboxRow *row)
{
	EoLifeVerdict verdict;

	if (memcmp(row->life, own.closing, EO_UUID_LEN) == 0)
	{
		own.has_evidence |= row->given_up;
		return row->given_up;
	}
	eo_life_board_verdict(&row->target, row->life, &verdict);
	return row->given_up || verdict.relation == EO_LIFE_OTHER;
}

/*
 * Lock the outbox for reading.  Interrupts are held off, so a lock that somebody else keeps must
 * not be waited for.  At a shutdown he ends, too.
 */
static bool
lock_outbox(int64 deadline_us)
{
	Oid			outbox = eo_internal_look();

	if (!OidIsValid(outbox))
		return false;
	while (!ConditionalLockRelationOid(outbox, AccessShareLock))
	{
		if (eo_clock_monotonic_us() >= deadline_us)
			return false;
		eo_http_wait(eo_clock_monotonic_us() + 10000, EO_WAIT_RAISE);
	}
	return true;
}

/*
 * Does a row keep the life open?  If that cannot be told there may be one.  The first one ends
 * the scan, so it is long only where a copy has many rows of others: 0.2 s for 100,000.
 */
static bool
has_rows(int64 deadline_us)
{
	MemoryContext old = CurrentMemoryContext;
	volatile bool any = true;

	PG_TRY();
	{
		StartTransactionCommand();
		any = !lock_outbox(deadline_us) || !eo_outbox_visit_all(may_close);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		eo_error_log_and_abort(old);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	return any;
}

/*
 * Close the item in a place.  A beat that was sent before may arrive first: then close
 * it at that beat.  Returns false if it stays open.
 */
static bool
close_place(EoPlace *place, int64 deadline_us)
{
	EoWorkerTarget *t = eo_write_target_via(&place->target);
	bool		closed = false;
	bool		ours = true;

	if (t->store == NULL || t->failing)
		return false;
	while (!closed && ours && eo_clock_monotonic_us() < deadline_us &&
		   eo_life_place_info(place->ref, place) && place->barred_at == 0)
	{
		EoAnswer   *answer = eo_lives_prepare(t->store, place, EO_LIFE_CLOSE, NULL);

		/* A beat was confirmed just now. */
		if (answer == NULL)
			continue;
		(void) eo_answer_run_until(answer, deadline_us);
		closed = answer->exists && eo_life_store_item(answer)->state == EO_LIFE_CLOSED;
		ours = answer->outcome != EO_FAILED_CALL && (closed || eo_lives_take(place, answer));
		eo_answer_free(answer);
	}
	return closed;
}

/* Close the item in the trusted places, or in those of tenants; returns false if one stays open. */
static bool
close_places(bool trusted, int64 deadline_us)
{
	uint32		cursor = 0;
	EoPlace		place;
	bool		all = true;

	while (eo_life_walk_places(MyDatabaseId, false, &cursor, &place))
	{
		if (memcmp(place.life, own.closing, EO_UUID_LEN) != 0 || !place.open ||
			eo_target_is_trusted(&place.target) != trusted)
			continue;
		/* An heir has what the life had retired where it was barred. */
		if (place.barred_at != 0)
			eo_life_board_counts()->losses++;

		/*
		 * That of a tenant: whoever uses it next retires the life there, and
		 * scans it.
		 */
		else if (!eo_life_place_owes_scan(&place))
			all &= close_place(&place, deadline_us);
	}
	return all;
}

void
eo_own_life_close(int64 deadline_us)
{
	bool		all;

	HOLD_INTERRUPTS();
	if (!eo_life_bar(MyDatabaseId, own.closing))
	{
		RESUME_INTERRUPTS();
		return;
	}
	own.close_sent = own.has_evidence = false;
	/* A transaction may have committed after the last look at the rows. */
	if (has_rows(deadline_us))
	{
		eo_life_reopen(own.closing);
		RESUME_INTERRUPTS();
		return;
	}

	/*
	 * A record of this life may stay COMMITTING for good, and to a copy in
	 * whose data its commit is not, a closed life is over: the copy would
	 * give the key to somebody else.  So it is given up instead.  The next
	 * life retires it at once, and what an heir has inherited it does not
	 * pass on to such a copy when it is closed.
	 */
	if (own.has_evidence)
	{
		eo_life_give_up(MyDatabaseId, own.closing);
		RESUME_INTERRUPTS();
		return;
	}
	own.close_sent = true;

	/*
	 * A tenant must not keep the life from being closed: what time is left is
	 * for his places.
	 */
	all = close_places(true, deadline_us);
	(void) close_places(false, deadline_us);
	if (all)
		eo_life_forget(own.closing);
	else
		eo_life_give_up(MyDatabaseId, own.closing);
	RESUME_INTERRUPTS();
}

/*
 * An error may have ended the process while it closed the life.  If the item may be closed the
 * life must not be used again: an heir inherits what it holds, as from one that was killed.
 */
void
eo_own_life_leave(void)
{
	if (own.close_sent)
		eo_life_give_up(MyDatabaseId, own.closing);
	else
		eo_life_reopen(own.closing);
}
