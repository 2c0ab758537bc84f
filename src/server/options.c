/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Servers as the current role may use them.
 *
 * USAGE on the server is the gate to everything.  It is checked on every call and
 * never cached.  store.c keeps the servers that are read here.  Secrets are in memory of
 * secret.c, which is freed with the server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "server/credentials.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/option_values.h"
#include "server/options.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "wire/crypto.h"
#include "wire/endpoint.h"
#include "wire/secret.h"

/* So many names of servers are shown to somebody who has none of them right. */
#define MAX_NAMES 10

/* Those that eo_options_on_change() has registered. */
static void (*callbacks[4]) (Datum, int, uint32);
static int	ncallbacks;

static Oid	find_server(const char *name);
static char *names_of_servers(void);
static int	compare_names(const ListCell *a, const ListCell *b);
static void check_wrapper(const ForeignServer *fs);
static void check_usage(Oid serverid, const char *name);
static EoServer *load_server(ForeignServer *fs, Oid userid, bool wait);
static Oid	tenant_of(const ForeignServer *fs);
static void read_server_options(EoServer *s, List *list);
static void read_credential_options(EoServer *s, List *list);
static void find_region(EoServer *s, bool wait);
static void read_endpoint(EoServer *s, List *list);
static void read_user_mapping(EoServer *s, const ForeignServer *fs);
static bool read_mapping_of(EoServer *s, Oid userid);
static bool has_keys(Oid serverid, Oid userid);
static bool find_mapping(Oid serverid, Oid userid, List **list, TransactionId *xmin);
static void copy_secret(char **secret, List *list, const char *name);
static bool is_listed(EoServer *s, const EoEndpoint *ep);
static void wipe_values(List *list);
static void free_secrets(void *arg);

/* ----- looking up ----- */

Oid
eo_options_find(const char *name)
{
	Oid			serverid;

	if (name == NULL)
		name = eo_guc_server;
	serverid = find_server(name);
	check_usage(serverid, name);
	return serverid;
}

EoServer *
eo_options_read(Oid serverid)
{
	EoServer   *s = load_server(GetForeignServer(serverid), GetUserId(), true);

	if (s->mapping_refused)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" may not use a user mapping of its own for server \"%s\"",
						GetUserNameFromId(s->userid, false), s->name),
				 errdetail("The server has one for other roles, and this one may lead to another account."),
				 errhint("Drop it. If it is of the same account have the owner of the server say so: ALTER SERVER %s OPTIONS (ADD role_mappings 'true').",
						 quote_identifier(s->name))));
	return s;
}

bool
eo_options_may_use(const char *name)
{
	return eo_compat_has_right(ForeignServerRelationId,
							   find_server(name != NULL ? name : eo_guc_server), GetUserId(),
							   ACL_USAGE);
}

static Oid
find_server(const char *name)
{
	Oid			serverid = get_foreign_server_oid(name, true);

	if (!OidIsValid(serverid))
	{
		char	   *others = names_of_servers();

		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", name),
				 others[0] != '\0' ? errdetail("The servers of exactonce in this database: %s.", others) : 0,
				 errhint("Create it: CREATE SERVER %s FOREIGN DATA WRAPPER exactonce OPTIONS (region '...', table '...'); or set exactonce.server to the name of another.",
						 quote_identifier(name))));
	}
	return serverid;
}

/* In order, as far as a person reads them; "" if there is none. */
static char *
names_of_servers(void)
{
	StringInfoData text;
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, eo_options_servers())
	{
		ForeignServer *fs = GetForeignServerExtended(lfirst_oid(cell), FSV_MISSING_OK);

		if (fs != NULL)
			names = lappend(names, fs->servername);
	}
	list_sort(names, compare_names);
	initStringInfo(&text);
	for (int i = 0; i < Min(list_length(names), MAX_NAMES); i++)
		appendStringInfo(&text, "%s\"%s\"", i > 0 ? ", " : "", (char *) list_nth(names, i));
	if (list_length(names) > MAX_NAMES)
		appendStringInfo(&text, " and %d others", list_length(names) - MAX_NAMES);
	return text.data;
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

static void
check_wrapper(const ForeignServer *fs)
{
	ForeignDataWrapper *fdw = GetForeignDataWrapper(fs->fdwid);

	if (strcmp(fdw->fdwname, EO_OPTIONS_WRAPPER) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("server \"%s\" is not an exactonce server", fs->servername),
			 errdetail("It belongs to the foreign-data wrapper \"%s\".", fdw->fdwname),
			 errhint("Create a server with FOREIGN DATA WRAPPER exactonce.")));
}

