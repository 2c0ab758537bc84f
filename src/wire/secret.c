/*-------------------------------------------------------------------------
 *
 * secret.c
 *	  Memory for secrets: kept out of core dumps, and wiped when it is freed.
 *
 * The kernel leaves whole pages out of a core dump, so each secret has pages of its
 * own.  There are a few for each server that a process uses.  A forked process
 * inherits the pages and their exclusion.  Where the system cannot exclude pages,
 * secrets are in a core dump as everything else is.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/secret.h"

#include <string.h>
#include <sys/mman.h>

#include "wire/crypto.h"
#include "wire/wiping.h"

/* Precedes a secret in its first page, and keeps it aligned for any type. */
typedef union Head
{
	size_t		size;			/* of the mapping */
	char		room[16];
} Head;

void *
eo_secret_alloc(size_t len)
{
	size_t		size = sizeof(Head) + len;
	Head	   *head = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (head == MAP_FAILED)
		return NULL;
#ifdef MADV_DONTDUMP
	(void) madvise(head, size, MADV_DONTDUMP);
#endif
	head->size = size;
	return head + 1;
}

char *
eo_secret_copy(const char *s)
{
	size_t		size = strlen(s) + 1;
	char	   *copy = eo_secret_alloc(size);

	return copy != NULL ? memcpy(copy, s, size) : NULL;
}

void
eo_secret_free(void *p)
{
	Head	   *head = p;
	size_t		size;

	if (p == NULL)
		return;
	head--;
	size = head->size;
	eo_crypto_wipe(head, size);
	eo_wiping_clear_registers();
	(void) munmap(head, size);
}
