/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Foreign servers and user mappings: what they may say, and what they said.
 *
 * The validator refuses what could not work when it is written, with the
 * reason; eo_server_lookup() reads what is there.  One table (options[]) names
 * every option, where it may stand, and how it is checked.
 *
 * Lookups are cached per (server, role), because every call of every function
 * begins with one.  Any change to a server, a user mapping or a role drops the
 * whole cache.  A dropped entry may still be in use further up the stack, so
 * its memory goes to the transaction and not at once.  Secrets are wiped when
 * that memory goes.
 *
 * USAGE on the server is the gate to everything and is checked on every call,
 * never cached.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "options.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define WRAPPER_NAME "exactonce"
#define MAX_LABEL 63

typedef void (*EoCheck) (const char *name, const char *value);

typedef struct EoOption
{
	const char *name;
	Oid			catalog;		/* where it may stand */
	bool		superuser_only; /* on servers owned by a superuser only */
	EoCheck		check;
} EoOption;

static void check_region(const char *name, const char *value);
static void check_endpoint(const char *name, const char *value);
static void check_table(const char *name, const char *value);
static void check_layout(const char *name, const char *value);
static void check_key_prefix(const char *name, const char *value);
static void check_lease(const char *name, const char *value);
static void check_retention(const char *name, const char *value);
static void check_connect_timeout(const char *name, const char *value);
static void check_request_timeout(const char *name, const char *value);
static void check_max_attempts(const char *name, const char *value);
static void check_clock_skew(const char *name, const char *value);
static void check_ca_file(const char *name, const char *value);
static void check_boolean(const char *name, const char *value);
static void check_access_key_id(const char *name, const char *value);
static void check_secret(const char *name, const char *value);

static const EoOption options[] =
{
	{"region", ForeignServerRelationId, false, check_region},
	{"endpoint", ForeignServerRelationId, false, check_endpoint},
	{"table", ForeignServerRelationId, false, check_table},
	{"layout", ForeignServerRelationId, false, check_layout},
	{"key_prefix", ForeignServerRelationId, false, check_key_prefix},
	{"lease", ForeignServerRelationId, false, check_lease},
	{"retention", ForeignServerRelationId, false, check_retention},
	{"connect_timeout", ForeignServerRelationId, false, check_connect_timeout},
	{"request_timeout", ForeignServerRelationId, false, check_request_timeout},
	{"max_attempts", ForeignServerRelationId, false, check_max_attempts},
	{"clock_skew", ForeignServerRelationId, false, check_clock_skew},
	{"ca_file", ForeignServerRelationId, true, check_ca_file},
	{"allow_http", ForeignServerRelationId, true, check_boolean},
	{"access_key_id", UserMappingRelationId, false, check_access_key_id},
	{"secret_access_key", UserMappingRelationId, false, check_secret},
	{"session_token", UserMappingRelationId, false, check_secret},
};

/* Host and scheme of an endpoint, as parse_endpoint() found them. */
typedef struct EoEndpoint
{
	bool		https;
	bool		loopback;
	char	   *authority;		/* host[:port], the default port left out */
} EoEndpoint;

typedef struct ServerKey
{
	Oid			serverid;
	Oid			userid;
} ServerKey;

typedef struct ServerEntry
{
	ServerKey	key;
	bool		valid;
	MemoryContext context;
	EoServer   *server;
} ServerEntry;

static HTAB *servers;
static uint64 generation;

static bool parse_endpoint(const char *value, EoEndpoint *ep, const char **reason);
static bool parse_duration(const char *value, int64 *ms);
static void check_duration(const char *name, const char *value, int64 min_ms, int64 max_ms,
						   const char *bounds);
static void refuse(const char *name, const char *value, const char *detail, const char *hint)
			pg_attribute_noreturn();
