/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The clocks of the machine.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/clock.h"

#include <time.h>

#ifdef CLOCK_BOOTTIME
#define STEADY_CLOCK CLOCK_BOOTTIME
#else
#define STEADY_CLOCK CLOCK_MONOTONIC
#endif

/* The two clocks are read one after the other, again if that took longer than this. */
#define READING_US 20
#define MAX_READINGS 10

static int64_t read_us(clockid_t clock);

int64_t
eo_clock_monotonic_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

int64_t
eo_clock_steady_us(void)
{
	return read_us(STEADY_CLOCK);
}

/* Of several readings the one that was interrupted least counts. */
int64_t
eo_clock_host_offset_us(void)
{
	int64_t		best_us = INT64_MAX;
	int64_t		offset_us = 0;

	for (int i = 0; i < MAX_READINGS && best_us > READING_US; i++)
	{
		int64_t		before_us = read_us(STEADY_CLOCK);
		int64_t		host_us = read_us(CLOCK_REALTIME);
		int64_t		took_us = read_us(STEADY_CLOCK) - before_us;

		if (took_us >= best_us)
			continue;
		best_us = took_us;
		offset_us = host_us - before_us - took_us / 2;
	}
	return offset_us;
}

static int64_t
read_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}
