/*-------------------------------------------------------------------------
 *
 * validator.c
 *	  Checks the options of servers and user mappings when they are written.
 *
 * One table (options[]) names every option, the catalog it may be in, and its
 * bounds or the function that checks it.  A value that cannot work is refused here, with the
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

typedef void (*EoCheck) (const char *name, const char *value);

typedef struct EoOption
{
	const char *name;
	Oid			catalog;		/* it is an option of servers or of mappings */
	bool		superuser_only; /* only a superuser may set it */
	EoCheck		check;			/* NULL: these */

	/* Of a whole number, or without a hint of a duration, in milliseconds. */
	int64		min;
	int64		max;
	const char *bounds;			/* a sentence that names them */
	const char *hint;
} EoOption;

static void check_region(const char *name, const char *value);
static void check_endpoint(const char *name, const char *value);
static void check_table(const char *name, const char *value);
static void check_transact_tables(const char *name, const char *value);
static void check_layout_part(const char *name, const char *value);
static void check_action_layout(const char *name, const char *value);
static void check_pin_hash(const char *name, const char *value);
static void check_key_prefix(const char *name, const char *value);
static void check_credentials(const char *name, const char *value);
static void check_profile(const char *name, const char *value);
static void check_role_arn(const char *name, const char *value);
static void check_external_id(const char *name, const char *value);
static void check_ca_file(const char *name, const char *value);
static void check_boolean(const char *name, const char *value);
static void check_access_key_id(const char *name, const char *value);
static void check_secret(const char *name, const char *value);
static void check_pepper(const char *name, const char *value);

#define OF_SERVER(name, superuser_only, check) \
	{name, ForeignServerRelationId, superuser_only, check, 0, 0, NULL, NULL}
#define OF_MAPPING(name, check) {name, UserMappingRelationId, false, check, 0, 0, NULL, NULL}
#define DURATION(name, min, max, bounds) \
	{name, ForeignServerRelationId, false, NULL, min, max, bounds, NULL}
#define NUMBER(name, max, bounds, hint) \
	{name, ForeignServerRelationId, false, NULL, 1, max, bounds, hint}

static const EoOption options[] =
{
	OF_SERVER("region", false, check_region),
	OF_SERVER("endpoint", false, check_endpoint),
	OF_SERVER("dualstack", false, check_boolean),
	OF_SERVER("fips", false, check_boolean),
	OF_SERVER("table", false, check_table),
	OF_SERVER("layout", false, check_layout_part),
	OF_SERVER("key_attribute", false, check_layout_part),
	OF_SERVER("item_prefix", false, check_layout_part),
	OF_SERVER("sort_key_attribute", false, check_layout_part),
	OF_SERVER("partition_value", false, check_layout_part),
	OF_SERVER("status_attribute", false, check_layout_part),
	OF_SERVER("status_words", false, check_layout_part),
	OF_SERVER("expiry_attribute", false, check_layout_part),
	OF_SERVER("lease_attribute", false, check_layout_part),
	OF_SERVER("result_attribute", false, check_layout_part),
	OF_SERVER("result_form", false, check_layout_part),
	OF_SERVER("updated_attribute", false, check_layout_part),
	OF_SERVER("holder_attribute", false, check_layout_part),
	OF_SERVER("instants", false, check_layout_part),
	OF_SERVER("validation_attribute", false, check_layout_part),
	DURATION("stale_after", 1000, EO_MAX_LEASE_MS,
			 "It lasts from 1 second to 7 days."),
	OF_SERVER("failed", false, check_layout_part),
	OF_SERVER("action_layout", false, check_action_layout),
	OF_SERVER("action_active", false, check_layout_part),
	OF_SERVER("action_expires", false, check_layout_part),
	OF_SERVER("action_consumed", false, check_layout_part),
	OF_SERVER("action_canceled", false, check_layout_part),
	OF_SERVER("action_pin_hash", false, check_pin_hash),
	OF_SERVER("key_prefix", false, check_key_prefix),
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
	OF_SERVER("batch_requests", false, check_boolean),
	OF_SERVER("return_capacity", false, check_boolean),
	DURATION("clock_skew", 0, 300000,
			 "The margin for clocks lasts from 0 to 5 minutes."),
	NUMBER("pin_attempts", EO_MAX_PIN_ATTEMPTS, "This is a whole number from 1 to 20.",
		   "It bounds the guesses at the PIN of an action that is created from now on."),
	OF_SERVER("transact_tables", false, check_transact_tables),
	OF_SERVER("credentials", true, check_credentials),
	OF_SERVER("profile", true, check_profile),
	OF_SERVER("role_arn", true, check_role_arn),
	OF_SERVER("external_id", true, check_external_id),
	OF_SERVER("ca_file", true, check_ca_file),
	OF_SERVER("allow_http", true, check_boolean),
	OF_MAPPING("access_key_id", check_access_key_id),
	OF_MAPPING("secret_access_key", check_secret),
	OF_MAPPING("session_token", check_secret),
	OF_MAPPING("pin_pepper", check_pepper),
};

