/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The settings: every exactonce.* parameter, in alphabetical order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/pg_list.h"
#include "server/guc.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/varlena.h"
#include "wire/endpoint.h"

char	   *eo_guc_allowed_endpoints;
bool		eo_guc_enabled = true;
int			eo_guc_max_claims = 40000;
int			eo_guc_cache_entries = 0;
char	   *eo_guc_server;
int			eo_guc_log_keys = EO_LOG_KEYS_TEXT;
bool		eo_guc_log_requests;
char	   *eo_guc_synchronized_standby_slots;
int			eo_guc_takeover = EO_TAKEOVER_NEAR;
int			eo_guc_recovery_scan = 500;

static const struct config_enum_entry takeovers[] = {
	{"never", EO_TAKEOVER_NEVER, false},
	{"near", EO_TAKEOVER_NEAR, false},
	{"always", EO_TAKEOVER_ALWAYS, false},
	{NULL, 0, false}
};
static int	test_hurry = 1;
static void (*endpoints_changed) (void);

static void define_destinations(void);

static const struct config_enum_entry log_keys_options[] = {
	{"text", EO_LOG_KEYS_TEXT, false},
	{"hash", EO_LOG_KEYS_HASH, false},
	{NULL, 0, false}
};

static bool
check_endpoints(char **value, void **extra, GucSource source)
{
	const char *at = *value;
	EoEndpoint	ep;
	const char *reason;

	(void) extra;
	(void) source;
	while (eo_endpoint_next(&at, true, &ep, &reason))
	{
		if (reason == NULL)
			continue;
		GUC_check_errdetail("It is not a list of host[:port]: %s", reason);
		return false;
	}
	return true;
}

static void
assign_endpoints(const char *value, void *extra)
{
	(void) value;
	(void) extra;
	if (endpoints_changed != NULL)
		endpoints_changed();
}

void
eo_guc_on_allowed_endpoints(void (*callback) (void))
{
	endpoints_changed = callback;
}

/* A slot that does not exist is no error: it may be made later. */
static bool
check_slots(char **value, void **extra, GucSource source)
{
	char	   *names = pstrdup(*value);
	List	   *list;
	bool		ok = SplitIdentifierString(names, ',', &list);

	(void) extra;
	(void) source;
	if (!ok)
		GUC_check_errdetail("List syntax is invalid.");
	list_free(list);
	pfree(names);
	return ok;
}

void
eo_guc_define(bool preloading)
{
	define_destinations();
	DefineCustomBoolVariable("exactonce.enabled",
							 "Allows calls that claim keys, complete them at once, or touch actions.",
							 "While it is off they fail at once. Transactions that have completed keys can commit, and what has committed is finished.",
							 &eo_guc_enabled,
							 true,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("exactonce.log_keys",
							 "Shows keys and ids of actions in messages and views as they are, or their hashes.",
							 "A hash is \"sha256:\" and the first 16 hexadecimal digits of the key's SHA-256.",
							 &eo_guc_log_keys,
							 EO_LOG_KEYS_TEXT, log_keys_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("exactonce.log_requests",
							 "Logs every call to DynamoDB: operation, outcome, attempts, time, request id.",
							 "Keys, tokens, payloads and results are not logged.",
							 &eo_guc_log_requests,
							 false,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);
	if (preloading)
		DefineCustomIntVariable("exactonce.max_claims",
								"Keys that all sessions together may hold at a time.",
								"Each takes about 600 bytes, in memory and in the file exactonce_claims.",
								&eo_guc_max_claims,
								40000, 100, 1000000,
								PGC_POSTMASTER, 0,
								NULL, NULL, NULL);
	if (preloading)
		DefineCustomIntVariable("exactonce.cache_entries",
								"Completed keys that the cluster remembers, so that duplicates cost no request.",
								"0: none. Each takes about 1200 bytes of shared memory. A server uses them if it has the option cache_ttl.",
								&eo_guc_cache_entries,
								0, 0, 10000000,
								PGC_POSTMASTER, 0,
								NULL, NULL, NULL);
	DefineCustomIntVariable("exactonce.recovery_scan",
							"Read units a second with which tables are scanned for what a life that is over, or late requests, have left.",
							"0: they are not scanned, and what is left there is settled when somebody meets it.",
							&eo_guc_recovery_scan,
							500, 0, 1000000,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);
	DefineCustomStringVariable("exactonce.synchronized_standby_slots",
							   "Physical replication slots whose standbys must have a commit before its keys are marked COMPLETED.",
							   "If it is empty, PostgreSQL's own synchronized_standby_slots counts, from version 17 on.",
							   &eo_guc_synchronized_standby_slots,
							   "",
							   PGC_SIGHUP, GUC_LIST_INPUT,
							   check_slots, NULL, NULL);
	DefineCustomEnumVariable("exactonce.takeover",
							 "Which silent lives this database takes over from by itself.",
							 "near: those whose end its data reaches, as after a failover; always: also if it is an old copy; never: idem_take_over() decides.",
							 &eo_guc_takeover,
							 EO_TAKEOVER_NEAR, takeovers,
							 PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
	if (preloading)
		DefineCustomIntVariable("exactonce.test_hurry",
								"Divides the intervals of the protocol, for tests only.",
								"With more than 1, keys are not safe from requests that arrive late.",
								&test_hurry,
								1, 1, 1000,
								PGC_POSTMASTER, 0,
								NULL, NULL, NULL);
	MarkGUCPrefixReserved("exactonce");
	if (test_hurry != 1)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("exactonce.test_hurry is %d", test_hurry),
				 errdetail("Intervals that keep keys safe from late requests are divided by it."),
				 errhint("It is for tests only. Set it to 1, and restart the server.")));
}

/* Where requests go. */
static void
define_destinations(void)
{
	DefineCustomStringVariable("exactonce.allowed_endpoints",
							   "Endpoints, beside those of AWS, that servers which no superuser owns may have.",
							   "A list of host[:port]. An address of this machine or of its link counts only with its port.",
							   &eo_guc_allowed_endpoints,
							   "",
							   PGC_SIGHUP, GUC_LIST_INPUT,
							   check_endpoints, assign_endpoints, NULL);
	DefineCustomStringVariable("exactonce.server",
							   "Foreign server that functions use when none is named.",
							   "It decides to which table SECURITY DEFINER code goes, so roles need GRANT SET ON PARAMETER to change it.",
							   &eo_guc_server,
							   "exactonce",
							   PGC_SUSET, 0,
							   NULL, NULL, NULL);
}

const char *
eo_guc_enabled_by(void)
{
	int			n;
	struct config_generic **all = eo_compat_guc_variables(&n);

	for (int i = 0; i < n; i++)
	{
		if (strcmp(all[i]->name, "exactonce.enabled") != 0)
			continue;
		switch (all[i]->source)
		{
			case PGC_S_DATABASE:
				return "for this database";
			case PGC_S_USER:
				return "for this role";
			case PGC_S_DATABASE_USER:
				return "for this role in this database";
			case PGC_S_FILE:
			case PGC_S_ARGV:
			case PGC_S_GLOBAL:
				return "for the whole cluster";
			default:
				break;
		}
	}
	return "in this session";
}

int64
eo_guc_hurried_us(int64 us)
{
	return us / test_hurry;
}
