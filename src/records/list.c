/*-------------------------------------------------------------------------
 *
 * list.c
 *	  The bodies of scans, and of the deletes of what they find.
 *
 * DynamoDB sends only items that the filter lets through, and of them only what is asked
 * for.  That saves bytes, and no capacity: all items of the table are read.
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

/* Ask for the attributes with a name.  Returns how many there are. */
static size_t
put_projection(EoBuf *body, const char *const *names, size_t nnames)
{
	size_t		n = 0;

	for (size_t i = 0; i < nnames; i++)
	{
		if (names[i] != NULL && is_first(names, i))
			eo_buf_addf(body, "%s#a%d", n++ == 0 ? ",\"ProjectionExpression\":\"" : ",", (int) i);
	}
	if (n > 0)
		eo_buf_addc(body, '"');
	return n;
}

/* Append what stands for the names in a projection or a condition. */
static void
put_names(EoBuf *body, const char *const *names, size_t nnames)
{
	const char *comma = "";

	for (size_t i = 0; i < nnames; i++)
	{
		if (names[i] == NULL || !is_first(names, i))
			continue;
		eo_buf_addf(body, "%s\"#a%d\":", comma, (int) i);
		eo_json_put_string(body, names[i], strlen(names[i]));
		comma = ",";
	}
}

void
eo_list_put_page(EoBuf *body, const EoItemKey *key, const char *const *names, size_t nnames,
				 const EoListPage *page)
{
	const char *text_of_key = key->sort_name != NULL ? key->sort_name : key->name;
	bool		by_prefix = page->prefix != NULL && page->prefix[0] != '\0';
	size_t		n;

	if (names == NULL)
		nnames = 0;
	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, page->table, strlen(page->table));
	eo_buf_addf(body, ",\"ConsistentRead\":true,\"ReturnConsumedCapacity\":\"TOTAL\",\"Limit\":%d",
				page->limit);
	n = put_projection(body, names, nnames);
	if (by_prefix)
		eo_buf_adds(body, ",\"FilterExpression\":\"begins_with(#k,:p)\"");
	else if (page->states[0] != NULL)
		eo_buf_addf(body, ",\"FilterExpression\":\"attribute_exists(#a%d) AND (#a%d = :a OR #a%d = :b)\"",
					EO_LIST_ORIGIN, EO_LIST_STATUS, EO_LIST_STATUS);
	if (by_prefix || n > 0)
	{
		eo_buf_adds(body, ",\"ExpressionAttributeNames\":{");
		put_names(body, names, nnames);
		if (by_prefix)
		{
			eo_buf_addf(body, "%s\"#k\":", n > 0 ? "," : "");
			eo_json_put_string(body, text_of_key, strlen(text_of_key));
		}
		eo_buf_addc(body, '}');
	}
	if (by_prefix)
	{
		eo_buf_adds(body, ",\"ExpressionAttributeValues\":{\":p\":{\"S\":");
		eo_json_put_string(body, page->prefix, strlen(page->prefix));
		eo_buf_adds(body, "}}");
	}
	else if (page->states[0] != NULL)
		eo_buf_addf(body, ",\"ExpressionAttributeValues\":{\":a\":{\"S\":\"%s\"},\":b\":{\"S\":\"%s\"}}",
					page->states[0], page->states[1]);
	if (page->start_pk != NULL)
	{
		eo_buf_adds(body, ",\"ExclusiveStartKey\":");
		eo_expression_put_key(body, key, page->start_pk);
	}
	eo_buf_addc(body, '}');
}

void
eo_list_put_sealed(EoBuf *body, const EoLayout *layout, const EoListPage *page)
{
	/* The first ten are all that the native layout has of them. */
	static const EoRecordAttribute shown[] = {
		[EO_LIST_ORIGIN] = EO_A_ORIGIN,[EO_LIST_STATUS] = EO_A_STATUS,
		EO_A_KEY, EO_A_OWNER, EO_A_BIND, EO_A_UNDONE, EO_A_LEASE, EO_A_RETENTION, EO_A_UPDATED,
		EO_A_TTL, EO_A_SORT_KEY, EO_A_STATUS_SHOWN, EO_A_EXPIRY_SHOWN, EO_A_LEASE_SHOWN,
		EO_A_UPDATED_SHOWN, EO_A_STATUS_COPY, EO_A_EXPIRY_COPY, EO_A_UPDATED_COPY
	};
	const char *names[sizeof(shown) / sizeof(shown[0])];

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		names[i] = layout->attributes[shown[i]].name;
	eo_list_put_page(body, &layout->key, names, sizeof(shown) / sizeof(shown[0]), page);
}

