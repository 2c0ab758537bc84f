/*-------------------------------------------------------------------------
 *
 * lives.h
 *	  For a session: the contact that its database's life has with a table, and its
 *	  lease there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_LIVES_H
#define EO_LEDGER_LIVES_H

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
 * 54000 if there is no room, 55000 if the worker mints no life or the place is barred.
 * Interruptible.
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
 * false if this life (NULL: any) is not the current one, or is given up meanwhile, or if the
 * current one is barred there.
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

/* The lives before this one, as its item lists them, palloc'd. */
extern char *eo_lives_ancestors(const EoHistory *history, const uint8 *life);

/* ---- writes on lives, for session and worker ---- */

/*
 * The time for the item of a life: by the service's clock, or by the host's until that is
 * known.  Nothing is decided by it, but a ttl.
 */
extern int64 eo_lives_now_ms(EoStore *store);

/*
 * The number by the clock of a beat that is sent now: intervals of EO_LIVES_BEAT_US since the
 * life began, and one.
 */
extern int64 eo_lives_beat_by_clock(const EoLife *life);

/*
 * Prepare the creation of the item, a beat, or its end (EO_LIFE_CREATE, _BEAT, _CLOSE),
 * and note its number, nonce and the instant, also in *place.  NULL: the life is over, or
 * another process has extended the lease a moment ago.
 */
extern EoAnswer *eo_lives_prepare(EoStore *store, EoPlace *place, EoLifeVerb verb,
								  const char *ancestors);

/*
 * Take the answer.  Returns false if the item is not ours any more; then the life was
 * given up, or barred there.  A failed call changes nothing, and counts as true.
 */
extern bool eo_lives_take(const EoPlace *place, const EoAnswer *answer);

#endif							/* EO_LEDGER_LIVES_H */
