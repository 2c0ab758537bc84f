/*
 * reply_test.c
 *	  What a reply means by its status and code, and which text of it is shown.
 */
#include "wire/reply.h"
#include "unit.h"

static void
classifies(int http_status, const char *code, EoStatus status, bool retry)
{
	EoReplyClass c = eo_reply_classify(http_status, code);
	char		what[100];

	snprintf(what, sizeof(what), "%d %s", http_status, code);
	ok(c.status == status && c.retry == retry, what);
}

static void
test_codes(void)
{
	classifies(200, "", EO_OK, false);
	classifies(400, "ConditionalCheckFailedException", EO_CONDITION_FAILED, false);
	classifies(400, "ProvisionedThroughputExceededException", EO_THROTTLED, true);
	classifies(400, "ThrottlingException", EO_THROTTLED, true);
	classifies(400, "RequestLimitExceeded", EO_THROTTLED, true);
	classifies(400, "TransactionConflictException", EO_CONFLICT, true);
	classifies(400, "ReplicatedWriteConflictException", EO_CONFLICT, true);
	classifies(400, "ResourceNotFoundException", EO_NO_TABLE, false);
	classifies(400, "AccessDeniedException", EO_DENIED, false);
	classifies(400, "MissingAuthenticationToken", EO_DENIED, false);
	classifies(400, "MissingAuthenticationTokenException", EO_DENIED, false);
	classifies(400, "ValidationException", EO_REFUSED, false);
	classifies(403, "SomethingNew", EO_REFUSED, false);
	classifies(400, "", EO_UNKNOWN, true);
	classifies(404, "", EO_UNKNOWN, true);
	classifies(302, "", EO_UNKNOWN, true);
	classifies(500, "InternalServerError", EO_UNKNOWN, true);
	classifies(500, "SomethingNew", EO_UNKNOWN, true);
	classifies(503, "", EO_UNKNOWN, true);
	classifies(413, "", EO_UNKNOWN, true);
	classifies(400, "TransactionInProgressException", EO_UNKNOWN, true);
	ok(eo_reply_classify(400, "ThrottlingException").throttled &&
	   !eo_reply_classify(400, "TransactionConflictException").throttled, "a throttled request waits longer");
	ok(eo_reply_classify(403, "InvalidSignatureException").skewed &&
	   eo_reply_classify(400, "RequestExpired").skewed &&
	   !eo_reply_classify(400, "AccessDeniedException").skewed, "some refusals can be due to the clock");
}

static EoJsonValue *
parse(const char *text, EoJson **doc)
{
	ok(eo_json_parse(text, strlen(text), doc) == EO_OK, "a reply is JSON");
	return eo_json_root(*doc);
}

static void
reasons_mean(const char *reasons, EoStatus status, bool retry)
{
	EoJson	   *doc;
	char		text[500];
	EoReplyClass c;

	snprintf(text, sizeof(text), "{\"r\":%s}", reasons);
	c = eo_reply_classify_reasons(eo_json_get(parse(text, &doc), "r"), 2);
	ok(c.status == status && c.retry == retry && c.puzzling == (status == EO_UNKNOWN), reasons);
	eo_json_free(doc);
}

#define NONE "{\"Code\":\"None\"}"
#define FALSE_HERE "{\"Code\":\"ConditionalCheckFailed\",\"Item\":{}}"
#define CONFLICT "{\"Code\":\"TransactionConflict\"}"

static void
test_reasons(void)
{
	reasons_mean("[" FALSE_HERE "," NONE "]", EO_CONDITION_FAILED, false);
	reasons_mean("[" FALSE_HERE "," FALSE_HERE "]", EO_CONDITION_FAILED, false);
	reasons_mean("[" FALSE_HERE "," CONFLICT "]", EO_CONDITION_FAILED, false);
	reasons_mean("[" NONE "," FALSE_HERE "]", EO_CANCELLED, false);
	reasons_mean("[" CONFLICT "," FALSE_HERE "]", EO_CONFLICT, true);
	reasons_mean("[" NONE ",{\"Code\":\"ItemCollectionSizeLimitExceeded\"}]", EO_CANCELLED, false);
	/* Fewer than there are actions: it is not told which of them are meant. */
	reasons_mean("[" FALSE_HERE "]", EO_CANCELLED, false);
	reasons_mean("[{\"Code\":\"ValidationError\"}]", EO_CANCELLED, false);
	reasons_mean("[" CONFLICT "]", EO_CONFLICT, true);
	/* These do not say that anything is refused for good. */
	reasons_mean("[]", EO_UNKNOWN, true);
	reasons_mean("{}", EO_UNKNOWN, true);
	reasons_mean("[" NONE "]", EO_UNKNOWN, true);
	reasons_mean("[" NONE "," NONE "]", EO_UNKNOWN, true);
	reasons_mean("[" NONE ",{\"Code\":\"New\"}]", EO_UNKNOWN, true);
	reasons_mean("[{\"Code\":\"ValidationError\"},{\"Code\":\"New\"}]", EO_UNKNOWN, true);
	reasons_mean("[" NONE "," NONE ",{\"Code\":\"ValidationError\"}]", EO_UNKNOWN, true);
	reasons_mean("[" NONE ",{\"Code\":\"ThrottlingError\"}]", EO_THROTTLED, true);
	reasons_mean("[{\"Code\":\"ProvisionedThroughputExceeded\"}," NONE "]", EO_THROTTLED, true);
	reasons_mean("[{\"Code\":\"ValidationError\"}," NONE "]", EO_CANCELLED, false);
	reasons_mean("[1,{\"Code\":2}]", EO_UNKNOWN, true);
}

static void
shows(const char *reply, const char *code, const char *message)
{
	EoJson	   *doc;
	EoError		error = {.code = "old",.message = "old"};

	eo_reply_read_error(parse(reply, &doc), &error);
	is_string(error.code, code, "a code");
	is_string(error.message, message, "a text");
	eo_json_free(doc);
}

static void
test_errors(void)
{
	char		longest[EO_MESSAGE_LEN];
	char		longer[2000];

	shows("{\"__type\":\"com.amazonaws.dynamodb.v20120810#Some\",\"message\":\"m\"}", "Some", "m");
	shows("{\"__type\":\"Some\",\"Message\":\"M\"}", "Some", "M");
	shows("{\"__type\":\"a#b#S o\\u0007\\u00e9\",\"message\":\"a b\\n\\u00e9\\u007f\"}", "S?o???", "a b????");
	shows("{}", "old", "");
	shows("{\"__type\":1,\"message\":[]}", "old", "");
	memset(longest, 'm', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	snprintf(longer, sizeof(longer), "{\"__type\":\"T\",\"message\":\"%s%s\"}", longest, longest);
	shows(longer, "T", longest);
}

int
main(void)
{
	test_codes();
	test_reasons();
	test_errors();
	return done();
}
