/*-------------------------------------------------------------------------
 *
 * validator.c
 *	  Checks the options of servers and user mappings when they are written.
 *
 * One table (options[]) names every option, the catalog it may be in, its bounds, and the
 * function that checks it.  A value that cannot work is refused here, with the
 * reason, and not when it is first used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "compat.h"
#include "fmgr.h"
#include "identity/chain.h"
#include "miscadmin.h"
#include "records/action_names.h"
#include "records/layout.h"
#include "server/option_values.h"
#include "server/options.h"
#include "utils/builtins.h"
#include "wire/endpoint.h"

#define MIN_PEPPER 16

/* An option, and what its values must be like. */
typedef struct EoOption
{
	const char *name;
	Oid			catalog;		/* it is an option of servers or of mappings */
	bool		superuser_only; /* only a superuser may set it */

	/*
	 * Returns a sentence that says what is wrong with a value; NULL: nothing.
	 * A check that knows a better hint than that of the option, or must not
	 * show the value, refuses it by itself.
	 */
	const char *(*check) (const struct EoOption *opt, const char *value);
	const char *detail;			/* such a sentence */
	const char *hint;

	int64		min;			/* of a number, of a duration in milliseconds,
								 * or of the bytes of a text */
	int64		max;
	const char *allowed;		/* the characters of a text; or words, with a
								 * blank around each */
} EoOption;

pg_noreturn static void refuse(const char *name, const char *value, const char *detail,
							   const char *hint);

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* ----- the values of single options ----- */

static const char *
check_region(const EoOption *opt, const char *value)
{
	return eo_endpoint_is_region(value) ? NULL : opt->detail;
}

static const char *
check_endpoint(const EoOption *opt, const char *value)
{
	EoEndpoint	ep;
	const char *reason;

	(void) opt;
	return eo_endpoint_parse(value, &ep, &reason) ? NULL : reason;
}

static const char *
check_text(const EoOption *opt, const char *value)
{
	size_t		len = strlen(value);

	return len >= (size_t) opt->min && len <= (size_t) opt->max &&
		strspn(value, opt->allowed) == len ? NULL : opt->detail;
}

/* Several of them, with commas between two. */
static const char *
check_texts(const EoOption *opt, const char *value)
{
	const char *detail = NULL;
	ListCell   *lc;

	foreach(lc, eo_option_values_list(value))
	{
		if (detail == NULL)
			detail = check_text(opt, lfirst(lc));
	}
	return detail;
}

static const char *
check_word(const EoOption *opt, const char *value)
{
	return strchr(value, ' ') == NULL && strstr(opt->allowed, psprintf(" %s ", value)) != NULL ?
		NULL : opt->detail;
}

/* A semicolon would be read as the end of the option. */
static const char *
check_layout_part(const EoOption *opt, const char *value)
{
	return strchr(value, ';') == NULL ? NULL : opt->detail;
}

static const char *
check_key_prefix(const EoOption *opt, const char *value)
{
	size_t		len = strlen(value);

	if (len > 512)
		refuse(opt->name, value, "A key prefix has at most 512 bytes.",
			   "It counts against the 2,048 bytes of every key.");

	/* Otherwise a prefix could be the beginning of another one with its keys. */
	if (len > 0 && strcspn(value, "/#") != len - 1)
		refuse(opt->name, value, "A key prefix ends in \"/\" or \"#\", and has neither before.",
			   "Give a prefix such as 'payments/'.");
	return NULL;
}

static const char *
check_profile(const EoOption *opt, const char *value)
{
	size_t		len = strlen(value);

	return len >= 1 && len <= EO_MAX_PROFILE && strpbrk(value, "[]\r\n\"'#;") == NULL ?
		NULL : opt->detail;
}

/* "ARNs" in the IAM User Guide: arn:partition:iam::account:role/path/name */
static const char *
check_role_arn(const EoOption *opt, const char *value)
{
	size_t		len = strlen(value);

	return len >= 20 && len <= EO_MAX_ARN && strncmp(value, "arn:", 4) == 0 &&
		strstr(value, ":iam::") != NULL && strstr(value, ":role/") != NULL &&
		strpbrk(value, " \t\r\n") == NULL ? NULL : opt->detail;
}

