/*-------------------------------------------------------------------------
 *
 * finish_notes.c
 *	  What a worker notes in rows of the outbox that it has failed to finish.
 *
 * Whoever looks at exactonce_pending is to see why a completion waits, and an operator may
 * give up only what has failed for minutes (keys/operator.c).  So both are in the row, where
 * they last.  But an update for each attempt would leave a dead row for each.  So a note is
 * written at the first failure, each time when there have been twice as many as are noted,
 * when an operator may give the row up from now on, and when the reason has changed, once a
 * minute at most.
 *
 * How long a row has failed is measured by the monotonic clock of the worker, which nobody
 * can set.  A worker that has just begun measures anew, and goes on with the number of
 * attempts that is in the row.  failing_since is for people, and decides nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "ledger/outbox.h"
#include "lib/ilist.h"
#include "records/record.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/store_record.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "wire/clock.h"
#include "worker/finish_notes.h"

/* A row that has failed for so long may be given up. */
#define LASTS_US INT64CONST(180000000)

/* The shortest time between two notes of which the second tells another reason. */
#define REASON_PAUSE_US INT64CONST(60000000)

/* If more rows fail they are all forgotten, and their times are measured anew. */
#define MAX_FAILING 20000

/* A row that fails. */
typedef struct Failing
{
	char		token[EO_TOKEN_LEN + 1];	/* hash key */
	int			attempts;
	int64		since_us;
	uint32		reason;			/* a hash of it */

	/* As it was noted last. */
	int			noted;			/* attempts */
	EoOutboxTrouble trouble;
	uint32		noted_reason;
	int64		noted_us;
	struct Note *due;			/* not written yet; NULL: there is none */
} Failing;

/* A note that is to be written. */
typedef struct Note
{
	slist_node	node;
	uint8		digest[EO_DIGEST_LEN];
	char		token[EO_TOKEN_LEN + 1];
	char	   *table;			/* of the record */
	bool		has_writes;
	EoOutboxNote note;
	bool		tried;			/* by the transaction that may commit now */
	bool		written;		/* by it; not if somebody else is changing the
								 * row: then a note is made again */
} Note;

static struct
{
	HTAB	   *failing;
	slist_head	due;			/* Note */
}			notes;

void
eo_finish_notes_init(void)
{
	HASHCTL		ctl = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(Failing)};

	notes.failing = hash_create("exactonce failing rows", 64, &ctl, HASH_ELEM | HASH_STRINGS);
}

static Failing *
find(const EoOutboxRow *row)
{
	bool		found;
	Failing    *f;

	if (hash_get_num_entries(notes.failing) >= MAX_FAILING)
	{
		hash_destroy(notes.failing);
		eo_finish_notes_init();
	}
	f = hash_search(notes.failing, row->token, HASH_ENTER, &found);
	if (found)
		return f;
	memset((char *) f + sizeof(f->token), 0, sizeof(*f) - sizeof(f->token));
	f->since_us = eo_clock_monotonic_us();
	f->attempts = f->noted = row->attempts;
	f->trouble = row->trouble;
	return f;
}

/* Is the note worth a new version of the row? */
static bool
is_news(const Failing *f, EoOutboxTrouble trouble, int64 now_us)
{
	if (trouble > f->trouble || f->attempts >= 2 * f->noted)
		return true;
	return (trouble < f->trouble || f->reason != f->noted_reason) &&
		now_us - f->noted_us >= eo_guc_hurried_us(REASON_PAUSE_US);
}

static Note *
add_note(const EoOutboxRow *row)
{
	Note	   *note = palloc0(sizeof(Note));

	memcpy(note->digest, row->digest, sizeof(note->digest));
	strlcpy(note->token, row->token, sizeof(note->token));
	note->table = pstrdup(row->target.table);
	note->has_writes = row->writes.n > 0;
	slist_push_head(&notes.due, &note->node);
	return note;
}

/* While the outbox is locked the last note of a row takes the place of those before. */
void
eo_finish_note(const EoOutboxRow *row, EoOutboxTrouble trouble, bool attempted, const char *reason,
			   int item)
{
	Failing    *f = find(row);
	int64		now_us = eo_clock_monotonic_us();
	MemoryContext old;
	Note	   *note;

	if (trouble == EO_TROUBLE_FAILS && (f->trouble == EO_TROUBLE_LASTS ||
										now_us - f->since_us >= eo_guc_hurried_us(LASTS_US)))
		trouble = EO_TROUBLE_LASTS;
	f->reason = string_hash(reason, strlen(reason) + 1) ^ (uint32) item;
	if (attempted && f->attempts < PG_INT32_MAX / 2)
		f->attempts++;
	else if (f->reason == f->noted_reason)
		return;
	if (!is_news(f, trouble, now_us))
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	note = f->due != NULL ? f->due : add_note(row);
	f->due = note;
	note->tried = false;
	if (note->note.reason != NULL)
		pfree(unconstify(char *, note->note.reason));
	note->note.trouble = trouble;
	note->note.attempts = f->attempts;
	note->note.reason = pstrdup(reason);
	note->note.item = item;
	MemoryContextSwitchTo(old);
}

