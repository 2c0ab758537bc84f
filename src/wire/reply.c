/*-------------------------------------------------------------------------
 *
 * reply.c
 *	  What DynamoDB's replies say about a request.
 *
 * Sources: "Error handling with DynamoDB" and "Common errors" (Amazon DynamoDB
 * Developer Guide and API Reference) for the codes, "TransactWriteItems" (API
 * Reference) for cancellation reasons.  Error texts differ between engines, so
 * only the code decides.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/reply.h"

#include <stdio.h>
#include <string.h>

#include "wire/header.h"

/* The columns are those of EoReplyClass: status, retry, throttled, skewed, puzzling. */
static const EoReplyClass ok = {EO_OK, false, false, false, false};
static const EoReplyClass condition_failed = {EO_CONDITION_FAILED, false, false, false, false};
static const EoReplyClass cancelled = {EO_CANCELLED, false, false, false, false};
static const EoReplyClass throttled = {EO_THROTTLED, true, true, false, false};
static const EoReplyClass conflict = {EO_CONFLICT, true, false, false, false};
static const EoReplyClass no_table = {EO_NO_TABLE, false, false, false, false};
static const EoReplyClass denied = {EO_DENIED, false, false, false, false};
static const EoReplyClass denied_for_time = {EO_DENIED, false, false, true, false};
static const EoReplyClass refused = {EO_REFUSED, false, false, false, false};
static const EoReplyClass unknown = {EO_UNKNOWN, true, false, false, false};
static const EoReplyClass puzzling = {EO_UNKNOWN, true, false, false, true};

typedef struct Meaning
{
	const char *code;
	const EoReplyClass *class;
} Meaning;

/* Codes of a reply, without what precedes the '#' in its __type. */
static const Meaning codes[] = {
	{"ConditionalCheckFailedException", &condition_failed},
	{"ProvisionedThroughputExceededException", &throttled},
	{"ThrottlingException", &throttled},
	{"Throttling", &throttled},
	{"ThrottledException", &throttled},
	{"RequestLimitExceeded", &throttled},
	{"LimitExceededException", &throttled},
	{"TransactionConflictException", &conflict},
	{"ReplicatedWriteConflictException", &conflict},
	/* An earlier copy of the same transaction, which may yet be applied. */
	{"TransactionInProgressException", &unknown},
	{"ResourceNotFoundException", &no_table},
	{"AccessDeniedException", &denied},
	{"UnrecognizedClientException", &denied},
	{"InvalidClientTokenId", &denied},
	{"IncompleteSignatureException", &denied},
	{"IncompleteSignature", &denied},
	{"MissingAuthenticationTokenException", &denied},
	{"MissingAuthenticationToken", &denied},
	{"ExpiredTokenException", &denied},
	{"ExpiredToken", &denied},
	{"InvalidSignatureException", &denied_for_time},
	{"SignatureDoesNotMatch", &denied_for_time},
	{"RequestTimeTooSkewed", &denied_for_time},
	{"RequestExpired", &denied_for_time},
	{"InternalServerError", &unknown},
	{"InternalFailure", &unknown},
	{"ServiceUnavailable", &unknown},
	{"ServiceUnavailableException", &unknown},
};

/*
 * Reasons for which an action is refused.  Any other code, which a new version of the service
 * may have, says nothing.
 */
static const Meaning known_reasons[] = {
	{"TransactionConflict", &conflict},
	{"ThrottlingError", &throttled},
	{"ProvisionedThroughputExceeded", &throttled},
	/* It will be refused again. */
	{"ConditionalCheckFailed", &cancelled},
	{"ItemCollectionSizeLimitExceeded", &cancelled},
	{"ValidationError", &cancelled},
};

/* Other codes that the service has, which decide nothing here. */
static const char *const other_codes[] = {
	"ValidationException", "TransactionCanceledException", "IdempotentParameterMismatchException",
	"ItemCollectionSizeLimitExceededException", "DuplicateItemException", "DuplicateItem",
	"ResourceInUseException", "ResourceNotFound", "TableNotFoundException", "TableInUseException",
	"TableAlreadyExistsException", "SerializationException", "UnknownOperationException",
	"InternalServerErrorException", "AccessDenied", "ServiceError", "InvalidAction",
	"InvalidParameterValue", "MalformedHttpRequestException", "NotAuthorized", "OptInRequired",
	"RequestAbortedException", "RequestEntityTooLargeException", "RequestTimeoutException",
	"PolicyNotFoundException", "ExpiredIteratorException", "TrimmedDataAccessException",
};

static const EoReplyClass *look_up(const Meaning *table, size_t n, const char *code);
static void set_texts(EoError *error, const char *code, const char *message);

