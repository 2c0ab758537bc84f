/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Credentials that somebody hands out, and the answers that bring them.
 *
 * Sources: "Retrieve security credentials from instance metadata" (Amazon EC2 User
 * Guide), "Amazon ECS task IAM role" (Amazon ECS Developer Guide), "AssumeRole",
 * "AssumeRoleWithWebIdentity" and "GetCallerIdentity" (AWS STS API Reference).
 *
 * All parts of an identity become headers, so a part with a blank or a control
 * character is refused.  The services' texts are not trusted: only printable ASCII of
 * them is kept.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/identity.h"

#include <string.h>
#include <time.h>

#include "wire/crypto.h"
#include "wire/header.h"
#include "wire/json.h"
#include "wire/xml.h"

static bool copy_part(char *to, size_t max, const char *from);
static bool is_header_text(const char *text);
static const char *json_text(EoJsonValue *root, const char *name);
static bool read_instant(const char *text, int64_t *epoch_s);
static void put_field(EoBuf *body, const char *name, const char *value);
static EoStatus read_error(EoStsReply *reply, char *message);

EoStatus
eo_identity_set(EoIdentity *identity, const char *key_id, const char *secret, const char *token)
{
	eo_crypto_wipe(identity, sizeof(*identity));
	if (copy_part(identity->access_key_id, EO_MAX_KEY_ID, key_id) &&
		copy_part(identity->secret_access_key, EO_MAX_SECRET, secret) &&
		copy_part(identity->session_token, EO_MAX_SESSION_TOKEN, token) &&
		eo_identity_is_sound(identity))
		return EO_OK;
	eo_crypto_wipe(identity, sizeof(*identity));
	return EO_INVALID;
}

static bool
copy_part(char *to, size_t max, const char *from)
{
	size_t		len = from != NULL ? strlen(from) : 0;

	if (len > max)
		return false;
	memcpy(to, from != NULL ? from : "", len + 1);
	return true;
}

bool
eo_identity_is_sound(const EoIdentity *identity)
{
	return identity->access_key_id[0] != '\0' && identity->secret_access_key[0] != '\0' &&
		is_header_text(identity->access_key_id) && is_header_text(identity->secret_access_key) &&
		is_header_text(identity->session_token);
}

static bool
is_header_text(const char *text)
{
	for (; *text != '\0'; text++)
	{
		if (*text <= ' ' || *text > '~')
			return false;
	}
	return true;
}

EoCredentials
eo_identity_credentials(const EoIdentity *identity)
{
	EoCredentials cred = {0};

	if (identity->access_key_id[0] == '\0')
		return cred;
	cred.access_key_id = identity->access_key_id;
	cred.secret_access_key = identity->secret_access_key;
	cred.session_token = identity->session_token[0] != '\0' ? identity->session_token : NULL;
	return cred;
}

/* ----- the metadata service and containers ----- */

EoStatus
eo_identity_read_json(char *text, size_t len, EoIdentity *identity, char *message)
{
	EoJson	   *doc = NULL;
	EoStatus	status = eo_json_parse(text, len, &doc);
	EoJsonValue *root;
	const char *code;
	const char *expires;
	int64_t		expires_s = 0;

	eo_crypto_wipe(text, len);
	eo_crypto_wipe(identity, sizeof(*identity));
	if (status != EO_OK)
	{
		snprintf(message, EO_MESSAGE_LEN, "the answer is not JSON");
		return status == EO_NO_MEMORY ? status : EO_INVALID;
	}
	root = eo_json_root(doc);
	code = json_text(root, "Code");
	expires = json_text(root, "Expiration");
	status = EO_INVALID;
	if (code != NULL && strcmp(code, "Success") != 0)
	{
		snprintf(message, EO_MESSAGE_LEN, "the answer is %.60s", code);
		eo_header_make_printable(message, ' ');
	}
	else if (expires != NULL && !read_instant(expires, &expires_s))
		snprintf(message, EO_MESSAGE_LEN, "the answer has an expiration that cannot be read");
	else
	{
		status = eo_identity_set(identity, json_text(root, "AccessKeyId"),
								 json_text(root, "SecretAccessKey"), json_text(root, "Token"));
		if (status != EO_OK)
			snprintf(message, EO_MESSAGE_LEN, "the answer has no credentials that can be used");
		identity->expires_s = expires_s;
	}
	eo_json_free(doc);
	return status;
}

static const char *
json_text(EoJsonValue *root, const char *name)
{
	size_t		len;

	return eo_json_string(eo_json_get(root, name), &len);
}

/* "2026-01-01T00:00:00Z", with or without a fraction: RFC 3339 in UTC. */
static bool
read_instant(const char *text, int64_t *epoch_s)
{
	struct tm	tm;
	const char *p;

	memset(&tm, 0, sizeof(tm));
	p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (p == NULL)
		return false;
	if (*p == '.')
		p += 1 + strspn(p + 1, "0123456789");
	if (strcmp(p, "Z") != 0 && strcmp(p, "+00:00") != 0)
		return false;
	*epoch_s = (int64_t) timegm(&tm);
	return *epoch_s > 0;
}

