/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  One conditional write or consistent read of an item, and its outcome.
 *
 * An answer is created (no network), run (alone, in a group, or by steps in a
 * window), and then read.  All memory of an answer, the reply included, belongs
 * to a memory context that is a child of the one current at its creation, so an
 * error anywhere frees it; eo_answer_free() frees it earlier.
 *
 * This file knows nothing of the attributes of an item.  Whatever depends on
 * them is in an EoItemKind, a table of functions of which there is one for
 * records (store_record.c), one for actions (action_store.c) and one for lives
 * (life_store.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_ANSWER_H
#define EO_SERVER_ANSWER_H

#include "postgres.h"

#include "records/window.h"
#include "server/store.h"
#include "wire/buf.h"
#include "wire/call.h"
#include "wire/json.h"
#include "wire/status.h"

typedef struct EoAnswer EoAnswer;

typedef struct EoItemKind
{
	size_t		item_size;		/* of the struct that read() fills */
	size_t		written_size;	/* of the struct that shows() compares with */
	const char *unreadable;		/* the error's text if read() fails */

	/*
	 * Is a write that was refused without an item followed by a read?  If
	 * not, such a refusal means that there is no item.
	 */
	bool		second_look;

	/*
	 * Append the write that written describes, as the body of a request of
	 * its own; and, if writes of this kind may share one, as a statement of a
	 * bundle.  The latter returns false, and appends nothing, if there is no
	 * such statement; inserts says whether it is an INSERT.
	 */
	void		(*put_write) (const EoAnswer *answer, EoBuf *body);
	bool		(*put_statement) (const EoAnswer *answer, EoBuf *body, bool *inserts);

	/*
	 * Append a read of those parts of the item that have a bounded length;
	 * NULL: there is none.
	 */
	void		(*put_narrow_read) (const EoAnswer *answer, EoBuf *body);

	/* Read an item of a reply.  Strings may point into the reply. */
	EoStatus	(*read) (const EoStore *store, EoJsonValue *json, void *item);

	/* The state of the item, if it is one that this version does not know. */
	const char *(*new_state) (const EoStore *store, EoJsonValue *json);

	/* Does the item show that the write described by written was applied? */
	bool		(*shows) (const void *item, const void *written);

	/*
	 * Would the item (NULL: there is none) admit the write described by
	 * written?  For transactions only.
	 */
	bool		(*admits) (const void *item, const void *written);
} EoItemKind;

typedef enum EoOutcome
{
	EO_APPLIED,					/* written, now or by an earlier attempt of
								 * this answer's write */
	EO_NOT_APPLIED,				/* refused; the item says by what */
	EO_READ,					/* of a read */
	EO_FAILED_CALL				/* see error; EO_UNKNOWN if it may be applied */
} EoOutcome;

struct EoAnswer
{
	EoOutcome	outcome;
	bool		exists;			/* there is an item: as the write left it, or
								 * as it was when it refused the write */

	bool		replayed;		/* EO_APPLIED, but by an earlier call under
								 * the same token */
	EoError		error;
	EoJsonValue *reasons;		/* of a transaction that was cancelled, see
								 * EoCall */
	EoCall		call;			/* the last request: in_doubt, ... */
	void	   *user;			/* for the caller */

	/* For the file that owns the kind. */
	MemoryContext context;
	EoStore    *store;
	const EoItemKind *kind;
	char	   *pk;				/* the item's partition key */
	void	   *item;			/* item_size bytes; valid if exists */
	void	   *written;		/* written_size bytes, set by the owner of the
								 * kind for a write */
	bool		is_probe;		/* a write that is never applied: its reply
								 * shows nothing, and needs no second look */
	bool		may_narrow;		/* if the item is too long to be read, a
								 * narrow read shows as much as is needed */
	bool		is_narrow;		/* the reply brings a part of the item only;
								 * to a write what it has set, and no key */
	bool		reads_refusal;	/* whatever refuses a transaction as a whole,
								 * the second look follows */
	bool		unexplained;	/* EO_FAILED_CALL, and that look has failed:
								 * error is the one of the read */

	/* Private to answer.c. */
	bool		readable;		/* read() succeeded for the last reply's item */
	bool		read_again;		/* the second look is due, or under way */
	bool		doubted;		/* in_doubt of the write, during that look */
	EoJson	   *cancellation;	/* the reply that reasons points into */
};

/*
 * An answer to a write: EO_UPDATE_ITEM or EO_TRANSACT.  The caller fills in what written
 * describes; it is spelled when the answer is started.
 */
extern EoAnswer *eo_answer_create(const EoItemKind *kind, EoStore *store, const char *pk,
								  EoOperation op);

/* An answer to a consistent read, ready to be run. */
extern EoAnswer *eo_answer_create_read(const EoItemKind *kind, EoStore *store, const char *pk);

/*
 * Run n answers, at most parallel at a time.  Each request has the server's
 * request_timeout from its own start.  An interrupt raises an error.
 */
extern void eo_answer_run(EoAnswer **answers, int n, int parallel);

/* Run one answer; returns it.  The second until a deadline, 0: as above. */
extern EoAnswer *eo_answer_run_one(EoAnswer *answer);
extern EoAnswer *eo_answer_run_until(EoAnswer *answer, int64 deadline_us);

/*
 * The same by steps, see window.h.  deadline_us 0: request_timeout from now.
 *
 * eo_answer_start() puts an answer into a window; false: it has its outcome
 * already.  When the window reports a call as finished, eo_answer_of_call() is
 * the answer that it belongs to, and eo_answer_take() reads the reply; false: a
 * second look has been started in the window, and the answer is to be taken once
 * more.
 */
extern bool eo_answer_start(EoAnswer *answer, EoWindow *window, int64 deadline_us);
extern bool eo_answer_take(EoAnswer *answer, EoWindow *window, int64 deadline_us);
extern EoAnswer *eo_answer_of_call(EoCall *call);

/*
 * Spell a write that was planned, if that is not done.  Starting an answer does it, so this is for
 * a caller that cannot keep for so long what the write points to.
 */
extern void eo_answer_spell(EoAnswer *answer);

/* Make the error of an answer whose item cannot be read. */
extern void eo_answer_say_unreadable(const EoAnswer *answer, EoError *error);

/*
 * For bundle.c, where the answer comes in another request.  Read an item of it: does it
 * bear our key?  And does the item that was read show our write?
 */
extern bool eo_answer_read_item(EoAnswer *answer, EoJsonValue *item);
extern bool eo_answer_is_own(const EoAnswer *answer);

/* Free an answer, its reply and the item in it; ends a request in flight. */
extern void eo_answer_free(EoAnswer *answer);

#endif							/* EO_SERVER_ANSWER_H */
