/*-------------------------------------------------------------------------
 *
 * update.c
 *	  Updates of the extension: what is installed, and ALTER EXTENSION exactonce UPDATE.
 *
 * Three versions may differ: that of the library, which the server has loaded when it started,
 * that of the files on this machine, and that of the SQL objects in each database.  While the
 * first and the third differ, nothing is done in the database (internal.c).  The last step of
 * an update makes them the same, so a command that would make them differ is refused.
 *
 * PostgreSQL reads the extension's control file, and has no function in C that tells what
 * is in it.  So its view is asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "ledger/internal.h"
#include "ledger/update.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* The first column of the only row of a query, palloc'd; NULL: there is none. */
static char *
query_value(const char *query)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *copy = NULL;

	SPI_connect();
	if (SPI_execute(query, true, 1) == SPI_OK_SELECT && SPI_processed == 1)
	{
		char	   *value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		if (value != NULL)
			copy = MemoryContextStrdup(context, value);
	}
	SPI_finish();
	return copy;
}

char *
eo_update_installed_version(void)
{
	return query_value("SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name OPERATOR(pg_catalog.=) 'exactonce'");
}

bool
eo_update_is(Node * statement)
{
	return IsA(statement, AlterExtensionStmt) &&
		strcmp(((AlterExtensionStmt *) statement)->extname, "exactonce") == 0 &&
		OidIsValid(get_extension_oid("exactonce", true));
}

/* The version that the statement leads to; NULL: it will be refused. */
static const char *
version_after(const AlterExtensionStmt * alter)
{
	ListCell   *lc;

	foreach(lc, alter->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "new_version") == 0)
			return defGetString(def);
	}
	return eo_update_installed_version();
}

/*
 * The prepared transactions that hold locks on the internal tables.  A prepared transaction has
 * no process.
 */
static char *
count_prepared(void)
{
	StringInfoData query;

	initStringInfo(&query);
	/* The tables of a database that was copied have the same OIDs. */
	appendStringInfo(&query, "SELECT pg_catalog.count(DISTINCT virtualtransaction)"
					 " FROM pg_catalog.pg_locks WHERE pid IS NULL"
					 " AND database OPERATOR(pg_catalog.=) %u"
					 " AND relation OPERATOR(pg_catalog.=) ANY (ARRAY[", MyDatabaseId);
	for (int i = 0; i < EO_INTERNAL_TABLES; i++)
		appendStringInfo(&query, "%s%u", i > 0 ? ", " : "", eo_internal_id(i));
	appendStringInfoString(&query, "]::pg_catalog.oid[]) HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0");
	return query_value(query.data);
}

void
eo_update_check(Node * statement)
{
	const char *after = version_after((AlterExtensionStmt *) statement);
	char	   *prepared;

	if (after == NULL)
		return;
	if (strcmp(after, EO_VERSION) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot update exactonce to version %s while the server runs the library of version %s",
						after, EO_VERSION),
				 errdetail("Nothing was changed."),
				 errhint("Install the package of that version, restart PostgreSQL, and repeat this.")));
	if (strcmp(eo_internal_version(), after) == 0)
		return;

	/*
	 * COMMIT PREPARED would need the tables as they are, and the update would
	 * wait for it.
	 */
	prepared = count_prepared();
	if (prepared != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot update exactonce while prepared transactions have completed keys"),
				 errdetail("There are %s of them in this database. They were prepared by the library of version %s, which must commit them.",
						   prepared, eo_internal_version()),
				 errhint("Install the package of that version again, restart PostgreSQL, and end them with COMMIT PREPARED. Or give their work up with ROLLBACK PREPARED.")));
}
