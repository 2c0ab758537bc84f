/*-------------------------------------------------------------------------
 *
 * bundle.h
 *	  Writes of different items that share a request.
 *
 * A bundle is a BatchExecuteStatement: up to EO_MAX_STATEMENTS conditional writes, each
 * with an answer of its own (answer.h), which is a member of the bundle.
 *
 * Only one outcome of a member counts: EO_APPLIED, shown by an item that bears its key
 * and its token in the state that was written.  After anything else, be it a refusal, an
 * error or no answer at all, the owner must ask for the write by itself, under the same
 * token.  That request has the definite answer: if the statement was applied after all,
 * the item shows it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_BUNDLE_H
#define EO_SERVER_BUNDLE_H

#include "postgres.h"

#include "records/statement.h"
#include "records/window.h"
#include "server/answer.h"
#include "server/store.h"
#include "wire/call.h"

typedef struct EoBundle EoBundle;

/* How the owner of writes has them travel.  arg of the bundle is the owner's. */
typedef struct EoBundleOwner
{
	/*
	 * Plan the next write that may share the request.  NULL: there is none.
	 * If this raises an error, nothing was sent for the members.
	 */
	EoAnswer   *(*next) (EoBundle *bundle);

	/*
	 * The request is about to be sent; and it has ended.  NULL: nothing is
	 * noted.
	 */
	void		(*sending) (EoBundle *bundle);
	void		(*ended) (EoBundle *bundle);

	/*
	 * The write was applied.  Or it was not, as far as is known: its outcome
	 * is EO_FAILED_CALL, and it needs a request of its own.  Then
	 * call.in_doubt says whether it may have been applied, or may be yet, and
	 * call.clock_moved whether the service has refused its time.
	 */
	void		(*take) (EoAnswer *answer, void *arg);
} EoBundleOwner;

struct EoBundle
{
	EoStore    *store;
	void	   *arg;			/* the owner's */
	EoCall		call;
	int			n;
	EoAnswer   *members[EO_MAX_STATEMENTS];
	int			nrefused;		/* statements whose conditions were false */
	int64		deadline_us;	/* next() may set an earlier one */

	/* Private to bundle.c. */
	const EoBundleOwner *owner;
	MemoryContext context;
	bool		full;			/* no other write has room; or the last one
								 * that was refused is of a key that is in it */
	bool		inserts[EO_MAX_STATEMENTS]; /* its statement is an INSERT */
	EoStatementReply replies[EO_MAX_STATEMENTS];
};

/*
 * Start the owner's next writes in one request, as many as it takes, in a memory context
 * below the current one.  Writes that cannot share a request, or have nobody to share it
 * with, are handed back by take().  Returns false, and has done nothing, if writes of this
 * store may not share requests: the server's option batch_requests is off, or the service
 * has refused that in the last hour.  There should be a next write.
 *
 * The request has half of the time until deadline_us (0: of request_timeout); the other
 * half is for requests of the members' own.
 */
extern bool eo_bundle_start_next(EoStore *store, const EoBundleOwner *owner, void *arg,
								 EoWindow *window, int64 deadline_us);

/*
 * If the call that has ended is a bundle's, hand its members to the owner, and return
 * true.  The items of the members live until take() returns; an INSERT has none.
 */
extern bool eo_bundle_take(EoCall *call);

#endif							/* EO_SERVER_BUNDLE_H */
