/*-------------------------------------------------------------------------
 *
 * reply.h
 *	  What DynamoDB's replies say about a request.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_REPLY_H
#define EO_WIRE_REPLY_H

#include "wire/json.h"
#include "wire/status.h"

/* The meaning of one reply, and what to do about it. */
typedef struct EoReplyClass
{
	EoStatus	status;
	bool		retry;			/* another attempt may succeed */
	bool		throttled;		/* back off longer before it */
	bool		skewed;			/* the local clock may be wrong: see
								 * eo_client_correct_clock() */
	bool		puzzling;		/* it is not understood */
} EoReplyClass;

/* By HTTP status and error code ("" if the reply has none). */
extern EoReplyClass eo_reply_classify(int http_status, const char *code);

/* Does the code say that temporary credentials have expired? */
extern bool eo_reply_is_expired(const char *code);

/* A cancelled transaction of so many actions, by its CancellationReasons. */
extern EoReplyClass eo_reply_classify_reasons(EoJsonValue *reasons, size_t nactions);

/*
 * Read the code and the text of a refusal into error->code and error->message:
 * cut to size, and every character that is not printable ASCII replaced.
 */
extern void eo_reply_read_error(EoJsonValue *root, EoError *error);

/* The same of one reason of a cancelled transaction; a text that is not there stays. */
extern void eo_reply_read_reason(EoJsonValue *reason, EoError *error);

/*
 * An endpoint may be anything, and what it says is not for whoever has named it: see
 * EoClient.tenant.  The first leaves of an error's texts what may be told.  The second
 * returns the code of an error or of a reason as it may be told: if known_only, only one that
 * the service is known to have.
 */
extern void eo_reply_keep_code(EoError *error);
extern const char *eo_reply_code_told(const char *code, bool known_only);

#endif							/* EO_WIRE_REPLY_H */
