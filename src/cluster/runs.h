/*-------------------------------------------------------------------------
 *
 * runs.h
 *	  The runs of the server: which transaction ids each may have given out again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_RUNS_H
#define EO_CLUSTER_RUNS_H

#include "postgres.h"

#include "wire/hex.h"

/* Runs that are carried on. */
#define EO_MAX_RUNS 128

/*
 * A run of the server in which a life was minted, or the present one.  Those without a life
 * count for the next one in the list.
 */
typedef struct EoRun
{
	uint8		id[EO_UUID_LEN];
	uint64		floor;
	uint64		start;			/* UINT64_MAX: not noted */
} EoRun;

/* A part of the claim file. */
typedef struct EoRuns
{
	EoRun		runs[EO_MAX_RUNS];	/* the last one is the present one */
	uint32		n;
	bool		minted;			/* in the present run */
	uint64		xid_start;		/* of the present run alone; 0: not noted yet */
} EoRuns;

/* In the startup hook: begin the list in this memory, and put those of the old file before. */
extern void eo_runs_begin(EoRuns *memory);
extern void eo_runs_adopt(const EoRuns *old);

/* A life was minted in this run. */
extern void eo_runs_minted(void);

/* A random number for each start. */
extern const uint8 *eo_runs_present(void);

/*
 * The next transaction id when recovery had ended: this start gives out none below.  The
 * launcher notes it before there is a worker; a later one does not count.  UINT64_MAX:
 * not noted yet.
 */
extern void eo_runs_note_start(uint64 xid);
extern uint64 eo_runs_start(void);

/*
 * The lowest floor and start of the runs since that one, as far as they are known: see
 * runs.c.  UINT64_MAX: there is none.
 */
extern void eo_runs_since(const uint8 *run, uint64 *floor, uint64 *start);

#endif							/* EO_CLUSTER_RUNS_H */
