/*-------------------------------------------------------------------------
 *
 * record.h
 *	  How a record is written and read in DynamoDB: states, verbs, conditions.
 *
 * layout.h says how the attributes of a record are named.  Only record.c writes
 * conditions on them, and only record_read.c reads them.  The layers above use EoRecord,
 * EoVerb and EoWrite.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_RECORD_H
#define EO_DYNAMODB_RECORD_H

#include "records/instant.h"
#include "records/layout.h"
#include "records/origin.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

/* Amazon DynamoDB Developer Guide, "Service, account, and table quotas". */
#define EO_MAX_KEY_BYTES 2048
#define EO_MAX_ITEM_BYTES 409600

#define EO_FINGERPRINT_LEN 64	/* SHA-256 in hex */
#define EO_MAX_HOLDER_BYTES 64

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
	const char *result;			/* JSON text */
	size_t		result_len;
	const char *error;			/* JSON text */
	size_t		error_len;

	/*
	 * There is such an attribute, but of a type that another client chose and
	 * nobody here can read: then the member is NULL.
	 */
	bool		odd_payload_sha256;
	bool		odd_result;
	bool		odd_error;
	bool		has_retry;		/* FAILED without: for good */
	int64_t		retry_ms;
	int64_t		fence;
	int64_t		runs;
	int64_t		lease_ms;		/* 0: none */
	int64_t		created_ms;
	int64_t		updated_ms;
	int64_t		retention_s;	/* of the latest claim; 0: it does not say */
	int64_t		ttl_s;			/* epoch seconds; 0: none */
	int64_t		writes;			/* COMMITTING: the finish makes so many beside
								 * the record.  COMPLETED: it has made them */
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

/* The ttl (epoch seconds) of a record that is kept for retention_s from from_ms on. */
static inline int64_t
eo_record_ttl_after(int64_t from_ms, int64_t retention_s)
{
	return (from_ms + 999) / 1000 + retention_s;
}

/* Does the record note that the seal with this origin was undone? */
extern bool eo_record_read_undone(const EoRecord *r, const char *origin);

/* The retention of the claim; otherwise_s if the record does not say. */
static inline int64_t
eo_record_retention(const EoRecord *r, int64_t otherwise_s)
{
	return r->retention_s > 0 ? r->retention_s : otherwise_s;
}

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
	EO_EXTEND,					/* own IN_PROGRESS: a later end of the lease */

	/* For the commit of a transaction, see seal.c and settle.c. */
	EO_SEAL,					/* own IN_PROGRESS -> COMMITTING */
	EO_SEAL_NEW,				/* free -> COMMITTING */
	EO_SEAL_EXPIRED,			/* expired, as seen -> COMMITTING */
	EO_FINISH,					/* own COMMITTING -> COMPLETED */
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
	 * it sealed nothing, "" if it left no origin.
	 */
	const char *origin;
	const char *payload_sha256; /* NULL: neither compared nor set */
	const char *result;			/* NULL: none */
	size_t		result_len;
	const char *error;			/* NULL: none */
	size_t		error_len;
	const struct EoActionSeal *action;	/* EO_SEAL_NEW of an action, see
										 * action_seal.h; NULL: of a key */
	bool		terminal;		/* EO_FAIL: for good, retry_ms is ignored */
	int64_t		retry_ms;		/* EO_FAIL: may be claimed from then on */
	const EoRecord *seen;		/* of the verbs "as seen" */
	int64_t		writes;			/* of a seal, and of EO_FINISH: that many are
								 * made with the finish */
} EoWrite;

/* Have the record kept for retention_s from from_ms on. */
static inline void
eo_record_keep(EoWrite *w, int64_t from_ms, int64_t retention_s)
{
	w->kept_from_s = eo_record_ttl_after(from_ms, 0);
	w->retention_s = retention_s;
}

