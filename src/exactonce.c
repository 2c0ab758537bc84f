/*-------------------------------------------------------------------------
 *
 * exactonce.c
 *	  Loading: the order in which the parts are wired.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_file.h"
#include "commit/hooks.h"
#include "commit/seal.h"
#include "commit/xact.h"
#include "commands/extension.h"
#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "server/credentials.h"
#include "server/guc.h"
#include "sql/preconditions.h"
#include "wire/http.h"
#include "worker/launcher.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	eo_guc_define(process_shared_preload_libraries_in_progress);

	/*
	 * Loaded by a backend on its own, the functions exist but refuse to work:
	 * the environment of a session is not to be believed, and the worker and
	 * the shared memory of a cluster cannot be had any more.
	 */
	if (!process_shared_preload_libraries_in_progress)
	{
		if (creating_extension)
			ereport(WARNING,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("exactonce is not in shared_preload_libraries, and does nothing before it is"),
					 errhint("Add it there, after what the setting has already, and restart the server.")));
		return;
	}
	eo_preconditions_preloaded = true;
	eo_http_preload();
	eo_credentials_init();
	eo_claim_file_init();
	eo_xact_init(eo_seal);
	eo_hooks_init();
	eo_launcher_register();
}
