/*-------------------------------------------------------------------------
 *
 * error.c
 *	  The one bridge from EoError to ereport().
 *
 * A status of the layers below has one SQLSTATE, one summary and one hint, all
 * in the table reports[].  Errors about a key that several files raise have a
 * function each, so that they have the same words everywhere.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "server/error.h"
#include "server/text.h"
#include "utils/resowner.h"

static const char *hint_of(const EoError *error);
pg_noreturn static void raise_unreadable(const char *doing, const char *key, const char *server,
										 const char *detail, const char *hint);
pg_noreturn static void raise_about(const EoError *error, const char *doing, const char *what,
									const char *name, const char *server, const char *hint);

/*
 * How a status is reported: in the hint what it means for the caller, and what somebody can do
 * about it.  NULL: nothing.
 */
typedef struct Report
{
	int			sqlstate;
	const char *summary;
	const char *meaning;
	const char *advice;
} Report;

static const Report reports[] = {
	[EO_OK] = {ERRCODE_INTERNAL_ERROR, "unexpected answer", NULL, NULL},
	[EO_NO_MEMORY] = {ERRCODE_OUT_OF_MEMORY, "out of memory", NULL, NULL},
	[EO_TOO_LARGE] = {ERRCODE_PROGRAM_LIMIT_EXCEEDED, "the request is too large", NULL, NULL},
	[EO_INVALID] = {ERRCODE_EO_REFUSED, "the record cannot be read", NULL,
	"Another program may use this table for other items: check the server's options table, layout and key_prefix. If a newer version of exactonce uses it, update this one."},
	[EO_CRYPTO] = {ERRCODE_INTERNAL_ERROR, "the request could not be signed", NULL, NULL},
	[EO_NO_CREDENTIALS] = {ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, "no credentials", NULL,
	"Add a user mapping: CREATE USER MAPPING FOR PUBLIC SERVER ... OPTIONS (access_key_id '...', secret_access_key '...'). Or, on a server owned by a superuser, set the option credentials: to chain, which finds them as the AWS SDKs do (docs/aws.md), or to environment, for the variables of the database server."},
	[EO_CREDENTIALS_AWAY] = {ERRCODE_EO_UNAVAILABLE, "the source of the credentials does not answer",
	"Nothing was sent.", "The source is asked again every few seconds, and calls work once it answers; docs/aws.md says what each source needs."},
	[EO_UNREACHABLE] = {ERRCODE_EO_UNAVAILABLE, "DynamoDB could not be reached", "Nothing was sent.",
	"Check the server's options endpoint and region, and the network from the database server."},
	[EO_NOT_ASKED] = {ERRCODE_EO_UNAVAILABLE, "DynamoDB has not answered, and is not asked",
		"Nothing was sent. Retry in some seconds: one process asks once a second, and calls are made again as soon as there is an answer.",
	"See exactonce_circuits."},
	[EO_CONDITION_FAILED] = {ERRCODE_INTERNAL_ERROR, "unexpected answer", NULL, NULL},
	[EO_CANCELLED] = {ERRCODE_EO_REFUSED, "DynamoDB refused a write", NULL, NULL},
	[EO_THROTTLED] = {ERRCODE_EO_UNAVAILABLE, "DynamoDB is throttling", "Nothing was changed. Retry later.",
	"Look at the table's capacity and at hot keys."},
	[EO_DENIED] = {ERRCODE_EO_REFUSED, "DynamoDB denied access", NULL,
	"Check the credentials, their policy (dynamodb:UpdateItem, dynamodb:GetItem), and the clock; SELECT * FROM idem_check() tells which."},
	[EO_NO_TABLE] = {ERRCODE_EO_REFUSED, "there is no such table", NULL,
	"Check the server's options table, region and endpoint; idem_create_table() creates the table."},
	[EO_REFUSED] = {ERRCODE_EO_REFUSED, "DynamoDB refused the request", NULL,
	"SELECT * FROM idem_check() compares the table with what is expected."},
	[EO_CONFLICT] = {ERRCODE_EO_UNAVAILABLE, "DynamoDB reports a conflicting write",
	"Nothing was changed. Retry.", NULL},
	[EO_NO_CLOCK] = {ERRCODE_EO_UNAVAILABLE, "the service's clock is not known", "Nothing was changed.",
	"DynamoDB dates each of its replies: look for what drops or changes the Date header between it and this server."},
	[EO_UNANSWERED] = {ERRCODE_EO_UNAVAILABLE, "no answer", "Nothing was changed. Retry.",
	"If this goes on, check the server's option endpoint."},
	[EO_UNKNOWN] = {ERRCODE_EO_UNAVAILABLE, "the outcome is unknown",
		"The write may or may not have been applied. Call again from this session, or with the same token: that finds out, and repeats nothing.",
	"If this goes on, check the server's option endpoint."},
};

