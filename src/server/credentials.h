/*-------------------------------------------------------------------------
 *
 * credentials.h
 *	  Where the keys to sign with come from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_CREDENTIALS_H
#define EO_SERVER_CREDENTIALS_H

#include "dynamodb/client.h"
#include "server/credential_cache.h"
#include "server/options.h"

/* Read the environment.  Called once, in the postmaster. */
extern void eo_credentials_init(void);

/*
 * Give the client the credentials of this server, which must outlive it, and which
 * eo_credentials_close() releases.  Returns the source ("user mapping",
 * "environment", "chain"), or NULL if there are no credentials that this server may
 * use.  Of a chain the credentials come later.  Raises 53200.
 */
extern const char *eo_credentials_open(const EoServer *server, EoClient *client);
extern void eo_credentials_close(EoClient *client);

/*
 * Have the credentials of a chain fetched, unless they are there.  Waits for at most
 * the client's request_timeout.  An interrupt raises an error; if there are none to be
 * had, the calls of the client say so.
 */
extern void eo_credentials_await(EoClient *client);

/* The options that name the credentials of a chain; NULL: this is none. */
extern const EoCredentialRef *eo_credentials_ref(const EoClient *client);

/*
 * The worker's part, without waiting: fetch what is to be fetched.  From the first call
 * on this process never waits for credentials.  *until_us is when to call again at the
 * latest.
 */
extern void eo_credentials_refresh(int64 *until_us);

#endif							/* EO_SERVER_CREDENTIALS_H */
