/*-------------------------------------------------------------------------
 *
 * fetch.c
 *	  Fetching credentials from where the chain says.
 *
 * A fetch carries out a plan of identity/chain.c, one request at a time:
 *
 *		metadata token --> role's name --> credentials --\
 *		container's credentials ------------------------ +--> role --> role ... --> done
 *		web identity -----------------------------------/
 *
 *		metadata token --> region ------------------------------------------------> done
 *		GetCallerIdentity --------------------------------------------------------> done
 *
 * Static keys need no request.  Each request has ATTEMPTS attempts, and each of them a
 * timeout of its own within the deadline of the fetch.  Everything that is asked for
 * here may be asked twice, so an attempt without an answer is repeated.
 *
 * Only IMDSv2 is spoken: without a token nothing is asked.  No redirect is followed,
 * and a reply has at most EO_HTTP_MAX_SECRET_REPLY bytes, which are wiped.
 *
 * The host's clock may be wrong.  If STS refuses a signature, and the Date header of the
 * refusal is far from the host's clock, the request is signed again by that date.  The
 * end of credentials is moved by as much, because the cache compares it with the
 * host's clock.
 *
 * Nothing here raises an error, except what http.c raises.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/fetch.h"
#include "wire/clock.h"
#include "wire/crypto.h"
#include "wire/endpoint.h"
#include "wire/http.h"
#include "wire/secret.h"
#include "wire/sigv4.h"

#define ATTEMPTS 2
#define PAUSE_US INT64CONST(100000)

/* An address on this machine answers at once, STS is a service behind TLS. */
#define LOCAL_TIMEOUT_MS 1000
#define STS_TIMEOUT_MS 3000

/* Clocks that differ by less than this count as equal. */
#define SKEW_S 30

/* The longest shared file and the longest token that are read. */
#define MAX_SHARED_FILE 1048576
#define MAX_TOKEN_FILE 32768

#define MAX_METADATA_TOKEN 512
#define METADATA_TTL "X-aws-ec2-metadata-token-ttl-seconds: 21600"
#define METADATA_PATH "/latest/meta-data/iam/security-credentials/"
#define REGION_PATH "/latest/meta-data/placement/region"
#define FORM_TYPE "application/x-www-form-urlencoded; charset=utf-8"
#define CONTENT_TYPE "Content-Type: " FORM_TYPE

typedef enum Stage
{
	STAGE_TOKEN,				/* of the metadata service */
	STAGE_ROLE_NAME,			/* of the instance */
	STAGE_REGION,				/* of the instance */
	STAGE_CREDENTIALS,			/* of the instance or the container */
	STAGE_WEB_IDENTITY,
	STAGE_ROLE,					/* plan.roles[role] */
	STAGE_CALLER,				/* who is identity? */
	STAGE_ENDED
} Stage;

struct EoFetch
{
	const EoChainEnvironment *env;
	const EoChainWish *wish;
	EoChainPlan plan;
	EoFetchResult result;
	EoIdentity	next;			/* what an answer brings */
	Stage		stage;
	int			role;
	int			attempt;
	bool		in_flight;
	int64		next_us;		/* of the next attempt */
	int64		deadline_us;
	int64		skew_s;			/* the service's clock minus the host's */
	bool		resigned;		/* by skew_s */
	char		message[EO_MESSAGE_LEN];
	EoHttpTransfer transfer;
	EoHttpEndpoint endpoint;
	char		url[EO_MAX_CHAIN_URL + sizeof(METADATA_PATH) + 128];
	EoBuf		body;
	EoBuf		authorization;	/* a header; here, because http.c may raise */
	EoSigner   *signer;
	char		metadata_token[MAX_METADATA_TOKEN + 1];
	char		role_name[128];
};

static EoFetch *create(const EoChainEnvironment *env, const EoChainWish *wish, int64 deadline_us);
static void begin_base(EoFetch *f);
static EoStatus make_plan(EoFetch *f);
static char *read_shared_file(const EoFetch *f, EoChainVariable variable, const char *name,
							  EoIniFile *file);
static char *read_file(const char *path, size_t max);
static void begin_stage(EoFetch *f, Stage stage);
static EoStatus send(EoFetch *f);
static void wipe_request(EoFetch *f);
static void wipe_authorization(EoFetch *f);
static EoStatus send_to_metadata(EoFetch *f);
static EoStatus send_to_container(EoFetch *f);
static EoStatus send_to_sts(EoFetch *f);
static EoStatus start_request(EoFetch *f, EoHttpMethod method, const char *const *headers,
							  int nheaders, int timeout_ms);
