/*-------------------------------------------------------------------------
 *
 * record.h
 *	  How a record is spelled in DynamoDB: attributes, states, conditions.
 *
 * record.c is the only file that knows an attribute's name or writes a
 * condition expression.  Everything above speaks of EoRecord and EoVerb.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_RECORD_H
#define EO_DYNAMODB_RECORD_H

#include "dynamodb/buf.h"
#include "dynamodb/json.h"
#include "dynamodb/status.h"

/* Amazon DynamoDB Developer Guide, "Service, account, and table quotas". */
#define EO_MAX_KEY_BYTES 2048
#define EO_MAX_ITEM_BYTES 409600

/* 9999-12-31 23:59:59 UTC: what is read as later counts as that. */
#define EO_MAX_INSTANT_MS INT64_C(253402300799000)

#define EO_FINGERPRINT_LEN 64	/* SHA-256 in hex */

typedef enum EoState
{
	EO_STATE_IN_PROGRESS,
	EO_STATE_COMMITTING,
	EO_STATE_COMPLETED,
	EO_STATE_FAILED
} EoState;

/* A record as read.  Strings are borrowed from the reply, NULL if absent. */
typedef struct EoRecord
{
	EoState		state;
	const char *owner;
	const char *bind;
	const char *origin;			/* of the transaction that sealed it last */
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
	int64_t		ttl_s;			/* 0: none */
	EoJsonValue *item;			/* all of it, for a write that is conditional
								 * on it */
} EoRecord;

/* The ttl of what is kept that long from an instant on, epoch seconds. */
static inline int64_t
eo_record_ttl_after(int64_t from_ms, int64_t retention_s)
{
	return (from_ms + 999) / 1000 + retention_s;
}

/*
 * The conditional writes on a record.  The states in brackets are those that
 * the verb may find; "own" ones bear the token of the write.
 */
typedef enum EoVerb
{
	EO_ACQUIRE,					/* absent, due, or a dead lease */
	EO_REPLACE,					/* exactly the expired record that was seen */
	EO_COMPLETE,				/* own IN_PROGRESS -> COMPLETED */
	EO_FAIL,					/* own IN_PROGRESS, FAILED -> FAILED */
	EO_RELEASE,					/* own IN_PROGRESS -> FAILED, no run counted */
	EO_EXTEND,					/* own IN_PROGRESS, a later end of the lease */

	/* The commit of a transaction, see seal.c and settle.c. */
	EO_SEAL,					/* own IN_PROGRESS -> COMMITTING */
	EO_SEAL_NEW,				/* absent, due, or a dead lease -> COMMITTING */
	EO_SEAL_EXPIRED,			/* as EO_REPLACE -> COMMITTING */
	EO_FINISH,					/* own COMMITTING -> COMPLETED */
	EO_ABORT,					/* own IN_PROGRESS, COMMITTING -> FAILED */
	EO_BURY,					/* the same, or absent -> FAILED, no run
								 * counted */
	EO_UNSEAL,					/* own IN_PROGRESS, COMMITTING -> IN_PROGRESS */

	/* Beside writes of the caller's, see transact.c. */
	EO_COMPLETE_NEW,			/* absent, due, or a dead lease -> COMPLETED */
	EO_COMPLETE_EXPIRED,		/* as EO_REPLACE -> COMPLETED */

	EO_FORGET,					/* exactly the record that was seen -> FAILED,
								 * no runs */
	EO_PROBE					/* never true: tries permission to write */
} EoVerb;

/*
 * What a verb needs; unused members are ignored.  All instants are epoch
 * milliseconds of the service's clock.
 */
typedef struct EoWrite
{
	const char *owner;			/* token this write is conditional on, or sets */
	int64_t		now_ms;
	int64_t		lease_ms;		/* end of the lease to set */
	int64_t		skew_ms;		/* a lease is dead this long after its end */
	int64_t		ttl_s;
	int64_t		max_runs;		/* 0: no limit */
	const char *bind;			/* "tx", "keep" or "hold" */

	/*
	 * The transaction that seals, unique; for EO_ABORT, EO_BURY and EO_UNSEAL
	 * the one that was to commit, NULL if it never got so far.
	 */
	const char *origin;
	const char *payload_sha256; /* NULL: not compared, not changed */
	const char *result;			/* NULL: none */
	size_t		result_len;
	const char *error;			/* NULL: none */
	size_t		error_len;
	bool		terminal;		/* FAIL: for good */
	int64_t		retry_ms;		/* FAIL: claimable from then */

	/*
	 * EO_REPLACE, EO_SEAL_EXPIRED, EO_COMPLETE_EXPIRED, EO_FORGET: what was
	 * seen
	 */
	const EoRecord *seen;
} EoWrite;

typedef struct EoLayout EoLayout;

extern const EoLayout *eo_record_layout(const char *name);	/* NULL: no such */

/*
 * The partition key of a key: EO_TOO_LARGE over EO_MAX_KEY_BYTES, with the
 * length it would have had in *len.  out holds EO_MAX_KEY_BYTES and a NUL.
 */
extern EoStatus eo_record_make_pk(const EoLayout *layout, const char *prefix, const char *key,
								  char *out, size_t *len) EO_MUST_CHECK;

/* Bytes that a result or error may have beside a partition key of this length. */
extern size_t eo_record_max_value(const EoLayout *layout, size_t pk_len);

/* Append the body of an UpdateItem or of a consistent GetItem. */
extern void eo_record_put_write(const EoLayout *layout, EoBuf *body, const char *table,
								const char *pk, EoVerb verb, const EoWrite *w);

/* Append the same write as an Update action of a TransactWriteItems. */
extern void eo_record_put_transact_item(const EoLayout *layout, EoBuf *body, const char *table,
										const char *pk, EoVerb verb, const EoWrite *w);
extern void eo_record_put_read(const EoLayout *layout, EoBuf *body, const char *table,
							   const char *pk);

/* The state a verb leaves behind. */
extern EoState eo_record_state_after(EoVerb verb);

/* May a record have this partition key?  With any server's prefix. */
extern bool eo_record_is_pk(const EoLayout *layout, const char *pk);

/* The partition key an item bears; NULL if it has none. */
extern const char *eo_record_pk_of(const EoLayout *layout, EoJsonValue *item);

/* Read an item; EO_INVALID if it is not a record of this layout. */
extern EoStatus eo_record_read(const EoLayout *layout, EoJsonValue *item,
							   EoRecord *record) EO_MUST_CHECK;

/* Table administration: names of the key and TTL attributes. */
extern const char *eo_record_key_name(const EoLayout *layout);
extern const char *eo_record_ttl_name(const EoLayout *layout);

/* For logs and views: "IN_PROGRESS", ... */
extern const char *eo_record_state_name(EoState state);

#endif							/* EO_DYNAMODB_RECORD_H */