static void
check_usage(Oid serverid, const char *name)
{
	if (eo_compat_has_right(ForeignServerRelationId, serverid, GetUserId(), ACL_USAGE))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for foreign server %s", name),
			 errhint("Its owner can allow it: GRANT USAGE ON FOREIGN SERVER %s TO %s;",
					 quote_identifier(name),
					 quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

void
eo_options_check_usage(Oid serverid)
{
	ForeignServer *fs = GetForeignServerExtended(serverid, FSV_MISSING_OK);

	if (fs != NULL)
		check_usage(serverid, fs->servername);
}

/*
 * The rows' xmin is compared and not a flag, because the entry may be older than the end of the
 * transaction.
 */
void
eo_options_check_committed(const EoServer *server)
{
	bool		altered = TransactionIdIsCurrentTransactionId(server->row_xmin);
	bool		mapped = false;

	for (int i = 0; i < (int) lengthof(server->mapping_xmins); i++)
		mapped |= TransactionIdIsCurrentTransactionId(server->mapping_xmins[i]);
	if (!altered && !mapped)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("server \"%s\" cannot be used for claims before this transaction commits",
					server->name),
			 altered ?
			 errdetail("This transaction has created or altered the server. If it were rolled back, nobody could settle what it has left in DynamoDB.") :
			 errdetail("This transaction has created or altered a user mapping of the server. If it were rolled back, nobody could settle what it has left in DynamoDB."),
			 errhint("Commit the change first.")));
}

/* Called when exactonce.allowed_endpoints has changed. */
static void
allowed_endpoints_changed(void)
{
	for (int i = 0; i < ncallbacks; i++)
		callbacks[i] ((Datum) 0, FOREIGNSERVEROID, 0);
}

void
eo_options_on_change(void (*callback) (Datum, int, uint32))
{
	Assert(ncallbacks < (int) lengthof(callbacks));
	callbacks[ncallbacks++] = callback;
	eo_guc_on_allowed_endpoints(allowed_endpoints_changed);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, callback, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, callback, (Datum) 0);
	/* An owner may have lost the attribute SUPERUSER. */
	CacheRegisterSyscacheCallback(AUTHOID, callback, (Datum) 0);
}

EoServer *
eo_options_load(Oid serverid, Oid userid)
{
	ForeignServer *fs = GetForeignServerExtended(serverid, FSV_MISSING_OK);

	if (fs == NULL)
		return NULL;

	/*
	 * The keys of a transaction that has committed must be finished even if
	 * its role was dropped or has lost USAGE: the owner finishes them then.
	 */
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(userid)) ||
		!eo_compat_has_right(ForeignServerRelationId, serverid, userid, ACL_USAGE))
		userid = fs->owner;
	return load_server(fs, userid, false);
}

EoServer *
eo_options_load_like(const char *url, const char *region, const char *table, Oid tenant)
{
	ListCell   *lc;

	foreach(lc, eo_options_servers())
	{
		ForeignServer *fs = GetForeignServerExtended(lfirst_oid(lc), FSV_MISSING_OK);
		const char *its_table = fs != NULL ? eo_option_values_find(fs->options, "table") : NULL;
		EoServer   *s;

		if (its_table == NULL || strcmp(its_table, table) != 0)
			continue;
		s = load_server(fs, fs->owner, false);
		if (strcmp(s->url, url) == 0 && strcmp(s->region, region) == 0 &&
			(s->place_tenant == tenant || !OidIsValid(s->place_tenant)))
			return s;
		MemoryContextDelete(GetMemoryChunkContext(s));
	}
	return NULL;
}

Oid
eo_options_tenant(Oid serverid, Oid userid)
{
	const ForeignServer *fs = GetForeignServerExtended(serverid, FSV_MISSING_OK);

	if (fs != NULL)
		return tenant_of(fs);
	return superuser_arg(userid) ? InvalidOid : userid;
}

Oid
eo_options_owner(Oid serverid, Oid userid)
{
	const ForeignServer *fs = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	Oid			owner = fs != NULL ? fs->owner : userid;

	return superuser_arg(owner) ? InvalidOid : owner;
}

static Oid
tenant_of(const ForeignServer *fs)
{
	bool		is_home = eo_option_values_find(fs->options, "home") == NULL ||
	eo_option_values_is_true(fs->options, "home");

	if (!superuser_arg(fs->owner))
		return fs->owner;
	return is_home ? InvalidOid : fs->serverid;
}