static const char *
check_ca_file(const EoOption *opt, const char *value)
{
	if (!is_absolute_path(value) || strlen(value) > EO_MAX_CHAIN_URL)
		refuse(opt->name, value, "This is not an absolute path.",
			   "Give a file of PEM certificates on the database server.");
	if (access(value, R_OK) != 0)
		refuse(opt->name, value, "The database server cannot read this file.",
			   "It must be readable by the operating-system user that PostgreSQL runs as.");
	return NULL;
}

static const char *
check_boolean(const EoOption *opt, const char *value)
{
	bool		b;

	return parse_bool(value, &b) ? NULL : opt->detail;
}

static const char *
check_number(const EoOption *opt, const char *value)
{
	char	   *end;
	long		n;

	errno = 0;
	n = strtol(value, &end, 10);
	return errno == 0 && end != value && *end == '\0' && n >= opt->min && n <= opt->max ?
		NULL : opt->detail;
}

static const char *
check_duration(const EoOption *opt, const char *value)
{
	int64		ms;

	if (!eo_option_values_duration(value, &ms))
		return "This is not a duration.";
	return ms >= opt->min && ms <= opt->max ? NULL : opt->detail;
}

static const char *
check_access_key_id(const EoOption *opt, const char *value)
{
	size_t		len = strlen(value);

	if (len < 1 || len > 128 || strspn(value, LETTERS_AND_DIGITS "_") != len)
		refuse(opt->name, NULL, "An access key id has 1 to 128 letters and digits.", NULL);
	return NULL;
}

static const char *
check_secret(const EoOption *opt, const char *value)
{
	size_t		len = strlen(value);
	bool		printable = true;

	for (size_t i = 0; i < len; i++)
	{
		if (value[i] <= ' ' || value[i] > '~')
			printable = false;
	}
	if (len < 1 || len > 4096 || !printable)
		refuse(opt->name, NULL, "It must have 1 to 4096 printable ASCII characters and no blanks.",
			   "Look for a line break or a blank copied along with it.");
	return NULL;
}

/* A pepper that can be guessed protects nothing. */
static const char *
check_pepper(const EoOption *opt, const char *value)
{
	(void) check_secret(opt, value);
	if (strlen(value) < MIN_PEPPER)
		refuse(opt->name, NULL, psprintf("It must have at least %d characters.", MIN_PEPPER),
			   "Have it made by a program, for example: openssl rand -base64 32.");
	return NULL;
}

/* ----- the options ----- */

#define OPTION(name, superuser_only, check, detail, hint) \
	{name, ForeignServerRelationId, superuser_only, check, detail, hint, 0, 0, NULL}
#define TEXT(name, superuser_only, check, detail, hint, min, max, allowed) \
	{name, ForeignServerRelationId, superuser_only, check, detail, hint, min, max, allowed}
#define OF_MAPPING(name, check) {name, UserMappingRelationId, false, check, NULL, NULL, 0, 0, NULL}
#define BOOLEAN(name, superuser_only) \
	{name, ForeignServerRelationId, superuser_only, check_boolean, "This is not a boolean.", \
	"Use true or false.", 0, 0, NULL}
#define DURATION(name, min, max, detail) \
	{name, ForeignServerRelationId, false, check_duration, detail, \
	"Give a number and a unit, such as 500ms, 60s or 7 days.", min, max, NULL}
#define NUMBER(name, max, detail, hint) \
	{name, ForeignServerRelationId, false, check_number, detail, hint, 1, max, NULL}
/* Layouts are checked with all of their options, in check_layout(). */
#define LAYOUT_PART(name) \
	OPTION(name, false, check_layout_part, "A semicolon is not allowed here.", "Leave it out.")

#define TABLE_NAME "A table name has 3 to 255 letters, digits, underscores, hyphens and dots."