static void refuse_unknown(const char *name, Oid catalog) pg_attribute_noreturn();
static void check_together(List *list);
static Oid	find_server(const char *name);
static void check_usage(Oid serverid, const char *name);
static ServerEntry *find_entry(Oid serverid, Oid userid);
static void build_server(ServerEntry *entry);
static void read_server_options(EoServer *s, List *list);
static void read_user_mapping(EoServer *s, Oid ownerid);
static bool read_mapping_of(EoServer *s, Oid userid);
static void invalidate(Datum arg, int cacheid, uint32 hashvalue);
static void wipe_secrets(void *arg);

/* ----- the validator ----- */

PG_FUNCTION_INFO_V1(eo_fdw_validator);

/*
 * exactonce_fdw_validator(options text[], catalog oid)
 */
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
		 * Whoever sets these decides what the operating-system user of the
		 * server reads or trusts.  ALTER SERVER ... OWNER TO is looked at
		 * again when the server is used.
		 */
		if (opt->superuser_only && !superuser())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("only a superuser may set option \"%s\"", opt->name),
					 errhint("Ask a superuser to create the server, or leave the option out.")));
		opt->check(opt->name, defGetString(def));
	}
	if (catalog == ForeignServerRelationId)
		check_together(list);
	PG_RETURN_VOID();
}

static const char *
option_value(List *list, const char *name)
{
	ListCell   *lc;

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return NULL;
}

static bool
option_is_true(List *list, const char *name)
{
	const char *value = option_value(list, name);
	bool		b = false;

	return value != NULL && parse_bool(value, &b) && b;
}

/* http is for a service on this machine, unless a superuser says otherwise. */
static void
check_together(List *list)
{
	const char *endpoint = option_value(list, "endpoint");
	EoEndpoint	ep;
	const char *reason;

	if (endpoint == NULL || !parse_endpoint(endpoint, &ep, &reason))
		return;
	if (!ep.https && !ep.loopback && !option_is_true(list, "allow_http"))
		refuse("endpoint", endpoint,
			   "Plain http is allowed for loopback addresses only.",
			   "Use https, or have a superuser add the option allow_http 'true'.");
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
	size_t		len = strlen(value);

	if (len < 1 || len > MAX_LABEL || strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-") != len ||
		value[0] == '-' || value[len - 1] == '-')
		refuse(name, value,
			   "A region has lower-case letters, digits and hyphens.",
			   "For example: eu-west-1.");
}

static void
check_endpoint(const char *name, const char *value)
{
	EoEndpoint	ep;
	const char *reason;

	if (!parse_endpoint(value, &ep, &reason))
		refuse(name, value, reason,
			   "Give scheme, host and, where needed, port: https://dynamodb.eu-west-1.amazonaws.com or http://localhost:8000.");
}

static void
check_table(const char *name, const char *value)
{
	size_t		len = strlen(value);

	if (len < 3 || len > 255 ||
		strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != len)
		refuse(name, value,
			   "A table name has 3 to 255 letters, digits, underscores, hyphens and dots.",
			   "Give the plain name of the DynamoDB table, not its ARN.");
}

static void
check_layout(const char *name, const char *value)
{
	if (strcmp(value, "native") != 0)
		refuse(name, value, "There is no such record layout.", "Valid layouts are: native.");
}

static void
check_key_prefix(const char *name, const char *value)
{
	if (strlen(value) > 512)
		refuse(name, value, "A key prefix has at most 512 bytes.",
			   "It counts against the 2,048 bytes of every key.");
}

static void
check_lease(const char *name, const char *value)
{
	check_duration(name, value, EO_MIN_LEASE_MS, EO_MAX_LEASE_MS,
				   "A lease lasts from 100 milliseconds to 7 days.");
}

static void
check_retention(const char *name, const char *value)
{
	check_duration(name, value, EO_MIN_RETENTION_S * INT64CONST(1000),
				   EO_MAX_RETENTION_S * 1000, "Retention lasts from 1 hour to 3650 days.");
}

static void
check_connect_timeout(const char *name, const char *value)
{
	check_duration(name, value, 10, 60000,
				   "The time to connect lasts from 10 milliseconds to 60 seconds.");
}

static void
check_request_timeout(const char *name, const char *value)
{
	check_duration(name, value, 50, 300000,
				   "The time for a request and its retries lasts from 50 milliseconds to 5 minutes.");
}

