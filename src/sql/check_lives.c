/*-------------------------------------------------------------------------
 *
 * check_lives.c
 *	  The row of idem_check() about lives.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "server/options.h"
#include "sql/check_lives.h"

static int	count_barred(void);
static bool has_home(void);

void
eo_check_lives(EoCheckRow *row)
{
	int			waiting = eo_check_lives_waiting();
	int			barred = count_barred();

	row->finding = EO_FINDING_WARNING;
	if (waiting > 0)
	{
		row->detail = psprintf("%d lives wait for idem_take_over()", waiting);
		row->advice = "See exactonce_lives. Make sure that their servers are gone for good, then call idem_take_over(life).";
	}
	else if (barred > 0)
	{
		row->detail = psprintf("the life is barred in %d tables of tenants", barred);
		row->advice = "See exactonce_lives. Find out who writes the ORIGIN items there; idem_lift(server) has the tables used again.";
	}
	else if (!has_home())
	{
		row->detail = "every server is a tenant's, so no table is the home of a life";
		row->advice = "A failover may leave tables with the old primary. Have a superuser own one server, without home 'false'.";
	}
	else
	{
		row->finding = EO_FINDING_OK;
		row->detail = "none waits for an operator";
		row->advice = NULL;
	}
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
