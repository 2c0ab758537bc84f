/*-------------------------------------------------------------------------
 *
 * record.h
 *	  How a record is written and read in DynamoDB.
 *
 * layout.h says how the attributes of a record are named, and verb.h what is read and
 * written.  Only record.c writes conditions on them, and only record_read.c reads them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_RECORD_H
#define EO_RECORDS_RECORD_H

#include "records/layout.h"
#include "records/verb.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

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

/*
 * The key in a partition key: without what the layout (NULL: not known) and the prefix put before
 * it, as far as they are there.
 */
extern const char *eo_record_key_text(const EoLayout *layout, const char *prefix, const char *pk);

/* The longest result or error that fits into an item beside this partition key. */
extern size_t eo_record_key_room(const EoLayout *layout, size_t pk_len);

/*
 * Count in *size what a result takes up in an item of this layout.  Returns EO_OK; or, where
 * results are kept in DynamoDB's own types, what eo_attribute_put() returns for a
 * result that these do not have, or EO_NO_MEMORY.
 */
extern EoStatus eo_record_key_result_size(const EoLayout *layout, const char *result, size_t len,
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

#endif							/* EO_RECORDS_RECORD_H */
