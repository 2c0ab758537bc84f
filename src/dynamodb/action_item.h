/*-------------------------------------------------------------------------
 *
 * action_item.h
 *	  How an action is spelled in DynamoDB: attributes and conditions.
 *
 * action_item.c is the only file that knows the name of an action's attribute
 * or writes a condition on one.  It has one spelling, which docs/actions.md
 * states as a contract for other services.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_ACTION_ITEM_H
#define EO_DYNAMODB_ACTION_ITEM_H

#include "dynamodb/buf.h"
#include "dynamodb/json.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"

/* Bounds that leave room in the item for the one who consumes it. */
#define EO_MAX_REASON_BYTES 1024
#define EO_MAX_CONSUMER_BYTES 16384
#define EO_MAX_PIN_TOKENS 20
#define EO_PIN_HASH_LEN 160		/* at most */

/* The token of an attempt: its own, and behind a slash that of its caller. */
#define EO_ATTEMPT_LEN (2 * EO_TOKEN_LEN + 1)

/*
 * An action as read.  Strings are borrowed from the reply, NULL if absent;
 * instants are epoch milliseconds, 0 if absent.
 */
typedef struct EoActionItem
{
	int64_t		created_ms;
	const char *created_token;
	int64_t		active_ms;		/* 0: at once */
	int64_t		expires_ms;
	const char *payload;		/* JSON text */
	const char *pin_hash;		/* NULL: no PIN is asked for */
	const char *pin_pepper;		/* by what its pepper is known; NULL: none */
	int64_t		pin_attempts;	/* that are left */
	EoJsonValue *pin_tokens;	/* of the attempts that were taken */
	int64_t		consumed_ms;
	const char *consumed_token;
	const char *consumed_reason;
	const char *consumed_by;	/* JSON text */
	int64_t		canceled_ms;
	const char *canceled_token;
	const char *canceled_reason;
	int64_t		closed_ms;		/* found over by a cancel */
} EoActionItem;

/* The conditional writes on an action; "open" is written out at condition(). */
typedef enum EoActionVerb
{
	EO_ACTION_CREATE,			/* absent */
	EO_ACTION_ATTEMPT,			/* open, with a PIN under this pepper: take
								 * one attempt */
	EO_ACTION_CONSUME,			/* open, without a PIN */
	EO_ACTION_CONSUME_PAID,		/* open, after this token's attempt */
	EO_ACTION_CANCEL,			/* neither final nor expired */
	EO_ACTION_CLOSE				/* not final, but expired or without attempts:
								 * for good */
} EoActionVerb;

/* What a verb needs; unused members are ignored. */
typedef struct EoActionWrite
{
	const char *token;			/* of this call; for a consume of its caller;
								 * for an attempt, see EO_ATTEMPT_LEN */
	const char *attempt;		/* CONSUME_PAID: that of the attempt */
	int64_t		now_ms;
	const char *id;
	int64_t		active_ms;
	int64_t		expires_ms;
	int64_t		ttl_s;
	const char *payload;		/* NULL: none; so for the strings that follow */
	const char *pin_hash;
	const char *pin_pepper;		/* CREATE, ATTEMPT */
	int64_t		pin_attempts;
	const char *reason;
	const char *consumer;
} EoActionWrite;

/* As eo_record_make_pk(), for an action's id. */
extern EoStatus eo_action_item_make_pk(const char *prefix, const char *id, char *out, size_t *len)
			EO_MUST_CHECK;
extern bool eo_action_item_is_pk(const char *pk);
extern const char *eo_action_item_pk_of(EoJsonValue *item);

/* Bytes that a payload may have. */
extern size_t eo_action_item_max_payload(size_t pk_len, size_t id_len);

extern void eo_action_item_put_write(EoBuf *body, const char *table, const char *pk,
									 EoActionVerb verb, const EoActionWrite *w);
extern void eo_action_item_put_read(EoBuf *body, const char *table, const char *pk);

/*
 * EO_INVALID if it is no action, or what decides is not of the type that the
 * conditions ask for.
 */
extern EoStatus eo_action_item_read(EoJsonValue *item, EoActionItem *action) EO_MUST_CHECK;

/* Has the caller of this token paid for an attempt? */
extern bool eo_action_item_paid_by(const EoActionItem *action, const char *token);

/* Does the item show that this very write was applied? */
extern bool eo_action_item_shows(const EoActionItem *action, EoActionVerb verb, const char *token);

#endif							/* EO_DYNAMODB_ACTION_ITEM_H */
