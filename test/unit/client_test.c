/*
 * client_test.c
 *	  When a Date header moves the clock.
 */
#include "dynamodb/client.h"
#include "unit.h"

#define NOW_S INT64_C(1780000000)

/* The headers are taken to be the middle of their second. */
#define NOW_MS (NOW_S * 1000 + 500)

int64_t
eo_clock_wall_ms(void)
{
	return NOW_MS;
}

static void
test_learning(void)
{
	EoClient	client = {.region = NULL};

	ok(eo_client_now_ms(&client) == NOW_MS, "at first, the local time is used");
	eo_client_learn_clock(&client, NOW_S + 360, NOW_MS);
	ok(client.clock_offset_ms == 0 && !client.clock_known, "one odd date moves nothing");
	eo_client_learn_clock(&client, NOW_S, NOW_MS);
	ok(client.clock_offset_ms == 0 && client.clock_known, "one that agrees confirms the offset");
	eo_client_learn_clock(&client, NOW_S + 360, NOW_MS);
	ok(client.clock_offset_ms == 0, "an odd date now and then moves nothing");
	eo_client_learn_clock(&client, NOW_S + 361, NOW_MS);
	ok(client.clock_offset_ms == 361000, "two in a row do");
	ok(eo_client_now_ms(&client) == NOW_MS + 361000, "and the service's time is used");
	eo_client_learn_clock(&client, NOW_S + 100, NOW_MS);
	eo_client_learn_clock(&client, NOW_S + 200, NOW_MS);
	ok(client.clock_offset_ms == 361000, "two that differ do not");
	eo_client_learn_clock(&client, NOW_S + 360, NOW_MS);
	ok(client.clock_offset_ms == 361000, "a second's difference is none");
	eo_client_learn_clock(&client, NOW_S - 2000, NOW_MS);
	eo_client_learn_clock(&client, NOW_S - 2000, NOW_MS);
	ok(client.clock_offset_ms == -2000000, "the clock can be moved back");
}

static void
test_correcting(void)
{
	EoClient	client = {.region = NULL};

	ok(!eo_client_correct_clock(&client, NOW_S + 30, NOW_MS) && client.clock_offset_ms == 0 &&
	   !client.clock_known, "half a minute is not why a signature was refused");
	ok(eo_client_correct_clock(&client, NOW_S + 31, NOW_MS) && client.clock_offset_ms == 31000 &&
	   client.clock_known, "more may be, and is believed at once");
	ok(!eo_client_correct_clock(&client, NOW_S + 31, NOW_MS), "but it cannot be the reason again");
	ok(eo_client_correct_clock(&client, NOW_S - 31, NOW_MS) && client.clock_offset_ms == -31000,
	   "in the other direction, too");
}

int
main(void)
{
	test_learning();
	test_correcting();
	return done();
}
