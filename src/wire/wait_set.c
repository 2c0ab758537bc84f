/*-------------------------------------------------------------------------
 *
 * wait_set.c
 *	  What a process waits for: its latch, the postmaster, and its sockets.
 *
 * A WaitEventSet cannot forget a socket.  So it has one descriptor for all of them, an epoll
 * descriptor, whose sockets come and go as libcurl says (http.c).
 *
 * libcurl watches a connection while it has a transfer, and mostly for the reply alone.  So
 * a connection stays registered between two transfers, which saves two system calls for
 * each.  If something happens to it there, it is registered no more: libcurl looks at
 * the connection before it uses it again.  Sockets that libcurl makes for itself are
 * closed without our knowledge, and come and go at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compat.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "wire/wait_set.h"

/* Descriptors from here on are registered and removed each time. */
#define MAX_FD 1024

/* Flags of a descriptor that eo_wait_set_socket() has made. */
#define OURS 0x01
#define REGISTERED 0x02			/* with the epoll descriptor */
#define WATCHED 0x04			/* libcurl wants to hear of it */
#define READABLE 0x08
#define WRITABLE 0x10

static int	epoll_fd;
static unsigned char known_fds[MAX_FD];
static int	nregistered;		/* of all sockets */
static int	latest_fd;			/* watched last */

WaitEventSet *
eo_wait_set_open(void)
{
	WaitEventSet *volatile waits = NULL;

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("exactonce could not open a descriptor to wait on"),
				 errdetail("There are too many open files in this process."),
				 errhint("Raise max_files_per_process, or close foreign connections.")));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
	{
		ReleaseExternalFD();
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("exactonce could not open a descriptor to wait on: %m")));
	}
	PG_TRY();
	{
		waits = eo_compat_create_wait_event_set(3);
		AddWaitEventToSet(waits, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		AddWaitEventToSet(waits, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
		AddWaitEventToSet(waits, WL_SOCKET_READABLE, epoll_fd, NULL, NULL);
	}
	PG_CATCH();
	{
		close(epoll_fd);
		ReleaseExternalFD();
		PG_RE_THROW();
	}
	PG_END_TRY();
	return waits;
}

/* The flags of such a descriptor; NULL: it is another. */
static unsigned char *
known(int fd)
{
	return fd >= 0 && fd < MAX_FD && (known_fds[fd] & OURS) != 0 ? &known_fds[fd] : NULL;
}

/* A descriptor of that number is closed, and with that has left the epoll descriptor. */
static void
forget_number(int fd)
{
	unsigned char *k = known(fd);

	if (k == NULL)
		return;
	if ((*k & REGISTERED) != 0)
		nregistered--;
	*k = 0;
}

int
eo_wait_set_socket(int family, int type, int protocol)
{
	int			fd;

	if (!AcquireExternalFD())
		return -1;
	fd = socket(family, type | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		ReleaseExternalFD();
	forget_number(fd);
	if (fd >= 0 && fd < MAX_FD)
		known_fds[fd] = OURS;
	return fd;
}

int
eo_wait_set_close(int fd)
{
	int			rc;

	forget_number(fd);
	rc = close(fd);
	ReleaseExternalFD();
	return rc;
}

static bool
control(int operation, int fd, bool readable, bool writable)
{
	struct epoll_event ev = {0};

	ev.data.fd = fd;
	ev.events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);
	if (epoll_ctl(epoll_fd, operation, fd, &ev) != 0)
		return false;
	nregistered += operation == EPOLL_CTL_ADD;
	return true;
}

/* One that is closed already is still counted: too many do no harm, too few would. */
static void
remove_socket(int fd)
{
	if (control(EPOLL_CTL_DEL, fd, false, false))
		nregistered--;
}

bool
eo_wait_set_watch(int fd, bool is_known, bool readable, bool writable)
{
	unsigned char *k = known(fd);
	unsigned char wanted = OURS | REGISTERED | WATCHED | (readable ? READABLE : 0) |
	(writable ? WRITABLE : 0);

	latest_fd = fd;
	if (k == NULL)
		return control(is_known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, readable, writable);
	if ((*k | WATCHED) != wanted &&
		!control((*k & REGISTERED) != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, readable, writable))
		return false;
	*k = wanted;
	return true;
}

void
eo_wait_set_forget(int fd)
{
	unsigned char *k = known(fd);

	if (k != NULL)
		*k &= ~WATCHED;
	else
		remove_socket(fd);
}

int
eo_wait_set_ready(EoReadySocket *ready, int max)
{
	struct epoll_event events[64];
	unsigned char *k = known(latest_fd);
	int			n;
	int			nready = 0;

	/* The usual case, and it is clear what has happened. */
	if (nregistered == 1 && k != NULL && *k == (OURS | REGISTERED | WATCHED | READABLE) && max > 0)
	{
		ready[0] = (EoReadySocket)
		{
			.fd = latest_fd,.readable = true
		};
		return 1;
	}
	n = epoll_wait(epoll_fd, events, Min(max, (int) lengthof(events)), 0);
	for (int i = 0; i < n; i++)
	{
		int			fd = events[i].data.fd;

		k = known(fd);
		if (k != NULL && (*k & WATCHED) == 0)
		{
			remove_socket(fd);
			*k = OURS;
			continue;
		}
		ready[nready].fd = fd;
		ready[nready].readable = (events[i].events & (EPOLLIN | EPOLLHUP)) != 0;
		ready[nready].writable = (events[i].events & EPOLLOUT) != 0;
		ready[nready++].failed = (events[i].events & EPOLLERR) != 0;
	}
	return nready;
}