pg_noreturn static void refuse(const char *name, const char *value, const char *detail,
							   const char *hint);
pg_noreturn static void refuse_unknown(const char *name, Oid catalog);
static void check_together(List *list);
static void check_layout(List *list);
static void check_required(List *list);
static void check_number(const EoOption *opt, const char *value);
static void check_duration(const EoOption *opt, const char *value);

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
		if (opt->check != NULL)
			opt->check(opt->name, defGetString(def));
		else if (opt->hint != NULL)
			check_number(opt, defGetString(def));
		else
			check_duration(opt, defGetString(def));
	}
	if (catalog == ForeignServerRelationId)
	{
		check_together(list);
		check_layout(list);
		check_required(list);
	}
	PG_RETURN_VOID();
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
	const char *credentials = eo_option_values_find(list, "credentials");
	const char *role = eo_option_values_find(list, "role_arn");
	const char *external_id = eo_option_values_find(list, "external_id");
	const char *profile = eo_option_values_find(list, "profile");
	const char *endpoint = eo_option_values_find(list, "endpoint");
	static const char *const kinds[] = {"dualstack", "fips"};
	static const char *const of_actions[] = {"action_active", "action_expires",
	"action_consumed", "action_canceled", "action_pin_hash"};
	EoEndpoint	ep;
	const char *reason;

	if (profile != NULL && (credentials == NULL || strcmp(credentials, "chain") != 0))
		refuse("profile", profile, "A profile counts only with credentials 'chain'.",
			   "Add the option credentials 'chain', or leave profile out.");
	if (role != NULL && (credentials == NULL || strcmp(credentials, "mapping") == 0))
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

/*
 * A server without these options cannot be used.  Nothing else provides them, except the
 * region where credentials are the database server's own.
 */
static void
check_required(List *list)
{
	const char *credentials = eo_option_values_find(list, "credentials");
	bool		finds_region = credentials != NULL && strcmp(credentials, "mapping") != 0;
	static const struct
	{
		const char *name;
		const char *example;
	}			required[] = {{"region", "eu-west-1"}, {"table", "idempotency"}};

	for (int i = 0; i < (int) lengthof(required); i++)
	{
		if (strcmp(required[i].name, "region") == 0 && finds_region)
			continue;
		if (eo_option_values_find(list, required[i].name) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
					 errmsg("option \"%s\" is missing", required[i].name),
					 errdetail("A server must have the options region and table."),
					 errhint("For example: OPTIONS (%s '%s').", required[i].name,
							 required[i].example)));
	}
}

