/*-------------------------------------------------------------------------
 *
 * call.h
 *	  One DynamoDB call: sign, send, classify, retry inside the deadline.
 *
 * The caller writes a body, has the call run by window.c, and reads the reply.
 * Knows nothing of records.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_CALL_H
#define EO_DYNAMODB_CALL_H

#include "dynamodb/buf.h"
#include "dynamodb/client.h"
#include "dynamodb/http.h"
#include "dynamodb/json.h"
#include "dynamodb/status.h"

/*
 * A request body holds at most one item's attributes; the same factor as for
 * replies is never reached, because we escape control characters only.
 */
#define EO_MAX_BODY (3 * 409600)

/*
 * That of a transaction: at most a hundred actions, and four megabytes of items,
 * for which there is room as JSON and as base64.
 */
#define EO_MAX_ACTIONS 100
#define EO_MAX_TRANSACTION_BODY (16 * 1024 * 1024)

typedef enum EoOperation
{
	EO_GET_ITEM,
	EO_UPDATE_ITEM,
	EO_TRANSACT,
	EO_CREATE_TABLE,
	EO_DESCRIBE_TABLE,
	EO_UPDATE_TTL,
	EO_DESCRIBE_TTL
} EoOperation;

typedef struct EoCall EoCall;

struct EoCall
{
	/* Set by eo_call_init() and the caller. */
	EoClient   *client;
	EoOperation op;
	EoBuf		body;
	int			nactions;		/* of EO_TRANSACT */

	/*
	 * The condition compares with an instant in the body: if the clock turns
	 * out to be wrong, the call ends with clock_moved instead of being signed
	 * anew, and the caller writes the body anew.
	 */
	bool		dated;
	bool		clock_moved;

	/*
	 * Is this the answer to what was asked?  Called with the reply's item (or
	 * NULL) after a success and after a refused condition; false makes the
	 * reply count as not received.  May be NULL.
	 */
	bool		(*believe) (const EoCall *call, EoJsonValue *item, bool refused);
	void	   *arg;

	/* The outcome: error.status is EO_OK or says what happened. */
	EoError		error;
	EoJson	   *reply;			/* of EO_OK, EO_CONDITION_FAILED, EO_CANCELLED */
	EoJsonValue *item;			/* "Attributes" or "Item" in it; NULL: none */

	/*
	 * Of a transaction that was cancelled: a reason for each action, in their
	 * order.  It ends with EO_CONDITION_FAILED if the condition of the first
	 * action was false, whatever the others are, and the item is that
	 * action's.
	 */
	EoJsonValue *reasons;

	/*
	 * Some attempt may have been applied although its own answer never came.
	 * After a final definite answer this still matters: a refusal may be the
	 * work of our own earlier attempt.
	 */
	bool		in_doubt;
	int64_t		elapsed_us;

	/* Private to call.c. */
	EoHttpTransfer transfer;
	int			attempt;
	bool		resigned;
	bool		waiting;		/* backing off until next_us */
	int64_t		started_us;
	int64_t		deadline_us;
	int64_t		next_us;
};

extern void eo_call_init(EoCall *call, EoClient *client, EoOperation op);
extern void eo_call_free(EoCall *call); /* ends a transfer in flight */

/*
 * For window.c, which runs calls.  Start a call, then step it: both return true
 * while the call goes on and false once it has its outcome.  deadline_us is
 * absolute; 0 means the client's request_timeout from now.  *until_us is the
 * instant at which the call has to be stepped again, if its reply has not come
 * before.
 */
extern bool eo_call_start(EoCall *call, int64_t deadline_us) EO_MUST_CHECK;
extern bool eo_call_step(EoCall *call, int64_t *until_us) EO_MUST_CHECK;

/* "UpdateItem", ... */
extern const char *eo_call_operation_name(EoOperation op);

#endif							/* EO_DYNAMODB_CALL_H */