static bool is_for_sts(const EoFetch *f);
static void take_reply(EoFetch *f);
static bool must_resign(EoFetch *f, bool skewed);
static EoStatus read_reply(EoFetch *f);
static EoStatus read_sts_reply(EoFetch *f);
static EoStatus read_plain(EoFetch *f, char *to, size_t size, const char *what);
static void go_on(EoFetch *f);
static void assume_next_role(EoFetch *f);
static void end(EoFetch *f, EoStatus status);

EoFetch *
eo_fetch_start(const EoChainEnvironment *env, const EoChainWish *wish, int64 deadline_us)
{
	EoFetch    *f = create(env, wish, deadline_us);

	if (f == NULL)
		return NULL;
	f->result.status = make_plan(f);
	if (f->result.status == EO_OK)
	{
		begin_base(f);
		return f;
	}
	/* If no source is set up, the reasons of all of them are the failure. */
	if (f->plan.failure[0] != '\0')
		strlcpy(f->result.failure, f->plan.failure, sizeof(f->result.failure));
	else
	{
		strlcpy(f->result.failure, f->plan.why, sizeof(f->result.failure));
		f->plan.why[0] = '\0';
	}
	f->stage = STAGE_ENDED;
	return f;
}

EoFetch *
eo_fetch_start_caller(const EoChainEnvironment *env, const EoChainWish *wish,
					  const EoIdentity *identity, int64 deadline_us)
{
	EoFetch    *f = create(env, wish, deadline_us);

	if (f == NULL)
		return NULL;
	f->result.identity = *identity;
	begin_stage(f, STAGE_CALLER);
	return f;
}

static EoFetch *
create(const EoChainEnvironment *env, const EoChainWish *wish, int64 deadline_us)
{
	EoFetch    *f = eo_secret_alloc(sizeof(EoFetch));

	if (f == NULL)
		return NULL;
	f->env = env;
	f->wish = wish;
	f->deadline_us = deadline_us;
	f->result.source = f->plan.source;
	f->result.why = f->plan.why;
	eo_buf_init(&f->body, 2 * EO_HTTP_MAX_SECRET_REPLY);
	eo_buf_init(&f->authorization, MAX_TOKEN_FILE + 64);
	return f;
}

static void
begin_base(EoFetch *f)
{
	f->result.identity = f->plan.identity;
	switch (f->plan.base)
	{
		case EO_BASE_METADATA:
			begin_stage(f, STAGE_TOKEN);
			break;
		case EO_BASE_CONTAINER:
			begin_stage(f, STAGE_CREDENTIALS);
			break;
		case EO_BASE_WEB_IDENTITY:
			begin_stage(f, STAGE_WEB_IDENTITY);
			break;
		case EO_BASE_REGION:
			strlcpy(f->result.identity.region, f->plan.region, sizeof(f->result.identity.region));
			end(f, EO_OK);
			break;
		default:
			assume_next_role(f);
			break;
	}
}

bool
eo_fetch_step(EoFetch *f, int64 *until_us)
{
	int64		now_us = eo_clock_monotonic_us();

	if (f->in_flight && f->transfer.done)
		take_reply(f);
	else if (f->stage != STAGE_ENDED && now_us >= f->deadline_us)
	{
		if (f->message[0] == '\0')
			strlcpy(f->message, "no answer in time", sizeof(f->message));
		end(f, EO_UNANSWERED);
	}
	if (f->stage != STAGE_ENDED && !f->in_flight && eo_clock_monotonic_us() >= f->next_us)
	{
		EoStatus	status = send(f);

		if (status != EO_OK)
			end(f, status);
	}
	*until_us = f->in_flight ? f->deadline_us : Min(f->next_us, f->deadline_us);
	return f->stage != STAGE_ENDED;
}

const EoFetchResult *
eo_fetch_result(const EoFetch *f)
{
	return &f->result;
}

void
eo_fetch_free(EoFetch *f)
{
	if (f == NULL)
		return;
	eo_http_finish(&f->transfer);
	wipe_request(f);
	eo_buf_free(&f->body);
	eo_buf_free(&f->authorization);
	eo_sigv4_free(f->signer);
	eo_secret_free(f);
}

/* ----- the plan, and files ----- */

