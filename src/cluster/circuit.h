/*-------------------------------------------------------------------------
 *
 * circuit.h
 *	  Whether an endpoint answers, as all processes of a cluster have found out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_CIRCUIT_H
#define EO_CLUSTER_CIRCUIT_H

#include "postgres.h"

#include "cluster/memory.h"
#include "server/entries.h"
#include "utils/timestamp.h"
#include "wire/client.h"
#include "wire/status.h"

/* Longest URL of an endpoint; that of a server's option is shorter. */
#define EO_MAX_CIRCUIT_URL 319

/* A circuit as exactonce_circuits shows it. */
typedef struct EoCircuitReport
{
	char		url[EO_MAX_CIRCUIT_URL + 1];
	int32		request_timeout_ms;
	bool		open;
	TimestampTz answered_at;	/* the last answer; 0: none yet */
	uint32		failures;		/* calls in a row that had no answer */
	TimestampTz silent_since;	/* if there are failures: the first of these
								 * calls was started */
	TimestampTz opened_at;		/* if it is open, like the following */
	uint64		refused;		/* calls that were not made */
	TimestampTz next_probe_at;
	char		why[EO_MESSAGE_LEN];	/* how the last call failed; "": none
										 * has */
} EoCircuitReport;

extern const EoMemory eo_circuit_memory;

/* Is any circuit open?  Reads one number. */
extern bool eo_circuit_any_open(void);

/*
 * For a worker: is the circuit of this client open, and is it time to ask whether the
 * service is back?  True: the caller must ask now, because no other process does so
 * for a second.  Otherwise lowers *due_us to the instant at which it is time.
 */
extern bool eo_circuit_take_turn(EoClient *client, int64 *due_us);

/* Report on the circuit of this client; false: there is none yet. */
extern bool eo_circuit_look(EoClient *client, EoCircuitReport *report);

/* For the view exactonce_room.  No lock is held: another process may change an entry meanwhile. */
extern EoEntries eo_circuit_entries(void);

/* The next circuit; *cursor begins with 0.  False: there is none. */
extern bool eo_circuit_walk(uint32 *cursor, EoCircuitReport *report);

#endif							/* EO_CLUSTER_CIRCUIT_H */
