/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  How the records of a table are spelled: names, words and forms.
 *
 * defaults[] says what each layout is without options, and options[] where the value of
 * an option goes.  All that no other client reads has a fixed name.
 *
 *-------------------------------------------------------------------------
 */
#include "records/layout.h"

#include <stdlib.h>
#include <string.h>

#include "records/expression.h"
#include "records/timestamps.h"
#include "records/verb.h"

/* The static names and letters; a name that is NULL is the table's own. */
static const EoAttributeName own_names[EO_N_ATTRIBUTES + 1] = {
	[EO_A_KEY] = {'k', NULL},[EO_A_STATUS] = {'s', "eo_status"},
	[EO_A_OWNER] = {'o', "eo_owner"},[EO_A_BIND] = {'b', "eo_bind"},
	[EO_A_FENCE] = {'f', "eo_fence"},[EO_A_LEASE] = {'l', "eo_lease_ms"},
	[EO_A_RUNS] = {'n', "eo_runs"},[EO_A_SPARED] = {'i', "eo_spared"},
	[EO_A_RESULT] = {'v', "eo_result"},[EO_A_ERROR] = {'e', "eo_error"},
	[EO_A_PAYLOAD] = {'p', "eo_payload_sha256"},[EO_A_HANDLER] = {'j', "eo_handler"},
	[EO_A_RETRY] = {'r', "eo_retry_ms"},[EO_A_CREATED] = {'c', "eo_created_ms"},
	[EO_A_UPDATED] = {'u', "eo_updated_ms"},[EO_A_ORIGIN] = {'g', "eo_origin"},
	[EO_A_RETENTION] = {'a', "eo_retention_s"},[EO_A_HOLDER] = {'h', "eo_holder"},
	[EO_A_WRITES] = {'w', "eo_writes"},[EO_A_UNDONE] = {'d', "eo_undone"},
	[EO_A_PROGRESS] = {'m', "eo_progress"},[EO_A_PROGRESS_NO] = {'q', "eo_progress_no"},
	[EO_A_TTL] = {'t', "eo_ttl"},
	[EO_A_STATUS_SHOWN] = {'S', NULL},[EO_A_EXPIRY_SHOWN] = {'E', NULL},
	[EO_A_LEASE_SHOWN] = {'L', NULL},[EO_A_UPDATED_SHOWN] = {'U', NULL},
	[EO_A_STATUS_COPY] = {'B', "eo_shown_status"},
	[EO_A_EXPIRY_COPY] = {'Z', "eo_shown_expiry"},
	[EO_A_UPDATED_COPY] = {'Y', "eo_shown_updated"},
	[EO_A_EXPIRY_KEPT] = {'J', "eo_kept_expiry"},
	[EO_A_LEASE_KEPT] = {'Q', "eo_kept_lease"},
	[EO_A_UPDATED_KEPT] = {'K', "eo_kept_updated"},
	[EO_A_SORT_KEY] = {'x', NULL}
};

#define OWN_STATES \
	{ \
		[EO_STATE_IN_PROGRESS] = "IN_PROGRESS", \
		[EO_STATE_COMMITTING] = "COMMITTING", \
		[EO_STATE_COMPLETED] = "COMPLETED", \
		[EO_STATE_FAILED] = "FAILED" \
	}

static const char *const own_states[] = OWN_STATES;

