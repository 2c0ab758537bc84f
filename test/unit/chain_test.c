/*-------------------------------------------------------------------------
 *
 * chain_test.c
 *	  The credential chain: which source answers, and the answers that are read.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/chain.h"
#include "unit.h"

static EoChainEnvironment env;
static EoChainWish wish;
static EoChainPlan plan;
static const char *credentials;
static const char *config;
static bool unreadable;

static void
begin(void)
{
	memset(&env, 0, sizeof(env));
	memset(&wish, 0, sizeof(wish));
	credentials = config = NULL;
}

static EoStatus
make(void)
{
	EoIniFile	credentials_file = {credentials, false, unreadable};
	EoIniFile	config_file = {config, true, false};

	wish.region_only = false;
	return eo_chain_plan(&env, credentials_file, config_file, &wish, &plan);
}

static EoStatus make_region(void);

static bool
has_key(const char *key)
{
	return plan.base == EO_BASE_STATIC && strcmp(plan.identity.access_key_id, key) == 0;
}

static void
test_order(void)
{
	begin();
	ok(make() == EO_OK && plan.base == EO_BASE_METADATA, "with nothing set up the instance is asked");
	is_string(plan.url, "http://169.254.169.254", "at the address that AWS documents");
	env.value[EO_VAR_METADATA_DISABLED] = "true";
	ok(make() == EO_NO_CREDENTIALS, "unless that is disabled");
	env.value[EO_VAR_METADATA_DISABLED] = "false";
	env.value[EO_VAR_METADATA_MODE] = "IPv6";
	ok(make() == EO_OK && strcmp(plan.url, "http://[fd00:ec2::254]") == 0, "it has an address for IPv6, too");
	env.value[EO_VAR_METADATA_MODE] = "IPv5";
	ok(make() == EO_INVALID, "and there is no other");
	env.value[EO_VAR_METADATA_MODE] = NULL;
	env.value[EO_VAR_METADATA_ENDPOINT] = "http://192.0.2.1/";
	ok(make() == EO_INVALID, "an address elsewhere is refused");
	env.value[EO_VAR_METADATA_ENDPOINT] = NULL;
	env.value[EO_VAR_METADATA_DISABLED] = "true";
	env.value[EO_VAR_CONTAINER_RELATIVE] = "/v2/x";
	ok(make() == EO_OK && plan.base == EO_BASE_CONTAINER, "a container counts before the instance");
	is_string(plan.url, "http://169.254.170.2/v2/x", "at the address of ECS");
	env.value[EO_VAR_WEB_TOKEN_FILE] = "/token";
	env.value[EO_VAR_ROLE_ARN] = "arn:r";
	ok(make() == EO_OK && plan.base == EO_BASE_WEB_IDENTITY, "web identity counts before that");
	credentials = "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n";
	ok(make() == EO_OK && has_key("FILE"), "the shared files count before that");
	env.value[EO_VAR_ACCESS_KEY_ID] = "ENV";
	ok(make() == EO_OK && has_key("FILE"), "half of the environment counts as none");
	env.value[EO_VAR_SECRET_ACCESS_KEY] = "s";
	ok(make() == EO_OK && has_key("ENV"), "the environment counts before all others");
	snprintf(wish.profile, sizeof(wish.profile), "default");
	ok(make() == EO_OK && has_key("FILE"), "but not for a server that names a profile");
	begin();
	wish.environment_only = true;
	ok(make() == EO_NO_CREDENTIALS, "a server may use the environment alone");
}

static void
test_end_of_chain(void)
{
	begin();
	env.value[EO_VAR_PROFILE] = "gone";
	ok(make() == EO_INVALID, "a profile that is named and missing ends the chain");
	is_string(plan.failure, "profile \"gone\" is not in the shared files", "and the reason is given");
	is_string(plan.why, "environment: no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "beside why those before it do not answer");
	config = "[profile gone]\nregion = x\n";
	ok(make() == EO_INVALID, "so does one without credentials");
	begin();
	env.value[EO_VAR_ACCESS_KEY_ID] = "A\r\nHost: x";
	env.value[EO_VAR_SECRET_ACCESS_KEY] = "s";
	ok(make() == EO_INVALID, "so do keys with a line break");
}

static void
test_files(void)
{
	begin();
	env.value[EO_VAR_PROFILE] = "a b";
	config = "; comment\n[profile \"a b\"]\n# more\naws_access_key_id=K # why\n"
		"s3 =\n  aws_secret_access_key = nested\naws_secret_access_key = one\n"
		"[profile other]\naws_secret_access_key = two\n";
	ok(make() == EO_OK && has_key("K"), "a quoted name, comments and nested settings are read");
	is_string(plan.identity.secret_access_key, "one", "each profile has its own");
	credentials = "[a b]\naws_secret_access_key = three\r\n";
	ok(make() == EO_OK, "a profile may be in both files");
	is_string(plan.identity.secret_access_key, "three", "the credentials file counts before the other");
	config = "[a b]\naws_access_key_id=K\n";
	ok(make() == EO_INVALID, "in the configuration file \"profile\" is needed");
}

/* Whose keys are below a line that looks like a section, or like nothing, is not guessed. */
static void
test_broken_files(void)
{
	static const char *const keys = "aws_access_key_id = B\naws_secret_access_key = b\n";
	static const char *const broken[] = {"[second", "[second] x", "[second]x # comment", "[second ]]",
	"[sec # ond]", "second]", "words", "= value", "\xc2\xa0[second]", "\xe2\x80\x83" "a = b", "  [second"};
	char		text[512];

	begin();
	credentials = "[default]\naws_access_key_id = A\naws_secret_access_key = a\n"
		"[second]# comment\naws_access_key_id = B\naws_secret_access_key = b\n";
	ok(make() == EO_OK && has_key("A"), "a comment may follow a section at once");
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++)
	{
		begin();
		snprintf(text, sizeof(text), "[default]\naws_access_key_id = A\naws_secret_access_key = a\n%s\n%s",
				 broken[i], keys);
		credentials = text;
		ok(make() == EO_INVALID && strstr(plan.failure, "line 4 of the shared credentials file") != NULL,
		   broken[i]);
	}
	begin();
	snprintf(text, sizeof(text), "\xef\xbb\xbf[default]\n%s", keys);
	credentials = text;
	ok(make() == EO_INVALID, "a byte order mark ends the chain");
	config = text;
	credentials = NULL;
	ok(make() == EO_INVALID && strstr(plan.failure, "line 1 of the shared configuration file") != NULL,
	   "in the configuration file, too");
	ok(make_region() == EO_INVALID, "and where only the region is asked for");
	env.value[EO_VAR_ACCESS_KEY_ID] = "E";
	env.value[EO_VAR_SECRET_ACCESS_KEY] = "s";
	ok(make() == EO_OK && has_key("E"), "but the environment counts before the files");
	begin();
	credentials = "[default]\n  indented\naws_access_key_id = A\n";
	ok(make() == EO_INVALID, "an indented line with nothing above it ends the chain");
	begin();
	credentials = "[default]\naws_access_key_id = A\n  indented\naws_secret_access_key = a\n";
	ok(make() == EO_OK && has_key("A"), "but not one below a setting");
	begin();
	config = "[default]\naws_access_key_id = A\naws_secret_access_key = a\naws_session_token = t\n"
		"[profile default]\naws_access_key_id = B\naws_secret_access_key = b\n";
	ok(make() == EO_OK && has_key("B") && plan.identity.session_token[0] == '\0',
	   "\"[profile default]\" is preferred to \"[default]\" as a whole");
	begin();
	unreadable = true;
	ok(make() == EO_INVALID, "a file that is there and cannot be read ends the chain");
	is_string(plan.failure, "the shared credentials file cannot be read", "and the reason is given");
	unreadable = false;
}

