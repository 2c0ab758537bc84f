/*-------------------------------------------------------------------------
 *
 * action_names.c
 *	  The attributes of actions: their names and forms, and the options that change them.
 *
 *-------------------------------------------------------------------------
 */
#include "records/action_names.h"

#include <string.h>

#include "records/expression.h"
#include "records/layout.h"
#include "records/timestamps.h"

/* The names in a table of the layout native. */
const EoAttributeName eo_action_names[EO_N_AA + 1] = {
	[EO_AA_KEY] = {'k', "pk"},[EO_AA_ID] = {'i', EO_ACTION_SEED_KEY},
	[EO_AA_CREATED] = {'s', "createdAt"},[EO_AA_CREATED_TOKEN] = {'d', "createdToken"},
	[EO_AA_ACTIVE] = {'a', "activeAtMs"},[EO_AA_EXPIRES] = {'e', "expiresAtMs"},
	[EO_AA_PAYLOAD] = {'p', "payload"},[EO_AA_PIN_HASH] = {'h', "pinHash"},
	[EO_AA_PIN_PEPPER] = {'j', "pinPepper"},
	[EO_AA_PIN_ATTEMPTS] = {'m', "pinAttempts"},[EO_AA_PIN_TOKENS] = {'q', "pinTokens"},
	[EO_AA_CONSUMED] = {'c', "consumedAt"},[EO_AA_CONSUMED_TOKEN] = {'t', "consumedToken"},
	[EO_AA_CONSUMED_REASON] = {'r', "consumedReason"},[EO_AA_CONSUMED_BY] = {'b', "consumedBy"},
	[EO_AA_CANCELED] = {'x', "canceledAt"},[EO_AA_CANCELED_TOKEN] = {'y', "canceledToken"},
	[EO_AA_CANCELED_REASON] = {'w', "canceledReason"},[EO_AA_CLOSED] = {'z', "closedAt"},
	[EO_AA_STATUS] = {'u', "status"},[EO_AA_SEALED] = {'v', "sealedAt"},
	[EO_AA_OWNER] = {'o', "owner"},[EO_AA_ORIGIN] = {'g', "origin"},
	[EO_AA_TTL] = {'l', "ttl"}
};

/* The options of tables that are not native, each of which has a name and perhaps a form. */
static const struct
{
	const char *option;
	EoActionAttribute attribute;
	EoInstantForm form;
}			instants[] =
{
	{"action_active", EO_AA_ACTIVE, EO_INSTANT_MS},
	{"action_expires", EO_AA_EXPIRES, EO_INSTANT_MS},
	{"action_consumed", EO_AA_CONSUMED, EO_INSTANT_ISO},
	{"action_canceled", EO_AA_CANCELED, EO_INSTANT_ISO}
};

#define N_INSTANTS (sizeof(instants) / sizeof(instants[0]))

static bool read_instant_option(EoActionNames *names, int i, char *value, const char **reason);
static bool is_taken(const EoActionNames *names, const char *name, int but_for);

const char *
eo_action_names_option(int i)
{
	return i < (int) N_INSTANTS ? instants[i].option : NULL;
}

/* Read ";option=value" for each option that is not left to its default. */
bool
eo_action_names_read(EoActionNames *names, const char *options, const char **option,
					 const char **reason)
{
	size_t		len = strlen(options);
	char	   *rest;

	*option = "action_layout";
	*reason = "The options that say how actions are spelled are too long together.";
	if (len > EO_MAX_LAYOUT_BYTES)
		return false;
	memcpy(names->text, options, len + 1);
	memcpy(names->attributes, eo_action_names, sizeof(eo_action_names));
	for (int a = 0; a < EO_N_AA; a++)
		names->forms[a] = EO_INSTANT_ISO;
	for (size_t i = 0; i < N_INSTANTS; i++)
		names->forms[instants[i].attribute] = instants[i].form;
	for (char *text = strtok_r(names->text, ";", &rest); text != NULL;
		 text = strtok_r(NULL, ";", &rest))
	{
		char	   *value = strchr(text, '=');
		size_t		i = 0;

		*reason = "There is no such option of actions.";
		if (value == NULL)
			return false;
		*value++ = '\0';
		while (i < N_INSTANTS && strcmp(instants[i].option, text) != 0)
			i++;
		if (i == N_INSTANTS)
			return false;
		*option = instants[i].option;
		if (!read_instant_option(names, (int) i, value, reason))
			return false;
	}
	return true;
}

/* 'expiresAt', or 'expiresAt iso'. */
static bool
read_instant_option(EoActionNames *names, int i, char *value, const char **reason)
{
	EoActionAttribute a = instants[i].attribute;
	char	   *form = strchr(value, ' ');

	*reason = "Needed is the name of an attribute, and after a space, if need be, the form of the instant: s, ms or iso.";
	if (form != NULL)
	{
		*form++ = '\0';
		if (!eo_timestamps_find_form(form, &names->forms[a]))
			return false;
	}
	names->attributes[a].name = value;
	return eo_layout_is_name(value, reason);
}

/* Is an attribute's name that of another one, which actions of other tables have? */
static bool
is_taken(const EoActionNames *names, const char *name, int but_for)
{
	for (int a = 0; a < EO_AA_STATUS; a++)
	{
		if (a != but_for && strcmp(names->attributes[a].name, name) == 0)
			return true;
	}
	return false;
}

/* Actions and records are told apart by their attributes, so these need other names. */
bool
eo_action_names_check(const EoLayout *layout, const char *options,
					  const char **option, const char **reason)
{
	const char *names[] = {layout->expiry, layout->status, layout->lease, layout->updated,
	layout->result, layout->validation, layout->holder};
	const char *const of_names[] = {"expiry_attribute", "status_attribute", "lease_attribute",
	"updated_attribute", "result_attribute", "validation_attribute", "holder_attribute"};
	EoActionNames actions;

	*option = "action_layout";
	*reason = "Such actions are in tables whose only key attribute is actionId.";
	if (layout->is_native || strcmp(layout->key.name, EO_ACTION_SEED_KEY) != 0 ||
		layout->key.sort_name != NULL || layout->item_prefix[0] != '\0')
		return false;
	if (!eo_action_names_read(&actions, options, option, reason))
		return false;
	*reason = "Actions have an attribute of this name.";
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		*option = of_names[i];
		if (names[i] != NULL && is_taken(&actions, names[i], EO_N_AA))
			return false;
	}
	*reason = "Actions have another attribute of this name.";
	for (size_t i = 0; i < N_INSTANTS; i++)
	{
		*option = instants[i].option;
		if (is_taken(&actions, actions.attributes[instants[i].attribute].name,
					 (int) instants[i].attribute))
			return false;
	}
	return true;
}
