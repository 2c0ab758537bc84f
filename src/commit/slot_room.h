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

#include "cluster/room.h"
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

/* What fills the claim table, for a person. */
extern char *eo_slot_room_usage_text(const EoUsage *usage);

#endif							/* EO_COMMIT_SLOT_ROOM_H */
