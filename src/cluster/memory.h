/*-------------------------------------------------------------------------
 *
 * memory.h
 *	  Shared memory that begins anew with every start of the server, and with every
 *	  restart after a crash.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_MEMORY_H
#define EO_CLUSTER_MEMORY_H

#include "postgres.h"

/* claim_file.c makes it: it is zero, *place points to it, and begin() may fill it in. */
typedef struct EoMemory
{
	const char *name;
	Size		size;
	void	  **place;
	void		(*begin) (void);	/* NULL: zero is right */
} EoMemory;

#endif							/* EO_CLUSTER_MEMORY_H */
