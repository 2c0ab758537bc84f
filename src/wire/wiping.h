/*-------------------------------------------------------------------------
 *
 * wiping.h
 *	  malloc() and its like, wiping memory when it is freed; and registers.
 *
 * For a library that copies secrets and takes functions to allocate memory with.  What
 * these functions return may also be freed with free().
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_WIPING_H
#define EO_DYNAMODB_WIPING_H

#include <stddef.h>

extern void *eo_wiping_malloc(size_t size);
extern void *eo_wiping_calloc(size_t n, size_t size);
extern void *eo_wiping_realloc(void *p, size_t size);
extern char *eo_wiping_strdup(const char *s);
extern void eo_wiping_free(void *p);

/* Wipe len bytes at p, which may be NULL if len is 0, and the vector registers. */
extern void eo_wiping_clear(void *p, size_t len);

/*
 * Wipe the vector registers.  They have what was copied or compared last, and are in a
 * core dump, too.
 */
extern void eo_wiping_clear_registers(void);

#endif							/* EO_DYNAMODB_WIPING_H */
