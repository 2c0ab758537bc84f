/*-------------------------------------------------------------------------
 *
 * record_key.c
 *	  The key of a record, and how much its item has room for.
 *
 * The limits are those of "Constraints in Amazon DynamoDB" and "Item sizes and formats"
 * (Developer Guide).
 *
 *-------------------------------------------------------------------------
 */
#include "records/record.h"

#include <string.h>

#include "records/attribute.h"
#include "records/layout.h"
#include "records/origin.h"
#include "records/timestamps.h"
#include "records/token.h"
#include "wire/status.h"

/* The largest size of a number in an item. */
#define NUMBER_SIZE 21

/*
 * Room for everything in an item but partition key and result: 159 bytes of
 * attribute names, eleven numbers, status, bind, token, fingerprint, handler, origin, holder,
 * and the origin of one seal that was undone.
 */
#define ITEM_OVERHEAD (159 + 11 * NUMBER_SIZE + 11 + 4 + EO_TOKEN_LEN + EO_FINGERPRINT_LEN + \
					   EO_MAX_HANDLER_BYTES + 2 * EO_ORIGIN_LEN + EO_MAX_HOLDER_BYTES)

EoStatus
eo_record_key_make(const EoLayout *layout, const char *prefix, const char *key,
				   char *out, size_t *len)
{
	const char *parts[] = {layout->item_prefix, prefix, key};

	*len = strlen(layout->item_prefix) + strlen(prefix) + strlen(key);
	if (*len > eo_layout_max_key(layout))
		return EO_TOO_LARGE;
	for (int i = 0; i < 3; i++)
		out = stpcpy(out, parts[i]);
	return EO_OK;
}

const char *
eo_record_key_text(const EoLayout *layout, const char *prefix, const char *pk)
{
	const char *parts[] = {layout != NULL ? layout->item_prefix : "", prefix};

	for (int i = 0; i < 2; i++)
	{
		if (strncmp(pk, parts[i], strlen(parts[i])) == 0)
			pk += strlen(parts[i]);
	}
	return pk;
}

bool
eo_record_key_matches(const EoLayout *layout, const char *pk)
{
	return strncmp(pk, layout->item_prefix, strlen(layout->item_prefix)) == 0;
}

/*
 * Of the layouts other than native the names are counted, and the shown attributes,
 * their copies and what is kept of them: three words, four numbers and six instants.
 */
size_t
eo_record_key_room(const EoLayout *layout, size_t pk_len)
{
	size_t		overhead = ITEM_OVERHEAD;

	if (!layout->is_native)
	{
		overhead += 2 * EO_MAX_NAME_BYTES + 4 * NUMBER_SIZE + 6 * sizeof(EoInstant);
		for (size_t i = 0; i < EO_N_ATTRIBUTES; i++)
		{
			if (layout->attributes[i].name != NULL)
				overhead += strlen(layout->attributes[i].name);
		}
		if (layout->key.sort_name != NULL)
			overhead += strlen(layout->key.sort_name) + pk_len + EO_MAX_LAYOUT_BYTES;
	}
	return EO_MAX_ITEM_BYTES - overhead - pk_len;
}

EoStatus
eo_record_key_result_size(const EoLayout *layout, const char *result, size_t len, size_t *size)
{
	EoBuf		out;
	EoStatus	status;

	*size = len;
	if (result == NULL || !layout->native_result)
		return EO_OK;
	eo_buf_init(&out, (size_t) INT32_MAX - 1);
	status = eo_attribute_put(&out, result, len, size);
	if (status == EO_OK)
		status = eo_buf_status(&out);
	eo_buf_free(&out);
	return status;
}