StaticAssertDecl(lengthof(reports) == EO_UNKNOWN + 1, "a report for each EoStatus");

/*
 * The subtransaction is rolled back before anything that can raise, such as a copy of the
 * error.  PostgreSQL ends a session that leaves such a subtransaction open outside of a
 * transaction block, at its next ROLLBACK.
 */
ErrorData *
eo_error_try(void (*run) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		run(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

void
eo_error_log_and_abort(MemoryContext context)
{
	MemoryContextSwitchTo(context);
	EmitErrorReport();
	FlushErrorState();
	AbortCurrentTransaction();
}

void
eo_error_raise(const EoError *error, const char *doing, const char *key, const char *server)
{
	raise_about(error, doing, "key", key, server, hint_of(error));
}

/*
 * Nobody has to find out what became of a write: whatever it was, the transaction is rolled
 * back, and the worker takes it back.
 */
void
eo_error_raise_commit(const EoError *error, const char *key, const char *server, int nkeys,
					  int timeout_ms)
{
	const Report *report = &reports[error->status == EO_UNKNOWN ? EO_UNANSWERED : error->status];
	bool		is_away = report->sqlstate == ERRCODE_EO_UNAVAILABLE;
	const char *hint = is_away ?
	"It can be run again as it is; that may be refused with ID001 until the worker has given its keys back. What takes effect at once stays: immediate => true, idem_transact(), actions, and attempts at a PIN." :
	hint_of(error);
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfoString(&detail, "The transaction was rolled back.");
	if (is_away && nkeys > 1)
		appendStringInfo(&detail, " It had %d keys to commit within commit_timeout, %d ms.", nkeys,
						 timeout_ms);
	appendStringInfo(&detail, " %s", eo_error_facts(error));
	ereport(ERROR,
			(errcode(report->sqlstate),
			 errmsg("could not commit key \"%s\" on server \"%s\": %s", eo_text_key_shown(key), server,
					report->summary),
			 errdetail_internal("%s", detail.data),
			 hint != NULL ? errhint("%s", hint) : 0));
}

void
eo_error_raise_life(const EoError *error, const char *doing, const char *life, const char *server)
{
	raise_about(error, doing, "life", life, server, hint_of(error));
}

void
eo_error_raise_action(const EoError *error, const char *doing, const char *id, const char *server,
					  const char *unknown)
{
	raise_about(error, doing, "action", id, server,
				error->status == EO_UNKNOWN && unknown != NULL ? unknown : hint_of(error));
}

static void
raise_about(const EoError *error, const char *doing, const char *what, const char *name,
			const char *server, const char *hint)
{
	char	   *facts = eo_error_facts(error);
	const Report *report = &reports[error->status];

	ereport(ERROR,
			(errcode(report->sqlstate),
			 name != NULL ?
			 errmsg("could not %s %s \"%s\" on server \"%s\": %s", doing, what,
					eo_text_key_shown(name), server, report->summary) :
			 errmsg("could not %s on server \"%s\": %s", doing, server, report->summary),
			 facts[0] != '\0' ? errdetail_internal("%s", facts) : 0,
			 hint != NULL ? errhint("%s", hint) : 0));
}

/*
 * The service's texts were cut to length and stripped of control characters when
 * they were received.
 */
char *
eo_error_facts(const EoError *error)
{
	StringInfoData s;

	initStringInfo(&s);
	if (error->code[0] != '\0')
		appendStringInfo(&s, "DynamoDB answered %s%s%s.", error->code,
						 error->message[0] != '\0' ? ": " : "", error->message);
	else if (error->message[0] != '\0')
		appendStringInfo(&s, "%s%s.", error->status == EO_INVALID ||
						 error->status == EO_NO_CLOCK || error->status == EO_NO_CREDENTIALS ||
						 error->status == EO_CREDENTIALS_AWAY || error->status == EO_NOT_ASKED ?
						 "" : "Last answer: ", error->message);
	if (error->puzzling)
		appendStringInfoString(&s, " This is not understood.");
	if (error->request_id[0] != '\0')
		appendStringInfo(&s, " Request id %s.", error->request_id);
	if (error->attempts > 1)
		appendStringInfo(&s, " %d attempts were made.", error->attempts);
	/* A message of curl's may quote a name that is not in this encoding. */
	if (!pg_verifymbstr(s.data, s.len, true))
		resetStringInfo(&s);
	return s.data;
}

char *
eo_error_reason(const EoError *error)
{
	EoError		lasting = *error;
	char	   *facts;

	lasting.request_id[0] = '\0';
	lasting.attempts = 0;
	facts = eo_error_facts(&lasting);
	return facts[0] != '\0' ? facts : psprintf("%s.", reports[error->status].summary);
}

/* The hint for the caller, which says what the error means and what to do; NULL: none. */
static const char *
hint_of(const EoError *error)
{
	const char *meaning = reports[error->status].meaning;
	const char *advice = eo_error_advice(error);

	if (meaning == NULL || advice == NULL)
		return meaning != NULL ? meaning : advice;
	return psprintf("%s %s", meaning, advice);
}

const char *
eo_error_advice(const EoError *error)
{
	/* The second hint is for credentials that no user mapping has given. */
	static const struct
	{
		const char *code;
		const char *hint;
		const char *hint_for_own;
	}			denials[] = {
		{"UnrecognizedClientException",
			"The access key id is not known to AWS: correct access_key_id in the user mapping; temporary credentials also need session_token.",
		"The access key id is not known to AWS. The row \"credentials\" of idem_check() says which source it is from."},
		{"InvalidSignatureException",
			"The secret access key does not belong to the access key id, or the clock is wrong: correct secret_access_key in the user mapping; SELECT * FROM idem_check() shows the clock.",
		"The secret access key does not belong to the access key id, or the clock is wrong: SELECT * FROM idem_check() shows the source of the credentials, and the clock."},
		{"ExpiredTokenException",
			"The temporary credentials have expired: set access_key_id, secret_access_key and session_token of the user mapping anew.",
		"The temporary credentials have expired. Those of the option credentials 'chain' were renewed once before this error; the row \"credentials\" of idem_check() says why that did not help. Those of the environment are read when the database server starts."},
		{"AccessDeniedException",
			"The credentials are valid, but their policy does not allow this: allow dynamodb:UpdateItem and dynamodb:GetItem on the table.",
		"The credentials are valid, but their policy does not allow this: allow dynamodb:UpdateItem and dynamodb:GetItem on the table for the role that the row \"credentials\" of idem_check() names."}
	};

	/* Only the chain says why there are none; a user mapping would not count. */
	if (error->status == EO_NO_CREDENTIALS && error->message[0] != '\0')
		return
			"The server's option credentials names the chain: docs/aws.md says what each source needs, and SELECT * FROM idem_check() which of them was asked.";
	for (int i = 0; error->status == EO_DENIED && i < (int) lengthof(denials); i++)
	{
		if (strcmp(error->code, denials[i].code) == 0)
			return error->own_credentials ? denials[i].hint_for_own : denials[i].hint;
	}
	return reports[error->status].advice;
}

/* ----- errors about keys ----- */

void
eo_error_raise_in_progress(const char *key, const char *server, const char *detail,
						   const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_IN_PROGRESS),
			 errmsg("key \"%s\" on server \"%s\" is in progress", eo_text_key_shown(key), server),
			 detail != NULL ? errdetail("%s", detail) : 0,
			 errhint("%s", hint)));
}

