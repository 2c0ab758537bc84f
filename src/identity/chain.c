/*-------------------------------------------------------------------------
 *
 * chain.c
 *	  The credential chain of the AWS SDKs: which source is to be asked.
 *
 * Source: "AWS SDKs and tools standardized credential providers" (AWS SDKs and Tools
 * Reference Guide).  The order is: environment, shared files, web identity, container,
 * instance metadata.  Processes and SSO are not run.
 *
 * A source that is not set up gives way to the next one.  A source that is set up and
 * cannot be used ends the chain: the keys of the next one belong to another
 * identity, which must not write in its place.
 *
 * Everything here is decided from the arguments alone: no network, no clock, no files.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/chain.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/crypto.h"
#include "wire/header.h"

#define CONTAINER_HOST "http://169.254.170.2"
#define METADATA_IPV4 "http://169.254.169.254"
#define METADATA_IPV6 "http://[fd00:ec2::254]"

/* The hosts of a service that plain http may go to, beside this machine. */
static const char *const container_hosts[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", NULL};
static const char *const metadata_hosts[] = {"169.254.169.254", "[fd00:ec2::254]", NULL};

/* Names of sessions of roles that a profile does not name. */
#define SESSION_NAME "exactonce"

static const char *const variable_names[] = {
	[EO_VAR_ACCESS_KEY_ID] = "AWS_ACCESS_KEY_ID",
	[EO_VAR_SECRET_ACCESS_KEY] = "AWS_SECRET_ACCESS_KEY",
	[EO_VAR_SESSION_TOKEN] = "AWS_SESSION_TOKEN",
	[EO_VAR_PROFILE] = "AWS_PROFILE",
	[EO_VAR_REGION] = "AWS_REGION",
	[EO_VAR_CREDENTIALS_FILE] = "AWS_SHARED_CREDENTIALS_FILE",
	[EO_VAR_CONFIG_FILE] = "AWS_CONFIG_FILE",
	[EO_VAR_HOME] = "HOME",
	[EO_VAR_WEB_TOKEN_FILE] = "AWS_WEB_IDENTITY_TOKEN_FILE",
	[EO_VAR_ROLE_ARN] = "AWS_ROLE_ARN",
	[EO_VAR_ROLE_SESSION_NAME] = "AWS_ROLE_SESSION_NAME",
	[EO_VAR_CONTAINER_RELATIVE] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
	[EO_VAR_CONTAINER_FULL] = "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	[EO_VAR_CONTAINER_TOKEN] = "AWS_CONTAINER_AUTHORIZATION_TOKEN",
	[EO_VAR_CONTAINER_TOKEN_FILE] = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	[EO_VAR_METADATA_DISABLED] = "AWS_EC2_METADATA_DISABLED",
	[EO_VAR_METADATA_ENDPOINT] = "AWS_EC2_METADATA_SERVICE_ENDPOINT",
	[EO_VAR_METADATA_MODE] = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
	[EO_VAR_STS_ENDPOINT] = "AWS_ENDPOINT_URL_STS"
};

/*
 * The arguments for an array of characters that is to be filled.  Not for snprintf(), which is a
 * macro where clang has its calls checked (_FORTIFY_SOURCE).
 */
#define INTO(array) array, sizeof(array)

typedef struct Planning
{
	const EoChainEnvironment *env;
	EoIniFile	credentials;
	EoIniFile	config;
	EoChainPlan *plan;
} Planning;

static EoStatus plan_region(Planning *p, const EoChainWish *wish, const char *profile,
							bool is_named);

/* Each of them returns EO_NO_CREDENTIALS if its source is not set up. */
static EoStatus try_environment(Planning *p);
static EoStatus try_profile(Planning *p, const char *profile, bool is_named);
static EoStatus try_web_identity(Planning *p);
static EoStatus try_container(Planning *p);
static EoStatus try_metadata(Planning *p);

static EoStatus find_profile(Planning *p, const char *profile, bool is_named);
static bool is_in_files(const Planning *p, const char *profile);
static EoStatus check_files(Planning *p);
static EoStatus read_profile(Planning *p, const char *profile, int depth);
static EoStatus read_role_profile(Planning *p, const char *profile, EoChainRole *role, int depth);
static EoStatus read_credential_source(Planning *p, const char *profile, const char *source);
static EoStatus read_static(Planning *p, const char *profile);
static EoStatus get(Planning *p, const char *profile, const char *name, char *value, size_t size);
static EoStatus give_up(Planning *p, const char *fmt,...) EO_PRINTF(2, 3);
static EoStatus pass(Planning *p, const char *why);
static EoStatus copy(Planning *p, char *to, size_t size, const char *from, const char *what);
static bool is_allowed_url(const char *url, const char *const *hosts);
static bool is_allowed_host(const char *authority, const char *const *hosts);

const char *
eo_chain_variable_name(EoChainVariable variable)
{
	return variable_names[variable];
}

EoStatus
eo_chain_plan(const EoChainEnvironment *env, EoIniFile credentials, EoIniFile config,
			  const EoChainWish *wish, EoChainPlan *plan)
{
	Planning	p = {env, credentials, config, plan};
	const char *profile = wish->profile[0] != '\0' ? wish->profile : env->value[EO_VAR_PROFILE];
	const bool	is_named = profile != NULL;
	EoStatus	status = EO_NO_CREDENTIALS;

	eo_crypto_wipe(plan, sizeof(*plan));
	if (!is_named)
		profile = "default";
	if (wish->region_only)
		return plan_region(&p, wish, profile, is_named);
	/* A server that names a profile does not mean the environment. */
	if (wish->profile[0] == '\0')
		status = try_environment(&p);
	if (!wish->environment_only)
	{
		if (status == EO_NO_CREDENTIALS)
			status = try_profile(&p, profile, is_named);
		if (status == EO_NO_CREDENTIALS)
			status = try_web_identity(&p);
		if (status == EO_NO_CREDENTIALS)
			status = try_container(&p);
		if (status == EO_NO_CREDENTIALS)
			status = try_metadata(&p);
	}
	if (status != EO_OK)
	{
		plan->base = EO_BASE_NONE;
		return status;
	}
	if (wish->role.arn[0] != '\0')
	{
		if (plan->nroles == EO_MAX_CHAIN_ROLES)
			return give_up(&p, "there are more than %d roles to be assumed", EO_MAX_CHAIN_ROLES);
		plan->roles[plan->nroles++] = wish->role;
	}
	return EO_OK;
}

/*
 * A profile that is named must be there, as for credentials: the region of the machine
 * would lead to another table.
 */
static EoStatus
plan_region(Planning *p, const EoChainWish *wish, const char *profile, bool is_named)
{
	const EoChainEnvironment *env = p->env;
	EoChainPlan *plan = p->plan;
	EoStatus	status;

	plan->base = EO_BASE_REGION;
	if (env->value[EO_VAR_REGION] != NULL)
	{
		snprintf(plan->source, sizeof(plan->source), "AWS_REGION");
		status = copy(p, INTO(plan->region), env->value[EO_VAR_REGION], "AWS_REGION");
	}
	else
	{
		(void) pass(p, "environment: no AWS_REGION");
		if (wish->environment_only)
			return EO_NO_CREDENTIALS;
		status = find_profile(p, profile, is_named);
		if (status == EO_INVALID)
			return status;
		status = get(p, profile, "region", INTO(plan->region));
	}
	if (status != EO_OK)
		return status;
	if (plan->region[0] == '\0')
	{
		(void) pass(p, "profile: no region");
		return try_metadata(p);
	}
	if (!eo_endpoint_is_region(plan->region))
		return give_up(p, "%s: this is not the name of a region", plan->source);
	return EO_OK;
}

/* ----- the sources ----- */

static EoStatus
try_environment(Planning *p)
{
	const char *const *v = p->env->value;

	if (v[EO_VAR_ACCESS_KEY_ID] == NULL || v[EO_VAR_SECRET_ACCESS_KEY] == NULL)
		return pass(p, "environment: no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
	if (eo_identity_set(&p->plan->identity, v[EO_VAR_ACCESS_KEY_ID], v[EO_VAR_SECRET_ACCESS_KEY],
						v[EO_VAR_SESSION_TOKEN]) != EO_OK)
		return give_up(p, "environment: the keys have characters that cannot be sent, or are too long");
	p->plan->base = EO_BASE_STATIC;
	snprintf(p->plan->source, sizeof(p->plan->source), "environment");
	return EO_OK;
}

static EoStatus
try_profile(Planning *p, const char *profile, bool is_named)
{
	EoStatus	status = find_profile(p, profile, is_named);

	if (status == EO_NO_CREDENTIALS)
		return pass(p, "profile: no \"default\"");
	if (status == EO_OK)
		status = read_profile(p, profile, 0);
	if (status == EO_NO_CREDENTIALS && is_named)
		return give_up(p, "profile \"%s\" has no credentials", profile);
	if (status == EO_NO_CREDENTIALS)
		return pass(p, "profile: \"default\" has no credentials");
	return status;
}

/* EO_NO_CREDENTIALS: no file has it, and nobody has named it. */
static EoStatus
find_profile(Planning *p, const char *profile, bool is_named)
{
	EoStatus	status;

	if (strlen(profile) > EO_MAX_PROFILE)
		return give_up(p, "profile: its name is too long");
	status = check_files(p);
	if (status != EO_OK)
		return status;
	snprintf(p->plan->source, sizeof(p->plan->source), "profile \"%s\"", profile);
	if (is_in_files(p, profile))
		return EO_OK;
	return is_named ? give_up(p, "profile \"%s\" is not in the shared files", profile) :
		EO_NO_CREDENTIALS;
}

static bool
is_in_files(const Planning *p, const char *profile)
{
	return eo_ini_has(p->credentials, profile) || eo_ini_has(p->config, profile);
}

static EoStatus
try_web_identity(Planning *p)
{
	const char *const *v = p->env->value;
	EoChainPlan *plan = p->plan;
	const char *session = v[EO_VAR_ROLE_SESSION_NAME];
	EoStatus	status;

	if (v[EO_VAR_WEB_TOKEN_FILE] == NULL || v[EO_VAR_ROLE_ARN] == NULL)
		return pass(p, "web identity: no AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN");
	plan->base = EO_BASE_WEB_IDENTITY;
	snprintf(plan->source, sizeof(plan->source), "web identity");
	status = copy(p, INTO(plan->token_file), v[EO_VAR_WEB_TOKEN_FILE],
				  "AWS_WEB_IDENTITY_TOKEN_FILE");
	if (status == EO_OK)
		status = copy(p, INTO(plan->web_role.arn), v[EO_VAR_ROLE_ARN], "AWS_ROLE_ARN");
	if (status == EO_OK)
		status = copy(p, INTO(plan->web_role.session_name),
					  session != NULL ? session : SESSION_NAME, "AWS_ROLE_SESSION_NAME");
	return status;
}

static EoStatus
try_container(Planning *p)
{
	const char *const *v = p->env->value;
	EoChainPlan *plan = p->plan;
	const char *relative = v[EO_VAR_CONTAINER_RELATIVE];
	const char *full = v[EO_VAR_CONTAINER_FULL];
	int			len;

	if (relative == NULL && full == NULL)
		return pass(p, "container: no AWS_CONTAINER_CREDENTIALS_..._URI");
	plan->base = EO_BASE_CONTAINER;
	snprintf(plan->source, sizeof(plan->source), "container endpoint");
	if (relative != NULL && relative[0] != '/')
		return give_up(p, "container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with a slash");
	len = snprintf(plan->url, sizeof(plan->url), "%s%s", relative != NULL ? CONTAINER_HOST : full,
				   relative != NULL ? relative : "");
	if (len >= (int) sizeof(plan->url))
		return give_up(p, "container: the URL is too long");
	if (!is_allowed_url(plan->url, container_hosts))
		return give_up(p, "container: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine or of ECS or EKS");
	if (v[EO_VAR_CONTAINER_TOKEN_FILE] != NULL)
		return copy(p, INTO(plan->token_file), v[EO_VAR_CONTAINER_TOKEN_FILE],
					"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	if (v[EO_VAR_CONTAINER_TOKEN] != NULL)
		return copy(p, INTO(plan->token), v[EO_VAR_CONTAINER_TOKEN],
					"AWS_CONTAINER_AUTHORIZATION_TOKEN");
	return EO_OK;
}

static EoStatus
try_metadata(Planning *p)
{
	const char *const *v = p->env->value;
	EoChainPlan *plan = p->plan;
	const char *endpoint = v[EO_VAR_METADATA_ENDPOINT];
	const char *mode = v[EO_VAR_METADATA_MODE];
	EoStatus	status;
	size_t		len;

	if (v[EO_VAR_METADATA_DISABLED] != NULL && strcasecmp(v[EO_VAR_METADATA_DISABLED], "true") == 0)
		return pass(p, "instance metadata: AWS_EC2_METADATA_DISABLED is true");
	plan->base = EO_BASE_METADATA;
	snprintf(plan->source, sizeof(plan->source), "instance metadata");
	if (mode != NULL && strcasecmp(mode, "IPv4") != 0 && strcasecmp(mode, "IPv6") != 0)
		return give_up(p, "instance metadata: AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is neither IPv4 nor IPv6");
	if (endpoint == NULL)
		endpoint = mode != NULL && strcasecmp(mode, "IPv6") == 0 ? METADATA_IPV6 : METADATA_IPV4;
	status = copy(p, INTO(plan->url), endpoint, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
	if (status != EO_OK)
		return status;
	len = strlen(plan->url);
	if (len > 0 && plan->url[len - 1] == '/')
		plan->url[len - 1] = '\0';
	if (!is_allowed_url(plan->url, metadata_hosts))
		return give_up(p, "instance metadata: AWS_EC2_METADATA_SERVICE_ENDPOINT is neither https nor an address of this machine or of EC2");
	return EO_OK;
}

/* ----- profiles ----- */

/* A file that is there and cannot be read may have the keys that are meant. */
static EoStatus
check_files(Planning *p)
{
	EoIniFile	files[] = {p->credentials, p->config};

	for (int i = 0; i < 2; i++)
	{
		const char *name = files[i].is_config ? "configuration" : "credentials";
		int			line = eo_ini_broken_line(files[i]);

		if (files[i].is_unreadable)
			return give_up(p, "the shared %s file cannot be read", name);
		if (line != 0)
			return give_up(p, "line %d of the shared %s file is neither a section, a setting nor a comment",
						   line, name);
	}
	return EO_OK;
}

/*
 * A role counts before keys in the same profile, except that a profile which another
 * one names as its source gives its keys if it has them.  This is the order of the
 * SDKs, and it lets a profile name itself as its source.
 */
static EoStatus
read_profile(Planning *p, const char *profile, int depth)
{
	EoChainPlan *plan = p->plan;
	EoChainRole *role = &plan->roles[EO_MAX_CHAIN_ROLES - 1 - depth];
	EoStatus	status = depth > 0 ? read_static(p, profile) : EO_NO_CREDENTIALS;

	if (status != EO_NO_CREDENTIALS)
		return status;
	status = get(p, profile, "role_arn", INTO(role->arn));
	if (status != EO_OK)
		return status;
	if (role->arn[0] != '\0')
		return read_role_profile(p, profile, role, depth);
	return read_static(p, profile);
}

/*
 * The roles of a chain of profiles are collected at the end of the array, because the
 * one that is read first is assumed last; then they are moved to its front.
 */
static EoStatus
read_role_profile(Planning *p, const char *profile, EoChainRole *role, int depth)
{
	EoChainPlan *plan = p->plan;
	char		source[EO_MAX_PROFILE + 1];
	char		credential_source[64];
	char		duration[16];
	char		mfa[256];
	EoStatus	status;

	if ((status = get(p, profile, "source_profile", INTO(source))) != EO_OK ||
		(status = get(p, profile, "credential_source", INTO(credential_source))) != EO_OK ||
		(status = get(p, profile, "duration_seconds", INTO(duration))) != EO_OK ||
		(status = get(p, profile, "mfa_serial", INTO(mfa))) != EO_OK ||
		(status = get(p, profile, "external_id", INTO(role->external_id))) != EO_OK ||
		(status = get(p, profile, "role_session_name", INTO(role->session_name))) != EO_OK ||
		(status = get(p, profile, "web_identity_token_file", INTO(plan->token_file))) != EO_OK)
		return status;
	if (role->session_name[0] == '\0')
		snprintf(role->session_name, sizeof(role->session_name), "%s", SESSION_NAME);
	role->duration_s = atoi(duration);
	if (mfa[0] != '\0')
		return give_up(p, "profile \"%s\" asks for a code (mfa_serial), which a server cannot give", profile);
	if (source[0] != '\0' && credential_source[0] != '\0')
		return give_up(p, "profile \"%s\" has both source_profile and credential_source", profile);
	if (source[0] == '\0' && credential_source[0] == '\0')
	{
		if (plan->token_file[0] == '\0')
			return give_up(p, "profile \"%s\" has a role_arn and no source_profile, credential_source or web_identity_token_file", profile);
		plan->base = EO_BASE_WEB_IDENTITY;
		plan->web_role = *role;
		status = EO_OK;
	}
	else
	{
		plan->token_file[0] = '\0';
		if (source[0] == '\0')
			status = read_credential_source(p, profile, credential_source);
		else if (depth + 2 > EO_MAX_CHAIN_ROLES)
			return give_up(p, "profile \"%s\": its sources are a circle, or more than %d", profile,
						   EO_MAX_CHAIN_ROLES);
		else if (!is_in_files(p, source))
			return give_up(p, "profile \"%s\", the source of profile \"%s\", is not in the shared files", source, profile);
		else
			status = read_profile(p, source, depth + 1);
		if (status == EO_NO_CREDENTIALS)
			return give_up(p, "profile \"%s\": its source has no credentials", profile);
		if (status == EO_OK)
			plan->roles[plan->nroles++] = *role;
	}
	return status;
}

static EoStatus
read_credential_source(Planning *p, const char *profile, const char *source)
{
	char		name[sizeof(p->plan->source)];
	EoStatus	status;

	memcpy(name, p->plan->source, sizeof(name));
	if (strcmp(source, "Environment") == 0)
		status = try_environment(p);
	else if (strcmp(source, "EcsContainer") == 0)
		status = try_container(p);
	else if (strcmp(source, "Ec2InstanceMetadata") == 0)
		status = try_metadata(p);
	else
		return give_up(p, "profile \"%s\" has an unknown credential_source", profile);
	memcpy(p->plan->source, name, sizeof(name));
	return status;
}

static EoStatus
read_static(Planning *p, const char *profile)
{
	EoIdentity *identity = &p->plan->identity;
	EoStatus	status;

	eo_crypto_wipe(identity, sizeof(*identity));
	if ((status = get(p, profile, "aws_access_key_id", INTO(identity->access_key_id))) != EO_OK ||
		(status = get(p, profile, "aws_secret_access_key", INTO(identity->secret_access_key))) != EO_OK ||
		(status = get(p, profile, "aws_session_token", INTO(identity->session_token))) != EO_OK)
		return status;
	if (identity->access_key_id[0] == '\0' || identity->secret_access_key[0] == '\0')
		return EO_NO_CREDENTIALS;
	if (!eo_identity_is_sound(identity))
		return give_up(p, "profile \"%s\": its keys have characters that cannot be sent", profile);
	p->plan->base = EO_BASE_STATIC;
	return EO_OK;
}

/* The credentials file counts before the configuration file. */
static EoStatus
get(Planning *p, const char *profile, const char *name, char *value, size_t size)
{
	EoStatus	status = eo_ini_get(p->credentials, profile, name, value, size);

	if (status == EO_OK && value[0] == '\0')
		status = eo_ini_get(p->config, profile, name, value, size);
	if (status != EO_OK)
		return give_up(p, "profile \"%s\": %s is too long", profile, name);
	return EO_OK;
}

/* ----- failures, and copies ----- */

/* The chain ends: say why. */
static EoStatus
give_up(Planning *p, const char *fmt,...)
{
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(p->plan->failure, sizeof(p->plan->failure), fmt, ap);
	va_end(ap);
	eo_header_make_printable(p->plan->failure, ' ');
	return EO_INVALID;
}

/* The next source is tried: note why this one does not answer. */
static EoStatus
pass(Planning *p, const char *why)
{
	size_t		len = strlen(p->plan->why);

	snprintf(p->plan->why + len, sizeof(p->plan->why) - len, "%s%s", len > 0 ? "; " : "", why);
	return EO_NO_CREDENTIALS;
}

static EoStatus
copy(Planning *p, char *to, size_t size, const char *from, const char *what)
{
	size_t		len = strlen(from);

	if (len >= size)
		return give_up(p, "%s is too long", what);
	memcpy(to, from, len + 1);
	return EO_OK;
}

/* ----- where requests may go ----- */

/* https to any host, http to this machine and to the hosts, which AWS documents. */
static bool
is_allowed_url(const char *url, const char *const *hosts)
{
	char		origin[EO_AUTHORITY_LEN + 16];
	size_t		slashes = strcspn(url, ":") + 3;
	size_t		len = strlen(url);
	EoEndpoint	ep;
	const char *reason;

	if (len <= slashes)
		return false;
	for (size_t i = 0; i < len; i++)
	{
		if (url[i] <= ' ' || url[i] > '~')
			return false;
	}
	len = slashes + strcspn(url + slashes, "/?#");
	if (len >= sizeof(origin))
		return false;
	memcpy(origin, url, len);
	origin[len] = '\0';
	return eo_endpoint_parse(origin, &ep, &reason) &&
		(ep.https || ep.loopback || is_allowed_host(ep.authority, hosts));
}

/* With or without a port. */
static bool
is_allowed_host(const char *authority, const char *const *hosts)
{
	for (int i = 0; hosts[i] != NULL; i++)
	{
		size_t		len = strlen(hosts[i]);

		if (strncasecmp(authority, hosts[i], len) == 0 &&
			(authority[len] == '\0' || authority[len] == ':'))
			return true;
	}
	return false;
}
