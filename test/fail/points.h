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
extern int64 mapped_bytes;		/* by this process */

extern Process this_process(void);

/* Is the next point of this kind one that is to fail? */
extern bool due(Kind kind);

/* A point of kind MEMORY: raises an error if it is to fail. */
extern void memory_point(void);

/* A function of PostgreSQL that allocates: it raises an error instead. */
#define MEMORY_POINT(type, name, parameters, arguments) \
	extern type __real_##name parameters; \
	extern type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		memory_point(); \
		return __real_##name arguments; \
	}

/* Such a function without a result. */
#define MEMORY_POINT_VOID(type, name, parameters, arguments) \
	extern void __real_##name parameters; \
	extern void __wrap_##name parameters; \
	void __wrap_##name parameters \
	{ \
		memory_point(); \
		__real_##name arguments; \
	}

#endif							/* POINTS_H */
