/*-------------------------------------------------------------------------
 *
 * wiping.c
 *	  malloc() and its like, wiping memory when it is freed; and registers.
 *
 * The size of a block is what malloc_usable_size() says, so blocks have no head of
 * their own and can be mixed with those of malloc().
 *
 *-------------------------------------------------------------------------
 */
#include "wire/wiping.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

void *
eo_wiping_malloc(size_t size)
{
	return malloc(size);
}

void *
eo_wiping_calloc(size_t n, size_t size)
{
	return calloc(n, size);
}

/* realloc() would leave the old block as it is when it moves it. */
void *
eo_wiping_realloc(void *p, size_t size)
{
	size_t		has = p != NULL ? malloc_usable_size(p) : 0;
	void	   *moved;

	if (p != NULL && size <= has && size > has / 2)
		return p;
	moved = malloc(size > 0 ? size : 1);
	if (moved == NULL)
		return NULL;
	if (p != NULL)
		memcpy(moved, p, has < size ? has : size);
	eo_wiping_free(p);
	return moved;
}

char *
eo_wiping_strdup(const char *s)
{
	size_t		size = strlen(s) + 1;
	char	   *copy = malloc(size);

	return copy != NULL ? memcpy(copy, s, size) : NULL;
}

void
eo_wiping_free(void *p)
{
	if (p != NULL)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

void
eo_wiping_clear(void *p, size_t len)
{
	if (len > 0)
		explicit_bzero(p, len);
	eo_wiping_clear_registers();
}

/*
 * The C library copies and compares by vector registers.  Those from 16 on are used by
 * little else, so a secret can stay there for as long as a process is idle.  A caller
 * expects nothing of these registers (System V ABI, AMD64, 3.2.1).
 */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((noinline, target("avx512f")))
static void
clear_zmm(void)
{
	__asm__ volatile ("vzeroall\n\t"
					  "vpxord %%zmm16, %%zmm16, %%zmm16\n\t"
					  "vpxord %%zmm17, %%zmm17, %%zmm17\n\t"
					  "vpxord %%zmm18, %%zmm18, %%zmm18\n\t"
					  "vpxord %%zmm19, %%zmm19, %%zmm19\n\t"
					  "vpxord %%zmm20, %%zmm20, %%zmm20\n\t"
					  "vpxord %%zmm21, %%zmm21, %%zmm21\n\t"
					  "vpxord %%zmm22, %%zmm22, %%zmm22\n\t"
					  "vpxord %%zmm23, %%zmm23, %%zmm23\n\t"
					  "vpxord %%zmm24, %%zmm24, %%zmm24\n\t"
					  "vpxord %%zmm25, %%zmm25, %%zmm25\n\t"
					  "vpxord %%zmm26, %%zmm26, %%zmm26\n\t"
					  "vpxord %%zmm27, %%zmm27, %%zmm27\n\t"
					  "vpxord %%zmm28, %%zmm28, %%zmm28\n\t"
					  "vpxord %%zmm29, %%zmm29, %%zmm29\n\t"
					  "vpxord %%zmm30, %%zmm30, %%zmm30\n\t"
					  "vpxord %%zmm31, %%zmm31, %%zmm31":::"memory");
}

__attribute__((noinline, target("avx")))
static void
clear_ymm(void)
{
	__asm__ volatile ("vzeroall":::"memory");
}
#endif

void
eo_wiping_clear_registers(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
	if (__builtin_cpu_supports("avx512f"))
		clear_zmm();
	else if (__builtin_cpu_supports("avx"))
		clear_ymm();
#endif
}