static const EoOption options[] =
{
	OPTION("region", false, check_region, "A region has lower-case letters, digits and hyphens.",
		   "For example: eu-west-1."),
	OPTION("endpoint", false, check_endpoint, NULL,
		   "Give scheme, host and, where needed, port: https://dynamodb.eu-west-1.amazonaws.com or http://localhost:8000."),
	BOOLEAN("dualstack", false),
	BOOLEAN("fips", false),
	TEXT("table", false, check_text, TABLE_NAME,
		 "Give the plain name of the DynamoDB table, not its ARN.",
		 3, 255, LETTERS_AND_DIGITS "_.-"),
	LAYOUT_PART("layout"),
	LAYOUT_PART("key_attribute"),
	LAYOUT_PART("item_prefix"),
	LAYOUT_PART("sort_key_attribute"),
	LAYOUT_PART("partition_value"),
	LAYOUT_PART("status_attribute"),
	LAYOUT_PART("status_words"),
	LAYOUT_PART("expiry_attribute"),
	LAYOUT_PART("lease_attribute"),
	LAYOUT_PART("result_attribute"),
	LAYOUT_PART("result_form"),
	LAYOUT_PART("updated_attribute"),
	LAYOUT_PART("holder_attribute"),
	LAYOUT_PART("instants"),
	LAYOUT_PART("validation_attribute"),
	DURATION("stale_after", 1000, EO_MAX_LEASE_MS,
			 "It lasts from 1 second to 7 days."),
	LAYOUT_PART("failed"),
	TEXT("action_layout", false, check_word, "There is no such layout of actions.",
		 "Valid layouts are: native, seed.", 0, 0, " native seed "),
	LAYOUT_PART("action_active"),
	LAYOUT_PART("action_expires"),
	LAYOUT_PART("action_consumed"),
	LAYOUT_PART("action_canceled"),
	TEXT("action_pin_hash", false, check_word, "There is no such hash of PINs.",
		 "Valid is sha256: SHA-256 of the PIN in UTF-8, in lower-case hexadecimal digits.", 0, 0, " sha256 "),
	OPTION("key_prefix", false, check_key_prefix, NULL, NULL),
	DURATION("lease", EO_MIN_LEASE_MS, EO_MAX_LEASE_MS,
			 "A lease lasts from 100 milliseconds to 7 days."),
	DURATION("cache_ttl", 0, 3600000,
			 "Completed keys are remembered for up to an hour; 0 is not at all."),
	DURATION("retention", EO_MIN_RETENTION_S * 1000, EO_MAX_RETENTION_S * 1000,
			 "Retention lasts from 1 hour to 3650 days."),
	DURATION("connect_timeout", 10, 60000,
			 "The time to connect lasts from 10 milliseconds to 60 seconds."),
	DURATION("request_timeout", 50, 300000,
			 "The time for a request and its retries lasts from 50 milliseconds to 5 minutes."),
	DURATION("commit_timeout", 50, 300000,
			 "The time to seal all keys of a transaction lasts from 50 milliseconds to 5 minutes."),
	DURATION("max_hold", 0, EO_MAX_LEASE_MS,
			 "A transaction may hold its claims for up to 7 days; 0 is no limit."),
	NUMBER("max_attempts", 20, "This is a whole number from 1 to 20.",
		   "1 means that nothing is retried."),
	NUMBER("parallel_requests", 64, "This is a whole number from 1 to 64.",
		   "It bounds the connections that a backend has open at a time."),
	BOOLEAN("batch_requests", false),
	BOOLEAN("return_capacity", false),
	BOOLEAN("role_mappings", false),
	DURATION("clock_skew", 0, 300000,
			 "The margin for clocks lasts from 0 to 5 minutes."),
	NUMBER("pin_attempts", EO_MAX_PIN_ATTEMPTS, "This is a whole number from 1 to 20.",
		   "It bounds the guesses at the PIN of an action that is created from now on."),
	TEXT("transact_tables", false, check_texts, TABLE_NAME,
		 "Give the plain names of the tables that idem_transact() may write to, with commas between them.",
		 3, 255, LETTERS_AND_DIGITS "_.-"),
	TEXT("credentials", true, check_word, "There is no such source of credentials.",
		 "Valid sources are: mapping, environment, chain.", 0, 0, " mapping environment chain "),
	OPTION("profile", true, check_profile,
		   "A profile has a name of 1 to 128 bytes without brackets, quotes, \"#\" and \";\".",
		   "Give the name that follows \"profile\" in the configuration file."),
	OPTION("role_arn", true, check_role_arn, "This is not the ARN of a role.",
		   "For example: arn:aws:iam::123456789012:role/exactonce."),
	/* AssumeRole in the AWS STS API Reference. */
	TEXT("external_id", true, check_text,
		 "An external id has 2 to 1224 letters, digits and characters of _+=,.@:/-",
		 "Give the one that the trust policy of the role asks for.",
		 2, EO_MAX_EXTERNAL_ID, LETTERS_AND_DIGITS "_+=,.@:/-"),
	OPTION("ca_file", true, check_ca_file, NULL, NULL),
	BOOLEAN("allow_http", true),
	BOOLEAN("home", true),
	OF_MAPPING("access_key_id", check_access_key_id),
	OF_MAPPING("secret_access_key", check_secret),
	OF_MAPPING("session_token", check_secret),
	OF_MAPPING("pin_pepper", check_pepper),
};