void
eo_error_raise_committing(const char *key, const char *server, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_IN_PROGRESS),
			 errmsg("key \"%s\" on server \"%s\" is being committed", eo_text_key_shown(key), server),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

void
eo_error_raise_lost(const char *key, const char *server, bool at_commit, const char *detail,
					const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_CLAIM_LOST),
			 at_commit ?
			 errmsg("the claim on key \"%s\" on server \"%s\" was lost before the transaction committed",
					eo_text_key_shown(key), server) :
			 errmsg("the claim on key \"%s\" on server \"%s\" was lost", eo_text_key_shown(key), server),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

void
eo_error_raise_other_payload(const char *key, const char *server, const char *state)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_PAYLOAD_MISMATCH),
			 errmsg("key \"%s\" on server \"%s\" was used with another payload",
					eo_text_key_shown(key), server),
			 errdetail("The key is %s.", state),
			 errhint("The same key must mean the same request: derive it from the payload with idem_key(...), or look for two callers that share it.")));
}

void
eo_error_raise_other_handler(const char *key, const char *server, const char *handler,
							 const char *called, const char *state)
{
	bool		exact;

	ereport(ERROR,
			(errcode(ERRCODE_EO_PAYLOAD_MISMATCH),
			 errmsg("key \"%s\" on server \"%s\" was used with another handler",
					eo_text_key_shown(key), server),
			 errdetail("It was used with %s, and this call names %s. The key is %s.",
					   eo_text_from_utf8_or_escape(handler, &exact),
					   eo_text_from_utf8_or_escape(called, &exact), state),
			 errhint("Put the kind of work into the key, or look for two callers that share it. After a rename idem_forget() frees a key that has not been completed, and idem_get() has the result of one that has.")));
}

