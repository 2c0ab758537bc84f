/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Who this database is in the records that it seals.
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
 * For the worker, in a transaction: read the identity of this database.  A database
 * that has none, because it is a copy of another one, gets a new one.
 * new_incarnation: this is the first worker after a start of the server.
 */
extern void eo_identity_enter(bool new_incarnation, EoIdentity *identity);

#endif							/* EO_COMMIT_IDENTITY_H */