static EoStatus
make_plan(EoFetch *f)
{
	bool		files = !f->wish->environment_only;
	EoIniFile	credentials_file = {.text = NULL};
	EoIniFile	config_file = {.is_config = true};
	char	   *credentials = NULL;
	char	   *config = NULL;
	EoStatus	status;

	if (files)
	{
		credentials = read_shared_file(f, EO_VAR_CREDENTIALS_FILE, "credentials", &credentials_file);
		config = read_shared_file(f, EO_VAR_CONFIG_FILE, "config", &config_file);
	}
	status = eo_chain_plan(f->env, credentials_file, config_file, f->wish, &f->plan);
	eo_secret_free(credentials);
	eo_secret_free(config);
	return status;
}

/* The file that the variable names, else the one in the home directory. */
static char *
read_shared_file(const EoFetch *f, EoChainVariable variable, const char *name, EoIniFile *file)
{
	const char *home = f->env->value[EO_VAR_HOME];
	const char *path = f->env->value[variable];
	char		usual[MAXPGPATH];
	char	   *text;

	if (path == NULL)
	{
		if (home == NULL ||
			snprintf(usual, sizeof(usual), "%s/.aws/%s", home, name) >= (int) sizeof(usual))
			return NULL;
		path = usual;
	}
	/* So it is said that there is none. */
	if (strcmp(path, "/dev/null") == 0)
		return NULL;
	text = read_file(path, MAX_SHARED_FILE);
	file->text = text;
	file->is_unreadable = text == NULL && errno != ENOENT && errno != ENOTDIR;
	return text;
}

/*
 * A file's text, in memory of secret.h.  NULL: it is not a file that this process can
 * read, it is longer than max, or has a NUL in it.  errno says ENOENT or ENOTDIR only if
 * there is no such file.
 */
static char *
read_file(const char *path, size_t max)
{
	int			fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	char	   *text = NULL;
	ssize_t		len = -1;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 && (size_t) st.st_size <= max)
		text = eo_secret_alloc((size_t) st.st_size + 1);
	if (text != NULL)
		len = read(fd, text, (size_t) st.st_size);
	close(fd);
	if (text != NULL && (len != st.st_size || memchr(text, '\0', (size_t) len) != NULL))
	{
		eo_secret_free(text);
		text = NULL;
	}
	errno = EINVAL;
	return text;
}

/* A token that is in a file of its own, without the line's end. */
static char *
read_token(EoFetch *f)
{
	char	   *token = read_file(f->plan.token_file, MAX_TOKEN_FILE);
	size_t		len = token != NULL ? strlen(token) : 0;

	while (len > 0 && (token[len - 1] == '\n' || token[len - 1] == '\r'))
		token[--len] = '\0';
	for (size_t i = 0; i < len; i++)
	{
		if (token[i] < ' ' || token[i] > '~')
			len = 0;
	}
	if (len > 0)
		return token;
	strlcpy(f->message, "the file with the token cannot be read", sizeof(f->message));
	eo_secret_free(token);
	return NULL;
}

/* ----- requests ----- */

static void
begin_stage(EoFetch *f, Stage stage)
{
	f->stage = stage;
	f->attempt = 0;
	f->next_us = 0;
}

static EoStatus
send(EoFetch *f)
{
	f->attempt++;
	wipe_request(f);
	if (is_for_sts(f))
		return send_to_sts(f);
	return f->plan.base == EO_BASE_CONTAINER ? send_to_container(f) : send_to_metadata(f);
}

/* libcurl has a copy of the header, but not of the body. */
static void
wipe_request(EoFetch *f)
{
	eo_crypto_wipe(f->body.data, f->body.len);
	eo_buf_reset(&f->body);
	wipe_authorization(f);
}

static void
wipe_authorization(EoFetch *f)
{
	eo_crypto_wipe(f->authorization.data, f->authorization.len);
	eo_buf_reset(&f->authorization);
}

static EoStatus
send_to_metadata(EoFetch *f)
{
	char		token[MAX_METADATA_TOKEN + 40];
	const char *headers[3] = {"Accept:", METADATA_TTL, "Content-Type:"};
	EoStatus	status;

	snprintf(f->url, sizeof(f->url), "%s%s%s", f->plan.url,
			 f->stage == STAGE_TOKEN ? "/latest/api/token" :
			 f->stage == STAGE_REGION ? REGION_PATH : METADATA_PATH,
			 f->stage == STAGE_CREDENTIALS ? f->role_name : "");
	snprintf(token, sizeof(token), "X-aws-ec2-metadata-token: %s", f->metadata_token);
	if (f->stage != STAGE_TOKEN)
		headers[1] = token;
	status = start_request(f, f->stage == STAGE_TOKEN ? EO_HTTP_PUT : EO_HTTP_GET, headers, 3,
						   LOCAL_TIMEOUT_MS);
	eo_crypto_wipe(token, sizeof(token));
	return status;
}

