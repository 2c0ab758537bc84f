/*-------------------------------------------------------------------------
 *
 * payload.c
 *	  The payload of a call: which parts of it count, and its fingerprint.
 *
 * The parts are digested as idem_key_from() digests them: for each path the array of
 * what it selects.  A path that selects nothing is an error here, because it would
 * compare nothing: if it is misspelled, all payloads would be the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "keys/key_form.h"
#include "lib/stringinfo.h"
#include "powertools/powertools_key.h"
#include "sql/payload.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

static Jsonb *select_part(Jsonb *payload, const EoCompare *compare, int i);
static Jsonb *part_of_library(Jsonb *payload, const EoCompare *compare, const char *layout);

void
eo_payload_compare(FunctionCallInfo fcinfo, int n, EoCompare *compare)
{
	*compare = (EoCompare)
	{
		0
	};
	if (PG_ARGISNULL(n))
		return;
	compare->n = eo_payload_paths(PG_GETARG_ARRAYTYPE_P(n), &compare->paths);
	if (compare->n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("compare must not be empty"),
				 errhint("Leave it out to compare the whole payload, and payload, too, to compare nothing.")));
}

char *
eo_payload_fingerprint(const EoStore *store, Jsonb *payload, const EoCompare *compare)
{
	const char *runtime = store->layout->runtime;
	StringInfoData parts;
	char	   *text;

	if (payload == NULL)
	{
		if (compare->n > 0)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("payload must not be null"),
					 errdetail("The paths of compare select from it."),
					 errhint("Without a payload nothing is compared. Leave compare out if that is meant.")));
		return NULL;
	}
	if (runtime != NULL)
	{
		payload = part_of_library(payload, compare, store->layout->name);
		text = JsonbToCString(NULL, &payload->root, VARSIZE(payload));
		return eo_powertools_key_digest(runtime, text, strlen(text));
	}
	if (compare->n == 0)
		return eo_key_form_fingerprint(payload);
	initStringInfo(&parts);
	for (int i = 0; i < compare->n; i++)
	{
		Jsonb	   *part = select_part(payload, compare, i);

		eo_key_form_append(&parts, JSONBOID, JsonbPGetDatum(part), false);
	}
	return eo_key_form_digest(&parts);
}

static Jsonb *
select_part(Jsonb *payload, const EoCompare *compare, int i)
{
	Jsonb	   *found = eo_payload_select(payload, compare->paths[i]);

	if (JB_ROOT_COUNT(found) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("a path of compare selects nothing from the payload"),
				 errdetail("Path %d of %d is %s.", i + 1, compare->n,
						   DatumGetCString(DirectFunctionCall1(jsonpath_out, compare->paths[i]))),
				 errhint("It would compare nothing. Look for a misspelled path or a payload of another shape.")));
	return found;
}

/*
 * The library hashes the one value that its own path selects.  Several values are
 * refused: whether it would see them as an array or under names is not known.
 */
static Jsonb *
part_of_library(Jsonb *payload, const EoCompare *compare, const char *layout)
{
	Jsonb	   *found;

	if (compare->n == 0)
		return payload;
	found = select_part(payload, compare, 0);
	if (compare->n > 1 || JB_ROOT_COUNT(found) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("compare must select one value in layout \"%s\"", layout),
				 compare->n > 1 ?
				 errdetail("There are %d paths.", compare->n) :
				 errdetail("The path selects %d values.", (int) JB_ROOT_COUNT(found)),
				 errhint("The library hashes what its one path selects. Pass that as payload, and leave compare out.")));
	return JsonbValueToJsonb(getIthJsonbValueFromContainer(&found->root, 0));
}

Jsonb *
eo_payload_select(Jsonb *payload, Datum path)
{
	Datum		vars = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));

	return DatumGetJsonbP(DirectFunctionCall4(jsonb_path_query_array, JsonbPGetDatum(payload), path,
											  vars, BoolGetDatum(false)));
}

int
eo_payload_paths(ArrayType * array, Datum **paths)
{
	bool	   *nulls;
	int			n;

	deconstruct_array(array, JSONPATHOID, -1, false, TYPALIGN_INT, paths, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a path must not be null"),
					 errdetail("Path %d of %d is null.", i + 1, n)));
	}
	return n;
}
