/*-------------------------------------------------------------------------
 *
 * service_clocks.c
 *	  What the processes of a cluster tell each other of the services' clocks.
 *
 * A process that has found the clock of an endpoint leaves it here for those that do
 * not know it, so that the first contact with a service is made once for a run of the
 * server.  Only known clocks are here, never a guess.  A session that knows the clock
 * is corrected by its own replies only; the worker follows what was found last.
 *
 * This is ordinary shared memory: it begins anew with every start of the server,
 * and with every restart after a crash.  The lock of the claim table covers it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/service_clocks.h"
#include "storage/lwlock.h"
#include "wire/client.h"

/* One more endpoint replaces another, whose clock has to be asked for again. */
#define MAX_CLOCKS 64

/* A longer URL is not shared. */
#define MAX_URL 319

typedef struct ServiceClock
{
	char		url[MAX_URL + 1];	/* empty: free */
	int64		offset_us;		/* as in EoServiceClock */
	int64		host_us;
} ServiceClock;

typedef struct ServiceClocks
{
	uint32		victim;			/* is replaced next */
	ServiceClock entries[MAX_CLOCKS];
} ServiceClocks;

static ServiceClocks *clocks;

const EoMemory eo_service_clock_memory = {
	"exactonce service clocks", sizeof(ServiceClocks), (void **) &clocks, NULL
};

static bool read_clock(const char *url, ServiceClock *clock);
static void write_clock(const char *url, const EoServiceClock *clock);
static ServiceClock *find(const char *url);

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
	if (read_clock(client->endpoint.url, &clock))
		(void) eo_client_adopt_clock(client, clock.offset_us, clock.host_us);
	return eo_client_knows_clock(client);
}

static bool
read_clock(const char *url, ServiceClock *clock)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const ServiceClock *entry = find(url);

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
	write_clock(client->endpoint.url, &client->clock);
	client->clock.news = false;
}

static void
write_clock(const char *url, const EoServiceClock *clock)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	ServiceClock *entry = find(url);

	if (entry == NULL)
	{
		entry = &clocks->entries[clocks->victim];
		clocks->victim = (clocks->victim + 1) % MAX_CLOCKS;
		strlcpy(entry->url, url, sizeof(entry->url));
	}
	entry->offset_us = clock->offset_us;
	entry->host_us = clock->host_us;
}

/* The lock is held. */
static ServiceClock *
find(const char *url)
{
	for (int i = 0; i < MAX_CLOCKS && clocks->entries[i].url[0] != '\0'; i++)
	{
		if (strcmp(clocks->entries[i].url, url) == 0)
			return &clocks->entries[i];
	}
	return NULL;
}
