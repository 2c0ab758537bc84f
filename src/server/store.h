/*-------------------------------------------------------------------------
 *
 * store.h
 *	  Conditional verbs on records and actions, and what became of them.
 *
 * A verb is prepared (no network), run (alone or in a group), and then its
 * answer is read.  All memory of an answer, the reply included, belongs to a
 * memory context that is a child of the one current when it was prepared, so
 * an error anywhere frees it; eo_answer_free() does so early.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_STORE_H
#define EO_SERVER_STORE_H

#include "postgres.h"

#include "dynamodb/action_item.h"
#include "dynamodb/call.h"
#include "dynamodb/client.h"
#include "dynamodb/http.h"
#include "dynamodb/origin.h"
#include "dynamodb/record.h"
#include "dynamodb/status.h"
#include "dynamodb/token.h"
#include "dynamodb/window.h"
#include "server/options.h"

/* A server ready to be called, as the current role. */
typedef struct EoStore
{
	EoServer   *server;
	const EoLayout *layout;
	EoClient	client;
	const char *credentials_from;	/* NULL: there are none */
} EoStore;

typedef enum EoOutcome
{
	EO_APPLIED,					/* written, now or by an earlier attempt of
								 * ours */
	EO_NOT_APPLIED,				/* refused; the record says by what */
	EO_READ,					/* of a read */
	EO_FAILED_CALL				/* see error; EO_UNKNOWN if it may be applied */
} EoOutcome;

typedef struct EoAnswer
{
	EoOutcome	outcome;
	bool		exists;			/* there is an item, and it is in record, or
								 * in action: as it is after the verb, or as
								 * it stood in its way */
	EoRecord	record;
	EoActionItem action;

	/*
	 * EO_APPLIED found in place by an earlier call under the same token, not
	 * by this one.
	 */
	bool		replayed;
	EoError		error;
	void	   *user;			/* the caller's */

	/* Private to store.c. */
	MemoryContext context;
	EoStore    *store;
	char	   *pk;
	bool		is_read;
	bool		is_action;
	EoVerb		verb;
	EoActionVerb action_verb;
	char		owner[EO_ATTEMPT_LEN + 1];
	char		origin[EO_ORIGIN_LEN + 1];
	int64		lease_ms;
	bool		readable;		/* the item of the reply is what it should be */
	bool		read_again;		/* refused without an item: look it up */
	bool		doubted;		/* in_doubt of the write, during that look */
	EoCall		call;
} EoAnswer;

/*
 * The store of a server (NULL: exactonce.server) for the current role.
 * Raises what eo_options_lookup() raises.  Valid until the end of the
 * transaction.
 */
extern EoStore *eo_store_open(const char *server_name);

/*
 * A store of its own for a server of eo_options_load(), in that server's
 * memory context: for who outlives transactions.
 */
extern EoStore *eo_store_create(EoServer *server);

/*
 * The partition key of a key, palloc'd.  Raises 54000 if it is too long.
 */
extern char *eo_store_pk(const EoStore *store, const char *key);

/* Of an action's id; NULL if it is too long for there to be such an action. */
extern char *eo_store_action_pk(const EoStore *store, const char *id);

/* Make a token; raises XX000 if there are no random numbers. */
extern void eo_store_new_token(char token[EO_TOKEN_LEN + 1]);

/* Finished, and so long ago that it counts as absent. */
extern bool eo_store_is_expired(const EoStore *store, const EoRecord *r);

extern EoAnswer *eo_store_prepare_write(EoStore *store, const char *pk, EoVerb verb,
										const EoWrite *w);
extern EoAnswer *eo_store_prepare_read(EoStore *store, const char *pk);

/*
 * The same for actions.  An action that is not there is no reason for a second
 * look: EO_NOT_APPLIED without exists, by that one request.
 */
extern EoAnswer *eo_store_prepare_action_write(EoStore *store, const char *pk,
											   EoActionVerb verb, const EoActionWrite *w);
extern EoAnswer *eo_store_prepare_action_read(EoStore *store, const char *pk);

/*
 * The write as the first action of a transaction, before nactions others in
 * DynamoDB's own JSON.  request_token, a UUID, is for this very body: with
 * another one it would be refused.  EO_FAILED_CALL with EO_CANCELLED: another
 * action was refused, call.reasons says which.  EO_APPLIED by the reply itself
 * brings no record.
 */
extern EoAnswer *eo_store_prepare_transaction(EoStore *store, const char *pk, EoVerb verb,
											  const EoWrite *w, const char *request_token,
											  const char *actions, int nactions);
extern void eo_store_run(EoAnswer **answers, int n, int parallel, int64 deadline_us,
						 EoWaitMode mode);

/*
 * The same by steps, see window.h: an answer is started in a window; when
 * the window says that its call has finished, eo_answer_take() reads it, and
 * returns false if it had to be started once more (a second look).
 */
extern bool eo_answer_start(EoAnswer *answer, EoWindow *window, int64 deadline_us);
extern bool eo_answer_take(EoAnswer *answer, EoWindow *window, int64 deadline_us);
extern EoAnswer *eo_answer_of_call(EoCall *call);

/* Prepare and run one, interruptibly, within the server's request_timeout. */
extern EoAnswer *eo_store_write(EoStore *store, const char *pk, EoVerb verb,
								const EoWrite *w);
extern EoAnswer *eo_store_read(EoStore *store, const char *pk);

/*
 * w->now_ms is filled in: what the condition was compared with.  A request that
 * was refused for its time is made once more, by a clock that has been set right.
 */
extern EoAnswer *eo_store_write_action(EoStore *store, const char *pk, EoActionVerb verb,
									   EoActionWrite *w);
extern EoAnswer *eo_store_read_action(EoStore *store, const char *pk);
extern void eo_answer_free(EoAnswer *answer);

/* A call that is about no record (tables); the caller fills and frees it. */
extern void eo_store_run_call(EoStore *store, EoCall *call);

#endif							/* EO_SERVER_STORE_H */
