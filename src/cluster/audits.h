/*-------------------------------------------------------------------------
 *
 * audits.h
 *	  The audits that go on in the cluster, for the view exactonce_audits.
 *
 * Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_AUDITS_H
#define EO_CLUSTER_AUDITS_H

#include "postgres.h"

/* An audit that goes on. */
typedef struct EoAudit
{
	int			pid;			/* 0: unused */
	Oid			dboid;
	Oid			serverid;
	int64		items;			/* of the table that were read */
	int64		findings;
	int64		since_us;		/* monotonic clock */
} EoAudit;

/* Bytes of shared memory; and set them up, in the startup hook. */
extern Size eo_audits_shmem_size(void);
extern void eo_audits_shmem_init(void);

/*
 * Enter an audit of this process; returns its number.  If many go on, it gets none (-1),
 * which the functions below ignore.
 */
extern int	eo_audits_begin(Oid serverid);
extern void eo_audits_note(int number, int64 items, int64 findings);
extern void eo_audits_end(int number);

/* Walk through the audits of the cluster. */
extern bool eo_audits_walk(uint32 *cursor, EoAudit *audit);

#endif							/* EO_CLUSTER_AUDITS_H */