List *
eo_options_servers(void)
{
	Oid			wrapper = get_foreign_data_wrapper_oid(EO_OPTIONS_WRAPPER, true);
	Relation	rel = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	List	   *servers = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_server server = (Form_pg_foreign_server) GETSTRUCT(tuple);

		if (server->srvfdw == wrapper)
			servers = lappend_oid(servers, server->oid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return servers;
}

/* The transaction that has created or altered the server last. */
static TransactionId
row_xmin(Oid serverid)
{
	HeapTuple	tuple = SearchSysCache1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	TransactionId xmin = InvalidTransactionId;

	if (HeapTupleIsValid(tuple))
	{
		xmin = HeapTupleHeaderGetXmin(tuple->t_data);
		ReleaseSysCache(tuple);
	}
	return xmin;
}

/* wait: find the region, or raise an error, if it is not an option. */
static EoServer *
load_server(ForeignServer *fs, Oid userid, bool wait)
{
	MemoryContext context;
	MemoryContext old;
	MemoryContextCallback *callback;
	EoServer   *s;

	check_wrapper(fs);
	context = AllocSetContextCreate(CurrentMemoryContext, "exactonce server",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	s = palloc0(sizeof(EoServer));
	callback = palloc0(sizeof(MemoryContextCallback));
	callback->func = free_secrets;
	callback->arg = s;
	MemoryContextRegisterResetCallback(context, callback);

	s->serverid = fs->serverid;
	s->userid = userid;
	s->row_xmin = row_xmin(s->serverid);
	s->name = pstrdup(fs->servername);
	s->owned_by_superuser = superuser_arg(fs->owner);
	s->tenant = s->owned_by_superuser ? InvalidOid : fs->owner;
	s->place_tenant = tenant_of(fs);
	read_server_options(s, fs->options);
	read_credential_options(s, fs->options);
	if (s->region == NULL)
		find_region(s, wait);
	read_endpoint(s, fs->options);
	read_user_mapping(s, fs);

	/*
	 * A role that may use the server can have a mapping that leads to an
	 * account of its own.
	 */
	s->trusted = !OidIsValid(s->place_tenant) &&
		(s->credentials != EO_CREDENTIALS_MAPPING || superuser_arg(userid));
	MemoryContextSwitchTo(old);
	return s;
}

static int64
duration_option(List *list, const char *name, int64 fallback_ms)
{
	const char *value = eo_option_values_find(list, name);
	int64		ms;

	return value != NULL && eo_option_values_duration(value, &ms) ? ms : fallback_ms;
}

static char *
copy_option(List *list, const char *name, const char *fallback)
{
	const char *value = eo_option_values_find(list, name);

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

/* The validator has accepted each option when it was written. */
static void
read_server_options(EoServer *s, List *list)
{
	const char *attempts = eo_option_values_find(list, "max_attempts");
	const char *pins = eo_option_values_find(list, "pin_attempts");
	const char *parallel = eo_option_values_find(list, "parallel_requests");
	const char *tables = eo_option_values_find(list, "transact_tables");

	s->region = copy_option(list, "region", NULL);
	s->table = copy_option(list, "table", NULL);
	require_option(s, s->table, "table", "idempotency");
	s->layout = eo_option_values_layout(list);
	s->key_prefix = copy_option(list, "key_prefix", "");
	s->lease_ms = duration_option(list, "lease", 60000);
	s->retention_s = (duration_option(list, "retention", INT64CONST(604800000)) + 999) / 1000;
	s->connect_timeout_ms = (int) duration_option(list, "connect_timeout", 2000);
	s->request_timeout_ms = (int) duration_option(list, "request_timeout", 5000);
	s->commit_timeout_ms = (int) duration_option(list, "commit_timeout", 5000);
	s->clock_skew_ms = duration_option(list, "clock_skew", 2000);
	s->cache_ttl_ms = duration_option(list, "cache_ttl", 0);
	s->max_hold_ms = duration_option(list, "max_hold", 0);
	s->max_attempts = attempts != NULL ? atoi(attempts) : 4;
	s->transact_tables = tables != NULL ? eo_option_values_list(tables) : NIL;
	s->actions = eo_option_values_actions(list);
	s->pin_sha256 = eo_option_values_find(list, "action_pin_hash") != NULL;
	s->pin_attempts = pins != NULL ? atoi(pins) : 3;
	s->return_capacity = eo_option_values_is_true(list, "return_capacity");
	s->batch_requests = eo_option_values_find(list, "batch_requests") == NULL ||
		eo_option_values_is_true(list, "batch_requests");
	s->parallel_requests = parallel != NULL ? atoi(parallel) : 16;
}

/*
 * A superuser set these, and they count as long as a superuser owns the server.  That
 * is checked here, because the owner may have changed since.
 */
static void
read_credential_options(EoServer *s, List *list)
{
	const char *credentials = eo_option_values_find(list, "credentials");

	if (s->owned_by_superuser)
		s->ca_file = copy_option(list, "ca_file", NULL);
	s->credentials = credentials == NULL || strcmp(credentials, "mapping") == 0 ? EO_CREDENTIALS_MAPPING :
		strcmp(credentials, "chain") == 0 ? EO_CREDENTIALS_CHAIN : EO_CREDENTIALS_ENVIRONMENT;
	s->profile = copy_option(list, "profile", "");
	s->role_arn = copy_option(list, "role_arn", "");
	s->external_id = copy_option(list, "external_id", "");
	if (s->credentials != EO_CREDENTIALS_MAPPING && !s->owned_by_superuser)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("server \"%s\" may not use the credentials of the %s", s->name, credentials),
				 errdetail("They are the database server's own, and count only on servers owned by a superuser."),
				 errhint("Have a superuser own the server, or use user mappings.")));
	if (s->credentials == EO_CREDENTIALS_MAPPING)
		require_option(s, s->region, "region", "eu-west-1");
}

/* The region that the chain finds; "" if it is not known and must not be waited for. */
static void
find_region(EoServer *s, bool wait)
{
	char		region[EO_MAX_REGION + 1];
	EoCredentialReport report;

	if (eo_credentials_region(s, wait, region, &report))
		s->region = pstrdup(region);
	else if (!wait)
		s->region = pstrdup("");
	else
		ereport(ERROR,
				(errcode(report.is_away ? ERRCODE_EO_UNAVAILABLE :
						 ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("server \"%s\" has no option \"region\", and none was found", s->name),
				 report.failure[0] != '\0' ?
				 errdetail_internal("%s (since %s).", report.failure,
									timestamptz_to_str(report.failing_since)) : 0,
				 errhint("Add it: ALTER SERVER %s OPTIONS (ADD region 'eu-west-1'); or see docs/aws.md.",
						 quote_identifier(s->name))));
}

/* The endpoint that the option names, else that of AWS for the region. */
static void
read_endpoint(EoServer *s, List *list)
{
	const char *endpoint = eo_option_values_find(list, "endpoint");
	EoEndpoint	ep;
	const char *reason;

	s->fips = eo_option_values_is_true(list, "fips");
	s->dualstack = eo_option_values_is_true(list, "dualstack");
	s->has_endpoint = endpoint != NULL;
	if (endpoint == NULL)
	{
		char		host[EO_ENDPOINT_HOST_LEN];

		eo_endpoint_host("dynamodb", s->region, s->fips, s->dualstack, host);
		s->host = pstrdup(host);
		s->url = psprintf("https://%s/", s->host);
		return;
	}
	if (!eo_endpoint_parse(endpoint, &ep, &reason))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("server \"%s\" has an invalid endpoint", s->name),
				 errdetail("%s", reason),
				 errhint("Correct it with ALTER SERVER.")));
	s->host = pstrdup(ep.authority);
	s->url = psprintf("%s://%s/", ep.https ? "https" : "http", ep.authority);
	s->plain_http = !ep.https;
	if (s->plain_http && !ep.loopback &&
		!(s->owned_by_superuser && eo_option_values_is_true(list, "allow_http")))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("server \"%s\" may not use plain http", s->name),
				 errdetail("allow_http counts only on servers owned by a superuser."),
				 errhint("Use https, or have a superuser own the server.")));
}