static void
test_roles(void)
{
	begin();
	env.value[EO_VAR_PROFILE] = "top";
	config = "[profile top]\nrole_arn = arn:1\nsource_profile = mid\nexternal_id = e\n"
		"[profile mid]\nrole_arn = arn:2\nsource_profile = base\nduration_seconds = 900\n"
		"[profile base]\naws_access_key_id = B\naws_secret_access_key = s\n";
	snprintf(wish.role.arn, sizeof(wish.role.arn), "arn:3");
	ok(make() == EO_OK && has_key("B") && plan.nroles == 3, "roles of profiles, and that of the server");
	is_string(plan.roles[0].arn, "arn:2", "the innermost is assumed first");
	ok(plan.roles[0].duration_s == 900 && plan.roles[0].external_id[0] == '\0', "each as its profile says");
	is_string(plan.roles[1].arn, "arn:1", "then the one that names it");
	is_string(plan.roles[1].external_id, "e", "with its external id");
	is_string(plan.roles[2].arn, "arn:3", "the server's is the last");
	config = "[profile top]\nrole_arn = arn:1\nsource_profile = top\n";
	ok(make() == EO_INVALID, "a circle is refused");
	config = "[profile top]\nrole_arn = arn:1\nsource_profile = top\n"
		"aws_access_key_id = B\naws_secret_access_key = s\n";
	ok(make() == EO_OK && has_key("B") && plan.nroles == 2, "a profile may be its own source");
	config = "[profile top]\nrole_arn = arn:1\ncredential_source = EcsContainer\n";
	ok(make() == EO_INVALID, "a source that is not there ends the chain");
	env.value[EO_VAR_CONTAINER_FULL] = "http://127.0.0.1:1234/x";
	ok(make() == EO_OK && plan.base == EO_BASE_CONTAINER && plan.nroles == 2, "a role on top of a container");
	config = "[profile top]\nrole_arn = arn:1\nweb_identity_token_file = /t\n";
	ok(make() == EO_OK && plan.base == EO_BASE_WEB_IDENTITY && plan.nroles == 1, "a role by web identity");
	config = "[profile top]\nrole_arn = arn:1\nsource_profile = top\nmfa_serial = m\n";
	ok(make() == EO_INVALID, "a role that asks for a code is refused");
	config = "[profile top]\nrole_arn = arn:1\n";
	ok(make() == EO_INVALID, "a role without a source is refused");
	config = "[profile top]\nrole_arn = arn:1\nsource_profile = b\ncredential_source = Environment\n";
	ok(make() == EO_INVALID, "a role with two sources is refused");
}

