/*
 * backend_stubs.c
 *	  As much of a PostgreSQL backend as server/answer.c and server/store_record.c need to make
 *	  a write and to judge its answer: memory contexts, and nothing else.  Whatever else
 *	  they call is not to be reached here, and ends the process.
 */
#include "postgres.h"

#include "server/guc.h"
#include "server/stats.h"
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
bool		eo_guc_log_requests = false;

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
UNREACHED(bool, errstart, (int level, const char *domain))
UNREACHED(bool, errstart_cold, (int level, const char *domain))
UNREACHED(void, errfinish, (const char *file, int line, const char *function))
UNREACHED(int, errmsg, (const char *format,...))
UNREACHED(int, errhidestmt, (bool hide))
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
