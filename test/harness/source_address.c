/*-------------------------------------------------------------------------
 *
 * source_address.c
 *		LD_PRELOAD shim: connections to 127.0.0.1 come from SOURCE_ADDRESS.
 *
 * Several clusters share one proxy.  A cluster that is started with this library has
 * an address of its own in 127.0.0.0/8, so that the proxy's log says which cluster a
 * request is from.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef int (*ConnectFunction) (int, const struct sockaddr *, socklen_t);

int
connect(int fd, const struct sockaddr *address, socklen_t length)
{
	static ConnectFunction next;
	const char *source = getenv("SOURCE_ADDRESS");
	struct sockaddr_in to;
	struct sockaddr_in from = {.sin_family = AF_INET};

	if (next == NULL)
		next = (ConnectFunction) dlsym(RTLD_NEXT, "connect");
	if (source != NULL && address->sa_family == AF_INET && length >= sizeof(to))
	{
		memcpy(&to, address, sizeof(to));
		if (to.sin_addr.s_addr == htonl(INADDR_LOOPBACK) &&
			inet_pton(AF_INET, source, &from.sin_addr) == 1)
			(void) bind(fd, (struct sockaddr *) &from, sizeof(from));
	}
	return next(fd, address, length);
}
