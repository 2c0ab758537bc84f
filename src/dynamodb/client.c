/*-------------------------------------------------------------------------
 *
 * client.c
 *	  The service's clock, as the replies to one client show it.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/client.h"

#include "dynamodb/clock.h"

/*
 * A Date header has whole seconds, so it is taken to be the middle of its
 * second.  Two instants that differ by no more than this count as the same.
 */
#define CLOCK_TOLERANCE_MS 1500

/* The service refuses signatures about five minutes off, some engines sooner. */
#define SKEW_SUSPICIOUS_MS 30000

static int64_t offset_seen(int64_t date_s, int64_t wall_ms);
static bool is_within(int64_t difference_ms, int64_t tolerance_ms);

int64_t
eo_client_now_ms(const EoClient *client)
{
	return eo_clock_wall_ms() + client->clock_offset_ms;
}

void
eo_client_learn_clock(EoClient *client, int64_t date_s, int64_t wall_ms)
{
	int64_t		seen = offset_seen(date_s, wall_ms);

	if (is_within(seen - client->clock_offset_ms, CLOCK_TOLERANCE_MS))
	{
		client->clock_candidate = false;
		client->clock_known = true;
	}
	else if (client->clock_candidate &&
			 is_within(seen - client->clock_candidate_ms, CLOCK_TOLERANCE_MS))
	{
		client->clock_offset_ms = seen;
		client->clock_candidate = false;
		client->clock_known = true;
	}
	else
	{
		client->clock_candidate_ms = seen;
		client->clock_candidate = true;
	}
}

bool
eo_client_correct_clock(EoClient *client, int64_t date_s, int64_t wall_ms)
{
	int64_t		seen = offset_seen(date_s, wall_ms);

	if (is_within(seen - client->clock_offset_ms, SKEW_SUSPICIOUS_MS))
		return false;
	client->clock_offset_ms = seen;
	client->clock_known = true;
	return true;
}

/* The service's time minus the local time, by one Date header. */
static int64_t
offset_seen(int64_t date_s, int64_t wall_ms)
{
	return date_s * 1000 + 500 - wall_ms;
}

static bool
is_within(int64_t difference_ms, int64_t tolerance_ms)
{
	return difference_ms >= -tolerance_ms && difference_ms <= tolerance_ms;
}
