/*-------------------------------------------------------------------------
 *
 * credentials.c
 *	  Where the keys to sign with come from: a user mapping, the environment, or the
 *	  credential chain of the AWS SDKs.
 *
 * The server's option credentials says which, and none stands in for another:
 * a user mapping without keys must not give its role the postmaster's rights.
 *
 * The environment is read once, in the postmaster, before any session exists.
 * Code that runs in a session can change the session's own environment (see
 * CVE-2024-10979) and must not choose the credentials by it.
 *
 * Environment and chain belong to the operating-system user of the database server, so
 * only servers owned by a superuser may use them.  Letting other roles use such a
 * server is then a superuser's decision, by GRANT USAGE.
 *
 * Credentials of a chain, and of a role, are in the cache that all processes share.  A
 * client has a copy in memory of secret.h, which it renews before each request if
 * the cache has a newer one.  So a claim is bound to the chain and never to the keys
 * with which it was made.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "identity/chain.h"
#include "miscadmin.h"
#include "server/credentials.h"
#include "server/fetch.h"
#include "wire/clock.h"
#include "wire/http.h"
#include "wire/secret.h"
#include "wire/sigv4.h"

/* How often a session looks whether another process has fetched. */
#define LOOK_US INT64CONST(10000)

/*
 * A source that has not answered in so long has failed: the AWS SDKs give the metadata
 * service one second.
 */
#define ENOUGH_US INT64CONST(1000000)

/* The client's copy of credentials from the cache. */
typedef struct Copy
{
	EoChainWish wish;
	uint64		generation;
	EoIdentity	identity;
} Copy;

static EoChainEnvironment environment;
static bool is_refresher;		/* this process is a worker */
static EoChainWish refreshed;	/* what it fetches at this moment */
static bool is_refreshing;

static Copy *alloc_copy(void);
static void follow(EoClient *client);
static bool renew(EoClient *client, int64_t deadline_us);
static bool await(EoClient *client, int64 deadline_us);
static void ask(Copy *copy, int64 deadline_us);
static void fetch(const EoChainWish *wish, int64 time_us);
static void store_result(const EoChainWish *wish, const EoFetch *f);
static void explain(EoClient *client);
static void make_wish(const EoServer *server, EoChainWish *wish);

static const EoCredentialSource source = {.follow = follow,.renew = renew};

void
eo_credentials_init(void)
{
	for (int i = 0; i < EO_VAR_COUNT; i++)
	{
		const char *value = getenv(eo_chain_variable_name(i));

		environment.value[i] = value != NULL && value[0] != '\0' ? eo_secret_copy(value) : NULL;
	}
}

const char *
eo_credentials_open(const EoServer *server, EoClient *client)
{
	EoCredentials *cred = &client->credentials;
	Copy	   *copy;

	memset(cred, 0, sizeof(*cred));
	client->own_credentials = server->credentials != EO_CREDENTIALS_MAPPING;
	if (server->credentials == EO_CREDENTIALS_MAPPING)
	{
		if (server->access_key_id == NULL)
			return NULL;
		cred->access_key_id = server->access_key_id;
		cred->secret_access_key = server->secret_access_key;
		cred->session_token = server->session_token;
		return "user mapping";
	}
	if (server->credentials == EO_CREDENTIALS_ENVIRONMENT && server->role_arn[0] == '\0')
	{
		if (environment.value[EO_VAR_ACCESS_KEY_ID] == NULL ||
			environment.value[EO_VAR_SECRET_ACCESS_KEY] == NULL)
			return NULL;
		cred->access_key_id = environment.value[EO_VAR_ACCESS_KEY_ID];
		cred->secret_access_key = environment.value[EO_VAR_SECRET_ACCESS_KEY];
		cred->session_token = environment.value[EO_VAR_SESSION_TOKEN];
		return "environment";
	}
	copy = alloc_copy();
	client->source_state = copy;
	client->source = &source;
	make_wish(server, &copy->wish);
	follow(client);
	return "chain";
}

