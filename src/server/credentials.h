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

/* Reads the environment; once, in the postmaster (see credentials.c). */
extern void eo_credentials_init(void);

/*
 * Fill cred for this server and return where it came from ("user mapping",
 * "environment"), or NULL if there is nothing this server may use.  The
 * strings live as long as the server's entry, or for ever.
 */
extern const char *eo_credentials_find(const EoServer *server, EoCredentials *cred);

#endif							/* EO_SERVER_CREDENTIALS_H */
