/*-------------------------------------------------------------------------
 *
 * store.h
 *	  A server that is ready to be called.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_STORE_H
#define EO_SERVER_STORE_H

#include "postgres.h"

#include "records/record.h"
#include "records/token.h"
#include "server/options.h"
#include "server/stats.h"
#include "wire/call.h"
#include "wire/client.h"

#define EO_CREDENTIALS_HASH_LEN 32

/* Where the item of a life is, see cluster/life.h; zeroed: nowhere. */
typedef struct EoPlaceRef
{
	uint32		index;
	uint64		generation;
} EoPlaceRef;

/* A server that is ready to be called. */
typedef struct EoStore
{
	EoServer   *server;
	const EoLayout *layout;
	EoClient	client;
	const char *credentials_from;	/* NULL: there are none */
	uint8		credentials_hash[EO_CREDENTIALS_HASH_LEN];	/* see
															 * eo_store_is_trusted() */
	EoPlaceRef	place;			/* kept here for ledger/lives.c */
	bool		mode_is_known;	/* kept here for keys/writes.c */
	EoStats    *stats;			/* the counters of the server */
} EoStore;

/*
 * The store of a server (NULL: exactonce.server) for the current role, valid
 * until the end of the transaction.  Raises what eo_options_find() and eo_options_read() raise, and
 * 53200.
 */
extern EoStore *eo_store_open(const char *server_name);

/*
 * A store of its own for a server of eo_options_load().  It lives in that server's
 * memory context, so it may outlive the transaction.
 */
extern EoStore *eo_store_create(EoServer *server);

/* The circuits of all clients that are made from now on, see cluster/circuit.c. */
extern void eo_store_use_circuit(const EoCircuit *circuit);

/*
 * Make a random key to hash credentials with.  To be called in the postmaster, at each
 * start of the server, so that its processes inherit the key.
 */
extern void eo_store_make_hash_key(void);

/*
 * May the holder of a claim, whose store has that hash, be believed without a request
 * for this store?  Only if both sign with the same credentials: DynamoDB answers
 * nobody who does not know the secret, and neither does this cluster.
 */
extern bool eo_store_is_trusted(const EoStore *store, const uint8 *credentials_hash);

/* A lease that ended before this instant, in milliseconds since 1970, is dead. */
extern int64 eo_store_dead_before_ms(const EoStore *store);

/* The partition key of a key, palloc'd.  Raises 54000 if it is too long. */
extern char *eo_store_pk(const EoStore *store, const char *key);

/* Make a token; raises XX000 if there are no random numbers. */
extern void eo_store_new_token(char token[EO_TOKEN_LEN + 1]);

/* Did the record finish so long ago that it counts as absent? */
extern bool eo_store_is_expired(const EoStore *store, const EoRecord *r);

/*
 * May the record be taken over by a write that is conditional on exactly what was seen
 * (EO_REPLACE and its like)?  It is expired; or another client wrote it, and its run is
 * over by the rules of that client, which no condition of EO_ACQUIRE can tell.
 */
extern bool eo_store_is_replaceable(const EoStore *store, const EoRecord *r);

/* May the key of the record be claimed: is its lease dead, or is it failed and due? */
extern bool eo_store_is_free(const EoStore *store, const EoRecord *r);

/* A call that is about no item, freed with the current memory context; the caller fills it. */
extern EoCall *eo_store_new_call(EoStore *store, EoOperation op);

/* A call whose body begins with the table's name and is left open for further members. */
extern EoCall *eo_store_new_table_call(EoStore *store, EoOperation op, const char *table);

extern void eo_store_run_call(EoStore *store, EoCall *call);

#endif							/* EO_SERVER_STORE_H */
