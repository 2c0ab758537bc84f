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

extern int64_t eo_clock_monotonic_us(void);
extern int64_t eo_clock_wall_ms(void);	/* epoch milliseconds, local clock */

#endif							/* EO_DYNAMODB_CLOCK_H */
