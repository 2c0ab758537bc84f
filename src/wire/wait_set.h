/*-------------------------------------------------------------------------
 *
 * wait_set.h
 *	  What a process waits for: its latch, the postmaster, and its sockets.
 *
 * All but the first function are called when it has succeeded.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_WAIT_SET_H
#define EO_WIRE_WAIT_SET_H

#include "storage/latch.h"

/*
 * Make the set of this process.  Sockets count as one event, WL_SOCKET_READABLE.  Raises 53000
 * if there are too many descriptors, 53200 if there is no memory; then nothing is left open.
 */
extern WaitEventSet *eo_wait_set_open(void);

/*
 * As socket() and close(), for the connections of this process; -1 if there are too many
 * descriptors.  They are counted with PostgreSQL's limit of open files.
 */
extern int	eo_wait_set_socket(int family, int type, int protocol);
extern int	eo_wait_set_close(int fd);

/* Wait for a socket, which is known from an earlier call or not.  Returns false if that fails. */
extern bool eo_wait_set_watch(int fd, bool is_known, bool readable, bool writable);
extern void eo_wait_set_forget(int fd);

typedef struct EoReadySocket
{
	int			fd;
	bool		readable;		/* or its other end is closed */
	bool		writable;
	bool		failed;
} EoReadySocket;

/* Fill in which sockets are ready, at most max.  Does not wait. */
extern int	eo_wait_set_ready(EoReadySocket *ready, int max);

#endif							/* EO_WIRE_WAIT_SET_H */
