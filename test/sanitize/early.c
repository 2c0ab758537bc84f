/*-------------------------------------------------------------------------
 *
 * early.c
 *	  AddressSanitizer is set up before the first call of bindtextdomain().
 *
 * Preloaded into the server after libasan.  Libraries of the server call
 * bindtextdomain() when they are loaded, which allocates memory under a lock of the C
 * library.  AddressSanitizer sets itself up at the first allocation, and takes the same
 * lock if it looks for a function in vain.
 *
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>
#include <stdlib.h>

extern char *bindtextdomain(const char *domain, const char *folder);

char *
bindtextdomain(const char *domain, const char *folder)
{
	static char *(*real) (const char *, const char *);

	if (real == NULL)
	{
		void	   *volatile memory = malloc(1);

		free(memory);
		*(void **) &real = dlsym(RTLD_NEXT, "bindtextdomain");
	}
	return real(domain, folder);
}
