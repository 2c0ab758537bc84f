/*-------------------------------------------------------------------------
 *
 * slow_names.c
 *		LD_PRELOAD shim: names below slow.test are 127.0.0.1, once a file is gone.
 *
 * While the file exists that SLOW_NAMES names, looking up such a name takes as long as
 * it does with a name server that does not answer.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DOMAIN ".slow.test"

static int
is_slow(const char *node)
{
	size_t		len = node != NULL ? strlen(node) : 0;

	return len > strlen(DOMAIN) && strcmp(node + len - strlen(DOMAIN), DOMAIN) == 0;
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	static int	(*real) (const char *, const char *, const struct addrinfo *, struct addrinfo **);
	const char *file = getenv("SLOW_NAMES");

	if (real == NULL)
		*(void **) &real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (is_slow(node))
	{
		struct timespec pause = {.tv_nsec = 2000000};

		while (file != NULL && access(file, F_OK) == 0)
			nanosleep(&pause, NULL);
		node = "127.0.0.1";
	}
	return real(node, service, hints, result);
}