static void
check_clock_skew(const char *name, const char *value)
{
	check_duration(name, value, 0, 300000,
				   "The margin for clocks lasts from 0 to 5 minutes.");
}

static void
check_max_attempts(const char *name, const char *value)
{
	char	   *end;
	long		n;

	errno = 0;
	n = strtol(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || n < 1 || n > 20)
		refuse(name, value, "This is a whole number from 1 to 20.",
			   "1 means that nothing is retried.");
}

static void
check_ca_file(const char *name, const char *value)
{
	if (!is_absolute_path(value))
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

static void
check_duration(const char *name, const char *value, int64 min_ms, int64 max_ms,
			   const char *bounds)
{
	int64		ms;

	if (!parse_duration(value, &ms))
		refuse(name, value, "This is not a duration.",
			   "Give a number and a unit, such as 500ms, 60s or 7 days.");
	if (ms < min_ms || ms > max_ms)
		refuse(name, value, bounds,
			   "Give a number and a unit, such as 500ms, 60s or 7 days.");
}

/*
 * A duration as PostgreSQL reads intervals, in milliseconds; a month counts
 * as 30 days, as it does in EXTRACT(EPOCH).
 */
static bool
parse_duration(const char *value, int64 *ms)
{
	Interval   *span = NULL;
	MemoryContext context = CurrentMemoryContext;
	bool		ok = true;

	PG_TRY();
	{
		span = DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(value),
													 ObjectIdGetDatum(InvalidOid),
													 Int32GetDatum(-1)));
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		/* Input conversion touches nothing, so a data error needs no abort. */
		if (ERRCODE_TO_CATEGORY(code) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	if (!ok)
		return false;
	*ms = span->time / 1000 + ((int64) span->day + (int64) span->month * 30) * INT64CONST(86400000);
	return true;
}

/*
 * scheme://host[:port][/] and nothing else: no user, path, query or fragment.
 */
static bool
parse_endpoint(const char *value, EoEndpoint *ep, const char **reason)
{
	const char *p;
	size_t		host_len;
	long		port = 0;

	memset(ep, 0, sizeof(*ep));
	*reason = "The scheme is neither https nor http.";
	if (pg_strncasecmp(value, "https://", 8) == 0)
	{
		ep->https = true;
		p = value + 8;
	}
	else if (pg_strncasecmp(value, "http://", 7) == 0)
		p = value + 7;
	else
		return false;

	*reason = "The host is not a name or an address.";
	if (*p == '[')
	{
		host_len = strspn(p + 1, "0123456789abcdefABCDEF:.");
		if (p[1 + host_len] != ']')
			return false;
		host_len += 2;
	}
	else
		host_len = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
	if (host_len < 1 || host_len > 253)
		return false;
	ep->authority = pnstrdup(p, host_len);
	ep->loopback = pg_strcasecmp(ep->authority, "localhost") == 0 ||
		strcmp(ep->authority, "[::1]") == 0 ||
		(strncmp(ep->authority, "127.", 4) == 0 &&
		 strspn(ep->authority, "0123456789.") == host_len);
	p += host_len;
	if (*p == ':')
	{
		char	   *end;

		*reason = "The port is not a number from 1 to 65535.";
		if (!isdigit((unsigned char) p[1]))
			return false;
		port = strtol(p + 1, &end, 10);
		if (port < 1 || port > 65535)
			return false;
		p = end;
	}
	if (*p == '/')
		p++;
	*reason = "Something follows the host and port.";
	if (*p != '\0')
		return false;
	if (port != 0 && port != (ep->https ? 443 : 80))
		ep->authority = psprintf("%s:%ld", ep->authority, port);
	return true;
}

/* ----- looking up ----- */

EoServer *
eo_server_lookup(const char *name)
{
	Oid			serverid;
	ServerEntry *entry;

	if (name == NULL)
		name = eo_guc_server;
	serverid = find_server(name);
	check_usage(serverid, name);
	entry = find_entry(serverid, GetUserId());
	if (!entry->valid)
		build_server(entry);
	return entry->server;
}

static Oid
find_server(const char *name)
{
	Oid			serverid = get_foreign_server_oid(name, true);
	HeapTuple	tuple;
	Form_pg_foreign_server form;
	ForeignDataWrapper *fdw;

	if (!OidIsValid(serverid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", name),
				 errhint("Create it: CREATE SERVER %s FOREIGN DATA WRAPPER exactonce OPTIONS (region '...', table '...'); or set exactonce.server to the name of another.",
						 quote_identifier(name))));
	tuple = SearchSysCache1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", name)));
	form = (Form_pg_foreign_server) GETSTRUCT(tuple);
	fdw = GetForeignDataWrapper(form->srvfdw);
	ReleaseSysCache(tuple);
	if (strcmp(fdw->fdwname, WRAPPER_NAME) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not an exactonce server", name),
				 errdetail("It belongs to the foreign-data wrapper \"%s\".", fdw->fdwname),
				 errhint("Create a server with FOREIGN DATA WRAPPER exactonce.")));
	return serverid;
}

