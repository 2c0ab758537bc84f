/*-------------------------------------------------------------------------
 *
 * moment.h
 *	  A moment of the monotonic clock, as people read it.
 *
 *	  Shared memory keeps moments of the monotonic clock, which nobody sets.  What a
 *	  view or a message shows of them is computed against the clock of the day at that
 *	  time, so it moves by as much as that clock is set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_MOMENT_H
#define EO_SERVER_MOMENT_H

#include "postgres.h"

#include "utils/timestamp.h"
#include "wire/clock.h"

/* us as eo_clock_monotonic_us() gave it. */
static inline TimestampTz
eo_moment_timestamp(int64 us)
{
	return GetCurrentTimestamp() - (eo_clock_monotonic_us() - us);
}

#endif
