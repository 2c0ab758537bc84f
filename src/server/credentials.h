/*-------------------------------------------------------------------------
 *
 * credentials.h
 *	  Where the keys to sign with come from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_CREDENTIALS_H
#define EO_SERVER_CREDENTIALS_H

#include "server/credential_cache.h"
#include "server/server.h"
#include "wire/client.h"

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
 * Have the credentials of a chain fetched, unless they are there.  Waits until
 * deadline_us at most.  An interrupt raises an error; if there are none to be had, the
 * calls of the client say so.
 */
extern void eo_credentials_await(EoClient *client, int64 deadline_us);

/* The options that name the credentials of a chain; NULL: this is none. */
extern const EoChainWish *eo_credentials_wish(const EoClient *client);

/*
 * The region of a server without the option: that of the environment, the profile or
 * the instance.  Waits, if it must and may, for at most request_timeout, and raises what
 * an interrupt raises.  False: it is not known, and the report says why.  region has
 * EO_MAX_REGION + 1 bytes.
 */
extern bool eo_credentials_region(const EoServer *server, bool wait, char *region,
								  EoCredentialReport *report);

/*
 * Ask STS who the client signs as.  Waits for at most request_timeout.  False: it is not
 * known, and failure, of EO_CHAIN_WHY_LEN bytes, says why.  It should be asked only
 * about credentials of the database server, and where AWS is: not for an engine at an
 * endpoint of one's own, unless the environment names an STS, too.
 */
extern bool eo_credentials_may_ask_caller(const EoServer *server, const EoClient *client);
extern bool eo_credentials_ask_caller(const EoServer *server, const EoClient *client,
									  EoCaller *caller, char *failure);

/*
 * The worker's part, without waiting: fetch what is to be fetched.  From the first call
 * on this process never waits for credentials.  *until_us is when to call again at the
 * latest.
 */
extern void eo_credentials_refresh(int64 *until_us);

/* The worker ends: others need not wait for what it was fetching. */
extern void eo_credentials_leave(void);

#endif							/* EO_SERVER_CREDENTIALS_H */
