/*-------------------------------------------------------------------------
 *
 * record_read.c
 *	  How a record is read in DynamoDB.
 *
 * In layouts other than native a record is read by our own attributes only if it shows to
 * other clients what was shown to them last.  Otherwise one of them has written it,
 * and the attributes that they know say what it is.
 *
 * Attributes that are not known are ignored, and writes leave them as they are: a newer version
 * may have added them.  A state that is not known makes the item one that cannot be read.  Each
 * condition of ours names the states from which it leads, so no write changes such an item.
 *
 *-------------------------------------------------------------------------
 */
#include "records/record.h"

#include <string.h>

#include "records/action_seal.h"
#include "records/layout.h"
#include "records/origin.h"
#include "records/timestamps.h"
#include "wire/json.h"
#include "wire/status.h"

/* The longest word that is taken for a state. */
#define MAX_STATE_BYTES 32

/* A client whose commits fail so often under one claim does not get anywhere with it. */
#define MAX_UNDONE 200

static EoStatus read_own(const EoLayout *layout, EoJsonValue *item, EoRecord *record);
static void read_numbers(const EoLayout *layout, EoJsonValue *const *attributes, EoRecord *record);
static bool is_untouched(const EoLayout *layout, EoJsonValue *item);
static bool is_same(EoJsonValue *item, const char *name, const char *copy);
static EoStatus read_foreign(const EoLayout *layout, EoJsonValue *item, EoRecord *record);
static int64_t end_of_foreign(const EoLayout *layout, EoJsonValue *item, int64_t end_ms,
							  int64_t updated_ms);
static bool read_json(EoJsonValue *attribute, const char **text, size_t *len);

EoStatus
eo_record_read(const EoLayout *layout, EoJsonValue *item, EoRecord *record)
{
	if (layout->is_native && eo_action_seal_is_item(item))
		return eo_action_seal_read(item, record);
	memset(record, 0, sizeof(*record));
	record->item = item;
	return layout->is_native || is_untouched(layout, item) ? read_own(layout, item, record) :
		read_foreign(layout, item, record);
}

bool
eo_record_read_undone(const EoRecord *r, const char *origin)
{
	for (size_t i = 0; i < eo_json_array_length(r->undone); i++)
	{
		size_t		len;
		const char *noted = eo_json_string(eo_json_array_get(r->undone, i), &len);

		if (noted != NULL && strcmp(noted, origin) == 0)
			return true;
	}
	return false;
}

/* The state that the word stands for; -1: none. */
static int
state_of(const EoLayout *layout, const char *word)
{
	for (int i = 0; word != NULL && i < 4; i++)
	{
		if (strcmp(word, layout->states[i]) == 0)
			return i;
	}
	return -1;
}

/* A record of ours, which shows to other clients what one of ours showed them last. */
static EoStatus
read_own(const EoLayout *layout, EoJsonValue *item, EoRecord *record)
{
	const char *names[EO_A_TTL + 1];
	EoJsonValue *attributes[EO_A_TTL + 1];
	size_t		len;
	int			state;

	for (int i = 0; i <= EO_A_TTL; i++)
		names[i] = layout->attributes[i].name;
	eo_json_get_all(item, names, EO_A_TTL + 1, attributes);
	state = state_of(layout, eo_json_s(attributes[EO_A_STATUS], &len));
	if (state < 0)
		return EO_INVALID;
	record->state = (EoState) state;
	record->owner = eo_json_s(attributes[EO_A_OWNER], &len);
	record->bind = eo_json_s(attributes[EO_A_BIND], &len);
	record->origin_text = eo_json_s(attributes[EO_A_ORIGIN], &len);
	record->has_origin = eo_origin_read(record->origin_text, &record->origin);
	record->holder = eo_json_s(attributes[EO_A_HOLDER], &len);
	record->payload_sha256 = eo_json_s(attributes[EO_A_PAYLOAD], &len);
	record->odd_payload_sha256 = record->payload_sha256 == NULL && attributes[EO_A_PAYLOAD] != NULL;
	record->handler = eo_json_s(attributes[EO_A_HANDLER], &len);
	record->odd_handler = record->handler == NULL && attributes[EO_A_HANDLER] != NULL;
	record->odd_result = !read_json(attributes[EO_A_RESULT], &record->result, &record->result_len);
	record->odd_error = !read_json(attributes[EO_A_ERROR], &record->error, &record->error_len);
	/* A client that does not know it leaves it in what it completes. */
	if (record->state != EO_STATE_COMPLETED)
		record->odd_progress = !read_json(attributes[EO_A_PROGRESS], &record->progress,
										  &record->progress_len);
	record->undone = eo_json_get(attributes[EO_A_UNDONE], "SS");
	record->worn = eo_json_array_length(record->undone) >= MAX_UNDONE;
	read_numbers(layout, attributes, record);
	if (record->owner == NULL)
		return EO_INVALID;
	if (record->state == EO_STATE_IN_PROGRESS && record->lease_ms == 0)
		return EO_INVALID;
	return EO_OK;
}