static EoLayout native = {
	.text = "native",
	.name = "native",
	.key = {.name = "pk"},
	.item_prefix = "IDEMPOTENCY#",
	.status = "status",
	.expiry = "ttl",
	.is_native = true,
	.attributes = {
		[EO_A_KEY] = {'k', "pk"},[EO_A_STATUS] = {'s', "status"},
		[EO_A_OWNER] = {'o', "owner"},[EO_A_BIND] = {'b', "bind"},
		[EO_A_FENCE] = {'f', "fence"},[EO_A_LEASE] = {'l', "lease_ms"},
		[EO_A_RUNS] = {'n', "runs"},[EO_A_SPARED] = {'i', "spared"},
		[EO_A_RESULT] = {'v', "result"},[EO_A_ERROR] = {'e', "error"},
		[EO_A_PAYLOAD] = {'p', "payload_sha256"},[EO_A_HANDLER] = {'j', "handler"},
		[EO_A_RETRY] = {'r', "retry_ms"},[EO_A_CREATED] = {'c', "created_ms"},
		[EO_A_UPDATED] = {'u', "updated_ms"},[EO_A_ORIGIN] = {'g', "origin"},
		[EO_A_RETENTION] = {'a', "retention_s"},[EO_A_HOLDER] = {'h', "holder"},
		[EO_A_WRITES] = {'w', "writes"},[EO_A_UNDONE] = {'d', "undone"},
		[EO_A_PROGRESS] = {'m', "progress"},[EO_A_PROGRESS_NO] = {'q', "progress_no"},
		[EO_A_TTL] = {'t', "ttl"}
	},
	.states = OWN_STATES
};

#define POWERTOOLS \
	.key = {.name = "id"},.item_prefix = "",.status = "status",.expiry = "expiration", \
	.lease = "in_progress_expiration",.result = "data",.instants = EO_INSTANT_MS, \
	.validation = "validation",.words = {"INPROGRESS", "INPROGRESS", "COMPLETED", "INPROGRESS"}

static const EoLayout defaults[] = {
	{.name = "powertools-python",.runtime = "python", POWERTOOLS},
	{.name = "powertools-typescript",.runtime = "typescript",.native_result = true, POWERTOOLS},
	{.name = "powertools-java",.runtime = "java", POWERTOOLS},
	{.name = "powertools-dotnet",.runtime = "dotnet", POWERTOOLS},
	{
		.name = "custom",
		.key = {.name = "pk"},.item_prefix = "",.status = "status",.expiry = "ttl",
		.instants = EO_INSTANT_MS,
		.words = {"IN_PROGRESS", "IN_PROGRESS", "COMPLETED", "FAILED"}
	}
};

const char *const eo_layout_names =
"native, powertools-python, powertools-typescript, powertools-java, powertools-dotnet, custom";

static bool set_name(EoLayout *layout, const char **member, char *value, const char **reason);
static bool set_text(EoLayout *layout, const char **member, char *value, const char **reason);
static bool set_words(EoLayout *layout, const char **member, char *value, const char **reason);
static bool set_form(EoLayout *layout, const char **member, char *value, const char **reason);
static bool set_instants(EoLayout *layout, const char **member, char *value,
						 const char **reason);
static bool set_stale(EoLayout *layout, const char **member, char *value, const char **reason);
static bool set_failed(EoLayout *layout, const char **member, char *value, const char **reason);

