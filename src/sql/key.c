/*-------------------------------------------------------------------------
 *
 * key.c
 *	  idem_key() and others: keys made of values.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "keys/key_form.h"
#include "powertools/powertools_key.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

PG_FUNCTION_INFO_V1(eo_idem_key);
PG_FUNCTION_INFO_V1(eo_idem_key_from);
PG_FUNCTION_INFO_V1(eo_idem_key_powertools);
PG_FUNCTION_INFO_V1(eo_idem_validation_powertools);

static void
refuse_all_null(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s", what),
			 errhint("All such calls would share one key. Look for a missing column or a path that selects nothing.")));
}

/*
 * idem_key(VARIADIC "any")
 */
Datum
eo_idem_key(PG_FUNCTION_ARGS)
{
	Datum	   *args;
	Oid		   *types;
	bool	   *nulls;
	int			n;
	bool		any = false;
	StringInfoData parts;

	if (get_fn_expr_variadic(fcinfo->flinfo) && PG_ARGISNULL(0))
		refuse_all_null("key parts must not be a null array");
	n = extract_variadic_args(fcinfo, 0, false, &args, &types, &nulls);
	initStringInfo(&parts);
	for (int i = 0; i < n; i++)
	{
		eo_key_form_append(&parts, types[i], args[i], nulls[i]);
		any |= !nulls[i];
	}
	if (!any)
		refuse_all_null("key parts must not all be null");
	PG_RETURN_TEXT_P(cstring_to_text(eo_key_form_digest(&parts)));
}

/*
 * idem_key_from(payload jsonb, VARIADIC paths jsonpath[])
 *
 * Each path makes one part, the array of all values that it selects, so that one
 * value and the same value twice make different keys.  A path that selects
 * nothing makes a null part.
 */
Datum
eo_idem_key_from(PG_FUNCTION_ARGS)
{
	Jsonb	   *vars;
	Datum	   *paths;
	bool	   *nulls;
	int			n;
	bool		any = false;
	StringInfoData parts;

	if (PG_ARGISNULL(0))
		refuse_all_null("payload must not be null");
	if (PG_ARGISNULL(1))
		refuse_all_null("paths must not be null");
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), JSONPATHOID, -1, false, TYPALIGN_INT,
					  &paths, &nulls, &n);
	vars = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	initStringInfo(&parts);
	for (int i = 0; i < n; i++)
	{
		Jsonb	   *found;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a path must not be null"),
					 errdetail("Path %d of %d is null.", i + 1, n)));
		found = DatumGetJsonbP(DirectFunctionCall4(jsonb_path_query_array, PG_GETARG_DATUM(0),
												   paths[i], JsonbPGetDatum(vars),
												   BoolGetDatum(false)));
		eo_key_form_append(&parts, JSONBOID, JsonbPGetDatum(found), JB_ROOT_COUNT(found) == 0);
		any |= JB_ROOT_COUNT(found) > 0;
	}
	if (!any)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the paths select nothing from the payload"),
				 errdetail_plural("There is %d path.", "There are %d paths.", n, n),
				 errhint("All such calls would share one key. Look for a misspelled path or a payload of another shape.")));
	PG_RETURN_TEXT_P(cstring_to_text(eo_key_form_digest(&parts)));
}

/* ----- keys of Powertools ----- */

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
