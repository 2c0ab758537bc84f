/*-------------------------------------------------------------------------
 *
 * slot_room.h
 *	  A slot for a new claim, or the error that says why there is none.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SLOT_ROOM_H
#define EO_COMMIT_SLOT_ROOM_H

#include "postgres.h"

#include "cluster/slots.h"
#include "cluster/target.h"
#include "server/options.h"

/*
 * Add a slot filled from info.  If the claim table is full and slots are about to be
 * freed, this waits for some seconds, interruptibly.  Returns false if the life of the
 * claim is over.  Raises 54000 if there is no room.
 */
extern bool eo_slot_room_add(const EoTarget *target, const char *pk, const EoSlotInfo *info,
							 const char *key, const EoServer *server, EoSlotRef *ref);

/*
 * For idem_check(): how full the claim table is, with what, and what remains of looks that have
 * made way.  *advice is NULL if all is well.
 */
extern char *eo_slot_room_report(const char **advice);

#endif							/* EO_COMMIT_SLOT_ROOM_H */
