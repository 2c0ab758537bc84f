/*-------------------------------------------------------------------------
 *
 * options.h
 *	  Foreign servers and user mappings as the current role may use them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_OPTIONS_H
#define EO_SERVER_OPTIONS_H

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
 * One server as one role sees it.  It is cached in the process until a catalog
 * change invalidates it, and is valid at least until the end of the transaction
 * that looked it up.  Durations are in the unit that the name ends in.
 */
typedef struct EoServer
{
	Oid			serverid;
	Oid			userid;			/* whom the mapping was looked up for */
	uint64		generation;		/* changes whenever a member does */
	bool		owned_by_superuser;
	char	   *name;
	char	   *region;			/* "": not known yet */
	bool		has_endpoint;	/* the option; url is AWS's otherwise */
	bool		fips;
	bool		dualstack;
	char	   *url;			/* "https://host[:port]/" */
	char	   *host;			/* as in the Host header */
	bool		plain_http;
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
	bool		seed_actions;	/* action_layout 'seed' */
	int64		max_hold_ms;	/* 0: as long as the transaction lasts */

	TransactionId row_xmin;		/* of its row of pg_foreign_server */
	TransactionId mapping_xmins[3]; /* of the user mappings that were read;
									 * Invalid: fewer were */

	/* From the user mapping; NULL where it has none. */
	char	   *access_key_id;
	char	   *secret_access_key;
	char	   *session_token;
	char	   *pin_pepper;
} EoServer;

/*
 * Has the current role USAGE on the server of that name (NULL: exactonce.server)?
 * Raises 42704 if there is none.
 */
extern bool eo_options_may_use(const char *name);

/*
 * The server of that name (NULL: exactonce.server).  Checks that the current role
 * has USAGE on it.  Raises: no such server (42704), not an exactonce server
 * (42809), no USAGE (42501), an option is missing or may not be used.
 */
extern EoServer *eo_options_lookup(const char *name);

/* Raise 42501 unless the current role has USAGE on the server, if that exists. */
extern void eo_options_check_usage(Oid serverid);

/*
 * Raise 55000 if this transaction has created or altered the server, or a user mapping that
 * it is used with.  To be called before anything is left in shared memory or in DynamoDB that
 * somebody has to settle later: if the transaction is rolled back, nobody could reach it.
 */
extern void eo_options_check_committed(const EoServer *server);

/*
 * The server as that role sees it, or as its owner does if the role was dropped or
 * has no USAGE any more; in a memory context of its own below the current one.
 * NULL: there is no such server.  Nothing is waited for, so the region may be unknown
 * if it is not an option; the target of a claim has it.
 */
extern EoServer *eo_options_load(Oid serverid, Oid userid);

/*
 * The same of any server that leads to this DynamoDB table, as its owner sees it;
 * NULL: there is none.
 */
extern EoServer *eo_options_load_like(const char *url, const char *region, const char *table);

/* The OIDs of all servers of the extension. */
extern List *eo_options_servers(void);

/* Register a callback for changes of any server or user mapping. */
extern void eo_options_on_change(void (*callback) (Datum, int, uint32));

/* Bounds shared by options and function arguments. */
#define EO_MIN_LEASE_MS 100
#define EO_MAX_LEASE_MS INT64CONST(604800000)	/* 7 days */
#define EO_MIN_RETENTION_S 3600
#define EO_MAX_RETENTION_S INT64CONST(315360000)	/* 3,650 days */
#define EO_MAX_PIN_ATTEMPTS 20

#endif							/* EO_SERVER_OPTIONS_H */
