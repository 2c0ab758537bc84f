/*-------------------------------------------------------------------------
 *
 * secret.h
 *	  Memory for secrets: kept out of core dumps, and wiped when it is freed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_SECRET_H
#define EO_WIRE_SECRET_H

#include <stddef.h>

/* Zeroed memory, to be freed with eo_secret_free(); NULL: there is none. */
extern void *eo_secret_alloc(size_t len);

/* A copy of a string, to be freed with eo_secret_free(); NULL: there is no memory. */
extern char *eo_secret_copy(const char *s);

/* Wipe and free; p may be NULL. */
extern void eo_secret_free(void *p);

#endif							/* EO_WIRE_SECRET_H */
