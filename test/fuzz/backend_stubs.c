/*
 * backend_stubs.c
 *	  As much of a PostgreSQL backend as server/answer.c and server/store.c need to make
 *	  a write and to judge its answer: memory contexts, and nothing else.  Whatever else
 *	  they call is not to be reached here, and ends the process.
 */
#include "postgres.h"

#include "common/hmac.h"
#include "server/credentials.h"
#include "server/guc.h"
#include "server/options.h"
#include "server/stats.h"
#include "server/text.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#undef malloc
#undef free

typedef struct Chunk
{
	struct Chunk *next;
	int64		data[];
} Chunk;

/* A context of its own for each answer; they have no children here. */
typedef struct Context
{
	MemoryContextData base;
	MemoryContextCallback *callbacks;
	Chunk	   *chunks;
} Context;

static Context top;

MemoryContext CurrentMemoryContext = &top.base;
MemoryContext TopMemoryContext = &top.base;
MemoryContext TopTransactionContext = &top.base;
bool		eo_guc_log_requests = false;
const EoCallObserver eo_stats_observer;

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name, Size min, Size init, Size max)
{
	(void) parent, (void) name, (void) min, (void) init, (void) max;
	return calloc(1, sizeof(Context));
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	Context    *c = (Context *) context;
	Chunk	   *chunk = calloc(1, sizeof(Chunk) + size);

	chunk->next = c->chunks;
	c->chunks = chunk;
	return chunk->data;
}

char *
MemoryContextStrdup(MemoryContext context, const char *string)
{
	return strcpy(MemoryContextAllocZero(context, strlen(string) + 1), string);
}

void
MemoryContextRegisterResetCallback(MemoryContext context, MemoryContextCallback *callback)
{
	Context    *c = (Context *) context;

	callback->next = c->callbacks;
	c->callbacks = callback;
}

void
MemoryContextDelete(MemoryContext context)
{
	Context    *c = (Context *) context;

	for (MemoryContextCallback *cb = c->callbacks; cb != NULL; cb = cb->next)
		cb->func(cb->arg);
	while (c->chunks != NULL)
	{
		Chunk	   *chunk = c->chunks;

		c->chunks = chunk->next;
		free(chunk);
	}
	free(c);
}

/* ----- not to be reached ----- */

#define UNREACHED(type, name, parameters) \
	extern type name parameters; \
	type name parameters \
	{ \
		abort(); \
	}

#pragma clang diagnostic ignored "-Wunused-parameter"
#pragma clang diagnostic ignored "-Wmissing-noreturn"
/* *INDENT-OFF* */
UNREACHED(void, MemoryContextSetParent, (MemoryContext c, MemoryContext p))
UNREACHED(char *, pstrdup, (const char *s))
UNREACHED(bool, errstart, (int level, const char *domain))
UNREACHED(bool, errstart_cold, (int level, const char *domain))
UNREACHED(void, errfinish, (const char *file, int line, const char *function))
UNREACHED(int, errcode, (int code))
UNREACHED(int, errmsg, (const char *format,...))
UNREACHED(int, errdetail, (const char *format,...))
UNREACHED(int, errdetail_internal, (const char *format,...))
UNREACHED(int, errhint, (const char *format,...))
UNREACHED(int, errhidestmt, (bool hide))
UNREACHED(HTAB *, hash_create, (const char *name, long n, const HASHCTL *ctl, int flags))
UNREACHED(void *, hash_search, (HTAB *table, const void *key, HASHACTION action, bool *found))
UNREACHED(pg_hmac_ctx *, pg_hmac_create, (pg_cryptohash_type type))
UNREACHED(int, pg_hmac_init, (pg_hmac_ctx * ctx, const uint8 *key, size_t len))
UNREACHED(int, pg_hmac_update, (pg_hmac_ctx * ctx, const uint8 *data, size_t len))
UNREACHED(int, pg_hmac_final, (pg_hmac_ctx * ctx, uint8 *dest, size_t len))
UNREACHED(void, pg_hmac_free, (pg_hmac_ctx * ctx))
UNREACHED(bool, pg_strong_random, (void *buf, size_t len))
UNREACHED(void, eo_credentials_await, (EoClient *client, int64 deadline_us))
UNREACHED(void, eo_credentials_close, (EoClient *client))
UNREACHED(const char *, eo_credentials_open, (const EoServer *server, EoClient *client))
UNREACHED(const EoCredentialRef *, eo_credentials_ref, (const EoClient *client))
UNREACHED(EoServer *, eo_options_lookup, (const char *name))
UNREACHED(int64, eo_guc_hurried_us, (int64 us))
UNREACHED(TimestampTz, GetCurrentTimestamp, (void))
UNREACHED(char *, eo_text_to_utf8, (const char *s))
/* *INDENT-ON* */

size_t
strlcpy(char *to, const char *from, size_t size)
{
	size_t		len = strlen(from);

	if (size > 0)
	{
		size_t		n = len < size ? len : size - 1;

		memcpy(to, from, n);
		to[n] = '\0';
	}
	return len;
}

int
pg_vsnprintf(char *to, size_t size, const char *format, va_list args)
{
#undef vsnprintf
	return vsnprintf(to, size, format, args);
}

int
pg_snprintf(char *to, size_t size, const char *format,...)
{
	va_list		args;
	int			len;

	va_start(args, format);
	len = pg_vsnprintf(to, size, format, args);
	va_end(args);
	return len;
}

EoStats *
eo_stats_of(Oid serverid, const char *name)
{
	(void) serverid, (void) name;
	abort();
}
