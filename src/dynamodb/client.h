/*-------------------------------------------------------------------------
 *
 * client.h
 *	  What the calls of one server have in common: endpoint, credentials, clock.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_CLIENT_H
#define EO_DYNAMODB_CLIENT_H

#include "dynamodb/http.h"
#include "dynamodb/sigv4.h"

/*
 * One server and one set of credentials.  All strings are borrowed from the
 * caller, and must live as long as the client.
 */
typedef struct EoClient
{
	EoHttpEndpoint endpoint;
	const char *host;			/* value of the Host header */
	const char *region;
	EoCredentials credentials;	/* access_key_id NULL: there are none */
	int			request_timeout_ms; /* of a whole call, retries included */
	int			max_attempts;
	EoSigner   *signer;

	/*
	 * The service's clock as its Date headers show it.  clock_offset_ms is
	 * the service's time minus the local time.  It decides whether a lease is
	 * dead, so one odd header must not move it: it moves when two replies in
	 * a row agree, and the first of them is kept as the candidate.
	 */
	int64_t		clock_offset_ms;
	int64_t		clock_candidate_ms;
	bool		clock_candidate;	/* clock_candidate_ms is valid */
	bool		clock_known;	/* a reply has confirmed or set the offset */
} EoClient;

/* Now by the service's clock, as far as it is known: epoch milliseconds. */
extern int64_t eo_client_now_ms(const EoClient *client);

/*
 * Learn from a reply that is believed: its Date header said date_s when the
 * local clock said wall_ms.
 */
extern void eo_client_learn_clock(EoClient *client, int64_t date_s, int64_t wall_ms);

/*
 * Learn from a reply that refused a signature.  If the clocks differ by so much
 * that this can be the reason, the offset is set at once and true is returned:
 * the request should be signed again.
 */
extern bool eo_client_correct_clock(EoClient *client, int64_t date_s, int64_t wall_ms);

#endif							/* EO_DYNAMODB_CLIENT_H */
