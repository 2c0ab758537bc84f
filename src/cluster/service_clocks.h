/*-------------------------------------------------------------------------
 *
 * service_clocks.h
 *	  What the processes of a cluster tell each other of the services' clocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_SERVICE_CLOCKS_H
#define EO_CLUSTER_SERVICE_CLOCKS_H

#include "postgres.h"

#include "cluster/memory.h"
#include "server/entries.h"
#include "wire/client.h"

extern const EoMemory eo_service_clock_memory;

/*
 * Let a client that does not know its service's clock adopt what others have found.
 * Returns whether it knows the clock then.
 */
extern bool eo_service_clock_meet(EoClient *client);

/* The same for a client that knows a clock, too: the last one that was found counts. */
extern bool eo_service_clock_follow(EoClient *client);

/* Tell the cluster what this client has found, if it has; to be called after replies. */
extern void eo_service_clock_share(EoClient *client);

/* For the view exactonce_room; the caller must hold the lock. */
extern EoEntries eo_service_clock_entries(void);

#endif							/* EO_CLUSTER_SERVICE_CLOCKS_H */
