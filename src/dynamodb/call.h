/*-------------------------------------------------------------------------
 *
 * call.h
 *	  One DynamoDB call: sign, send, classify, retry inside the deadline.
 *
 * The caller writes a body and reads a reply; what is between is here.  Calls
 * are run in groups, a bounded number in flight.  Knows nothing of records.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_CALL_H
#define EO_DYNAMODB_CALL_H

#include "dynamodb/buf.h"
#include "dynamodb/http.h"
#include "dynamodb/json.h"
#include "dynamodb/sigv4.h"
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

/*
 * Where calls of one server and one set of credentials go, and what has been
 * learnt there.  Strings are borrowed from whoever made it.
 */
typedef struct EoClient
{
	EoHttpEndpoint endpoint;
	const char *host;			/* as in the Host header */
	const char *region;
	EoCredentials credentials;
	int			request_timeout_ms; /* the whole call, retries included */
	int			max_attempts;
	EoSigner   *signer;

	/*
	 * The service's clock as seen in its Date headers.  clock_offset_ms
	 * (service minus local) decides about leases, so one odd header does not
	 * move it: two replies in a row must agree.
	 */
	int64_t		clock_offset_ms;
	int64_t		clock_candidate_ms;
	bool		clock_candidate;
	bool		clock_known;	/* a reply has confirmed or set the offset */
} EoClient;

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
	int			throttles;
	bool		resigned;
	bool		waiting;		/* backing off until next_us */
	int64_t		started_us;
	int64_t		deadline_us;
	int64_t		next_us;
};

extern void eo_call_init(EoCall *call, EoClient *client, EoOperation op);
extern void eo_call_free(EoCall *call); /* ends a transfer in flight */

/*
 * Run all calls, at most parallel in flight.  deadline_us 0: each call has
 * the client's request_timeout from its own start; otherwise that instant for
 * all.  Returns when each has an outcome; in EO_WAIT_RAISE mode an interrupt
 * may leave it, and the caller still owns (and frees) the calls.
 */
extern void eo_call_run(EoCall **calls, int n, int parallel,
						int64_t deadline_us, EoWaitMode mode);

/*
 * The same by steps, for whoever has other things to wait for meanwhile: the
 * calls in the window are under way.  add() starts one and returns false if
 * it has its outcome already, and step() takes out those that have got theirs
 * (at most EO_MAX_PARALLEL) and says when it wants to be called again at the
 * latest; in between, eo_http_wait().
 */
#define EO_MAX_PARALLEL 64

typedef struct EoWindow
{
	EoCall	   *calls[EO_MAX_PARALLEL];
	int			n;
} EoWindow;

extern bool eo_window_add(EoWindow *window, EoCall *call, int64_t deadline_us);
extern int	eo_window_step(EoWindow *window, EoCall **finished, int64_t *until_us);

/* Now, by the service's clock as far as it is known: epoch milliseconds. */
extern int64_t eo_client_now_ms(const EoClient *client);

extern const char *eo_call_operation_name(EoOperation op);

/* What is to be done about one reply; exported for test/unit. */
typedef struct EoReplyVerdict
{
	EoStatus	status;
	bool		retry;
	bool		throttled;		/* back off as the service asks, longer */
	bool		skewed;			/* may be our clock: sign again if Date says
								 * so */
} EoReplyVerdict;

extern EoReplyVerdict eo_call_classify(int http_status, const char *code);
extern EoReplyVerdict eo_call_classify_reasons(EoJsonValue *reasons);
extern void eo_client_learn_clock(EoClient *client, int64_t date_s, int64_t wall_ms);

#endif							/* EO_DYNAMODB_CALL_H */
