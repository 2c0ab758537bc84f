/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The two clocks of the machine.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_CLOCK_H
#define EO_DYNAMODB_CLOCK_H

#include <stdint.h>

/* Microseconds of CLOCK_MONOTONIC: for deadlines and durations. */
extern int64_t eo_clock_monotonic_us(void);

/* Epoch milliseconds of the local clock. */
extern int64_t eo_clock_wall_ms(void);

#endif							/* EO_DYNAMODB_CLOCK_H */