pg_noreturn static void refuse_unknown(const char *name, Oid catalog);
static const char *credentials_of(List *list);
static void check_together(List *list);
static void check_layout(List *list);
static void check_required(List *list, const char *name, const char *example);

PG_FUNCTION_INFO_V1(eo_fdw_validator);

/* fdw_validator(options text[], catalog oid) */
Datum
eo_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *list = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	ListCell   *lc;

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const EoOption *opt = NULL;
		const char *detail;

		for (int i = 0; i < (int) lengthof(options); i++)
		{
			if (options[i].catalog == catalog && strcmp(options[i].name, def->defname) == 0)
				opt = &options[i];
		}
		if (opt == NULL)
			refuse_unknown(def->defname, catalog);

		/*
		 * These decide what the operating-system user of the database server
		 * reads or trusts.  options.c checks the owner again when the server
		 * is used, because of ALTER SERVER ... OWNER TO.
		 */
		if (opt->superuser_only && !superuser())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("only a superuser may set option \"%s\"", opt->name),
					 errhint("Ask a superuser to create the server, or leave the option out.")));
		detail = opt->check(opt, defGetString(def));
		if (detail != NULL)
			refuse(opt->name, defGetString(def), detail, opt->hint);
	}
	if (catalog == ForeignServerRelationId)
	{
		check_together(list);
		check_layout(list);
		/* The database server's own credentials come with a region. */
		if (strcmp(credentials_of(list), "mapping") == 0)
			check_required(list, "region", "eu-west-1");
		check_required(list, "table", "idempotency");
	}
	PG_RETURN_VOID();
}

static const char *
credentials_of(List *list)
{
	const char *credentials = eo_option_values_find(list, "credentials");

	return credentials != NULL ? credentials : "mapping";
}

/* The layout and the options that say how it differs from its defaults. */
static void
check_layout(List *list)
{
	const char *text = eo_option_values_layout(list);
	const char *actions = eo_option_values_actions(list);
	const char *first = NULL;
	const char *value;
	const char *option;
	const char *reason;
	EoLayout	layout;

	for (int i = 0; (option = eo_layout_option(i)) != NULL && first == NULL; i++)
	{
		if (eo_option_values_find(list, option) != NULL)
			first = option;
	}
	if (strncmp(text, "native", strlen("native")) == 0 && strchr(";", text[strlen("native")]) != NULL)
	{
		if (first != NULL)
			refuse(first, eo_option_values_find(list, first),
				   "The layout native has fixed names.",
				   "Leave the option out, or add the option layout 'custom'.");
		if (actions != NULL)
			refuse("action_layout", "seed", "Such actions are in tables whose only key attribute is actionId.",
				   "Add the options layout 'custom' and key_attribute 'actionId'.");
		return;
	}
	if (eo_layout_read(&layout, text, &option, &reason) &&
		(actions == NULL || eo_action_names_check(&layout, actions, &option, &reason)))
		return;
	value = eo_option_values_find(list, option);
	if (strcmp(option, "layout") == 0)
		refuse(option, value != NULL ? value : "native", reason,
			   psprintf("Valid layouts are: %s.", eo_layout_names));
	refuse(option, value != NULL ? value : "", reason,
		   "The options of a layout are read together; see docs/interop.md.");
}

