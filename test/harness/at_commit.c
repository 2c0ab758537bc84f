/*-------------------------------------------------------------------------
 *
 * at_commit.c
 *		An extension that runs SQL while a transaction commits.
 *
 * at_commit(text) has the command run when the callbacks of XACT_EVENT_PRE_COMMIT are called.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

PG_FUNCTION_INFO_V1(at_commit);

static char *command;

static void
run(XactEvent event, void *arg)
{
	(void) arg;
	if (event == XACT_EVENT_PRE_COMMIT && command != NULL)
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		SPI_connect();
		SPI_execute(command, false, 0);
		SPI_finish();
		PopActiveSnapshot();
	}
	command = NULL;
}

void
_PG_init(void)
{
	RegisterXactCallback(run, NULL);
}

Datum
at_commit(PG_FUNCTION_ARGS)
{
	command = MemoryContextStrdup(TopTransactionContext,
								  text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}
