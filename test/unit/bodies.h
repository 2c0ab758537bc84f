/*-------------------------------------------------------------------------
 *
 * bodies.h
 *	  A check of the body of an UpdateItem.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BODIES_H
#define BODIES_H

#include "wire/buf.h"
#include "wire/json.h"
#include "unit.h"

/*
 * Does the body declare the placeholders that its expressions use, and no others?
 * DynamoDB refuses it if not.  Returns false, too, if the body is not JSON.
 */
static inline bool
declares_as_used(const EoBuf *body)
{
	EoJson	   *doc;
	EoJsonValue *names;
	EoJsonValue *values;
	const char *texts[2];
	size_t		len;
	bool		as_used = true;

	if (eo_buf_status(body) != EO_OK || eo_json_parse(body->data, body->len, &doc) != EO_OK)
		return false;
	names = eo_json_get(eo_json_root(doc), "ExpressionAttributeNames");
	values = eo_json_get(eo_json_root(doc), "ExpressionAttributeValues");
	texts[0] = eo_json_string(eo_json_get(eo_json_root(doc), "ConditionExpression"), &len);
	texts[1] = eo_json_string(eo_json_get(eo_json_root(doc), "UpdateExpression"), &len);
	for (int t = 0; t < 2; t++)
	{
		for (const char *p = texts[t]; *p; p++)
		{
			char		name[3] = {p[0], p[1], 0};

			if ((*p == '#' && !eo_json_get(names, name)) ||
				(*p == ':' && !eo_json_get(values, name)))
				as_used = false;
		}
	}
	for (char c = '0'; c <= 'z'; c++)
	{
		char		name[3] = {'#', c, 0};
		char		value[3] = {':', c, 0};

		if (eo_json_get(names, name) && !strstr(texts[0], name) && !strstr(texts[1], name))
			as_used = false;
		if (eo_json_get(values, value) && !strstr(texts[0], value) && !strstr(texts[1], value))
			as_used = false;
	}
	eo_json_free(doc);
	return as_used;
}

/* The same; prints a body that does not, and frees it. */
static inline bool
check_body(EoBuf *body, int verb, int variant)
{
	bool		as_used = declares_as_used(body);

	if (!as_used)
		printf("# verb %d variant %d: %s\n", verb, variant, eo_buf_str(body));
	eo_buf_free(body);
	return as_used;
}

#endif							/* BODIES_H */