/*
 * An option that has no effect without another one is refused, because its author
 * believes that it has one.
 * Plain http is for loopback addresses, unless a superuser has allowed it.
 */
static void
check_together(List *list)
{
	const char *credentials = credentials_of(list);
	const char *role = eo_option_values_find(list, "role_arn");
	const char *external_id = eo_option_values_find(list, "external_id");
	const char *profile = eo_option_values_find(list, "profile");
	const char *endpoint = eo_option_values_find(list, "endpoint");
	static const char *const kinds[] = {"dualstack", "fips"};
	static const char *const of_actions[] = {"action_active", "action_expires",
	"action_consumed", "action_canceled", "action_pin_hash"};
	EoEndpoint	ep;
	const char *reason;

	if (profile != NULL && strcmp(credentials, "chain") != 0)
		refuse("profile", profile, "A profile counts only with credentials 'chain'.",
			   "Add the option credentials 'chain', or leave profile out.");
	if (role != NULL && strcmp(credentials, "mapping") == 0)
		refuse("role_arn", role,
			   "A role is assumed only with credentials 'chain' or 'environment'.",
			   "Add the option credentials 'chain', or leave role_arn out.");
	if (external_id != NULL && role == NULL)
		refuse("external_id", external_id, "An external id counts only with role_arn.",
			   "Add the option role_arn, or leave external_id out.");
	for (int i = 0; i < (int) lengthof(of_actions); i++)
	{
		const char *value = eo_option_values_find(list, of_actions[i]);

		if (value != NULL && eo_option_values_actions(list) == NULL)
			refuse(of_actions[i], value, "It counts only with action_layout 'seed'.",
				   "Add the option action_layout 'seed', or leave it out.");
	}
	for (int i = 0; endpoint != NULL && i < (int) lengthof(kinds); i++)
	{
		if (eo_option_values_is_true(list, kinds[i]))
			refuse(kinds[i], eo_option_values_find(list, kinds[i]),
				   "It chooses among the endpoints of AWS, and the option endpoint names another.",
				   "Leave one of the two out.");
	}
	if (endpoint == NULL || !eo_endpoint_parse(endpoint, &ep, &reason))
		return;
	if (!ep.https && !ep.loopback && !eo_option_values_is_true(list, "allow_http"))
		refuse("endpoint", endpoint,
			   "Plain http is allowed for loopback addresses only.",
			   "Use https, or have a superuser add the option allow_http 'true'.");
}

/* A server without the option cannot be used, and nothing else provides it. */
static void
check_required(List *list, const char *name, const char *example)
{
	if (eo_option_values_find(list, name) != NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			 errmsg("option \"%s\" is missing", name),
			 errdetail("A server must have the options region and table."),
			 errhint("For example: OPTIONS (%s '%s').", name, example)));
}

/* value NULL: it is a secret, which is never repeated in a message. */
static void
refuse(const char *name, const char *value, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 value != NULL ?
			 errmsg("invalid value for option \"%s\": \"%s\"", name, value) :
			 errmsg("invalid value for option \"%s\"", name),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static void
refuse_unknown(const char *name, Oid catalog)
{
	StringInfoData valid;

	initStringInfo(&valid);
	for (int i = 0; i < (int) lengthof(options); i++)
	{
		if (options[i].catalog == catalog)
			appendStringInfo(&valid, "%s%s", valid.len > 0 ? ", " : "", options[i].name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 valid.len > 0 ?
			 errhint("Valid options here are: %s.", valid.data) :
			 errhint("There are no valid options here; set them on the server or the user mapping.")));
}