void
eo_error_raise_odd(const char *doing, const char *key, const char *server, const char *what)
{
	raise_unreadable(doing, key, server,
					 psprintf(strcmp(what, "payload_sha256") == 0 || strcmp(what, "handler") == 0 ?
							  "Its %s is not a string." :
							  "Its %s has no form in JSON: it is or contains binary data, or a string with a NUL.",
							  what),
					 "Another client has written it. Results, errors and progress are JSON text, or a value of DynamoDB's that JSON can express.");
}

void
eo_error_raise_odd_number(const char *doing, const char *key, const char *server, const char *name)
{
	raise_unreadable(doing, key, server,
					 psprintf("Its %s is not a whole number from 0 to 9223372036854775807.", name),
					 "Another client has written it. Correct the record, or give it up with idem_forget().");
}

static void
raise_unreadable(const char *doing, const char *key, const char *server, const char *detail,
				 const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_REFUSED),
			 errmsg("could not %s key \"%s\" on server \"%s\": %s", doing, eo_text_key_shown(key), server,
					reports[EO_INVALID].summary),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

void
eo_error_raise_other_result(const char *key, const char *server)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_NOT_OWNER),
			 errmsg("key \"%s\" on server \"%s\" is already completed", eo_text_key_shown(key), server),
			 errdetail("This claim completed it before, with another result."),
			 errhint("The first result stays; idem_get() shows it.")));
}

char *
eo_error_lost_detail(const EoRecord *record)
{
	if (record == NULL)
		return pstrdup("There is no record of the key any more.");
	return psprintf("The key is %s, by another run or after this one was ended.",
					eo_record_state_name(record->state));
}

void
eo_error_raise_duplicate(const EoGuard *guard, const char *key, const char *server,
						 const char *detail, const char *hint)
{
	if (guard == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_EO_DUPLICATE),
				 errmsg("duplicate key \"%s\" on server \"%s\"", eo_text_key_shown(key), server),
				 errdetail("%s", detail),
				 errhint("%s", hint != NULL ? hint : "idem_get() shows its result.")));
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key \"%s\" on server \"%s\" violates guard \"%s\" of table \"%s\"",
					eo_text_key_shown(key), server, guard->name, guard->table),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0,
			 err_generic_string(PG_DIAG_SCHEMA_NAME, guard->schema),
			 err_generic_string(PG_DIAG_TABLE_NAME, guard->table),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, guard->name)));
}

void
eo_error_raise_action_consumed(const char *id, const char *server, const char *detail,
							   const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_DUPLICATE),
			 errmsg("action \"%s\" on server \"%s\" was consumed by another call", eo_text_key_shown(id),
					server),
			 errdetail("%s", detail),
			 errhint("%s", hint != NULL ? hint : "action_get() shows by whom, if that was said.")));
}

void
eo_error_raise_action_in_progress(const char *id, const char *server, const char *detail,
								  const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_EO_IN_PROGRESS),
			 errmsg("action \"%s\" on server \"%s\" is being consumed by another transaction",
					eo_text_key_shown(id), server),
			 detail != NULL ? errdetail("%s", detail) : 0,
			 errhint("%s", hint)));
}

void
eo_error_raise_drained(const char *key, const char *server)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot claim key \"%s\" on server \"%s\": this database is drained",
					eo_text_key_shown(key), server),
			 errdetail("An operator has called idem_drain()."),
			 errhint("Claim it where the database goes on; idem_drain(NULL) allows new claims here again.")));
}

void
eo_error_raise_repeated(const char *key, const char *server, bool same_result)
{
	if (!same_result)
		eo_error_raise_other_result(key, server);
	eo_error_raise_duplicate(NULL, key, server,
							 "An earlier call with this token has completed it: its work is done.", NULL);
}
