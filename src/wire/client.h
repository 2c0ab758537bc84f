/*-------------------------------------------------------------------------
 *
 * client.h
 *	  What the calls of one server have in common: endpoint, credentials, clock.
 *
 * The service's clock decides whether a lease is dead.  It is kept as an offset to
 * the machine's steady clock, so that nothing happens when the host's clock is set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_CLIENT_H
#define EO_WIRE_CLIENT_H

#include "wire/http.h"
#include "wire/sigv4.h"

typedef enum EoClockState
{
	EO_CLOCK_UNKNOWN,			/* requests are signed by the host's clock */
	EO_CLOCK_GUESSED,			/* a refused signature has shown it: good
								 * enough to sign by, and for nothing else */
	EO_CLOCK_KNOWN				/* two replies have agreed on it */
} EoClockState;

/*
 * The service's clock as its Date headers show it.  One odd header must not move a
 * known clock: it moves when two replies in a row agree, and the first of them is
 * kept as the candidate.
 */
typedef struct EoServiceClock
{
	EoClockState state;
	int64_t		offset_us;		/* its time minus eo_clock_steady_us() */
	int64_t		host_us;		/* the host's time minus the same, when the
								 * clock became known: another value means
								 * that the host's clock has been set since */
	bool		has_candidate;
	int64_t		candidate_us;	/* another offset that one reply has shown */
	bool		news;			/* found by this client, and not shared yet */
} EoServiceClock;

typedef struct EoClient EoClient;
typedef struct EoCallObserver EoCallObserver;	/* see call.h */

/*
 * Where credentials come from that change while a client is in use.  The layer above
 * provides the functions.
 */
typedef struct EoCredentialSource
{
	/*
	 * Let the client sign with what the source has now, if that is there
	 * already.  Called before each request; does not wait, and raises
	 * nothing.
	 */
	void		(*follow) (EoClient *client);

	/*
	 * The service has called the credentials expired.  Returns whether there
	 * are others now.  May wait until deadline_us, in eo_http_wait().
	 */
	bool		(*renew) (EoClient *client, int64_t deadline_us);
} EoCredentialSource;

/*
 * Whether an endpoint is worth asking, as all processes together have found out.  The
 * circuit of an endpoint is open while it answers nobody: then a call ends at once
 * with EO_NOT_ASKED.  The layer above provides the functions.  None of them waits.
 */
typedef struct EoCircuit
{
	/* May a call be started?  If not, *error is filled in. */
	bool		(*enter) (EoClient *client, EoError *error);

	/* The service has answered a call, be it with an error. */
	void		(*answered) (EoClient *client);

	/* A call that was started at started_us has ended without an answer. */
	void		(*failed) (EoClient *client, int64_t started_us, const EoError *error);
} EoCircuit;

/*
 * One server and one set of credentials.  All strings are borrowed from the
 * caller, and must live as long as the client.
 */
struct EoClient
{
	EoHttpEndpoint endpoint;
	const char *host;			/* value of the Host header */
	const char *region;
	EoCredentials credentials;	/* access_key_id NULL: there are none */
	const EoCredentialSource *source;	/* NULL: they never change */
	void	   *source_state;	/* for the owner of source */
	bool		own_credentials;	/* as in EoError */
	bool		credentials_away;	/* there are none because their source
									 * does not answer */
	char		no_credentials[EO_MESSAGE_LEN]; /* why there are none; "": not
												 * known */
	int			request_timeout_ms; /* of a whole call, retries included */
	int64_t		waited_us;		/* what opening the client has taken of that;
								 * its next call has so much less time */
	int			max_attempts;
	bool		return_capacity;	/* ask what each request takes */
	bool		no_retries;		/* for a caller with a pace of its own: not
								 * even of a refused connection */
	uint32_t	tenant;			/* OID of the role that owns the server; 0: a
								 * superuser does.  Of the errors of a
								 * tenant's service nothing is kept but a code
								 * that DynamoDB is known to have */
	const EoCircuit *circuit;	/* NULL: all calls are made */
	bool		insists;		/* calls are made while the circuit is open */

	/* For the owner of circuit. */
	void	   *circuit_entry;
	uint64_t	circuit_id;
	uint32_t	circuit_version;
	EoSigner   *signer;
	EoServiceClock clock;
	const EoCallObserver *observer; /* of its calls' attempts; NULL: none */
	void	   *observed;		/* for the owner of observer */
};

/*
 * The absolute deadline of a call that is started now.  Takes off what opening the client
 * has taken, once.
 */
extern int64_t eo_client_deadline_us(EoClient *client);

/*
 * Now by the service's clock: epoch milliseconds.  The caller must have made sure by
 * eo_clock_sync_make() that the clock is known.
 */
extern int64_t eo_client_now_ms(const EoClient *client);

/* The time to sign a request by, in epoch seconds: the clock as far as it is known. */
extern int64_t eo_client_signing_s(const EoClient *client);

/* Is the clock known, and has the host's clock not been set since? */
extern bool eo_client_knows_clock(const EoClient *client);

/*
 * Learn from a reply that is believed and took took_us: its Date header said date_s when
 * the steady clock said steady_us.  A clock that is not known is learnt by
 * eo_client_take_reading() only.
 */
extern void eo_client_learn_clock(EoClient *client, int64_t date_s, int64_t steady_us,
								  int64_t took_us);

/*
 * Learn from a reply that refused a signature.  If the clocks differ by so much
 * that this can be the reason, the offset is set at once and true is returned:
 * the request should be signed again.  The clock is only guessed then.
 */
extern bool eo_client_correct_clock(EoClient *client, int64_t date_s, int64_t steady_us);

/* The offsets that the replies of a first contact have shown, see clock_sync.h. */
#define EO_MAX_READINGS 3
typedef struct EoReadings
{
	int			n;
	int64_t		offset_us[EO_MAX_READINGS];
} EoReadings;

/* The offset that a reply shows. */
extern int64_t eo_client_offset_seen(int64_t date_s, int64_t steady_us);

/*
 * Add a reading; the caller must leave room for it.  True: it agrees with an earlier
 * one, the clock is known now, and the readings begin anew.
 */
extern bool eo_client_take_reading(EoClient *client, EoReadings *readings, int64_t offset_us);

/*
 * Adopt the clock that another process has found.  False: the host's clock was set
 * since, or a refused signature contradicts it.
 */
extern bool eo_client_adopt_clock(EoClient *client, int64_t offset_us, int64_t host_us);

/* How far an offset is ahead of the host's clock, in seconds. */
extern double eo_client_seconds_ahead(int64_t offset_us);

#endif							/* EO_WIRE_CLIENT_H */