static void
refuse(const char *name, const char *value, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
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

static void
check_region(const char *name, const char *value)
{
	if (!eo_endpoint_is_region(value))
		refuse(name, value,
			   "A region has lower-case letters, digits and hyphens.",
			   "For example: eu-west-1.");
}

static void
check_endpoint(const char *name, const char *value)
{
	EoEndpoint	ep;
	const char *reason;

	if (!eo_endpoint_parse(value, &ep, &reason))
		refuse(name, value, reason,
			   "Give scheme, host and, where needed, port: https://dynamodb.eu-west-1.amazonaws.com or http://localhost:8000.");
}

static bool
is_table_name(const char *value)
{
	size_t		len = strlen(value);

	return len >= 3 && len <= 255 &&
		strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == len;
}

static void
check_table(const char *name, const char *value)
{
	if (!is_table_name(value))
		refuse(name, value,
			   "A table name has 3 to 255 letters, digits, underscores, hyphens and dots.",
			   "Give the plain name of the DynamoDB table, not its ARN.");
}

static void
check_transact_tables(const char *name, const char *value)
{
	ListCell   *lc;

	foreach(lc, eo_option_values_list(value))
	{
		if (!is_table_name(lfirst(lc)))
			refuse(name, value,
				   "A table name has 3 to 255 letters, digits, underscores, hyphens and dots.",
				   "Give the plain names of the tables that idem_transact() may write to, with commas between them.");
	}
}

static void
check_action_layout(const char *name, const char *value)
{
	if (strcmp(value, "native") != 0 && strcmp(value, "seed") != 0)
		refuse(name, value, "There is no such layout of actions.", "Valid layouts are: native, seed.");
}

static void
check_pin_hash(const char *name, const char *value)
{
	if (strcmp(value, "sha256") != 0)
		refuse(name, value, "There is no such hash of PINs.",
			   "Valid is sha256: SHA-256 of the PIN in UTF-8, in lower-case hexadecimal digits.");
}

/* Layouts are checked with all of their options, in check_layout(). */
static void
check_layout_part(const char *name, const char *value)
{
	/* This would be read as the end of the option. */
	if (strchr(value, ';') != NULL)
		refuse(name, value, "A semicolon is not allowed here.", "Leave it out.");
}

static void
check_key_prefix(const char *name, const char *value)
{
	size_t		len = strlen(value);

	if (len > 512)
		refuse(name, value, "A key prefix has at most 512 bytes.",
			   "It counts against the 2,048 bytes of every key.");

	/* Otherwise a prefix could be the beginning of another one with its keys. */
	if (len > 0 && strcspn(value, "/#") != len - 1)
		refuse(name, value, "A key prefix ends in \"/\" or \"#\", and has neither before.",
			   "Give a prefix such as 'payments/'.");
}

static void
check_credentials(const char *name, const char *value)
{
	if (strcmp(value, "mapping") != 0 && strcmp(value, "environment") != 0 &&
		strcmp(value, "chain") != 0)
		refuse(name, value, "There is no such source of credentials.",
			   "Valid sources are: mapping, environment, chain.");
}

static void
check_profile(const char *name, const char *value)
{
	size_t		len = strlen(value);

	if (len < 1 || len > EO_MAX_PROFILE || strpbrk(value, "[]\r\n\"'#;") != NULL)
		refuse(name, value,
			   "A profile has a name of 1 to 128 bytes without brackets, quotes, \"#\" and \";\".",
			   "Give the name that follows \"profile\" in the configuration file.");
}

/* "ARNs" in the IAM User Guide: arn:partition:iam::account:role/path/name */
static void
check_role_arn(const char *name, const char *value)
{
	size_t		len = strlen(value);

	if (len < 20 || len > EO_MAX_ARN || strncmp(value, "arn:", 4) != 0 ||
		strstr(value, ":iam::") == NULL || strstr(value, ":role/") == NULL ||
		strpbrk(value, " \t\r\n") != NULL)
		refuse(name, value, "This is not the ARN of a role.",
			   "For example: arn:aws:iam::123456789012:role/exactonce.");
}

/* AssumeRole in the AWS STS API Reference. */
static void
check_external_id(const char *name, const char *value)
{
	size_t		len = strlen(value);

	if (len < 2 || len > EO_MAX_EXTERNAL_ID ||
		strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+=,.@:/-") != len)
		refuse(name, value, "An external id has 2 to 1224 letters, digits and characters of _+=,.@:/-",
			   "Give the one that the trust policy of the role asks for.");
}

static void
check_ca_file(const char *name, const char *value)
{
	if (!is_absolute_path(value) || strlen(value) > EO_MAX_CHAIN_URL)
		refuse(name, value, "This is not an absolute path.",
			   "Give a file of PEM certificates on the database server.");
	if (access(value, R_OK) != 0)
		refuse(name, value, "The database server cannot read this file.",
			   "It must be readable by the operating-system user that PostgreSQL runs as.");
}

static void
check_boolean(const char *name, const char *value)
{
	bool		b;

	if (!parse_bool(value, &b))
		refuse(name, value, "This is not a boolean.", "Use true or false.");
}

static void
check_access_key_id(const char *name, const char *value)
{
	size_t		len = strlen(value);

	for (size_t i = 0; i < len; i++)
	{
		if (!isalnum((unsigned char) value[i]) && value[i] != '_')
			len = 0;
	}
	if (len < 1 || len > 128)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"%s\"", name),
				 errdetail("An access key id has 1 to 128 letters and digits.")));
}

/* Secrets are never repeated in a message. */
static void
check_secret(const char *name, const char *value)
{
	size_t		len = strlen(value);
	bool		printable = true;

	for (size_t i = 0; i < len; i++)
	{
		if (value[i] <= ' ' || value[i] > '~')
			printable = false;
	}
	if (len < 1 || len > 4096 || !printable)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"%s\"", name),
				 errdetail("It must have 1 to 4096 printable ASCII characters and no blanks."),
				 errhint("Look for a line break or a blank copied along with it.")));
}

/* A pepper that can be guessed protects nothing. */
static void
check_pepper(const char *name, const char *value)
{
	check_secret(name, value);
	if (strlen(value) < MIN_PEPPER)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"%s\"", name),
				 errdetail("It must have at least %d characters.", MIN_PEPPER),
				 errhint("Have it made by a program, for example: openssl rand -base64 32.")));
}

static void
check_number(const EoOption *opt, const char *value)
{
	char	   *end;
	long		n;

	errno = 0;
	n = strtol(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || n < opt->min || n > opt->max)
		refuse(opt->name, value, opt->bounds, opt->hint);
}

static void
check_duration(const EoOption *opt, const char *value)
{
	static const char *const hint = "Give a number and a unit, such as 500ms, 60s or 7 days.";
	int64		ms;

	if (!eo_option_values_duration(value, &ms))
		refuse(opt->name, value, "This is not a duration.", hint);
	if (ms < opt->min || ms > opt->max)
		refuse(opt->name, value, opt->bounds, hint);
}
