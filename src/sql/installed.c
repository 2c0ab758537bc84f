/*-------------------------------------------------------------------------
 *
 * installed.c
 *	  The version of the extension that is installed on this machine.
 *
 * PostgreSQL reads the extension's control file, and has no function in C that tells what
 * is in it.  So its view is asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "sql/installed.h"
#include "utils/memutils.h"

char *
eo_installed_version(void)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *version = NULL;

	SPI_connect();
	if (SPI_execute("SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name OPERATOR(pg_catalog.=) 'exactonce'",
					true, 1) == SPI_OK_SELECT && SPI_processed == 1)
	{
		char	   *value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		if (value != NULL)
			version = MemoryContextStrdup(context, value);
	}
	SPI_finish();
	return version;
}
