/*-------------------------------------------------------------------------
 *
 * check_lives.c
 *	  The rows of idem_check() about lives, and about where the data comes from.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "ledger/life_rows.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "server/options.h"
#include "sql/check_lives.h"

static int	count_extended(void);
static int	count_barred(void);
static bool has_home(void);

void
eo_check_lives(EoCheckRow *row)
{
	int			waiting = eo_check_lives_waiting();
	int			extended = count_extended();
	int			barred = count_barred();

	if (extended > 0)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("%d lives of this data are extended by another server", extended),
						 "See exactonce_lives. If this is a copy, give its servers another table. If this is the new primary, stop the old one.");
	else if (waiting > 0)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("%d lives wait for idem_take_over()", waiting),
						 "See exactonce_lives. Make sure that their servers are gone for good, then call idem_take_over(life).");
	else if (barred > 0)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("the life is barred in %d tables of tenants", barred),
						 "See exactonce_lives. Find out who writes the ORIGIN items there; idem_lift(server) has the tables used again.");
	else if (!has_home())
		eo_check_row_set(row, EO_FINDING_WARNING,
						 "every server is a tenant's, so no table is the home of a life",
						 "A failover may leave tables with the old primary. Have a superuser own one server, without home 'false'.");
	else
		eo_check_row_set(row, EO_FINDING_OK, "none waits for an operator", NULL);
}

/*
 * A life that this data has been through and that somebody else extends is that of the
 * original of a copy, or of an old primary that was not stopped.
 */
static int
count_extended(void)
{
	uint32		cursor = 0;
	EoLifeReport report;
	EoHistory	history;
	int			extended = 0;

	eo_life_rows_read(&history);
	while (eo_life_watch_walk(&cursor, &report))
		extended += report.target.dboid == MyDatabaseId && report.watch == EO_WATCH_BEATS &&
			eo_life_rows_find(&history, report.life) >= 0;
	return extended;
}

int
eo_check_lives_waiting(void)
{
	uint32		cursor = 0;
	EoLifeReport report;
	int			waiting = 0;

	while (eo_life_watch_walk(&cursor, &report))
		waiting += report.target.dboid == MyDatabaseId && report.watch == EO_WATCH_NOT_NEAR;
	return waiting;
}

static int
count_barred(void)
{
	uint32		cursor = 0;
	EoPlace		place;
	int			barred = 0;

	while (eo_life_walk_places(MyDatabaseId, true, &cursor, &place))
		barred += place.barred_at != 0;
	return barred;
}

/* May any server lead to the home of a life?  A database without servers needs none. */
static bool
has_home(void)
{
	List	   *servers = eo_options_servers();
	ListCell   *cell;

	foreach(cell, servers)
	{
		if (!OidIsValid(eo_options_tenant(lfirst_oid(cell), InvalidOid)))
			return true;
	}
	return servers == NIL;
}

void
eo_check_lives_first_use(EoCheckRow *row, int64 items)
{
	EoHistory	history = {0};
	bool		used = false;

	if (items > 0)
		eo_life_rows_read(&history);
	/* The worker has begun a life as soon as the extension was there. */
	for (int i = 0; i < history.n + history.nearlier; i++)
		used |= history.rows[i].beat > 0;
	if (items > 0 && !used)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("active, with about " INT64_FORMAT " items, and this database has never used a key", items),
						 "If this database was restored from a dump, its servers lead to the table of the original: give them another one before anything runs. If it is to share the table, this goes with its first key.");
	else
		eo_check_row_set(row, EO_FINDING_OK, "active", NULL);
}
