/*
 * client_test.c
 *	  The deadline of a call, and when a Date header moves the clock.
 */
#include "wire/client.h"
#include "wire/clock.h"
#include "unit.h"

#define NOW_S INT64_C(1780000000)

#define US INT64_C(1000000)

/* How long the machine has been up.  The headers are the middle of their second. */
#define UP_US (1000 * US)

/* The offset of a service whose clock is so many seconds ahead of NOW_S. */
#define OFFSET(s) ((NOW_S + (s)) * US + US / 2 - UP_US)

static int64_t host_us = OFFSET(0);

int64_t
eo_clock_steady_us(void)
{
	return UP_US;
}

int64_t
eo_clock_monotonic_us(void)
{
	return UP_US;
}

int64_t
eo_clock_host_offset_us(void)
{
	return host_us;
}

static int64_t
ahead_s(const EoClient *client)
{
	return (client->clock.offset_us - OFFSET(0)) / US;
}

static EoClient
known(int64_t seconds)
{
	EoClient	client = {.region = NULL};

	client.clock.state = EO_CLOCK_KNOWN;
	client.clock.offset_us = OFFSET(seconds);
	client.clock.host_us = host_us;
	return client;
}

static void
test_deadline(void)
{
	EoClient	client = {.request_timeout_ms = 5000,.waited_us = 2 * US};

	ok(eo_client_deadline_us(&client) == UP_US + 3 * US,
	   "what opening the client has taken is part of the timeout of its first call");
	ok(eo_client_deadline_us(&client) == UP_US + 5 * US, "but not of the next one");
}

static void
test_first_contact(void)
{
	EoClient	client = {.region = NULL};
	EoReadings	readings = {.n = 0};

	ok(eo_client_signing_s(&client) == NOW_S, "at first, requests are signed by the local time");
	ok(!eo_client_knows_clock(&client), "which is not believed");
	eo_client_learn_clock(&client, NOW_S, UP_US, 0);
	eo_client_learn_clock(&client, NOW_S, UP_US, 0);
	ok(client.clock.state == EO_CLOCK_UNKNOWN, "nothing is learnt in passing");
	ok(!eo_client_take_reading(&client, &readings, OFFSET(0)) && !eo_client_knows_clock(&client),
	   "one reading is not enough, though it agrees with the local time");
	ok(eo_client_take_reading(&client, &readings, OFFSET(1)) && eo_client_knows_clock(&client) &&
	   client.clock.news, "a second one that agrees is");
	ok(ahead_s(&client) == 0, "the local time is more exact than both");

	client = (EoClient)
	{
		.region = NULL
	};
	ok(!eo_client_take_reading(&client, &readings, OFFSET(240)) &&
	   eo_client_take_reading(&client, &readings, OFFSET(242)) && ahead_s(&client) == 242,
	   "two that agree on another time set it");
	ok(eo_client_now_ms(&client) == (NOW_S + 242) * 1000 + 500, "and the service's time is used");
	ok(eo_client_seconds_ahead(client.clock.offset_us) == 242, "which is so far ahead");
}

static void
test_odd_readings(void)
{
	EoClient	client = {.region = NULL};
	EoReadings	readings = {.n = 0};

	ok(!eo_client_take_reading(&client, &readings, OFFSET(3600)) &&
	   !eo_client_take_reading(&client, &readings, OFFSET(0)) &&
	   eo_client_take_reading(&client, &readings, OFFSET(0)) && ahead_s(&client) == 0,
	   "the first was odd: the third decides");
	client.clock.state = EO_CLOCK_UNKNOWN;
	ok(!eo_client_take_reading(&client, &readings, OFFSET(-240)) &&
	   !eo_client_take_reading(&client, &readings, OFFSET(0)) &&
	   eo_client_take_reading(&client, &readings, OFFSET(-240)) && ahead_s(&client) == -240,
	   "the second was odd: the third decides");
	client.clock.state = EO_CLOCK_UNKNOWN;
	ok(!eo_client_take_reading(&client, &readings, OFFSET(0)) &&
	   !eo_client_take_reading(&client, &readings, OFFSET(3)) &&
	   !eo_client_take_reading(&client, &readings, OFFSET(6)) && readings.n == EO_MAX_READINGS &&
	   client.clock.state == EO_CLOCK_UNKNOWN, "three that differ decide nothing");
}

