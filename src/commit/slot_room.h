/*-------------------------------------------------------------------------
 *
 * slot_room.h
 *	  Slots for sessions: of a new claim, or why there is none, and of doubts.
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

/*
 * Note a record in doubt that was met, so that exactonce_in_doubt shows it.  Its slot is IN_DOUBT
 * from the beginning, and counts in the share of the role that has met it.
 */
extern void eo_slot_room_note_doubt(const EoTarget *target, const char *pk, const EoSlotInfo *info);

/*
 * Free the slots of this key that are in doubt, and those of the claim with this token (NULL: none)
 * that was met by other addresses: the doubt is over.
 */
extern void eo_slot_room_end_doubt(const EoTarget *target, const char *pk, const char *token);

#endif							/* EO_COMMIT_SLOT_ROOM_H */