static Copy *
alloc_copy(void)
{
	Copy	   *copy = eo_secret_alloc(sizeof(Copy));

	if (copy == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	return copy;
}

void
eo_credentials_close(EoClient *client)
{
	eo_secret_free(client->source_state);
	client->source_state = NULL;
	client->source = NULL;
	memset(&client->credentials, 0, sizeof(client->credentials));
}

const EoChainWish *
eo_credentials_wish(const EoClient *client)
{
	const Copy *copy = client->source_state;

	return copy != NULL ? &copy->wish : NULL;
}

/* The caller passes a wish that is zeroed, so that wishes can be compared. */
static void
make_wish(const EoServer *server, EoChainWish *wish)
{
	char	   *database;

	wish->environment_only = server->credentials == EO_CREDENTIALS_ENVIRONMENT;
	strlcpy(wish->profile, server->profile, sizeof(wish->profile));
	strlcpy(wish->region, server->region, sizeof(wish->region));
	wish->fips = server->fips;
	wish->dualstack = server->dualstack;
	if (server->ca_file != NULL)
		strlcpy(wish->ca_file, server->ca_file, sizeof(wish->ca_file));
	if (server->role_arn[0] == '\0')
		return;
	strlcpy(wish->role.arn, server->role_arn, sizeof(wish->role.arn));
	strlcpy(wish->role.external_id, server->external_id, sizeof(wish->role.external_id));
	/* CloudTrail shows it: which database, and which server. */
	database = get_database_name(MyDatabaseId);
	snprintf(wish->role.session_name, sizeof(wish->role.session_name), "%s-%s",
			 database != NULL ? database : "exactonce", server->name);
	for (char *p = wish->role.session_name; *p != '\0'; p++)
	{
		unsigned char c = (unsigned char) *p;

		if (!isascii(c) || (!isalnum(c) && strchr("_=,.@-", c) == NULL))
			*p = '-';
	}
}

/* ----- for a client ----- */

static bool
follow_cache(Copy *copy)
{
	return eo_credential_cache_follow(&copy->wish, &copy->identity, &copy->generation);
}

static void
follow(EoClient *client)
{
	Copy	   *copy = client->source_state;

	(void) follow_cache(copy);
	client->credentials = eo_identity_credentials(&copy->identity);
	if (client->credentials.access_key_id == NULL)
		explain(client);
}

static bool
renew(EoClient *client, int64_t deadline_us)
{
	Copy	   *copy = client->source_state;

	eo_credential_cache_reject(&copy->wish, copy->generation);

	/*
	 * The worker must not wait: it fetches beside its other work, and
	 * retries.
	 */
	return !is_refresher && await(client, deadline_us);
}

void
eo_credentials_await(EoClient *client, int64 deadline_us)
{
	if (client->source != NULL)
		(void) await(client, deadline_us);
}

static bool
await(EoClient *client, int64 deadline_us)
{
	ask(client->source_state, deadline_us);
	follow(client);
	return client->credentials.access_key_id != NULL;
}

/* Fetch, or wait for the process that does, until there is an answer or no time. */
static void
ask(Copy *copy, int64 deadline_us)
{
	int64		now_us;

	while ((now_us = eo_clock_monotonic_us()) < deadline_us)
	{
		EoCacheAnswer answer = eo_credential_cache_ask(&copy->wish, &copy->identity,
													   &copy->generation);

		if (answer == EO_CACHE_FETCH)
			fetch(&copy->wish, deadline_us - now_us);
		else if (answer == EO_CACHE_WAIT)
			eo_http_wait(Min(now_us + LOOK_US, deadline_us), EO_WAIT_RAISE);
		else
			return;
	}
}

/* Say in the client why there are no credentials, and of an outage since when. */
static void
explain(EoClient *client)
{
	const Copy *copy = client->source_state;
	EoCredentialReport report;

	eo_credential_cache_look(&copy->wish, &report);
	client->credentials_away = report.failure[0] == '\0' || report.is_away;
	if (report.failure[0] != '\0' && report.is_away)
		snprintf(client->no_credentials, sizeof(client->no_credentials), "%.200s (since %s)",
				 report.failure, timestamptz_to_str(report.failing_since));
	else
		strlcpy(client->no_credentials,
				report.failure[0] != '\0' ? report.failure : "their source has not answered yet",
				sizeof(client->no_credentials));
}

/* ----- the region, and the owner of the credentials ----- */

static int64
deadline_of(const EoServer *server)
{
	return eo_clock_monotonic_us() + server->request_timeout_ms * INT64CONST(1000);
}

/*
 * The region comes by the same way as credentials, under a wish of its own.  That of the
 * environment needs no way.
 */
bool
eo_credentials_region(const EoServer *server, bool wait, char *region, EoCredentialReport *report)
{
	Copy	   *copy = alloc_copy();
	int64		deadline_us = deadline_of(server);
	volatile bool found = false;

	copy->wish.region_only = true;
	copy->wish.environment_only = server->credentials == EO_CREDENTIALS_ENVIRONMENT;
	strlcpy(copy->wish.profile, server->profile, sizeof(copy->wish.profile));
	PG_TRY();
	{
		found = follow_cache(copy);
		if (!found && wait && !is_refresher)
		{
			ask(copy, deadline_us);
			found = follow_cache(copy);
		}
		strlcpy(region, copy->identity.region, EO_MAX_REGION + 1);
		eo_credential_cache_look(&copy->wish, report);
	}
	PG_FINALLY();
	{
		eo_secret_free(copy);
	}
	PG_END_TRY();
	return found;
}

bool
eo_credentials_ask_caller(const EoServer *server, const EoClient *client, EoCaller *caller,
						  char *failure)
{
	int64		deadline_us = deadline_of(server);
	EoChainWish *wish = palloc0(sizeof(EoChainWish));
	const EoCredentials *cred = &client->credentials;
	EoIdentity *identity;
	EoFetch    *volatile f = NULL;
	volatile bool known = false;

	strlcpy(failure, "out of memory", EO_CHAIN_WHY_LEN);
	make_wish(server, wish);
	/* From here on nothing may raise an error but what is caught below. */
	identity = eo_secret_alloc(sizeof(EoIdentity));
	PG_TRY();
	{
		int64		until_us;

		if (identity != NULL &&
			eo_identity_set(identity, cred->access_key_id, cred->secret_access_key,
							cred->session_token) == EO_OK)
			f = eo_fetch_start_caller(&environment, wish, identity, deadline_us);
		while (f != NULL && eo_fetch_step(f, &until_us))
			eo_http_wait(until_us, EO_WAIT_RAISE);
		if (f != NULL)
		{
			const EoFetchResult *result = eo_fetch_result(f);

			known = result->status == EO_OK;
			*caller = result->caller;
			strlcpy(failure, result->failure, EO_CHAIN_WHY_LEN);
		}
	}
	PG_FINALLY();
	{
		eo_fetch_free(f);
		eo_secret_free(identity);
	}
	PG_END_TRY();
	return known;
}

bool
eo_credentials_may_ask_caller(const EoServer *server, const EoClient *client)
{
	return client->own_credentials && client->credentials.access_key_id != NULL &&
		(environment.value[EO_VAR_STS_ENDPOINT] != NULL || !server->has_endpoint);
}

/* ----- fetching ----- */

/*
 * Fetch for all, and wait for the end.  An error leaves the fetch to others.  So does a
 * caller whose own time is short: its failure says nothing of the source, and must not make
 * everybody pause.
 */
static void
fetch(const EoChainWish *wish, int64 time_us)
{
	EoFetch    *volatile f = NULL;
	int64		deadline_us = eo_clock_monotonic_us() + Min(time_us, EO_FETCH_US);

	PG_TRY();
	{
		int64		until_us;

		f = eo_fetch_start(&environment, wish, deadline_us);
		while (f != NULL && eo_fetch_step(f, &until_us))
			eo_http_wait(until_us, EO_WAIT_RAISE);
		if (f != NULL && eo_fetch_result(f)->status == EO_UNANSWERED && time_us < ENOUGH_US)
			eo_credential_cache_abandon(wish);
		else
			store_result(wish, f);
	}
	PG_CATCH();
	{
		eo_fetch_free(f);
		eo_credential_cache_abandon(wish);
		PG_RE_THROW();
	}
	PG_END_TRY();
	eo_fetch_free(f);
}

/*
 * Put into the cache what a fetch has brought (f NULL: there was no memory for it).  The
 * beginning and the end of an outage are in the log, and not each attempt.
 */
static void
store_result(const EoChainWish *wish, const EoFetch *f)
{
	static const EoFetchResult no_memory = {.status = EO_UNANSWERED,.why = "",.failure = "out of memory"};
	const EoFetchResult *result = f != NULL ? eo_fetch_result(f) : &no_memory;
	EoCacheNews news = eo_credential_cache_end(wish, result);

	if (news == EO_CACHE_FAILS)
		ereport(LOG,
				(errmsg("exactonce: could not fetch credentials or the region: %s",
						result->failure[0] != '\0' ? result->failure : "those that came have expired"),
				 errdetail("They are fetched again, with pauses, until that succeeds. Old ones are used until they expire."),
				 errhidestmt(true)));
	else if (news == EO_CACHE_WORKS_AGAIN)
		ereport(LOG,
				(errmsg("exactonce: fetching credentials works again: %s", result->source),
				 errhidestmt(true)));
}

void
eo_credentials_refresh(int64 *until_us)
{
	static EoFetch *running = NULL;

	is_refresher = true;
	*until_us = INT64_MAX;
	if (!is_refreshing)
	{
		if (!eo_credential_cache_due(&refreshed))
			return;
		is_refreshing = true;
		running = eo_fetch_start(&environment, &refreshed,
								 eo_clock_monotonic_us() + EO_FETCH_US);
	}
	if (running != NULL && eo_fetch_step(running, until_us))
		return;
	store_result(&refreshed, running);
	is_refreshing = false;
	eo_fetch_free(running);
	running = NULL;
	*until_us = 0;
}

void
eo_credentials_leave(void)
{
	if (is_refreshing)
		eo_credential_cache_abandon(&refreshed);
}