static void
test_learning(void)
{
	EoClient	client = known(0);

	eo_client_learn_clock(&client, NOW_S + 360, UP_US, 0);
	ok(ahead_s(&client) == 0, "one odd date moves nothing");
	eo_client_learn_clock(&client, NOW_S, UP_US, 0);
	ok(ahead_s(&client) == 0, "one that agrees confirms the offset");
	eo_client_learn_clock(&client, NOW_S + 360, UP_US, 0);
	ok(ahead_s(&client) == 0 && !client.clock.news, "an odd date now and then moves nothing");
	eo_client_learn_clock(&client, NOW_S + 361, UP_US, 0);
	ok(ahead_s(&client) == 361 && client.clock.news, "two in a row do, which others are told");
	ok(eo_client_now_ms(&client) == (NOW_S + 361) * 1000 + 500, "and the service's time is used");
	eo_client_learn_clock(&client, NOW_S + 100, UP_US, 0);
	eo_client_learn_clock(&client, NOW_S + 200, UP_US, 0);
	ok(ahead_s(&client) == 361, "two that differ do not");
	eo_client_learn_clock(&client, NOW_S + 360, UP_US, 0);
	ok(ahead_s(&client) == 361, "a second's difference is none");
	eo_client_learn_clock(&client, NOW_S - 2000, UP_US, 0);
	eo_client_learn_clock(&client, NOW_S - 2000, UP_US, 0);
	ok(ahead_s(&client) == -2000, "the clock can be moved back");
	eo_client_learn_clock(&client, NOW_S, UP_US, 0);
	eo_client_learn_clock(&client, NOW_S + 1, UP_US, 0);
	ok(ahead_s(&client) == 0, "and to the local time, which is more exact than both dates");
	eo_client_learn_clock(&client, NOW_S - 8, UP_US, 9 * US);
	eo_client_learn_clock(&client, NOW_S - 8, UP_US, 9 * US);
	ok(ahead_s(&client) == 0, "an answer that took long may have been dated when it was asked for");
	eo_client_learn_clock(&client, NOW_S + 8, UP_US, 9 * US);
	eo_client_learn_clock(&client, NOW_S + 8, UP_US, 9 * US);
	ok(ahead_s(&client) == 8, "but not after it has come");
}

static void
test_correcting(void)
{
	EoClient	client = known(0);

	ok(!eo_client_correct_clock(&client, NOW_S + 30, UP_US) && ahead_s(&client) == 0 &&
	   eo_client_knows_clock(&client), "half a minute is not why a signature was refused");
	ok(eo_client_correct_clock(&client, NOW_S + 31, UP_US) && ahead_s(&client) == 31,
	   "more may be, and is learnt at once");
	ok(eo_client_signing_s(&client) == NOW_S + 31, "to sign by");
	ok(!eo_client_knows_clock(&client), "but it is one header, and nothing else is believed of it");
	eo_client_learn_clock(&client, NOW_S + 31, UP_US, 0);
	ok(!eo_client_knows_clock(&client), "nor by the reply to what is signed again");
	ok(!eo_client_correct_clock(&client, NOW_S + 31, UP_US), "it cannot be the reason again");
	ok(eo_client_correct_clock(&client, NOW_S - 31, UP_US) && ahead_s(&client) == -31,
	   "in the other direction, too");
	client.clock.state = EO_CLOCK_UNKNOWN;
	ok(!eo_client_correct_clock(&client, NOW_S + 30, UP_US) &&
	   eo_client_correct_clock(&client, NOW_S + 400, UP_US) && ahead_s(&client) == 400,
	   "a clock that is not known is compared by the local time");
}

static void
test_setting_the_host(void)
{
	EoClient	client = known(5);

	host_us += 240 * US;
	ok(!eo_client_knows_clock(&client), "the host's clock was set: ask again");
	ok(eo_client_now_ms(&client) == (NOW_S + 5) * 1000 + 500, "the service's time has not moved with it");
	ok(!eo_client_adopt_clock(&client, OFFSET(6), OFFSET(0)) && ahead_s(&client) == 5,
	   "what others knew before is not adopted");
	ok(eo_client_adopt_clock(&client, OFFSET(6), host_us) && eo_client_knows_clock(&client) &&
	   ahead_s(&client) == 6, "what others have found since is");
	host_us += US;
	ok(eo_client_knows_clock(&client), "a second is nothing");
	host_us = OFFSET(0);
}

static void
test_adopting(void)
{
	EoClient	client = {.region = NULL};

	ok(eo_client_adopt_clock(&client, OFFSET(7), host_us) && eo_client_knows_clock(&client) &&
	   ahead_s(&client) == 7 && !client.clock.news, "what others know is adopted, and no news");
	eo_client_learn_clock(&client, NOW_S + 100, UP_US, 0);
	ok(eo_client_adopt_clock(&client, OFFSET(7), host_us) && ahead_s(&client) == 7, "the same again changes nothing");
	eo_client_learn_clock(&client, NOW_S + 100, UP_US, 0);
	ok(ahead_s(&client) == 100, "nor does it keep the own replies from correcting the clock");
	ok(eo_client_adopt_clock(&client, OFFSET(200), host_us) && ahead_s(&client) == 200, "another clock can be followed");
	(void) eo_client_correct_clock(&client, NOW_S + 600, UP_US);
	ok(!eo_client_adopt_clock(&client, OFFSET(200), host_us) && !eo_client_knows_clock(&client) &&
	   ahead_s(&client) == 600, "what a refusal contradicts is not adopted");
	ok(eo_client_adopt_clock(&client, OFFSET(601), host_us) && eo_client_knows_clock(&client) &&
	   ahead_s(&client) == 601, "what agrees with the refusal is");
}

int
main(void)
{
	test_deadline();
	test_first_contact();
	test_odd_readings();
	test_learning();
	test_correcting();
	test_setting_the_host();
	test_adopting();
	return done();
}
