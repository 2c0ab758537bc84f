/*-------------------------------------------------------------------------
 *
 * verb.h
 *	  A record as it is read, and the verbs that write one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_VERB_H
#define EO_RECORDS_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "records/origin.h"
#include "wire/json.h"

#define EO_FINGERPRINT_LEN 64	/* SHA-256 in hex */
#define EO_MAX_HOLDER_BYTES 64
#define EO_MAX_HANDLER_BYTES 200

typedef enum EoState
{
	EO_STATE_IN_PROGRESS,
	EO_STATE_COMMITTING,
	EO_STATE_COMPLETED,
	EO_STATE_FAILED
} EoState;

/*
 * A record as read.  Strings are borrowed from the reply and NULL if absent.
 * Instants are epoch milliseconds, except for ttl_s.
 */
typedef struct EoRecord
{
	EoState		state;

	/*
	 * Another client wrote the record, or has changed it since one of ours
	 * did.  Then it has no owner (""), fence, runs or origin that counts, and
	 * it is read by the rules of its layout: a run of theirs in progress has
	 * a lease, and a failed one may be claimed again, until the shown end.
	 */
	bool		is_foreign;
	const char *owner;
	const char *bind;			/* see EoWrite */
	const char *origin_text;	/* the transaction that sealed it last; NULL:
								 * none */
	bool		has_origin;		/* origin_text can be read, as origin */
	EoOrigin	origin;
	const char *holder;			/* who made the claim, for people */
	const char *payload_sha256;
	const char *handler;		/* the function whose work the key stands for */
	const char *result;			/* JSON text */
	size_t		result_len;
	const char *error;			/* JSON text */
	size_t		error_len;
	const char *progress;		/* JSON text; NULL: none, or COMPLETED */
	size_t		progress_len;

	/*
	 * There is such an attribute, but of a type that another client chose and
	 * nobody here can read: then the member is NULL.
	 */
	bool		odd_payload_sha256;
	bool		odd_handler;
	bool		odd_result;
	bool		odd_error;
	bool		odd_progress;

	/*
	 * The name of a number that is there and cannot be read, or is negative;
	 * the member is 0 then.  Such a record is claimed by nobody, but what is
	 * held is settled.
	 */
	const char *odd_number;
	bool		has_retry;		/* FAILED without: for good */
	int64_t		retry_ms;
	int64_t		fence;
	int64_t		runs;
	int64_t		spared;			/* so many in a row were not counted, because
								 * the machine had failed: see EO_SPARE */
	int64_t		lease_ms;		/* 0: none */
	int64_t		created_ms;
	int64_t		updated_ms;
	int64_t		retention_s;	/* of the latest claim; 0: it does not say */
	int64_t		ttl_s;			/* epoch seconds; 0: none */
	int64_t		writes;			/* COMMITTING: the finish makes so many beside
								 * the record.  COMPLETED: it has made them */
	int64_t		progress_no;	/* grows by one with each note of progress; 0:
								 * there is none */
	EoJsonValue *undone;		/* origins of seals, see
								 * eo_record_read_undone() */

	/*
	 * So many seals are noted as undone that the claim is to be given back.
	 * Each takes about 60 bytes, which every later write of the record pays
	 * for, and an item has 400 kB.
	 */
	bool		worn;
	EoJsonValue *item;			/* all of it, for a write that is conditional
								 * on it */
} EoRecord;

/*
 * The conditional writes on a record: from which states to which.  "own" means a
 * record that bears the token of the write.  "free" means that there is no record,
 * or one that is FAILED and due, or one that is IN_PROGRESS and whose lease is
 * dead.  "as seen" means the very record that was read before, unchanged.
 */
