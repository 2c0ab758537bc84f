/*-------------------------------------------------------------------------
 *
 * service_clocks.c
 *	  What the processes of a cluster tell each other of the services' clocks.
 *
 * A process that has found the clock of an endpoint leaves it here for those that do
 * not know it, so that the first contact with a service is made once for a run of the
 * server.  Only known clocks are here, never a guess.  A session that knows the clock
 * is corrected by its own replies only; the worker follows what was found last.  Whoever owns a
 * server may have its replies say any time.  So what is found by a server that no superuser owns
 * counts for other servers of its owner only.
 *
 * This is ordinary shared memory: it begins anew with every start of the server,
 * and with every restart after a crash.  The lock of the claim table covers it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/service_clocks.h"
#include "miscadmin.h"
#include "server/entries.h"
#include "storage/lwlock.h"
#include "wire/client.h"

/* An endpoint that makes way for another (server/entries.c) has to be asked again. */
#define MAX_CLOCKS 64

/* A longer URL is not shared. */
#define MAX_URL 319

typedef struct ServiceClock
{
	EoEntry		entry;			/* its role owns the servers */
	char		url[MAX_URL + 1];
	int64		offset_us;		/* as in EoServiceClock */
	int64		host_us;
} ServiceClock;

static ServiceClock *clocks;

const EoMemory eo_service_clock_memory = {
	"exactonce service clocks", sizeof(ServiceClock) * MAX_CLOCKS, (void **) &clocks, NULL
};

static bool read_clock(const EoClient *client, ServiceClock *clock);
static void write_clock(const EoClient *client);
static ServiceClock *find(const EoClient *client);

bool
eo_service_clock_meet(EoClient *client)
{
	eo_service_clock_share(client);
	return eo_client_knows_clock(client) || eo_service_clock_follow(client);
}

bool
eo_service_clock_follow(EoClient *client)
{
	ServiceClock clock;

	eo_service_clock_share(client);
	if (read_clock(client, &clock))
		(void) eo_client_adopt_clock(client, clock.offset_us, clock.host_us);
	return eo_client_knows_clock(client);
}

static bool
read_clock(const EoClient *client, ServiceClock *clock)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const ServiceClock *entry = find(client);

	if (entry != NULL)
		*clock = *entry;
	return entry != NULL;
}

void
eo_service_clock_share(EoClient *client)
{
	if (!client->clock.news || !eo_client_knows_clock(client) ||
		strlen(client->endpoint.url) > MAX_URL)
		return;
	write_clock(client);
	client->clock.news = false;
}

static void
write_clock(const EoClient *client)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoEntries	all = eo_service_clock_entries();
	ServiceClock *clock = find(client);

	if (clock == NULL)
	{
		clock = eo_entries_take(&all, MyDatabaseId, client->tenant);
		strlcpy(clock->url, client->endpoint.url, sizeof(clock->url));
	}
	clock->offset_us = client->clock.offset_us;
	clock->host_us = client->clock.host_us;
}

/* The lock is held. */
static ServiceClock *
find(const EoClient *client)
{
	for (int i = 0; i < MAX_CLOCKS; i++)
	{
		if (OidIsValid(clocks[i].entry.dboid) && clocks[i].entry.roleid == client->tenant &&
			strcmp(clocks[i].url, client->endpoint.url) == 0)
			return &clocks[i];
	}
	return NULL;
}

EoEntries
eo_service_clock_entries(void)
{
	return (EoEntries)
	{
		clocks, sizeof(ServiceClock), MAX_CLOCKS, NULL
	};
}
