/*-------------------------------------------------------------------------
 *
 * known_targets.h
 *	  The DynamoDB tables that servers of this database have, or have had.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_KNOWN_TARGETS_H
#define EO_LEDGER_KNOWN_TARGETS_H

#include "postgres.h"

#include "cluster/target.h"

/*
 * Record the target of a server in the current transaction, unless it is recorded
 * already.  Raises what eo_internal_open() raises.
 */
extern void eo_known_target_enter(const EoTarget *target);

/*
 * Is this target recorded?  Needs a transaction; raises what eo_internal_open()
 * raises.
 */
extern bool eo_known_target_exists(const EoTarget *target);

/*
 * The server that suits a target best: one that leads to its table, of the same owner, then with
 * the same key_prefix, and of several the target's own.  InvalidOid: none leads to its table.
 */
extern Oid	eo_known_target_server(const EoTarget *target);

/* The credentials of a role on a server. */
typedef struct EoIdentityRef
{
	Oid			serverid;
	Oid			userid;
} EoIdentityRef;

/*
 * The owner of a trusted server that leads to the same place as a target does, by its present
 * options.  Returns false if there is none.  Needs a transaction.
 */
extern bool eo_known_target_trusted(const EoTarget *target, EoIdentityRef *owner);

#define EO_MAX_IDENTITIES 16

/*
 * The other identities that lead to the same place as a target does: on each server whose
 * present options do, its owner and the roles that have a user mapping and USAGE; those on
 * the target's own server first, which also has its owner if it leads elsewhere by now.
 * Writes at most EO_MAX_IDENTITIES to others, and returns their number.  Needs a
 * transaction.
 */
extern int	eo_known_target_identities(const EoTarget *target, EoIdentityRef *others);

#endif							/* EO_LEDGER_KNOWN_TARGETS_H */
