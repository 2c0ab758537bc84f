/*-------------------------------------------------------------------------
 *
 * action_names.h
 *	  The attributes of actions: their names and forms, and the options that change them.
 *
 * Options are for tables that are not native.  They come as a text: ";option=value" for each
 * option that is set.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_ACTION_NAMES_H
#define EO_RECORDS_ACTION_NAMES_H

#include <stdbool.h>

#include "records/expression.h"
#include "records/layout.h"
#include "records/timestamps.h"

/* The partition key of tables that are not native. */
#define EO_ACTION_SEED_KEY "actionId"

typedef enum EoActionAttribute
{
	EO_AA_ID,
	EO_AA_CREATED,
	EO_AA_CREATED_TOKEN,
	EO_AA_ACTIVE,
	EO_AA_EXPIRES,
	EO_AA_PAYLOAD,
	EO_AA_PIN_HASH,
	EO_AA_PIN_PEPPER,
	EO_AA_PIN_ATTEMPTS,
	EO_AA_PIN_TOKENS,
	EO_AA_CONSUMED,
	EO_AA_CONSUMED_TOKEN,
	EO_AA_CONSUMED_REASON,
	EO_AA_CONSUMED_BY,
	EO_AA_CANCELED,
	EO_AA_CANCELED_TOKEN,
	EO_AA_CANCELED_REASON,
	EO_AA_CLOSED,
	EO_AA_STATUS,				/* from here on none of other tables */
	EO_AA_SEALED,
	EO_AA_OWNER,
	EO_AA_ORIGIN,
	EO_AA_TTL,
	EO_AA_KEY,
	EO_N_AA
} EoActionAttribute;

/* The attributes, and the forms of instants where they are not numbers of milliseconds. */
typedef struct EoActionNames
{
	char		text[EO_MAX_LAYOUT_BYTES + 1];	/* of the names that options
												 * give */
	EoAttributeName attributes[EO_N_AA + 1];
	EoInstantForm forms[EO_N_AA];
} EoActionNames;

/* The names in a table of the layout native, with the letters of expressions. */
extern const EoAttributeName eo_action_names[EO_N_AA + 1];

/* The name of an option, in the order of their text; NULL: there are no more. */
extern const char *eo_action_names_option(int i);

/*
 * Read the options into *names.  False: *option names the option that is wrong, and *reason is a
 * sentence that says why.  Both are static.
 */
extern bool eo_action_names_read(EoActionNames *names, const char *options,
								 const char **option, const char **reason);

/* Can a table of this layout have actions with these options?  False: the same. */
extern bool eo_action_names_check(const EoLayout *layout, const char *options,
								  const char **option, const char **reason);

#endif							/* EO_RECORDS_ACTION_NAMES_H */