#define LOOK_UP(table, code) look_up(table, sizeof(table) / sizeof((table)[0]), code)

/*
 * A code that is not in the table is a definite refusal if the service called it
 * the client's fault (4xx with a code).  Otherwise the outcome is unknown.
 */
EoReplyClass
eo_reply_classify(int http_status, const char *code)
{
	const EoReplyClass *known;

	if (http_status == 200)
		return ok;
	known = LOOK_UP(codes, code);
	if (known != NULL)
		return *known;
	return http_status >= 400 && http_status < 500 && code[0] != '\0' ? refused : unknown;
}

bool
eo_reply_is_expired(const char *code)
{
	return strcmp(code, "ExpiredTokenException") == 0 || strcmp(code, "ExpiredToken") == 0;
}

/*
 * If the condition of the first action was false, that decides, whatever the
 * other reasons are.  Next come the reasons that will pass: then the transaction
 * is retried even if some other action is refused for good, because until the
 * first action has been looked at nobody knows whether its condition holds.
 *
 * It is refused for good only if each reason is known, and at least one is that of a
 * refusal.  DynamoDB Local sends fewer reasons than there are actions if one of these is
 * invalid; then it is not told which, and a condition that was false may be that of the
 * first.  The caller reads the record in any case (server/answer.c).
 */
EoReplyClass
eo_reply_classify_reasons(EoJsonValue *reasons, size_t nactions)
{
	size_t		n = eo_json_array_length(reasons);
	bool		understood = n <= nactions;
	bool		refused_for_good = false;

	for (size_t i = 0; i < n; i++)
	{
		size_t		len;
		const char *code = eo_json_string(eo_json_get(eo_json_array_get(reasons, i), "Code"), &len);
		const EoReplyClass *known;

		if (code == NULL)
			understood = false;
		if (code == NULL || strcmp(code, "None") == 0)
			continue;
		if (i == 0 && n == nactions && strcmp(code, "ConditionalCheckFailed") == 0)
			return condition_failed;
		known = LOOK_UP(known_reasons, code);
		if (known != NULL && known->retry)
			return *known;
		if (known != NULL)
			refused_for_good = true;
		else
			understood = false;
	}
	return understood && refused_for_good ? cancelled : puzzling;
}

static const EoReplyClass *
look_up(const Meaning *table, size_t n, const char *code)
{
	for (size_t i = 0; i < n; i++)
	{
		if (strcmp(code, table[i].code) == 0)
			return table[i].class;
	}
	return NULL;
}

/*
 * The code is what follows the '#' of "__type".  The text is called "message" or
 * "Message".
 */
void
eo_reply_read_error(EoJsonValue *root, EoError *error)
{
	size_t		len;
	const char *type = eo_json_string(eo_json_get(root, "__type"), &len);
	const char *text = eo_json_string(eo_json_get(root, "message"), &len);

	if (text == NULL)
		text = eo_json_string(eo_json_get(root, "Message"), &len);
	if (type != NULL && strrchr(type, '#') != NULL)
		type = strrchr(type, '#') + 1;
	set_texts(error, type, text != NULL ? text : "");
}

void
eo_reply_read_reason(EoJsonValue *reason, EoError *error)
{
	size_t		len;

	set_texts(error, eo_json_string(eo_json_get(reason, "Code"), &len),
			  eo_json_string(eo_json_get(reason, "Message"), &len));
}

void
eo_reply_keep_code(EoError *error)
{
	const char *told = eo_reply_code_told(error->code, true);

	error->message[0] = '\0';
	if (error->code[0] == '\0')
		snprintf(error->message, sizeof(error->message), "HTTP status %d", error->http_status);
	else if (told != error->code)
		snprintf(error->code, sizeof(error->code), "%s", told);
}

const char *
eo_reply_code_told(const char *code, bool known_only)
{
	bool		known = !known_only || LOOK_UP(codes, code) != NULL ||
	LOOK_UP(known_reasons, code) != NULL;

	for (size_t i = 0; !known && i < sizeof(other_codes) / sizeof(other_codes[0]); i++)
		known = strcmp(code, other_codes[i]) == 0;
	return known ? code : "an unknown code";
}

/* A text that is NULL stays as it is. */
static void
set_texts(EoError *error, const char *code, const char *message)
{
	if (code != NULL)
		snprintf(error->code, sizeof(error->code), "%s", code);
	if (message != NULL)
		snprintf(error->message, sizeof(error->message), "%s", message);
	eo_header_make_printable(error->code, '!');
	eo_header_make_printable(error->message, ' ');
}
