/*
 * ini_fuzz.c
 *	  Any text as both shared files: a value is a piece of the text, without a line
 *	  break, and a plan has either somebody to sign as or a reason why not.
 */
#include "identity/chain.h"

#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_plan(const EoChainPlan *plan, EoStatus status)
{
	if (status == EO_OK && plan->base == EO_BASE_NONE)
		abort();
	if (status == EO_OK && plan->base == EO_BASE_STATIC && !eo_identity_is_sound(&plan->identity))
		abort();
	if (status == EO_OK && plan->base == EO_BASE_REGION && !eo_endpoint_is_region(plan->region))
		abort();
	if (status != EO_OK && plan->why[0] == '\0' && plan->failure[0] == '\0')
		abort();
	if (plan->nroles < 0 || plan->nroles > EO_MAX_CHAIN_ROLES)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static EoChainPlan plan;
	char	   *text = malloc(size + 1);
	char		value[16];
	EoChainEnvironment env = {0};
	EoChainWish wish = {0};
	EoIniFile	credentials = {text, false, false};
	EoIniFile	config = {text, true, false};

	memcpy(text, data, size);
	text[size] = '\0';
	if (eo_ini_get(config, "p", "region", value, sizeof(value)) == EO_OK && value[0] != '\0' &&
		(strstr(text, value) == NULL || strchr(value, '\n') != NULL || !eo_ini_has(config, "p")))
		abort();
	check_plan(&plan, eo_chain_plan(&env, credentials, config, &wish, &plan));
	wish.region_only = true;
	check_plan(&plan, eo_chain_plan(&env, credentials, config, &wish, &plan));
	wish.region_only = false;
	strcpy(wish.profile, "p");
	env.value[EO_VAR_METADATA_DISABLED] = "true";
	check_plan(&plan, eo_chain_plan(&env, credentials, config, &wish, &plan));
	wish.region_only = true;
	check_plan(&plan, eo_chain_plan(&env, credentials, config, &wish, &plan));
	wish.region_only = false;
	free(text);
	return 0;
}
