/*-------------------------------------------------------------------------
 *
 * credentials.c
 *	  Where the keys to sign with come from, in the order of the AWS SDKs:
 *	  the user mapping, then the environment.
 *
 * The environment is read once, in the postmaster, before any session exists:
 * a session's own environment can be changed by what runs in it (see
 * CVE-2024-10979), and must not choose the credentials that are used.
 *
 * Anything but a user mapping belongs to the operating-system user of the
 * database server, so it is offered to servers owned by a superuser only: to
 * let others use them is then a superuser's decision, by GRANT USAGE.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "dynamodb/sigv4.h"
#include "server/credentials.h"
#include "server/options.h"

static EoCredentials environment;

static const char *
copy_env(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? strdup(value) : NULL;
}

void
eo_credentials_init(void)
{
	environment.access_key_id = copy_env("AWS_ACCESS_KEY_ID");
	environment.secret_access_key = copy_env("AWS_SECRET_ACCESS_KEY");
	environment.session_token = copy_env("AWS_SESSION_TOKEN");
}

const char *
eo_credentials_find(const EoServer *server, EoCredentials *cred)
{
	memset(cred, 0, sizeof(*cred));
	if (server->access_key_id != NULL)
	{
		cred->access_key_id = server->access_key_id;
		cred->secret_access_key = server->secret_access_key;
		cred->session_token = server->session_token;
		return "user mapping";
	}
	if (server->owned_by_superuser && environment.access_key_id != NULL &&
		environment.secret_access_key != NULL)
	{
		*cred = environment;
		return "environment";
	}
	return NULL;
}