static EoStatus
send_to_container(EoFetch *f)
{
	const char *headers[2] = {"Accept: application/json"};
	int			n = 1;
	EoBuf	   *authorization = &f->authorization;
	EoStatus	status;

	strlcpy(f->url, f->plan.url, sizeof(f->url));
	/* It is read for each fetch, because it is rotated. */
	if (f->plan.token_file[0] != '\0')
	{
		char	   *token = read_token(f);

		if (token == NULL)
			return EO_INVALID;
		(void) eo_buf_reserve(authorization, strlen(token) + 32);
		eo_buf_addf(authorization, "Authorization: %s", token);
		eo_secret_free(token);
	}
	else if (f->plan.token[0] != '\0')
		eo_buf_addf(authorization, "Authorization: %s", f->plan.token);
	if (authorization->len > 0)
		headers[n++] = eo_buf_str(authorization);
	status = eo_buf_status(authorization);
	if (status == EO_OK && strpbrk(eo_buf_str(authorization), "\r\n") != NULL)
	{
		strlcpy(f->message, "the token has a line break", sizeof(f->message));
		status = EO_INVALID;
	}
	if (status == EO_OK)
		status = start_request(f, EO_HTTP_GET, headers, n, LOCAL_TIMEOUT_MS);
	wipe_authorization(f);
	return status;
}

static bool
is_for_sts(const EoFetch *f)
{
	return f->stage == STAGE_WEB_IDENTITY || f->stage == STAGE_ROLE || f->stage == STAGE_CALLER;
}

/*
 * The regional endpoint, or the one that the environment names.  False: there is none
 * that may be used.  As in the SDKs, one that is named cannot be had for FIPS or as a
 * dual-stack one.
 */
static bool
find_sts(EoFetch *f, EoEndpoint *ep)
{
	const char *named = f->env->value[EO_VAR_STS_ENDPOINT];
	char		host[EO_ENDPOINT_HOST_LEN];
	const char *reason;

	if (named != NULL && (f->wish->fips || f->wish->dualstack))
	{
		strlcpy(f->message, "AWS_ENDPOINT_URL_STS cannot be used with the server's option fips or dualstack",
				sizeof(f->message));
		return false;
	}
	if (named != NULL)
		strlcpy(f->url, named, sizeof(f->url));
	else
	{
		eo_endpoint_host("sts", f->wish->region, f->wish->fips, f->wish->dualstack, host);
		snprintf(f->url, sizeof(f->url), "https://%s", host);
	}
	if (eo_endpoint_parse(f->url, ep, &reason) && (ep->https || ep->loopback))
	{
		snprintf(f->url, sizeof(f->url), "%s://%s/", ep->https ? "https" : "http", ep->authority);
		return true;
	}
	strlcpy(f->message, "AWS_ENDPOINT_URL_STS is neither https nor an address of this machine",
			sizeof(f->message));
	return false;
}

static int64
host_now_s(void)
{
	return (eo_clock_steady_us() + eo_clock_host_offset_us()) / 1000000;
}

/* Sign the body by the identity that is there so far. */
static EoStatus
sign(EoFetch *f, const EoEndpoint *ep, const char *amz_date, EoBuf *out)
{
	EoCredentials cred = eo_identity_credentials(&f->result.identity);
	EoHeader	headers[4] = {
		{"content-type", FORM_TYPE}, {"host", ep->authority}, {"x-amz-date", amz_date},
		{"x-amz-security-token", cred.session_token}
	};
	EoSigningRequest req = {.headers = headers,
		.nheaders = cred.session_token != NULL ? 4 : 3,.body = eo_buf_str(&f->body),
		.body_len = f->body.len,.amz_date = amz_date,.region = f->wish->region,.service = "sts"
	};

	if (cred.access_key_id == NULL)
		return EO_INVALID;
	if (f->signer == NULL && (f->signer = eo_sigv4_create()) == NULL)
		return EO_NO_MEMORY;
	eo_buf_adds(out, "Authorization: ");
	return eo_sigv4_sign(f->signer, &cred, &req, out);
}

