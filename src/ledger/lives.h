/*-------------------------------------------------------------------------
 *
 * lives.h
 *	  For a session: the contact that its database's life has with a table, its
 *	  lease there, and whether another life is over.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_LIVES_H
#define EO_COMMIT_LIVES_H

#include "postgres.h"

#include "cluster/life.h"
#include "cluster/target.h"
#include "ledger/life_rows.h"
#include "records/life_item.h"
#include "server/answer.h"
#include "server/store.h"
#include "wire/status.h"

/*
 * Make sure that the current life of this database has its item in the table, and set
 * store->place.  The first contact takes a request; after that this takes none.  doing
 * is the verb of error messages, about this key.
 *
 * Raises ID006, ID007 or 53200 if the table cannot be reached,
 * 54000 if there is no room, 55000 if the worker mints no life.  Interruptible.
 */
extern void eo_lives_contact(EoStore *store, const EoTarget *target, const char *doing,
							 const char *key);

/*
 * Wait until the worker has minted a life of this database, if there is none.  Makes no request.
 * key and server are for messages.  Raises 55000 if the database is drained, or if there is
 * no life after some time.  Interruptible.
 */
extern void eo_lives_await(const char *key, const char *server, EoLife *life);

/*
 * Before a seal: make contact, and see that the lease is young enough to be still good
 * at the last callback.  Extends it by a request if not, until the deadline.  Returns
 * false if this life (NULL: any) is not the current one, or is given up meanwhile.
 * Raises as above.
 */
extern bool eo_lives_renew(EoStore *store, const EoTarget *target, const uint8 *life,
						   const char *key, int64 deadline_us);

/* Is it young enough for a seal, and for retiring another life? */
extern bool eo_lives_lease_is_young(EoPlaceRef place);

/* At the last callback: is the lease of the sealing life still good?  Only looks. */
extern bool eo_lives_lease_holds(EoPlaceRef place);

/* Without a lease that is younger than this nothing commits. */
#define EO_LIVES_LEASE_US INT64CONST(20000000)

/* A beat is sent, and counted, every so often: see EoLifeItem. */
#define EO_LIVES_BEAT_US INT64CONST(5000000)

/* A beat that is not answered, and a reading of a silent life, is repeated at this pace. */
#define EO_LIVES_PACE_US INT64CONST(2000000)

/* How a life stands to this data. */
typedef enum EoLifeRelation
{
	EO_LIFE_OURS,				/* the current life of this database */
	EO_LIFE_PAST,				/* it is over, and this data has been through
								 * it */
	EO_LIFE_BRANCH,				/* it is over, and its data left ours before
								 * its commits */
	EO_LIFE_OTHER				/* it goes on, or has another heir */
} EoLifeRelation;

/* The answer of eo_lives_ask(). */
typedef struct EoLifeVerdict
{
	EoLifeRelation relation;
	bool		known;			/* this data has been through it, or its data
								 * left ours at some time */
	bool		beats;			/* it goes on elsewhere: its beats were seen */
	bool		this_run;		/* it began in this run of the server */
	bool		closed;			/* it is over, and nobody had to take over:
								 * its data may go on under another life */
	uint64		next_floor;		/* the lowest of the runs since its own, as
								 * far as they are known; UINT64_MAX: none */
	uint64		next_start;		/* the same */
} EoLifeVerdict;

/*
 * How does the life stand to this data, as far as the store's table is concerned?
 * Reads its item, and asks the worker to look after a life that is open.  Returns
 * false, and the error, if DynamoDB does not answer.  Needs a transaction.
 */
extern bool eo_lives_ask(EoStore *store, const uint8 *id, EoLifeVerdict *verdict,
						 EoError *error);

/*
 * The same, of a history that the caller has read.  Only looks: the worker is not asked
 * for anything.  Sets *exists, too: has the life an item in the table?
 */
extern bool eo_lives_look(EoStore *store, const EoHistory *history, const uint8 *id,
						  EoLifeVerdict *verdict, bool *exists, EoError *error);

/* For the worker: the same from a history, and what is known of the life's end. */
extern void eo_lives_judge(const EoHistory *history, const uint8 *id, bool over,
						   const char *ancestors, EoLifeVerdict *verdict);

/* Is it the current life?  Then *verdict says so. */
extern bool eo_lives_judge_current(Oid dboid, const uint8 *id, EoLifeVerdict *verdict);

/* Does a list of ancestors, as an item has it, lead into this history? */
extern bool eo_lives_lead_into(const EoHistory *history, const char *ancestors);

/* The lives before this one, as its item lists them, palloc'd. */
extern char *eo_lives_ancestors(const EoHistory *history, const uint8 *life);

/* ---- writes on lives, for session and worker ---- */

/*
 * The time for the item of a life: by the service's clock, or by the host's until that is
 * known.  Nothing is decided by it, but a ttl.
 */
extern int64 eo_lives_now_ms(EoStore *store);

/*
 * Prepare the creation of the item, a beat, or its end (EO_LIFE_CREATE, _BEAT, _CLOSE),
 * and note its nonce and the instant, also in *place.  NULL: the life is over.
 */
extern EoAnswer *eo_lives_prepare(EoStore *store, EoPlace *place, EoLifeVerb verb,
								  const char *ancestors);

/*
 * Take the answer.  Returns false if the item is not ours any more; then the life was
 * given up.  A failed call changes nothing, and counts as true.
 */
extern bool eo_lives_take(const EoPlace *place, const EoAnswer *answer);

#endif							/* EO_COMMIT_LIVES_H */
