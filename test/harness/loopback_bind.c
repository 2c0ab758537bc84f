/*-------------------------------------------------------------------------
 *
 * loopback_bind.c
 *		LD_PRELOAD shim: a bind() to the wildcard address binds to loopback.
 *
 * DynamoDB Local has no option for the address it listens on and takes every
 * one.  A test engine that checks no signature must not be reachable from
 * outside the machine, so the harness starts it with this library preloaded.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

typedef int (*BindFunction) (int, const struct sockaddr *, socklen_t);

int
bind(int fd, const struct sockaddr *address, socklen_t length)
{
	static BindFunction next;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (next == NULL)
		next = (BindFunction) dlsym(RTLD_NEXT, "bind");

	if (address->sa_family == AF_INET && length >= sizeof(v4))
	{
		memcpy(&v4, address, sizeof(v4));
		if (v4.sin_addr.s_addr == htonl(INADDR_ANY))
			v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return next(fd, (struct sockaddr *) &v4, sizeof(v4));
	}
	if (address->sa_family == AF_INET6 && length >= sizeof(v6))
	{
		memcpy(&v6, address, sizeof(v6));

		/* The JVM uses one socket for both families: name loopback in IPv4. */
		if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr))
			inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6.sin6_addr);
		return next(fd, (struct sockaddr *) &v6, sizeof(v6));
	}
	return next(fd, address, length);
}
