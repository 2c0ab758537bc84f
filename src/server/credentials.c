/*-------------------------------------------------------------------------
 *
 * credentials.c
 *	  Where the keys to sign with come from: the user mapping, or the environment.
 *
 * The server's option credentials says which, and neither stands in for the other:
 * a user mapping without keys must not give its role the postmaster's rights.
 *
 * The environment is read once, in the postmaster, before any session exists.
 * Code that runs in a session can change the session's own environment (see
 * CVE-2024-10979) and must not choose the credentials by it.
 *
 * The environment belongs to the operating-system user of the database server, so
 * only servers owned by a superuser may use it.  Letting other roles use such a
 * server is then a superuser's decision, by GRANT USAGE.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "dynamodb/secret.h"
#include "dynamodb/sigv4.h"
#include "server/credentials.h"
#include "server/options.h"

static EoCredentials environment;

static const char *
copy_env(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? eo_secret_copy(value) : NULL;
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
	if (server->from_environment)
	{
		if (environment.access_key_id == NULL || environment.secret_access_key == NULL)
			return NULL;
		*cred = environment;
		return "environment";
	}
	if (server->access_key_id != NULL)
	{
		cred->access_key_id = server->access_key_id;
		cred->secret_access_key = server->secret_access_key;
		cred->session_token = server->session_token;
		return "user mapping";
	}
	return NULL;
}
