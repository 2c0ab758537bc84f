/*-------------------------------------------------------------------------
 *
 * list.c
 *	  The bodies of scans that list items for people.
 *
 * DynamoDB sends only items whose key has the prefix, and of them only what is shown.  That
 * saves bytes, and no capacity: all items of the table are read.
 *
 *-------------------------------------------------------------------------
 */
#include "records/list.h"

#include <stdio.h>
#include <string.h>

#include "wire/json.h"

/* "Two document paths overlap" would be the answer if a name were listed twice. */
static bool
is_first(const char *const *names, size_t i)
{
	for (size_t j = 0; j < i; j++)
	{
		if (names[j] != NULL && strcmp(names[j], names[i]) == 0)
			return false;
	}
	return true;
}

void
eo_list_put_page(EoBuf *body, const EoItemKey *key, const char *const *names, size_t nnames,
				 const EoListPage *page)
{
	const char *text_of_key = key->sort_name != NULL ? key->sort_name : key->name;
	bool		filters = page->prefix[0] != '\0';
	size_t		n = 0;

	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, page->table, strlen(page->table));
	eo_buf_addf(body, ",\"ConsistentRead\":true,\"ReturnConsumedCapacity\":\"TOTAL\",\"Limit\":%d",
				page->limit);
	for (size_t i = 0; names != NULL && i < nnames; i++)
	{
		if (names[i] != NULL && is_first(names, i))
			eo_buf_addf(body, "%s#a%d", n++ == 0 ? ",\"ProjectionExpression\":\"" : ",", (int) i);
	}
	if (n > 0)
		eo_buf_addc(body, '"');
	if (filters)
		eo_buf_adds(body, ",\"FilterExpression\":\"begins_with(#k,:p)\"");
	if (filters || n > 0)
	{
		const char *comma = "";

		eo_buf_adds(body, ",\"ExpressionAttributeNames\":{");
		for (size_t i = 0; n > 0 && i < nnames; i++)
		{
			if (names[i] == NULL || !is_first(names, i))
				continue;
			eo_buf_addf(body, "%s\"#a%d\":", comma, (int) i);
			eo_json_put_string(body, names[i], strlen(names[i]));
			comma = ",";
		}
		if (filters)
		{
			eo_buf_addf(body, "%s\"#k\":", comma);
			eo_json_put_string(body, text_of_key, strlen(text_of_key));
		}
		eo_buf_addc(body, '}');
	}
	if (filters)
	{
		eo_buf_adds(body, ",\"ExpressionAttributeValues\":{\":p\":{\"S\":");
		eo_json_put_string(body, page->prefix, strlen(page->prefix));
		eo_buf_adds(body, "}}");
	}
	if (page->start_pk != NULL)
	{
		eo_buf_adds(body, ",\"ExclusiveStartKey\":");
		eo_expression_put_key(body, key, page->start_pk);
	}
	eo_buf_addc(body, '}');
}

void
eo_list_put_records(EoBuf *body, const EoLayout *layout, bool results, const EoListPage *page)
{
	const char *names[EO_N_ATTRIBUTES + 2];

	for (int i = 0; i < EO_N_ATTRIBUTES; i++)
		names[i] = i == EO_A_RESULT || i == EO_A_PAYLOAD ? NULL : layout->attributes[i].name;

	/* The records of other clients are read by these. */
	names[EO_N_ATTRIBUTES] = layout->is_native ? NULL : layout->status;
	names[EO_N_ATTRIBUTES + 1] = layout->is_native ? NULL : layout->expiry;
	eo_list_put_page(body, &layout->key, results ? NULL : names, EO_N_ATTRIBUTES + 2, page);
}
