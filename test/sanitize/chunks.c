/*-------------------------------------------------------------------------
 *
 * chunks.c
 *	  Red zones around PostgreSQL's chunks of memory, for AddressSanitizer.
 *
 * PostgreSQL cuts its chunks from blocks of malloc(), so AddressSanitizer knows of the
 * blocks only.  This file is linked into the sanitized extension.  It replaces the
 * functions of the usual kind of memory context (AllocSet), in the whole server: a chunk
 * gets a red zone after it, and is poisoned once it is freed.
 *
 * PostgreSQL's own code is not instrumented, but what it has the C library do with
 * memory (memcpy(), strlen() and so on) is checked.
 *
 * From PostgreSQL 16 on these functions cannot be reached, and chunks have no red zones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fmgr.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM < 160000

#define RED_ZONE 16

/* What stands before each chunk: its size, and its context. */
#define HEADER 16

/* A chunk above this has a block of its own, which free() poisons. */
#define MAX_POISONED 8192

static MemoryContextMethods real;

static Size
room_of(MemoryContext context, void *p)
{
	return real.get_chunk_space(context, p) - HEADER;
}

static void *
alloc(MemoryContext context, Size size)
{
	void	   *p = real.alloc(context, size + RED_ZONE);

	if (p != NULL)
	{
		__asan_unpoison_memory_region(p, size);
		__asan_poison_memory_region((char *) p + size, room_of(context, p) - size);
	}
	return p;
}

static void
free_chunk(MemoryContext context, void *p)
{
	Size		room = room_of(context, p);

	__asan_unpoison_memory_region(p, room);
	real.free_p(context, p);
	if (room <= MAX_POISONED)
		__asan_poison_memory_region(p, room);
}

/* PostgreSQL's own function would write into a new chunk that is still poisoned. */
static void *
realloc_chunk(MemoryContext context, void *p, Size size)
{
	Size		room = room_of(context, p);
	void	   *moved;

	__asan_unpoison_memory_region(p, room);
	if (room > MAX_POISONED)
	{
		moved = real.realloc(context, p, size + RED_ZONE);
		if (moved == NULL)
			return NULL;
		__asan_unpoison_memory_region(moved, size);
		__asan_poison_memory_region((char *) moved + size, room_of(context, moved) - size);
		return moved;
	}
	moved = alloc(context, size);
	if (moved == NULL)
		return NULL;
	memcpy(moved, p, Min(room, size));
	free_chunk(context, p);
	return moved;
}

/* In the postmaster, when the extension is loaded. */
__attribute__((constructor))
static void
replace(void)
{
	MemoryContextMethods *methods = (MemoryContextMethods *) TopMemoryContext->methods;
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	begin = (uintptr_t) methods & ~(page - 1);
	uintptr_t	end = ((uintptr_t) (methods + 1) + page - 1) & ~(page - 1);

	/* The linker has made the table read-only. */
	if (mprotect((void *) begin, end - begin, PROT_READ | PROT_WRITE) != 0)
		elog(FATAL, "mprotect: %m");
	real = *methods;
	methods->alloc = alloc;
	methods->free_p = free_chunk;
	methods->realloc = realloc_chunk;
}

#endif

PG_FUNCTION_INFO_V1(eo_sanitize_overrun);

/* For the test of the sanitizer: a byte after a chunk of PostgreSQL's is written. */
Datum
eo_sanitize_overrun(PG_FUNCTION_ARGS)
{
	char	   *p = palloc(PG_GETARG_INT32(0));

	((volatile char *) p)[PG_GETARG_INT32(0)] = 1;
	PG_RETURN_VOID();
}
