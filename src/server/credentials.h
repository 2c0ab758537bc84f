/*-------------------------------------------------------------------------
 *
 * credentials.h
 *	  Where the keys to sign with come from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_CREDENTIALS_H
#define EO_SERVER_CREDENTIALS_H

#include "dynamodb/sigv4.h"
#include "server/options.h"

/* Read the environment.  Called once, in the postmaster. */
extern void eo_credentials_init(void);

/*
 * Fill cred for this server.  Returns the source ("user mapping", "environment"),
 * or NULL if there are no credentials that this server may use.  The strings live
 * at least as long as server.
 */
extern const char *eo_credentials_find(const EoServer *server, EoCredentials *cred);

#endif							/* EO_SERVER_CREDENTIALS_H */
