/*-------------------------------------------------------------------------
 *
 * chain.c
 *	  The credential chain as a program of its own, for chain.test.mjs.
 *
 *	  chain CREDENTIALS-FILE CONFIG-FILE [PROFILE]
 *	  chain endpoint SERVICE REGION [fips] [dualstack]
 *
 * Says who would sign in this environment: a key of a file or of the environment,
 * INSTANCE, CONTAINER, WEB, ROLE, or none.  Or says which host a service has.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "identity/chain.h"

static char *
read_file(const char *path)
{
	static const size_t room = 65536;
	FILE	   *f = fopen(path, "r");
	char	   *text = calloc(1, room);

	if (f != NULL && text != NULL)
	{
		text[fread(text, 1, room - 1, f)] = '\0';
		fclose(f);
	}
	return f != NULL ? text : NULL;
}

static bool
has_word(int argc, char **argv, const char *word)
{
	for (int i = 4; i < argc; i++)
	{
		if (strcmp(argv[i], word) == 0)
			return true;
	}
	return false;
}

int
main(int argc, char **argv)
{
	char		host[EO_ENDPOINT_HOST_LEN];
	static EoChainPlan plan;
	EoChainEnvironment env = {0};
	EoChainWish wish = {0};
	EoIniFile	credentials = {NULL, false, false};
	EoIniFile	config = {NULL, true, false};

	if (argc < 3)
		return EXIT_FAILURE;
	if (strcmp(argv[1], "endpoint") == 0 && argc > 3)
	{
		eo_endpoint_host(argv[2], argv[3], has_word(argc, argv, "fips"),
						  has_word(argc, argv, "dualstack"), host);
		puts(host);
		return EXIT_SUCCESS;
	}
	credentials.text = read_file(argv[1]);
	config.text = read_file(argv[2]);
	if (argc > 3)
		snprintf(wish.profile, sizeof(wish.profile), "%s", argv[3]);
	for (int i = 0; i < EO_VAR_COUNT; i++)
	{
		const char *value = getenv(eo_chain_variable_name(i));

		env.value[i] = value != NULL && value[0] != '\0' ? value : NULL;
	}
	if (eo_chain_plan(&env, credentials, config, &wish, &plan) != EO_OK)
		puts("none");
	else if (plan.nroles > 0)
		puts("ROLE");
	else
		puts(plan.base == EO_BASE_STATIC ? plan.identity.access_key_id :
			 plan.base == EO_BASE_METADATA ? "INSTANCE" :
			 plan.base == EO_BASE_CONTAINER ? "CONTAINER" : "WEB");
	return EXIT_SUCCESS;
}