/*
 * The owner of a server chooses its endpoint, and requests to it come from this machine, which
 * may reach hosts that the owner cannot.  So a server that no superuser owns leads to AWS, or to
 * a host that a superuser has listed.  A name may have any address, so http.c looks at that, too.
 */
void
eo_options_check_endpoint(EoServer *s)
{
	EoEndpoint	ep;
	const char *reason;

	s->remote_only = !s->owned_by_superuser;
	if (s->owned_by_superuser)
		return;
	if (eo_endpoint_parse(s->url, &ep, &reason) &&
		(eo_endpoint_is_dynamodb(&ep) || is_listed(s, &ep)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("server \"%s\" may not use its endpoint", s->name),
			 errdetail("No superuser owns it, and \"%s\" is neither an endpoint of AWS nor in exactonce.allowed_endpoints.",
					   s->host),
			 errhint("Have a superuser own the server, or add the endpoint to that setting.")));
}

/*
 * An address of this machine or of its link counts if it is listed with its port: a superuser
 * has meant exactly that listener.  No name counts for it but localhost.
 */
static bool
is_listed(EoServer *s, const EoEndpoint *ep)
{
	const char *at = eo_guc_allowed_endpoints;
	bool		listed = false;
	EoEndpoint	allowed;
	const char *reason;

	while (eo_endpoint_next(&at, ep->https, &allowed, &reason))
	{
		if (reason != NULL || pg_strcasecmp(allowed.authority, ep->authority) != 0)
			continue;
		listed = true;
		if ((allowed.is_address || allowed.loopback) && allowed.has_port)
			s->remote_only = false;
	}
	return listed;
}

