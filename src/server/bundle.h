/*-------------------------------------------------------------------------
 *
 * bundle.h
 *	  Writes of different records that share a request.
 *
 * A bundle is a BatchExecuteStatement: up to EO_MAX_STATEMENTS conditional writes, each
 * with an answer of its own.  A member of a bundle is an EoAnswer (answer.h) whose request
 * is that of the bundle.
 *
 * Only one outcome of a member counts: EO_APPLIED, shown by an item that bears its key
 * and its token in the state that was written.  After anything else, be it a refusal, an
 * error or no answer at all, the caller must ask for the write by itself, under the same
 * token.  That request has the definite answer: if the statement was applied after all,
 * the record shows it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_BUNDLE_H
#define EO_SERVER_BUNDLE_H

#include "postgres.h"

#include "records/record.h"
#include "records/statement.h"
#include "records/window.h"
#include "server/answer.h"
#include "wire/call.h"

struct EoBundle
{
	EoCall		call;
	int			n;
	EoAnswer   *members[EO_MAX_STATEMENTS];
	bool		full;			/* no other write has room; or the last one
								 * that was refused is of a key that is in it */

	int			nrefused;		/* statements whose conditions were false */
	void	   *user;			/* for the caller */

	/* Private to bundle.c. */
	MemoryContext context;
	EoStore    *store;
	bool		inserts[EO_MAX_STATEMENTS]; /* its statement is an INSERT */
	EoStatementReply replies[EO_MAX_STATEMENTS];
};

/*
 * May writes of this store share requests?  Not if the server's option batch_requests is
 * off, nor for an hour after the service has refused that.
 */
extern bool eo_bundle_is_allowed(const EoStore *store);

/* An empty bundle, in a memory context below the current one. */
extern EoBundle *eo_bundle_create(EoStore *store);

/*
 * Add a write, for eo_store_prepare_write_in().  Returns false if it has no room or no
 * spelling as a statement; then it needs a request of its own.
 */
extern bool eo_bundle_add(EoBundle *bundle, EoAnswer *answer, EoVerb verb, const EoWrite *w);

/*
 * The same for a write of another kind.  put() appends the statement to the body, or returns false
 * and appends nothing if there is no such statement; inserts says whether it is an INSERT.
 */
typedef bool (*EoPutStatement) (EoBuf *body, const EoStore *store, const char *pk,
								const void *arg);
extern bool eo_bundle_add_statement(EoBundle *bundle, EoAnswer *answer, bool inserts,
									EoPutStatement put, const void *arg);

/*
 * Start the request in a window, as eo_answer_start(); false: it has ended already.  It has
 * half of the time until deadline_us (0: of request_timeout); the other half is for requests
 * of the members' own.  A bundle is not sent with less than two members.
 */
extern bool eo_bundle_start(EoBundle *bundle, EoWindow *window, int64 deadline_us);

/* The bundle of a call of the operation EO_BATCH_WRITE. */
extern EoBundle *eo_bundle_of_call(EoCall *call);

/*
 * The request has ended: set the outcome of each member, EO_APPLIED or EO_FAILED_CALL.  Of
 * the latter call.in_doubt says whether the write may have been applied, or may be yet.
 * The items of the members live as long as the bundle; an INSERT has none.
 */
extern void eo_bundle_take(EoBundle *bundle);

/* Free the bundle; its members are the caller's. */
extern void eo_bundle_free(EoBundle *bundle);

#endif							/* EO_SERVER_BUNDLE_H */
