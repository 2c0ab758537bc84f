/*-------------------------------------------------------------------------
 *
 * doubts.h
 *	  Records in doubt that sessions have met.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_DOUBTS_H
#define EO_CLUSTER_DOUBTS_H

#include "postgres.h"

#include "cluster/slots.h"
#include "cluster/target.h"

/* Note a record in doubt that was met, so that exactonce_in_doubt shows it. */
extern void eo_doubt_note(const EoTarget *target, const char *pk, const EoSlotInfo *info);

/*
 * Free the slots of this key that are in doubt, and those of the claim with this token (NULL: none)
 * that was met by other addresses: the doubt is over.
 */
extern void eo_doubt_end(const EoTarget *target, const char *pk, const char *token);

#endif							/* EO_CLUSTER_DOUBTS_H */
