/*-------------------------------------------------------------------------
 *
 * action_item.h
 *	  How an action is spelled in DynamoDB: attributes and conditions.
 *
 * Only action_item.c knows the names of an action's attributes and writes
 * conditions on them.  docs/actions.md states both as a contract for other
 * services.
 *
 * In tables of the layout native that is the only spelling.  In the others it is that of
 * a table that other clients keep, whose partition key is actionId (option action_layout
 * 'seed'): options may give other names and forms to instants, a client may have written
 * an attribute as NULL where it means none, and clients count no attempts at a PIN.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_ACTION_ITEM_H
#define EO_RECORDS_ACTION_ITEM_H

#include "records/layout.h"
#include "records/list.h"
#include "records/token.h"
#include "wire/buf.h"
#include "wire/json.h"
#include "wire/status.h"

/*
 * Limits of what is added to an action after it was created.  Room for it is kept
 * when the size of the payload is checked.
 */
#define EO_MAX_REASON_BYTES 1024
#define EO_MAX_CONSUMER_BYTES 16384
#define EO_MAX_PIN_TOKENS 20
#define EO_PIN_HASH_LEN 160		/* longest */

/* Another client made the action: nobody has counted attempts. */
#define EO_PIN_ATTEMPTS_ALL (-1)

/*
 * Longest token of an attempt at a PIN: a token of its own, a slash, and the token
 * of the caller that consumes.
 */
#define EO_ATTEMPT_LEN (2 * EO_TOKEN_LEN + 1)

/*
 * An action as read.  Strings are borrowed from the reply and NULL if absent;
 * instants are epoch milliseconds and 0 if absent.
 */
typedef struct EoActionItem
{
	int64_t		created_ms;
	const char *created_token;
	int64_t		active_ms;		/* 0: at once */
	int64_t		expires_ms;
	const char *payload;		/* JSON text */
	const char *pin_hash;		/* NULL: no PIN is asked for */
	const char *pin_pepper;		/* identifies the pepper of pin_hash, to
								 * detect a changed one; NULL: no pepper */
	int64_t		pin_attempts;	/* attempts that are left; or
								 * EO_PIN_ATTEMPTS_ALL */
	EoJsonValue *pin_tokens;	/* tokens of the attempts that were taken */
	int64_t		consumed_ms;
	const char *consumed_token;
	const char *consumed_reason;
	const char *consumed_by;	/* JSON text */
	int64_t		canceled_ms;
	const char *canceled_token;
	const char *canceled_reason;
	int64_t		closed_ms;		/* was expired or without attempts then, and
								 * can never be consumed */
	int64_t		sealed_ms;		/* a transaction that consumes it is being
								 * committed since then */
	int64_t		ttl_s;			/* epoch seconds; 0: none that can be read */
	EoJsonValue *item;			/* all of it */
} EoActionItem;

/*
 * The conditional writes on an action.  "final" means consumed, sealed by a transaction
 * (action_seal.h), canceled or closed; "open" means not final and within the action's time.
 */
typedef enum EoActionVerb
{
	EO_ACTION_CREATE,			/* there is no such action */
	EO_ACTION_ATTEMPT,			/* open, with a PIN under this pepper: take
								 * one attempt */
	EO_ACTION_CONSUME,			/* open, without a PIN */
	EO_ACTION_CONSUME_PAID,		/* open, and this attempt was taken */
	EO_ACTION_CANCEL,			/* neither final nor expired, and attempts are
								 * left if there is a PIN */
	EO_ACTION_CLOSE				/* not final, but expired or without attempts:
								 * never to be consumed */
} EoActionVerb;

/* The parameters of the verbs; each ignores the members that it does not need. */
typedef struct EoActionWrite
{
	const char *token;			/* of this call; of the caller that consumes;
								 * of the attempt (EO_ATTEMPT_LEN) */
	const char *attempt;		/* EO_ACTION_CONSUME_PAID: the attempt's token */
	int64_t		now_ms;
	const char *id;
	int64_t		active_ms;
	int64_t		expires_ms;
	int64_t		ttl_s;

	/* NULL: none. */
	const char *payload;
	const char *pin_hash;
	const char *pin_pepper;		/* of EO_ACTION_CREATE, EO_ACTION_ATTEMPT */
	int64_t		pin_attempts;	/* of EO_ACTION_CREATE; of EO_ACTION_ATTEMPT
								 * if nobody has counted them */
	int64_t		pin_hash_len;	/* EO_ACTION_ATTEMPT: of a hash that can be
								 * checked */
	const char *reason;
	const char *consumer;
} EoActionWrite;

/* How the actions of a table are spelled. */
typedef struct EoActionLayout EoActionLayout;

/*
 * The spelling in a table of that layout, made once in a process; NULL: no memory.
 * The layout must be "native", and options be "", or both have passed
 * eo_action_names_check().
 */
extern const EoActionLayout *eo_action_item_layout(const EoLayout *layout, const char *options);

/* Like eo_record_key_make(), for the id of an action. */
extern EoStatus eo_action_item_make_pk(const EoActionLayout *layout, const char *prefix,
									   const char *id, char *out, size_t *len) EO_MUST_CHECK;

/* Is this the partition key of an action in a native table? */
extern bool eo_action_item_is_pk(const char *pk);

/* The longest payload that fits into an item beside this partition key and id. */
extern size_t eo_action_item_max_payload(size_t pk_len, size_t id_len);

/*
 * Append the body of an UpdateItem; makes the body fail (see buf.h) if the write
 * lacks a member that the verb needs.
 */
extern void eo_action_item_put_write(const EoActionLayout *layout, EoBuf *body,
									 const char *table, const char *pk, EoActionVerb verb,
									 const EoActionWrite *w);

/*
 * Append EO_ACTION_CREATE as a statement of a BatchExecuteStatement, see statement.h.
 * Returns false if it has no such spelling: then nothing is appended.
 */
extern bool eo_action_item_put_create(const EoActionLayout *layout, EoBuf *body,
									  const char *table, const char *pk, const EoActionWrite *w);

/* Append the body of a Scan; actions come without payloads and tokens. */
extern void eo_action_item_put_list(const EoActionLayout *layout, EoBuf *body,
									const EoListPage *page);

/* The attributes that say whether an action may be deleted, see eo_list_ended_names(). */
extern size_t eo_action_item_ended_names(const EoActionLayout *layout, const char **names);

/*
 * Read an item.  Returns EO_OK, or EO_INVALID if it is not an action, or if an
 * attribute that decides about it is not of the type which the conditions need.
 */
extern EoStatus eo_action_item_read(const EoActionLayout *layout, EoJsonValue *item,
									EoActionItem *action) EO_MUST_CHECK;

/* Has the caller with this token taken an attempt? */
extern bool eo_action_item_paid_by(const EoActionItem *action, const char *token);

/* Does the item show that the write of this verb and token was applied? */
extern bool eo_action_item_shows(const EoActionItem *action, EoActionVerb verb, const char *token);

/* Does the item show that it was consumed by a write with this instant? */
extern bool eo_action_item_shows_now(const EoActionLayout *layout, const EoActionItem *action,
									 int64_t now_ms);

#endif							/* EO_RECORDS_ACTION_ITEM_H */