/*
 * Make the partition key of a key, and its length in *len.  Returns EO_OK, or
 * EO_TOO_LARGE if it is longer than EO_MAX_KEY_BYTES; then *len is the length that
 * it would have.  out has room for EO_MAX_KEY_BYTES and a NUL.
 */
extern EoStatus eo_record_key_make(const EoLayout *layout, const char *prefix, const char *key,
								   char *out, size_t *len) EO_MUST_CHECK;

/* The longest result or error that fits into an item beside this partition key. */
extern size_t eo_record_key_room(const EoLayout *layout, size_t pk_len);

/*
 * Count in *size what a result takes up in an item of this layout.  Returns EO_OK; or, where
 * results are kept in DynamoDB's own types, what eo_attribute_put() returns for a
 * result that these do not have, or EO_NO_MEMORY.
 */
extern EoStatus eo_record_result_size(const EoLayout *layout, const char *result, size_t len,
									  size_t *size) EO_MUST_CHECK;

/*
 * Append the body of an UpdateItem.  Like the functions below, it makes the body
 * fail (see buf.h) if the write lacks a member that the verb needs.
 */
extern void eo_record_put_write(const EoLayout *layout, EoBuf *body, const char *table,
								const char *pk, EoVerb verb, const EoWrite *w);

/*
 * Append the same write as a statement of a BatchExecuteStatement, see statement.h.
 * Returns false, and appends nothing, if the verb has no such spelling.  A verb that takes
 * a key that is free inserts a record, and is refused where there is one.
 */
extern bool eo_record_put_statement(const EoLayout *layout, EoBuf *body, const char *table,
									const char *pk, EoVerb verb,
									const EoWrite *w) EO_MUST_CHECK;

/* Append the same write as an Update action of a TransactWriteItems. */
extern void eo_record_put_transact_item(const EoLayout *layout, EoBuf *body, const char *table,
										const char *pk, EoVerb verb, const EoWrite *w);

/* Append the body of a consistent GetItem. */
extern void eo_record_put_read(const EoLayout *layout, EoBuf *body, const char *table,
							   const char *pk);

/*
 * Append the body of a consistent Scan: of at most limit items from start_pk (NULL: the
 * beginning) on, those that name a life and are in one of two states.  They come without
 * result, error and payload.
 */
extern void eo_record_scan_put(const EoLayout *layout, EoBuf *body, const char *table,
							   const EoState states[2], int limit, const char *start_pk);

/* The key from which the next page of a scan goes on; NULL: it was the last. */
extern const char *eo_record_scan_end(const EoLayout *layout, EoJsonValue *reply);

/* The state in which a verb leaves a record. */
extern EoState eo_record_state_after(EoVerb verb);

/*
 * Does the write depend on the clock: does it take over a record that looks dead or
 * expired, or set a lease?  If the clock turns out to be wrong, it must not be sent
 * again as it is.
 */
extern bool eo_record_is_dated(EoVerb verb);

/* Is this the partition key of a record, under the prefix of any server? */
extern bool eo_record_key_matches(const EoLayout *layout, const char *pk);

/* The partition key in an item; NULL if there is none. */
extern const char *eo_record_pk_of(const EoLayout *layout, EoJsonValue *item);

/* Read an item.  Returns EO_OK, or EO_INVALID if it is no record of this layout. */
extern EoStatus eo_record_read(const EoLayout *layout, EoJsonValue *item,
							   EoRecord *record) EO_MUST_CHECK;

/*
 * The state of an item, if that is a word that this version does not know: a newer one may have
 * added it.  NULL: it names no such state.  Such an item cannot be read, and no verb changes it.
 * For actions, too.
 */
extern const char *eo_record_read_new_state(const EoLayout *layout, EoJsonValue *item);

/* For logs and views: "IN_PROGRESS", ... */
extern const char *eo_record_state_name(EoState state);

#endif							/* EO_DYNAMODB_RECORD_H */
