/*-------------------------------------------------------------------------
 *
 * wait_set.c
 *	  What a process waits for: its latch, the postmaster, and its sockets.
 *
 * A WaitEventSet cannot forget a socket.  So it has one descriptor for all of them, an epoll
 * descriptor, whose sockets come and go as libcurl says (http.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "compat.h"
#include "dynamodb/wait_set.h"
#include "miscadmin.h"
#include "storage/fd.h"

static int	epoll_fd;

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

bool
eo_wait_set_watch(int fd, bool known, bool readable, bool writable)
{
	struct epoll_event ev = {0};

	ev.data.fd = fd;
	ev.events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);
	return epoll_ctl(epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) == 0;
}

void
eo_wait_set_forget(int fd)
{
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int
eo_wait_set_ready(EoReadySocket *ready, int max)
{
	struct epoll_event events[64];
	int			n = epoll_wait(epoll_fd, events, Min(max, (int) lengthof(events)), 0);

	for (int i = 0; i < n; i++)
	{
		ready[i].fd = events[i].data.fd;
		ready[i].readable = (events[i].events & (EPOLLIN | EPOLLHUP)) != 0;
		ready[i].writable = (events[i].events & EPOLLOUT) != 0;
		ready[i].failed = (events[i].events & EPOLLERR) != 0;
	}
	return Max(n, 0);
}
