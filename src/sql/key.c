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
#include "sql/payload.h"
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

/* idem_key(VARIADIC "any") */
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
		any |= !eo_key_form_is_null(types[i], args[i], nulls[i]);
	}
	if (!any)
		refuse_all_null("key parts must not all be null");
	PG_RETURN_TEXT_P(cstring_to_text(eo_key_form_digest(&parts)));
}

/* Has the array an element that is not null? */
static bool
has_value(Jsonb *array)
{
	for (uint32 i = 0; i < JB_ROOT_COUNT(array); i++)
	{
		if (getIthJsonbValueFromContainer(&array->root, i)->type != jbvNull)
			return true;
	}
	return false;
}

/*
 * idem_key_from(payload jsonb, VARIADIC paths jsonpath[])
 *
 * Each path makes one part, the array of all values that it selects, so that one
 * value and the same value twice make different keys.  A path that selects
 * nothing makes a null part.  If all that is selected is null the call is refused:
 * all payloads without the member would be one.
 */
Datum
eo_idem_key_from(PG_FUNCTION_ARGS)
{
	Datum	   *paths;
	int			n;
	bool		any = false;
	StringInfoData parts;

	if (PG_ARGISNULL(0))
		refuse_all_null("payload must not be null");
	if (PG_ARGISNULL(1))
		refuse_all_null("paths must not be null");
	n = eo_payload_paths(PG_GETARG_ARRAYTYPE_P(1), &paths);
	initStringInfo(&parts);
	for (int i = 0; i < n; i++)
	{
		Jsonb	   *found = eo_payload_select(PG_GETARG_JSONB_P(0), paths[i]);

		eo_key_form_append(&parts, JSONBOID, JsonbPGetDatum(found), JB_ROOT_COUNT(found) == 0);
		any |= has_value(found);
	}
	if (!any)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the paths select nothing from the payload, or only nulls"),
				 errdetail_plural("There is %d path.", "There are %d paths.", n, n),
				 errhint("All such calls would share one key. Look for a misspelled path or a payload of another shape.")));
	PG_RETURN_TEXT_P(cstring_to_text(eo_key_form_digest(&parts)));
}

/* ----- keys of Powertools ----- */

/*
 * The libraries write no record for a payload that identifies nothing.  What each of
 * them counts as such differs; this is what all of them do: null, an empty string,
 * array or object, and an array of nulls.
 */
static bool
identifies_nothing(const char *json)
{
	StringInfoData compact;

	initStringInfo(&compact);
	for (const char *p = json; *p != '\0'; p++)
	{
		if (strchr(" \t\r\n", *p) == NULL)
			appendStringInfoChar(&compact, *p);
		else if (memchr(json, '"', p - json) != NULL)
			break;
	}
	return strcmp(compact.data, "null") == 0 || strcmp(compact.data, "\"\"") == 0 ||
		strcmp(compact.data, "{}") == 0 ||
		(compact.data[0] == '[' && strspn(compact.data + 1, "nul,]") == (size_t) compact.len - 1);
}

/*
 * The payload, argument 1, as text.  Each function stands twice in SQL, for json and for
 * jsonb.  Runtimes that keep the order of members need json.
 */
static char *
read_payload(FunctionCallInfo fcinfo, const char *runtime)
{
	Jsonb	   *payload;

	if (get_fn_expr_argtype(fcinfo->flinfo, 1) != JSONBOID)
		return text_to_cstring(PG_GETARG_TEXT_PP(1));
	if (strcmp(runtime, "java") == 0 || strcmp(runtime, "dotnet") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a payload of type jsonb has no key of runtime \"%s\"", runtime),
				 errdetail("The order of the members counts there, and jsonb does not keep it."),
				 errhint("Pass the text as it came, as json; a jsonb that is cast to json has lost the order already.")));
	payload = PG_GETARG_JSONB_P(1);
	return JsonbToCString(NULL, &payload->root, VARSIZE(payload));
}

/* idem_key_powertools(runtime text, payload json, prefix text) */
Datum
eo_idem_key_powertools(PG_FUNCTION_ARGS)
{
	char	   *runtime = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *payload = read_payload(fcinfo, runtime);
	char	   *prefix = text_to_cstring(PG_GETARG_TEXT_PP(2));
	char	   *digest;

	if (identifies_nothing(payload))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the payload of a key must not be null or empty"),
				 errdetail("Powertools writes no record for such a payload."),
				 errhint("All such calls would share one key. Look for a misspelled path or a payload of another shape.")));
	digest = eo_powertools_key_digest(runtime, payload, strlen(payload));
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s#%s", prefix, digest)));
}

/* idem_validation_powertools(runtime text, payload json) */
Datum
eo_idem_validation_powertools(PG_FUNCTION_ARGS)
{
	char	   *runtime = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *payload = read_payload(fcinfo, runtime);

	PG_RETURN_TEXT_P(cstring_to_text(eo_powertools_key_digest(runtime, payload, strlen(payload))));
}
