/*-------------------------------------------------------------------------
 *
 * record_scan.c
 *	  How the records of a table are scanned.
 *
 *-------------------------------------------------------------------------
 */
#include "records/record.h"

#include "records/expression.h"
#include "records/layout.h"
#include "wire/buf.h"
#include "wire/json.h"

void
eo_record_scan_put(const EoLayout *layout, EoBuf *body, const char *table,
				   const EoState states[2], int limit, const char *start_pk)
{
	/* The first ten are all that the native layout has of them. */
	static const EoRecordAttribute projected[] = {EO_A_KEY, EO_A_STATUS, EO_A_OWNER, EO_A_BIND,
		EO_A_ORIGIN, EO_A_UNDONE, EO_A_LEASE, EO_A_RETENTION, EO_A_UPDATED, EO_A_TTL, EO_A_SORT_KEY,
		EO_A_STATUS_SHOWN, EO_A_EXPIRY_SHOWN, EO_A_LEASE_SHOWN, EO_A_UPDATED_SHOWN,
	EO_A_STATUS_COPY, EO_A_EXPIRY_COPY, EO_A_UPDATED_COPY};
	const EoAttributeName *a = layout->attributes;
	EoAttributeName shown[sizeof(projected) / sizeof(projected[0])];
	size_t		nshown = 0;
	char		number[16];

	for (size_t i = 0; i < sizeof(projected) / sizeof(projected[0]); i++)
	{
		if (a[projected[i]].name != NULL)
			shown[nshown++] = a[projected[i]];
	}
	eo_buf_adds(body, "{\"TableName\":");
	eo_json_put_string(body, table, strlen(table));
	snprintf(number, sizeof(number), "%d", limit);
	eo_buf_adds(body, ",\"ConsistentRead\":true,\"ReturnConsumedCapacity\":\"TOTAL\",\"Limit\":");
	eo_buf_adds(body, number);
	eo_buf_adds(body, ",\"FilterExpression\":\"attribute_exists(#g) AND (#s = :a OR #s = :b)\""
				",\"ProjectionExpression\":\"");
	for (size_t i = 0; i < nshown; i++)
	{
		eo_buf_adds(body, i > 0 ? ",#" : "#");
		eo_buf_addc(body, shown[i].letter);
	}
	eo_buf_adds(body, "\",\"ExpressionAttributeNames\":{");
	for (size_t i = 0; i < nshown; i++)
	{
		eo_buf_adds(body, i > 0 ? ",\"#" : "\"#");
		eo_buf_addc(body, shown[i].letter);
		eo_buf_adds(body, "\":");
		eo_json_put_string(body, shown[i].name, strlen(shown[i].name));
	}
	eo_buf_adds(body, "},\"ExpressionAttributeValues\":{\":a\":{\"S\":\"");
	eo_buf_adds(body, layout->states[states[0]]);
	eo_buf_adds(body, "\"},\":b\":{\"S\":\"");
	eo_buf_adds(body, layout->states[states[1]]);
	eo_buf_adds(body, "\"}}");
	if (start_pk != NULL)
	{
		eo_buf_adds(body, ",\"ExclusiveStartKey\":");
		eo_expression_put_key(body, &layout->key, start_pk);
	}
	eo_buf_addc(body, '}');
}

const char *
eo_record_scan_end(const EoLayout *layout, EoJsonValue *reply)
{
	return eo_expression_pk_of(&layout->key, eo_json_get(reply, "LastEvaluatedKey"));
}
