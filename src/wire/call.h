/*-------------------------------------------------------------------------
 *
 * call.h
 *	  One DynamoDB call: sign, send, classify, retry inside the deadline.
 *
 * The caller writes a body, has the call run by window.c, and reads the reply.
 * Knows nothing of records.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_CALL_H
#define EO_WIRE_CALL_H

#include "wire/buf.h"
#include "wire/client.h"
#include "wire/http.h"
#include "wire/json.h"
#include "wire/status.h"

/*
 * Longest request body.  It has at most one item's attributes; escaping at most
 * doubles the printable characters of a JSON text.
 */
#define EO_MAX_BODY (3 * 409600)

/*
 * Most actions of a transaction, and its longest body: four megabytes of items, as
 * JSON and perhaps with base64 in it.
 */
#define EO_MAX_ACTIONS 100
#define EO_MAX_TRANSACTION_BODY (16 * 1024 * 1024)

/* Longest body of a batch.  More than one write is not worth a longer one. */
#define EO_MAX_BATCH_BODY (1000 * 1000)

typedef enum EoOperation
{
	EO_GET_ITEM,
	EO_UPDATE_ITEM,
	EO_DELETE_ITEM,
	EO_TRANSACT,
	EO_BATCH_WRITE,
	EO_SCAN,
	EO_CREATE_TABLE,
	EO_DESCRIBE_TABLE,
	EO_UPDATE_TTL,
	EO_DESCRIBE_TTL
} EoOperation;

#define EO_OPERATIONS (EO_DESCRIBE_TTL + 1)

typedef struct EoCall EoCall;

/*
 * Is told of each attempt of a call, so that the layer above can count them.  Its functions
 * neither wait nor raise.
 */
struct EoCallObserver
{
	/* The attempt is handed to the transport; error.attempts is its number. */
	void		(*sent) (EoCall *call);

	/*
	 * The attempt has ended as status says, or its caller does not wait for
	 * it any longer; error and transfer.reply are its own.
	 */
	void		(*ended) (EoCall *call, EoStatus status, bool canceled, int64_t elapsed_us);
};

struct EoCall
{
	/* Set by eo_call_init(); the caller appends the body. */
	EoClient   *client;
	EoOperation op;
	EoBuf		body;

	/* Set by the caller. */
	int			nactions;		/* of EO_TRANSACT */
	bool		dated;			/* the condition compares with an instant in
								 * the body, see clock_moved */

	/*
	 * Is this the answer to what was asked?  Called with the reply's item (or
	 * NULL) after a success and after a refused condition.  If it returns
	 * false, the reply counts as not received.  May be NULL.
	 */
	bool		(*believe) (const EoCall *call, EoJsonValue *item, bool refused);
	void	   *arg;			/* the caller's */

	/* The outcome: error.status is EO_OK or says what happened. */
	EoError		error;
	EoJson	   *reply;			/* of EO_OK, EO_CONDITION_FAILED, EO_CANCELLED */
	EoJsonValue *item;			/* "Attributes" or "Item" in it; NULL: none */

	/*
	 * For a transaction that was cancelled: the reasons, one for each action
	 * and in the order of the actions, unless there are fewer.  If the
	 * condition of the first action was false, the status is
	 * EO_CONDITION_FAILED, whatever the other reasons are, and item is the
	 * item of that action.
	 */
	EoJsonValue *reasons;

	/*
	 * A dated call was refused because the clock was wrong.  The clock has
	 * been set right, but the body has an instant of the wrong one: the
	 * caller may make the call again with another body.
	 */
	bool		clock_moved;

	/*
	 * An attempt whose own answer never came may have been applied.  This
	 * matters even after a definite answer: a refusal may be due to what that
	 * attempt has written.
	 */
	bool		in_doubt;
	int64_t		elapsed_us;

	/* Of EO_OK and EO_CONDITION_FAILED: what the reply's Date header shows. */
	bool		has_date;
	int64_t		offset_seen_us; /* as EoServiceClock.offset_us */

	/* Private to call.c. */
	EoHttpTransfer transfer;
	int			attempt;
	int			refusals;		/* connections that were refused */
	bool		answered;		/* an attempt had an answer of the service */
	bool		resigned;		/* was signed anew after clock correction */
	bool		expired;		/* credentials are to be renewed before the
								 * next attempt */
	bool		renewed;		/* they were, or that was tried */
	bool		waiting;		/* backing off until next_us */
	const EoCallObserver *observer; /* of the client, which may end before */
	void	   *observed;
	bool		in_flight;		/* an attempt is */
	int64_t		sent_us;		/* when it was sent */
	int64_t		started_us;
	int64_t		deadline_us;
	int64_t		next_us;
};

extern void eo_call_init(EoCall *call, EoClient *client, EoOperation op);

/* Release what a call holds, its reply included.  Ends a transfer in flight. */
extern void eo_call_free(EoCall *call);

/*
 * For window.c.  Start a call, and then step it as long as it goes on: both return
 * true while it does, and false once it has its outcome.  deadline_us is absolute;
 * 0 means the client's request_timeout from now.  *until_us is the instant at
 * which the call has to be stepped again, unless its reply comes before.
 */
extern bool eo_call_start(EoCall *call, int64_t deadline_us) EO_MUST_CHECK;
extern bool eo_call_step(EoCall *call, int64_t *until_us) EO_MUST_CHECK;

/* "UpdateItem", ... */
extern const char *eo_call_operation_name(EoOperation op);

#endif							/* EO_WIRE_CALL_H */
