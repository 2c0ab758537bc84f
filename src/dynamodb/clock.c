/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The two clocks of the machine.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/clock.h"

#include <time.h>

int64_t
eo_clock_monotonic_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t
eo_clock_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
