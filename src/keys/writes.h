/*-------------------------------------------------------------------------
 *
 * writes.h
 *	  Writes to DynamoDB that are made if and only if a transaction commits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_WRITES_H
#define EO_KEYS_WRITES_H

#include "postgres.h"

#include "ledger/outbox.h"
#include "server/store.h"
#include "utils/jsonb.h"
#include "wire/json.h"

/* As many as a record has beside it in a transaction of DynamoDB. */
#define EO_MAX_WRITES 99

/* One of them. */
typedef struct EoWriteItem
{
	char	   *text;			/* as DynamoDB takes it, UTF-8 */
	char	   *item;			/* see EoOutboxWrites */
	uint64		hash;			/* of the item */
	uint64		lock;			/* of the item, see item_order.h */
	size_t		size;			/* as DynamoDB counts it */
} EoWriteItem;

typedef struct EoWrites
{
	int			n;
	EoWriteItem *list;			/* EO_MAX_WRITES of them have room */
	size_t		size;			/* of all of them */
} EoWrites;

/*
 * Read the writes of a document, and check whatever can be known before they are made.
 * All is palloc'd.  The first call of a process about a table asks DynamoDB for its key.
 * Raises 22023 for a write that is malformed or has a condition, 42501 and HV00J for one that
 * is not allowed, 54000 for too many or too large ones, 0A000 if the server's own table has no
 * transactions, and what eo_writes_table_keys() raises.  function is the one that messages name.
 */
extern void eo_writes_read(EoStore *store, const char *function, Jsonb *document,
						   EoWrites *writes);

/* Add writes.  Raises 22023 if both write one item, and 54000 if they are too many. */
extern void eo_writes_append(EoWrites *writes, const EoWrites *more);

/*
 * Lock the items until the transaction ends.  Waits for other transactions that have
 * locked one.
 */
extern void eo_writes_lock(const EoWrites *writes);

/* Is there room in a transaction of DynamoDB for one more of that size? */
extern bool eo_writes_has_room(const EoWrites *writes, size_t size);

/* Check that they fit beside a result of so many bytes.  Raises 54000. */
extern void eo_writes_check_size(const EoWrites *writes, size_t result_len);

/*
 * Describe them for a row of the outbox that is inserted next, and whose items are
 * locked.
 */
extern void eo_writes_decide(const EoWrites *writes, EoOutboxWrites *row);

/* Tells different writes from each other; 0: there are none (NULL). */
extern uint64 eo_writes_hash(const EoWrites *writes);

/* ---- the keys of tables ---- */

/* The attributes that make the key of a table's items. */
typedef struct EoTableKeys
{
	int			n;				/* 1, or 2 with a sort key */
	char	   *names[2];
	char		types[2];		/* 'S', 'N' or 'B' */
} EoTableKeys;

/* Read the key of a table as DescribeTable shows it (NULL: not at all).  False: it has none. */
extern bool eo_writes_read_table_keys(EoJsonValue *table, EoTableKeys *keys);

/*
 * The key of a table, by DescribeTable; after that the process knows it.  Raises what the
 * request ends with, ID007 if there is no such table or if it may not be described, and 0A000.
 */
extern const EoTableKeys *eo_writes_table_keys(EoStore *store, const char *table);

#endif							/* EO_KEYS_WRITES_H */