typedef enum EoVerb
{
	EO_ACQUIRE,					/* free -> IN_PROGRESS */
	EO_REPLACE,					/* expired, as seen -> IN_PROGRESS */
	EO_COMPLETE,				/* own IN_PROGRESS -> COMPLETED */
	EO_FAIL,					/* own IN_PROGRESS or FAILED -> FAILED */
	EO_RELEASE,					/* own IN_PROGRESS -> FAILED, run not counted */
	EO_SPARE,					/* the same, and that is noted */
	EO_EXTEND,					/* own IN_PROGRESS: a later end of the lease */
	EO_PROGRESS,				/* the same with a note of progress, if the
								 * last one is the one that was seen */

	/* For the commit of a transaction, see seal.c and settle.c. */
	EO_SEAL,					/* own IN_PROGRESS -> COMMITTING */
	EO_SEAL_NEW,				/* free -> COMMITTING */
	EO_SEAL_EXPIRED,			/* expired, as seen -> COMMITTING */
	EO_FINISH,					/* own COMMITTING -> COMPLETED */
	EO_FINISH_OTHER,			/* the same, sealed by a transaction that is
								 * over, for one that has committed */
	EO_WAIVE,					/* the same without the writes that were to be
								 * made with it */
	EO_ABORT,					/* own IN_PROGRESS or COMMITTING -> FAILED */
	EO_BURY,					/* the same, or no record -> FAILED, run not
								 * counted */
	EO_UNSEAL,					/* own IN_PROGRESS or COMMITTING ->
								 * IN_PROGRESS */
	EO_RESUME,					/* own COMMITTING -> IN_PROGRESS, with a new
								 * lease; needs an origin */
	EO_NOTE_UNDONE,				/* own COMMITTING by another seal: notes that
								 * this one was undone; needs an origin */

	/* For a transaction with writes of the caller's, see transact.c. */
	EO_COMPLETE_NEW,			/* absent -> COMPLETED */
	EO_COMPLETE_FREE,			/* free, as seen -> COMPLETED */
	EO_COMPLETE_EXPIRED,		/* expired, as seen -> COMPLETED */

	EO_FORGET,					/* as seen -> FAILED, without runs */
	EO_FORGET_ODD,				/* the same for a record with an odd_number */
	EO_PROBE					/* never applied: tests the right to write */
} EoVerb;

/*
 * The parameters of the verbs; each ignores the members that it does not need.
 * Instants are epoch milliseconds of the service's clock.
 */
typedef struct EoWrite
{
	const char *owner;			/* token that the record has to bear, or gets */
	int64_t		now_ms;
	int64_t		lease_ms;		/* end of the lease that is set */
	int64_t		skew_ms;		/* a lease is dead this long after its end */

	/*
	 * The record is kept for retention_s from kept_from_s on, epoch seconds,
	 * see eo_record_keep().  A verb that makes a claim also writes the
	 * retention into the record; of the others a retention in the record
	 * takes precedence over this one.
	 */
	int64_t		kept_from_s;
	int64_t		retention_s;
	const char *holder;			/* who makes the claim; NULL: unknown */
	int64_t		max_runs;		/* 0: no limit */

	/*
	 * "tx": the claim is given back if its transaction aborts.  "hold": the
	 * lease is then kept to its end.  "keep": the claim outlives
	 * transactions.  "session": the same, and it is given back when its
	 * session ends.
	 */
	const char *bind;

	/*
	 * The text of the origin of the transaction that seals, which no other
	 * transaction has.  For EO_ABORT, EO_BURY, EO_UNSEAL, EO_RESUME and
	 * EO_NOTE_UNDONE, that of the transaction whose seal is undone: NULL if
	 * it sealed nothing, "" if it left no origin.  For EO_FINISH and EO_WAIVE
	 * that of the seal that is finished; EO_FINISH takes any from origin to
	 * origin_last, as eo_origin_write_limits() makes them of a transaction
	 * whose seal is not known to the letter.  For EO_FINISH_OTHER the origin
	 * is that of the transaction that has committed, and origin_last the one
	 * of the seal.
	 */
	const char *origin;
	const char *origin_last;
	const char *payload_sha256; /* NULL: neither compared nor set */
	const char *handler;		/* the same */
	const char *result;			/* NULL: none */
	size_t		result_len;
	const char *error;			/* NULL: none */
	size_t		error_len;
	const char *progress;		/* EO_PROGRESS: the note */
	size_t		progress_len;
	int64_t		progress_seen;	/* number of the one before; 0: there is none */
	const struct EoActionSeal *action;	/* EO_SEAL_NEW of an action, see
										 * action_seal.h; NULL: of a key */
	bool		terminal;		/* EO_FAIL: for good, retry_ms is ignored */
	int64_t		retry_ms;		/* EO_FAIL: may be claimed from then on */
	const EoRecord *seen;		/* of the verbs "as seen" */
	int64_t		writes;			/* of a seal, and of EO_FINISH: that many are
								 * made with the finish */
	bool		narrow;			/* the reply brings what is set, and no more
								 * of the record */
} EoWrite;

#endif							/* EO_RECORDS_VERB_H */
