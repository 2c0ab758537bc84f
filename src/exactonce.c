/*-------------------------------------------------------------------------
 *
 * exactonce.c
 *	  Loading: the order in which the parts are wired.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "credentials.h"
#include "fmgr.h"
#include "gate.h"
#include "guc.h"
#include "miscadmin.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	eo_guc_define();

	/*
	 * Loaded by a backend on its own, the functions exist but refuse to work:
	 * the environment of a session is not to be believed, and the worker and
	 * the shared memory of a cluster cannot be had any more.
	 */
	if (!process_shared_preload_libraries_in_progress)
		return;
	eo_gate_preloaded = true;
	eo_credentials_init();
}
