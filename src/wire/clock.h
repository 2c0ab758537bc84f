/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The clocks of the machine.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_CLOCK_H
#define EO_WIRE_CLOCK_H

#include <stdint.h>

/* Microseconds of CLOCK_MONOTONIC: for deadlines and durations. */
extern int64_t eo_clock_monotonic_us(void);

/*
 * Microseconds since the machine was started, suspension included.  All processes
 * read the same clock, and nobody can set it.
 */
extern int64_t eo_clock_steady_us(void);

/*
 * The host's time, which may be wrong and may be set at any time, minus that of the
 * steady clock.
 */
extern int64_t eo_clock_host_offset_us(void);

#endif							/* EO_WIRE_CLOCK_H */
