/*-------------------------------------------------------------------------
 *
 * server.h
 *	  A foreign server as one role sees it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_SERVER_H
#define EO_SERVER_SERVER_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* The server option "credentials". */
typedef enum EoCredentialKind
{
	EO_CREDENTIALS_MAPPING,
	EO_CREDENTIALS_ENVIRONMENT, /* of the postmaster */
	EO_CREDENTIALS_CHAIN		/* of the AWS SDKs */
} EoCredentialKind;

/*
 * One server as one role sees it.  That of a store (store.h) is kept in the process until a
 * catalog changes, and is valid at least until the end of the transaction that opened it.
 * Durations are in the unit that the name ends in.
 */
typedef struct EoServer
{
	Oid			serverid;
	Oid			userid;			/* whom the mapping was looked up for */
	bool		owned_by_superuser;
	bool		trusted;		/* and nobody else has said whose account it
								 * is */
	Oid			tenant;			/* who owns it; InvalidOid: a superuser */
	Oid			place_tenant;	/* see eo_options_tenant() */
	char	   *name;
	char	   *region;			/* "": not known yet */
	bool		has_endpoint;	/* the option; url is AWS's otherwise */
	bool		fips;
	bool		dualstack;
	char	   *url;			/* "https://host[:port]/" */
	char	   *host;			/* as in the Host header */
	bool		plain_http;
	bool		remote_only;	/* as in EoHttpEndpoint */
	char	   *table;
	char	   *layout;
	char	   *key_prefix;		/* "" if none */
	EoCredentialKind credentials;
	char	   *profile;		/* "" if none, as the next two */
	char	   *role_arn;
	char	   *external_id;
	char	   *ca_file;		/* NULL: the system's */
	int64		lease_ms;
	int64		retention_s;
	int			connect_timeout_ms;
	int			request_timeout_ms;
	int			commit_timeout_ms;	/* all keys of a transaction */
	int			max_attempts;
	int			pin_attempts;	/* of a new action */
	int			parallel_requests;	/* in flight at a time */
	bool		batch_requests; /* many writes may share a request */
	bool		return_capacity;	/* replies are to say what they took */
	int64		clock_skew_ms;
	int64		cache_ttl_ms;	/* 0: completed keys are not remembered */
	List	   *transact_tables;	/* of char *, for idem_transact(); NIL:
									 * none */
	char	   *actions;		/* the options of action_layout 'seed', as
								 * their text; NULL: it is native */
	bool		pin_sha256;		/* action_pin_hash 'sha256' */
	int64		max_hold_ms;	/* 0: as long as the transaction lasts */

	TransactionId row_xmin;		/* of its row of pg_foreign_server */
	TransactionId mapping_xmins[3]; /* of the user mappings that were read;
									 * Invalid: fewer were */

	bool		mapping_refused;	/* the role has one, which does not count */

	/* From the user mapping; NULL where it has none. */
	char	   *access_key_id;
	char	   *secret_access_key;
	char	   *session_token;
	char	   *pin_pepper;
} EoServer;

#endif							/* EO_SERVER_SERVER_H */