/*
 * A number that is absent stays 0.  Other writers may leave absurd ones, with which
 * arithmetic would overflow, so instants are limited to the years 1970 to 9999.  For ttl
 * this errs on the side of keeping the record: a very late one stays late.
 */
static void
read_numbers(const EoLayout *layout, EoJsonValue *const *attributes, EoRecord *record)
{
	const struct
	{
		int			attribute;	/* EO_A_... */
		int64_t    *value;
		int64_t		max;
	}			numbers[] =
	{
		{EO_A_FENCE, &record->fence, INT64_MAX},
		{EO_A_RUNS, &record->runs, INT32_MAX},
		{EO_A_SPARED, &record->spared, INT32_MAX},
		{EO_A_RETRY, &record->retry_ms, EO_MAX_INSTANT_MS},
		{EO_A_LEASE, &record->lease_ms, EO_MAX_INSTANT_MS},
		{EO_A_CREATED, &record->created_ms, EO_MAX_INSTANT_MS},
		{EO_A_UPDATED, &record->updated_ms, EO_MAX_INSTANT_MS},
		{EO_A_RETENTION, &record->retention_s, EO_MAX_INSTANT_MS / 1000},
		{EO_A_TTL, &record->ttl_s, EO_MAX_INSTANT_MS / 1000},
		{EO_A_WRITES, &record->writes, INT32_MAX},
		{EO_A_PROGRESS_NO, &record->progress_no, INT64_MAX}
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
	{
		EoJsonValue *attribute = attributes[numbers[i].attribute];
		int64_t		n = 0;

		*numbers[i].value = 0;
		if (attribute == NULL)
			continue;
		if (eo_json_n(attribute, &n) && n >= 0)
		{
			*numbers[i].value = n > numbers[i].max ? numbers[i].max : n;
			record->has_retry |= numbers[i].attribute == EO_A_RETRY;
		}
		else if (record->odd_number == NULL)
			record->odd_number = layout->attributes[numbers[i].attribute].name;
	}
}

/* The states are words in capital letters, and the items have an owner or are actions. */
const char *
eo_record_read_new_state(const EoLayout *layout, EoJsonValue *item)
{
	const EoAttributeName *a = layout->attributes;
	size_t		len;
	const char *status = eo_json_attr_s(item, a[EO_A_STATUS].name, &len);

	if (status == NULL || len == 0 || len > MAX_STATE_BYTES ||
		strspn(status, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != len)
		return NULL;
	if (eo_json_get(item, a[EO_A_OWNER].name) == NULL &&
		!(layout->is_native && eo_action_seal_is_item(item)))
		return NULL;
	return state_of(layout, status) < 0 ? status : NULL;
}

/* See UNTOUCHED in record.c. */
static bool
is_untouched(const EoLayout *layout, EoJsonValue *item)
{
	const EoAttributeName *a = layout->attributes;

	return eo_json_get(item, a[EO_A_OWNER].name) != NULL &&
		is_same(item, layout->status, a[EO_A_STATUS_COPY].name) &&
		is_same(item, layout->expiry, a[EO_A_EXPIRY_COPY].name) &&
		(layout->updated == NULL ||
		 is_same(item, layout->updated, a[EO_A_UPDATED_COPY].name));
}

/* Are both attributes there, and equal numbers or strings? */
static bool
is_same(EoJsonValue *item, const char *name, const char *copy)
{
	static const char *const types[] = {"S", "N"};

	for (int i = 0; i < 2; i++)
	{
		size_t		len;
		const char *x = eo_json_string(eo_json_get(eo_json_get(item, name), types[i]), &len);
		const char *y = eo_json_string(eo_json_get(eo_json_get(item, copy), types[i]), &len);

		if (x != NULL && y != NULL)
			return strcmp(x, y) == 0;
	}
	return false;
}

/*
 * A record of another client.  A run of theirs is over at the first end that they go by;
 * one without any end is never over.  A failed run of theirs leaves the key free, unless
 * the layout says otherwise.
 */
static EoStatus
read_foreign(const EoLayout *layout, EoJsonValue *item, EoRecord *record)
{
	const EoAttributeName *a = layout->attributes;
	size_t		len;
	const char *status = eo_json_attr_s(item, layout->status, &len);
	int64_t		expiry_ms = 0;
	bool		expires = eo_timestamps_read(item, layout->expiry, EO_INSTANT_S, &expiry_ms);

	record->is_foreign = true;
	record->owner = "";
	if (status != NULL && strcmp(status, layout->words[EO_STATE_COMPLETED]) == 0)
		record->state = EO_STATE_COMPLETED;
	else if (status != NULL && strcmp(status, layout->words[EO_STATE_IN_PROGRESS]) == 0)
		record->state = EO_STATE_IN_PROGRESS;
	else if (status != NULL && strcmp(status, layout->words[EO_STATE_FAILED]) == 0)
		record->state = EO_STATE_FAILED;
	else
		return EO_INVALID;
	record->holder = eo_json_attr_s(item, a[EO_A_HOLDER].name, &len);
	if (layout->validation != NULL)
		record->payload_sha256 = eo_json_attr_s(item, layout->validation, &len);
	record->ttl_s = (expiry_ms + 999) / 1000;
	if (layout->updated != NULL)
		(void) eo_timestamps_read(item, layout->updated, layout->instants, &record->updated_ms);
	if (record->state == EO_STATE_COMPLETED)
		record->odd_result = !read_json(eo_json_get(item, a[EO_A_RESULT].name), &record->result,
										&record->result_len);
	if (record->state == EO_STATE_IN_PROGRESS)
		record->lease_ms = end_of_foreign(layout, item, expires ? expiry_ms : EO_FAR_S * 1000,
										  record->updated_ms);
	if (record->state == EO_STATE_FAILED)
	{
		const char *failed = layout->failed != NULL ? layout->failed : EO_FAILED_RETRY;
		bool		at_once = strcmp(failed, EO_FAILED_RETRY) == 0;

		record->has_retry = at_once ||
			(expires && strcmp(failed, EO_FAILED_AFTER_EXPIRY) == 0);
		record->retry_ms = at_once ? 0 : expiry_ms;
	}
	return EO_OK;
}

static int64_t
end_of_foreign(const EoLayout *layout, EoJsonValue *item, int64_t end_ms, int64_t updated_ms)
{
	int64_t		lease_ms;

	if (layout->lease != NULL &&
		eo_timestamps_read(item, layout->lease, layout->instants, &lease_ms) && lease_ms < end_ms)
		end_ms = lease_ms;
	if (layout->stale_ms > 0 && updated_ms > 0 && updated_ms + layout->stale_ms < end_ms)
		end_ms = updated_ms + layout->stale_ms;
	return end_ms > 0 ? end_ms : 1;
}

/* False: the attribute is there, and cannot be read as JSON. */
static bool
read_json(EoJsonValue *attribute, const char **text, size_t *len)
{
	return eo_json_text(attribute, text, len) == EO_OK;
}
