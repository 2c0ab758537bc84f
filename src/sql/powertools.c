/*-------------------------------------------------------------------------
 *
 * powertools.c
 *	  idem_key_powertools() and idem_validation_powertools().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "powertools/powertools_key.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(eo_idem_key_powertools);
PG_FUNCTION_INFO_V1(eo_idem_validation_powertools);

/* The digest of arguments 0 and 1: runtime text, payload json. */
static char *
digest_of(FunctionCallInfo fcinfo)
{
	char	   *runtime = text_to_cstring(PG_GETARG_TEXT_PP(0));
	text	   *payload = PG_GETARG_TEXT_PP(1);

	return eo_powertools_key_digest(runtime, VARDATA_ANY(payload), VARSIZE_ANY_EXHDR(payload));
}

/*
 * idem_key_powertools(runtime text, payload json, prefix text)
 */
Datum
eo_idem_key_powertools(PG_FUNCTION_ARGS)
{
	char	   *prefix = text_to_cstring(PG_GETARG_TEXT_PP(2));

	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s#%s", prefix, digest_of(fcinfo))));
}

/*
 * idem_validation_powertools(runtime text, payload json)
 */
Datum
eo_idem_validation_powertools(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(digest_of(fcinfo)));
}