static void
check_usage(Oid serverid, const char *name)
{
	if (eo_compat_foreign_server_aclcheck(serverid, GetUserId(), ACL_USAGE) == ACLCHECK_OK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for foreign server %s", name),
			 errhint("Its owner can allow it: GRANT USAGE ON FOREIGN SERVER %s TO %s;",
					 quote_identifier(name),
					 quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

static ServerEntry *
find_entry(Oid serverid, Oid userid)
{
	ServerKey	key = {serverid, userid};
	ServerEntry *entry;
	bool		found;

	if (servers == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(ServerKey),.entrysize = sizeof(ServerEntry)};

		servers = hash_create("exactonce servers", 16, &ctl, HASH_ELEM | HASH_BLOBS);
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, invalidate, (Datum) 0);
		CacheRegisterSyscacheCallback(USERMAPPINGOID, invalidate, (Datum) 0);
		CacheRegisterSyscacheCallback(AUTHOID, invalidate, (Datum) 0);
	}
	entry = hash_search(servers, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->valid = false;
		entry->context = NULL;
		entry->server = NULL;
	}
	return entry;
}

static void
invalidate(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS scan;
	ServerEntry *entry;

	(void) arg;
	(void) cacheid;
	(void) hashvalue;
	hash_seq_init(&scan, servers);
	while ((entry = hash_seq_search(&scan)) != NULL)
		entry->valid = false;
}

static void
build_server(ServerEntry *entry)
{
	ForeignServer *fs = GetForeignServer(entry->key.serverid);
	MemoryContext context;
	MemoryContext old;
	MemoryContextCallback *wipe;
	EoServer   *s;

	/* Somebody up the stack may still hold it: it goes with the transaction. */
	if (entry->context != NULL)
	{
		MemoryContextSetParent(entry->context, TopTransactionContext);
		entry->context = NULL;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "exactonce server",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	s = palloc0(sizeof(EoServer));
	wipe = palloc0(sizeof(MemoryContextCallback));
	wipe->func = wipe_secrets;
	wipe->arg = s;
	MemoryContextRegisterResetCallback(context, wipe);

	s->serverid = entry->key.serverid;
	s->userid = entry->key.userid;
	s->generation = ++generation;
	s->name = pstrdup(fs->servername);
	s->owned_by_superuser = superuser_arg(fs->owner);
	read_server_options(s, fs->options);
	read_user_mapping(s, fs->owner);
	MemoryContextSwitchTo(old);

	MemoryContextSetParent(context, CacheMemoryContext);
	entry->context = context;
	entry->server = s;
	entry->valid = true;
}

static int64
duration_option(List *list, const char *name, int64 fallback_ms)
{
	const char *value = option_value(list, name);
	int64		ms;

	return value != NULL && parse_duration(value, &ms) ? ms : fallback_ms;
}

static char *
copy_option(List *list, const char *name, const char *fallback)
{
	const char *value = option_value(list, name);

	if (value == NULL)
		value = fallback;
	return value != NULL ? pstrdup(value) : NULL;
}

static void
require_option(EoServer *s, const char *value, const char *name, const char *example)
{
	if (value != NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			 errmsg("server \"%s\" has no option \"%s\"", s->name, name),
			 errhint("Add it: ALTER SERVER %s OPTIONS (ADD %s '%s');",
					 quote_identifier(s->name), name, example)));
}

/* The options passed the validator when they were written. */
static void
read_server_options(EoServer *s, List *list)
{
	const char *endpoint = option_value(list, "endpoint");
	const char *attempts = option_value(list, "max_attempts");

	s->region = copy_option(list, "region", NULL);
	s->table = copy_option(list, "table", NULL);
	require_option(s, s->region, "region", "eu-west-1");
	require_option(s, s->table, "table", "idempotency");
	s->layout = copy_option(list, "layout", "native");
	s->key_prefix = copy_option(list, "key_prefix", "");
	s->lease_ms = duration_option(list, "lease", 60000);
	s->retention_s = (duration_option(list, "retention", INT64CONST(604800000)) + 999) / 1000;
	s->connect_timeout_ms = (int) duration_option(list, "connect_timeout", 2000);
	s->request_timeout_ms = (int) duration_option(list, "request_timeout", 5000);
	s->clock_skew_ms = duration_option(list, "clock_skew", 2000);
	s->max_attempts = attempts != NULL ? atoi(attempts) : 4;

	if (endpoint == NULL)
	{
		s->host = psprintf("dynamodb.%s.amazonaws.com%s", s->region,
						   strncmp(s->region, "cn-", 3) == 0 ? ".cn" : "");
		s->url = psprintf("https://%s/", s->host);
	}
	else
	{
		EoEndpoint	ep;
		const char *reason;

		if (!parse_endpoint(endpoint, &ep, &reason))
			refuse("endpoint", endpoint, reason, "Correct it with ALTER SERVER.");
		s->host = ep.authority;
		s->url = psprintf("%s://%s/", ep.https ? "https" : "http", ep.authority);
		s->plain_http = !ep.https;
		if (s->plain_http && !ep.loopback &&
			!(s->owned_by_superuser && option_is_true(list, "allow_http")))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("server \"%s\" may not use plain http", s->name),
					 errdetail("allow_http counts only on servers owned by a superuser."),
					 errhint("Use https, or have a superuser own the server.")));
	}
	/* What a superuser set counts as long as a superuser owns the server. */
	if (s->owned_by_superuser)
		s->ca_file = copy_option(list, "ca_file", NULL);
}