/* ----- roles ----- */

void
eo_identity_put_role(EoBuf *body, const char *arn, const char *session_name,
					 const char *external_id, int duration_s, const char *web_token)
{
	eo_buf_addf(body, "Action=%s&Version=2011-06-15",
				web_token != NULL ? "AssumeRoleWithWebIdentity" : "AssumeRole");
	put_field(body, "RoleArn", arn);
	put_field(body, "RoleSessionName", session_name);
	if (duration_s > 0)
		eo_buf_addf(body, "&DurationSeconds=%d", duration_s);
	if (external_id[0] != '\0')
		put_field(body, "ExternalId", external_id);
	if (web_token != NULL)
		put_field(body, "WebIdentityToken", web_token);
}

/* All but the unreserved characters of RFC 3986 are escaped. */
static void
put_field(EoBuf *body, const char *name, const char *value)
{
	eo_buf_addf(body, "&%s=", name);
	for (const char *p = value; *p != '\0'; p++)
	{
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~", *p))
			eo_buf_addc(body, *p);
		else
			eo_buf_addf(body, "%%%02X", (unsigned char) *p);
	}
}

EoStatus
eo_identity_read_role(EoStsReply *reply, bool web, EoIdentity *identity, char *message)
{
	char		expires[40];
	EoXmlWanted wanted[4] = {
		{"AccessKeyId", identity->access_key_id, sizeof(identity->access_key_id)},
		{"SecretAccessKey", identity->secret_access_key, sizeof(identity->secret_access_key)},
		{"SessionToken", identity->session_token, sizeof(identity->session_token)},
		{"Expiration", expires, sizeof(expires)}
	};
	EoStatus	status;

	if (reply->http_status != 200)
		return read_error(reply, message);
	eo_crypto_wipe(identity, sizeof(*identity));
	status = eo_xml_read(reply->text, reply->len,
						 web ? "AssumeRoleWithWebIdentityResponse" : "AssumeRoleResponse", wanted, 4);
	eo_crypto_wipe(reply->text, reply->len);
	if (status == EO_OK && eo_identity_is_sound(identity) && identity->session_token[0] != '\0' &&
		read_instant(expires, &identity->expires_s))
		return EO_OK;
	eo_crypto_wipe(identity, sizeof(*identity));
	snprintf(message, EO_MESSAGE_LEN, "the answer of STS has no credentials that can be used");
	return EO_INVALID;
}

void
eo_identity_put_caller(EoBuf *body)
{
	eo_buf_adds(body, "Action=GetCallerIdentity&Version=2011-06-15");
}

EoStatus
eo_identity_read_caller(EoStsReply *reply, EoCaller *caller, char *message)
{
	EoXmlWanted wanted[2] = {
		{"Account", caller->account, sizeof(caller->account)},
		{"Arn", caller->arn, sizeof(caller->arn)}
	};

	if (reply->http_status != 200)
		return read_error(reply, message);
	if (eo_xml_read(reply->text, reply->len, "GetCallerIdentityResponse", wanted, 2) != EO_OK ||
		caller->account[0] == '\0' || caller->arn[0] == '\0')
	{
		snprintf(message, EO_MESSAGE_LEN, "the answer of STS does not say who this is");
		return EO_INVALID;
	}
	eo_header_make_printable(caller->account, ' ');
	eo_header_make_printable(caller->arn, ' ');
	return EO_OK;
}

/*
 * A signature of another time is refused as one that does not match, with a text that
 * says so.  The text is not looked at: whether the clocks differ is seen by the Date
 * header.
 */
static EoStatus
read_error(EoStsReply *reply, char *message)
{
	char		code[EO_CODE_LEN];
	char		reason[2048];
	EoXmlWanted wanted[2] = {
		{"Code", code, sizeof(code)},
		{"Message", reason, sizeof(reason)}
	};
	int			http_status = reply->http_status;

	if (eo_xml_read(reply->text, reply->len, "ErrorResponse", wanted, 2) != EO_OK || code[0] == '\0')
	{
		snprintf(message, EO_MESSAGE_LEN, "STS answered with HTTP status %d", http_status);
		return http_status >= 500 || http_status == 429 ? EO_UNANSWERED : EO_DENIED;
	}
	reply->skewed = strcmp(code, "SignatureDoesNotMatch") == 0 ||
		strcmp(code, "RequestExpired") == 0 || strcmp(code, "RequestTimeTooSkewed") == 0;
	snprintf(message, EO_MESSAGE_LEN, "STS answered %.60s: %.180s", code, reason);
	eo_header_make_printable(message, ' ');
	return http_status >= 500 || strcmp(code, "Throttling") == 0 ||
		strcmp(code, "IDPCommunicationError") == 0 ? EO_UNANSWERED : EO_DENIED;
}