static void
test_hosts(void)
{
	static const struct
	{
		const char *url;
		bool		allowed;
	}			urls[] = {
		{"http://169.254.170.2/x", true}, {"http://169.254.170.23/v1/credentials", true},
		{"http://[fd00:ec2::23]/v1", true}, {"http://127.0.0.1:8080/x?y", true}, {"http://localhost/x", true},
		{"http://[::1]/x", true}, {"https://example.com/x", true},
		{"http://example.com/x", false}, {"http://169.254.170.2.example.com/", false},
		{"http://127.0.0.1.example.com/", false}, {"http://127.0.0.1@example.com/", false},
		{"http://169.254.170.22/", false}, {"ftp://127.0.0.1/", false}, {"http:/", false}, {"http://", false},
		{"http://169.254.169.254/", false}, {"http://[fd00:ec2::254]/", false},
		{"http://127.0.0.1/\r\nX: y", false}
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
	{
		begin();
		env.value[EO_VAR_CONTAINER_FULL] = urls[i].url;
		ok(make() == (urls[i].allowed ? EO_OK : EO_INVALID),
		   strchr(urls[i].url, '\r') == NULL ? urls[i].url : "a URL with a line break");
	}
}

static EoIdentity identity;
static char message[EO_MESSAGE_LEN];
static bool skewed;

static EoStatus
read_json(const char *text)
{
	char		copy[1024];

	snprintf(copy, sizeof(copy), "%s", text);
	return eo_identity_read_json(copy, strlen(copy), &identity, message);
}

static EoStatus
read_role(int http_status, const char *text, bool web)
{
	char		copy[1024];
	EoStsReply	reply = {.http_status = http_status,.text = copy,.len = strlen(text)};
	EoStatus	status;

	snprintf(copy, sizeof(copy), "%s", text);
	status = eo_identity_read_role(&reply, web, &identity, message);
	skewed = reply.skewed;
	return status;
}

static void
test_answers(void)
{
	static const char answer[] = "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
	"<AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>S</SecretAccessKey>"
	"<SessionToken>T</SessionToken><Expiration>2026-01-01T00:00:00Z</Expiration></Credentials>"
	"</AssumeRoleResult></AssumeRoleResponse>";
	EoBuf		body;

	ok(read_json("{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T\","
				 "\"Expiration\":\"2026-01-01T00:00:00.5Z\"}") == EO_OK, "an instance's answer is read");
	ok(identity.expires_s == 1767225600 && strcmp(identity.session_token, "T") == 0, "with token and end");
	ok(read_json("{\"Code\":\"AssumeRoleUnauthorizedAccess\"}") == EO_INVALID, "a failure is one");
	is_string(message, "the answer is AssumeRoleUnauthorizedAccess", "and says its code");
	ok(read_json("{\"AccessKeyId\":\"A\"}") == EO_INVALID, "half of the keys are none");
	ok(read_json("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Expiration\":\"soon\"}") == EO_INVALID,
	   "an end that cannot be read is refused");
	ok(read_json("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\\r\\nX: y\"}") == EO_INVALID &&
	   identity.access_key_id[0] == '\0', "keys that cannot be sent are refused");
	ok(read_role(200, answer, false) == EO_OK && strcmp(identity.secret_access_key, "S") == 0 &&
	   identity.expires_s == 1767225600, "the answer of STS is read");
	ok(read_role(200, answer, true) == EO_INVALID, "that to another action is refused");
	ok(read_role(200, "<AssumeRoleResponse/>", false) == EO_INVALID, "one without credentials is refused");
	ok(read_role(403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no\n</Message></Error>"
				 "</ErrorResponse>", false) == EO_DENIED, "STS may refuse");
	is_string(message, "STS answered AccessDenied: no?", "and its reason is given");
	ok(!skewed, "which is not the clock");
	ok(read_role(403, "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>Signature expired</Message>"
				 "</Error></ErrorResponse>", false) == EO_DENIED && skewed, "or may be");
	ok(read_role(503, "busy", false) == EO_UNANSWERED, "STS may be away");
	eo_buf_init(&body, 1024);
	eo_identity_put_role(&body, "arn:aws:iam::1:role/a b", "s", "e+", 900, NULL);
	is_string(eo_buf_str(&body), "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b"
			  "&RoleSessionName=s&DurationSeconds=900&ExternalId=e%2B", "a role is asked for");
	eo_buf_free(&body);
}

static void
test_caller(void)
{
	char		text[] = "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
	"<GetCallerIdentityResult><Arn>arn:aws:sts::123456789012:assumed-role/a/b</Arn><UserId>A:b</UserId>"
	"<Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>";
	char		other[] = "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>a</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>";
	EoStsReply	reply = {.http_status = 200,.text = text,.len = strlen(text)};
	EoStsReply	half = {.http_status = 200,.text = other,.len = strlen(other)};
	EoCaller	caller;

	ok(eo_identity_read_caller(&reply, &caller, message) == EO_OK, "STS says who the caller is");
	is_string(caller.account, "123456789012", "the account");
	is_string(caller.arn, "arn:aws:sts::123456789012:assumed-role/a/b", "and the name");
	ok(eo_identity_read_caller(&half, &caller, message) == EO_INVALID, "half of it is refused");
}

static EoStatus
make_region(void)
{
	EoIniFile	credentials_file = {credentials, false, unreadable};
	EoIniFile	config_file = {config, true, false};

	wish.region_only = true;
	return eo_chain_plan(&env, credentials_file, config_file, &wish, &plan);
}

static void
test_region(void)
{
	begin();
	ok(make_region() == EO_OK && plan.base == EO_BASE_METADATA, "with nothing set up the instance has the region");
	config = "[default]\nregion = eu-west-2\n[profile a]\nregion = eu-west-3\n[profile b]\nregion = EU\n[profile c]\nx = y\n";
	ok(make_region() == EO_OK && plan.base == EO_BASE_REGION, "a profile counts before it");
	is_string(plan.region, "eu-west-2", "which is the default one");
	env.value[EO_VAR_PROFILE] = "a";
	ok(make_region() == EO_OK && strcmp(plan.region, "eu-west-3") == 0, "or that of the environment");
	snprintf(wish.profile, sizeof(wish.profile), "default");
	ok(make_region() == EO_OK && strcmp(plan.region, "eu-west-2") == 0, "or that of the server");
	snprintf(wish.profile, sizeof(wish.profile), "b");
	ok(make_region() == EO_INVALID, "what cannot be a region ends the chain");
	snprintf(wish.profile, sizeof(wish.profile), "gone");
	ok(make_region() == EO_INVALID, "and so does a profile that is not there");
	snprintf(wish.profile, sizeof(wish.profile), "c");
	ok(make_region() == EO_OK && plan.base == EO_BASE_METADATA, "one without a region gives way to the instance");
	env.value[EO_VAR_METADATA_DISABLED] = "true";
	ok(make_region() == EO_NO_CREDENTIALS, "unless that is disabled");
	env.value[EO_VAR_REGION] = "us-east-1";
	ok(make_region() == EO_OK && strcmp(plan.region, "us-east-1") == 0, "the environment counts before all others");
	env.value[EO_VAR_REGION] = "us-east-1.example.com/";
	ok(make_region() == EO_INVALID, "and is no way to another host");
	env.value[EO_VAR_REGION] = NULL;
	wish.environment_only = true;
	ok(make_region() == EO_NO_CREDENTIALS, "a server may use the environment alone");
}

static void
test_partitions(void)
{
	static const struct
	{
		const char *region;
		bool		fips;
		bool		dualstack;
		const char *host;
	}			hosts[] = {
		{"eu-west-1", false, false, "dynamodb.eu-west-1.amazonaws.com"},
		{"eu-west-1", true, false, "dynamodb-fips.eu-west-1.amazonaws.com"},
		{"eu-west-1", false, true, "dynamodb.eu-west-1.api.aws"},
		{"eu-west-1", true, true, "dynamodb-fips.eu-west-1.api.aws"},
		{"us-gov-west-1", true, false, "dynamodb.us-gov-west-1.amazonaws.com"},
		{"us-gov-west-1", true, true, "dynamodb-fips.us-gov-west-1.api.aws"},
		{"cn-north-1", false, false, "dynamodb.cn-north-1.amazonaws.com.cn"},
		{"cn-north-1", false, true, "dynamodb.cn-north-1.api.amazonwebservices.com.cn"}
	};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
	{
		char		host[EO_ENDPOINT_HOST_LEN];

		eo_endpoint_host("dynamodb", hosts[i].region, hosts[i].fips, hosts[i].dualstack, host);
		is_string(host, hosts[i].host, hosts[i].host);
	}
}

int
main(void)
{
	test_order();
	test_region();
	test_partitions();
	test_caller();
	test_end_of_chain();
	test_files();
	test_broken_files();
	test_roles();
	test_hosts();
	test_answers();
	return done();
}