void
eo_list_put_records(EoBuf *body, const EoLayout *layout, bool results, const EoListPage *page)
{
	const char *names[EO_N_ATTRIBUTES + 2];

	for (int i = 0; i < EO_N_ATTRIBUTES; i++)
		names[i] = i == EO_A_RESULT || i == EO_A_PROGRESS || i == EO_A_PAYLOAD ?
			NULL : layout->attributes[i].name;

	/* The records of other clients are read by these. */
	names[EO_N_ATTRIBUTES] = layout->is_native ? NULL : layout->status;
	names[EO_N_ATTRIBUTES + 1] = layout->is_native ? NULL : layout->expiry;
	eo_list_put_page(body, &layout->key, results ? NULL : names, EO_N_ATTRIBUTES + 2, page);
}

void
eo_list_put_read(EoBuf *body, const EoLayout *layout, const char *table, const char *pk)
{
	const char *names[EO_N_ATTRIBUTES];

	for (int i = 0; i < EO_N_ATTRIBUTES; i++)
		names[i] = i == EO_A_RESULT || i == EO_A_ERROR || i == EO_A_PAYLOAD ? NULL :
			layout->attributes[i].name;
	eo_expression_put_read(body, table, &layout->key, pk);
	/* Reopen the object that is the body. */
	body->len--;
	(void) put_projection(body, names, EO_N_ATTRIBUTES);
	eo_buf_adds(body, ",\"ExpressionAttributeNames\":{");
	put_names(body, names, EO_N_ATTRIBUTES);
	eo_buf_adds(body, "}}");
}

void
eo_list_put_delete(EoBuf *body, const EoItemKey *key, const char *table, const char *pk,
				   EoJsonValue *item, const char *const *names, size_t nnames)
{
	const char *between = "";

	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, table, strlen(table));
	eo_buf_adds(body, ",\"Key\":");
	eo_expression_put_key(body, key, pk);
	eo_buf_adds(body, ",\"ReturnConsumedCapacity\":\"TOTAL\",\"ConditionExpression\":\"");
	for (size_t i = 0; i < nnames; i++)
	{
		if (names[i] == NULL || !is_first(names, i))
			continue;
		if (eo_json_get(item, names[i]) != NULL)
			eo_buf_addf(body, "%s#a%d = :a%d", between, (int) i, (int) i);
		else
			eo_buf_addf(body, "%sattribute_not_exists(#a%d)", between, (int) i);
		between = " AND ";
	}
	eo_buf_adds(body, "\",\"ExpressionAttributeNames\":{");
	put_names(body, names, nnames);
	between = "},\"ExpressionAttributeValues\":{";
	for (size_t i = 0; i < nnames; i++)
	{
		EoJsonValue *value = names[i] != NULL && is_first(names, i) ?
		eo_json_get(item, names[i]) : NULL;

		if (value == NULL)
			continue;
		eo_buf_addf(body, "%s\":a%d\":", between, (int) i);
		eo_json_put(body, value);
		between = ",";
	}
	eo_buf_adds(body, "}}");
}

/*
 * Every write of ours changes owner, state or updated_ms, and every write of another client
 * one of the attributes that are shown to them.
 */
size_t
eo_list_ended_names(const EoLayout *layout, const char **names)
{
	static const EoRecordAttribute ended[] = {EO_A_KEY, EO_A_SORT_KEY, EO_A_STATUS, EO_A_OWNER,
		EO_A_UPDATED, EO_A_FENCE, EO_A_TTL, EO_A_STATUS_SHOWN, EO_A_EXPIRY_SHOWN, EO_A_LEASE_SHOWN,
	EO_A_UPDATED_SHOWN, EO_A_STATUS_COPY, EO_A_EXPIRY_COPY, EO_A_UPDATED_COPY};
	const size_t n = sizeof(ended) / sizeof(ended[0]);

	for (size_t i = 0; i < n; i++)
		names[i] = layout->attributes[ended[i]].name;
	return n;
}