static EoStatus
send_to_sts(EoFetch *f)
{
	bool		web = f->stage == STAGE_WEB_IDENTITY;
	bool		caller = f->stage == STAGE_CALLER;
	const EoChainRole *role = web ? &f->plan.web_role : &f->plan.roles[caller ? 0 : f->role];
	char	   *web_token = web ? read_token(f) : NULL;
	const char *headers[6] = {"Accept:", "Expect:", CONTENT_TYPE};
	char		date[40];
	char		token[EO_MAX_SESSION_TOKEN + 40];
	time_t		now = (time_t) (host_now_s() + (f->resigned ? f->skew_s : 0));
	struct tm	tm;
	int			n = 3;
	EoEndpoint	ep;
	EoStatus	status = EO_OK;

	if ((web && web_token == NULL) || !find_sts(f, &ep))
	{
		eo_secret_free(web_token);
		return EO_INVALID;
	}
	if (web)
		(void) eo_buf_reserve(&f->body, 3 * MAX_TOKEN_FILE);
	if (caller)
		eo_identity_put_caller(&f->body);
	else
		eo_identity_put_role(&f->body, role->arn, role->session_name, role->external_id,
							 role->duration_s, web_token);
	eo_secret_free(web_token);
	if (!web)
	{
		gmtime_r(&now, &tm);
		strftime(date, sizeof(date), "X-Amz-Date: %Y%m%dT%H%M%SZ", &tm);
		status = sign(f, &ep, date + strlen("X-Amz-Date: "), &f->authorization);
		snprintf(token, sizeof(token), "X-Amz-Security-Token: %s", f->result.identity.session_token);
		headers[n++] = date;
		headers[n++] = eo_buf_str(&f->authorization);
		if (f->result.identity.session_token[0] != '\0')
			headers[n++] = token;
	}
	if (status == EO_OK)
		status = eo_buf_status(&f->body);
	if (status == EO_OK)
		status = start_request(f, EO_HTTP_POST, headers, n, STS_TIMEOUT_MS);
	eo_crypto_wipe(token, sizeof(token));
	wipe_authorization(f);
	return status;
}

static EoStatus
start_request(EoFetch *f, EoHttpMethod method, const char *const *headers, int nheaders,
			  int timeout_ms)
{
	EoHttpRequest req = {.method = method,.has_secret_reply = true,.endpoint = &f->endpoint,
		.headers = headers,.nheaders = nheaders,.body = eo_buf_str(&f->body),
		.body_len = f->body.len
	};
	EoStatus	status;

	f->endpoint.url = f->url;
	f->endpoint.ca_file = f->wish->ca_file[0] != '\0' ? f->wish->ca_file : NULL;
	f->endpoint.plain_http = strncmp(f->url, "http:", 5) == 0;
	f->endpoint.connect_timeout_ms = timeout_ms;
	req.deadline_us = Min(eo_clock_monotonic_us() + timeout_ms * INT64CONST(1000), f->deadline_us);
	status = eo_http_start(&f->transfer, &req);
	f->in_flight = status == EO_OK;
	return status;
}

/* ----- replies ----- */

static void
take_reply(EoFetch *f)
{
	const EoHttpReply *reply = &f->transfer.reply;
	EoStatus	status;

	if (reply->status == EO_OK && reply->date_s != 0)
		f->skew_s = reply->date_s - host_now_s();
	status = read_reply(f);
	eo_http_finish(&f->transfer);
	f->in_flight = false;
	if (status == EO_OK)
		go_on(f);
	else if (status == EO_CONFLICT)
		f->attempt--;			/* sign again, at once */
	else if (status == EO_UNANSWERED && f->attempt < ATTEMPTS)
		f->next_us = eo_clock_monotonic_us() + PAUSE_US;
	else
		/* A source that answers what cannot be read is out of order, too. */
		end(f, status == EO_INVALID ? EO_UNANSWERED : status);
}

static bool
is_skewed(const EoFetch *f)
{
	return f->skew_s <= -SKEW_S || f->skew_s >= SKEW_S;
}

/* May the refusal of a signature be due to the host's clock, and to nothing else? */
static bool
must_resign(EoFetch *f, bool skewed)
{
	if (!skewed || f->resigned || !is_skewed(f))
		return false;
	f->resigned = true;
	return true;
}

