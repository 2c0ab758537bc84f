/*-------------------------------------------------------------------------
 *
 * points.h
 *	  What points.c and kept.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef POINTS_H
#define POINTS_H

#include "postgres.h"

typedef enum Kind
{
	NOTHING,
	MEMORY,						/* of PostgreSQL */
	HEAP,						/* malloc() in our code, libcurl, json-c, OpenSSL */
	LOST,						/* a reply of DynamoDB, whose request was carried out */
	UNSENT,						/* a connection to DynamoDB */
	ROOM,						/* an entry in shared memory */
	DESCRIPTOR
} Kind;

typedef enum Process
{
	SESSION,
	WORKER,
	LAUNCHER
} Process;

typedef struct Points
{
	volatile Kind armed;
	volatile int64 fail_at;
	volatile bool fail_all;		/* all from the n-th on */
	volatile int64 passed;
} Points;

/* What a process has, in bytes and numbers. */
typedef struct Kept
{
	int64		memory;			/* of PostgreSQL */
	int64		heap;
	int64		descriptors;
} Kept;

/* Mapped by the postmaster before it has children, which share it. */
typedef struct Shared
{
	Points		worker;
	Points		launcher;
	volatile bool hurried;		/* see __wrap_eo_database_started() */

	/* Written by the worker between two rounds. */
	volatile int worker_pid;
	volatile int64 rounds;
	Kept		kept;
} Shared;

extern Shared *shared;

extern Process this_process(void);

#endif							/* POINTS_H */
