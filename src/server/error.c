/*-------------------------------------------------------------------------
 *
 * error.c
 *	  The one bridge from EoError to ereport().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "dynamodb/status.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "server/error.h"

pg_noreturn static void raise_about(const EoError *error, const char *doing, const char *what,
									const char *name, const char *server, const char *hint);
static int	error_sqlstate(EoStatus status);
static const char *error_summary(const EoError *error);

void
eo_error_raise(const EoError *error, const char *doing, const char *key, const char *server)
{
	raise_about(error, doing, "key", key, server, eo_error_hint(error));
}

void
eo_error_raise_action(const EoError *error, const char *doing, const char *id, const char *server,
					  const char *unknown)
{
	raise_about(error, doing, "action", id, server,
				error->status == EO_UNKNOWN && unknown != NULL ? unknown : eo_error_hint(error));
}

static void
raise_about(const EoError *error, const char *doing, const char *what, const char *name,
			const char *server, const char *hint)
{
	char	   *facts = eo_error_facts(error);
	const char *summary = error_summary(error);

	ereport(ERROR,
			(errcode(error_sqlstate(error->status)),
			 name != NULL ?
			 errmsg("could not %s %s \"%s\" on server \"%s\": %s", doing, what, name, server, summary) :
			 errmsg("could not %s on server \"%s\": %s", doing, server, summary),
			 facts[0] != '\0' ? errdetail_internal("%s", facts) : 0,
			 hint != NULL ? errhint("%s", hint) : 0));
}

static int
error_sqlstate(EoStatus status)
{
	switch (status)
	{
		case EO_NO_MEMORY:
			return ERRCODE_OUT_OF_MEMORY;
		case EO_TOO_LARGE:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		case EO_NO_CREDENTIALS:
			return ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
		case EO_INVALID:
		case EO_DENIED:
		case EO_NO_TABLE:
		case EO_REFUSED:
		case EO_CANCELLED:
			return ERRCODE_EO_REFUSED;
		case EO_UNREACHABLE:
		case EO_THROTTLED:
		case EO_CONFLICT:
		case EO_UNANSWERED:
		case EO_UNKNOWN:
			return ERRCODE_EO_UNAVAILABLE;
		case EO_OK:
		case EO_CRYPTO:
		case EO_CONDITION_FAILED:
			break;
	}
	return ERRCODE_INTERNAL_ERROR;
}

static const char *
error_summary(const EoError *error)
{
	switch (error->status)
	{
		case EO_NO_MEMORY:
			return "out of memory";
		case EO_TOO_LARGE:
			return "the request is too large";
		case EO_INVALID:
			return "the record cannot be read";
		case EO_CRYPTO:
			return "the request could not be signed";
		case EO_NO_CREDENTIALS:
			return "no credentials";
		case EO_UNREACHABLE:
			return "DynamoDB could not be reached";
		case EO_THROTTLED:
			return "DynamoDB is throttling";
		case EO_CONFLICT:
			return "DynamoDB reports a conflicting write";
		case EO_DENIED:
			return "DynamoDB denied access";
		case EO_NO_TABLE:
			return "there is no such table";
		case EO_REFUSED:
			return "DynamoDB refused the request";
		case EO_CANCELLED:
			return "DynamoDB refused a write";
		case EO_UNANSWERED:
			return "no answer";
		case EO_UNKNOWN:
			return "the outcome is unknown";
		case EO_OK:
		case EO_CONDITION_FAILED:
			break;
	}
	return "unexpected answer";
}

/*
 * The texts of the service were cut to length and freed of control characters
 * when they came in.
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
		appendStringInfo(&s, "%s%s.", error->status == EO_INVALID ? "" : "Last answer: ",
						 error->message);
	if (error->request_id[0] != '\0')
		appendStringInfo(&s, " Request id %s.", error->request_id);
	if (error->attempts > 1)
		appendStringInfo(&s, " %d attempts were made.", error->attempts);
	/* curl's messages may quote a name that is not text in our encoding */
	if (!pg_verifymbstr(s.data, s.len, true))
		resetStringInfo(&s);
	return s.data;
}

const char *
eo_error_hint(const EoError *error)
{
	switch (error->status)
	{
		case EO_NO_CREDENTIALS:
			return "Add a user mapping: CREATE USER MAPPING FOR PUBLIC SERVER ... OPTIONS (access_key_id '...', secret_access_key '...'). The environment of the database server counts only for servers owned by a superuser.";
		case EO_UNREACHABLE:
			return "Nothing was sent. Check the server's options endpoint and region, and the network from the database server.";
		case EO_THROTTLED:
			return "Nothing was changed. Retry later, or look at the table's capacity and at hot keys.";
		case EO_CONFLICT:
			return "Nothing was changed. Retry.";
		case EO_DENIED:
			return "Check the credentials of the user mapping, their policy (dynamodb:UpdateItem, dynamodb:GetItem), and the clock; SELECT * FROM idem_check() tells which.";
		case EO_NO_TABLE:
			return "Check the server's options table, region and endpoint; idem_create_table() creates the table.";
		case EO_REFUSED:
			return "SELECT * FROM idem_check() compares the table with what is expected.";
		case EO_INVALID:
			return "Another program may use this table for other items. Check the server's options table, layout and key_prefix.";
		case EO_UNANSWERED:
			return "Nothing was changed. Retry; if this goes on, check the server's option endpoint.";
		case EO_UNKNOWN:
			return "The write may or may not have been applied. Call again from this session, or with the same token: that finds out, and repeats nothing. If this goes on, check the server's option endpoint.";
		default:
			return NULL;
	}
}

void
eo_error_raise_duplicate(const EoGuard *guard, const char *key, const char *server, const char *detail)
{
	if (guard == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_EO_DUPLICATE),
				 errmsg("duplicate key \"%s\" on server \"%s\"", key, server),
				 errdetail("%s", detail),
				 errhint("idem_get() shows its result.")));
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key \"%s\" on server \"%s\" violates guard \"%s\" of table \"%s\"",
					key, server, guard->name, guard->table),
			 errdetail("%s", detail),
			 err_generic_string(PG_DIAG_SCHEMA_NAME, guard->schema),
			 err_generic_string(PG_DIAG_TABLE_NAME, guard->table),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, guard->name)));
}
