/*
 * sigv4_test.c
 *	  Signatures, against ones computed by another program.
 *
 * The expected values were computed with Python's hmac and hashlib from the
 * description in the AWS documentation, not with this code.
 */
#include "wire/sigv4.h"
#include "unit.h"

static EoSigner *signer;

static void
signs(const EoCredentials *cred, const char *date, const char *region, const char *extra,
	  const char *body, size_t body_len, const char *expected, const char *what)
{
	EoHeader	headers[5];
	EoSigningRequest req = {headers, 0, body, body_len, date, region, "dynamodb", body_len / 2};
	EoBuf		out;

	if (extra != NULL)
		headers[req.nheaders++] = (EoHeader)
	{
		"my-header", extra
	};
	headers[req.nheaders++] = (EoHeader)
	{
		"content-type", "application/x-amz-json-1.0"
	};
	headers[req.nheaders++] = (EoHeader)
	{
		"host", "dynamodb.eu-west-1.amazonaws.com"
	};
	headers[req.nheaders++] = (EoHeader)
	{
		"x-amz-date", date
	};
	if (cred->session_token != NULL)
		headers[req.nheaders++] = (EoHeader)
	{
		"x-amz-security-token", cred->session_token
	};
	if (extra == NULL)
		headers[req.nheaders++] = (EoHeader)
	{
		"x-amz-target", "DynamoDB_20120810.UpdateItem"
	};
	eo_buf_init(&out, 1000);
	ok(eo_sigv4_sign(signer, cred, &req, &out) == EO_OK, what);
	is_string(strstr(eo_buf_str(&out), "Signature="), expected, what);
	eo_buf_free(&out);
}

int
main(void)
{
	EoCredentials cred = {"AKIDEXAMPLE", "sEcReT/+x", NULL};
	EoCredentials temporary = {"AKIDEXAMPLE", "sEcReT/+x", "tok/en=="};
	EoCredentials other = {"AKIDEXAMPLE", "another", NULL};
	const char *body = "{\"TableName\":\"t\"}";
	char	   *large = malloc(100000);
	EoBuf		small;
	EoSigningRequest req = {NULL, 0, "", 0, "20260102T030405Z", "r", "s", 0};

	memset(large, 'x', 100000);
	signer = eo_sigv4_create();
	ok(signer != NULL, "a signer");
	for (int round = 0; round < 2; round++)
	{
		signs(&cred, "20260102T030405Z", "eu-west-1", NULL, body, strlen(body),
			  "Signature=8f5bfca38c25d79f334b9b81e3c79db7837065d704f8d125df9ef9a6f9057119",
			  "a request");
		signs(&temporary, "20260102T030405Z", "eu-west-1", NULL, body, strlen(body),
			  "Signature=91b1e9cb1dbb58d9ab8efeeaef52dc1f2bc8eef90bacd1b5bd661fb872450c8e",
			  "with a session token, under the key kept");
		signs(&cred, "20260103T030405Z", "us-east-1", NULL, "", 0,
			  "Signature=15f5c7c0574ba5e2d88ed637c791d3099fb5e7297ac0e85b24ef2ac33a383e97",
			  "another day and region, empty body");
		signs(&other, "20260103T030405Z", "us-east-1", NULL, large, 100000,
			  "Signature=1a7b531379307857795197d1fe122fc0908669470979fb25a980cf7674b4a7d4",
			  "another secret, long body");
		signs(&cred, "20260102T030405Z", "eu-west-1", "a b c", "\xc3\xa9", 2,
			  "Signature=120b3da3a7a8bee377d35371b7f33d00795f0f62135d6c401e058b72da45e5ae",
			  "blanks in a header");
	}

	eo_buf_init(&small, 20);
	ok(eo_sigv4_sign(signer, &cred, &req, &small) == EO_TOO_LARGE, "a buffer too small is noticed");
	eo_buf_free(&small);
	eo_sigv4_free(signer);
	eo_sigv4_free(NULL);
	free(large);
	return done();
}
