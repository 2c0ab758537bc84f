/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  The identity of this database in the records that it seals.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_IDENTITY_H
#define EO_COMMIT_IDENTITY_H

#include "postgres.h"

typedef struct EoIdentity
{
	uint8		origin[16];		/* UUID */
	int64		incarnation;	/* which start of the server, from 1 */
	uint64		horizon;		/* the outbox is complete from this xid on */
} EoIdentity;

/*
 * For the worker, in a transaction: read the identity of this database, and begin a
 * new incarnation if that is asked for (the first worker after a start of the server
 * does).  A database that has no identity, because it is a copy of another one, gets
 * a new one.  Raises what eo_internal_open() raises, and 55000 if there are two rows.
 */
extern void eo_identity_enter(bool new_incarnation, EoIdentity *identity);

#endif							/* EO_COMMIT_IDENTITY_H */