/* Each option, the member of EoLayout that it sets, and how. */
static const struct
{
	const char *name;
	size_t		member;
	bool		(*set) (EoLayout *layout, const char **member, char *value,
						const char **reason);
}			options[] =
{
	{"key_attribute", offsetof(EoLayout, key.name), set_name},
	{"item_prefix", offsetof(EoLayout, item_prefix), set_text},
	{"sort_key_attribute", offsetof(EoLayout, key.sort_name), set_name},
	{"partition_value", offsetof(EoLayout, key.partition_value), set_text},
	{"status_attribute", offsetof(EoLayout, status), set_name},
	{"status_words", 0, set_words},
	{"expiry_attribute", offsetof(EoLayout, expiry), set_name},
	{"lease_attribute", offsetof(EoLayout, lease), set_name},
	{"result_attribute", offsetof(EoLayout, result), set_name},
	{"result_form", 0, set_form},
	{"updated_attribute", offsetof(EoLayout, updated), set_name},
	{"holder_attribute", offsetof(EoLayout, holder), set_name},
	{"instants", 0, set_instants},
	{"validation_attribute", offsetof(EoLayout, validation), set_name},
	{EO_LAYOUT_STALE_AFTER, 0, set_stale},
	{"failed", offsetof(EoLayout, failed), set_failed}
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

static bool set_option(EoLayout *layout, char *text, const char **option, const char **reason);
static bool check_together(const EoLayout *layout, const char **option, const char **reason);
static bool check_names(const EoLayout *layout, const char **option, const char **reason);
static void fill_attributes(EoLayout *layout);

/* Servers are altered, and a process may meet any number of layouts: so many are remembered. */
#define MAX_OTHERS 64

/* The layouts other than native: the one that was asked for last is the first. */
static EoLayout *others;
static int	nothers;

/* Forget the one that was not asked for for longest, of those that nobody keeps. */
static void
forget_oldest(void)
{
	EoLayout  **oldest = NULL;
	EoLayout   *layout;

	for (EoLayout **place = &others->next->next; *place != NULL; place = &(*place)->next)
	{
		if ((*place)->users == 0)
			oldest = place;
	}
	if (oldest == NULL)
		return;
	layout = *oldest;
	*oldest = layout->next;
	nothers--;
	free(layout);
}

void
eo_layout_keep(const EoLayout *layout)
{
	((EoLayout *) layout)->users++;
}

void
eo_layout_release(const EoLayout *layout)
{
	((EoLayout *) layout)->users--;
}

static const EoLayout *
put_first(EoLayout *layout)
{
	layout->next = others;
	others = layout;
	return layout;
}

const EoLayout *
eo_layout_find(const char *text)
{
	static uint64_t last_number;
	EoLayout   *layout;
	const char *option;
	const char *reason;

	if (strcmp(text, native.text) == 0)
		return &native;
	for (EoLayout **place = &others; *place != NULL; place = &(*place)->next)
	{
		layout = *place;
		if (strcmp(layout->text, text) != 0)
			continue;
		*place = layout->next;
		return put_first(layout);
	}
	layout = malloc(sizeof(EoLayout));
	if (layout == NULL || !eo_layout_read(layout, text, &option, &reason))
	{
		free(layout);
		return NULL;
	}
	layout->number = ++last_number;
	(void) put_first(layout);
	if (++nothers > MAX_OTHERS)
		forget_oldest();
	return layout;
}

bool
eo_layout_read(EoLayout *layout, const char *text, const char **option, const char **reason)
{
	size_t		len = strlen(text);
	size_t		name_len = strcspn(text, ";");
	size_t		i = 0;
	char	   *value;

	*option = "layout";
	*reason = "Layout and the options that say how records are spelled are too long together.";
	if (len > EO_MAX_LAYOUT_BYTES)
		return false;
	while (i < sizeof(defaults) / sizeof(defaults[0]) &&
		   (strlen(defaults[i].name) != name_len || memcmp(defaults[i].name, text, name_len) != 0))
		i++;
	*reason = "There is no such record layout.";
	if (i == sizeof(defaults) / sizeof(defaults[0]))
		return false;
	*layout = defaults[i];
	memcpy(layout->text, text, len + 1);
	memcpy(layout->values, text, len + 1);
	for (value = strchr(layout->values, ';'); value != NULL;)
	{
		char	   *next = strchr(value + 1, ';');

		if (next != NULL)
			*next = '\0';
		if (!set_option(layout, value + 1, option, reason))
			return false;
		value = next;
	}
	if (!check_together(layout, option, reason) || !check_names(layout, option, reason))
		return false;
	fill_attributes(layout);
	return true;
}

const char *
eo_layout_option(int i)
{
	return i < (int) N_OPTIONS ? options[i].name : NULL;
}

/* Set "option=value". */
static bool
set_option(EoLayout *layout, char *text, const char **option, const char **reason)
{
	char	   *value = strchr(text, '=');

	*reason = "There is no such option of layouts.";
	if (value == NULL)
		return false;
	*value++ = '\0';
	for (size_t i = 0; i < N_OPTIONS; i++)
	{
		if (strcmp(options[i].name, text) != 0)
			continue;
		*option = options[i].name;
		return options[i].set(layout, (const char **) ((char *) layout + options[i].member),
							  value, reason);
	}
	return false;
}

/* Names and words go into requests as they are, so they need no escapes there. */
static bool
is_plain(const char *value)
{
	for (; *value != '\0'; value++)
	{
		if (*value < ' ' || *value > '~' || *value == '"' || *value == '\\' || *value == ';')
			return false;
	}
	return true;
}

static bool
set_name(EoLayout *layout, const char **member, char *value, const char **reason)
{
	(void) layout;
	*member = value;
	return eo_layout_is_name(value, reason);
}

bool
eo_layout_is_name(const char *value, const char **reason)
{
	*reason = "The name of an attribute has 1 to 64 printable ASCII characters, without quotes, backslashes and semicolons.";
	if (*value == '\0' || strlen(value) > EO_MAX_NAME_BYTES || !is_plain(value))
		return false;
	*reason = "Names that begin with \"eo_\" are those of the extension's own attributes.";
	return strncmp(value, "eo_", 3) != 0;
}

static bool
set_text(EoLayout *layout, const char **member, char *value, const char **reason)
{
	(void) layout;
	*member = value;
	*reason = "It has printable ASCII characters only, without quotes, backslashes and semicolons.";
	return is_plain(value);
}

/* 'in_progress=Pending, completed=Completed, failed=Failed'; failed may be left out. */
static bool
set_words(EoLayout *layout, const char **member, char *value, const char **reason)
{
	static const char *const names[] = {
		[EO_STATE_IN_PROGRESS] = "in_progress",[EO_STATE_COMMITTING] = "",
		[EO_STATE_COMPLETED] = "completed",[EO_STATE_FAILED] = "failed"
	};
	const char **words = layout->words;
	char	   *rest;

	(void) member;
	*reason = "Needed are in_progress=..., completed=... and, where the table has such a word, failed=..., with commas between them.";
	memset(words, 0, sizeof(layout->words));
	for (char *pair = strtok_r(value, ",", &rest); pair != NULL; pair = strtok_r(NULL, ",", &rest))
	{
		char	   *word = strchr(pair, '=');
		int			state = 0;

		pair += strspn(pair, " ");
		if (word == NULL)
			return false;
		*word++ = '\0';
		for (size_t len = strlen(word); len > 0 && word[len - 1] == ' '; len--)
			word[len - 1] = '\0';
		while (state < 4 && strcmp(names[state], pair) != 0)
			state++;
		if (state == 4 || words[state] != NULL || *pair == '\0' || *word == '\0' ||
			strlen(word) > EO_MAX_NAME_BYTES || !is_plain(word))
			return false;
		words[state] = word;
	}
	if (words[EO_STATE_IN_PROGRESS] == NULL || words[EO_STATE_COMPLETED] == NULL)
		return false;
	words[EO_STATE_COMMITTING] = words[EO_STATE_IN_PROGRESS];
	*reason = "Two states have the same word.";
	if (strcmp(words[EO_STATE_IN_PROGRESS], words[EO_STATE_COMPLETED]) == 0 ||
		(words[EO_STATE_FAILED] != NULL &&
		 (strcmp(words[EO_STATE_FAILED], words[EO_STATE_IN_PROGRESS]) == 0 ||
		  strcmp(words[EO_STATE_FAILED], words[EO_STATE_COMPLETED]) == 0)))
		return false;
	if (words[EO_STATE_FAILED] == NULL)
		words[EO_STATE_FAILED] = words[EO_STATE_IN_PROGRESS];
	return true;
}

static bool
set_form(EoLayout *layout, const char **member, char *value, const char **reason)
{
	(void) member;
	layout->native_result = strcmp(value, "native") == 0;
	*reason = "Valid forms are: text, native.";
	return layout->native_result || strcmp(value, "text") == 0;
}

static bool
set_instants(EoLayout *layout, const char **member, char *value, const char **reason)
{
	(void) member;
	*reason = "Valid forms are: s, ms, iso.";
	return eo_timestamps_find_form(value, &layout->instants);
}

/* In milliseconds: the layer above has made them of an interval. */
static bool
set_stale(EoLayout *layout, const char **member, char *value, const char **reason)
{
	char	   *end;

	(void) member;
	layout->stale_ms = strtoll(value, &end, 10);
	*reason = "It lasts from 1 second to 7 days.";
	return *end == '\0' && layout->stale_ms >= 1000 && layout->stale_ms <= INT64_C(604800000);
}

static bool
set_failed(EoLayout *layout, const char **member, char *value, const char **reason)
{
	(void) layout;
	*member = value;
	*reason = "Valid are: retry, after_expiry, final.";
	return strcmp(value, EO_FAILED_RETRY) == 0 || strcmp(value, EO_FAILED_AFTER_EXPIRY) == 0 ||
		strcmp(value, EO_FAILED_FINAL) == 0;
}

static bool
check_together(const EoLayout *layout, const char **option, const char **reason)
{
	*option = "partition_value";
	*reason = "A static partition needs a sort_key_attribute, which has the key then.";
	if (layout->key.partition_value != NULL &&
		(layout->key.sort_name == NULL || layout->key.partition_value[0] == '\0'))
		return false;
	*option = "stale_after";
	*reason = "It is the age of the updated_attribute, so that option is needed, too.";
	if (layout->stale_ms > 0 && layout->updated == NULL)
		return false;
	*reason = "Clients of a table with a lease_attribute go by that, and not by the updated_attribute.";
	if (layout->stale_ms > 0 && layout->lease != NULL)
		return false;
	*option = "status_words";
	*reason = "Powertools refuses to read a record whose status it does not know: leave failed out.";
	if (strncmp(layout->name, "powertools-", 11) == 0 && eo_layout_has_failed(layout))
		return false;
	*option = "failed";
	*reason = "It is about records that other clients have marked as failed, for which status_words has no word.";
	if (layout->failed != NULL && !eo_layout_has_failed(layout))
		return false;
	return true;
}

/* Each attribute needs a name of its own, other than those in the item of a life. */
static bool
check_names(const EoLayout *layout, const char **option, const char **reason)
{
	static const char *const of_lives[] = {"state", "beat", "nonce", "ancestors", "home",
		"system_identifier", "database", "timeline", "retired_by", "created_ms", "updated_ms",
	"ttl"};

	for (size_t i = 0; i < N_OPTIONS; i++)
	{
		const char *name = *(const char *const *) ((const char *) layout + options[i].member);
		bool		is_key = options[i].member == offsetof(EoLayout, key.name) ||
		options[i].member == offsetof(EoLayout, key.sort_name);

		if (options[i].set != set_name || name == NULL)
			continue;
		*option = options[i].name;
		*reason = "Another option names the same attribute.";
		for (size_t j = 0; j < i; j++)
		{
			const char *other = *(const char *const *) ((const char *) layout + options[j].member);

			if (options[j].set == set_name && other != NULL && strcmp(other, name) == 0)
				return false;
		}
		*reason = "The items of lives, which are in the table, too, have an attribute of this name.";
		for (size_t j = 0; is_key && j < sizeof(of_lives) / sizeof(of_lives[0]); j++)
		{
			if (strcmp(of_lives[j], name) == 0)
				return false;
		}
		*reason = "The items of lives, which are in the table, too, have another value in it.";
		for (size_t j = 0; options[i].member == offsetof(EoLayout, expiry) && j < 11; j++)
		{
			if (strcmp(of_lives[j], name) == 0)
				return false;
		}
	}
	return true;
}

static void
fill_attributes(EoLayout *layout)
{
	EoAttributeName *a = layout->attributes;

	memcpy(a, own_names, sizeof(own_names));
	memcpy(layout->states, own_states, sizeof(own_states));
	a[EO_A_KEY].name = layout->key.name;
	a[EO_A_SORT_KEY].name = layout->key.sort_name;
	a[EO_A_STATUS_SHOWN].name = layout->status;
	a[EO_A_EXPIRY_SHOWN].name = layout->expiry;
	a[EO_A_LEASE_SHOWN].name = layout->lease;
	a[EO_A_UPDATED_SHOWN].name = layout->updated;
	if (layout->result != NULL)
		a[EO_A_RESULT].name = layout->result;
	if (layout->validation != NULL)
		a[EO_A_PAYLOAD].name = layout->validation;
	if (layout->holder != NULL)
		a[EO_A_HOLDER].name = layout->holder;
}