/*
 * The claimant's mapping, else the server owner's, else PUBLIC's.
 *
 * A role that may use a server may make a mapping of its own, which leads to the account that it
 * likes, and PostgreSQL keeps no note of who made a mapping.  A life has one lease for all who
 * reach its place, and an item of another account would speak for it.  So where one mapping serves
 * others, that of a role counts only if the owner says so.
 */
static void
read_user_mapping(EoServer *s, const ForeignServer *fs)
{
	s->mapping_refused = s->credentials == EO_CREDENTIALS_MAPPING &&
		s->userid != fs->owner && !superuser_arg(s->userid) &&
		!eo_option_values_is_true(fs->options, "role_mappings") &&
		has_keys(s->serverid, s->userid) &&
		(has_keys(s->serverid, fs->owner) || has_keys(s->serverid, InvalidOid));
	if ((s->mapping_refused || !read_mapping_of(s, s->userid)) && !read_mapping_of(s, fs->owner))
		(void) read_mapping_of(s, InvalidOid);
}

static bool
read_mapping_of(EoServer *s, Oid userid)
{
	List	   *list;
	TransactionId xmin;
	int			nread = 0;

	/*
	 * A mapping without keys counts as none, so that it gives its role
	 * nothing but what the next one in order would.  A pepper is the first
	 * one in order.
	 */
	if (!find_mapping(s->serverid, userid, &list, &xmin))
		return false;
	while (TransactionIdIsValid(s->mapping_xmins[nread]))
		nread++;
	s->mapping_xmins[nread] = xmin;
	s->access_key_id = copy_option(list, "access_key_id", NULL);
	copy_secret(&s->secret_access_key, list, "secret_access_key");
	copy_secret(&s->session_token, list, "session_token");
	if (s->pin_pepper == NULL)
		copy_secret(&s->pin_pepper, list, "pin_pepper");
	wipe_values(list);
	if ((s->access_key_id == NULL) != (s->secret_access_key == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("the user mapping for server \"%s\" has only one half of its credentials", s->name),
				 errhint("Give both access_key_id and secret_access_key, or neither.")));
	return s->access_key_id != NULL;
}

static bool
has_keys(Oid serverid, Oid userid)
{
	List	   *list;
	TransactionId xmin;
	bool		has;

	if (!find_mapping(serverid, userid, &list, &xmin))
		return false;
	has = eo_option_values_find(list, "access_key_id") != NULL;
	wipe_values(list);
	return has;
}

/* The options of a role's mapping, which the caller wipes, and the transaction that made it. */
static bool
find_mapping(Oid serverid, Oid userid, List **list, TransactionId *xmin)
{
	HeapTuple	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
										ObjectIdGetDatum(serverid));
	Datum		datum;
	bool		isnull;

	*list = NIL;
	if (!HeapTupleIsValid(tuple))
		return false;
	*xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	datum = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple,
							Anum_pg_user_mapping_umoptions, &isnull);
	if (!isnull)
		*list = untransformRelOptions(datum);
	ReleaseSysCache(tuple);
	return true;
}

/*
 * Copy the value of an option, if it is in the list, to memory that is kept out of
 * core dumps.  *secret may have one of another mapping.
 */
static void
copy_secret(char **secret, List *list, const char *name)
{
	const char *value = eo_option_values_find(list, name);

	eo_secret_free(*secret);
	*secret = value != NULL ? eo_secret_copy(value) : NULL;
	if (value != NULL && *secret == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
}

static void
wipe_values(List *list)
{
	ListCell   *cell;

	foreach(cell, list)
	{
		char	   *value = defGetString(lfirst(cell));

		eo_crypto_wipe(value, strlen(value));
	}
}

static void
free_secrets(void *arg)
{
	EoServer   *s = arg;

	eo_secret_free(s->secret_access_key);
	eo_secret_free(s->session_token);
	eo_secret_free(s->pin_pepper);
}