void
eo_finish_note_alien(const EoOutboxRow *row)
{
	eo_finish_note(row, EO_TROUBLE_REFUSED, false,
				   "No server of this database has or had its table: nothing is sent.", 0);
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("exactonce: a completion names the table \"%s\" at \"%s\", which no server of this database has or had",
					row->target.table, row->target.url),
			 errhint("Somebody has written to exactonce_internal.outbox. Find out which roles may, and remove the row with idem_give_up().")));
}

void
eo_finish_note_dropped(const EoOutboxRow *row, int ntold)
{
	eo_finish_note(row, EO_TROUBLE_REFUSED, false, "Its server was dropped.", 0);
	if (ntold > 0)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce: the server of %d unfinished completions does not exist any more",
						ntold),
				 errhint("Create it again, or give those of table \"%s\" up with idem_give_up(); see exactonce_pending.",
						 row->target.table)));
}

/*
 * Say what the record shows instead of the finish.  That it is not there shows nothing: it may have
 * been finished, and swept when its retention was over, or a table was restored, or made anew.
 * Neither the row nor any clock tells which.
 */
static char *
describe(const EoAnswer *answer)
{
	if (answer->outcome == EO_FAILED_CALL)
		return eo_error_reason(&answer->error);
	if (!answer->exists)
		return pstrdup("Its record is not there.");
	return psprintf("Its record is %s, and not by that transaction.",
					eo_record_state_name(eo_store_record(answer)->state));
}

/*
 * The transaction has committed, but the record is not the one it sealed.  Another program has
 * written against the rules, or the table is not the same any more.  The worker cannot repair
 * that, and keeps the row as evidence.
 */
void
eo_finish_note_refused(const EoOutboxRow *row, const EoAnswer *answer)
{
	const char *why = describe(answer);

	eo_finish_note(row, EO_TROUBLE_REFUSED, true, why, 0);
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("exactonce: a key of table \"%s\" cannot be marked completed, although its transaction committed",
					row->target.table),
			 errdetail_internal("%s", why),
			 errhint("It stays in exactonce_pending and is tried again every ten minutes. Find out who changed the record or the table, or give the completion up with idem_give_up().")));
}

void
eo_finish_notes_forget(const char *token)
{
	(void) hash_search(notes.failing, token, HASH_REMOVE, NULL);
}

bool
eo_finish_notes_any(void)
{
	return !slist_is_empty(&notes.due);
}

/* Say in the log that writes are refused, once for each reason. */
static void
tell(const Note *note)
{
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("exactonce: the writes of a key of table \"%s\" are refused, although its transaction committed",
					note->table),
			 note->note.item > 0 ?
			 errdetail_internal("Write %d: %s", note->note.item, note->note.reason) :
			 errdetail_internal("%s", note->note.reason),
			 errhint("They are tried again every minute; exactonce_pending shows the key. Remove the cause, or give them up with idem_resolve(key, 'completed').")));
}

void
eo_finish_notes_put(void)
{
	slist_iter	iter;

	slist_foreach(iter, &notes.due)
	{
		Note	   *note = slist_container(Note, node, iter.cur);

		note->written = eo_outbox_note(note->digest, note->token, &note->note);
		note->tried = true;
	}
}

static void
take_written(const Note *note, Failing *f)
{
	if (note->has_writes && note->note.trouble == EO_TROUBLE_REFUSED &&
		(f->trouble != EO_TROUBLE_REFUSED || f->noted_reason != f->reason))
		tell(note);
	f->trouble = note->note.trouble;
	f->noted = note->note.attempts;
	f->noted_reason = f->reason;
	f->noted_us = eo_clock_monotonic_us();
}

void
eo_finish_notes_take(void)
{
	slist_mutable_iter iter;

	slist_foreach_modify(iter, &notes.due)
	{
		Note	   *note = slist_container(Note, node, iter.cur);
		Failing    *f = hash_search(notes.failing, note->token, HASH_FIND, NULL);

		if (!note->tried)
			continue;
		if (f != NULL && note->written)
			take_written(note, f);
		if (f != NULL && f->due == note)
			f->due = NULL;
		slist_delete_current(&iter);
		pfree(note->table);
		pfree(unconstify(char *, note->note.reason));
		pfree(note);
	}
}
