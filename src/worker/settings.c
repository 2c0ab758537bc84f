/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The settings of a worker, which no database and no role may change.
 *
 * A process that connects takes over what ALTER DATABASE ... SET and ALTER ROLE ...
 * SET say, and PostgreSQL has no way to connect without that.  The owner of a
 * database could so have its worker, which runs as superuser, work in another role,
 * find other objects, or fail each time it is started.  So every setting that
 * connecting has changed is changed back, whatever it is.
 *
 * A setting that was changed back keeps its value as long as the worker runs: a new
 * value in the configuration file is taken by the next worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "compat.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "worker/settings.h"

/* The value of a setting before the worker was connected. */
typedef struct Noted
{
	char		name[NAMEDATALEN];	/* hash key */
	char	   *value;			/* NULL: it had none */
} Noted;

/* Settings that the worker needs, whatever the configuration file says. */
static const char *const needed[][2] = {
	{"role", "none"},
	{"search_path", ""},
	{"default_transaction_read_only", "off"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_deferrable", "off"},
	{"statement_timeout", "0"},
	{"lock_timeout", "0"},
	{"idle_in_transaction_session_timeout", "0"},
	{"transaction_timeout", "0"},	/* 17 and later */

	/*
	 * The removal of a row need not reach the standbys: a row that is there
	 * again after a failover is finished again.
	 */
	{"synchronous_commit", "local"}
};

static HTAB *noted;

void
eo_settings_note(void)
{
	HASHCTL		ctl = {.keysize = NAMEDATALEN,.entrysize = sizeof(Noted)};
	int			n;
	struct config_generic **all = eo_compat_guc_variables(&n);

	ctl.hcxt = TopMemoryContext;
	noted = hash_create("exactonce settings", 512, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	for (int i = 0; i < n; i++)
	{
		const char *value = GetConfigOption(all[i]->name, true, false);
		Noted	   *entry = hash_search(noted, all[i]->name, HASH_ENTER, NULL);

		entry->value = value != NULL ? MemoryContextStrdup(TopMemoryContext, value) : NULL;
	}
}

/* Was the setting made by ALTER DATABASE or ALTER ROLE? */
static bool
is_foreign(const struct config_generic *setting)
{
	switch (setting->source)
	{
		case PGC_S_GLOBAL:
		case PGC_S_DATABASE:
		case PGC_S_USER:
		case PGC_S_DATABASE_USER:
			return true;
		default:
			return false;
	}
}

/*
 * Failures are logged and not raised: a setting of the database must not keep the
 * worker from starting.
 */
static void
set(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_OVERRIDE, GUC_ACTION_SET, true, LOG,
							 false);
}

void
eo_settings_apply(void)
{
	int			n;
	struct config_generic **all;

	StartTransactionCommand();
	/* The session's user has no value that could be noted before it connects. */
	SetSessionAuthorization(BOOTSTRAP_SUPERUSERID, true);
	all = eo_compat_guc_variables(&n);
	for (int i = 0; i < n; i++)
	{
		const Noted *entry = hash_search(noted, all[i]->name, HASH_FIND, NULL);

		/* A name that only the database knows means nothing to any program. */
		if (entry != NULL && entry->value != NULL && is_foreign(all[i]))
			set(entry->name, entry->value);
	}
	for (int i = 0; i < (int) lengthof(needed); i++)
	{
		if (GetConfigOption(needed[i][0], true, false) != NULL)
			set(needed[i][0], needed[i][1]);
	}
	CommitTransactionCommand();
}