static EoStatus
read_reply(EoFetch *f)
{
	EoHttpReply *reply = &f->transfer.reply;
	EoStatus	status;

	if (reply->status != EO_OK)
	{
		snprintf(f->message, sizeof(f->message), "%.160s%s", reply->message,
				 f->stage == STAGE_TOKEN ?
				 " (to be reached from a container, the instance needs a hop limit of 2)" : "");
		return EO_UNANSWERED;
	}
	if (is_for_sts(f))
		return read_sts_reply(f);
	if (reply->http_status != 200)
	{
		snprintf(f->message, sizeof(f->message), "%sHTTP status %d",
				 f->stage == STAGE_ROLE_NAME && reply->http_status == 404 ?
				 "the instance has no role, " : "", reply->http_status);
		return reply->http_status >= 500 || reply->http_status == 429 ? EO_UNANSWERED : EO_DENIED;
	}
	if (f->stage == STAGE_TOKEN)
		return read_plain(f, f->metadata_token, sizeof(f->metadata_token), "token");
	if (f->stage == STAGE_ROLE_NAME)
		return read_plain(f, f->role_name, sizeof(f->role_name), "name of a role");
	if (f->stage == STAGE_REGION)
	{
		status = read_plain(f, f->next.region, sizeof(f->next.region), "name of a region");
		if (status == EO_OK && !eo_endpoint_is_region(f->next.region))
		{
			strlcpy(f->message, "the answer is not the name of a region", sizeof(f->message));
			return EO_INVALID;
		}
		return status;
	}
	/* has_secret_reply allows to write to the body. */
	return eo_identity_read_json((char *) reply->body, reply->body_len, &f->next, f->message);
}

/* EO_CONFLICT: the request must be signed again. */
static EoStatus
read_sts_reply(EoFetch *f)
{
	EoStsReply	reply = {.http_status = f->transfer.reply.http_status,
		.text = (char *) f->transfer.reply.body,.len = f->transfer.reply.body_len
	};
	EoStatus	status = f->stage == STAGE_CALLER ?
	eo_identity_read_caller(&reply, &f->result.caller, f->message) :
	eo_identity_read_role(&reply, f->stage == STAGE_WEB_IDENTITY, &f->next, f->message);

	return must_resign(f, reply.skewed) ? EO_CONFLICT : status;
}

/* The first line of a reply, which becomes part of a header or of a URL. */
static EoStatus
read_plain(EoFetch *f, char *to, size_t size, const char *what)
{
	const char *text = f->transfer.reply.body;
	size_t		len = strcspn(text, "\r\n");

	if (len > 0 && len < size &&
		strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+=,.@-/~") >= len)
	{
		memcpy(to, text, len);
		to[len] = '\0';
		return EO_OK;
	}
	snprintf(f->message, sizeof(f->message), "the answer is not the %s", what);
	return EO_INVALID;
}

/* The stage has succeeded: begin the next one, or end. */
static void
go_on(EoFetch *f)
{
	switch (f->stage)
	{
		case STAGE_TOKEN:
			begin_stage(f, f->wish->region_only ? STAGE_REGION : STAGE_ROLE_NAME);
			return;
		case STAGE_ROLE_NAME:
			begin_stage(f, STAGE_CREDENTIALS);
			return;
		case STAGE_CALLER:
			end(f, EO_OK);
			return;
		case STAGE_ROLE:
			f->role++;
			break;
		default:
			break;
	}
	f->result.identity = f->next;
	if (f->next.expires_s != 0 && is_skewed(f))
		f->result.identity.expires_s -= f->skew_s;
	assume_next_role(f);
}

static void
assume_next_role(EoFetch *f)
{
	if (f->role < f->plan.nroles)
		begin_stage(f, STAGE_ROLE);
	else
		end(f, EO_OK);
}

static void
end(EoFetch *f, EoStatus status)
{
	Stage		stage = f->stage;

	eo_http_finish(&f->transfer);
	f->in_flight = false;
	f->result.status = status;
	f->stage = STAGE_ENDED;
	if (status == EO_OK)
		return;
	if (stage == STAGE_CALLER)
		strlcpy(f->result.failure, f->message, sizeof(f->result.failure));
	else
		snprintf(f->result.failure, sizeof(f->result.failure), "%s%s: %s", f->plan.source,
				 stage == STAGE_ROLE ? ", assuming a role" : "", f->message);
	eo_crypto_wipe(&f->result.identity, sizeof(f->result.identity));
}