/*
 * The claimant's mapping, else the server owner's, else PUBLIC's.
 */
static void
read_user_mapping(EoServer *s, Oid ownerid)
{
	if (!read_mapping_of(s, s->userid) && !read_mapping_of(s, ownerid))
		(void) read_mapping_of(s, InvalidOid);
}

static bool
read_mapping_of(EoServer *s, Oid userid)
{
	HeapTuple	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
										ObjectIdGetDatum(s->serverid));
	Datum		datum;
	bool		isnull;
	List	   *list = NIL;

	if (!HeapTupleIsValid(tuple))
		return false;
	datum = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple,
							Anum_pg_user_mapping_umoptions, &isnull);
	if (!isnull)
		list = untransformRelOptions(datum);
	s->access_key_id = copy_option(list, "access_key_id", NULL);
	s->secret_access_key = copy_option(list, "secret_access_key", NULL);
	s->session_token = copy_option(list, "session_token", NULL);
	ReleaseSysCache(tuple);
	if ((s->access_key_id == NULL) != (s->secret_access_key == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("the user mapping for server \"%s\" has only one half of its credentials", s->name),
				 errhint("Give both access_key_id and secret_access_key, or neither.")));
	return true;
}

static void
wipe_secrets(void *arg)
{
	EoServer   *s = arg;

	if (s->secret_access_key != NULL)
		explicit_bzero(s->secret_access_key, strlen(s->secret_access_key));
	if (s->session_token != NULL)
		explicit_bzero(s->session_token, strlen(s->session_token));
}
